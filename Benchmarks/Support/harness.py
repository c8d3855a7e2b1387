"""What the measuring scripts share: tools, builds, servers and measured processes. Standard library only."""

import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
peers_directory = os.path.join(here, ".build", "peers")

# The Debian package of each tool, for the message that says what is missing. Nothing is ever installed from here.
packages = {
    "nginx": "nginx-light",
    "gcc": "gcc",
    "openssl": "openssl",
    "curl": "curl",
    "taskset": "util-linux",
    "valgrind": "valgrind",
    "perf": "linux-perf",
    "strace": "strace",
    "strip": "binutils",
    "go": "golang-go",
    "wrk": "wrk",
    "rsvg-convert": "librsvg2-bin",
    "python3-urllib3": "python3-urllib3",
    "curl/curl.h": "libcurl4-openssl-dev",
    "openssl/ssl.h": "libssl-dev",
}


def terminate(*_):
    # Whoever ends a gate may say so twice, and what is cleaned up meanwhile is to be cleaned up in full.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.exit(143)


# What ends a gate for its time ends it like this: servers and files, which may lie in memory, go all the same.
signal.signal(signal.SIGTERM, terminate)
# A terminal that is closed; nohup has it ignored.
if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
    signal.signal(signal.SIGHUP, terminate)


class Failure(Exception):
    """Something that makes a measurement impossible; its text says what to do."""


def has(tool):
    """Whether a program is in the path, a header is where the C compiler looks, or a package of Python is there."""
    if tool.startswith("python3-"):
        probe = subprocess.run(["/usr/bin/python3", "-c", f"import {tool[8:]}"], stderr=subprocess.DEVNULL)
        return probe.returncode == 0
    if not tool.endswith(".h"):
        return shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin") is not None
    if shutil.which("gcc") is None:
        return False
    probe = subprocess.run(
        ["gcc", "-E", "-xc", "-"], input=f"#include <{tool}>\n".encode(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return probe.returncode == 0


def require(*tools):
    """Fails with one command that installs whatever is missing."""
    missing = [tool for tool in tools if not has(tool)]
    if missing:
        wanted = " ".join(sorted({packages.get(tool, tool) for tool in missing}))
        raise Failure(f"missing: {', '.join(missing)}. Install with: apt-get install -y {wanted}")


def build(skip=False, package=here):
    """Builds our programs in release; returns the directory of them."""
    command = ["swift", "build", "-c", "release", "--package-path", package]
    if package == here:
        # Where the tool is built from the same modules; what was planned for that is no plan for these.
        command += ["--scratch-path", os.path.join(os.path.dirname(here), ".build-release"), "--disable-build-manifest-caching"]
    if not skip:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise Failure(f"the build failed:\n{done.stdout[-4000:]}")
    return subprocess.run(command + ["--show-bin-path"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def build_peer(name, *libraries):
    """Compiles Peers/…/NAME.c unless that has been done since it or the header of all changed; returns the program."""
    sources = [os.path.join(here, "Peers", folder, name + ".c") for folder in os.listdir(os.path.join(here, "Peers"))]
    source = next(path for path in sources if os.path.exists(path))
    program = os.path.join(peers_directory, name)
    changed = max(os.path.getmtime(path) for path in (source, os.path.join(here, "Peers", "measure.h")))
    if not os.path.exists(program) or os.path.getmtime(program) < changed:
        os.makedirs(peers_directory, exist_ok=True)
        if subprocess.run(["gcc", "-O2", "-o", program, source] + [f"-l{library}" for library in libraries]).returncode != 0:
            raise Failure(f"gcc could not build {name}; its messages are above")
    return program


def allow_descriptors(count):
    """So many for us and for what we start, if that is allowed. No more: valgrind is at a loss with the billion of some containers."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(count, hard)), hard))


def processors():
    """The client's processor and the server's; the same one if there is no other."""
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[0], allowed[1] if len(allowed) > 1 else allowed[0]


def free_ports(count):
    """Ports that nobody listens on now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports


def certificate(directory):
    """An ECDSA P-256 certificate for localhost and 127.0.0.1, its key, and the root that signed it."""

    def make(name, *options):
        paths = os.path.join(directory, name + ".pem"), os.path.join(directory, name + "-key.pem")
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
             "-out", paths[0], "-keyout", paths[1], *options], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return paths

    root, root_key = make("root", "-subj", "/CN=Benchmark root", "-addext", "keyUsage=critical,keyCertSign")
    leaf = make(
        "certificate", "-CA", root, "-CAkey", root_key, "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
        "-addext", "basicConstraints=critical,CA:FALSE", "-addext", "keyUsage=critical,digitalSignature",
        "-addext", "extendedKeyUsage=serverAuth")
    return (*leaf, root)


def large_file(directory, size):
    """A file of bytes that do not repeat within a page, on memory if it has the room."""
    path = os.path.join(directory, f"body-{size}")
    block = os.urandom(1 << 20)
    with open(path, "wb") as file:
        left = size
        while left > 0:
            left -= file.write(block[: min(left, len(block))])
    return path


def scratch_directory(bytes_needed):
    """A temporary directory on tmpfs if that has the room, so that no disk is measured; else an ordinary one."""
    parents = ["/dev/shm", tempfile.gettempdir(), "/var/tmp"]
    for parent in parents:
        if not os.access(parent, os.W_OK) or shutil.disk_usage(parent).free < bytes_needed + (64 << 20):
            continue
        directory = tempfile.mkdtemp(prefix="lupine-bench-", dir=parent)
        # nginx's worker is another user when a master started by root starts it.
        os.chmod(directory, 0o755)
        kind = subprocess.run(["stat", "-f", "-c", "%T", directory], stdout=subprocess.PIPE, text=True).stdout.strip()
        if kind not in ("tmpfs", "ramfs"):
            print("note: no tmpfs with enough room; the files of transfers are on a disk", file=sys.stderr)
        return directory
    raise Failure(f"none of {', '.join(parents)} has room for {bytes_needed >> 20} MiB of bodies: set LUPINE_LARGE_BODY_BYTES to less than "
                  f"{bytes_needed // 2}")


class KeptPages:
    """Free memory for new files, so much that a virtual machine's host does not take back.

    The host of some machines takes free memory in blocks of 2 MiB (page reporting of virtio-balloon), and then its fetching of pages is measured: up
    to a second for a GiB, of whoever writes a new file. Here every other page stays in use, so that there are no such blocks, and the system gives
    out the pages between them first.
    """

    def __init__(self, directory, size):
        self.path = None
        wanted = size * 5 // 4
        if shutil.disk_usage(directory).free < 2 * wanted + size or available_memory() < 3 * wanted + size:
            print("note: too little memory to keep pages for new files; what the host of a virtual machine does is measured too", file=sys.stderr)
            return
        self.path = os.path.join(directory, "kept-pages")
        given = self.path + ".given"
        page = os.urandom(os.sysconf("SC_PAGE_SIZE"))
        with open(self.path, "wb", buffering=0) as kept, open(given, "wb", buffering=0) as free:
            for _ in range(wanted // len(page)):
                kept.write(page)
                free.write(page)
        os.remove(given)

    def release(self):
        if self.path:
            os.remove(self.path)


def available_memory():
    """Bytes that programs may still have."""
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable:"))


nginx_configuration = """
daemon off; master_process off; pid {directory}/nginx.pid; error_log stderr warn; {limit}
events {{ worker_connections 16384; }}
http {{
  access_log off; default_type application/octet-stream; {temporary}
  sendfile on; tcp_nodelay on; client_max_body_size 0; client_body_in_file_only off;
  keepalive_requests 1000000000; keepalive_timeout 3600s; reset_timedout_connection on;
  server {{
    listen 127.0.0.1:{plain} backlog=4096;
    listen 127.0.0.1:{tls} ssl backlog=4096;
    ssl_certificate {certificate}; ssl_certificate_key {key};
    ssl_protocols TLSv1.3; ssl_conf_command Ciphersuites TLS_AES_256_GCM_SHA384; ssl_ecdh_curve X25519;
    ssl_session_tickets on; ssl_session_cache builtin:1000; ssl_session_timeout 1h;
    root {root};
    location = /hello {{ default_type text/plain; return 200 "Hello, world!"; }}
    location = /json {{ default_type application/json; return 200 '{{"greeting":"Hello, world!","count":13}}'; }}
    location = /compressed {{ default_type application/json; add_header Content-Encoding gzip; alias {root}/compressed.gz; }}
    location = /session {{ default_type text/plain; return 200 "$ssl_session_reused session..\\n"; }}
  }}
}}
"""


class Server:
    """A server process pinned to the server's processor; ended by `stop`, by its own id."""

    def __init__(self, command, **options):
        pinned = ["taskset", "-c", str(processors()[1])] + command
        self.process = subprocess.Popen(pinned, **options)

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Nginx(Server):
    """nginx with a configuration of its own: `/hello` (13 bytes), `/session`, and the files below `root`."""

    def __init__(self, directory, root):
        require("nginx", "openssl", "taskset")
        self.certificate, self.key, self.authority = certificate(directory)
        temporary = " ".join(
            f"{name}_temp_path {directory}/{name};" for name in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"])
        self.configuration = os.path.join(directory, "nginx.conf")
        program = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
        # Between the look for free ports and nginx's bind somebody may take one of them: then it is given others.
        for is_last in [False, False, True]:
            ports = free_ports(2)
            with open(self.configuration, "w") as file:
                file.write(nginx_configuration.format(
                    directory=directory, plain=ports[0], tls=ports[1], certificate=self.certificate, key=self.key,
                    root=root, temporary=temporary, limit="worker_rlimit_nofile 16384;"))
            super().__init__([program, "-e", "stderr", "-p", directory, "-c", self.configuration])
            try:
                wait_until_listening(self.process, ports)
                break
            except BaseException as failure:
                # Nobody else knows of it yet, whoever ends us meanwhile.
                self.stop()
                if is_last or not isinstance(failure, Failure):
                    raise
        self.plain = f"http://127.0.0.1:{ports[0]}"
        self.tls = f"https://localhost:{ports[1]}"


class Sink(Server):
    """Takes bodies and drops them."""

    def __init__(self, certificate_path, key_path):
        program = build_peer("sink", "ssl", "crypto", "pthread")
        super().__init__([program, certificate_path, key_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            ports = self.process.stdout.readline().split()
            if len(ports) != 2:
                raise Failure("the server that takes bodies did not start; its messages are above")
        except BaseException:
            self.stop()
            raise
        plain, tls = ports
        self.plain = f"http://127.0.0.1:{plain}"
        self.tls = f"https://localhost:{tls}"


def wait_until_listening(process, ports):
    deadline = time.monotonic() + 10
    for port in ports:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise Failure("the server did not start; its messages are above")
                time.sleep(0.02)


def first_line(command, timeout=60):
    """Milliseconds from before a program is started on the client's processor to its first line."""
    pinned = ["taskset", "-c", str(processors()[0])] + [str(word) for word in command]
    began = time.perf_counter()
    process = subprocess.Popen(
        pinned, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ, SWIFT_BACKTRACE="enable=no"))
    line = process.stdout.readline()
    passed = time.perf_counter() - began
    try:
        _, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        # What is measured next is to have the processor for itself.
        process.kill()
        process.wait()
        raise Failure(f"still running after {timeout} s: {' '.join(pinned)}")
    if process.returncode != 0 or not line.startswith("{"):
        raise Failure(f"status {process.returncode} from: {' '.join(pinned)}\n{errors[-2000:]}")
    return passed * 1000


class Others:
    """How many processors other processes kept busy, in user space and in the kernel, between its making and `share`."""

    def __init__(self, *servers):
        self.servers = servers
        self.began, self.busy, self.own = time.monotonic(), self._busy(), self._own()

    @staticmethod
    def _busy():
        with open("/proc/stat") as file:
            user, nice, system = (int(word) for word in file.readline().split()[1:4])
        return (user + nice + system) / os.sysconf("SC_CLK_TCK")

    def _own(self):
        times = os.times()
        total = times.user + times.system + times.children_user + times.children_system
        for server in self.servers:
            with open(f"/proc/{server.process.pid}/stat") as file:
                words = file.read().rpartition(")")[2].split()
            total += (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
        return total

    def share(self):
        passed = max(0.01, time.monotonic() - self.began)
        return max(0.0, (self._busy() - self.busy - self._own() + self.own) / passed)


def client(command, timeout=600, environment=None):
    """Runs a program on the client's processor. Returns the last line of its output read as JSON (empty if it is none), with the
    CPU time of the whole process, start included, as `processMicroseconds`."""
    pinned = ["taskset", "-c", str(processors()[0])] + [str(word) for word in command]
    process = subprocess.Popen(
        pinned, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=dict(os.environ, SWIFT_BACKTRACE="enable=no", **(environment or {})))
    deadline = time.monotonic() + timeout
    # Pipes hold 64 KiB: more than any of our programs says.
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        if time.monotonic() > deadline:
            process.kill()
            os.wait4(process.pid, 0)
            process.returncode = -9
            raise Failure(f"still running after {timeout} s: {' '.join(pinned)}")
        time.sleep(0.005)
    process.returncode = os.waitstatus_to_exitcode(status)
    output, errors = process.stdout.read(), process.stderr.read()
    process.stdout.close()
    process.stderr.close()
    if process.returncode != 0:
        raise Failure(f"status {process.returncode} from: {' '.join(pinned)}\n{errors[-2000:]}")
    lines = output.strip().splitlines()
    result = json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {}
    result["processMicroseconds"] = (usage.ru_utime + usage.ru_stime) * 1e6
    result["errors"] = errors
    result["output"] = output
    return result


def load_average():
    return os.getloadavg()[0]

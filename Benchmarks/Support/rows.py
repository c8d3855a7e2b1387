"""The rows: what is measured, how, and against which budget (design of the project, section "Budgets")."""

import os
import re
import shutil
import subprocess
import tempfile

from harness import Failure, Nginx, Sink, build_peer, client, has, large_file, load_average, processors, require, scratch_directory
from report import Row

GIBI = 1 << 30


class Bench:
    """Servers, programs and sizes of one invocation. Servers start when first needed."""

    def __init__(self, binaries, quick, rounds):
        self.binaries, self.quick = binaries, quick
        self.rounds = rounds or (3 if quick else 5)
        self.size = int(os.environ.get("LUPINE_LARGE_BODY_BYTES", GIBI // 8 if quick else GIBI))
        self.directory = scratch_directory(2 * self.size)
        self._nginx = self._sink = self._body = None

    @property
    def nginx(self):
        self._nginx = self._nginx or Nginx(self.directory, self.directory)
        return self._nginx

    @property
    def sink(self):
        self._sink = self._sink or Sink(self.nginx.certificate, self.nginx.key)
        return self._sink

    @property
    def body(self):
        self._body = self._body or large_file(self.directory, self.size)
        return self._body

    def close(self):
        for server in [self._nginx, self._sink]:
            if server:
                server.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def ours(self, name):
        return os.path.join(self.binaries, name)

    def compare(self, row, ours, peer):
        """Alternates the two; each returns one figure. The first pair only warms caches up."""
        row.load = load_average()
        for index in range(self.rounds + 1):
            pair = ours(), peer()
            if index > 0:
                row.ours.append(pair[0])
                row.peers.append(pair[1])
        return row

    def repeat(self, row, ours, times=1):
        row.load = load_average()
        row.ours = [ours() for _ in range(times)]
        return row


# MARK: GETs


def get(bench, row, mode, connections, tls=False):
    count = (20_000 if bench.quick else 100_000) if connections > 1 else (4_000 if bench.quick else 20_000)
    url = (bench.nginx.tls if tls else bench.nginx.plain) + "/hello"
    authority = ["--ca", bench.nginx.certificate] if tls else []
    peer = build_peer("getloop", "curl")
    return bench.compare(
        row,
        lambda: client([bench.ours("GetLoop"), mode, url, connections, count] + authority)["cpuMicroseconds"],
        lambda: client([peer, url, connections, count] + authority)["cpuMicroseconds"])


def manager(bench, row, connections):
    """A value in JSON, decoded into a type by a manager, beside libcurl, which decodes nothing."""
    count = 20_000 if bench.quick else 100_000
    peer = build_peer("getloop", "curl")
    return bench.compare(
        row,
        lambda: client([bench.ours("ManagerLoop"), bench.nginx.plain, "json", connections, count])["cpuMicroseconds"],
        lambda: client([peer, bench.nginx.plain + "/json", connections, count])["cpuMicroseconds"])


def floor(bench, row, connections):
    """wrk does next to nothing with what it reads: what it costs is what the kernel takes from everybody, so no ratio can fall far below this
    one. On a machine whose kernel is dear it may lie above a budget."""
    require("wrk")
    seconds = 2 if bench.quick else 4
    command = ["wrk", "-t", "1", "-c", connections, "-d", f"{seconds}s", bench.nginx.plain + "/hello"]
    peer = build_peer("getloop", "curl")

    def once():
        result = client(command)
        return result["processMicroseconds"] / int(re.search(r"(\d+) requests in", result["output"]).group(1))

    count = 20_000 if bench.quick else 100_000
    return bench.compare(row, once, lambda: client([peer, bench.nginx.plain + "/hello", connections, count])["cpuMicroseconds"])


def handshake(bench, resumed, program):
    """CPU time of one GET on a TLS connection of its own. The server says whether the session was resumed; the rest is refused."""
    count = 300 if bench.quick else 2_000
    options = [bench.nginx.tls + "/session", 1, count, "--ca", bench.nginx.certificate, "--no-reuse"]
    options += [] if resumed else ["--no-sessions"]
    result = client(program + options)
    if result["resumed"] != (count if resumed else 0):
        raise Failure(f"{program[0]}: {result['resumed']} of {count} handshakes were resumed")
    return result["cpuMicroseconds"]


def handshakes(bench, row, resumed):
    peer = build_peer("getloop", "curl")
    return bench.compare(
        row, lambda: handshake(bench, resumed, [bench.ours("GetLoop"), "callback"]), lambda: handshake(bench, resumed, [peer]))


def resumption_gain(bench, row):
    ours = [bench.ours("GetLoop"), "callback"]
    return bench.compare(row, lambda: handshake(bench, True, ours), lambda: handshake(bench, False, ours))


# MARK: Large bodies


def gib(bench, result):
    """Milliseconds of CPU per GiB, the whole process counted."""
    return result["processMicroseconds"] / 1000 * GIBI / bench.size


def transfer(bench, program, direction, tls, *more):
    body = bench.body
    if direction == "download":
        command = [program, "download", (bench.nginx.tls if tls else bench.nginx.plain) + "/" + os.path.basename(body)]
    else:
        command = [program, "upload", (bench.sink.tls if tls else bench.sink.plain) + "/", body]
    authority = ["--ca", bench.nginx.certificate] if tls else []
    result = client(command + authority + list(more))
    moved = result["received" if direction == "download" else "sent"]
    # A multipart body is a little larger than its file.
    if not bench.size <= moved <= bench.size + 4096:
        raise Failure(f"{program} moved {moved} of {bench.size} bytes")
    return gib(bench, result)


def large(bench, row, direction, tls=False, ours=(), peer=(), program_of_ours="Transfer"):
    program = build_peer("transfer", "curl")
    return bench.compare(
        row, lambda: transfer(bench, bench.ours(program_of_ours), direction, tls, *ours),
        lambda: transfer(bench, program, direction, tls, *peer))


def to_file(bench, row, peer):
    target = os.path.join(bench.directory, "downloaded")
    program = build_peer("transfer", "curl")

    def command_line():
        require("curl")
        url = bench.nginx.plain + "/" + os.path.basename(bench.body)
        return gib(bench, client(["curl", "-s", "-o", target, url]))

    peers = {
        "curl": command_line,
        "libcurl": lambda: transfer(bench, program, "download", False, "--to", target),
        "libcurl-256k": lambda: transfer(bench, program, "download", False, "--to", target, "--buffer", "262144"),
    }

    def fresh(measure):
        # Both write a file that is not there yet: replacing one costs giving its pages back.
        if os.path.exists(target):
            os.remove(target)
        return measure()

    return bench.compare(
        row, lambda: fresh(lambda: transfer(bench, bench.ours("Transfer"), "download", False, "--to", target)),
        lambda: fresh(peers[peer]))


# MARK: System calls and memory


def system_calls(bench, row, mode, connections):
    """Counts N and 2N requests; the difference leaves out the start of the process."""
    count = 2_000 if bench.quick else 10_000
    url = bench.nginx.plain + "/hello"

    def calls(requests):
        command = [bench.ours("GetLoop"), mode, url, str(connections), str(requests)]
        with tempfile.NamedTemporaryFile("r", suffix=".count") as file:
            if has("perf"):
                client(["perf", "stat", "-e", "raw_syscalls:sys_enter", "-x", ",", "-o", file.name, "--"] + command)
                lines = [line for line in file if "sys_enter" in line]
                if lines and lines[0].split(",")[0].isdigit():
                    row.note = "perf stat"
                    return int(lines[0].split(",")[0])
            require("strace")
            row.note = "strace, which slows the client down"
            client(["strace", "-f", "-c", "-qq", "-o", file.name] + command)
            file.seek(0)
            return int([line for line in file if line.strip().endswith("total")][0].split()[3])

    return bench.repeat(row, lambda: (calls(2 * count) - calls(count)) / count, times=1 if bench.quick else 3)


def idle(bench, row, tls):
    count = 1_000 if bench.quick else 10_000
    url = (bench.nginx.tls if tls else bench.nginx.plain) + "/hello"
    authority = ["--ca", bench.nginx.certificate] if tls else []

    def measure():
        result = client([bench.ours("IdleConnections"), url, count] + authority)
        if result["opened"] < 0.8 * count or result["closed"] > 0:
            raise Failure(f"of {count} connections {result['opened']} were opened and {result['closed']} closed")
        row.note = f"{result['opened']} connections; resident: {result['residentBytesPerConnection']:.0f} B each"
        return result["heapBytesPerConnection"]

    return bench.repeat(row, measure)


BIG = ["--buffer", "262144"]
CALLBACKS = ["--callbacks"]

# name: (title, unit, budget, measurement)
rows = {
    "floor-64": ("GET, 64 connections, wrk ÷ libcurl: the floor", "µs", None, lambda b, r: floor(b, r, 64)),
    "floor-1": ("GET, 1 connection, wrk ÷ libcurl: the floor", "µs", None, lambda b, r: floor(b, r, 1)),
    "get-callback-64": ("GET, 64 connections, callbacks ÷ libcurl", "µs", 0.4, lambda b, r: get(b, r, "callback", 64)),
    "get-await-64": ("GET, 64 connections, await ÷ libcurl", "µs", 0.5, lambda b, r: get(b, r, "await", 64)),
    "get-engine-64": (
        "GET, 64 connections, await on the engine's executor ÷ libcurl", "µs", None, lambda b, r: get(b, r, "engine", 64)),
    "get-callback-1": ("GET, 1 connection, callbacks ÷ libcurl", "µs", 0.9, lambda b, r: get(b, r, "callback", 1)),
    "get-await-1": ("GET, 1 connection, await ÷ libcurl", "µs", 0.9, lambda b, r: get(b, r, "await", 1)),
    "get-engine-1": (
        "GET, 1 connection, await on the engine's executor ÷ libcurl", "µs", None, lambda b, r: get(b, r, "engine", 1)),
    "manager-json-64": (
        "GET, 64 connections, JSON decoded by a manager ÷ libcurl, not decoded", "µs", 0.8, lambda b, r: manager(b, r, 64)),
    "tls-callback-64": ("TLS GET, 64 connections, callbacks ÷ libcurl", "µs", 0.5, lambda b, r: get(b, r, "callback", 64, True)),
    "tls-await-64": ("TLS GET, 64 connections, await ÷ libcurl", "µs", 0.5, lambda b, r: get(b, r, "await", 64, True)),
    "tls-await-1": ("TLS GET, 1 connection, await ÷ libcurl", "µs", None, lambda b, r: get(b, r, "await", 1, True)),
    "handshake-full": ("full TLS handshake ÷ libcurl", "µs", 0.9, lambda b, r: handshakes(b, r, False)),
    "handshake-resumed": ("resumed TLS handshake ÷ libcurl", "µs", 0.9, lambda b, r: handshakes(b, r, True)),
    "resumed-vs-full": ("resumed ÷ full handshake, both ours", "µs", 0.6, resumption_gain),
    "download": ("download, discarded ÷ libcurl", "ms/GiB", 0.8, lambda b, r: large(b, r, "download", ours=CALLBACKS)),
    "download-256k": (
        "download, discarded ÷ libcurl, 256 KiB", "ms/GiB", 0.8, lambda b, r: large(b, r, "download", ours=CALLBACKS, peer=BIG)),
    "download-chunks": ("download, chunks awaited ÷ libcurl", "ms/GiB", None, lambda b, r: large(b, r, "download")),
    "download-chunks-256k": (
        "download, chunks awaited ÷ libcurl, 256 KiB", "ms/GiB", None, lambda b, r: large(b, r, "download", peer=BIG)),
    "download-file": ("download to a file ÷ curl -o", "ms/GiB", 0.7, lambda b, r: to_file(b, r, "curl")),
    "download-file-libcurl": ("download to a file ÷ libcurl", "ms/GiB", 0.7, lambda b, r: to_file(b, r, "libcurl")),
    "download-file-256k": ("download to a file ÷ libcurl, 256 KiB", "ms/GiB", None, lambda b, r: to_file(b, r, "libcurl-256k")),
    "download-tls": (
        "TLS download, discarded ÷ libcurl", "ms/GiB", None, lambda b, r: large(b, r, "download", True, ours=CALLBACKS)),
    "download-tls-256k": (
        "TLS download, discarded ÷ libcurl, 256 KiB", "ms/GiB", None,
        lambda b, r: large(b, r, "download", True, ours=CALLBACKS, peer=BIG)),
    "upload": ("upload from a file ÷ libcurl", "ms/GiB", 0.8, lambda b, r: large(b, r, "upload")),
    "upload-256k": ("upload from a file ÷ libcurl, 256 KiB", "ms/GiB", None, lambda b, r: large(b, r, "upload", peer=BIG)),
    "upload-multipart": (
        "upload of a form ÷ libcurl's multipart", "ms/GiB", 0.8,
        lambda b, r: large(b, r, "upload", peer=["--multipart"], program_of_ours="FormUpload")),
    "upload-tls": ("TLS upload from a file ÷ libcurl", "ms/GiB", None, lambda b, r: large(b, r, "upload", True)),
    "syscalls-64": ("system calls per GET, 64 connections", "calls", 2.2, lambda b, r: system_calls(b, r, "callback", 64)),
    "syscalls-await-64": (
        "system calls per GET, 64 connections, await", "calls", 2.2, lambda b, r: system_calls(b, r, "await", 64)),
    "syscalls-engine-1": (
        "system calls per GET, 1 connection, await on the engine's executor", "calls", 4.0, lambda b, r: system_calls(b, r, "engine", 1)),
    "syscalls-1": ("system calls per GET, 1 connection, await", "calls", 4.0, lambda b, r: system_calls(b, r, "await", 1)),
    "idle": ("idle connection, heap in use", "B", 3 * 1024, lambda b, r: idle(b, r, False)),
    "idle-tls": ("idle TLS connection, heap in use", "B", 30 * 1024, lambda b, r: idle(b, r, True)),
}


def measure(bench, name):
    title, unit, budget, function = rows[name]
    return function(bench, Row(name, title, unit, budget))


def machine():
    """One line on what was measured on what."""
    with open("/proc/cpuinfo") as file:
        models = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    libcurl = subprocess.run(["curl-config", "--version"], stdout=subprocess.PIPE, text=True).stdout.strip()
    return f"{models[0] if models else 'unknown processor'}, {os.cpu_count()} CPUs, client on {processors()[0]}, server on " \
           f"{processors()[1]}, {libcurl}"

"""Builds the peers under Peers/ and says how each is called."""

import os
import subprocess

from harness import Failure, build, build_peer, here, peers_directory, require


def go(name):
    """Compiles Peers/Go/NAME unless that has been done since it changed."""
    require("go")
    source = os.path.join(here, "Peers", "Go", name)
    program = os.path.join(peers_directory, "go-" + name)
    if not os.path.exists(program) or os.path.getmtime(program) < os.path.getmtime(os.path.join(source, "main.go")):
        os.makedirs(peers_directory, exist_ok=True)
        # Its cache too stays out of the home of whoever measures.
        done = subprocess.run(["go", "build", "-o", program, "main.go"], cwd=source, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env=dict(os.environ, GOCACHE=os.path.join(peers_directory, "go-cache")))
        if done.returncode != 0:
            raise Failure(f"go build failed:\n{done.stdout[-2000:]}")
    return program


class Peers:
    """Programs of the peers, built when first needed. `skip_build` uses what was built before."""

    def __init__(self, skip_build):
        self.skip_build = skip_build
        self._swift = {}

    def _package(self, name):
        if name not in self._swift:
            self._swift[name] = build(self.skip_build, os.path.join(here, "Peers", name))
        return self._swift[name]

    def program(self, peer, job):
        """The words that call `job` (getloop or transfer) of a peer."""
        if peer == "libcurl":
            return [build_peer(job, "curl")]
        if peer == "Go net/http":
            return [go(job)]
        if peer == "AsyncHTTPClient":
            return [os.path.join(self._package("AsyncHTTPClient"), job)]
        if peer == "URLSession":
            return [os.path.join(self._package("URLSession"), job)]
        if peer == "urllib3" and job == "getloop":
            require("python3-urllib3")
            # The system's Python, which sees the distribution's packages.
            return ["/usr/bin/python3", os.path.join(here, "Peers", "urllib3", "getloop.py")]
        raise Failure(f"{peer} has no {job}")

    def build_all(self):
        """Everything, so that no measurement waits for a compiler."""
        for peer in ["libcurl", "Go net/http", "AsyncHTTPClient", "URLSession"]:
            for job in ["getloop", "transfer"]:
                self.program(peer, job)
        self.program("urllib3", "getloop")
        build_peer("bareloop")
        build_peer("ringloop")
        build_peer("baretransfer")


def without_debugging(program):
    """A copy without what debuggers read: valgrind gives up at some of BoringSSL's."""
    copy = os.path.join(peers_directory, os.path.basename(os.path.dirname(program)) + "-" + os.path.basename(program))
    if not os.path.exists(copy) or os.path.getmtime(copy) < os.path.getmtime(program):
        require("strip")
        subprocess.run(["strip", "--strip-debug", "-o", copy, program], check=True)
    return copy


def shipped_bytes(program):
    """What a program brings along beside the C library, OpenSSL and zlib, which every system has: itself without symbols, and the
    shared libraries that it loads."""
    common = ("libc.so", "libm.so", "libpthread", "libdl", "librt", "ld-linux", "linux-vdso", "libssl", "libcrypto", "libz.", "libgcc_s",
              "libstdc++", "libresolv", "libutil")
    require("strip")
    stripped = os.path.join(peers_directory, "stripped")
    os.makedirs(peers_directory, exist_ok=True)
    subprocess.run(["strip", "-o", stripped, program], check=True)
    total = os.path.getsize(stripped)
    os.remove(stripped)
    listed = subprocess.run(["ldd", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    for line in listed.splitlines():
        words = line.split()
        if len(words) > 2 and words[1] == "=>" and not words[0].startswith(common) and os.path.exists(words[2]):
            total += os.path.getsize(words[2])
    return total

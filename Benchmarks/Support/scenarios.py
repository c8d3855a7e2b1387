"""The scenarios: what each candidate does, and what it is asked for. A candidate is a function that runs once and returns figures."""

import functools
import gzip
import json
import os
import re
import shutil

import counting
import parsers
from harness import (Failure, KeptPages, Nginx, Others, Sink, allow_descriptors, build_peer, client, first_line, large_file, require,
                     scratch_directory)
from peers import shipped_bytes, without_debugging

GIBI = 1 << 30
CALLBACKS, AWAIT, ENGINE, MANAGER = "Lupine, callbacks", "Lupine, await", "Lupine, await on the engine", "Lupine, manager"
LIBCURL, BIG, AHC, URLSESSION, GO, URLLIB3, WRK, CURL, BARE, SPLICE, RING = (
    "libcurl", "libcurl, 256 KiB", "AsyncHTTPClient", "URLSession", "Go net/http", "urllib3", "wrk", "curl",
    "a bare loop", "a bare loop that splices", "a bare loop over io_uring")
MODES = {CALLBACKS: "callback", AWAIT: "await", ENGINE: "engine"}
# Dear candidates send a smaller share of the requests, so that all runs take about as long.
SHARES = {AHC: 0.4, URLSESSION: 0.06, URLLIB3: 0.07, GO: 0.8}


class Bench:
    """Servers, programs and sizes of one invocation, and everything that was measured. Servers start when first needed."""

    def __init__(self, binaries, peers, quick, rounds, skip_build, keeps_pages=True):
        self.binaries, self.peers, self.quick, self.skip_build, self.keeps_pages = binaries, peers, quick, skip_build, keeps_pages
        self.rounds = rounds or (2 if quick else 5)
        self.size = int(os.environ.get("LUPINE_LARGE_BODY_BYTES", GIBI // 16 if quick else GIBI))
        # 10,000 idle connections take as many, of the client and of nginx: a login shell gives 1,024.
        allow_descriptors(16_384)
        self.directory = scratch_directory(2 * self.size)
        self._nginx = self._sink = self._pages = None
        # scenario -> candidate -> figures of each round; scenario -> processors that others kept busy; (scenario, candidate) -> why not; with the
        # candidate None it is true of all of them
        self.samples, self.others, self.failures = {}, {}, {}

    @property
    def nginx(self):
        if not self._nginx:
            path = os.path.join(self.directory, "compressed.gz")
            with open(path, "wb") as file:
                file.write(gzip.compress(compressible(), 6, mtime=0))
            self._nginx = Nginx(self.directory, self.directory)
        return self._nginx

    @property
    def sink(self):
        self._sink = self._sink or Sink(self.nginx.certificate, self.nginx.key)
        return self._sink

    def body(self, size=None):
        path = os.path.join(self.directory, f"body-{size or self.size}")
        return path if os.path.exists(path) else large_file(self.directory, size or self.size)

    def keep_pages(self):
        """New files get memory that is the machine's, until the scenario ends."""
        if self.keeps_pages:
            self._pages = self._pages or KeptPages(self.directory, self.size)

    def close(self):
        for server in [self._nginx, self._sink]:
            if server:
                server.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def ours(self, name):
        return os.path.join(self.binaries, name)

    def candidates(self, scenario):
        """What a scenario compares, and the servers for it; nothing if that breaks, which takes no figures of other scenarios."""
        try:
            return scenarios[scenario][0](self)
        except Exception as failure:
            self.failures[scenario, None] = reason(failure)
            return {}

    def measure(self, scenario, wanted):
        """Alternates the wanted candidates of a scenario; the first round only warms caches up. What fails is left out."""
        rounds = scenarios[scenario][1] and min(scenarios[scenario][1], self.rounds)
        candidates = {name: run for name, run in self.candidates(scenario).items() if name in wanted}
        servers = [server for server in (self._nginx, self._sink) if server]
        others = Others(*servers)
        taken = self.samples.setdefault(scenario, {name: [] for name in candidates})
        for index in range(rounds or self.rounds + 1):
            for name, run in candidates.items():
                if (scenario, name) in self.failures:
                    continue
                try:
                    figures = run()
                # Whatever it is, an answer that cannot be read among it: figures of others are worth more than a traceback.
                except Exception as failure:
                    self.failures[scenario, name] = reason(failure)
                    continue
                if rounds or index > 0:
                    taken[name].append(figures)
        self.others[scenario] = others.share()
        if self._pages:
            self._pages.release()
            self._pages = None


def reason(failure):
    return str(failure) if isinstance(failure, Failure) else f"{type(failure).__name__}: {failure}"


@functools.cache
def compressible():
    """256 KiB of JSON as a service would send it."""
    lines = [json.dumps({"id": index, "name": f"entry {index * 7919 % 10007}", "tags": ["a", "b"], "active": index % 3 == 0})
             for index in range(4_000)]
    return ("[" + ",".join(lines))[: (1 << 18) - 1].encode() + b"]"


# MARK: GETs


def loop_words(bench, candidate, url, connections, count):
    if candidate in MODES:
        return [bench.ours("GetLoop"), MODES[candidate], url, connections, count]
    return bench.peers.program(candidate, "getloop") + [url, connections, count]


def loop_figures(result):
    return {
        "cpu": result["cpuMicroseconds"], "perSecond": result["perSecond"], "peak": result["peakKilobytes"] / 1024,
        "p50": result["p50"], "p99": result["p99"], "p999": result["p999"], "bytes": result["bytes"], "requests": result["requests"],
        "resumed": result["resumed"],
    }


def loop(bench, candidate, url, connections, count, *options):
    count = max(connections, int(count * SHARES.get(candidate, 1)))
    authority = ["--ca", bench.nginx.authority] if url.startswith("https") else []
    return loop_figures(client(loop_words(bench, candidate, url, connections, count) + authority + list(options)))


def wrk(bench, url, connections):
    """wrk does little with what it reads, but asks epoll for writability before each request, and no longer afterwards: two calls more."""
    require("wrk")
    seconds = 1 if bench.quick else 2
    result = client(["wrk", "-t", "1", "-c", connections, "-d", f"{seconds}s", url])
    requests = int(re.search(r"(\d+) requests in", result["output"]).group(1))
    return {"cpu": result["processMicroseconds"] / requests, "perSecond": requests / seconds}


def bare(bench, url, connections, count, program="bareloop"):
    """A loop in C that parses nothing: what it costs is what the kernel takes from everybody."""
    result = client([build_peer(program), url, connections, count])
    return {"cpu": result["cpuMicroseconds"], "perSecond": result["perSecond"]}


def gets(candidates, connections, path="/hello", tls=False, count=40_000, options=(), size=None):
    """GETs over that many connections. With `size`, bodies must have it once decoded."""

    def make(bench):
        target = path(bench) if callable(path) else path
        url = (bench.nginx.tls if tls else bench.nginx.plain) + target
        requests = count // 10 if bench.quick else count

        def once(candidate):
            if candidate == WRK:
                return wrk(bench, url, connections)
            if candidate == BARE:
                return bare(bench, url, connections, requests)
            if candidate == RING:
                return bare(bench, url, connections, requests, "ringloop")
            more = list(options) + (["--decode"] if candidate == LIBCURL and size else [])
            figures = loop(bench, candidate, url, connections, requests, *more)
            if size and figures["bytes"] != size * figures["requests"]:
                raise Failure(f"{candidate} made {figures['bytes']} bytes of {figures['requests']} bodies of {size}")
            return figures

        return {candidate: functools.partial(once, candidate) for candidate in candidates}

    return make


def fresh(connections, candidates):
    """A connection for each GET, beside connections that are kept."""

    def make(bench):
        table = gets(candidates, connections, count=4_000, options=["--no-reuse"])(bench)
        kept = gets(candidates, connections, count=10_000)(bench)
        return table | {candidate + ", kept": run for candidate, run in kept.items()}

    return make


def engines(bench):
    count = 6_000 if bench.quick else 100_000
    words = [bench.ours("GetLoop"), "callback", bench.nginx.plain + "/hello", 64, count, "--engines"]
    return {f"{number} engines": lambda number=number: loop_figures(client(words + [number])) for number in (1, 2)}


def manager(bench):
    count = 6_000 if bench.quick else 40_000

    def ours():
        return {"cpu": client([bench.ours("ManagerLoop"), bench.nginx.plain, "json", 64, count])["cpuMicroseconds"]}

    return {MANAGER: ours, LIBCURL: lambda: loop(bench, LIBCURL, bench.nginx.plain + "/json", 64, count)}


def handshakes(connections, full, resumed):
    """One connection for each GET. The server says whether the session was resumed; a run where it says otherwise is refused."""

    def make(bench):
        count = 200 if bench.quick else 800

        def once(candidate, resumes):
            options = ["--no-reuse"] + ([] if resumes else ["--no-sessions"])
            words = loop_words(bench, candidate, bench.nginx.tls + "/session", connections, count)
            result = client(words + ["--ca", bench.nginx.authority] + options)
            # A ticket serves once, and so some of many at once may find none.
            least = count - 2 if connections == 1 else 0.8 * count
            if not (least <= result["resumed"] <= count if resumes else result["resumed"] == 0):
                raise Failure(f"{candidate}: {result['resumed']} of {count} handshakes were resumed")
            return loop_figures(result)

        table = {f"{candidate}, full": functools.partial(once, candidate, False) for candidate in full}
        return table | {f"{candidate}, resumed": functools.partial(once, candidate, True) for candidate in resumed}

    return make


# MARK: Large bodies


def transfer(bench, words, direction, tls, *more, size=None):
    """Milliseconds of CPU per GiB, the whole process counted, and its peak memory."""
    size = size or bench.size
    body = bench.body(size)
    if direction == "download":
        command = words + [direction, (bench.nginx.tls if tls else bench.nginx.plain) + "/" + os.path.basename(body)]
    else:
        command = words + [direction, (bench.sink.tls if tls else bench.sink.plain) + "/", body]
    authority = ["--ca", bench.nginx.authority] if tls else []
    result = client(command + authority + list(more))
    moved = result["received" if direction == "download" else "sent"]
    # A multipart body is a little larger than its file.
    if not size <= moved <= size + 4096:
        raise Failure(f"{words[0]} moved {moved} of {size} bytes")
    return {
        "cpu": result["processMicroseconds"] / 1000 * GIBI / size, "peak": result["peakKilobytes"] / 1024,
        "perSecond": size / GIBI / result["seconds"],
    }


def transfer_words(bench, candidate):
    if candidate in (CALLBACKS, AWAIT):
        return [bench.ours("Transfer")]
    if candidate == MANAGER:
        return [bench.ours("FormUpload")]
    if candidate in (BARE, SPLICE):
        return [build_peer("baretransfer")]
    return bench.peers.program(LIBCURL if candidate == BIG else candidate, "transfer")


def bodies(candidates, direction, tls=False, options=(), form=False):
    def make(bench):
        target = os.path.join(bench.directory, "downloaded")
        bench.body()
        # Before anything is measured: a server that starts later is taken for another process, and its time for noise.
        bench.sink if direction == "upload" else bench.nginx

        def once(candidate):
            more = list(options)
            if candidate == CALLBACKS and not options:
                more.append("--callbacks")
            if candidate == BIG:
                more += ["--buffer", "262144"]
            if candidate == SPLICE:
                more += ["--splice", "--read", "1048576", "--watermark", "524288"]
            if form and candidate == LIBCURL:
                more.append("--multipart")
            if "--to" in options:
                bench.keep_pages()
                more.append(target)
                # All write a file that is not there yet: replacing one costs giving its pages back.
                if os.path.exists(target):
                    os.remove(target)
            if candidate == CURL:
                require("curl")
                url = bench.nginx.plain + "/" + os.path.basename(bench.body())
                result = client(["curl", "-s", "-o", target, url])
                return {"cpu": result["processMicroseconds"] / 1000 * GIBI / bench.size}
            if "--to" in options:
                at = more.index("--to")
                more = more[:at] + more[at + 1:-1] + ["--to", target]
            # URLSession takes as long for an eighth of an upload as the others for all of it; its start counts for little there.
            size = bench.size // 8 if candidate == URLSESSION and direction == "upload" else None
            return transfer(bench, transfer_words(bench, candidate), direction, tls, *more, size=size)

        return {candidate: functools.partial(once, candidate) for candidate in candidates}

    return make


def growth(bench):
    """Megabytes of peak memory that a large body takes beyond a body of 1 MiB."""

    def grown(*arguments):
        large, small = transfer(bench, *arguments), transfer(bench, *arguments, size=1 << 20)
        if min(large["peak"], small["peak"]) <= 0:
            raise Failure("/proc/self/status does not say VmHWM here, the peak of memory")
        return {"growth": large["peak"] - small["peak"], "peak": large["peak"]}

    target = os.path.join(bench.directory, "downloaded")
    bench.sink
    ours = [bench.ours("Transfer")]
    return {
        "download": lambda: grown(ours, "download", False, "--callbacks"),
        "download to a file": lambda: grown(ours, "download", False, "--to", target),
        "upload of a form": lambda: grown([bench.ours("FormUpload")], "upload", False),
    }


# MARK: Counts, memory, start, parsers


def calls_of(words, count):
    return {"calls": counting.system_calls(lambda requests: words + [requests], count)}


def system_calls(mode, connections):
    def make(bench):
        count = 1_000 if bench.quick else 10_000
        url = bench.nginx.plain + "/hello"

        def once(words):
            return calls_of(words + [url, connections], count)

        return {
            CALLBACKS if mode == "callback" else AWAIT if mode == "await" else ENGINE: lambda: once([bench.ours("GetLoop"), mode]),
            LIBCURL: lambda: once(bench.peers.program(LIBCURL, "getloop")),
        }

    return make


def manager_calls(bench):
    count = 1_000 if bench.quick else 10_000
    words = [bench.ours("ManagerLoop"), bench.nginx.plain, "json", 64]
    return {MANAGER: lambda: calls_of(words, count)}


def counts(bench):
    """Instructions and allocations of a GET at one connection, by valgrind."""
    count = 200 if bench.quick else 500
    url = bench.nginx.plain + "/hello"

    def words_for(candidate, requests):
        words = loop_words(bench, candidate, url, 1, requests)
        return [without_debugging(words[0])] + words[1:] if candidate == AHC else words

    def once(candidate):
        words = functools.partial(words_for, candidate)
        by_phase = counting.difference(counting.instructions, count, words, bench.directory)
        return {"instructions": sum(by_phase.values()), **counting.difference(counting.allocations, count, words, bench.directory)}

    return {candidate: functools.partial(once, candidate) for candidate in (CALLBACKS, AWAIT, LIBCURL, AHC)}


def idle(tls):
    def make(bench):
        url = (bench.nginx.tls if tls else bench.nginx.plain) + "/hello"
        authority = ["--ca", bench.nginx.authority] if tls else []

        def once(count):
            result = client([bench.ours("IdleConnections"), url, count] + authority)
            if result["opened"] < 0.8 * count or result["closed"] > 0:
                raise Failure(f"of {count} connections {result['opened']} were opened and {result['closed']} closed")
            return {
                "heap": result["heapBytesPerConnection"], "resident": result["residentBytesPerConnection"],
                "opened": result["opened"],
            }

        return {CALLBACKS: lambda: once(1_000 if bench.quick else 10_000)}

    return make


def cold(bench):
    """From before the process to the line that it prints after its first response."""
    url = bench.nginx.plain + "/hello"

    def once(candidate):
        runs = [first_line(loop_words(bench, candidate, url, 1, 1) + ["--cold"]) for _ in range(1 if bench.quick else 5)]
        return {"milliseconds": sorted(runs)[len(runs) // 2]}

    return {candidate: functools.partial(once, candidate) for candidate in (CALLBACKS, LIBCURL, AHC, URLSESSION, GO, URLLIB3)}


def sizes(bench):
    def once(candidate):
        return {"megabytes": shipped_bytes(loop_words(bench, candidate, "", 1, 1)[0]) / 1e6}

    return {candidate: functools.partial(once, candidate) for candidate in (CALLBACKS, LIBCURL, AHC, URLSESSION, GO)}


OURS, ALL = [CALLBACKS, AWAIT], [LIBCURL, AHC, URLSESSION, GO, URLLIB3]
MAIN = [LIBCURL, AHC, GO]
LATENCY = ["--latency"]

# name: (maker of candidates, how often each runs at most, if nothing is to be warmed up)
scenarios = {
    "get-1": (gets(OURS + [ENGINE, WRK, BARE] + ALL, 1, count=12_000), None),
    "get-8": (gets(OURS + MAIN, 8), None),
    "get-64": (gets(OURS + [ENGINE, WRK, BARE] + ALL, 64), None),
    "get-512": (gets(OURS + MAIN, 512), None),
    "ring-1": (gets([BARE, RING], 1, count=40_000), None),
    "ring-64": (gets([BARE, RING], 64, count=150_000), None),
    "engines-64": (engines, None),
    "json-64": (manager, None),
    "get-64k": (gets(OURS + ALL, 64, lambda bench: "/" + os.path.basename(bench.body(1 << 16)), count=10_000), None),
    "gzip": (gets(OURS + MAIN, 64, "/compressed", count=2_500, size=len(compressible())), None),
    "waiters": (gets(OURS + MAIN, 8, count=15_000, options=["--concurrency", 1024]), None),
    "abandon": (gets([AWAIT, LIBCURL, GO], 64, lambda bench: "/" + os.path.basename(bench.body(1 << 20)), count=5_000,
                     options=["--abandon"]), None),
    "latency-1": (gets(OURS + ALL, 1, count=10_000, options=LATENCY), None),
    "latency-64": (gets(OURS + ALL, 64, count=40_000, options=LATENCY), None),
    "fresh": (fresh(1, [CALLBACKS] + MAIN), None),
    "fresh-64": (fresh(64, [CALLBACKS, LIBCURL, GO]), None),
    "handshakes": (handshakes(1, [CALLBACKS] + MAIN, [CALLBACKS, LIBCURL, GO]), None),
    "handshakes-64": (handshakes(64, [CALLBACKS, LIBCURL], [CALLBACKS, LIBCURL]), None),
    "tls-1": (gets(OURS + [LIBCURL, AHC, GO], 1, tls=True, count=10_000), None),
    "tls-8": (gets([CALLBACKS, LIBCURL, GO], 8, tls=True, count=20_000), None),
    "tls-64": (gets(OURS + [LIBCURL, AHC, GO, URLLIB3], 64, tls=True, count=25_000), None),
    "tls-512": (gets([CALLBACKS, LIBCURL, GO], 512, tls=True, count=20_000), None),
    "download": (bodies([CALLBACKS, AWAIT, BARE, LIBCURL, BIG, AHC, URLSESSION, GO], "download"), 5),
    "download-memory": (bodies([AWAIT, LIBCURL, AHC, URLSESSION, GO], "download", options=["--memory"]), 3),
    "download-file": (bodies([AWAIT, BARE, SPLICE, CURL, LIBCURL, BIG, AHC, URLSESSION, GO], "download", options=["--to"]), 5),
    "download-tls": (bodies([CALLBACKS, LIBCURL, BIG, GO], "download", tls=True), 5),
    "upload": (bodies([AWAIT, LIBCURL, BIG, AHC, URLSESSION, GO], "upload"), 5),
    "upload-multipart": (bodies([MANAGER, LIBCURL], "upload", form=True), 5),
    "upload-tls": (bodies([AWAIT, LIBCURL, GO], "upload", tls=True), 5),
    "growth": (growth, 1),
    "syscalls-64": (system_calls("callback", 64), 2),
    "syscalls-await-64": (system_calls("await", 64), 2),
    "syscalls-engine-1": (system_calls("engine", 1), 2),
    "syscalls-1": (system_calls("await", 1), 2),
    "syscalls-manager-64": (manager_calls, 2),
    "counts": (counts, 1),
    "idle": (idle(False), 1),
    "idle-tls": (idle(True), 1),
    "cold": (cold, None),
    "sizes": (sizes, 1),
    "head": (parsers.candidates("head"), None),
    "chunked": (parsers.candidates("chunked"), None),
}

"""The rows: ratios and figures taken from the scenarios, and the budgets of the project's design, section "Budgets"."""

import os
import statistics
import subprocess
from collections import namedtuple

from harness import processors
from report import Row, figure as shown
from scenarios import AHC, AWAIT, BARE, BIG, CALLBACKS, CURL, ENGINE, GO, LIBCURL, MANAGER, RING, SPLICE, URLLIB3, URLSESSION, WRK

# `peer` None: our figure alone, against an absolute budget. `design`: the line of the design's table that the row answers. `where`: a candidate, and
# between which figures of its own the budget speaks of a machine.
Specification = namedtuple("Specification", "title unit budget scenario ours peer figure design where", defaults=[None, "cpu", None, None])

SHORT = {LIBCURL: "", AHC: "-ahc", URLSESSION: "-urlsession", GO: "-go", URLLIB3: "-urllib3", WRK: "-wrk", BARE: "-bare"}
rows = {}


def add(name, *specification, **more):
    rows[name] = Specification(*specification, **more)


def beside(name, title, scenario, ours, peers, unit="µs", figure="cpu", budgets=None, design=None):
    """A row for each peer. The name of libcurl's has nothing behind it."""
    for peer in peers:
        add(name + SHORT[peer], f"{title} ÷ {peer}", unit, (budgets or {}).get(peer), scenario, ours, peer, figure,
            (design or {}).get(peer))


EVERY = [LIBCURL, AHC, URLSESSION, GO, URLLIB3]
for peer in [LIBCURL, GO]:
    add("floor-64" + SHORT[peer], f"GET, 64 connections, a bare loop ÷ {peer}: the floor", "µs", None, "get-64", BARE, peer)
add("floor-1", "GET, 1 connection, a bare loop ÷ libcurl: the floor", "µs", None, "get-1", BARE, LIBCURL)
for connections in [1, 64]:
    add(f"floor-ring-{connections}", f"GET, {connections} connection{'s'[:connections > 1]}, a bare loop over io_uring ÷ one over epoll", "µs", None,
        f"ring-{connections}", RING, BARE)
add("wrk-64", "GET, 64 connections, wrk ÷ libcurl", "µs", None, "get-64", WRK, LIBCURL)
add("wrk-1", "GET, 1 connection, wrk ÷ libcurl", "µs", None, "get-1", WRK, LIBCURL)
beside("get-await-64", "GET, 64 connections, await", "get-64", AWAIT, EVERY, budgets={LIBCURL: 0.5, AHC: 0.2}, design={
    LIBCURL: "keep-alive GET, 13 bytes, 64 connections, `await session.data(for:)` ÷ libcurl",
    AHC: "keep-alive GET, 13 bytes, 64 connections, `await session.data(for:)` ÷ AsyncHTTPClient"})
beside("get-callback-64", "GET, 64 connections, callbacks", "get-64", CALLBACKS, [LIBCURL, BARE, WRK, AHC, GO], budgets={LIBCURL: 0.4, WRK: 1.5},
       design={LIBCURL: "keep-alive GET, 13 bytes, 64 connections, callbacks ÷ libcurl", WRK: "keep-alive GET, 13 bytes, 64 connections, callbacks ÷ `wrk`"})
beside("get-engine-64", "GET, 64 connections, await on the engine's executor", "get-64", ENGINE, [LIBCURL])
beside("get-callback-1", "GET, 1 connection, callbacks", "get-1", CALLBACKS, [LIBCURL, WRK, AHC, GO], budgets={LIBCURL: 0.9},
       design={LIBCURL: "one connection, one request at a time, callbacks ÷ libcurl"})
beside("get-await-1", "GET, 1 connection, await", "get-1", AWAIT, EVERY, budgets={LIBCURL: 0.9},
       design={LIBCURL: "one connection, one request at a time, await ÷ libcurl"})
beside("get-engine-1", "GET, 1 connection, await on the engine's executor", "get-1", ENGINE, [LIBCURL])
for connections in [8, 512]:
    beside(f"get-callback-{connections}", f"GET, {connections} connections, callbacks", f"get-{connections}", CALLBACKS, [LIBCURL, AHC, GO])
    beside(f"get-await-{connections}", f"GET, {connections} connections, await", f"get-{connections}", AWAIT, [LIBCURL])
add("two-engines", "GET, 64 connections, two engines ÷ one, both ours", "µs", 1.1, "engines-64", "2 engines", "1 engines",
    design="keep-alive GET, 64 connections, callbacks, two engines ÷ one")
add("manager-json-64", "GET, 64 connections, JSON decoded by a manager ÷ libcurl", "µs", 0.8, "json-64", MANAGER, LIBCURL,
    design="keep-alive GET, 64 connections, JSON decoded by `HTTPSessionManager` ÷ libcurl without any decoding")
beside("get-64k", "GET of 64 KiB, 64 connections, callbacks", "get-64k", CALLBACKS, EVERY)
beside("gzip", "GET of 256 KiB as gzip, decoded, callbacks", "gzip", CALLBACKS, [LIBCURL, AHC, GO])
beside("waiters", "GET, 1,024 at once over 8 connections, await", "waiters", AWAIT, [LIBCURL, AHC, GO])
beside("waiters-callback", "GET, 1,024 at once over 8 connections, callbacks", "waiters", CALLBACKS, [LIBCURL])
beside("abandon", "GET cancelled at its head, 64 at once, await", "abandon", AWAIT, [LIBCURL, GO])
for figure in ["p50", "p99", "p999"]:
    for connections in [1, 64]:
        beside(f"latency-{connections}-{figure}", f"latency, {figure}, {connections} connection{'s' if connections > 1 else ''}, await",
               f"latency-{connections}", AWAIT, [LIBCURL, GO], figure=figure)
beside("fresh", "GET, a new connection for each, callbacks", "fresh", CALLBACKS, [LIBCURL, AHC, GO])
for name, candidate in [("", CALLBACKS), ("-libcurl", LIBCURL), ("-go", GO)]:
    add("reuse-gain" + name, f"GET on a kept connection ÷ on a new one, both {candidate.split(',')[0]}", "µs", None, "fresh",
        candidate + ", kept", candidate)
beside("fresh-64", "GET, a new connection for each, 64 at once, callbacks", "fresh-64", CALLBACKS, [LIBCURL, GO])
add("reuse-gain-64", "GET on 64 kept connections ÷ on new ones, both ours", "µs", None, "fresh-64", CALLBACKS + ", kept", CALLBACKS)
for kind in ["full", "resumed"]:
    add(f"handshake-{kind}-64", f"{kind} TLS handshake, 64 at once ÷ libcurl", "µs", None, "handshakes-64", f"{CALLBACKS}, {kind}",
        f"{LIBCURL}, {kind}")
add("handshake-full", "full TLS handshake ÷ libcurl", "µs", 0.9, "handshakes", CALLBACKS + ", full", LIBCURL + ", full",
    design="full TLS handshake per request ÷ libcurl's full")
add("handshake-full-go", "full TLS handshake ÷ Go net/http", "µs", None, "handshakes", CALLBACKS + ", full", GO + ", full")
add("handshake-full-ahc", "full TLS handshake ÷ AsyncHTTPClient", "µs", None, "handshakes", CALLBACKS + ", full", AHC + ", full")
add("handshake-resumed", "resumed TLS handshake ÷ libcurl", "µs", 0.9, "handshakes", CALLBACKS + ", resumed", LIBCURL + ", resumed",
    design="resumed TLS handshake per request ÷ libcurl's resumed")
add("handshake-resumed-go", "resumed TLS handshake ÷ Go net/http", "µs", None, "handshakes", CALLBACKS + ", resumed", GO + ", resumed")
add("resumed-vs-full", "resumed ÷ full handshake, both ours", "µs", 0.6, "handshakes", CALLBACKS + ", resumed", CALLBACKS + ", full",
    design="resumed TLS handshake ÷ our own full")
beside("tls-callback-64", "TLS GET, 64 connections, callbacks", "tls-64", CALLBACKS, [LIBCURL, GO], budgets={LIBCURL: 0.5, GO: 0.7},
       design={LIBCURL: "TLS keep-alive, 64 connections, callbacks ÷ libcurl", GO: "TLS keep-alive, 64 connections, callbacks ÷ Go's net/http"})
beside("tls-await-64", "TLS GET, 64 connections, await", "tls-64", AWAIT, [LIBCURL, AHC, GO, URLLIB3], budgets={LIBCURL: 0.5, GO: 0.7},
       design={LIBCURL: "TLS keep-alive, 64 connections, await ÷ libcurl", GO: "TLS keep-alive, 64 connections, await ÷ Go's net/http"})
beside("tls-callback-1", "TLS GET, 1 connection, callbacks", "tls-1", CALLBACKS, [LIBCURL])
beside("tls-await-1", "TLS GET, 1 connection, await", "tls-1", AWAIT, [LIBCURL, AHC, GO])
for connections in [8, 512]:
    beside(f"tls-callback-{connections}", f"TLS GET, {connections} connections, callbacks", f"tls-{connections}", CALLBACKS, [LIBCURL, GO])
LARGE = [LIBCURL, AHC, URLSESSION, GO]
beside("download", "download, discarded", "download", CALLBACKS, LARGE, "ms/GiB", budgets={LIBCURL: 0.8},
       design={LIBCURL: "1 GiB download, discarded ÷ libcurl"})
add("download-256k", "download, discarded ÷ libcurl, 256 KiB", "ms/GiB", 0.8, "download", CALLBACKS, BIG,
    design="1 GiB download, discarded ÷ libcurl with a buffer of 256 KiB")
beside("download-chunks", "download, chunks awaited", "download", AWAIT, [LIBCURL, AHC, GO], "ms/GiB")
add("download-chunks-256k", "download, chunks awaited ÷ libcurl, 256 KiB", "ms/GiB", None, "download", AWAIT, BIG)
add("floor-download", "download, discarded, a bare loop ÷ libcurl, 256 KiB: the floor", "ms/GiB", None, "download", BARE, BIG)
beside("download-memory", "download into memory", "download-memory", AWAIT, LARGE, "ms/GiB")
add("download-file", "download to a file ÷ curl -o", "ms/GiB", 0.7, "download-file", AWAIT, CURL, design="1 GiB download to a file ÷ curl -o")
for peer in LARGE:
    add("download-file-" + (SHORT[peer][1:] or "libcurl"), f"download to a file ÷ {peer}", "ms/GiB", 0.7 if peer == LIBCURL else None,
        "download-file", AWAIT, peer)
add("floor-download-file", "download to a file, a bare loop ÷ curl -o", "ms/GiB", None, "download-file", BARE, CURL)
add("floor-download-splice", "download to a file, a bare loop that splices ÷ curl -o: the floor", "ms/GiB", None, "download-file", SPLICE, CURL)
add("download-file-256k", "download to a file ÷ libcurl, 256 KiB", "ms/GiB", None, "download-file", AWAIT, BIG)
beside("download-tls", "TLS download, discarded", "download-tls", CALLBACKS, [LIBCURL, GO], "ms/GiB")
add("download-tls-256k", "TLS download, discarded ÷ libcurl, 256 KiB", "ms/GiB", None, "download-tls", CALLBACKS, BIG)
beside("upload", "upload from a file", "upload", AWAIT, LARGE, "ms/GiB", budgets={LIBCURL: 0.8})
add("upload-256k", "upload from a file ÷ libcurl, 256 KiB", "ms/GiB", None, "upload", AWAIT, BIG)
add("upload-multipart", "upload of a form ÷ libcurl's multipart", "ms/GiB", 0.8, "upload-multipart", MANAGER, LIBCURL,
    design="1 GiB multipart upload from a file ÷ libcurl's, as curl -F")
beside("upload-tls", "TLS upload from a file", "upload-tls", AWAIT, [LIBCURL, GO], "ms/GiB")
for name, title in [("download", "download, discarded"), ("download to a file", "download to a file"), ("upload of a form", "multipart upload")]:
    add("growth-" + name.replace(" ", "-"), f"{title}: peak memory above that of 1 MiB", "MB", 4, "growth", name, figure="growth",
        design=f"1 GiB {title}: peak memory above that for a 1 MiB body, MB")
HEAD = "response head of 514 bytes, 11 fields, parsed, validated and indexed"
add("head", "response head ÷ llhttp", "ns", 0.5, "head", "Lupine", "llhttp", "nanoseconds", design=HEAD + " ÷ llhttp")
add("head-ns", "response head", "ns", 200, "head", "Lupine", figure="nanoseconds", design=HEAD + ", ns, where llhttp takes 420 to 600",
    where=("llhttp", 420, 600))
add("head-pico", "response head ÷ picohttpparser, which validates less", "ns", None, "head", "Lupine", "picohttpparser", "nanoseconds")
add("chunked", "chunked body, chunks of 4 KiB ÷ llhttp", "ns/KiB", None, "chunked", "Lupine", "llhttp", "nanoseconds")
CALLS = "system calls per GET, "
add("syscalls-64", CALLS + "64 connections, callbacks", "calls", 2.2, "syscalls-64", CALLBACKS, figure="calls", design="system calls per keep-alive GET, 64 connections, callbacks")
add("syscalls-await-64", CALLS + "64 connections, await", "calls", 2.2, "syscalls-await-64", AWAIT, figure="calls",
    design="system calls per keep-alive GET, 64 connections, await")
add("syscalls-engine-1", CALLS + "1 connection, await on the engine's executor", "calls", 4, "syscalls-engine-1", ENGINE, figure="calls")
add("syscalls-1", CALLS + "1 connection, await", "calls", 4, "syscalls-1", AWAIT, figure="calls",
    design="system calls per keep-alive GET, 1 connection, from another thread")
add("syscalls-manager-64", CALLS + "64 connections, JSON decoded by a manager", "calls", 2.2, "syscalls-manager-64", MANAGER, figure="calls")
add("syscalls-64-libcurl", CALLS + "64 connections, callbacks ÷ libcurl", "calls", None, "syscalls-64", CALLBACKS, LIBCURL, "calls")
for figure in ["instructions", "allocations"]:
    for peer in [LIBCURL, AHC]:
        add(figure + SHORT[peer], f"{figure} per GET, 1 connection, callbacks ÷ {peer}", figure, None, "counts", CALLBACKS, peer, figure)
    add(figure + "-await", f"{figure} per GET, 1 connection, await ÷ AsyncHTTPClient", figure, None, "counts", AWAIT, AHC, figure)
add("idle", "idle connection, heap in use", "B", 3 * 1024, "idle", CALLBACKS, figure="heap", design="10,000 idle connections, bytes each in user space")
add("idle-tls", "idle TLS connection, heap in use", "B", 30 * 1024, "idle-tls", CALLBACKS, figure="heap",
    design="10,000 idle TLS connections, bytes each in user space")
beside("cold", "process to first response", "cold", CALLBACKS, EVERY, "ms", "milliseconds")
beside("size", "program and its libraries, without symbols", "sizes", CALLBACKS, LARGE, "MB", "megabytes")


def measure(bench, names, progress):
    """Measures scenario by scenario, with the candidates that the rows need, or with all if all rows are asked for: the plots show more
    of them than the rows. Yields rows as they are done."""
    scenario_names = list(dict.fromkeys(rows[name].scenario for name in names))
    for scenario in scenario_names:
        chosen = [name for name in names if rows[name].scenario == scenario]
        wanted = {candidate for name in chosen for candidate in (rows[name].ours, rows[name].peer, (rows[name].where or [None])[0]) if candidate}
        if len(names) == len(rows):
            wanted = set(bench.candidates(scenario))
        progress(scenario, wanted)
        bench.measure(scenario, wanted)
        for name in chosen:
            yield row(bench, name)


def row(bench, name):
    specification = rows[name]
    result = Row(name, *specification[:3])
    result.design, result.others = specification.design, bench.others[specification.scenario]
    taken = bench.samples[specification.scenario]
    # None: what none of them can do without.
    for candidate in (None, specification.ours, specification.peer, (specification.where or [None])[0]):
        if (specification.scenario, candidate) in bench.failures:
            result.failure = bench.failures[specification.scenario, candidate]
            return result
    result.ours = [figures[specification.figure] for figures in taken[specification.ours]]
    result.peers = [figures[specification.figure] for figures in taken[specification.peer]] if specification.peer else []
    if specification.where:
        candidate, least, most = specification.where
        found = statistics.median(figures[specification.figure] for figures in taken[candidate])
        if not least <= found <= most:
            result.elsewhere = f"{candidate} takes {shown(found)} {result.unit}"
    return result


def machine():
    """One line on what was measured on what."""
    with open("/proc/cpuinfo") as file:
        models = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    libcurl = subprocess.run(["curl-config", "--version"], stdout=subprocess.PIPE, text=True).stdout.strip()
    return f"{models[0] if models else 'unknown processor'}, {os.cpu_count()} CPUs, client on {processors()[0]}, server on " \
           f"{processors()[1]}, {libcurl}"

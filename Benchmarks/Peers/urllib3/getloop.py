#!/usr/bin/env python3
"""The same work as Sources/GetLoop, by Python's urllib3, a thread for each request under way: for orientation. Prints one line of JSON.

usage: getloop.py URL CONNECTIONS COUNT [--ca FILE] [--no-reuse] [--concurrency N] [--latency] [--cold]
"""

import argparse
import resource
import threading
import time

import urllib3


def worker(pool, options, share, latencies, sizes):
    headers = {"connection": "close"} if options.no_reuse else None
    for _ in range(share):
        began = time.perf_counter() if options.latency else 0
        response = pool.request("GET", options.url, headers=headers, retries=False)
        if response.status != 200 or not response.data:
            raise SystemExit(f"status {response.status}")
        sizes.append(len(response.data))
        if options.latency:
            latencies.append((time.perf_counter() - began) * 1e6)


def run(pool, options, count):
    latencies, sizes = [], []
    shares = [count // options.concurrency + (index < count % options.concurrency) for index in range(options.concurrency)]
    threads = [threading.Thread(target=worker, args=(pool, options, share, latencies, sizes)) for share in shares if share]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(sizes) != count:
        raise SystemExit(f"{len(sizes)} of {count} requests")
    return sorted(latencies), sum(sizes)


def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM:"))


def cpu():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return (usage.ru_utime + usage.ru_stime) * 1e6


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("connections", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--ca")
    parser.add_argument("--concurrency", type=int)
    for flag in ["--no-reuse", "--no-sessions", "--latency", "--cold"]:
        parser.add_argument(flag, action="store_true")
    options = parser.parse_args()
    options.concurrency = options.concurrency or options.connections
    pool = urllib3.PoolManager(maxsize=options.connections, block=True, ca_certs=options.ca)
    if not options.cold:
        run(pool, options, min(options.count, 4 * options.concurrency))
    used, began = cpu(), time.perf_counter()
    latencies, size = run(pool, options, options.count)
    seconds, used = time.perf_counter() - began, cpu() - used

    def percentile(share):
        return latencies[min(len(latencies) - 1, int(len(latencies) * share))] if latencies else 0

    print(f'{{"requests": {options.count}, "seconds": {seconds:.3f}, "perSecond": {options.count / seconds:.0f}, '
          f'"cpuMicroseconds": {used / options.count:.3f}, "bytes": {size}, "resumed": 0, "p50": {percentile(0.5):.3f}, '
          f'"p99": {percentile(0.99):.3f}, "p999": {percentile(0.999):.3f}, "peakKilobytes": {peak()}}}')


main()

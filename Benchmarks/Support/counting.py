"""Counts: instructions (callgrind), misses of the instruction cache (cachegrind), allocations (dhat) and system calls (perf, else strace). They hardly depend on the load of the machine.

Each is taken over N and 2N pieces of work; the difference divided by N leaves out the start of the process.
"""

import json
import os
import re
import tempfile

from harness import Failure, client, has, require

MODULE = re.compile(r"\d+(Lupine(?:Base|Wire|IO|TLS|Rules|Engine|Session))")


def valgrind(tool, command, *options):
    """Runs under valgrind and returns what it said."""
    require("valgrind")
    words = ["valgrind", f"--tool={tool}", *options] + [str(word) for word in command]
    # Symbols that are looked up at their first call cost some runs 3,000 instructions more than others: threads race for them.
    return client(words, timeout=900, environment={"LD_BIND_NOW": "1"})["errors"]


def phase(object_name, function):
    """To which phase of a request a function's own instructions count."""
    library = os.path.basename(object_name)
    for prefix, name in [("libswift", "Swift runtime"), ("libFoundation", "Foundation"), ("lib_Foundation", "Foundation"),
                         ("libdispatch", "Dispatch"), ("libssl", "OpenSSL"), ("libcrypto", "OpenSSL"), ("ld-", "loader")]:
        if library.startswith(prefix):
            return name
    if library.startswith("libc.") or library.startswith("libc-"):
        return "allocator" if re.match(r"(malloc|free|calloc|realloc|_int_|unlink_chunk|malloc_consolidate|tcache|posix_memalign|"
                                       r"aligned_alloc|sysmalloc|cfree)", function) else "C library"
    # The first module named in a mangled Swift symbol is the one that the code was written in, or specialised for.
    module = MODULE.search(function)
    if module:
        return module.group(1)
    if "GetLoop" in function or "BenchmarkSupport" in function or function == "main":
        return "benchmark"
    return "other"


def read_callgrind(path):
    """Own instructions by phase."""
    totals, names = {}, {"ob": {}, "fn": {}}
    object_name = function = ""
    skips_call = False
    with open(path) as file:
        for line in file:
            if line[0].isdigit() or line[0] in "+-*":
                # The line after "calls=" is the cost of the callee.
                if not skips_call:
                    words = line.split()
                    if len(words) >= 2:
                        name = phase(object_name, function)
                        totals[name] = totals.get(name, 0) + int(words[1])
                skips_call = False
                continue
            match = re.match(r"(ob|fn|cob|cfn)=\((\d+)\)(?: (.*))?$", line.rstrip("\n"))
            if match:
                kind, number, text = match.groups()
                table = names[kind[-2:]]
                if text:
                    table[number] = text
                if kind == "ob":
                    object_name = table[number]
                elif kind == "fn":
                    function = table[number]
            elif line.startswith("calls="):
                skips_call = True
    return totals


def instructions(words, count, directory):
    path = os.path.join(directory, f"callgrind-{count}")
    valgrind("callgrind", words(count), f"--callgrind-out-file={path}", "--compress-pos=no")
    return read_callgrind(path)


def instruction_misses(words, count, directory):
    """How often a first-level cache of 32 KiB, as most processors have it, would have had no line of the code that is run next.

    It keeps any 512 lines, where processors keep 8 of each kind: which lines get into each other's way there is the linker's chance, and moved the figure by a third with
    every function that became longer."""
    path = os.path.join(directory, f"cachegrind-{count}")
    # Of one size wherever this runs; the last level is not looked at.
    caches = ["--cache-sim=yes", "--I1=32768,512,64", "--D1=32768,8,64", "--LL=8388608,16,64"]
    valgrind("cachegrind", words(count), f"--cachegrind-out-file={path}", *caches)
    with open(path) as file:
        lines = file.read().splitlines()
    names = next(line for line in lines if line.startswith("events:")).split()[1:]
    values = next(line for line in lines if line.startswith("summary:")).split()[1:]
    return {"instruction cache misses": int(values[names.index("I1mr")])}


def owner(frames):
    """The part of the stack that asked for memory: the innermost function of ours, by its module; the pool apart from its engine."""
    for frame in frames:
        # A mangled name leaves out words that it has said before: EnginePool of LupineEngine is 12LupineEngine0B4Pool.
        if re.search(r"PoolMachine|EnginePool|SlotList|12LupineEngine0B4Pool", frame):
            return "pool"
        module = MODULE.search(frame)
        if module:
            return module.group(1)
    return "other"


def allocations(words, count, directory):
    """Blocks and bytes in all, and blocks by who asked for them."""
    path = os.path.join(directory, f"dhat-{count}")
    said = valgrind("dhat", words(count), f"--dhat-out-file={path}")
    total = re.search(r"Total:\s+([\d,]+) bytes in ([\d,]+) blocks", said)
    if not total:
        raise Failure(f"valgrind did not say what was allocated:\n{said[-1000:]}")
    size, blocks = (int(text.replace(",", "")) for text in total.groups())
    figures = {"allocations": blocks, "allocated bytes": size}
    with open(path) as file:
        record = json.load(file)
    for point in record["pps"]:
        name = "allocations: " + owner(record["ftbl"][index] for index in point["fs"])
        figures[name] = figures.get(name, 0) + point["tbk"]
    os.remove(path)
    return figures


def difference(measure, count, *arguments):
    """What one more piece of work costs. `measure` is given the words of a command for a number of them."""
    once, twice = (measure(arguments[0], requests, *arguments[1:]) for requests in (count, 2 * count))
    return {name: (twice.get(name, 0) - once.get(name, 0)) / count for name in set(once) | set(twice)}


def system_calls(words, count):
    """System calls of one more piece of work."""

    def calls(requests):
        command = [str(word) for word in words(requests)]
        with tempfile.NamedTemporaryFile("r", suffix=".count") as file:
            if has("perf"):
                try:
                    client(["perf", "stat", "-e", "raw_syscalls:sys_enter", "-x", ",", "-o", file.name, "--"] + command)
                except Failure:
                    pass
                lines = [line for line in file if "sys_enter" in line]
                if lines and lines[0].split(",")[0].isdigit():
                    return int(lines[0].split(",")[0])
            # strace slows the client down, so that more responses come together.
            require("strace")
            client(["strace", "-f", "-c", "-qq", "-o", file.name] + command)
            file.seek(0)
            return int([line for line in file if line.strip().endswith("total")][0].split()[3])

    return (calls(2 * count) - calls(count)) / count

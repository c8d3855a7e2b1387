"""The plots in Docs/Benchmarks, drawn from what `run` measured; one is left out if its scenarios were."""

import os

from report import busy
from scenarios import AHC, AWAIT, BARE, BIG, CALLBACKS, CURL, ENGINE, GO, LIBCURL, MANAGER, URLLIB3, URLSESSION, WRK
from svg import GREY, INK, LIGHT, OURS, PALETTE, WARNING, Canvas, LogAxis, dot_rows, median, short, tick_label

MINE = (CALLBACKS, AWAIT, ENGINE, MANAGER)
WIDTH = 900


def colour(candidate):
    return OURS if candidate.startswith("Lupine") else GREY if candidate in (WRK, BARE) else "#0969da"


def taken(result, scenario, candidate, figure="cpu"):
    return [figures[figure] for figures in result["samples"].get(scenario, {}).get(candidate, []) if figures.get(figure)]


def group(result, scenario, heading, candidates, figure="cpu", names=None):
    rows = [((names or {}).get(candidate, candidate), colour(candidate), taken(result, scenario, candidate, figure)) for candidate in candidates]
    rows = [row for row in rows if row[2]]
    return (heading, rows) if len(rows) > 1 else None


def method(result, text):
    return f"{text} nginx on one processor, the client on another; {result['rounds']} alternating run{'s' if result['rounds'] > 1 else ''}: dot median, " \
           f"line smallest to largest. {result['machine'].split(',')[0]}, {result['date']}.{busy(result)}"


def dots(title, text, label, groups, share=False):
    def draw(path, result):
        present = [made for made in (make(result) for make in groups) if made]
        if not present:
            return False
        canvas = Canvas(WIDTH, title, method(result, text))
        dot_rows(canvas, present, label, share=share)
        canvas.write(path)
        return True

    return draw


def make(scenario, heading, candidates, figure="cpu", names=None):
    return lambda result: group(result, scenario, heading, candidates, figure, names)


def reuse(path, result):
    """What a GET costs on a connection of its own, and on one that is kept."""
    cases = [
        ("plaintext", [("new connection", "fresh", ""), ("kept connection", "fresh", ", kept")]),
        ("TLS 1.3", [("new, full handshake", "handshakes", ", full"), ("new, session resumed", "handshakes", ", resumed"),
                     ("kept connection", "tls-1", "")]),
    ]
    names = [(CALLBACKS, "Lupine", OURS), (LIBCURL, "libcurl", "#0969da"), (GO, "Go net/http", "#8250df")]
    found = [median(values) for _, lines in cases for _, scenario, suffix in lines for candidate, _, _ in names
             if (values := taken(result, scenario, candidate + suffix))]
    if not found:
        return False
    canvas = Canvas(WIDTH, "What reusing connections saves: CPU time of the client for each GET of 13 bytes", method(
        result, "One connection at a time.").replace(": dot median, line smallest to largest", ", medians"))
    left, scale, top = 210, (WIDTH - 330) / max(found), canvas.y
    for index, (_, name, tint) in enumerate(names):
        canvas.bar(left + 150 * index, top - 8, 12, 12, tint)
        canvas.text(left + 18 + 150 * index, top + 3, name)
    y = top + 22
    for heading, lines in cases:
        canvas.text(20, y + 8, heading, weight=600)
        y += 20
        for label, scenario, suffix in lines:
            canvas.text(left - 12, y + 32, label, anchor="end")
            for candidate, _, tint in names:
                values = taken(result, scenario, candidate + suffix)
                if values:
                    canvas.bar(left, y, median(values) * scale, 15, tint)
                    canvas.text(left + median(values) * scale + 8, y + 12, short(median(values)) + " µs", size=12)
                y += 18
            y += 12
    canvas.line(left, top + 20, left, y, INK)
    canvas.text(left, y + 14, "CPU time per GET, µs, from 0: shorter is better", size=12, colour=GREY)
    canvas.y = y + 34
    canvas.write(path)
    return True


def latency(path, result):
    """A row for each candidate: the median, the 99th and the 99.9th of a hundred."""
    panels = []
    for scenario, heading in [("latency-1", "1 connection, one request at a time"), ("latency-64", "64 connections, 64 requests at once")]:
        rows = []
        for candidate in [CALLBACKS, AWAIT, LIBCURL, GO, AHC, URLSESSION, URLLIB3]:
            points = [taken(result, scenario, candidate, figure) for figure in ("p50", "p99", "p999")]
            if all(points):
                rows.append((candidate, [median(values) for values in points]))
        if rows:
            panels.append((heading, rows))
    if not panels:
        return False
    canvas = Canvas(WIDTH, "Latency of a GET of 13 bytes: the median, and the slowest 1 % and 0.1 %", method(
        result, "Every request timed, sent again as soon as it was answered.").replace("dot median, line smallest to largest", "medians of them"))
    left, top = 230, canvas.y
    axis = LogAxis([value for _, rows in panels for _, points in rows for value in points], left, WIDTH - 70, margin=2)
    height = sum(52 + 27 * len(rows) for _, rows in panels)
    for tick in axis.ticks:
        canvas.line(axis.at(tick), top + 6, axis.at(tick), top + height)
        canvas.text(axis.at(tick), top + height + 18, tick_label(tick), size=12, anchor="middle", colour=GREY)
    y = top
    for heading, rows in panels:
        y += 22
        canvas.text(20, y, heading, weight=600)
        y += 18
        for index, (candidate, points) in enumerate(rows):
            y += 27
            tint = colour(candidate)
            places = [axis.at(value) for value in points]
            canvas.text(left - 12, y + 4, candidate, anchor="end", colour=tint if tint == OURS else INK, weight=600 if tint == OURS else 400)
            canvas.line(places[0], y, places[-1], y, tint, 2)
            for place, radius, hollow in zip(places, (5, 4, 4), (False, True, True)):
                canvas.dot(place, y, tint, radius, hollow)
            canvas.text(places[0] - 9, y + 4, short(points[0]), size=11, anchor="end")
            canvas.text(places[-1] + 9, y + 4, short(points[-1]), size=11)
            if index == 0:
                # The middle one gives way when the three lie close together.
                for place, name, anchor in zip(places, ("median", "99 %", "99.9 %"), ("end", "middle", "start")):
                    near = anchor == "middle" and min(place - places[0], places[-1] - place) < 24
                    canvas.text(place, y - (24 if near else 11), name, size=11, anchor=anchor, colour=GREY)
        y += 12
    canvas.text((axis.left + axis.right) / 2, top + height + 40, "latency, µs, logarithmic", anchor="middle", colour=GREY)
    canvas.y = top + height + 58
    canvas.write(path)
    return True


def memory(path, result):
    """Lines of peak memory over connections, each named at its end."""
    counts = [1, 8, 64, 512]
    lines = []
    for candidate in [CALLBACKS, LIBCURL, GO, AHC, URLSESSION]:
        points = [(count, median(values)) for count in counts if (values := taken(result, f"get-{count}", candidate, "peak"))]
        if len(points) > 1:
            lines.append((candidate, points))
    if not lines:
        return False
    canvas = Canvas(WIDTH, "Peak memory by connections: GETs of 13 bytes", method(
        result, "Resident memory of the whole process at its highest (VmHWM).").replace(": dot median, line smallest to largest", ", medians"))
    left, right, top, bottom = 80, WIDTH - 200, canvas.y + 6, canvas.y + 360
    across = LogAxis([1, 512], left, right)
    highest = max(value for _, points in lines for _, value in points) * 1.08

    def up(value):
        return bottom - value / highest * (bottom - top)

    step = next(step for step in (5, 10, 20, 50, 100, 200) if highest / step <= 8)
    for tick in range(0, int(highest) + 1, step):
        canvas.line(left, up(tick), right, up(tick))
        canvas.text(left - 10, up(tick) + 4, str(tick), size=12, anchor="end", colour=GREY)
    for count in counts:
        canvas.text(across.at(count), bottom + 20, str(count), size=12, anchor="middle", colour=GREY)
    canvas.text(20, top - 8, "MB", size=12, colour=GREY)
    canvas.text((left + right) / 2, bottom + 44, "connections, logarithmic", anchor="middle", colour=GREY)
    taken_places = []
    for index, (candidate, points) in enumerate(sorted(lines, key=lambda line: -line[1][-1][1])):
        tint = OURS if candidate in MINE else PALETTE[1 + index % (len(PALETTE) - 1)]
        places = [(across.at(count), up(value)) for count, value in points]
        canvas.path(places, tint)
        for x, y in places:
            canvas.dot(x, y, tint, 4)
        x, y = places[-1]
        for other in taken_places:
            y = max(y, other + 17)
        taken_places.append(y)
        canvas.text(x + 12, y + 4, f"{candidate.split(',')[0]}, {short(points[-1][1])} MB", colour=tint, weight=600 if tint == OURS else 400)
    canvas.y = bottom + 62
    idle = [(name, taken(result, scenario, CALLBACKS, "heap")) for scenario, name in (("idle", "plaintext"), ("idle-tls", "TLS"))]
    if all(values for _, values in idle):
        each = " and ".join(f"{median(values) / 1024:.1f} KiB with {name}" for name, values in idle)
        number = f"{median(taken(result, 'idle', CALLBACKS, 'opened')):,.0f}"
        canvas.text(20, canvas.y + 4, f"{number} idle connections of Lupine: {each} each, of memory in use.", size=12, colour=GREY)
        canvas.y += 24
    canvas.write(path)
    return True


def budgets(path, result):
    """Every budget: what was measured as a part of it."""
    records = [record for record in result["rows"] if record.get("budget") is not None and not record.get("failure")]
    if not records:
        return False
    canvas = Canvas(WIDTH, "Every budget, and how much of it is used", method(
        result, "Bars are the measured ratio or figure ÷ its budget: shorter is better, orange is over budget, grey is not judged.").replace(
            ": dot median, line smallest to largest", ", medians"))
    left, scale, top = 470, (WIDTH - 600) / 1.5, canvas.y
    y = top
    for record in records:
        share = max(0.0, record["median"] / record["budget"])
        tint = GREY if record["noisy"] or record.get("elsewhere") else OURS if record["passes"] else WARNING
        length = min(share, 1.55) * scale
        canvas.text(left - 10, y + 13, record["title"], size=12, anchor="end")
        canvas.bar(left, y + 2, length, 14, tint)
        said = f"{short(record['median'])} of {record['budget']:g}{' ' + record['unit'] if not record['peer'] else ''}"
        # Nothing is said across the line of the budget.
        crosses = length < scale < length + 16 + 7.2 * len(said)
        canvas.text(left + (scale if crosses else length) + 8, y + 13, said, size=12)
        y += 21
    canvas.line(left + scale, top - 4, left + scale, y + 4, INK, 1.5)
    canvas.text(left + scale, y + 20, "budget", size=12, anchor="middle", colour=INK)
    canvas.y = y + 36
    canvas.write(path)
    return True


SIDE = [CALLBACKS, AWAIT, ENGINE, BARE, WRK, LIBCURL, GO, AHC, URLSESSION, URLLIB3]
LARGE = [CALLBACKS, AWAIT, CURL, LIBCURL, BIG, GO, AHC, URLSESSION]
CHUNKS = {CALLBACKS: "Lupine, pieces shown", AWAIT: "Lupine, chunks awaited"}
plots = {
    "reuse.svg": reuse,
    "peers.svg": dots("Side by side: CPU time of the client for each GET of 13 bytes",
                      "Connections kept. A bare loop, which looks at nothing that it reads, is the floor. × beside the first row.",
                      "CPU time per GET, µs, logarithmic: further left is better",
                      [make("get-64", "64 connections, plaintext", SIDE), make("tls-64", "64 connections, TLS 1.3", SIDE),
                       make("get-1", "1 connection, plaintext", SIDE)], share=True),
    "bodies.svg": dots("Large bodies: CPU time of the client for each GiB", "Plaintext, files in memory; the whole process counted.",
                       "CPU time per GiB, ms, logarithmic: further left is better",
                       [make("download", "download, discarded", LARGE, names=CHUNKS),
                        make("download-memory", "download into memory", LARGE, names={AWAIT: "Lupine"}),
                        make("download-file", "download to a file", LARGE, names={AWAIT: "Lupine", CURL: "curl -o"}),
                        make("upload", "upload from a file", LARGE, names={AWAIT: "Lupine"}),
                        make("upload-multipart", "multipart upload from a file", [MANAGER, LIBCURL])], share=True),
    "latency.svg": latency,
    "memory.svg": memory,
    "start.svg": dots("Cold start: from starting the process to its first response", "A GET of 13 bytes over plaintext.",
                      "milliseconds, logarithmic: further left is better",
                      [make("cold", "process to first response", [CALLBACKS, LIBCURL, GO, AHC, URLSESSION, URLLIB3], "milliseconds",
                            {CALLBACKS: "Lupine"})], share=True),
    "budgets.svg": budgets,
}


def draw(directory, result):
    return [name for name, function in plots.items() if function(os.path.join(directory, name), result)]

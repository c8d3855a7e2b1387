"""Results as a table, as JSON, and as the table of budgets in Docs/Benchmarks.md."""

import glob
import json
import os
import re
import statistics

# A row whose ratios lie further apart than this, the largest less the smallest beside the median, and on both sides of its budget, or that
# was measured while others kept this part of a processor busy, is too noisy to be judged.
SPREAD_LIMIT = 0.4
OTHERS_LIMIT = 0.25


class Row:
    """One measured row: pairs of our figure and the peer's, or, without a peer, our figures alone against an absolute budget."""

    def __init__(self, name, title, unit, budget):
        self.name, self.title, self.unit, self.budget = name, title, unit, budget
        self.ours, self.peers = [], []
        self.others = 0.0
        self.failure = self.design = None
        # Why the budget does not speak of this machine.
        self.elsewhere = None

    @property
    def isRatio(self):
        return bool(self.peers)

    @property
    def values(self):
        return [ours / peer for ours, peer in zip(self.ours, self.peers)] if self.isRatio else self.ours

    @property
    def median(self):
        return statistics.median(self.values)

    @property
    def spread(self):
        return (max(self.values) - min(self.values)) / abs(self.median) if self.median else 0.0

    @property
    def isCounted(self):
        return self.unit in ("calls", "instructions", "allocations", "B", "MB")

    @property
    def isNoisy(self):
        if self.isCounted:
            return False
        # Rounds that are all on one side of the budget agree about it, however far apart they lie.
        disagree = self.budget is None or min(self.values) <= self.budget < max(self.values)
        return self.others > OTHERS_LIMIT or self.spread > SPREAD_LIMIT and disagree

    @property
    def isJudged(self):
        return self.budget is not None and not self.failure and self.elsewhere is None and not self.isNoisy

    @property
    def passes(self):
        return self.budget is None or self.elsewhere is not None or self.median <= self.budget

    @property
    def verdict(self):
        budget = "" if self.budget is None else f"not judged: {self.elsewhere}" if self.elsewhere else "✓" if self.passes else "✗"
        return (budget + " noisy" if self.isNoisy else budget).strip()

    def record(self):
        if self.failure:
            return {"name": self.name, "title": self.title, "unit": self.unit, "budget": self.budget, "failure": self.failure,
                    "design": self.design}
        return {
            "name": self.name, "title": self.title, "unit": self.unit, "ours": self.ours, "peer": self.peers,
            "median": self.median, "minimum": min(self.values), "maximum": max(self.values), "budget": self.budget,
            "passes": self.passes, "noisy": self.isNoisy, "processorsBusyWithOthers": round(self.others, 3), "design": self.design,
            "elsewhere": self.elsewhere,
        }


def figure(value):
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 100 else f"{value:.2f}"


def cells(row):
    if row.failure:
        return [row.name, row.title, row.unit, "–", "–", "not measured: " + row.failure.splitlines()[0][:60], "–", ""]
    peer = figure(statistics.median(row.peers)) if row.isRatio else "–"
    budget = f"≤ {row.budget:g}" if row.budget is not None else "–"
    values = row.values
    spread = f" [{figure(min(values))}–{figure(max(values))}]" if len(values) > 1 else ""
    return [row.name, row.title, row.unit, figure(statistics.median(row.ours)), peer, figure(row.median) + spread, budget, row.verdict]


header = ["row", "work", "unit", "ours", "peer", "ratio or figure [min–max]", "budget", ""]


def table(rows):
    lines = [header] + [cells(row) for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    texts = []
    for line in lines:
        texts.append("  ".join(cell.rjust(width) if column in (3, 4, 6) else cell.ljust(width)
                               for column, (cell, width) in enumerate(zip(line, widths))).rstrip())
    texts.insert(1, "  ".join("─" * width for width in widths))
    return "\n".join(texts)


def noisy_names(rows):
    return [row.name for row in rows if not row.failure and row.isNoisy]


def rounded(value):
    """Floats with four digits that count, all the way down."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {name: rounded(inner) for name, inner in value.items()}
    return [rounded(inner) for inner in value] if isinstance(value, list) else value


def write_json(path, result):
    """A line for each row, and one for each candidate of a scenario."""

    def line(value):
        return json.dumps(rounded(value), ensure_ascii=False)

    scenarios = [f"    {line(name)}: {{\n" + ",\n".join(f"      {line(candidate)}: {line(rounds)}" for candidate, rounds in taken.items())
                 + "\n    }" for name, taken in result["samples"].items()]
    parts = [f"  {line(name)}: {line(value)}" for name, value in result.items() if name not in ("rows", "samples")]
    parts.append('  "rows": [\n' + ",\n".join("    " + line(row) for row in result["rows"]) + "\n  ]")
    parts.append('  "samples": {\n' + ",\n".join(scenarios) + "\n  }")
    # What took minutes to measure is not lost for want of a directory.
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w") as file:
        file.write("{\n" + ",\n".join(parts) + "\n}\n")


FIGURES = [("get-1", "latency-1", "1 connection"), ("get-64", "latency-64", "64 connections"), ("get-512", None, "512 connections"),
           ("tls-1", None, "1 connection, TLS"), ("tls-64", None, "64 connections, TLS")]


def figures_table(result):
    """What each candidate took for a GET of 13 bytes, medians, as Markdown."""
    lines = ["| Client | CPU, µs | Requests/s | Latency p50, µs | p99 | p99.9 | Peak memory, MB |", "|---|---|---|---|---|---|---|"]
    for scenario, latencies, heading in FIGURES:
        taken = result["samples"].get(scenario)
        if not taken:
            continue
        lines.append(f"| **{heading}** | | | | | | |")
        for candidate, rounds in taken.items():
            slow = result["samples"].get(latencies, {}).get(candidate, [])
            cells = [middle(rounds, "cpu"), middle(rounds, "perSecond")] + [middle(slow, name) for name in ("p50", "p99", "p999")]
            lines.append("| " + " | ".join([candidate] + cells + [middle(rounds, "peak")]) + " |")
    counts = result["samples"].get("counts")
    if counts:
        lines += ["", "| Client, 1 connection | Instructions per GET | Allocations | Bytes allocated |", "|---|---|---|---|"]
        for candidate, rounds in counts.items():
            lines.append("| " + " | ".join([candidate] + [middle(rounds, name) for name in ("instructions", "allocations", "allocated bytes")]) + " |")
    return "\n".join(lines) + "\n"


def middle(rounds, name):
    values = [figures[name] for figures in rounds if name in figures]
    return figure(statistics.median(values)) if values else ""


def kind(result):
    """What the machine of a run was, without what the run made of it."""
    return result["machine"].partition(", client on ")[0]


def kept_path(directory, result):
    """Where the figures of a kind of machine are kept once another one has been measured."""
    return os.path.join(directory, f"results-{re.sub('[^a-z0-9]+', '-', kind(result).lower()).strip('-')}.json")


def keep_other_machine(directory, result):
    """Ratios depend on the kind of machine, so the latest figures of each stay: those of the last run by their own name, if they are of another kind.

    Returns the runs on other kinds, the latest first."""
    latest = os.path.join(directory, "results.json")
    if os.path.exists(latest):
        with open(latest) as file:
            before = json.load(file)
        if kind(before) != kind(result):
            os.replace(latest, kept_path(directory, before))
    if os.path.exists(kept_path(directory, result)):
        os.remove(kept_path(directory, result))
    others = []
    for path in glob.glob(os.path.join(directory, "results-*.json")):
        with open(path) as file:
            others.append(json.load(file))
    return sorted(others, key=lambda other: other["date"], reverse=True)


def measured(record):
    """What a row came to, and whether that is within its budget."""
    if not record:
        return " | "
    if "failure" in record:
        return "not measured | "
    verdict = (f"not judged: {record['elsewhere']}" if record.get("elsewhere") else "✓" if record["passes"] else "✗") + (" noisy" if record["noisy"] else "")
    spread = f" ({figure(record['minimum'])}–{figure(record['maximum'])})" if record["minimum"] != record["maximum"] else ""
    return f"**{figure(record['median'])}**{spread} | {verdict}"


def budgets_table(results):
    """The lines of the design's table with what was measured on each kind of machine, as Markdown."""
    lines = ["| Work | Budget | " + " | ".join(f"{kind(result)} | " for result in results) + "|", "|---|---|" + "---|---|" * len(results)]
    by_name = [{record["name"]: record for record in result["rows"]} for result in results]
    for record in results[0]["rows"]:
        if record.get("design"):
            cells = [measured(records.get(record["name"])) for records in by_name]
            lines.append(f"| {record['design']} | ≤ {record['budget']:g} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def run_line(result):
    return f"{result['machine']}. {result['date']}, {rounds(result)}.{busy(result)}"


def rounds(result):
    return f"{result['rounds']} round{'s' if result['rounds'] > 1 else ''}"


def busy(result):
    """A sentence if the machine had other things to do."""
    shares = result["processorsBusyWithOthers"].values()
    if max(shares) <= OTHERS_LIMIT:
        return ""
    return f" The machine was busy: other processes kept {min(shares):.1f} to {max(shares):.1f} processors busy, so only counts are judged."


def write_tables(path, result, others):
    """Puts the tables where the document keeps them; those of budgets with the figures of other kinds of machines beside the latest."""
    if not os.path.exists(path):
        return
    with open(path) as file:
        text = file.read()
    runs = [result] + others
    lines = "\n".join("- " + run_line(run) for run in runs) + "\n\n"
    for name, table in [("budgets", lines + budgets_table(runs)), ("figures", run_line(result) + "\n\n" + figures_table(result))]:
        begin, end = (f"<!-- {name}, written by Benchmarks/run: {part} -->\n" for part in ("begin", "end"))
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if found and closed:
            text = before + begin + table + end + after
    with open(path, "w") as file:
        file.write(text)

"""Results as a table, as JSON and as a plot."""

import json
import statistics


class Row:
    """One measured row: pairs of our figure and the peer's, or, without a peer, our figures alone against an absolute budget."""

    def __init__(self, name, title, unit, budget):
        self.name, self.title, self.unit, self.budget = name, title, unit, budget
        self.ours, self.peers = [], []
        self.load = 0.0
        self.note = ""

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
    def passes(self):
        return self.budget is None or self.median <= self.budget

    def record(self):
        return {
            "name": self.name, "title": self.title, "unit": self.unit, "ours": self.ours, "peer": self.peers,
            "median": self.median, "minimum": min(self.values), "maximum": max(self.values), "budget": self.budget,
            "passes": self.passes, "loadAverage": self.load, "note": self.note,
        }


def figure(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.2f}"


def cells(row):
    peer = figure(statistics.median(row.peers)) if row.isRatio else "–"
    budget = f"≤ {row.budget:g}" if row.budget is not None else "–"
    verdict = "" if row.budget is None else "✓" if row.passes else "✗"
    spread = f"{figure(row.median)} [{figure(min(row.values))}–{figure(max(row.values))}]"
    return [row.name, row.title, row.unit, figure(statistics.median(row.ours)), peer, spread, budget, verdict]


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


def write_json(path, rows, machine):
    with open(path, "w") as file:
        json.dump({"machine": machine, "rows": [row.record() for row in rows]}, file, indent=2, ensure_ascii=False)
        file.write("\n")


def write_plot(path, rows, machine):
    """Bars of ratios against their peers; a notch marks the budget. Absolute rows are drawn as a fraction of their budget."""
    drawn = [row for row in rows if row.isRatio or row.budget]
    scale = max([1.25] + [min(position(row), 2.0) for row in drawn])
    left, width, step, top = 330, 460, 34, 70
    total = top + step * len(drawn) + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 110}" height="{total}" '
        'font-family="system-ui, sans-serif" font-size="13" fill="#24292f">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        '<text x="20" y="28" font-size="17" font-weight="600">CPU time of the client, Lupine ÷ peer</text>',
        f'<text x="20" y="48" fill="#57606a">{escape(machine)} · shorter is better · │ budget · '
        'rows without a peer: figure ÷ budget</text>',
    ]
    one = left + width / scale
    parts.append(f'<line x1="{one:.1f}" y1="{top - 8}" x2="{one:.1f}" y2="{total - 30}" stroke="#d0d7de"/>')
    parts.append(f'<text x="{one:.1f}" y="{total - 14}" text-anchor="middle" fill="#57606a">1</text>')
    for index, row in enumerate(drawn):
        parts += bar(row, top + step * index, left, width, scale)
    parts.append("</svg>\n")
    with open(path, "w") as file:
        file.write("\n".join(parts))


def position(row):
    return row.median if row.isRatio else row.median / row.budget


def bar(row, y, left, width, scale):
    length = min(position(row), scale) / scale * width
    colour = "#7d8590" if row.budget is None else "#5a8f4e" if row.passes else "#c4532d"
    budget = None if row.budget is None else row.budget if row.isRatio else 1.0
    parts = [
        f'<text x="{left - 10}" y="{y + 16}" text-anchor="end">{escape(row.title)}</text>',
        f'<rect x="{left}" y="{y + 3}" width="{length:.1f}" height="18" rx="3" fill="{colour}"/>',
        f'<text x="{left + length + 8:.1f}" y="{y + 16}" font-weight="600">{escape(label(row))}</text>',
    ]
    if row.isRatio:
        low, high = (left + min(value, scale) / scale * width for value in (min(row.values), max(row.values)))
        parts.append(f'<line x1="{low:.1f}" y1="{y + 12}" x2="{high:.1f}" y2="{y + 12}" stroke="#24292f" opacity="0.45"/>')
    if budget is not None and budget <= scale:
        x = left + budget / scale * width
        parts.append(f'<line x1="{x:.1f}" y1="{y - 1}" x2="{x:.1f}" y2="{y + 25}" stroke="#24292f" stroke-width="2"/>')
    return parts


def label(row):
    return f"{row.median:.2f}" if row.isRatio else f"{figure(row.median)} {row.unit}"


def escape(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

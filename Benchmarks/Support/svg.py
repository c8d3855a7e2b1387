"""What the plots are drawn with: a canvas of text, lines and dots, a logarithmic axis, and rows of dots with their values beside them."""

import math

INK, GREY, LIGHT, OURS, WARNING = "#24292f", "#57606a", "#d8dee4", "#1a7f37", "#bc4c00"
PALETTE = ["#1a7f37", "#0969da", "#8250df", "#bf3989", "#9a6700", "#57606a", "#cf222e"]


def escape(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def short(value):
    """A figure with three digits or so."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


class Canvas:
    def __init__(self, width, title, method):
        self.width, self.parts, self.y = width, [], 84
        self.text(20, 32, title, size=18, weight=600)
        for index, line in enumerate(wrap(method, int((width - 40) / 6.4))):
            self.text(20, 54 + 17 * index, line, size=12, colour=GREY)
            self.y = 54 + 17 * index + 30

    def text(self, x, y, text, size=13, anchor="start", colour=INK, weight=400):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}" '
                          f'font-weight="{weight}">{escape(text)}</text>')

    def line(self, x1, y1, x2, y2, colour=LIGHT, width=1.0, dash=None):
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"{dashes}/>')

    def dot(self, x, y, colour, radius=5.0, hollow=False):
        fill, stroke = ("#ffffff", colour) if hollow else (colour, "#ffffff")
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{fill}" stroke="{stroke}" stroke-width="1.5"/>')

    def bar(self, x, y, width, height, colour):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 1):.1f}" height="{height}" rx="2" fill="{colour}"/>')

    def path(self, points, colour):
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="2"/>')

    def write(self, path):
        with open(path, "w") as file:
            file.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.y:.0f}" '
                       f'viewBox="0 0 {self.width} {self.y:.0f}" font-family="Helvetica, Arial, sans-serif">\n'
                       '<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join(self.parts) + "\n</svg>\n")


def wrap(text, width):
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) + 1 > width:
            lines.append("")
        lines[-1] = (lines[-1] + " " + word).strip()
    return lines


class LogAxis:
    """Values from the smallest to the largest on a logarithmic scale, with ticks at 1, 2 and 5."""

    def __init__(self, values, left, right, margin=1.25):
        self.low, self.high = math.log10(min(values) / margin), math.log10(max(values) * 1.25)
        self.left, self.right = left, right

    def at(self, value):
        return self.left + (math.log10(value) - self.low) / (self.high - self.low) * (self.right - self.left)

    @property
    def ticks(self):
        steps = (1, 2, 5) if self.high - self.low < 3 else (1,)
        powers = range(math.floor(self.low), math.ceil(self.high) + 1)
        return [step * 10.0 ** power for power in powers for step in steps if self.low <= math.log10(step * 10.0 ** power) <= self.high]


def tick_label(value):
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def dot_rows(canvas, groups, axis_label, left=230, right_margin=130, share=False):
    """Groups of (heading, [(name, colour, values)]): a dot at the median of the values, a line from the smallest to the largest, and the
    median beside it; with `share`, also how many times the first row's it is."""
    values = [value for _, rows in groups for _, _, row in rows for value in row]
    axis = LogAxis(values, left, canvas.width - right_margin)
    top = canvas.y
    height = sum(38 + 25 * len(rows) for _, rows in groups)
    for tick in axis.ticks:
        canvas.line(axis.at(tick), top + 8, axis.at(tick), top + height)
        canvas.text(axis.at(tick), top + height + 18, tick_label(tick), size=12, anchor="middle", colour=GREY)
    canvas.text((axis.left + axis.right) / 2, top + height + 40, axis_label, size=13, anchor="middle", colour=GREY)
    y = top
    for heading, rows in groups:
        y += 24
        canvas.text(20, y, heading, weight=600)
        first = median(rows[0][2])
        for name, colour, row in rows:
            y += 25
            middle = median(row)
            canvas.text(left - 12, y + 4, name, anchor="end", colour=colour if colour == OURS else INK, weight=600 if colour == OURS else 400)
            canvas.line(axis.at(min(row)), y, axis.at(max(row)), y, colour, 2)
            canvas.dot(axis.at(middle), y, colour)
            times = f"  ({middle / first:.1f} ×)" if share and row is not rows[0][2] else ""
            # A label that would leave the plot stands on the other side.
            label = short(middle) + times
            if axis.at(max(row)) + 14 + 7 * len(label) < canvas.width:
                canvas.text(axis.at(max(row)) + 10, y + 4, label, size=12)
            else:
                canvas.text(axis.at(min(row)) - 10, y + 4, label, size=12, anchor="end")
        y += 14
    canvas.y = top + height + 58


def median(values):
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2

"""The figures of bench/g10.py as SVG, written by hand: no library, no fonts beyond the reader's own, and the same bytes
for the same numbers. Readable on light and dark pages alike."""

import pathlib

COLOURS = {"on_demand": "#8c8c8c", "deepum": "#b07aa1", "flashneuron": "#9c755f", "g10": "#e08214",
           "foresight": "#1b7837", "published G10": "#e08214", "bound": "#4393c3"}
TEXT, GRID = "#808080", "#80808040"
WIDTH, HEIGHT = 340, 240  # of one panel
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 34, 40
LEGEND = 26


class Panel:
    """One pair of axes: percent of ideal speed over something."""

    def __init__(self, title, ticks, axis, scale):
        self.title, self.ticks, self.axis, self.scale = title, ticks, axis, scale
        self.parts = []

    def x(self, value):
        low, high = self.scale(self.ticks[0]), self.scale(self.ticks[-1])
        part = (self.scale(value) - low) / (high - low) if high > low else 0.5
        return LEFT + part * (WIDTH - LEFT - RIGHT)

    @staticmethod
    def y(share):
        return TOP + (1 - min(share, 1.0)) * (HEIGHT - TOP - BOTTOM)

    def text(self, x, y, words, anchor="middle", size=11):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
                          f'fill="{TEXT}">{words}</text>')

    def frame(self):
        self.text(WIDTH / 2, 20, self.title, size=13)
        for percent in (0, 25, 50, 75, 100):
            y = self.y(percent / 100)
            self.parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{GRID}"/>')
            self.text(LEFT - 6, y + 4, f"{percent} %", "end", 10)
        for tick in self.ticks:
            self.text(self.x(tick), HEIGHT - BOTTOM + 15, f"{tick:g}", size=10)
        self.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, self.axis)

    def line(self, name, points):
        colour = COLOURS[name]
        dashes = ' stroke-dasharray="5 4"' if name in ("bound", "published G10") else ""
        path = " ".join(f"{self.x(x):.1f},{self.y(share):.1f}" for x, share in points)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
        if name != "bound":
            self.parts += [f'<circle cx="{self.x(x):.1f}" cy="{self.y(share):.1f}" r="2.8" fill="{colour}"/>'
                           for x, share in points]


def legend(names):
    parts, x = [], LEFT
    for name in names:
        dashes = ' stroke-dasharray="5 4"' if name in ("bound", "published G10") else ""
        parts.append(f'<line x1="{x}" x2="{x + 22}" y1="13" y2="13" stroke="{COLOURS[name]}" '
                     f'stroke-width="2"{dashes}/>')
        parts.append(f'<text x="{x + 27}" y="17" font-size="11" fill="{TEXT}">{name}</text>')
        x += 44 + 7 * len(name)
    return parts


def share_of(row, name):
    """Ideal time over the time it took; None where the artifact has no number."""
    if name == "bound":
        return row["bound"] and row["ideal"] / row["bound"]
    if name == "published G10":
        seconds = row["published"].get("g10")
        return seconds and row.get("nominal", row["ideal"]) / seconds
    seconds = row["strict"].get(name)
    return seconds and row["ideal"] / seconds


def figure(groups, names, key, axis, scale):
    """One panel for each (title, rows); all lines are shares of ideal speed."""
    columns = min(len(groups), 3)
    lines = (len(groups) + columns - 1) // columns
    body = legend(names)
    for number, (title, rows) in enumerate(groups):
        rows = sorted(rows, key=key)
        panel = Panel(title, sorted({key(row) for row in rows}), axis, scale)
        panel.frame()
        for name in names:
            points = [(key(row), share_of(row, name)) for row in rows]
            panel.line(name, [(x, share) for x, share in points if share])
        left, top = number % columns * WIDTH, LEGEND + number // columns * HEIGHT
        body.append(f'<g transform="translate({left} {top})">' + "".join(panel.parts) + "</g>")
    width, height = columns * WIDTH, LEGEND + lines * HEIGHT
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'font-family="system-ui, sans-serif">\n' + "\n".join(body) + "\n</svg>\n")


def groups_by(rows, name):
    groups = {}
    for row in rows:
        groups.setdefault(name(row), []).append(row)
    return list(groups.items())


def draw(rows, folder):
    """Writes one SVG a sweep that was measured; returns their paths."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    all_lines = ("on_demand", "deepum", "flashneuron", "g10", "published G10", "foresight", "bound")
    few_lines = ("deepum", "g10", "published G10", "foresight", "bound")
    figures = {
        "batch": (all_lines, lambda row: row["batch"], "batch size", float, lambda row: row["net"]),
        "host": (few_lines, lambda row: row["host_gib"], "host memory, GiB", float,
                 lambda row: f"{row['net']}, batch {row['batch']}"),
        "flash": (few_lines, lambda row: row["flash_gbps"], "flash, GB/s each way", float,
                  lambda row: f"{row['net']}, batch {row['batch']}"),
        "variation": (("g10", "published G10", "foresight", "bound"), lambda row: 100 * row["vary"],
                      "variation of kernel times, %", float, lambda row: f"{row['net']}, batch {row['batch']}"),
    }
    paths = []
    for sweep, (names, key, axis, scale, group) in figures.items():
        chosen = [row for row in rows if row["sweep"] == sweep]
        if not chosen:
            continue
        path = folder / f"g10-{sweep}.svg"
        path.write_text(figure(groups_by(chosen, group), names, key, axis, scale), encoding="utf-8")
        paths.append(path)
    return paths

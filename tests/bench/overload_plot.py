"""Draws goodput against offered load from the results of `overload_goodput.py`, as SVG. Needs only Python's standard library.

    python3 overload_plot.py NAME=RESULTS.json [NAME=RESULTS.json] --output FILE.svg [--priority all]

One panel for each kind of call, one line for each deadline. Of two results, the first is dashed. Both axes count in multiples of
the first result's capacity. A hollow point is a level that the load generator did not keep up with.
"""

from __future__ import annotations

import argparse
import json
import math
from html import escape
from pathlib import Path

WIDTH, HEIGHT, LEFT, TOP, GAP, LEGEND = 300, 240, 64, 40, 48, 84
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
SINGLE = "normal"
X_TICKS = (0.5, 1, 2, 5, 10)
Y_TICKS = (0, 0.5, 1.0, 1.5, 2.0)
Y_MAX = 2.1


class Panel:
    """Coordinates of a panel: a logarithmic x axis and a linear y axis."""

    def __init__(self, at: int) -> None:
        self.left, self.top = LEFT + at * (WIDTH + GAP), TOP

    def x(self, load: float) -> float:
        low, high = math.log(X_TICKS[0]), math.log(X_TICKS[-1])
        return self.left + WIDTH * (math.log(load) - low) / (high - low)

    def y(self, share: float) -> float:
        return self.top + HEIGHT * (1 - min(share, Y_MAX) / Y_MAX)

    def axes(self, title: str) -> list[str]:
        drawn = [text(self.left + WIDTH / 2, self.top - 14, title, size=14, weight="bold")]
        for tick in Y_TICKS:
            drawn.append(line([(self.left, self.y(tick)), (self.left + WIDTH, self.y(tick))], "#ddd", 1))
            drawn.append(text(self.left - 8, self.y(tick) + 4, f"{tick:g}", anchor="end"))
        for tick in X_TICKS:
            drawn.append(line([(self.x(tick), self.top + HEIGHT), (self.x(tick), self.top + HEIGHT + 5)], "#555", 1))
            drawn.append(text(self.x(tick), self.top + HEIGHT + 19, f"{tick:g}"))
        corner = [(self.left, self.top), (self.left, self.top + HEIGHT), (self.left + WIDTH, self.top + HEIGHT)]
        drawn.append(line(corner, "#555", 1))
        drawn.append(text(self.left + WIDTH / 2, self.top + HEIGHT + 38, "offered load, multiples of the capacity"))
        return drawn


def text(x: float, y: float, words: str, *, anchor: str = "middle", size: int = 12, weight: str = "normal", turn: bool = False) -> str:
    turned = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turn else ""
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" fill="#222"{turned}>'
            f"{escape(words)}</text>")


def line(points: list[tuple[float, float]], color: str, width: float, dashes: str = "") -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="{width}"{dashed}/>'


def points(subject: dict, capacity: float, deadline: str, priority: str) -> list[tuple[float, float, bool]]:
    """Offered load, goodput and punctuality of a deadline's levels: of a priority of the mix, or of all calls of the run without a mix."""
    found = []
    for run in subject["runs"]:
        if run["deadline"] != deadline or (run["priorities"] == SINGLE) != (priority == "all"):
            continue
        for level in run["levels"]:
            part = level if priority == "all" else level["priorities"].get(priority)
            if part and part["sent"]:
                share = 1 if priority == "all" else part["sent"] / level["sent"]
                goodput = part["goodput_per_second"] / (share * capacity)
                found.append((level["rate"] / capacity, goodput, level["generator"]["kept_up"]))
    return found


def draw(results: dict[str, dict], priority: str) -> str:
    first = next(iter(results.values()))
    names = [subject["subject"] for subject in first["subjects"]]
    deadlines = list(dict.fromkeys(run["deadline"] for subject in first["subjects"] for run in subject["runs"]))
    width, height = LEFT + len(names) * (WIDTH + GAP), TOP + HEIGHT + LEGEND
    drawn = [text(18, TOP + HEIGHT / 2, "goodput, share of the capacity", turn=True)]
    for at, name in enumerate(names):
        panel, capacity = Panel(at), first["subjects"][at]["capacity"]
        drawn += panel.axes(f"{name}: capacity {capacity:.0f} calls/s")
        for number, result in enumerate(results.values()):
            dashes = "5 4" if number == 0 and len(results) > 1 else ""
            for subject in (one for one in result["subjects"] if one["subject"] == name):
                for color, deadline in zip(COLORS, deadlines):
                    curve = [(panel.x(x), panel.y(y), kept_up)
                             for x, y, kept_up in points(subject, capacity, deadline, priority)
                             if X_TICKS[0] * 0.99 <= x <= X_TICKS[-1] * 1.01]
                    drawn.append(line([(x, y) for x, y, _ in curve], color, 2, dashes))
                    drawn += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" stroke="{color}" fill="{color if kept_up else "white"}"/>'
                              for x, y, kept_up in curve]
    drawn += legend(deadlines, list(results), height - 18)
    style = 'font-family="Helvetica, Arial, sans-serif"'
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" {style}>\n'
            f'<rect width="{width}" height="{height}" fill="white"/>\n' + "\n".join(drawn) + "\n</svg>\n")


def legend(deadlines: list[str], results: list[str], y: float) -> list[str]:
    drawn, x = [], float(LEFT)
    entries = [(f"deadline {deadline}", color, "") for deadline, color in zip(deadlines, COLORS)]
    if len(results) > 1:
        entries += [(results[0], "#555", "5 4"), (results[1], "#555", "")]
    for label, color, dashes in entries:
        drawn.append(line([(x, y - 4), (x + 26, y - 4)], color, 2, dashes))
        drawn.append(text(x + 32, y, label, anchor="start"))
        x += 60 + 7 * len(label)
    return drawn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("results", nargs="+", metavar="NAME=RESULTS.json")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--priority", default="all", choices=("all", "high", "normal", "low"))
    given = parser.parse_args()
    named = (one.split("=", 1) for one in given.results)
    results = {name: json.loads(Path(path).read_text()) for name, path in named}
    given.output.write_text(draw(results, given.priority))


if __name__ == "__main__":
    main()

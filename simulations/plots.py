"""Plots for reports, as SVG. A plotting library was rejected: it would be a large dependency, for bars and lines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

WIDTH: Final = 640
HEIGHT: Final = 320
LEFT: Final = 60
BOTTOM: Final = 48
TOP: Final = 40
RIGHT: Final = 20
LEGEND: Final = 160
"""So much on the right is for the names of lines."""
COLOURS: Final = ("#4a7ab5", "#c92a2a", "#2b8a3e", "#e67700", "#7048b6", "#495057")
_FONT: Final = 'font-family="sans-serif" font-size="12"'


def histogram(values: Sequence[float], *, title: str, unit: str, bins: int = 40) -> str:
    """How often values occur, with the median and the 99th percentile marked. Values below 0 count as 0."""
    inside = [f'<text x="{WIDTH / 2}" y="22" text-anchor="middle" font-weight="bold">{escape(title)}</text>']
    if not values:
        inside.append(f'<text x="{WIDTH / 2}" y="{HEIGHT / 2}" text-anchor="middle">nothing to show</text>')
        return _svg(inside)
    ordered = sorted(max(value, 0.0) for value in values)
    most = _percentile(ordered, 0.995) or ordered[-1] or 1.0
    counts = [0] * bins
    for value in ordered:
        counts[min(int(value / most * bins), bins - 1)] += 1
    tallest = max(counts)
    wide, high = (WIDTH - LEFT - RIGHT) / bins, HEIGHT - TOP - BOTTOM
    for place, count in enumerate(counts):
        tall = count / tallest * high
        x, y = LEFT + place * wide, HEIGHT - BOTTOM - tall
        inside.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide - 1:.1f}" height="{tall:.1f}" fill="#4a7ab5"/>')
    for share, name, colour in ((0.5, "p50", "#2b8a3e"), (0.99, "p99", "#c92a2a")):
        value = _percentile(ordered, share)
        x = LEFT + min(value / most, 1.0) * (WIDTH - LEFT - RIGHT)
        inside.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="{colour}"/>')
        label = f"{name} {value:.3g} {escape(unit)}"
        anchor = "end" if x > WIDTH / 2 else "start"
        inside.append(f'<text x="{x:.1f}" y="{TOP - 4}" text-anchor="{anchor}" fill="{colour}">{label}</text>')
    for part in range(5):
        x = LEFT + part / 4 * (WIDTH - LEFT - RIGHT)
        text = f"{most * part / 4:.3g}"
        inside.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{text}</text>')
    middle = LEFT + (WIDTH - LEFT - RIGHT) / 2
    inside.append(f'<text x="{middle}" y="{HEIGHT - 10}" text-anchor="middle">{escape(unit)}</text>')
    inside.append(f'<text x="{LEFT - 6}" y="{TOP + 10}" text-anchor="end">{tallest}</text>')
    inside.append(_axes())
    return _svg(inside)


def bars(figures: Sequence[tuple[str, float]], *, title: str, unit: str) -> str:
    """A bar for each figure, with its value."""
    inside = [f'<text x="{WIDTH / 2}" y="22" text-anchor="middle" font-weight="bold">{escape(title)}</text>']
    most = max((value for _, value in figures), default=1.0) or 1.0
    step = (HEIGHT - TOP - 12) / max(len(figures), 1)
    for place, (name, value) in enumerate(figures):
        y = TOP + place * step
        wide = value / most * (WIDTH - 320)
        colour = "#4a7ab5"
        inside.append(f'<rect x="190" y="{y:.1f}" width="{wide:.1f}" height="{step * 0.7:.1f}" fill="{colour}"/>')
        middle = y + step * 0.45
        inside.append(f'<text x="182" y="{middle:.1f}" text-anchor="end">{escape(name)}</text>')
        inside.append(f'<text x="{196 + wide:.1f}" y="{middle:.1f}">{value:,.4g} {escape(unit)}</text>')
    return _svg(inside)


def lines(
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    title: str,
    across: str,
    unit: str,
    logarithmic: bool = False,
) -> str:
    """A line for each series, through its points from left to right, each marked; what is not above 0 has no logarithm
    and is left out.

    Args:
        across: what the first of two numbers is, `unit` the second.
    """
    inside = [f'<text x="{WIDTH / 2}" y="22" text-anchor="middle" font-weight="bold">{escape(title)}</text>']
    shown = {
        name: sorted(point for point in points if point[1] > 0 or not logarithmic) for name, points in series.items()
    }
    everything = [point for points in shown.values() for point in points]
    if not everything:
        inside.append(f'<text x="{WIDTH / 2}" y="{HEIGHT / 2}" text-anchor="middle">nothing to show</text>')
        return _svg(inside)
    right = WIDTH - LEGEND
    least, most = min(x for x, _ in everything), max(x for x, _ in everything)
    bottom, top = _reach([y for _, y in everything], logarithmic)

    def along(x: float) -> float:
        share = (x - least) / (most - least) if most > least else 0.5
        return LEFT + 12 + share * (right - LEFT - 24)

    def up(scaled: float) -> float:
        return HEIGHT - BOTTOM - (scaled - bottom) / (top - bottom) * (HEIGHT - TOP - BOTTOM)

    for scaled in _marks(bottom, top, logarithmic):
        y, text = up(scaled), _short(10.0**scaled if logarithmic else scaled)
        inside.append(f'<line x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        inside.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    before = -math.inf
    for value in sorted({x for x, _ in everything}):
        x, y = along(value), HEIGHT - BOTTOM + 16
        if x - before >= 36:
            before = x
            inside.append(f'<text x="{x:.1f}" y="{y}" text-anchor="middle">{_short(value)}</text>')
    for number, (name, points) in enumerate(shown.items()):
        stroke = f'stroke="{COLOURS[number % len(COLOURS)]}" stroke-width="2"'
        places = [f"{along(x):.1f},{up(math.log10(y) if logarithmic else y):.1f}" for x, y in points]
        inside.append(f'<polyline points="{" ".join(places)}" fill="none" {stroke}/>')
        for place in places:
            left, above = place.split(",")
            inside.append(f'<circle cx="{left}" cy="{above}" r="3" fill="white" {stroke}/>')
        y = TOP + 10 + 18 * number
        inside.append(f'<line x1="{right + 10}" x2="{right + 28}" y1="{y - 4}" y2="{y - 4}" {stroke}/>')
        inside.append(f'<text x="{right + 34}" y="{y}">{escape(name)}</text>')
    middle = (LEFT + right) / 2
    inside.append(f'<text x="{middle}" y="{HEIGHT - 10}" text-anchor="middle">{escape(across)}</text>')
    inside.append(f'<text x="{LEFT - 6}" y="{TOP - 14}" text-anchor="end">{escape(unit)}</text>')
    inside.append(_axes(right))
    return _svg(inside)


def _reach(values: Sequence[float], logarithmic: bool) -> tuple[float, float]:
    """From where to where a scale goes: from 0 on, or in whole powers of ten."""
    if not logarithmic:
        return 0.0, 4 * _round_up(max(values) / 4) or 1.0
    bottom = math.floor(math.log10(min(values)))
    return bottom, max(math.ceil(math.log10(max(values))), bottom + 1)


def _round_up(value: float) -> float:
    """The next number that people like to count in."""
    power = 10.0 ** math.floor(math.log10(value)) if value > 0 else 0.0
    return next((step * power for step in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if step * power >= value), value)


def _marks(bottom: float, top: float, logarithmic: bool) -> list[float]:
    """What a scale names: values, or powers of ten."""
    if not logarithmic:
        return [top * part / 4 for part in range(5)]
    return list(range(int(bottom), int(top) + 1, max(1, math.ceil((top - bottom) / 6))))


def _short(value: float) -> str:
    """A number in few characters: 1.5M for 1,500,000."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def _axes(right: float = WIDTH - RIGHT) -> str:
    path = f"M{LEFT},{TOP} V{HEIGHT - BOTTOM} H{right}"
    return f'<path d="{path}" fill="none" stroke="#444"/>'


def _percentile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def _svg(inside: Sequence[str]) -> str:
    body = "\n".join(inside)
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    paper = '<rect width="100%" height="100%" fill="white"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {_FONT}>\n{paper}\n{body}\n</svg>\n'

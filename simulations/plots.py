"""Plots for reports, as SVG. A plotting library was rejected: it would be a large dependency, for bars and lines."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

WIDTH: Final = 640
HEIGHT: Final = 320
LEFT: Final = 60
BOTTOM: Final = 48
TOP: Final = 40
RIGHT: Final = 20
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


def _axes() -> str:
    path = f"M{LEFT},{TOP} V{HEIGHT - BOTTOM} H{WIDTH - RIGHT}"
    return f'<path d="{path}" fill="none" stroke="#444"/>'


def _percentile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def _svg(inside: Sequence[str]) -> str:
    body = "\n".join(inside)
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    paper = '<rect width="100%" height="100%" fill="white"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {_FONT}>\n{paper}\n{body}\n</svg>\n'

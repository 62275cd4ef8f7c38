"""Plots of sections, drawn by matplotlib as PNG and SVG.

Colours are those of Okabe and Ito, which people with any colour vision tell apart; series differ in their markers, too,
for prints in grey.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any, Final, Literal

from distced.simulations.experiments.reporting.sections import (
    Axis,
    Curves,
    Distribution,
    Dots,
    Interval,
    Panel,
    Plot,
    Scatter,
)
from distced.simulations.plots import STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS: Final = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#333333", "#8c6d1f", "#7048b6", "#999999",
)  # fmt: skip
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")
DPI: Final = 200
_WIDTH: Final = 7.2
_GRID: Final[Any] = {"color": "#dddddd", "linewidth": 0.8}
_MOST_PANELS: Final = 3  # in one row
_LEGEND: Final = 5  # names in a line of a legend
_MOST_BANDS: Final = 3  # in one plot
_RAISED: Final = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_SCALED: Final = ("B", "B/s", "bit/s")


def draw(plot: Plot) -> tuple[bytes, bytes]:
    """PNG and SVG of a plot; the same plot gives the same files."""
    from matplotlib import rc_context

    # Glyphs as paths: a paper is set on machines with other fonts.
    with rc_context({**STYLE, "svg.fonttype": "path", "axes.axisbelow": True}):
        match plot:
            case Dots():
                figure = _dots(plot)
            case Curves():
                figure = _single(4.0, lambda axes: _curves(axes, plot))
            case Scatter():
                figure = _single(4.4, lambda axes: _scatter(axes, plot))
            case Distribution():
                figure = _single(3.8, lambda axes: _distribution(axes, plot))
        png, svg = BytesIO(), BytesIO()
        figure.savefig(png, format="png", dpi=DPI, metadata={"Software": None})
        figure.savefig(svg, format="svg", metadata={"Date": None})
    return png.getvalue(), svg.getvalue()


def _single(height: float, fill: Any) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    fill(figure.add_subplot())
    return figure


def _looks(count: int) -> list[tuple[str, str]]:
    """Colour and marker of each series."""
    return list(zip(islice(cycle(COLOURS), count), islice(cycle(MARKERS), count), strict=True))


def _dots(plot: Dots) -> Figure:
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(name for panel in plot.panels for name in panel.series))
    groups = list(dict.fromkeys(g for panel in plot.panels for made in panel.series.values() for g in made))
    columns = min(len(plot.panels), _MOST_PANELS)
    rows = -(-len(plot.panels) // columns) if columns else 1
    # A line for each series within a group, and a gap between groups.
    height = rows * (len(groups) * (0.17 * len(names) + 0.14) + 0.75) + 0.45
    figure = Figure(figsize=(_WIDTH if columns < _MOST_PANELS else 9.0, max(height, 2.2)), layout="constrained")
    figure.get_layout_engine().set(wspace=0.06)  # type: ignore[union-attr, call-arg]
    every = figure.subplots(rows, columns, sharey=True, squeeze=False).flatten()
    for axes, panel in zip(every, plot.panels, strict=False):
        _panel(axes, panel, names, groups)
    for axes in every[len(plot.panels) :]:
        axes.set_axis_off()
    if len(names) > 1:
        handles = [every[0].plot([], [], marker, color=colour)[0] for colour, marker in _looks(len(names))]
        lines = -(-len(names) // _LEGEND)
        figure.legend(handles, names, loc="outside upper center", ncols=-(-len(names) // lines), fontsize=8)
    return figure


def _panel(axes: Axes, panel: Panel, names: Sequence[str], groups: Sequence[str]) -> None:
    step = 0.8 / max(len(names), 1)
    for place, (name, (colour, marker)) in enumerate(zip(names, _looks(len(names)), strict=True)):
        made = panel.series.get(name, {})
        at = [groups.index(group) + (place - (len(names) - 1) / 2) * step for group in made]
        values = list(made.values())
        axes.errorbar(
            [each.mean for each in values], at, xerr=_bars(values), fmt=marker, color=colour, markersize=4.5, capsize=2,
            elinewidth=1.1, linestyle="none",
        )  # fmt: skip
    for line in range(1, len(groups)):
        axes.axhline(line - 0.5, color="#eeeeee", linewidth=0.8)
    if panel.reference is not None:
        label, value = panel.reference
        axes.axvline(value, color="#555555", linestyle="--", linewidth=1)
        axes.annotate(label, (value, 1.0), xycoords=("data", "axes fraction"), xytext=(2, 2),
                      textcoords="offset points", fontsize=7, color="#555555")  # fmt: skip
    axes.set_yticks(range(len(groups)), groups)
    axes.set_ylim(len(groups) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", **_GRID)
    axis = _fitting(panel.axis, panel.series.values())
    _set_axis(axes, "x", axis)
    if not axis.logarithmic:
        _linear_limits(axes, panel)
    if panel.title:
        axes.set_title(panel.title, size=9)


def _fitting(axis: Axis, groups: Iterable[Mapping[Any, Interval]]) -> Axis:
    """The axis; a linear one where values are not above 0, which no logarithmic one shows."""
    if axis.logarithmic and not axis.threshold:
        means = [each.mean for made in groups for each in made.values()]
        return replace(axis, logarithmic=bool(means) and min(means) > 0)
    return axis


def _linear_limits(axes: Axes, panel: Panel) -> None:
    """Limits of a linear axis: from 0, a little before it so that points there are whole, or around a reference."""
    made = [each for groups in panel.series.values() for each in groups.values()]
    low, high = min((each.low for each in made), default=0.0), max((each.high for each in made), default=1.0)
    if panel.axis.zero and low >= 0:
        axes.set_xlim(-0.02 * (high or 1.0), (high or 1.0) * 1.05)
    elif panel.reference is not None:
        middle = panel.reference[1]
        reach = max(abs(low - middle), abs(high - middle), 0.02 * abs(middle)) * 1.1
        axes.set_xlim(max(middle - reach, low - 0.1 * reach) if low > middle else middle - reach, middle + reach)


def _bars(values: Sequence[Interval]) -> list[list[float]]:
    """Lengths of error bars to the left and to the right."""
    return [[each.mean - each.low for each in values], [each.high - each.mean for each in values]]


def _curves(axes: Axes, plot: Curves) -> None:
    for (name, points), (colour, marker) in zip(plot.series.items(), _looks(len(plot.series)), strict=True):
        xs = sorted(points)
        made = [points[x] for x in xs]
        axes.plot(xs, [each.mean for each in made], marker=marker, markersize=4.5, color=colour, label=name)
        if len(plot.series) <= _MOST_BANDS:
            axes.fill_between(xs, [each.low for each in made], [each.high for each in made], color=colour, alpha=0.18,
                              linewidth=0)  # fmt: skip
        else:
            axes.errorbar(xs, [each.mean for each in made], yerr=_bars(made), fmt="none", color=colour, capsize=2,
                          elinewidth=0.9)  # fmt: skip
    _references(axes, plot.reference, across=True)
    up = _fitting(plot.up, plot.series.values())
    _set_axis(axes, "x", plot.across)
    _set_axis(axes, "y", up)
    _diagonal(axes, plot.diagonal, plot.across)
    if not up.logarithmic:
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]) if _lowest(plot) < 0 else 0.0)
    axes.grid(**_GRID)
    _legend(axes, [*plot.series, *filter(None, [plot.diagonal])])


def _diagonal(axes: Axes, name: str, across: Axis) -> None:
    """A line of equal values, over the range of the axis across."""
    if name:
        low, high = axes.get_xlim()
        low = low if across.logarithmic else max(low, 0.0)
        axes.plot([low, high], [low, high], color="#555555", linestyle="--", linewidth=1, label=name)
        axes.set_xlim(axes.get_xlim())


def _lowest(plot: Curves) -> float:
    return min((each.low for points in plot.series.values() for each in points.values()), default=0.0)


def _scatter(axes: Axes, plot: Scatter) -> None:
    for (name, points), (colour, marker) in zip(plot.series.items(), _looks(len(plot.series)), strict=True):
        across, up = [x for x, _ in points], [y for _, y in points]
        xs, ys = [each.mean for each in across], [each.mean for each in up]
        if plot.joined:
            axes.plot(xs, ys, marker=marker, color=colour, markersize=4.5, linewidth=1, label=name)
        else:
            axes.errorbar(xs, ys, xerr=_bars(across), yerr=_bars(up), fmt=marker, color=colour, markersize=4.5,
                          elinewidth=0.9, label=name)  # fmt: skip
    _set_axis(axes, "x", plot.across)
    _set_axis(axes, "y", plot.up)
    _diagonal(axes, plot.diagonal, plot.across)
    for (name, points), colour in zip(plot.series.items(), cycle(COLOURS), strict=False):
        _label_points(axes, [(x.mean, y.mean) for x, y in points], plot.labels.get(name, ()), colour)
    axes.grid(**_GRID)
    _legend(axes, [*plot.series, *filter(None, [plot.diagonal])])


def _label_points(axes: Axes, points: Sequence[tuple[float, float]], labels: Sequence[str], colour: str) -> None:
    """Text beside points; those that are close have one text."""
    placed: list[tuple[float, float, list[str], tuple[float, float]]] = []
    for point, label in zip(points, labels, strict=False):
        x, y = axes.transData.transform(point)
        near = next((each for each in placed if abs(each[0] - x) < 60 and abs(each[1] - y) < 12), None)
        if near is None:
            placed.append((x, y, [label], point))
        else:
            near[2].append(label)
    for _, _, texts, point in placed:
        axes.annotate(", ".join(texts), point, xytext=(5, 5), textcoords="offset points", fontsize=7.5, color=colour)


def _distribution(axes: Axes, plot: Distribution) -> None:
    for (name, values), (colour, _) in zip(plot.series.items(), _looks(len(plot.series)), strict=True):
        if not values:
            continue
        if plot.form == "cumulative":
            axes.ecdf(values, color=colour, label=name)
        else:
            axes.hist(values, 40, color=colour, alpha=0.75, label=name, rwidth=0.92)
    _references(axes, plot.reference, across=False)
    _set_axis(axes, "x", plot.axis)
    share = Axis("share of values") if plot.form == "cumulative" else Axis("number of values")
    _set_axis(axes, "y", share)
    if not plot.axis.logarithmic:
        axes.set_xlim(left=min(0.0, *(min(values) for values in plot.series.values() if values), 0.0))
    axes.grid(**_GRID)
    _legend(axes, [name for name, values in plot.series.items() if values])


def _references(axes: Axes, lines: Mapping[str, float], *, across: bool) -> None:
    for (name, value), style in zip(lines.items(), cycle(("--", ":", "-.")), strict=False):
        mark = axes.axhline if across else axes.axvline
        mark(value, color="#555555", linestyle=style, linewidth=1, label=name)


def _legend(axes: Axes, names: Sequence[str]) -> None:
    if len(axes.get_legend_handles_labels()[1]) > 1 or len(names) > 1:
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))


def _set_axis(axes: Axes, which: Literal["x", "y"], axis: Axis) -> None:
    from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, NullFormatter

    axes.set(**{f"{which}label": axis.text})
    shown = axes.xaxis if which == "x" else axes.yaxis
    limit, limits = (axes.set_xlim, axes.get_xlim) if which == "x" else (axes.set_ylim, axes.get_ylim)
    if axis.logarithmic and axis.threshold:
        scale = axes.set_xscale if which == "x" else axes.set_yscale
        scale("symlog", linthresh=axis.threshold, linscale=0.5)
        limit(-axis.threshold / 5, max(limits()[1] * 1.5, axis.threshold * 10))
    elif axis.logarithmic:
        axes.set(**{f"{which}scale": "log"})
        low, high = limits()
        # Within a decade or two, numbers between its ends.
        between = ((1.2, 1.5, 2, 3, 5, 7) if high < 4 * low else (2, 5) if high < 20 * low else (3,) if high < 99 * low
                   else ())  # fmt: skip
        shown.set_major_locator(LogLocator(subs=(1, *between)))
        shown.set_minor_formatter(NullFormatter())
    if axis.logarithmic:
        shown.set_major_formatter(FuncFormatter(lambda value, _: number_text(value)))
    else:
        if axis.unit in _SCALED:
            shown.set_major_formatter(EngFormatter(sep=" "))
        axes.locator_params(axis=which, nbins=5 if which == "x" else 7)


def number_text(value: float) -> str:
    """A number as people write it; powers of ten where it is short only so."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return f"{value:,.0f}" if value == 0 or abs(value) >= 1 else f"{value:.3g}"
    digits, _, power = f"{value:.3g}".partition("e") if "e" in f"{value:.3g}" else f"{value:.2e}".partition("e")
    digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
    raised = str(int(power)).translate(_RAISED)
    return f"10{raised}" if digits == "1" else f"{digits}·10{raised}"

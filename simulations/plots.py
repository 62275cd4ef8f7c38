"""Plots for reports, as SVG: histograms, bars and lines, drawn by matplotlib, which is imported where one is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Point: TypeAlias = tuple[float, float]

COLOURS: Final = ("#4a7ab5", "#c92a2a", "#2b8a3e", "#e67700", "#7048b6", "#495057")
STYLE: Final[Any] = {
    "axes.prop_cycle": "cycler('color', ['{}'])".format("', '".join(COLOURS)),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titleweight": "bold",
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": 9,
    "legend.frameon": False,
    # Names of patterns and types are no formulas; texts stay texts, and equal plots are equal files.
    "text.parse_math": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "distced",
}


def histogram(values: Sequence[float], *, title: str, unit: str, bins: int = 40) -> str:
    """Frequencies of values, with median and 99th percentile. Values below 0 count as 0; the last bar has the rest."""
    ordered = sorted(max(value, 0.0) for value in values)

    def draw(axes: Axes) -> None:
        most = percentile(ordered, 0.995) or ordered[-1] or 1.0
        axes.hist([min(value, most) for value in ordered], bins, range=(0.0, most), rwidth=0.9)
        for share, name, colour in ((0.5, "p50", COLOURS[2]), (0.99, "p99", COLOURS[1])):
            value = percentile(ordered, share)
            axes.axvline(min(value, most), color=colour, label=f"{name} {value:.3g} {unit}")
        axes.set(xlabel=unit, ylabel="count")
        axes.legend()

    return _plot(title, draw, bool(ordered))


def bars(figures: Sequence[tuple[str, float]], *, title: str, unit: str) -> str:
    """A bar for each figure, with its value."""

    def draw(axes: Axes) -> None:
        places = range(len(figures))
        drawn = axes.barh(places, [value for _, value in figures], height=0.7)
        texts = (f"{value:,.0f}" if value >= 1000 else f"{value:.4g}" for _, value in figures)
        axes.bar_label(drawn, [f"{text} {unit}" for text in texts], padding=4)
        axes.set_yticks(places, [name for name, _ in figures])
        axes.invert_yaxis()
        axes.margins(x=0.2)
        axes.set_xticks([])
        axes.spines["bottom"].set_visible(False)

    return _plot(title, draw, bool(figures))


def lines(
    series: Mapping[str, Sequence[_Point]], *, title: str, across: str, unit: str, logarithmic: bool = False
) -> str:
    """A line for each series, through its points (`across`, `unit`) from left to right. On a logarithmic scale points
    not above 0 are left out."""
    shown = {
        name: sorted(point for point in points if point[1] > 0 or not logarithmic) for name, points in series.items()
    }

    def draw(axes: Axes) -> None:
        from matplotlib.ticker import EngFormatter

        for number, (name, points) in enumerate(shown.items()):
            xs, ys = [x for x, _ in points], [y for _, y in points]
            axes.plot(xs, ys, marker="o", markerfacecolor="white", label=name, gid=f"line-{number}")
        axes.set(xlabel=across, ylabel=unit, yscale="log" if logarithmic else "linear")
        if not logarithmic:
            axes.set_ylim(bottom=0)
        axes.grid(axis="y", color="#dddddd")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(EngFormatter(sep=""))
        # Names that begin with an underscore would be left out without their handles.
        axes.legend(axes.lines, list(shown), loc="upper left", bbox_to_anchor=(1, 1))

    return _plot(title, draw, any(shown.values()))


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value that this share of ordered values does not exceed."""
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def _plot(title: str, draw: Callable[[Axes], None], shown: bool) -> str:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        figure = Figure(figsize=(7.2, 3.6), layout="constrained")
        axes = figure.add_subplot()
        if shown:
            draw(axes)
        else:
            axes.set_axis_off()
            axes.text(0.5, 0.5, "nothing to show", ha="center")
        figure.suptitle(title, weight="bold", size=10)
        written = StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None})
    return written.getvalue()

"""Sections of a report as data: figures with plots, tables, claims.

Every axis has a label with its unit, and a claim names the figure or table it rests on; `page` refuses others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from distced.simulations.report import Cell, Column


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis.

    Attributes:
        unit: empty for shares and numbers.
        threshold: of a logarithmic axis that shows 0, too: below it the axis is linear.
        zero: whether a linear axis begins at 0, where no value is below.
    """

    label: str
    unit: str = ""
    logarithmic: bool = False
    threshold: float = 0.0
    zero: bool = True

    @property
    def text(self) -> str:
        """Label and unit."""
        return f"{self.label} [{self.unit}]" if self.unit else self.label


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its confidence interval, of n values."""

    mean: float
    low: float
    high: float
    count: int = 1


@dataclass(frozen=True, slots=True)
class Panel:
    """Figures of groups side by side on one axis.

    Attributes:
        title: above the panel, where there are several.
        series: intervals by series and group; a group without a value is left out.
        reference: value of a line across, with its name.
    """

    axis: Axis
    series: Mapping[str, Mapping[str, Interval]]
    title: str = ""
    reference: tuple[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Dots:
    """Means as dots with their intervals: panels side by side, groups down the left, a colour for each series."""

    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True)
class Curves:
    """Lines with bands of confidence.

    Attributes:
        series: by name, intervals by the value across.
        reference: values of lines across, by name.
        diagonal: name of a line of equal values; none if empty.
    """

    across: Axis
    up: Axis
    series: Mapping[str, Mapping[float, Interval]]
    reference: Mapping[str, float] = field(default_factory=dict)
    diagonal: str = ""


@dataclass(frozen=True, slots=True)
class Scatter:
    """Points by series: two means each, with their intervals.

    Attributes:
        joined: whether the points of a series are joined in their order, as of a parameter that varies.
        labels: text beside each point, by series; none if empty.
        diagonal: name of a line of equal values; none if empty.
    """

    across: Axis
    up: Axis
    series: Mapping[str, Sequence[tuple[Interval, Interval]]]
    joined: bool = False
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    diagonal: str = ""


@dataclass(frozen=True, slots=True)
class Distribution:
    """Distributions of values: cumulative shares, or frequencies.

    Attributes:
        series: values by name.
        reference: values of vertical lines, by name.
    """

    axis: Axis
    series: Mapping[str, Sequence[float]]
    form: Literal["cumulative", "frequencies"] = "cumulative"
    reference: Mapping[str, float] = field(default_factory=dict)


Plot: TypeAlias = Dots | Curves | Scatter | Distribution


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot with its caption.

    Attributes:
        name: of its files, and for claims; letters, digits, hyphens.
        caption: what is to be seen, for readers who do not know the code.
    """

    name: str
    title: str
    plot: Plot
    caption: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table with its caption; `name` as of `Figure`."""

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement that the results support or not.

    Attributes:
        text: the statement.
        holds: whether it is supported; None where the results do not decide.
        measured: the figure behind it, in words, with its unit.
        figure: name of the figure or table that shows it.
    """

    text: str
    holds: bool | None
    measured: str
    figure: str


Section: TypeAlias = Figure | Table | Claim

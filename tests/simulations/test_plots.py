"""Plots are well-formed SVG that shows what it was given."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distced.middleware.model.extras import missing
from distced.simulations.plots import bars, histogram, lines
from tests.support.pictures import SVG, needs_matplotlib, svg_texts

pytestmark = needs_matplotlib

NUMBERS = st.floats(0, 1e9, allow_nan=False)
PRINTABLE = st.text(st.characters(exclude_categories=("C", "Z", "M"), max_codepoint=0x24F), max_size=20)
FEW = settings(max_examples=15)


def numbers_of(content: str, part: str) -> int:
    """How many groups of a plot have an id that begins like this."""
    ids = [each.attrib.get("id", "") for each in ElementTree.fromstring(content).iter(f"{SVG}g")]
    return sum(each.startswith(part) for each in ids)


@FEW
@given(st.lists(NUMBERS, max_size=50), PRINTABLE, PRINTABLE)
def test_histogram_of_any_values_is_well_formed(values: list[float], title: str, unit: str) -> None:
    assert title in " ".join(svg_texts(histogram(values, title=title, unit=unit)))


@FEW
@given(st.lists(st.tuples(PRINTABLE, NUMBERS), max_size=12), PRINTABLE, PRINTABLE)
def test_bars_of_any_figures_are_well_formed(figures: list[tuple[str, float]], title: str, unit: str) -> None:
    texts = svg_texts(bars(figures, title=title, unit=unit))
    assert {name for name, _ in figures if name} <= set(texts)
    assert ("nothing to show" in texts) == (not figures)


def test_histogram_names_median_and_99th_percentile() -> None:
    texts = svg_texts(histogram([1.0] * 90 + [9.0] * 10, title="t", unit="ms", bins=10))
    assert {"p50 1 ms", "p99 9 ms", "t", "ms", "count"} <= set(texts)


@pytest.mark.parametrize("values", [[], [0.0], [0.0, 0.0], [5.0], [-0.5, 1.0]])
def test_histogram_of_odd_values_is_drawn(values: list[float]) -> None:
    assert ("nothing to show" in svg_texts(histogram(values, title="t", unit="ms"))) == (not values)


def test_bars_have_names_and_values() -> None:
    figures = [("one", 10.0), ("$two_2$", 1234567.0), ("none", 0.0), ("one", 1.5)]
    texts = svg_texts(bars(figures, title="t", unit="events/s"))
    assert [each for each in texts if each in ("one", "$two_2$", "none")] == ["one", "$two_2$", "none", "one"]
    assert {"10 events/s", "1,234,567 events/s", "0 events/s", "1.5 events/s"} <= set(texts)


POINTS = st.lists(st.tuples(NUMBERS, NUMBERS), max_size=8)


@FEW
@given(st.dictionaries(PRINTABLE.filter(bool), POINTS, max_size=8), PRINTABLE, st.booleans())
def test_lines_of_any_points_are_well_formed(
    series: dict[str, list[tuple[float, float]]], title: str, logarithmic: bool
) -> None:
    content = lines(series, title=title, across="patterns", unit="events/s", logarithmic=logarithmic)
    shown = sum(y > 0 or not logarithmic for points in series.values() for _, y in points)
    texts = svg_texts(content)
    assert ("nothing to show" in texts) == (shown == 0) or "nothing to show" in (title, *series)
    if shown:
        assert set(series) <= set(texts)
        assert numbers_of(content, "line-") == len(series)


def test_logarithmic_scale_names_powers_of_ten() -> None:
    series = {"one": [(1.0, 1e3), (2.0, 1e4), (3.0, 1e5)], "_none": [(1.0, 0.0)]}
    texts = svg_texts(lines(series, title="t", across="x", unit="u", logarithmic=True))
    assert {"1k", "10k", "100k", "one", "_none", "x", "u"} <= set(texts)


def test_equal_plots_are_equal_files() -> None:
    one, other = (lines({"a": [(1, 2), (2, 3)]}, title="t", across="x", unit="u") for _ in range(2))
    assert one == other


def test_missing_matplotlib_names_its_extra() -> None:
    error = missing(ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib"))
    assert error is not None
    assert "distced[draw]" in str(error)

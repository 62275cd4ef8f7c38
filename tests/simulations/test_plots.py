"""Plots are well-formed SVG that shows what it was given."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distced.simulations.plots import bars, histogram, lines

SVG = "{http://www.w3.org/2000/svg}"
NUMBERS = st.floats(0, 1e9, allow_nan=False)
PRINTABLE = st.text(st.characters(exclude_categories=("Cc", "Cs"), max_codepoint=0xFFFD), max_size=20)


def drawn(content: str) -> ElementTree.Element:
    root = ElementTree.fromstring(content)
    assert root.tag == f"{SVG}svg"
    return root


def rectangles(root: ElementTree.Element) -> list[dict[str, str]]:
    return [dict(each.attrib) for each in root.iter(f"{SVG}rect")][1:]


def texts(root: ElementTree.Element) -> list[str]:
    return [each.text or "" for each in root.iter(f"{SVG}text")]


@given(st.lists(NUMBERS, max_size=50), PRINTABLE, PRINTABLE)
def test_any_histogram_is_well_formed(values: list[float], title: str, unit: str) -> None:
    root = drawn(histogram(values, title=title, unit=unit))
    assert texts(root)[0] == title
    for each in rectangles(root):
        assert float(each["height"]) >= 0
        assert float(each["width"]) > 0


@given(st.lists(st.tuples(PRINTABLE, NUMBERS), max_size=12), PRINTABLE, PRINTABLE)
def test_any_bars_are_well_formed(figures: list[tuple[str, float]], title: str, unit: str) -> None:
    root = drawn(bars(figures, title=title, unit=unit))
    assert len(rectangles(root)) == len(figures)
    assert texts(root)[1::2] == [name for name, _ in figures]


def test_a_histogram_counts_everything() -> None:
    root = drawn(histogram([1.0] * 90 + [9.0] * 10, title="t", unit="ms", bins=10))
    tall = [float(each["height"]) for each in rectangles(root)]
    assert len(tall) == 10
    assert sorted(tall)[-2:] == pytest.approx([max(tall) / 9, max(tall)], rel=0.01)
    assert {"p50 1 ms", "p99 9 ms"} <= set(texts(root))


@pytest.mark.parametrize("values", [[], [0.0], [0.0, 0.0], [5.0], [-0.5, 1.0]])
def test_odd_values_are_drawn_as_well(values: list[float]) -> None:
    root = drawn(histogram(values, title="t", unit="ms"))
    assert ("nothing to show" in texts(root)) == (not values)
    # What lies below nothing is not counted at the other end.
    assert not values or float(rectangles(root)[0]["height"]) > 0 or values == [5.0]


def test_bars_are_as_long_as_their_values() -> None:
    root = drawn(bars([("one", 10.0), ("two", 5.0), ("none", 0.0)], title="t", unit="events/s"))
    wide = [float(each["width"]) for each in rectangles(root)]
    assert wide[1] == pytest.approx(wide[0] / 2)
    assert wide[2] == 0
    assert "5 events/s" in texts(root)


POINTS = st.lists(st.tuples(NUMBERS, NUMBERS), max_size=8)


def marked(root: ElementTree.Element) -> list[tuple[float, float]]:
    """Where the points of all lines are."""
    return [(float(each.attrib["cx"]), float(each.attrib["cy"])) for each in root.iter(f"{SVG}circle")]


@given(st.dictionaries(PRINTABLE, POINTS, max_size=8), PRINTABLE, st.booleans())
def test_any_lines_are_well_formed_and_within(
    series: dict[str, list[tuple[float, float]]], title: str, logarithmic: bool
) -> None:
    root = drawn(lines(series, title=title, across="patterns", unit="events/s", logarithmic=logarithmic))
    shown = sum(y > 0 or not logarithmic for points in series.values() for _, y in points)
    places = marked(root)
    assert len(places) == shown
    assert all(60 <= x <= 480 and 39.9 <= y <= 272.1 for x, y in places)
    assert ("nothing to show" in texts(root)) == (shown == 0) or "nothing to show" in (title, *series)
    if shown:
        assert set(series) <= set(texts(root))


def test_lines_go_from_left_to_right_at_their_scale() -> None:
    series = {"one": [(30.0, 100.0), (10.0, 0.0), (20.0, 50.0)]}
    (left, low), (middle, half), (right, high) = marked(drawn(lines(series, title="t", across="x", unit="u")))
    assert middle - left == pytest.approx(right - middle)
    assert low - half == pytest.approx(half - high)
    assert high < half < low == 272


def test_a_decade_is_as_high_as_the_next_on_a_logarithmic_scale() -> None:
    series = {"one": [(1.0, 1e3), (2.0, 1e4), (3.0, 1e5)], "none": [(1.0, 0.0)]}
    root = drawn(lines(series, title="t", across="x", unit="u", logarithmic=True))
    (_, low), (_, middle), (_, high) = marked(root)
    assert low - middle == pytest.approx(middle - high)
    assert {"1k", "10k", "100k"} <= set(texts(root))

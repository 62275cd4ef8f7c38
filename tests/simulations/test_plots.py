"""Plots are well-formed SVG that shows what it was given."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulations.plots import bars, histogram

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

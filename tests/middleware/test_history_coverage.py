"""Spans of time that recorders cover, by type."""

from __future__ import annotations

import pytest

from distced.middleware.history.coverage import Span, covered, spans
from distced.middleware.history.layout import RecorderNote
from distced.middleware.model.errors import HistoryError
from distced.middleware.model.timestamps import INSTANT_MIN


@pytest.mark.parametrize(
    ("notes", "span"),
    [
        ([RecorderNote(("A",), 20, 10)], Span(10, 20)),
        ([RecorderNote(("A",), 20, 10), RecorderNote(("A",), 30, 15)], Span(10, 30)),
        ([RecorderNote(("A",), 20, 10), RecorderNote(("A",), 30, 21)], Span(10, 30)),
        ([RecorderNote(("A",), 20, 10), RecorderNote(("A",), 30, 22)], Span(22, 30)),
        ([RecorderNote(("A",), 50, 10), RecorderNote(("A",), 30, 22)], Span(10, 50)),
        ([RecorderNote(("A",), 50)], Span(INSTANT_MIN, 50)),
        ([RecorderNote(("A",), None, 10)], Span(10, 9)),
        ([RecorderNote(("A",), 5, 10)], Span(10, 9)),
        ([RecorderNote(("A",), None)], None),
        ([RecorderNote(("B",), 20, 10)], None),
        ([], None),
    ],
)
def test_span_of_a_type(notes: list[RecorderNote], span: Span | None) -> None:
    assert spans(notes).get("A") == span
    assert spans(notes[::-1]).get("A") == span


def test_span_of_several_types_is_what_is_covered_of_all() -> None:
    notes = [RecorderNote(("A", "C"), 50, 10), RecorderNote(("B",), 40, 20)]
    assert covered(notes, ["A", "B"], None) == Span(20, 40)
    assert covered(notes, ["A"], 15) == Span(15, 50)
    with pytest.raises(HistoryError, match=r"the recording begins later: 1970-01-01T00:00:00.000000015Z"):
        covered(notes, ["A", "B"], 15)
    with pytest.raises(HistoryError, match=r"no recorder has recorded: D .allowed: A since .*, B since .*, C since"):
        covered(notes, ["A", "D"], None)
    with pytest.raises(HistoryError, match="nothing is recorded"):
        covered([], ["A"], None)

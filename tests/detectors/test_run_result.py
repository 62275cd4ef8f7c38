"""The result of a run as a table, and what it says of rows that were rejected."""

from __future__ import annotations

import re

import pytest

from distced.detectors.batch_run.runner import run
from distced.middleware.model.errors import EventError, TypeRegistryError
from distced.middleware.model.event_types import derive
from distced.middleware.model.events import Event

pytest.importorskip("pyarrow", reason="needs the extra distced[tables]")
PATTERN = "[A as a] ; [B as b] -> Pair(type = a.room, x = b.x, warm = b.warm)"
EVENTS = [
    Event("A", 10**18, 10**18, "s", 0, {"room": "<FE02>"}),
    Event("B", 10**18 + 1, 10**18 + 5, "s", 1, {"x": 1, "warm": True}),
    Event("A", 10**18 + 10, 10**18 + 10, "s", 2, {"room": None}),
    Event("B", 10**18 + 20, 10**18 + 20, "s", 3, {"x": 2.5, "warm": None}),
]


def test_result_is_a_list_and_a_table() -> None:
    found = run(PATTERN, EVENTS)
    assert [each.attributes["x"] for each in found] == [1, 2.5]
    table = found.to_arrow()
    assert table.column_names == ["type", "start", "end", "attributes.type", "x", "warm", "id", "constituents"]
    assert str(table.schema.field("start").type) == "timestamp[ns, tz=UTC]"
    first = table.slice(0, 1).drop_columns(["start", "end", "id"]).to_pylist()[0]
    assert first == {
        "type": "Pair",
        "attributes.type": "<FE02>",
        "x": 1.0,
        "warm": True,
        "constituents": ["s:0", "s:1"],
    }
    assert table["end"].cast("int64").to_pylist() == [10**18 + 5, 10**18 + 20]
    assert run("[C]", EVENTS).to_arrow().num_rows == 0


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_result_is_a_data_frame(library: str) -> None:
    pytest.importorskip(library, reason=f"{library} is not installed")
    found = run(PATTERN, EVENTS)
    frame = found.to_pandas() if library == "pandas" else found.to_polars()
    assert list(frame["x"]) == [1.0, 2.5]
    assert str(frame["start"].dtype) in ("datetime64[ns, UTC]", "Datetime(time_unit='ns', time_zone='UTC')")


def test_notebook_shows_a_table_of_the_first_rows() -> None:
    shown = run(PATTERN, EVENTS)._repr_html_()
    assert "&lt;FE02&gt;" in shown
    assert "<FE02>" not in shown
    assert "2 composite events" in shown
    many = run("[A] -> X()", [Event("A", at, at, "s", at, {}) for at in range(30)])._repr_html_()
    assert many.count("<tr>") == 21
    assert "30 composite events, the first 20" in many


def test_rejected_rows_of_a_table_are_reported_and_kept() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame(
        {"type": ["A", "A", "B"], "time": ["2026-11-21T08:00:00Z", "yesterday", "12"], "x": [1, 2, 3]}
    )
    with pytest.warns(UserWarning, match=re.escape("1 of 3 rows rejected, the first: not an instant: yesterday")):
        found = run("[A] -> X()", frame)
    assert len(found) == 1
    assert (found.rows, found.rejected_rows) == (3, 1)
    assert found.rejected[0].where == "table, row 2"
    assert "1 of 3 rows rejected" in found._repr_html_()


def test_values_that_are_no_events_are_refused() -> None:
    with pytest.raises(EventError, match=r"not an event: 1 .*item 1"):
        run("[A]", [1, 2])
    with pytest.raises(TypeRegistryError, match="not an event type to derive from: 'A'"):
        derive("A", "B")  # type: ignore[arg-type]

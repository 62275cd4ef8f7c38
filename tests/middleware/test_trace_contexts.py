"""Trace contexts of messages, from anybody, and the bounded table of those that events came with."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.trace_contexts import (
    LONGEST_STATE,
    MOST_OF_MESSAGE,
    TRACEPARENT,
    TRACESTATE,
    ContextTable,
    TraceContext,
    read_context,
)

PARENT = f"00-{'a' * 32}-{'b' * 16}-01"
CONTEXT = TraceContext(PARENT)
OTHER = TraceContext(f"00-{'c' * 32}-{'d' * 16}-00")


def event(seq: int, source: str = "s") -> Event:
    return Event("A", seq, seq, source, seq, {})


def composite(seq: int, *constituents: int, source: str = "part") -> CompositeEvent:
    return CompositeEvent("P", seq, seq, source, seq, {}, constituents=tuple(("s", each) for each in constituents))


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ([], None),
        ([(TRACEPARENT, PARENT)], CONTEXT),
        ([("other", "x"), (TRACEPARENT, PARENT), (TRACESTATE, "k=v")], TraceContext(PARENT, "k=v")),
        ([(TRACESTATE, "k=v")], None),
        ([(TRACEPARENT, PARENT), (TRACEPARENT, PARENT)], None),
        ([(TRACEPARENT, PARENT), (TRACESTATE, "a=1"), (TRACESTATE, "b=2")], CONTEXT),
        ([(TRACEPARENT, PARENT.upper())], None),
        ([(TRACEPARENT, PARENT + "\n")], None),
        ([(TRACEPARENT, PARENT + "-more")], None),
        ([(TRACEPARENT, PARENT.replace("a", "0"))], None),
        ([(TRACEPARENT, PARENT.replace("b", "0"))], None),
        ([(TRACEPARENT, "ff" + PARENT[2:])], None),
        ([(TRACEPARENT, PARENT), (TRACESTATE, "k=" + "v" * LONGEST_STATE)], CONTEXT),
        ([(TRACEPARENT, PARENT), (TRACESTATE, "k=\x1b")], CONTEXT),
        ([(TRACEPARENT, PARENT), (TRACESTATE, "k=ä")], CONTEXT),
    ],
)
def test_context_among_properties(properties: list[tuple[str, str]], expected: TraceContext | None) -> None:
    assert read_context(properties) == expected


@given(st.lists(st.tuples(st.sampled_from([TRACEPARENT, TRACESTATE, "x"]), st.text() | st.just(PARENT))))
def test_context_that_is_read_is_read_again(properties: list[tuple[str, str]]) -> None:
    found = read_context(properties)
    assert found is None or read_context(found.properties()) == found


def test_sampled_flag() -> None:
    assert CONTEXT.sampled
    assert not OTHER.sampled
    assert TraceContext(PARENT[:-2] + "03").sampled


def test_table_knows_events_by_their_messages() -> None:
    table = ContextTable()
    table.put([event(1), event(2)], CONTEXT, 10)
    table.put([composite(9, 1, 3)], OTHER, 20)
    for seq, parts, expected in [
        (1, (), CONTEXT),
        (2, ("part",), CONTEXT),
        (1, ("part",), OTHER),
        (1, ("another",), CONTEXT),
        (3, (), None),
        (3, ("part",), OTHER),
    ]:
        found = table.of(("s", seq), parts)
        assert (None if found is None else found.context) == expected, (seq, parts)
    # The composite event itself, for those who read it as an event.
    found = table.of(("part", 9), ())
    assert found is not None and (found.context, found.at) == (OTHER, 20)


def test_second_delivery_changes_nothing() -> None:
    table = ContextTable()
    table.put([event(1)], CONTEXT, 10)
    table.put([composite(9, 1)], CONTEXT, 11)
    table.put([event(1)], OTHER, 20)
    table.put([composite(9, 1)], OTHER, 21)
    assert [each and each.context for each in (table.of(("s", 1), ()), table.of(("s", 1), ("part",)))] == [
        CONTEXT,
        CONTEXT,
    ]


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 40), st.lists(st.integers(0, 60), max_size=6)), max_size=40),
    st.integers(1, 8),
    st.integers(1, 10),
)
def test_table_is_bounded_by_number_and_age(messages: list[tuple[int, int, list[int]]], most: int, oldest: int) -> None:
    table = ContextTable(most, oldest)
    # The clock may be set back.
    for now, seq, constituents in messages:
        table.put([composite(seq, *constituents), event(seq)], CONTEXT, now)
        assert len(table) <= most
    last = max((now for now, _, _ in messages), default=0) + oldest + 1
    table.put([event(1_000)], CONTEXT, last)
    assert len(table) == 1


def test_one_message_does_not_drive_out_all_others() -> None:
    table = ContextTable()
    table.put([event(1, "other")], OTHER, 1)
    table.put([event(seq) for seq in range(100_000)], CONTEXT, 2)
    assert len(table) == MOST_OF_MESSAGE + 1
    table.put([composite(5, *range(100_000))], CONTEXT, 3)
    assert len(table) <= 2 * MOST_OF_MESSAGE + 2
    # The last constituents, of which one ends the match.
    assert table.of(("s", 99_999), ("part",)) is not None
    assert table.of(("other", 1), ()) is not None


def test_context_is_forgotten_after_a_time() -> None:
    table = ContextTable(oldest=10 * SECOND)
    table.put([event(1)], CONTEXT, 0)
    table.put([event(2)], CONTEXT, 9 * SECOND)
    table.put([event(3)], CONTEXT, 11 * SECOND)
    assert [table.of(("s", seq), ()) is not None for seq in (1, 2, 3)] == [False, True, True]

"""Recorded events that a node reads from a recorder's files, in parts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from random import Random

import pytest

pytest.importorskip("pyarrow", reason="a history needs the extra distced[tables]")

from distced.brokers.core.effects import ReadHistory
from distced.brokers.live import history_thread
from distced.brokers.live.history_thread import HistoryThread
from distced.middleware.history import HistoryWriter
from distced.middleware.history.coverage import HistoryPart
from distced.middleware.model.event_types import event_type
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import DAY

TYPES = [event_type("A", {"k": "number"}), event_type("B", {"k": "number"})]


@pytest.fixture
def writer(tmp_path: Path) -> HistoryWriter:
    return HistoryWriter(tmp_path / "history", "r", TYPES)


@pytest.fixture
def thread(writer: HistoryWriter, monkeypatch: pytest.MonkeyPatch) -> Iterator[HistoryThread]:
    monkeypatch.setattr(history_thread, "AT_ONCE", 7)
    thread = HistoryThread(writer.root)
    yield thread
    thread.close()


def events(begin: int, end: int) -> list[Event]:
    """Events with ties, over several days."""
    random = Random(begin)
    made = []
    for n in range(begin, end):
        hi = n // 3 * DAY // 10
        made.append(Event(random.choice("AB"), hi - random.randrange(2), hi, random.choice("st"), n, {"k": n}))
    return sorted(made, key=lambda each: each.key)


def read(
    thread: HistoryThread, types: tuple[str, ...], since: int | None, behind: int | None = None
) -> tuple[list[HistoryPart], list[Event]]:
    """All parts that there are, and their events."""
    parts: list[HistoryPart] = []
    answers: Queue[HistoryPart] = Queue()
    while not parts or parts[-1].more:
        thread.read(ReadHistory("d", len(parts), types, since, parts[-1].reached if parts else behind), answers.put)
        parts.append(answers.get(timeout=10))
    return parts, [each for part in parts for each in part.events]


def test_parts_are_whole_instants_in_order(writer: HistoryWriter, thread: HistoryThread) -> None:
    made = events(0, 100)
    writer.write(made)
    writer.note(["A", "B"], made[-1].hi, 0)
    parts, found = read(thread, ("A", "B"), None)
    assert found == made and len(parts) > 9
    # The first says what is recorded.
    assert not parts[0].events and parts[0].begin == 0
    assert not {part.events[-1].hi for part in parts[1:-1]} & {part.events[0].hi for part in parts[2:]}
    assert [part.reached for part in parts[1:-1]] == [part.events[-1].hi for part in parts[1:-1]]
    assert parts[-1].reached == made[-1].hi and not any(part.losses for part in parts)
    since = made[50].hi
    assert read(thread, ("A",), since)[1] == [each for each in made if each.hi >= since and each.type == "A"]


def test_history_that_goes_on_is_read_from_where_it_was(writer: HistoryWriter, thread: HistoryThread) -> None:
    made = events(0, 60)
    writer.write(made[:30])
    # What is beyond the watermark is not complete.
    writer.note(["A", "B"], made[20].hi, 0, losses=[(made[22].hi, made[25].hi, "gone")])
    parts, found = read(thread, ("A", "B"), None)
    assert found == [each for each in made if each.hi <= made[20].hi] and not parts[-1].losses
    assert read(thread, ("A", "B"), None, parts[-1].reached)[0] == [HistoryPart((), 0, made[20].hi)]
    writer.write(made[30:])
    writer.note(["A", "B"], made[-1].hi, 0, losses=[(made[22].hi, made[25].hi, "gone")])
    parts, rest = read(thread, ("A", "B"), None, parts[-1].reached)
    assert found + rest == made
    assert [each.reason for part in parts for each in part.losses] == ["gone"]


def test_problems_are_answers(writer: HistoryWriter, thread: HistoryThread) -> None:
    ((part,), _) = read(thread, ("A",), None)
    assert "no recorder has recorded: A" in str(part.problem)
    writer.write(events(0, 9))
    writer.note(["A", "B"], 10 * DAY, 0)
    for path in writer.root.glob("day=*/type=A/*.parquet"):
        path.write_bytes(b"damaged")
    parts, found = read(thread, ("A", "B"), None)
    assert {each.type for each in found} == {"B"}
    assert "cannot be read" in parts[1].losses[0].reason

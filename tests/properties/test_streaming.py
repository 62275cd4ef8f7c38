"""What is found in a stream is what a run finds: random patterns, micro-batches and watermarks, state as bytes."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

pytest.importorskip("pyspark.sql.streaming.tws_tester", reason="needs PySpark 4.2 or later")

from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import TimerValues
from pyspark.sql.streaming.tws_tester import TwsTester

from distced.detectors.batch_run.runner import compiled_patterns
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import MILLISECOND
from distced.simulations.streaming.columns import EventColumns
from distced.simulations.streaming.key_state import due_at, passed, stream_key
from distced.simulations.streaming.processor import Detection
from tests.support.replay_runs import whole
from tests.support.stream_runs import arriving, at, stream_events, stream_patterns

COLUMNS = EventColumns((), "map<string,double>", composite=False)


class Simulated:
    """A streaming query: rows first, then timers, by the watermark of the micro-batch before.

    Attributes:
        found: rows of composite events.
    """

    def __init__(self, processor: Detection) -> None:
        self._tester = TwsTester(processor, timeMode="EventTime", eventTimeExtractor=lambda _: 0)
        self._processor = processor
        self._watermark = 0
        self.found: list[Any] = []

    def batch(self, rows: dict[str, list[Any]], watermark: int) -> None:
        for key, arrived in rows.items():
            self._tester.handle.setGroupingKey(key)
            self.found += self._processor.handleInputRows((key,), iter(arrived), TimerValues(0, watermark))
        if watermark > self._watermark:
            self._watermark = watermark
            self.found += self._tester.setWatermark(watermark)

    @property
    def keys(self) -> int:
        """How many keys have a state."""
        handle = self._tester.handle
        states = [*handle.value_states.values(), *handle.list_states.values()]
        return len({key for state in states for key in state.state})


def row(event: Event) -> Any:
    parts = Row(type=event.type, lo=event.lo, hi=event.hi, source=event.source, seq=event.seq,
                attributes=event.attributes)  # fmt: skip
    return Row(event=parts)


def differs(seed: int) -> int:
    """How many composite events there are; fails where the stream finds others than a run."""
    random = Random(seed)
    patterns = stream_patterns(random)
    if not patterns:
        return 0
    span = random.choice((6, 20, 60))
    events = stream_events(random, random.randrange(1, 16), span=span)
    delay = random.choice((1, 3, 10)) * MILLISECOND
    by = stream_key(patterns)
    query = Simulated(Detection(patterns, COLUMNS))
    watermark = latest = 0
    for arrived in arriving(random, events, delay, random.randrange(1, 8)):
        grouped: dict[str, list[Any]] = {}
        for event in arrived:
            grouped.setdefault(str([event.attributes[name] for name in by]), []).append(row(event))
        query.batch(grouped, watermark)
        latest = max([latest, *(event.hi for event in arrived)])
        watermark = max(watermark, (latest - delay) // MILLISECOND)
    # Time goes on, in two steps, the first of which is near the end.
    near, far = due_at(at(span) + random.randrange(3) * MILLISECOND), due_at(at(span + 100))
    query.batch({}, max(watermark, near))
    query.batch({}, far)
    expected = whole(patterns, events, passed(far))
    assert sorted(
        (each.type, each.source, int(each.seq), each.lo, each.hi, each.attributes, each.constituents)
        for each in query.found
    ) == sorted(
        (each.type, each.source, each.seq, each.lo, each.hi, json_of(each.attributes), pairs(each.constituents))
        for each in expected
    ), (seed, [each.text for each in patterns])
    return len(expected)


def json_of(attributes: dict[str, Any]) -> str:
    return msgspec.json.encode(attributes).decode()


def pairs(constituents: tuple[tuple[str, int], ...]) -> str:
    return "[" + ",".join(f'["{source}",{seq}]' for source, seq in constituents) + "]"


@pytest.mark.slow
@given(st.integers(min_value=0, max_value=2**32))
@settings(phases=(Phase.explicit, Phase.reuse, Phase.generate))
def test_stream_detects_as_a_run(seed: int) -> None:
    for number in range(5):
        differs(seed * 5 + number)


def test_most_streams_detect_something() -> None:
    assert sum(differs(seed) > 0 for seed in range(150)) > 20


def test_watermarks_and_instants_agree() -> None:
    for watermark in (0, 1, 7):
        last = passed(watermark)
        assert due_at(last) == watermark
        assert due_at(last + 1) == watermark + 1
        # The microsecond of what comes later is beyond the watermark, as Spark asks.
        assert last // 1000 <= watermark * 1000 < (last + 1) // 1000


def test_stream_releases_idle_keys() -> None:
    (pattern,) = compiled_patterns("[A as x] ; [B] by k within 5ms", None)
    query = Simulated(Detection([pattern], COLUMNS))
    events = [Event("A", at(number), at(number), "s", number, {"k": number}) for number in range(50)]
    query.batch({str(event.seq): [row(event)] for event in events}, 1)
    assert query.keys == 50
    query.batch({}, due_at(at(25) + 5 * MILLISECOND))
    assert 20 < query.keys < 25
    query.batch({}, due_at(at(50) + 5 * MILLISECOND))
    assert query.keys == 0

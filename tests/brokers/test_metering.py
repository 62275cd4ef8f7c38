"""Meters of detectors: rates from the first reading on, and publication of changes only."""

from __future__ import annotations

from math import exp
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distced.brokers.node.metering import (
    AT_ONCE,
    CHANGE,
    PUBLISH_EVERY,
    READ_EVERY,
    TIME_CONSTANT,
    WARM_UP,
    DetectorMeter,
    Meter,
    changed,
)
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import MILLISECOND, SECOND
from distced.middleware.wire.codec import decode, encode
from distced.middleware.wire.directory import KINDS
from distced.middleware.wire.directory_entries import LoadEntry, Measured

NOW = 1_700_000_000 * SECOND


def found(*his: int) -> list[Event]:
    return [Event("C", hi, hi, "c", number, {}) for number, hi in enumerate(his)]


def steady(meter: DetectorMeter, start: int, seconds: int, rate: int) -> int:
    """`rate` events a second from two sources, 100 bytes each, every tenth of them detected; read once a second."""
    now = start
    touched = 3 * rate * ((start - meter.since) // SECOND)
    for _ in range(seconds):
        for number in range(rate):
            meter.received("s" if number % 4 else "t", 100, 1)
            if number % 10 == 0:
                meter.sent(200, found(now), now + 5 * MILLISECOND)
        now += SECOND
        touched += 3 * rate
        meter.read(now, touched)
    return now


@pytest.mark.parametrize("seconds", [2, 3, 10, 100])
def test_steady_stream_is_measured_exactly_from_the_first_seconds_on(seconds: int) -> None:
    meter = DetectorMeter(NOW)
    steady(meter, NOW, seconds, 100)
    assert meter.measured() == Measured(
        load=300.0,
        rate=10.0,
        size=2000.0,
        inputs={"s": 7500.0, "t": 2500.0},
        events=100.0,
        # A move takes recent composite events along.
        state=min(2_000 * seconds, 64 * 1024),
        delay=5 * MILLISECOND,
    )


@given(st.lists(st.integers(1, 20 * SECOND), min_size=1, max_size=30), st.integers(1, 10**6))
def test_steady_rate_is_exact_however_far_apart_readings_are(spans: list[int], rate: int) -> None:
    meter, now = DetectorMeter(NOW), NOW
    for span in [*spans, WARM_UP]:
        now += span
        meter.read(now, rate * (now - NOW))
    measured = meter.measured()
    assert measured is not None
    assert measured.load == pytest.approx(rate * SECOND, rel=1e-3)


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 1000)), min_size=1, max_size=30))
def test_rate_is_the_decayed_mean(reported: list[tuple[int, int]]) -> None:
    """By the definition: the integral of rate and weight over the time watched, divided by that of the weight."""
    meter, now = DetectorMeter(NOW), NOW
    for span, events in [*reported, (2, 7)]:
        meter.received("s", 10 * events, events)
        now += span * SECOND
        meter.read(now, 0)
    weighed = weight = 0.0
    end, constant = now, TIME_CONSTANT / SECOND
    for span, events in reversed([*reported, (2, 7)]):
        begin = end - span * SECOND
        share = constant * (exp(-(now - end) / TIME_CONSTANT) - exp(-(now - begin) / TIME_CONSTANT))
        weighed += events / span * share
        weight += share
        end = begin
    measured = meter.measured()
    assert measured is not None
    assert measured.events == pytest.approx(weighed / weight, rel=1e-3)
    if measured.inputs.get("s", 0.0) > 1.0:
        assert measured.inputs["s"] == pytest.approx(10 * weighed / weight, rel=1e-3)


def test_rate_follows_a_change_with_the_time_constant() -> None:
    meter = DetectorMeter(NOW)
    now = steady(meter, NOW, 12 * TIME_CONSTANT // SECOND, 100)
    steady(meter, now, TIME_CONSTANT // SECOND, 400)
    measured = meter.measured()
    assert measured is not None
    assert measured.events == pytest.approx(400 - 300 * exp(-1), rel=1e-3)


def test_meter_has_no_figures_during_warm_up() -> None:
    meter = DetectorMeter(NOW)
    meter.received("s", 100, 50)
    meter.read(NOW + WARM_UP - 1, 1000)
    assert meter.measured() is None
    meter.read(NOW + WARM_UP, 1000)
    assert meter.measured() is not None


def test_silence_is_forgotten() -> None:
    meter = DetectorMeter(NOW)
    now = steady(meter, NOW, 20, 10)
    for second in range(1, 30 * TIME_CONSTANT // SECOND + 1):
        meter.read(now + second * SECOND, 600)
    measured = meter.measured()
    assert measured is not None
    assert (measured.inputs, measured.delay) == ({}, 0)
    assert max(measured.load, measured.rate, measured.size, measured.events) < 1e-6


def test_delay_is_that_of_recent_composite_events() -> None:
    meter = DetectorMeter(NOW)
    meter.sent(500, found(NOW, NOW + 10), NOW + 30)
    # A clock ahead of this one: nothing is known, and nothing is made up.
    meter.sent(500, found(NOW + SECOND), NOW + 30)
    meter.sent(100, [], NOW + 40)
    meter.read(NOW + WARM_UP, 0)
    measured = meter.measured()
    assert measured is not None
    assert measured.delay == round((30 + 20 + 0) / 3)
    assert measured.rate == pytest.approx(3 / (WARM_UP / SECOND))
    assert measured.size == pytest.approx(1100 / (WARM_UP / SECOND))


def test_meter_ignores_earlier_touches_and_an_engine_that_begins_again() -> None:
    meter = DetectorMeter(NOW, touched=1_000_000)
    meter.read(NOW + SECOND, 1_000_100)
    meter.read(NOW + 2 * SECOND, 100)
    measured = meter.measured()
    assert measured is not None
    assert measured.load == pytest.approx(100.0, rel=1e-3)


def test_time_that_stands_still_or_goes_back_loses_nothing() -> None:
    meter = DetectorMeter(NOW)
    meter.received("s", 100, 10)
    for now in (NOW, NOW - SECOND, NOW + 2 * SECOND):
        meter.read(now, 20)
    measured = meter.measured()
    assert measured is not None
    assert (measured.events, measured.load) == (5.0, 10.0)


# A node.


def test_node_reads_meters_once_a_second_and_publishes_its_load() -> None:
    meter = Meter()
    touched = {"c1": 0, "c2": 500}
    one, _ = meter.begin("c1", NOW), meter.begin("c2", NOW, touched["c2"])
    now, read = NOW, 0
    for number in range(100):
        one.received("s", 50, 1)
        touched["c1"] += 2
        touched["c2"] += 10
        now = NOW + number * READ_EVERY // 10
        read += meter.tick(now, touched.__getitem__)
    assert read == 10
    entry = meter.entry({"": 1000, "mqtt://b": 2000})
    assert entry.latencies == {"": 1000, "mqtt://b": 2000}
    assert entry.detectors.keys() == {"c1", "c2"}
    assert entry.load == pytest.approx(20 + 100, rel=0.02)
    assert entry.detectors["c1"].events == pytest.approx(10, rel=0.02)
    assert decode(encode(entry), KINDS["load"], where="d") == entry
    meter.end("c1")
    meter.end("nobody")
    assert meter.entry({}).detectors.keys() == {"c2"}


def test_crowd_has_the_sum_of_all_loads_and_names_the_greatest() -> None:
    meter, count = Meter(), 3 * AT_ONCE
    random = Random(3)
    rates = {f"c{number}": random.randrange(1_000) for number in range(count)}
    for identity in rates:
        meter.begin(identity, NOW)
    now = NOW
    for second in range(1, 10):
        now = NOW + second * READ_EVERY
        meter.tick(now, {each: rate * second for each, rate in rates.items()}.__getitem__)
    entry = meter.entry({})
    greatest = sorted(rates, key=rates.__getitem__)[-AT_ONCE:]
    assert entry.others == count - AT_ONCE
    assert min(rates[each] for each in entry.detectors) == min(rates[each] for each in greatest)
    assert entry.load == pytest.approx(sum(rates.values()), rel=0.01)
    for identity in greatest:
        meter.end(identity)
    assert meter.entry({}).load == pytest.approx(sum(rates.values()) - sum(map(rates.__getitem__, greatest)), rel=0.01)
    for identity in rates:
        meter.end(identity)
    assert meter.entry({}) == LoadEntry()


def test_detector_is_in_the_entry_after_warm_up() -> None:
    meter = Meter()
    meter.begin("c1", NOW)
    meter.tick(NOW + WARM_UP // 2, lambda _: 0)
    assert meter.entry({}) == LoadEntry()
    meter.tick(NOW + WARM_UP, lambda _: 0)
    assert meter.entry({}).detectors.keys() == {"c1"}


def test_load_is_published_on_changes_and_periodically() -> None:
    meter = Meter()
    hosted = meter.begin("c1", NOW)
    reported = []
    now = NOW
    for second in range(1, 245):
        now = NOW + second * SECOND
        # A tenth more or less is no news.
        hosted.received("s", 1000 * (10 + second % 2), 10)
        meter.tick(now, lambda _: 0)
        if meter.news(now, {"": MILLISECOND}) is not None:
            reported.append(second)
    # The first, with nothing known; the detector when it is warm; then only because it is time.
    assert reported == [1, 2, 122, 242]
    hosted.received("s", 10**6, 10)
    meter.tick(now + SECOND, lambda _: 0)
    assert meter.news(now + SECOND, {"": MILLISECOND}) == meter.published
    assert meter.news(now + SECOND, {"": MILLISECOND}) is None
    assert meter.news(now + SECOND + PUBLISH_EVERY, {"": MILLISECOND}) is not None


BEFORE = Measured(1000.0, 50.0, 10_000.0, {"s": 5000.0}, 100.0, 100_000, 50 * MILLISECOND)


@pytest.mark.parametrize(
    ("figures", "differs"),
    [
        ({}, False),
        ({"load": 1100.0}, False),
        ({"load": 700.0}, True),
        ({"load": 1300.0}, True),
        ({"rate": 80.0}, True),
        ({"size": 5000.0}, True),
        ({"inputs": {"s": 4500.0}}, False),
        ({"inputs": {"s": 9000.0}}, True),
        ({"inputs": {}}, True),
        ({"inputs": {"s": 5000.0, "t": 1000.0}}, True),
        # A byte a second is no news, also of a source not heard before.
        ({"inputs": {"s": 5000.0, "t": 1.0}}, False),
        ({"events": 10.0}, True),
        ({"state": 200_000}, True),
        ({"delay": 51 * MILLISECOND}, False),
        ({"delay": 90 * MILLISECOND}, True),
        ({"engine": "columnar"}, True),
    ],
)
def test_change_of_a_figure_is_relative_and_absolute(figures: dict[str, object], differs: bool) -> None:
    after = Measured(**{name: figures.get(name, getattr(BEFORE, name)) for name in BEFORE.__struct_fields__})  # type: ignore[arg-type]
    one, other = (LoadEntry(1000.0, {"c": each}, {"": MILLISECOND}) for each in (BEFORE, after))
    assert changed(one, other) is differs
    assert changed(other, one) is differs


def test_change_of_the_total_load_is_a_change() -> None:
    entry = LoadEntry(1000.0, {"c": BEFORE}, {"": 10 * MILLISECOND})
    assert changed(entry, LoadEntry(1000.0, {}, entry.latencies))
    assert changed(entry, LoadEntry(1000.0, {"d": BEFORE}, entry.latencies))
    assert changed(entry, LoadEntry(1000.0, entry.detectors, {"": 20 * MILLISECOND}))
    assert changed(entry, LoadEntry(1000.0, entry.detectors, {"": 10 * MILLISECOND, "mqtt://b": 1}))
    assert changed(entry, LoadEntry(1000.0 * (1 + 2 * CHANGE), entry.detectors, entry.latencies))
    assert not changed(entry, LoadEntry(1000.0, entry.detectors, {"": 11 * MILLISECOND}))


class SlowMeter(Meter):
    """A meter that makes each entry, and compares it with the published one."""

    def _stays(self, *given: object) -> bool:
        return False


@given(st.integers(0, 2**32), st.integers(1, 4), st.sampled_from([1, 3, 30]))
def test_entry_is_left_out_exactly_where_it_is_no_change(seed: int, detectors: int, scale: int) -> None:
    random = Random(seed)
    meters = Meter(), SlowMeter()
    now, touched = NOW, [0] * detectors
    for number in range(detectors):
        for meter in meters:
            meter.begin(f"c{number}", now)
    for second in range(40):
        now += random.choice((SECOND, SECOND // 2))
        for number in range(detectors):
            count, size = random.randrange(scale), random.choice((0, 100, 1000))
            delay, state, engine = random.randrange(10) * MILLISECOND, random.choice((0, 5000)), random.choice("aab")
            composites = found(now - delay) * random.randrange(2)
            touched[number] += random.randrange(scale)
            source = random.choice("st") if second % 7 == 3 else "s"
            for meter in meters:
                own = meter.detectors[f"c{number}"]
                own.received(source, size * count, count)
                own.sent(size, composites, now)
                own.state, own.engine = state, engine
        latencies = {"": random.choice((1, 5)) * MILLISECOND}
        silent = {"s": 1} if random.random() < 0.1 else {}
        entries = []
        for meter in meters:
            meter.tick(now, lambda identity: touched[int(identity[1:])])
            entries.append(meter.news(now, latencies, None, silent))
        assert entries[0] == entries[1]

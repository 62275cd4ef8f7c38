"""Samples of attribute values: what is taken, when a distribution is published, and what it says."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distced.brokers.node.value_samples import (
    AT_ONCE,
    COMMON,
    EVERY,
    LEAST,
    MOST_ATTRIBUTES,
    REVIEWED_EVERY,
    SAMPLE,
    STALE,
    ValueSamples,
)
from distced.middleware.model.events import Attribute, Event
from distced.middleware.model.timestamps import DAY, HOUR, MINUTE, SECOND
from distced.middleware.wire.codec import decode, encode
from distced.middleware.wire.directory import KINDS
from distced.middleware.wire.directory_entries import SampleEntry, TypeValues, value_key

NOW = 1_700_000_000 * SECOND


def sampled(values: Sequence[Attribute], samples: ValueSamples | None = None, *, begin: int = NOW) -> ValueSamples:
    samples = samples or ValueSamples(50)
    for number, value in enumerate(values):
        samples.take(Event("A", 0, 0, "s", number, {"v": value}), begin + number * EVERY)
    return samples


def test_shares_are_those_of_the_values() -> None:
    samples = sampled([1, 1, 1, 2.0, "x", True, None, 1] * 3)
    assert samples.tick(NOW)
    values = samples.published["A"]
    assert values.sample == 24
    common = values.attributes["v"].common
    assert common == {"1": 0.5, "2": 0.125, value_key("x"): 0.125, "true": 0.125, "null": 0.125}
    assert (values.attributes["v"].others, values.attributes["v"].quantiles) == (0, ())


def test_texts_are_published_as_digests_that_are_no_numbers() -> None:
    keys = {value_key(str(number)) for number in range(1000)}
    assert len(keys) == 1000 and all(key.startswith("#") for key in keys)
    payload = encode(SampleEntry(sampled_of("Jean").published))
    assert b"Jean" not in payload
    assert decode(payload, KINDS["sample"], where="test").types == sampled_of("Jean").published


def sampled_of(text: str) -> ValueSamples:
    samples = sampled([text] * LEAST)
    samples.tick(NOW)
    return samples


def test_many_numbers_have_quantiles_and_frequent_values() -> None:
    random = Random(1)
    values = [7.0 if random.random() < 0.3 else random.uniform(0, 100) for _ in range(SAMPLE)]
    samples = sampled(values)
    samples.tick(NOW)
    found = samples.published["A"].attributes["v"]
    assert found.common == {"7": pytest.approx(0.3, abs=0.1)}
    assert len(found.quantiles) == 11 and found.quantiles[0] == pytest.approx(min(values), rel=1e-5)
    assert found.quantiles[10] == pytest.approx(max(values), rel=1e-5) and list(found.quantiles) == sorted(
        found.quantiles
    )
    assert found.others == len(set(values)) - 1


def test_many_texts_have_a_number_alone() -> None:
    samples = sampled([f"device-{number}" for number in range(SAMPLE)])
    samples.tick(NOW)
    found = samples.published["A"].attributes["v"]
    assert (found.common, found.others, found.quantiles) == ({}, SAMPLE, ())


def test_events_are_taken_at_intervals_alone() -> None:
    samples = ValueSamples(50)
    for number in range(1000):
        samples.take(Event("A", 0, 0, "s", number, {"v": number}), NOW + number * EVERY // 100)
    assert not samples.tick(NOW)  # ten of them
    # A clock that was set back does not stop it.
    for number in range(LEAST):
        samples.take(Event("A", 0, 0, "s", number, {"v": number}), NOW - 1000 * SECOND + number * EVERY)
    assert samples.tick(NOW)


def test_distribution_is_published_when_the_sample_has_grown_or_shares_have_changed() -> None:
    samples, published = ValueSamples(50), []
    for number in range(3 * SAMPLE):
        samples.take(Event("A", 0, 0, "s", number, {"v": number % 4}), NOW + number * EVERY)
        if samples.tick(NOW):
            published.append(samples.published["A"].sample)
    assert published == [16, 24, 36, 54, 81, 122, 183]
    assert not samples.tick(NOW + REVIEWED_EVERY)  # nothing has changed but the size of the sample
    sampled([5] * SAMPLE, samples, begin=NOW + 1000 * SECOND)
    assert not samples.tick(NOW + REVIEWED_EVERY + SECOND)
    assert samples.tick(NOW + 2 * REVIEWED_EVERY)
    assert samples.published["A"] == TypeValues(SAMPLE, samples.published["A"].attributes)
    assert samples.published["A"].attributes["v"].common == {"5": 1.0}


def test_infinite_numbers_are_in_no_quantile() -> None:
    samples = sampled([float("inf") if number % 3 == 0 else number for number in range(SAMPLE)])
    samples.tick(NOW)
    payload = encode(SampleEntry(samples.published))
    assert decode(payload, KINDS["sample"], where="test").types == samples.published
    found = samples.published["A"].attributes["v"]
    assert found.common["inf"] == pytest.approx(1 / 3, abs=0.01) and found.quantiles[-1] == SAMPLE - 1


def test_few_distributions_are_computed_at_once() -> None:
    samples = ValueSamples(50)
    for number in range(12 * LEAST):
        samples.take(Event(f"T{number % 12}", 0, 0, "s", number, {"v": 1}), NOW + number * EVERY)
    sizes = []
    while samples.tick(NOW):
        sizes.append(len(samples.published))
    assert sizes == [AT_ONCE, 2 * AT_ONCE, 12]


def test_changes_are_published_within_an_hour_however_old_the_node_is() -> None:
    samples = sampled([1] * SAMPLE)
    assert samples.tick(NOW)
    for day, value in ((30, 2), (31, 3)):
        at = NOW + day * DAY
        sampled([value] * SAMPLE, samples, begin=at)
        assert samples.tick(at + SAMPLE * EVERY)
        assert samples.published["A"].attributes["v"].common == {str(value): 1.0}
    sampled([4] * SAMPLE, samples, begin=at + MINUTE)
    assert not samples.tick(at + 10 * MINUTE)
    sampled([4] * SAMPLE, samples, begin=at + HOUR)
    assert samples.tick(at + HOUR + MINUTE)
    assert samples.published["A"].attributes["v"].common == {"4": 1.0}


def test_sample_without_events_is_dropped() -> None:
    samples = sampled([1] * LEAST, ValueSamples(1))
    assert samples.tick(NOW + SECOND) and samples.published.keys() == {"A"}
    assert not samples.tick(NOW + STALE)
    assert samples.tick(NOW + STALE + LEAST * EVERY) and not samples.published
    samples.take(Event("B", 0, 0, "s", 0, {}), NOW + 2 * STALE)
    assert not samples.tick(NOW + 2 * STALE)


def test_wide_events_have_their_first_attributes() -> None:
    samples = ValueSamples(50)
    for number in range(LEAST):
        samples.take(
            Event("A", 0, 0, "s", number, {f"a{place}": "x" * 10_000 for place in range(100)}), NOW + number * EVERY
        )
    samples.tick(NOW)
    assert list(samples.published["A"].attributes) == [f"a{place}" for place in range(MOST_ATTRIBUTES)]


def test_further_types_have_no_sample() -> None:
    samples = ValueSamples(2)
    for number in range(3 * LEAST):
        samples.take(Event("ABC"[number % 3], 0, 0, "s", number, {"v": 1}), NOW + number * EVERY)
    samples.tick(NOW)
    assert samples.published.keys() == {"A", "B"}
    none = ValueSamples(0)
    sampled([1] * SAMPLE, none)
    assert not none.tick(NOW) and not none.published


VALUES = st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.text(max_size=3),
                   st.floats(allow_nan=False))  # fmt: skip


@given(st.lists(VALUES, min_size=LEAST, max_size=60))
def test_shares_add_up_to_one_at_most(values: list[Attribute]) -> None:
    samples = sampled(values)
    samples.tick(NOW)
    found = samples.published["A"].attributes["v"]
    assert len(found.common) <= COMMON and sum(found.common.values()) <= 1.001
    assert found.others or sum(found.common.values()) == pytest.approx(1.0, abs=0.001)
    assert decode(encode(SampleEntry(samples.published)), KINDS["sample"], where="test").types == samples.published

"""Selectivity of conditions: by a distribution of values, against the events it was made of, and without one."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distced.brokers.node.value_samples import EVERY, SAMPLE, ValueSamples
from distced.detectors.language.parser import parse_expression
from distced.middleware.model.events import Attribute, Event
from distced.middleware.sets.evaluation import Scope, compile_condition
from distced.middleware.sets.expressions import Binary, Name, Parameter
from distced.middleware.wire.directory_entries import AttributeValues, SampleEntry, TypeValues
from distced.policies.distribution.estimate.selectivity import COMPARED, EQUAL, Selectivity
from distced.policies.distribution.situation.situation import Situation


def values_of(rows: Sequence[dict[str, Attribute]]) -> dict[str, TypeValues]:
    samples = ValueSamples(50)
    for number, row in enumerate(rows):
        samples.take(Event("A", 0, 0, "s", number, row), number * EVERY)
    samples.tick(0)
    return samples.published


def rows(seed: int, kind: str) -> list[dict[str, Attribute]]:
    random = Random(seed)
    made: list[dict[str, Attribute]] = []
    for _ in range(SAMPLE):
        v: Attribute = random.randrange(10) if kind == "digits" else round(random.gauss(20, 5), 2)
        if kind == "spike":
            v = random.choice((20, 20, 20, random.uniform(0, 20), random.uniform(20, 40)))
        if kind == "peak":
            v = random.choice((20, 20, random.uniform(0, 20)))
        if kind == "gaps":
            v = random.choice((None, "off", random.uniform(0, 40), random.uniform(0, 40), 7, 7))
        made.append({"v": v, "k": random.choice("abcde"), "b": random.random() < 0.3})
    return made


CONDITIONS = (
    "v > 3", "v >= 3", "v < 3", "v <= 3", "3 < v", "v == 3", "v != 3", "v > 20", "v < 18.5", "22 >= v", "v > -1",
    "v < 20", "v <= 20", "v >= 20", "v > 99", "k == 'a'", "k != 'b'", "k == 'nobody'", "v > 3 and k == 'a'",
    "v > 3 or k == 'a'", "not (v > 3)", "b == true",
)  # fmt: skip


KINDS = ["digits", "temperatures", "spike", "peak", "gaps"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_share_is_that_of_the_sampled_events(kind: str, condition: str) -> None:
    events = rows(1, kind)
    parsed = parse_expression(condition)
    test = compile_condition(parsed, Scope())
    assert not isinstance(test, bool)
    passed = sum(test(Event("A", 0, 0, "s", 0, row), (), ()) for row in events) / len(events)
    assert Selectivity(values_of(events)).share(parsed, "A") == pytest.approx(passed, abs=0.06)


def test_share_without_a_distribution_is_assumed() -> None:
    known = Selectivity(values_of(rows(1, "digits")))
    for selectivity, name in ((Selectivity({}), "A"), (known, "B")):
        assert selectivity.share(parse_expression("v > 3"), name) == COMPARED
        assert selectivity.share(parse_expression("k == 'a'"), name) == EQUAL
        assert selectivity.equal(name, "k") == EQUAL
    assert known.share(parse_expression("other > 3"), "A") == COMPARED


def test_equality_with_another_event_is_that_of_pairs() -> None:
    known = Selectivity(values_of(rows(1, "digits")))
    assert known.equal("A", "k") == pytest.approx(0.2, abs=0.02)
    assert known.share(parse_expression("k == x.k"), "A") == known.equal("A", "k")
    assert known.share(parse_expression("x.k != k"), "A") == 1 - known.equal("A", "k")
    devices = Selectivity(values_of([{"k": f"device-{number % 100}"} for number in range(SAMPLE)]))
    assert devices.equal("A", "k") == pytest.approx(0.01, abs=0.005)


def test_constants_of_a_shape_count() -> None:
    values = values_of(rows(1, "digits"))
    condition = Binary(">", Name("v"), Parameter(0, "number"))
    assert Selectivity(values, (7,)).share(condition, "A") == pytest.approx(0.2, abs=0.06)
    assert Selectivity(values, (1,)).share(condition, "A") == pytest.approx(0.8, abs=0.06)
    assert Selectivity(values).share(condition, "A") == COMPARED


def test_register_is_no_attribute() -> None:
    values = values_of(rows(1, "digits"))
    assert Selectivity(values, registers={"v"}).share(parse_expression("v > 8"), "A") == COMPARED
    assert Selectivity(values, registers={"n"}).share(parse_expression("k == n"), "A") == pytest.approx(0.2, abs=0.02)


@given(st.sampled_from(CONDITIONS), st.integers(0, 30), st.sampled_from(KINDS))
def test_shares_are_probabilities(condition: str, seed: int, kind: str) -> None:
    share = Selectivity(values_of(rows(seed, kind))).share(parse_expression(condition), "A")
    assert 0 < share < 1


@given(
    st.dictionaries(st.text(max_size=6), st.floats(-1e9, 1e9), max_size=4),
    st.integers(0, 5),
    st.lists(st.floats(allow_nan=False), max_size=12),
    st.integers(0, 10**9),
    st.sampled_from(CONDITIONS),
)
def test_any_entry_gives_a_probability(
    common: dict[str, float], others: int, quantiles: list[float], sample: int, condition: str
) -> None:
    """Whatever a node has published."""
    values = AttributeValues(common, others, tuple(quantiles))
    known = Selectivity({"A": TypeValues(sample, {"v": values, "k": values, "b": values})})
    assert 0 <= known.share(parse_expression(condition), "A") <= 1
    assert 0 <= known.equal("A", "v") <= 1


def test_shares_that_are_no_number_count_as_none() -> None:
    values = AttributeValues({"1": -1.7e308, "2": -1.7e308, "3": 1.7e308, "4": 1.7e308}, numbers=1.0)
    known = Selectivity({"A": TypeValues(100, {"v": values})})
    assert all(0 <= known.share(parse_expression(f"v {each} 3"), "A") <= 1 for each in ("<", "<=", ">", ">=", "=="))


def test_large_ids_are_different_values() -> None:
    ids = Selectivity(values_of([{"k": 123_456_789_000 + number, "v": number % 2} for number in range(SAMPLE)]))
    assert ids.equal("A", "k") == pytest.approx(0.005, abs=0.005)
    assert ids.share(parse_expression("k == 123456789005"), "A") < 0.02
    assert ids.share(parse_expression("k == 123456789005 and v == 1 and v > 0"), "A") > 0


def test_few_numbers_among_texts_tell_nothing_of_an_order() -> None:
    rows: list[dict[str, Attribute]] = [
        {"v": number if number % 3 == 0 else f"text {number}"} for number in range(SAMPLE)
    ]
    assert Selectivity(values_of(rows)).share(parse_expression("v > 500"), "A") == COMPARED


def test_situation_has_the_largest_samples() -> None:
    few, many = values_of(rows(1, "digits")[:20]), values_of(rows(1, "digits"))
    situation = Situation()
    situation.changed("sample", "n", SampleEntry(few))
    assert situation.values["A"].sample == 20
    situation.changed("sample", "m", SampleEntry(many))
    assert situation.values["A"].sample == SAMPLE
    situation.changed("sample", "m", None)
    assert situation.values["A"].sample == 20

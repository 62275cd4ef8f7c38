"""Experiments of the article's Fig. 12 and 13: the same bytes from the same seed, both solutions, real frames."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distced.middleware.model.timestamps import MINUTE, SECOND, parse_duration
from distced.simulations.experiments.experiment_file import load_experiment, parse_experiment
from distced.simulations.experiments.kinds import kind_named
from distced.simulations.experiments.model import ExperimentError, Results, rows_of
from distced.simulations.experiments.office_network.live_delays import live_delays
from distced.simulations.experiments.office_network.office_events import office_events
from distced.simulations.experiments.office_network.primitive_run import PRIMITIVE, jms_message, run_primitive
from distced.simulations.experiments.office_network.setting import NetworkSpec, SettingSpec, patterns_for, traffic_row
from distced.simulations.experiments.reporting.page import check_sections
from distced.simulations.office.sensors import TYPES
from tests.support.pictures import needs_matplotlib

REMOTE = """
kind = "remote-notification"
title = "Bytes"
seeds = [1]

[remote-notification]
solutions = ["framework", "mqtt", "mqtt-narrow", "json", "jms", "jms-selectors"]
duration = "30min"
network = { tick = "1s" }

[[remote-notification.settings]]
name = "article"
about = "as the article"
subscribers = [1, 2]
"""

DELAY = """
kind = "notification-delay"
title = "Delays"
seeds = [3]

[notification-delay]
subscribers = 1
settings = [{ name = "best effort", about = "at once", duration = "20min" }]
"""

SETTING = SettingSpec("article", "", (1,))


def rows_by(text: str, **factors: Any) -> list[Any]:
    """Rows of the cells with these factors."""
    made = parse_experiment(text)
    some = [cell for cell in made.cells() if factors.items() <= dict(cell.factors).items()]
    return [row for cell in some for row in rows_of(cell, made.kind.run(cell))]


def test_every_solution_counts_bytes_and_the_framework_finds_what_one_engine_finds() -> None:
    rows = {row["solution"]: row for row in rows_by(REMOTE, subscribers=2)}
    assert set(rows) == {"framework", *PRIMITIVE}
    for row in rows.values():
        assert row["total_bytes"] == row["wired_bytes"] + row["wireless_bytes"] > 0
        assert row["wired_bytes"] == row["sensors_bytes"] + row["servers_bytes"] + row["brokers_bytes"]
    assert rows["framework"]["found"] == rows["framework"]["expected"]
    assert rows["mqtt"]["wireless_bytes"] < rows["json"]["wireless_bytes"] < rows["jms"]["wireless_bytes"]
    assert rows["mqtt-narrow"]["received"] < rows["mqtt"]["received"] == rows["jms"]["received"]
    # No broker nodes, and no links between servers in use.
    assert all(rows[each]["brokers_bytes"] == rows[each]["servers_bytes"] == 0 for each in PRIMITIVE)


@pytest.mark.parametrize("text", [REMOTE, DELAY], ids=["remote", "delay"])
def test_equal_seeds_give_equal_rows_under_any_hash_seed(text: str) -> None:
    factors = {"solution": "framework", "subscribers": 1} if text is REMOTE else {}
    script = "from tests.simulations.test_office_network import rows_by; import sys; "
    script += f"print(rows_by(sys.argv[1], **{factors}))"
    printed = set()
    for seed in ("1", "2"):
        run = subprocess.run(
            [sys.executable, "-c", script, text],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[2],
            check=True,
            capture_output=True,
        )
        printed.add(run.stdout)
    assert len(printed) == 1 and b"seed" in printed.pop()


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(sorted(PRIMITIVE)), st.integers(2, 4))
def test_the_primitive_solution_costs_as_much_again_for_each_subscriber(seed: int, solution: str, pdas: int) -> None:
    duration = 3 * MINUTE
    one, _ = run_primitive(NetworkSpec(), SETTING, 1, duration, seed, solution)
    many, _ = run_primitive(NetworkSpec(), SETTING, pdas, duration, seed, solution)
    first, all_of_them = traffic_row(one), traffic_row(many)
    assert all_of_them["wireless_bytes"] == pdas * first["wireless_bytes"]
    assert all_of_them["wired_bytes"] == first["wired_bytes"]


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32))
def test_sightings_once_a_minute_are_as_few_as_the_article_allows(seed: int) -> None:
    duration = 20 * MINUTE
    sensed = office_events(seed, SettingSpec("s", "", (1,), sightings="as sensed"), duration).events
    kept = office_events(seed, SETTING, duration).events
    others = [event for event in sensed if event.type != "Pers"]
    assert [event for event in kept if event.type != "Pers"] == others
    ids = {event.id for event in kept}
    assert ids <= {event.id for event in sensed}
    for person in {event.attributes["person"] for event in sensed if event.type == "Pers"}:
        all_of_them = [each for each in sensed if each.type == "Pers" and each.attributes["person"] == person]
        some = [each for each in kept if each.type == "Pers" and each.attributes["person"] == person]
        assert {b.id for a, b in pairwise(all_of_them) if a.attributes != b.attributes} <= ids
        for before, after in pairwise(some):
            if before.attributes == after.attributes and after.hi - before.hi > MINUTE:
                # None was sensed in between that would have come in time.
                assert not [each for each in all_of_them if before.hi < each.hi <= before.hi + MINUTE]


def test_batches_have_all_events_and_come_at_their_period() -> None:
    duration = 10 * MINUTE
    batched = office_events(5, SettingSpec("s", "", (1,), batch="10s"), duration)
    assert sorted(event.id for event in batched.events) == sorted(
        event.id for event in office_events(5, SETTING, duration).events
    )
    assert all(at % (10 * SECOND) == 0 for at, _ in batched.messages)


def test_message_of_jms_by_hand() -> None:
    event = next(each for each in office_events(5, SETTING, MINUTE).events if each.type == "Pers")
    text = jms_message([event]).decode()
    head, _, body = text.partition("\n\n")
    assert head.startswith("MESSAGE\n") and f"person:{event.attributes['person']}" in head
    assert body.startswith("<event ") and body.endswith("</event>\0")


FAULTY = {
    "unknown solution": (REMOTE.replace('"json"', '"jason"'), "no solution of this name: jason", 7),
    "no subscribers": (REMOTE.replace("[1, 2]", "[0]"), "not a number of subscribers", 14),
    "guaranteed without promises": (REMOTE + 'detection = "guaranteed"\n', "guaranteed detection without promises", 15),
    "impossible bandwidth": (REMOTE.replace('tick = "1s"', 'wired_bandwidth = "fast"'), "fast", 9),
    "too fast": (DELAY.replace("subscribers = 1", "speed = 1e6"), "not a speed of the office", 7),
}


@pytest.mark.parametrize(("text", "problem", "line"), FAULTY.values(), ids=FAULTY)
def test_faulty_file_is_refused(text: str, problem: str, line: int) -> None:
    with pytest.raises(ExperimentError, match=problem) as caught:
        parse_experiment(text, name="own.toml")
    assert f"line {line}" in str(caught.value.where)


def test_setting_of_the_shipped_file_is_the_article_s() -> None:
    spec = load_experiment("remote-notification").spec
    first = spec.settings[0]
    assert (first.sightings, first.detection, first.heartbeat, first.patterns) == (
        "once a minute", "best-effort", "", "one for all",
    )  # fmt: skip
    assert parse_duration(spec.duration) >= 60 * MINUTE and {1, 6, 10} <= set(first.subscribers)


@needs_matplotlib
@pytest.mark.parametrize("text", [REMOTE, DELAY], ids=["remote", "delay"])
def test_figures_of_few_rows(text: str) -> None:
    made = parse_experiment(text)
    rows = [row for cell in made.cells() for row in rows_of(cell, made.kind.run(cell))]
    results = Results(made.spec, made.seeds, rows)
    sections = list(kind_named(made.kind.name).figures(results))
    check_sections(sections)
    assert sections


def test_patterns_are_those_of_the_article() -> None:
    patterns = patterns_for("Jean")
    assert patterns["C"][0].startswith("([Attended], [T <= {T, Login where person == 'Jean'}]) @ T = 5min")
    assert patterns["C1"][0].startswith("[BoardOn as b]") and {each.name for each in TYPES} >= {"BoardOn", "Login"}


@pytest.mark.spawn
def test_live_run_notifies_over_shaped_links() -> None:
    setting = SettingSpec("live", "", (1,))
    seed, duration = 1, 100 * MINUTE
    found = live_delays(NetworkSpec(), setting, 1, duration, seed, "min-bandwidth", 1_000.0)
    assert {each.notification for each in found} == {"C", "C1"}
    # Two times the latency of the wireless link at least, from the server, one way.
    assert all(each.delay > 20 * SECOND // 1_000 for each in found)

"""Machines that are upgraded: what is made from a seed, and what the queries of the CEDR article find in it."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest

from distced.detectors.pattern_files import PatternSource, compile_source
from distced.detectors.runtime.engines import make_engine
from distced.middleware.cli.command import main
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import HOUR, MINUTE
from distced.simulations.demo.feed import upgrade_feed
from distced.simulations.demo.session import questions
from distced.simulations.upgrades import QUERIES, TYPES, MachineFleet, read_queries

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial" / "machine-upgrades.md").read_text(encoding="utf-8")


def made(seed: int, hours: int = 6) -> tuple[MachineFleet, list[Event]]:
    fleet = MachineFleet(Random(seed))
    events = [event for step in fleet.run(hours * HOUR) for event in step.events]
    return fleet, sorted(events, key=lambda event: event.key)


def detected(events: list[Event], engine: str = "stepwise") -> list[CompositeEvent]:
    patterns = compile_source(PatternSource(read_queries(), QUERIES, "cedr"), TypeRegistry(TYPES)).compiled
    running = make_engine(patterns, lambda _: None, engine=engine)
    return [*running.feed(events), *running.advance(events[-1].hi)]


def upgrade(event: Event) -> tuple[object, object]:
    return event.attributes["machine_id"], event.attributes["patch"]


def of(found: list[CompositeEvent], name: str) -> list[CompositeEvent]:
    return [each for each in found if each.type == name]


def test_events_are_those_of_the_seed() -> None:
    assert made(1)[1] == made(1)[1]
    assert made(1)[1] != made(2)[1]
    kinds = {each.name: each for each in TYPES}
    for event in made(1)[1]:
        kinds[event.type].check(event)


@pytest.mark.parametrize("seed", [1, 2, 41])
def test_upgrades_that_fail_are_found(seed: int) -> None:
    fleet, events = made(seed)
    found = {upgrade(each) for each in of(detected(events), "FAILED_UPGRADE")}
    failed = {each for each, known in fleet.failed.items() if known <= events[-1].hi}
    assert failed
    assert failed <= found
    # What else fails are patches of the hour before, of an upgrade that had succeeded.
    installed = {upgrade(each): each.hi for each in events if each.type == "INSTALL"}
    for machine, patch in found - set(fleet.failed):
        times = [known for (other, _), known in fleet.failed.items() if other == machine]
        assert any(0 < known - installed[machine, patch] <= HOUR for known in times)


def test_machines_that_are_left_down_are_found() -> None:
    _, events = made(41)
    for each in of(detected(events), "LEFT_DOWN"):
        down = each.constituents[0]
        (shutdown,) = [event for event in events if event.id == down]
        restarts = [e.hi for e in events if e.type == "RESTART" and e.source == shutdown.source and e.hi > shutdown.hi]
        assert not restarts or min(restarts) >= each.hi
        ends = {e.hi for e in events if e.type == "MAINTENANCE_ENDS"}
        assert each.hi in ends


def test_machines_go_down_unexpectedly_where_nothing_was_installed() -> None:
    _, events = made(41)
    wanted = {
        event.id
        for event in events
        if event.type == "SHUTDOWN"
        and not any(
            e.type == "INSTALL" and e.source == event.source and 0 <= event.hi - e.hi <= 30 * MINUTE for e in events
        )
    }
    assert {each.constituents[0] for each in of(detected(events), "UNEXPECTED_SHUTDOWN")} == wanted


def test_bad_patches_are_those_of_three_machines() -> None:
    found = detected(made(41)[1])
    failed = {each.id: each for each in of(found, "FAILED_UPGRADE")}
    bad = of(found, "BAD_PATCH")
    assert bad
    for each in bad:
        three = [failed[one].attributes for one in each.constituents]
        assert len({one["machine_id"] for one in three}) == 3
        assert {(one["site"], one["patch"]) for one in three} == {(each.attributes["site"], each.attributes["patch"])}


def test_engines_find_the_same() -> None:
    events = made(7)[1]
    assert [each.id for each in detected(events)] == [each.id for each in detected(events, "columnar")]


def test_demonstration_asks_each_query() -> None:
    feed = upgrade_feed(1, 10)
    asked, derived = questions(feed.types, [], feed.patterns)
    assert [each.query for each in asked] == re.findall(r"^Q\d: (\w+)$", read_queries(), re.MULTILINE)
    assert {each.language for each in asked} == {"cedr"}
    assert not derived


def test_tutorial_finds_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    query, events, found, core, *others = re.findall(r"^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    Path("upgrade.cedr").write_text(query, encoding="utf-8")
    Path("upgrade.jsonl").write_text(events, encoding="utf-8")
    assert main(["run", "upgrade.cedr", "--input", "upgrade.jsonl", "--json"]) == 0
    printed = capsys.readouterr().out
    for line in found.splitlines():
        name, times, machine, patch = re.fullmatch(r"(\w+) \[(.*)\] (\w+) (\w+)", line).groups()  # type: ignore[union-attr]
        assert all(each in printed for each in (name, *times.split(", "), machine, patch))
    assert main(["translate", "upgrade.cedr"]) == 0
    assert capsys.readouterr().out.split() == core.split()
    assert "kept for ever" in " ".join(compile_source(PatternSource(query, "upgrade.cedr", "cedr")).notes)
    texts = read_queries()
    for each in others:
        body = each.partition("EVENT_PATTERN")[2]
        assert " ".join(body.split()) in " ".join(texts.split())

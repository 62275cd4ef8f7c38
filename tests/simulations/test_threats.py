"""Threats to regions: what is made from a seed, and what the transformers of the tutorial find in it.

The composite events are compared with a computation by definitions over all events at once: strength that is near a
region at an instant, last reconnaissance before it. It keeps no state from event to event, as transformers do.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import TypeAlias

import pytest

from distced.detectors.pattern_files import PatternSource, compile_source
from distced.detectors.runtime.engines import make_engine
from distced.middleware.cli.command import main
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import HOUR
from distced.simulations.demo.feed import threat_feed
from distced.simulations.demo.session import questions
from distced.simulations.threats import TRANSFORMERS, TYPES, Battlefield, read_transformers
from distced.simulations.threats.battlefield import REGIONS
from tests.support.verbs import load_verbs

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial" / "threat-indicators.md").read_text(encoding="utf-8")
NEEDED = 100

Found: TypeAlias = tuple[str, int, dict[str, object]]
"""Type, instant and attributes of a composite event."""


@cache
def made(seed: int, hours: int = 5) -> tuple[Battlefield, list[Event]]:
    field = Battlefield(Random(seed))
    events = [event for step in field.run(hours * HOUR) for event in step.events]
    return field, sorted(events, key=lambda event: event.key)


def detected(events: list[Event], engine: str = "stepwise") -> list[CompositeEvent]:
    patterns = compile_source(PatternSource(read_transformers(), TRANSFORMERS, "cedmos"), TypeRegistry(TYPES)).compiled
    running = make_engine(patterns, lambda _: None, engine=engine)
    return [*running.feed(events), *running.advance(events[-1].hi)]


def near(event: Event) -> str | None:
    """Region that a sighting is near."""
    x, y = event.attributes["x"], event.attributes["y"]
    assert isinstance(x, int)
    assert isinstance(y, int)
    return next((name for name, at in REGIONS.items() if max(abs(x - at.x), abs(y - at.y)) <= 1), None)


class Definitions:
    """What there is to find, by definition; two sightings are never at one instant."""

    def __init__(self, events: list[Event]) -> None:
        self.events = events
        self.sightings = [each for each in events if each.type == "Sighting"]
        self.reviews = [each for each in events if each.type == "Review"]
        seen = {each.hi for each in self.sightings}
        assert len(seen) == len(self.sightings)
        assert seen.isdisjoint(each.hi for each in self.reviews)
        self.by_unit: dict[object, list[Event]] = defaultdict(list)
        for each in self.sightings:
            self.by_unit[each.attributes["unit"]].append(each)
        self.instants = {unit: [each.hi for each in own] for unit, own in self.by_unit.items()}
        self.changed = {region: self.changes(region) for region in REGIONS}

    def last(self, unit: object, instant: int) -> Event | None:
        """Last sighting of a unit up to an instant."""
        place = bisect_right(self.instants[unit], instant)
        return self.by_unit[unit][place - 1] if place else None

    def strength(self, region: str, instant: int) -> int:
        """Strength of the force that is near a region, each unit where it was seen last."""
        last = [each for unit in self.by_unit if (each := self.last(unit, instant))]
        there = (each.attributes for each in last if near(each) == region)
        return sum(each["strength"] for each in there if each["kind"] == "force")  # type: ignore[misc]

    def recent(self, region: str, instant: int) -> bool:
        """Whether the last reconnaissance and the last scouting of a region are at most an hour old."""
        return all(
            any(
                each.attributes["kind"] == kind and near(each) == region and 0 <= instant - each.hi <= HOUR
                for each in self.sightings
            )
            for kind in ("aircraft", "scouts")
        )

    def units(self) -> list[Found]:
        found: list[Found] = []
        for each in self.sightings:
            before = self.last(each.attributes["unit"], each.hi - 1)
            attributes: dict[str, object] = {"unit": each.attributes["unit"], "region": near(each)}
            attributes["was_region"] = near(before) if before else None
            for name in ("kind", "strength"):
                attributes[name] = each.attributes[name]
                first = 0 if name == "strength" else None
                attributes[f"was_{name}"] = before.attributes[name] if before else first
            found.append(("Unit", each.hi, attributes))
        return found

    def changes(self, region: str) -> list[tuple[int, int, int]]:
        """Instant, strength before and strength, where the force near a region has changed."""
        instants = [each.hi for each in self.sightings]
        pairs = [(instant, self.strength(region, instant - 1), self.strength(region, instant)) for instant in instants]
        return [each for each in pairs if each[1] != each[2]]

    def forces(self) -> list[Found]:
        return [
            ("Force", instant, {"region": region, "strength": now, "was_strength": was})
            for region in REGIONS
            for instant, was, now in self.changed[region]
        ]

    def threats(self) -> list[Found]:
        found: list[Found] = []
        for region in REGIONS:
            changes = self.changed[region]
            for gathered, was, now in changes:
                if not was < NEEDED <= now or not self.recent(region, gathered):
                    continue
                found.append(("Threat", gathered, _threat(region, now, was, 1)))
                ends = [change for change in changes if change[0] > gathered and change[2] < NEEDED]
                reviews = {each.hi for each in self.reviews}
                old = [at for at in reviews if at > gathered and not self.recent(region, at)]
                if old and (not ends or min(old) < ends[0][0]):
                    there = self.strength(region, min(old))
                    found.append(("Threat", min(old), _threat(region, there, there, 0)))
                elif ends:
                    found.append(("Threat", ends[0][0], _threat(region, ends[0][2], ends[0][1], 0)))
        return found

    def alerts(self) -> list[Found]:
        found: list[Found] = []
        orders = {"to": "commander", "was_to": "commander", "urgent": True, "was_urgent": True}
        for region in REGIONS:
            raised = [at for _, at, each in self.threats() if each["region"] == region and each["threat"] == 1]
            for number, at in enumerate(raised, 1):
                counts: dict[str, object] = {"region": region, "n": number, "was_n": number - 1}
                found += [("Raised", at, counts), ("Alert", at, counts | orders)]
        return found

    def neutralized(self, region: object, instant: int) -> int:
        """Whether radar and airfield are both down, by the last report of each."""
        for site in ("Radar", "Airfield"):
            reports = [
                each.type
                for each in self.events
                if each.type.startswith(site) and each.attributes["region"] == region and each.hi <= instant
            ]
            if not reports or reports[-1] != f"{site}Down":
                return 0
        return 1

    def defences(self) -> list[Found]:
        reports = [each for each in self.events if each.type.startswith(("Radar", "Airfield"))]
        found: list[Found] = []
        for region, instant in {(each.attributes["region"], each.hi) for each in reports}:
            was, now = self.neutralized(region, instant - 1), self.neutralized(region, instant)
            if was != now:
                found.append(("Defences", instant, {"region": region, "neutralized": now, "was_neutralized": was}))
        return found

    def aborts(self) -> list[Found]:
        found: list[Found] = []
        for region in REGIONS:
            points = [each for each in self.events if each.type == "WayPoint" and each.attributes["region"] == region]
            missions: list[object] = [None]
            for each in points:
                if not self.neutralized(region, each.hi):
                    missions.append(each.attributes["mission"])
                    n = len(missions) - 1
                    attributes = {"region": region, "mission": missions[-1], "was_mission": missions[-2]}
                    found.append(("AbortMission", each.hi, {**attributes, "aborts": n, "was_aborts": n - 1}))
        return found


@cache
def defined(seed: int) -> Definitions:
    return Definitions(made(seed)[1])


def _threat(region: str, strength: int, was: int, threat: int) -> dict[str, object]:
    return {
        "region": region,
        "strength": strength,
        "was_strength": was,
        "threat": threat,
        "was_threat": 1 - threat,
    }


def listed(found: list[Found]) -> list[tuple[str, int, list[tuple[str, object]]]]:
    return sorted((name, instant, sorted(attributes.items())) for name, instant, attributes in found)


def test_events_are_those_of_the_seed() -> None:
    first, second, other = (Battlefield(Random(seed)).run(HOUR) for seed in (1, 1, 2))
    assert list(first) == list(second) != list(other)
    kinds = {each.name: each for each in TYPES}
    field, events = made(1)
    for event in events:
        kinds[event.type].check(event)
        assert event.type in field.sources[event.source]


@pytest.mark.parametrize("engine", ["stepwise", "columnar"])
@pytest.mark.parametrize("seed", [1, 2, 41])
def test_composite_events_are_those_of_the_definitions(seed: int, engine: str) -> None:
    events = made(seed)[1]
    found: list[Found] = [(each.type, each.hi, dict(each.attributes)) for each in detected(events, engine)]
    by = defined(seed)
    wanted = [*by.units(), *by.forces(), *by.threats(), *by.alerts(), *by.defences(), *by.aborts()]
    assert {name for name, _, _ in wanted} == {name for name, _, _ in found} - {"Arrived", "Left"}
    assert listed([each for each in found if each[0] not in ("Arrived", "Left")]) == listed(wanted)
    # What has arrived and has not left is there, all the time.
    for region in REGIONS:
        there = dict.fromkeys(("Arrived", "Left"), 0)
        for name, instant, attributes in found:
            if name in there and attributes["region"] == region:
                there[name] = int(str(attributes["strength"]))
                if name == "Left":
                    assert there["Arrived"] - there["Left"] == by.strength(region, instant)


@pytest.mark.parametrize("seed", range(6))
def test_alerts_are_the_attacks_and_aborted_missions_those_without_defences_down(seed: int) -> None:
    field, events = made(seed)
    composites = detected(events)
    end = events[-1].hi
    alerts = [(each.attributes["region"], each.hi) for each in composites if each.type == "Alert"]
    over = [each for each in field.attacks if each[2] <= end]
    assert over
    for region, begin, withdrawal in over:
        assert sum(each == region and begin < instant <= withdrawal for each, instant in alerts) == 1
    assert len(over) <= len(alerts) <= len(field.attacks)
    aborted = {each.attributes["mission"]: each.hi for each in composites if each.type == "AbortMission"}
    assert aborted == {mission: instant for mission, instant in field.aborted.items() if instant <= end}


def test_threat_consists_of_its_inputs_since_the_last() -> None:
    composites = detected(made(41)[1])
    threats = [each for each in composites if each.type == "Threat" and each.attributes["region"] == "bridge"]
    assert len(threats) > 2
    for before, each in zip([None, *threats], threats, strict=False):
        since = before.hi if before else 0
        assert all(since < part.hi <= each.hi for part in each.events)
        forces = {e.id for e in composites if e.type == "Force" and e.attributes["region"] == "bridge"}
        own = {part.id for part in each.events if part.type == "Force"}
        assert own == {e.id for e in composites if e.id in forces and since < e.hi <= each.hi}


def test_demonstration_has_each_transformer() -> None:
    feed = threat_feed(1, 10)
    asked, derived = questions(feed.types, [], feed.patterns)
    assert [each.query for each in asked] == re.findall(
        r"^(?:transformer|operator) (\w+)", read_transformers(), re.MULTILINE
    )
    assert {each.language for each in asked} == {"cedmos"}
    assert not derived


def test_tutorial_finds_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    load_verbs()
    monkeypatch.chdir(tmp_path)
    # The commands of its last section are those of tests/live.
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", PAGE.partition("## 5. Live")[0], re.MULTILINE | re.DOTALL)
    said = ""
    shown = 0
    for kind, block in blocks:
        if kind == "sh":
            said = "".join(_said(block, said, capsys))
        elif kind == "text":
            assert list(map(_without_ids, said.splitlines())) == list(map(_without_ids, block.splitlines()))
            shown += 1
        else:
            assert kind == "cedmos"
            assert all(part in _code(read_transformers()) for part in block.strip().split("\n\n"))
    assert shown == 4


def _said(block: str, before: str, capsys: pytest.CaptureFixture[str]) -> Iterator[str]:
    """Output of each command of a block, in the folder at hand; an id is that of the output before."""
    for name, content in re.findall(r"^cat > (\S+) <<'?END'?\n(.*?)^END$", block, re.MULTILINE | re.DOTALL):
        Path(name).write_text(content, encoding="utf-8")
    for line in re.sub(r"^cat > .*?^END$", "", block, flags=re.MULTILINE | re.DOTALL).splitlines():
        if line.startswith("python"):
            words = shlex.split(line.partition(" > ")[0])
            made = subprocess.run([sys.executable, *words[1:]], capture_output=True, text=True, check=True)
            Path(line.partition(" > ")[2]).write_text(made.stdout, encoding="utf-8")
        elif line:
            given = re.sub(r"\bc[0-9a-f]{16}\.[0-9a-f]+", before.partition(" ")[0], line)
            assert main(shlex.split(given)[1:]) == 0, line
            yield capsys.readouterr().out


def _without_ids(line: str) -> str:
    """A line of output without ids, which change with the canonical form, and their widths."""
    return re.sub(r" +", " ", re.sub(r"\bc[0-9a-f]{16}\.[0-9a-f]+", "ID", line)).strip()


def _code(text: str) -> str:
    """A text without its comments."""
    return re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)

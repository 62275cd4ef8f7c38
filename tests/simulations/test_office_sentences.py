"""The tutorial of the pretty language: its sentences find what both scenarios in the core language find."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from typing import Any

import pytest

from distced.detectors.pattern_files import PatternSource, compile_source
from distced.detectors.runtime.engines import make_engine
from distced.middleware.cli.command import main
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import HOUR
from distced.simulations.office import ActiveOffice
from distced.simulations.office.scenarios import read_scenario

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial" / "active-office.md").read_text(encoding="utf-8")
SENTENCES = "\n".join(re.findall(r"^```pretty\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
CORE = "\n".join(map(read_scenario, ("scenario1", "scenario2")))


def found(text: str, language: str, office: ActiveOffice, events: list[Event], engine: str) -> list[tuple[Any, ...]]:
    patterns = compile_source(PatternSource(text, "office", language), TypeRegistry(office.types)).compiled
    running = make_engine(patterns, lambda _: None, engine=engine)
    composites = [*running.feed(events), *running.advance(events[-1].hi)]
    return sorted((each.type, each.lo, each.hi, each.constituents, dict(each.attributes)) for each in composites)


@pytest.mark.parametrize("engine", ["stepwise", "columnar"])
@pytest.mark.parametrize("seed", [1, 41])
def test_sentences_find_what_the_scenarios_find(seed: int, engine: str) -> None:
    office = ActiveOffice(Random(seed))
    events = sorted(office.events(4 * HOUR), key=lambda event: event.key)
    composites = found(SENTENCES, "pretty", office, events, engine)
    assert {each[0] for each in composites} == {"ColdRoom", "MissedMeeting"}
    assert composites == found(CORE, "", office, events, "stepwise")


def test_sentences_are_translated_with_the_types_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (types,) = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    Path("types.toml").write_text(types, encoding="utf-8")
    Path("office.pretty").write_text(SENTENCES, encoding="utf-8")
    assert main(["translate", "office.pretty", "--types", "types.toml"]) == 0
    assert capsys.readouterr().out.count("->") == 2

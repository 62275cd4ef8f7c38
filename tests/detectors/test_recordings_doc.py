"""Counts in the table of docs/explanation/recordings.md against the recordings, where these are present."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from distced import simulations
from distced.detectors.batch_run.runner import Replay
from distced.detectors.pattern_files import compile_source, read_source
from distced.middleware.event_files import read_events
from distced.middleware.mapping import load_mapping
from distced.middleware.model.event_types import TypeRegistry

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
RECORDINGS = Path(simulations.__file__).parent / "recordings"
TEXT = (ROOT / "docs" / "explanation" / "recordings.md").read_text(encoding="utf-8")

LONG = pytest.mark.properties
FILES = [
    pytest.param("office", "office", "keti_office_floors4-5_1min.csv.gz", marks=LONG),
    pytest.param("contacts", "contacts", "workplace_InVS13_tij.dat.gz"),
    pytest.param("alarms, microwave", "alarms", "telecom_alarms_24V_439N_Microwave.csv.gz", marks=LONG),
    pytest.param("alarms, wireless", "alarms", "telecom_alarms_18V_55N_Wireless.csv.gz"),
    pytest.param("closes, daily", "closes", "us_stocks_daily_long.csv.gz", marks=LONG),
    pytest.param("closes, minutes", "closes", "nasdaq_minute_20080201.csv.gz"),
    pytest.param("system log", "system_log", "loghub_Linux_full.log.gz"),
    pytest.param("laboratory", "mqtt_lab", "mqtt_lab_sample.jsonl"),
]


def table() -> dict[str, tuple[int, list[tuple[str, int]]]]:
    """By recording: how many events it has, and what each pattern finds."""
    found: dict[str, tuple[int, list[tuple[str, int]]]] = {}
    recording = ""
    for row in re.findall(r"^\| (.*) \|$", TEXT, re.MULTILINE)[2:]:
        name, events, pattern, count, *_ = (cell.strip() for cell in row.split("|"))
        if name:
            recording = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", name)
            found[recording] = (_number(events), [])
        found[recording][1].append((pattern.split("`")[1], _number(count)))
    return found


def _number(text: str) -> int:
    return int(text.replace(",", ""))


@pytest.mark.parametrize(("recording", "name", "file"), FILES)
def test_shipped_patterns_find_what_the_page_says(recording: str, name: str, file: str) -> None:
    if not (DATA / file).exists():
        pytest.skip(f"the recording {file} is not at ../shared/data")
    mapping = load_mapping(RECORDINGS / f"{name}.toml")
    patterns = compile_source(read_source(RECORDINGS / f"{name}.pattern"), TypeRegistry(mapping.types))
    replay = Replay(patterns.compiled, read_events(DATA / file, mapping))
    composites = list(replay)
    counted = [(each.publishes.name, replay.counts.found[place]) for place, each in enumerate(replay.patterns)]
    events, expected = table()[recording]
    assert replay.counts.events == events
    assert counted == expected
    assert len({each.id for each in composites}) == len(composites)
    assert [each.key for each in composites] == sorted(each.key for each in composites)


def test_every_recording_is_in_the_table() -> None:
    assert set(table()) == {each.values[0] for each in FILES}

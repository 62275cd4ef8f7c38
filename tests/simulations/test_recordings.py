"""The mappings of the recordings, each put to its recording as a whole, and the patterns that go with them."""

from __future__ import annotations

import csv
import gzip
import itertools
import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from distced import simulations
from distced.middleware.event_files import EventReader, in_order, read_events, write_events
from distced.middleware.mapping import NO_RULE, load_mapping
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import HOUR, MINUTE, SECOND, parse_instant
from tests.support.rows_and_columns import events_of_chunk

RECORDINGS = Path(simulations.__file__).parent / "recordings"
DATA = Path(__file__).parents[3] / "shared" / "data"
NAMES = sorted(path.stem for path in RECORDINGS.glob("*.toml"))


class Recording(NamedTuple):
    """A pass over a recording that is over."""

    events: list[Event]
    reader: EventReader


@cache
def recorded(mapping: str, file: str) -> Recording:
    """Every event of a recording; a test of it is skipped where it is absent."""
    path = DATA / file
    if not path.exists():
        pytest.skip(f"the recording {file} is not at ../shared/data")
    reader = read_events(path, load_mapping(RECORDINGS / f"{mapping}.toml"))
    return Recording(list(reader), reader)


def rows_of(file: str) -> list[dict[str, str]]:
    """The rows of a CSV file, read without distced."""
    with gzip.open(DATA / file, "rt", encoding="utf-8", newline="") as text:
        return list(csv.DictReader(text))


OFFICE = ("office", "keti_office_floors4-5_1min.csv.gz")
CONTACTS = ("contacts", "workplace_InVS13_tij.dat.gz")
MICROWAVE = ("alarms", "telecom_alarms_24V_439N_Microwave.csv.gz")
WIRELESS = ("alarms", "telecom_alarms_18V_55N_Wireless.csv.gz")
DAILY = ("closes", "us_stocks_daily_long.csv.gz")
MINUTES = ("closes", "nasdaq_minute_20080201.csv.gz")
LOG = ("system_log", "loghub_Linux_full.log.gz")
MQTT = ("mqtt_lab", "mqtt_lab_sample.jsonl")

WHOLE = [
    # the recording, its rows, rejected rows, sources, and events by type
    (OFFICE, 263_463, 0, 25, {"Reading": 263_463}),
    (CONTACTS, 9_827, 0, 1, {"Contact": 9_827}),
    (MICROWAVE, 64_598, 0, 439, {"Alarm": 64_598}),
    (WIRELESS, 34_838, 0, 55, {"Alarm": 34_838}),
    (DAILY, 120_804, 0, 19, {"Close": 120_804}),
    (MINUTES, 3_017, 0, 7, {"Close": 3_017}),
    (
        LOG,
        25_547,
        0,
        1,
        {
            "LoginFailed": 3_940,
            "SessionOpened": 561,
            "SessionClosed": 561,
            "FtpConnection": 3_357,
            "OutOfMemory": 10_404,
            "LogRestarted": 42,
            "LogLine": 6_682,
        },
    ),
    (
        MQTT,
        120,
        2,
        4,
        {"Motion": 24, "Climate": 11, "Air": 5, "Gas": 5, "Light": 5, "Noise": 5, "PlugReport": 2, "PlugState": 2},
    ),
]


@pytest.mark.parametrize(("which", "rows", "rejected", "sources", "by_type"), WHOLE)
def test_a_recording_as_a_whole(
    which: tuple[str, str], rows: int, rejected: int, sources: int, by_type: dict[str, int]
) -> None:
    events, reader = recorded(*which)
    assert reader.counts["row"] == rows
    assert reader.counts["rejected"] == len(reader.rejected) == rejected
    assert Counter(event.type for event in events) == by_type
    assert len({event.source for event in events}) == sources
    assert len({event.id for event in events}) == len(events)
    assert reader.mapping is not None
    assert reader.mapping.counts[NO_RULE, "unmatched"] == 0
    types = {each.name: each for each in reader.types}
    for event in events:
        types[event.type].check(event)


@pytest.mark.parametrize("which", [each for each, *_ in WHOLE if each != MQTT])
def test_recording_as_columns_is_the_recording_by_rows(which: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distced.middleware.event_files.reader.SMALL", 0)
    expected = recorded(*which)
    mapping, file = which
    reader = read_events(DATA / file, load_mapping(RECORDINGS / f"{mapping}.toml"))
    assert reader.has_columns
    chunks = reader.chunks()
    # The events of the first chunk, and all that is counted.
    first = events_of_chunk(next(chunks))
    assert list(map(repr, first)) == list(map(repr, expected.events[: len(first)]))
    assert len(first) + sum(map(len, chunks)) == len(expected.events)
    assert +reader.counts == +expected.reader.counts
    assert reader.mapping is not None and expected.reader.mapping is not None
    assert +reader.mapping.counts == +expected.reader.mapping.counts
    assert repr(sorted(reader.mapping.memory.sources.items())) == repr(
        sorted(expected.reader.mapping.memory.sources.items())
    )


@pytest.mark.parametrize("which", [OFFICE, CONTACTS, DAILY, MINUTES, LOG])
def test_recordings_whose_events_end_in_order(which: tuple[str, str]) -> None:
    events, _ = recorded(*which)
    assert all(earlier.hi <= later.hi for earlier, later in itertools.pairwise(events))


def test_the_office() -> None:
    events, reader = recorded(*OFFICE)
    first = events[0]
    assert (first.source, first.lo) == ("room-510", parse_instant("2013-08-23T23:04:00Z"))
    assert first.attributes == {
        "room": "510", "co2": 404, "humidity": 52.62, "light": 204, "pir": 0, "temperature": 23.46
    }  # fmt: skip
    rows = rows_of(OFFICE[1])
    hot = [float(row["temperature"]) > 50 for row in rows]
    assert [event.attributes["temperature"] is None for event in events] == hot
    where = Counter(event.attributes["room"] for event, each in zip(events, hot, strict=True) if each)
    assert where == {"419": 6_139, "446": 3, "562": 2, "513": 1}
    assert [event.attributes["pir"] is None for event in events] == [float(row["pir"]) > 30 for row in rows]
    assert reader.mapping is not None
    assert reader.mapping.counts["reading", "nulled"] == sum(hot) + 1


def test_the_office_has_a_room_without_motion_and_gaps() -> None:
    events, _ = recorded(*OFFICE)
    moved = {event.attributes["room"] for event in events if (event.attributes["pir"] or 0) > 0}
    assert {event.attributes["room"] for event in events} - moved == {"454"}
    last: dict[str, int] = {}
    gaps = []
    for event in events:
        gaps.append(event.hi - last.get(event.source, event.hi))
        last[event.source] = event.hi
    assert max(gaps) == 680 * MINUTE
    assert sum(gap > HOUR for gap in gaps) == 24


def test_contacts_are_intervals_that_tie() -> None:
    events, _ = recorded(*CONTACTS)
    assert {event.hi - event.lo for event in events} == {20 * SECOND}
    assert len({person for event in events for person in (event.attributes["a"], event.attributes["b"])}) == 92
    assert all(event.attributes["pair"] == f"{event.attributes['a']}-{event.attributes['b']}" for event in events)
    assert len(events) - len({event.hi for event in events}) > 2_000
    assert (events[0].lo, events[0].hi) == (28_800 * SECOND, 28_820 * SECOND)


@pytest.mark.parametrize(("which", "ties", "median"), [(MICROWAVE, 15_303, 0), (WIRELESS, 2_113, 110)])
def test_alarms_last_from_their_start_to_their_end(which: tuple[str, str], ties: int, median: int) -> None:
    events, _ = recorded(*which)
    rows = rows_of(which[1])
    assert [(event.lo // SECOND, event.hi // SECOND) for event in events] == [
        (int(row["start_timestamp"]), int(row["end_timestamp"])) for row in rows
    ]
    assert [(event.attributes["alarm"], event.attributes["device"]) for event in events] == [
        (int(row["alarm_id"]), row["device_id"]) for row in rows
    ]
    assert len(events) - len({event.hi for event in events}) == ties
    durations = sorted(event.hi - event.lo for event in events)
    assert abs(durations[len(durations) // 2] - median * SECOND) <= SECOND
    # They come by their start, and are consumed by their end.
    assert [event.lo for event in events] == sorted(event.lo for event in events)
    assert in_order(events) != events


def test_closes() -> None:
    daily, reader = recorded(*DAILY)
    assert (daily[0].source, daily[0].lo) == ("IBM", parse_instant("1962-01-02T00:00:00Z"))
    assert daily[0].attributes["close"] == 6.3378
    minutes, other = recorded(*MINUTES)
    assert reader.types == other.types
    # Half past nine and four o'clock in New York: the exchange opens, and closes.
    busy = Counter[int]()
    for event in minutes:
        busy[event.hi] += int(event.attributes["volume"])
    assert {instant for instant, _ in busy.most_common(3)} >= {
        parse_instant("2008-02-01T14:30:00Z"),
        parse_instant("2008-02-01T21:00:00Z"),
    }


def test_the_log_rolls_over_at_new_year() -> None:
    events, _ = recorded(*LOG)
    assert (events[0].lo, events[0].hi) == (parse_instant("2005-06-09T10:06:20Z"),) * 2
    assert events[-1].hi == parse_instant("2006-02-28T09:48:54Z")
    assert events[21_893].hi < parse_instant("2006-01-01T05:00:00Z") < events[21_894].hi
    assert events[21_894].type == "SessionOpened"


def test_the_jumps_of_the_logs_clock_are_zones() -> None:
    """Of 111 jumps back 84 are of 4 or 5 hours: the name server writes UTC. Read so, only seconds are left."""
    events, reader = recorded(*LOG)
    assert reader.mapping is not None
    held = sum(count for (_, what), count in reader.mapping.counts.items() if what == "held")
    assert held == 30
    ambiguous = (parse_instant("2005-10-30T05:00:00Z"), parse_instant("2005-10-30T07:00:00Z"))
    widened = [event for event in events if event.hi > event.lo and not ambiguous[0] <= event.hi <= ambiguous[1]]
    assert len(widened) == held
    assert max(event.hi - event.lo for event in widened) <= 6 * SECOND


def test_the_log_with_one_zone_for_all(tmp_path: Path) -> None:
    """A clock that truly jumps: with the name server's lines in local time, the mapping holds it, and says how wide."""
    recorded(*LOG)
    text = (RECORDINGS / "system_log.toml").read_text(encoding="utf-8")
    changed = text.replace('timezone = "UTC"', 'timezone = "America/New_York"')
    assert changed != text
    path = tmp_path / "one_zone.toml"
    path.write_text(changed, encoding="utf-8")
    events = list(read_events(DATA / LOG[1], load_mapping(path)))
    assert all(earlier.hi <= later.hi for earlier, later in itertools.pairwise(events))
    jumps = [later.lo - earlier.lo for earlier, later in itertools.pairwise(events) if later.lo < earlier.lo]
    assert len(jumps) == 111
    assert sum(jump < -3 * HOUR for jump in jumps) == 84
    assert max(event.hi - event.lo for event in events) > 3 * HOUR


def test_what_the_log_says() -> None:
    events, _ = recorded(*LOG)
    failed = [event for event in events if event.type == "LoginFailed"]
    assert sum(event.attributes["times"] for event in failed) > len(failed)
    assert Counter(event.attributes["user"] for event in failed).most_common(1)[0][0] == "root"
    victims = Counter(event.attributes["victim"] for event in events if event.type == "OutOfMemory")
    assert victims.most_common(2) == [("httpd", 8_903), ("python", 1_153)]
    opened = Counter(event.attributes["user"] for event in events if event.type == "SessionOpened")
    assert opened["cyrus"] == opened["news"]
    assert all(event.attributes["host"] for event in events if event.type == "FtpConnection")


def test_mqtt_messages_delivered_twice_are_dropped() -> None:
    _, reader = recorded(*MQTT)
    assert reader.mapping is not None
    counts = reader.mapping.counts
    assert sum(count for (_, what), count in counts.items() if what == "duplicate") == 59
    rows = [json.loads(line) for line in (DATA / MQTT[1]).read_text(encoding="utf-8").splitlines()]
    # The id is that of the first message, also in what the server makes of it: it takes topic and payload as well.
    distinct = {json.dumps([row["topic"], row["payload"], row["_msgid"]]) for row in rows if "_msgid" in row}
    assert sum(count for (_, what), count in counts.items() if what == "event") == len(distinct) == 59
    unplaced = [row for row in rows if "receivedTimestamp" not in row]
    assert [each.reason for each in reader.rejected] == ["time"] * len(unplaced)


def test_three_kinds_of_clock() -> None:
    events, _ = recorded(*MQTT)
    at = parse_instant
    motion = next(event for event in events if event.type == "Motion")
    assert (motion.lo, motion.hi) == (at("2020-03-31T16:59:40Z"), at("2020-03-31T16:59:41Z"))
    report = next(event for event in events if event.type == "PlugReport")  # shows 18:00:21
    assert (report.lo, report.hi) == (at("2020-03-31T17:00:21Z"), at("2020-03-31T17:00:22Z"))
    state = next(event for event in events if event.type == "PlugState")
    assert (state.lo, state.hi) == (at("2020-03-31T17:00:16.165Z"), at("2020-03-31T17:00:21.165Z"))


def test_the_live_messages_give_the_same_events() -> None:
    events, _ = recorded(*MQTT)
    mapping = load_mapping(RECORDINGS / "mqtt_lab.toml")
    live: list[Event] = []
    for line in (DATA / MQTT[1]).read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if "receivedTimestamp" in row:
            arrival = parse_instant(row["receivedTimestamp"])
            live += mapping.map(row["topic"], json.dumps(row["payload"]).encode(), arrival).events
    assert live == events


@pytest.mark.parametrize("which", [CONTACTS, MINUTES, MQTT])
@pytest.mark.parametrize("suffix", [".jsonl.gz", ".csv.gz", ".parquet"])
def test_a_recording_can_be_written_and_read_again(which: tuple[str, str], suffix: str, tmp_path: Path) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow", reason="needs the extra distced[tables]")
    events, _ = recorded(*which)
    write_events(events, tmp_path / f"events{suffix}")
    assert list(read_events(tmp_path / f"events{suffix}")) == events


def test_each_mapping_has_its_patterns() -> None:
    assert NAMES == ["alarms", "closes", "contacts", "mqtt_lab", "office", "system_log"]
    assert sorted(path.stem for path in RECORDINGS.glob("*.pattern")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_patterns_fit_the_types_of_their_mapping(name: str) -> None:
    from distced.detectors.compiler import compile_file

    registry = TypeRegistry(load_mapping(RECORDINGS / f"{name}.toml").types)
    compiled = compile_file((RECORDINGS / f"{name}.pattern").read_text(encoding="utf-8"), registry)
    assert len(compiled) >= 3

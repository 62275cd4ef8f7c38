"""Recorded events in files: reading them natively and with a mapping, writing them, and what is wrong with them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from distced.middleware.event_files import REJECTED_KEPT, EventReader, in_order, read_events, write_events
from distced.middleware.mapping import Mapping, parse_mapping
from distced.middleware.model.errors import EventError, MappingError, TypeRegistryError
from distced.middleware.model.event_types import event_type
from distced.middleware.model.events import CompositeEvent, Event

EVENTS = [
    Event("Motion", 10, 20, "pir-1", 7, {"room": "FE02", "moving": True}),
    Event("Motion", 5, 6, "pir-2", 0, {"room": "419", "moving": False}),
    Event("Motion", -7, 2**62, "pir-2", 1, {"room": None, "moving": None}),
    Event("Climate", 1, 1, "dht", 3, {"celsius": -0.5}),
    Event("Climate", 2, 2, "dht", 4, {"celsius": 1e300}),
    Event("Climate", 3, 3, "dht", 5, {"celsius": None}),
]
COMPOSITE = [
    CompositeEvent("Meeting", 1, 9, "p1", 2**95 + 1, {"n": 2}, constituents=(("pir-1", 7), ("p0", 2**95))),
    CompositeEvent("Meeting", 1, 9, "p1", 3, {"n": None}, constituents=()),
]
WRITABLE = [".jsonl", ".jsonl.gz", ".csv", ".csv.gz", ".parquet"]


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str, str], Path]:
    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        data = text.encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return write


def exact(events: list[Event]) -> list[object]:
    """With the types of events and values told apart, which `==` does not do."""
    return [(type(each), each, [type(value) for value in each.attributes.values()]) for each in events]


@pytest.mark.parametrize("suffix", WRITABLE)
def test_file_reads_back_what_was_written(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"events{suffix}"
    assert write_events(iter(EVENTS), path) == len(EVENTS)
    reader = read_events(path)
    assert exact(list(reader)) == exact(EVENTS)
    assert reader.types == (
        event_type("Motion", {"room": "string", "moving": "boolean"}),
        event_type("Climate", {"celsius": "number"}),
    )
    assert not reader.rejected
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", WRITABLE)
def test_composite_events_read_back(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"found{suffix}"
    events = [*COMPOSITE, Event("Motion", 0, 0, "pir", 1, {"n": 4})]
    write_events(events, path)
    assert exact(list(read_events(path))) == exact(events)


@pytest.mark.parametrize("suffix", WRITABLE)
def test_file_without_events_reads_back(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"none{suffix}"
    assert write_events([], path) == 0
    reader = read_events(path)
    assert list(reader) == []
    assert reader.types == ()


@pytest.mark.parametrize("suffix", WRITABLE)
def test_attributes_may_have_the_names_of_columns(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"events{suffix}"
    events = [Event("E", 0, 1, "s", 0, {"type": "a", "time": 5, "source": "b", "seq": 1, "constituents": "c"})]
    write_events(events, path)
    assert exact(list(read_events(path))) == exact(events)


TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)
VALUES = {
    "number": st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False),
    "string": st.none() | TEXTS,
    "boolean": st.none() | st.booleans(),
}


@st.composite
def recordings(draw: st.DrawFn) -> list[Event]:
    """Events of three types, one with every kind of attribute; the names are another kind's nowhere."""
    kinds = {"Number": "number", "String": "string", "Boolean": "boolean"}
    events = []
    for seq in range(draw(st.integers(1, 8))):
        name = draw(st.sampled_from(sorted(kinds)))
        lo = draw(st.integers(-(2**63), 2**63 - 1))
        hi = draw(st.integers(lo, 2**63 - 1))
        events.append(Event(name, lo, hi, draw(TEXTS), seq, {name.lower(): draw(VALUES[kinds[name]])}))
    return events


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(events=recordings())
def test_any_events_read_back_from_json_lines(tmp_path: Path, events: list[Event]) -> None:
    path = tmp_path / "events.jsonl"
    write_events(events, path)
    assert exact(list(read_events(path))) == exact(events)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(events=recordings())
def test_any_events_read_back_from_csv(tmp_path: Path, events: list[Event]) -> None:
    path = tmp_path / "events.csv"
    write_events(events, path)
    # An attribute that is null throughout a type is none of its attributes in a table, and reads as null all the same.
    back = list(read_events(path))
    assert [(e.type, e.lo, e.hi, e.source, e.seq) for e in back] == [
        (e.type, e.lo, e.hi, e.source, e.seq) for e in events
    ]
    for one, other in zip(back, events, strict=True):
        name = other.type.lower()
        assert one.attributes.keys() <= {name, "number", "string", "boolean"}
        value = other.attributes[name]
        assert one.attributes.get(name) == value
        assert type(one.attributes.get(name)) is type(value)


NATIVE = [
    # a JSON line, and lo, hi, source, seq, attributes
    ('{"type": "E", "lo": 1, "hi": 2, "source": "s", "seq": 3, "attributes": {"a": 1}}', (1, 2, "s", 3, {"a": 1})),
    ('{"type": "E", "time": 5}', (5, 5, "events", 0, {})),
    ('{"type": "E", "time": "1970-01-01T00:00:01Z"}', (10**9, 10**9, "events", 0, {})),
    ('{"type": "E", "time": "-5"}', (-5, -5, "events", 0, {})),
    ('{"type": "E", "lo": "1970-01-01", "hi": 7}', (0, 7, "events", 0, {})),
    ('{"type": "E", "time": 5, "attributes": {"a": Infinity}}', (5, 5, "events", 0, {"a": float("inf")})),
]
NOT_NATIVE = [
    ('{"type": "E"}', "an event without a time"),
    ('{"type": "E", "lo": 5}', "an event without a time"),
    ('{"type": "E", "time": 5, "hi": 5}', "both time and an interval"),
    ('{"type": "E", "lo": 5, "hi": 4}', "lo > hi"),
    ('{"type": "E", "time": "noon"}', "not an instant"),
    ('{"type": "E", "time": 5, "room": "x"}', "unknown field `room`"),
    ('{"type": "E", "time": 5, "attributes": {"a": [1]}}', "not a recorded event"),
    ('{"type": "E", "time": 5, "attributes": {"a": NaN}}', "not a value for the attribute 'a'"),
    ('{"type": "E", "time": 5, "seq": -1}', "not a sequence number"),
    ('{"type": "E", "time": 5, "source": ""}', "without a source"),
    ('{"type": "a b", "time": 5}', "not a name for a type"),
    ('{"type": "E", "time": 5, "attributes": {"a-b": 1}}', "not a name for a type or an attribute"),
    ('{"type": 5, "time": 5}', "not a recorded event"),
    ('{"type": "E", "id": ["c1", 7], "lo": 5, "hi": 6, "constituents": [["s", 0]]}', "with --native to read it again"),
    ("[1]", "not a JSON object"),
    ("{", "not JSON"),
]


@pytest.mark.parametrize(("line", "expected"), NATIVE)
def test_native_line_is_an_event(written: Callable[[str, str], Path], line: str, expected: tuple[object, ...]) -> None:
    (event,) = read_events(written("events.jsonl", line))
    assert (event.lo, event.hi, event.source, event.seq, event.attributes) == expected


@pytest.mark.parametrize(("line", "problem"), NOT_NATIVE)
def test_line_that_is_no_event_is_rejected(written: Callable[[str, str], Path], line: str, problem: str) -> None:
    good = '{"type": "E", "time": 1}'
    path = written("events.jsonl", f"{good}\n\n{line}\n{good}\n")
    reader = read_events(path)
    assert [each.seq for each in reader] == [0, 1]
    ((rejected),) = reader.rejected
    assert (rejected.where, rejected.reason) == (f"{path}, row 3", "row")
    assert problem in str(rejected.error)
    assert rejected.where in str(rejected.error)
    assert reader.counts == {"row": 3, "event": 2, "rejected": 1}


def test_attribute_that_changes_its_kind_rejects_the_row(written: Callable[[str, str], Path]) -> None:
    lines = [{"type": "E", "time": 1, "attributes": {"a": value}} for value in (None, 1, "x", 2.5, None)]
    reader = read_events(written("events.jsonl", "\n".join(map(json.dumps, lines))))
    assert [each.attributes["a"] for each in reader] == [None, 1, 2.5, None]
    assert "changes its kind: x (allowed: a number" in str(reader.rejected[0].error)
    assert reader.types == (event_type("E", {"a": "number"}),)


def test_types_are_known_before_the_first_event(written: Callable[[str, str], Path]) -> None:
    reader = read_events(written("events.jsonl", '{"type": "E", "time": 1, "attributes": {"a": null, "b": "x"}}\n{'))
    assert reader.types == (event_type("E", {"a": "number", "b": "string"}),)
    assert reader.counts == {}
    assert len(list(reader)) == 1


CSV = """type,time,source,seq,room,celsius,on,note:string
Motion,1970-01-01T00:00:01Z,pir,4,419,,true,1
Climate,2000000000,dht,5,,21,,2
Climate,3000000000,dht,6,,-1.5,,
"""


@pytest.mark.parametrize("name", ["events.csv", "EVENTS.CSV.GZ".lower()])
def test_heading_tells_the_kind_of_a_column(written: Callable[[str, str], Path], name: str) -> None:
    reader = read_events(written(name, CSV))
    assert exact(list(reader)) == exact(
        [
            Event("Motion", 10**9, 10**9, "pir", 4, {"room": 419, "on": True, "note": "1"}),
            Event("Climate", 2 * 10**9, 2 * 10**9, "dht", 5, {"celsius": 21, "note": "2"}),
            Event("Climate", 3 * 10**9, 3 * 10**9, "dht", 6, {"celsius": -1.5, "note": None}),
        ]
    )
    assert reader.types == (
        event_type("Motion", {"room": "number", "on": "boolean", "note": "string"}),
        event_type("Climate", {"celsius": "number", "note": "string"}),
    )


def test_one_text_makes_a_column_of_text(written: Callable[[str, str], Path]) -> None:
    reader = read_events(written("events.csv", "type,lo,hi,room\nE,1,2,419\nE,1,2,419A\nE,3,4,\n"))
    assert [each.attributes["room"] for each in reader] == ["419", "419A", None]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("E,1", "2 columns in place of 4"),
        ("E,2,1,x", "lo > hi"),
        ("E,a,1,x", "not an instant"),
        (",1,2,x", "a row without a type"),
        ("E,,2,x", "an event without a time"),
    ],
)
def test_bad_row_of_a_csv_table_is_rejected(written: Callable[[str, str], Path], line: str, problem: str) -> None:
    path = written("events.csv", f"type,lo,hi,a\nE,1,2,x\n{line}\nE,3,4,x\n")
    reader = read_events(path)
    assert [each.lo for each in reader] == [1, 3]
    assert [each.where for each in reader.rejected] == [f"{path}, row 3"]
    assert problem in str(reader.rejected[0].error)


@pytest.mark.parametrize(
    ("heading", "error", "problem"),
    [
        ("lo,hi,a", EventError, "not a table of events: lo, hi, a"),
        ("type,lo,a", EventError, "not a table of events"),
        ("", EventError, "not a table of events: no columns"),
        ("type,time,a,a", MappingError, "columns of one name: a"),
        ("type,time,a b", TypeRegistryError, "not a name for a type or an attribute: a b"),
    ],
)
def test_table_that_holds_no_events_is_an_error(
    written: Callable[[str, str], Path], heading: str, error: type[Exception], problem: str
) -> None:
    with pytest.raises(error, match=problem):
        list(read_events(written("events.csv", heading + "\nE,1,2,3\n")))


READINGS = parse_mapping(
    """
    [[rule]]
    type = "Reading"
    source = "room-{room}"
    time = {path = "t", format = "s"}
    attributes = {co2 = "number"}
    """
)


def seen(reader: EventReader) -> list[object]:
    return [(each.source, each.seq, each.hi // 10**9, each.attributes["co2"]) for each in reader]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("r.csv", "t,room,co2\n1,a,400\n2,b,\nx,a,1\n3,a,410.5\n"),
        ("r.csv.gz", "t,room,co2\r\n1,a,400\r\n2,b,\r\n3,a,bad\r\n3,a,410.5\r\n"),
        ("r.csv", '\ufefft,room,co2\n"1",a,400\n2,b,NaN\n3,a\n3,a,410.5\n'),
        (
            "r.jsonl",
            '{"t":1,"room":"a","co2":400}\n{"t":2,"room":"b"}\nnonsense\n{"t":3,"room":"a","co2":410.5}',
        ),
    ],
)
def test_rows_are_read_with_a_mapping(written: Callable[[str, str], Path], name: str, text: str) -> None:
    path = written(name, text)
    reader = read_events(path, READINGS)
    assert reader.types == (event_type("Reading", {"co2": "number"}),)
    for _ in range(2):  # each pass starts afresh
        assert seen(reader) == [("room-a", 0, 1, 400), ("room-b", 0, 2, None), ("room-a", 1, 3, 410.5)]
        row = 4 if ".csv" in name else 3
        assert [each.where for each in reader.rejected] == [f"{path}, row {row}"]
        assert reader.counts == {"row": 4, "event": 3, "rejected": 1}
        assert reader.mapping is not None
        assert reader.mapping.counts["1 (Reading)", "event"] == 3
    assert READINGS.counts == {}


@pytest.mark.parametrize("mapping", [None, READINGS])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", ["r.csv", "r.csv.gz", "r.jsonl", "r.json"])
def test_recording_in_utf_16_is_refused_with_its_name(
    tmp_path: Path, name: str, encoding: str, mapping: Mapping | None
) -> None:
    path = tmp_path / name
    data = ("type,time,x\nA,1,2\n" if ".csv" in name else '{"type": "A", "time": 1}\n' * 2).encode(encoding)
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    with pytest.raises(
        EventError, match=f"cannot read the recording: .*{name}; it is in UTF-16, .*save the file as UTF-8"
    ):
        list(read_events(path, mapping))


def test_line_of_a_null_is_one_rejected_row(written: Callable[[str, str], Path]) -> None:
    reader = read_events(written("r.jsonl", '\0\n\0\n{"type": "A", "time": 1}\n'))
    assert [each.type for each in reader] == ["A"]
    assert reader.counts["rejected"] == 2


def test_error_of_a_column_names_the_file(written: Callable[[str, str], Path]) -> None:
    path = written("r.csv", "type,time,room no\nA,1,2\n")
    with pytest.raises(TypeRegistryError, match=r"not a name .*: room no .*r\.csv; rename the column"):
        list(read_events(path))


TEXT_FILES = [
    ("r.dat", 'separator = " "\ncolumns = ["t", "room", "co2"]', "1 a 400\r\n\r\n2\t b   nan\n3 a\n3 a 410.5"),
    ("r.txt.gz", 'separator = ","\ncolumns = ["t", "room", "co2"]', '1,a,400\n2,"b",\n3,a\n3,a,410.5\n'),
    ("r.log", r"pattern = '(?P<t>\d+) (?P<room>\w+):(?: (?P<co2>\S+))?'", "1 a: 400\n2 b:\n3\n[x] 3 a: 410.5\n"),
    ("r.data", 'format = "csv"\ncolumns = ["t", "room", "co2"]', "1,a,400\n2,b,\n3,a\n3,a,410.5\n"),
    ("r", 'format = "csv"\nseparator = ";"', "t;room;co2\n1;a;400\n2;b;\n3\n3;a;410.5\n"),
]


@pytest.mark.parametrize(("name", "file", "text"), TEXT_FILES)
def test_text_is_read_with_a_mapping(written: Callable[[str, str], Path], name: str, file: str, text: str) -> None:
    mapping = parse_mapping(
        f"""
        [file]
        {file}
        [[rule]]
        type = "Reading"
        source = "room-{{room}}"
        time = {{path = "t", format = "s"}}
        attributes = {{co2 = "number"}}
        """
    )
    reader = read_events(written(name, text), mapping)
    assert seen(reader) == [("room-a", 0, 1, 400), ("room-b", 0, 2, None), ("room-a", 1, 3, 410.5)]
    assert len(reader.rejected) == 1


def test_line_without_a_pattern_is_one_field(written: Callable[[str, str], Path]) -> None:
    mapping = parse_mapping(
        """
        [[rule]]
        when = [{path = "value", matches = '^(?P<t>\\d+) (?P<what>.*)$'}]
        type = "Line"
        source = "log"
        time = {path = "t", format = "s"}
        attributes = {what = "string"}
        """
    )
    path = written("x.log", "1 caf\u00e9\nno time\n2 b\x0bc\n")
    with path.open("ab") as file:
        file.write(b"3 \xff\n")
    reader = read_events(path, mapping)
    assert [each.attributes["what"] for each in reader] == ["caf\u00e9", "b\x0bc", "\\xff"]
    assert reader.mapping is not None
    assert reader.mapping.counts["(no rule)", "unmatched"] == 1


def test_rejected_rows_are_kept_up_to_a_bound_and_all_counted(written: Callable[[str, str], Path]) -> None:
    reader = read_events(written("r.jsonl", "{\n" * (REJECTED_KEPT + 5)))
    assert list(reader) == []
    assert len(reader.rejected) == REJECTED_KEPT
    assert reader.counts["rejected"] == REJECTED_KEPT + 5


def test_unknown_format_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EventError, match=r"without a known format.*allowed: \.csv, \.jsonl, \.json, \.parquet"):
        read_events(tmp_path / "events.xml")
    with pytest.raises(EventError, match="a text file without a mapping"):
        read_events(tmp_path / "events.log")
    for name in ("events.gz", "events.log", "events.parquet.gz"):
        with pytest.raises(EventError, match=f"not a format for writing: {name}"):
            write_events(EVENTS, tmp_path / name)


def test_unreadable_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EventError, match="no such recording") as raised:
        list(read_events(tmp_path / "none.jsonl"))
    assert raised.value.allowed == "a file of recorded events, or the folder of an event history"
    assert raised.value.advice == f"write its path as seen from {Path.cwd()}"
    with pytest.raises(EventError, match=f"there is no folder {tmp_path / 'nowhere'}"):
        list(read_events(tmp_path / "nowhere" / "none.jsonl"))
    write_events(EVENTS, tmp_path / "events.jsonl")
    with pytest.raises(EventError, match=f"did you mean {tmp_path / 'events.jsonl'}?"):
        list(read_events(tmp_path / "event.jsonl"))
    with pytest.raises(EventError, match="cannot write the recording"):
        write_events(EVENTS, tmp_path / "nowhere" / "events.jsonl")


def test_file_that_is_cut_short_gives_what_it_has_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl.gz"
    write_events((Event("E", each, each, "s", each, {"x": str(each**5)}) for each in range(20_000)), path)
    path.write_bytes(path.read_bytes()[:-1000])
    events = []
    with pytest.raises(EventError, match="cannot read the recording"):
        for event in read_events(path):
            events.append(event)  # noqa: PERF402
    assert 0 < len(events) < 20_000


def test_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    def broken() -> list[Event]:
        yield EVENTS[0]
        raise KeyError("source of events")

    path = tmp_path / "events.jsonl"
    with pytest.raises(KeyError):
        write_events(broken(), path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_table_has_one_kind_for_a_column(tmp_path: Path, suffix: str) -> None:
    events = [Event("A", 0, 0, "s", 0, {"x": 1}), Event("B", 0, 0, "s", 1, {"x": "a"})]
    with pytest.raises(EventError, match="the attribute 'x' has two kinds"):
        write_events(events, tmp_path / f"events{suffix}")
    assert write_events(events, tmp_path / "events.jsonl") == 2


def test_same_events_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        write_events(EVENTS, tmp_path / name)
    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()


def test_events_are_put_in_the_order_of_consumption() -> None:
    events = in_order(iter([*EVENTS, *COMPOSITE]))
    assert events == sorted([*EVENTS, *COMPOSITE], key=lambda each: each.key)
    assert [each.hi for each in events] == sorted(each.hi for each in events)

"""Mappings over whole files: paths without a value, lookups from CSV files, JSON arrays, files that explode."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from random import Random

import pytest

from distced.middleware.event_files import EventReader, read_events
from distced.middleware.event_files import rows as rows_of_files
from distced.middleware.mapping import Mapping, load_mapping, parse_mapping
from distced.middleware.model.errors import EventError, MappingError
from distced.middleware.model.event_types import event_type
from distced.middleware.model.events import Event
from distced.middleware.model.toml_text import MOST_BYTES


def missing(mapping: Mapping, rows: list[dict[str, object]]) -> list[str]:
    mapping = mapping.fresh()
    for number, row in enumerate(rows):
        mapping.map_row(row, f"row {number}")
    return [str(each) for each in mapping.missing_paths]


def rule(keys: str) -> Mapping:
    return parse_mapping(f"[[rule]]\nname = 'r'\ntype = 'E'\nsource = 's'\ntime = {{path = 't', format = 's'}}\n{keys}")


def test_misspelt_path_is_named_with_its_neighbours() -> None:
    rows: list[dict[str, object]] = [{"t": 1, "temperature": 20, "wifi": {"rssi": 1}}, {"t": 2, "temperature": 21}]
    assert missing(rule("attributes.x = {kind = 'number', path = 'temprature'}"), rows) == [
        "rule r, attributes.x: no value at 'temprature' in any of 2; did you mean 'temperature'?"
    ]
    assert missing(rule("attributes.x = {kind = 'number', path = 'wifi.snr'}"), rows[:1]) == [
        "rule r, attributes.x: no value at 'wifi.snr' in the only one; the last one has rssi"
    ]
    assert missing(rule("attributes.humidity = 'number'"), rows) == [
        "rule r, attributes.humidity: no value at 'humidity' in any of 2; the last one has t, temperature"
    ]


def test_path_with_a_value_in_one_row_is_not_named() -> None:
    rows: list[dict[str, object]] = [{"t": 1}, {"t": 2, "x": ""}, {"t": 3}]
    assert missing(rule("attributes.x = 'number'"), rows) == []


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ("when = [{path = 'a'}, {path = 'bb', equals = 1}]", ["when 2: no value at 'bb'"]),
        ("when = [{path = 'error', present = false}]", []),
        ("when = [{path = 'a', matches = '^(?P<group>x)'}, {path = 'group', equals = 'x'}]", []),
        ("when = [{text = '{a}-{bb}', equals = '1-1'}]", ["when 1: no value at 'bb'"]),
        ("attributes.x = {kind = 'string', text = '{a}{c}'}", ["attributes.x: no value at 'c'"]),
        ("attributes.x = {kind = 'string', path = '$row.c'}", ["attributes.x: no value at '$row.c'"]),
        ("attributes.x = {kind = 'number', path = ['a', 'b.c']}", ["attributes.x: no value at 'a.b.c'"]),
        ("duplicates = {within = '1s', by = ['id']}", ["duplicates.by: no value at 'id'"]),
        ("each = 'list'\nattributes.x = {kind = 'number', path = 'y'}", ["each: no value at 'list'"]),
    ],
)
def test_paths_of_all_keys_are_probed(keys: str, named: list[str]) -> None:
    found = missing(rule(keys), [{"t": 1, "a": 1}, {"t": 2, "a": "y"}])
    assert len(found) == len(named)
    for text, part in zip(found, named, strict=True):
        assert f"rule r, {part}" in text


def test_time_that_falls_back_to_the_arrival_is_named() -> None:
    mapping = parse_mapping(
        "[[rule]]\ntopic = 't'\ntype = 'E'\nsource = 's'\ntime = {path = 'tme', otherwise = 'arrival'}"
    )
    mapping.map("t", b'{"time": "2026-11-21T08:00:00Z"}', 5)
    assert [(each.key, each.path) for each in mapping.missing_paths] == [("time", "tme")]


LOOKUP = """
[[rule]]
type = "Seen"
source = "{id}"
time = {path = "t", format = "s"}
[rule.attributes]
room = { kind = "string", path = "id", lookup = "devices.csv" }
floor = { kind = "number", path = "id", lookup = "devices.csv", default = -1, wrong = "null" }
out = { kind = "boolean", path = "id", lookup = "devices.csv", columns = ["device", "outdoor"], wrong = "null" }
"""
DEVICES = "device,room,floor,outdoor\n7,FE02,2,no\n8,Roof,,yes\n"


def devices(folder: Path, text: str, mapping: str = LOOKUP) -> Mapping:
    (folder / "devices.csv").write_text(text, encoding="utf-8")
    (folder / "home.toml").write_text(mapping, encoding="utf-8")
    return load_mapping(folder / "home.toml")


def test_lookup_is_read_from_a_file_beside_the_mapping(tmp_path: Path) -> None:
    mapping = devices(tmp_path, DEVICES)
    assert mapping.lookups == (tmp_path / "devices.csv",)
    found = [mapping.map_row({"t": 1, "id": number}, "here") for number in (7, 8.0, "9")]
    assert [[event.attributes for event in each.events] for each in found] == [
        [{"room": "FE02", "floor": 2, "out": False}],
        [{"room": "Roof", "floor": -1, "out": True}],
        [],
    ]
    (rejected,) = found[2].rejected
    assert "the attribute 'room': not in the lookup: 9 (allowed: 7, 8)" in str(rejected.error)


def test_event_type_is_looked_up_in_a_file(tmp_path: Path) -> None:
    mapping = devices(
        tmp_path,
        "code,type\n1,Opened\n2,Closed\n",
        "[[rule]]\ntype = {path = 'c', lookup = 'devices.csv'}\nsource = 's'\ntime = {path = 't', format = 's'}\n",
    )
    assert [each.name for each in mapping.types] == ["Closed", "Opened"]
    assert mapping.map_row({"t": 1, "c": 2}, "here").events[0].type == "Closed"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "which columns of the lookup?"),
        ("device,a,b\n1,2,3\n", "which columns of the lookup.: device, a, b, at .*devices.csv"),
        ("device,room,floor\n1,FE02,1\n", "no such column of the lookup: outdoor .allowed: device, room, floor"),
        ("device,room,floor,outdoor\n", "a lookup without rows"),
        (DEVICES + "7,FE03,2,no\n", "a second value for '7': FE03 .*devices.csv, line 4"),
        (DEVICES + "9,FE03\n", "2 columns in place of 4: 9,FE03, .*devices.csv, line 4"),
        (DEVICES + "9,FE03,two,no\n", "the lookup of '9' is no number: two"),
    ],
)
def test_wrong_lookup_file_is_an_error_with_its_place(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(MappingError, match=problem) as caught:
        devices(tmp_path, text)
    assert "home.toml, rule 1, attributes." in str(caught.value)


def test_error_names_some_keys_of_a_large_lookup(tmp_path: Path) -> None:
    mapping = devices(tmp_path, "id,room\n" + "".join(f"k{n},r\n" for n in range(5_000)), """
        [[rule]]
        type = "E"
        source = "s"
        time = {path = "t", format = "s"}
        attributes.room = {kind = "string", path = "id", lookup = "devices.csv"}
        """)  # fmt: skip
    (rejected,) = mapping.map_row({"t": 1, "id": "x"}, "here").rejected
    assert "k19 and 4,980 more" in str(rejected.error)
    assert len(str(rejected.error)) < 400


ROWS = [{"type": "A", "time": 1, "attributes": {"x": 1}}, {"type": "B", "time": 2}]


def read(path: Path, text: str | bytes) -> EventReader:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_events(path)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(ROWS),
        "\ufeff\n" + json.dumps(ROWS, indent=2) + "\n",
        "\n".join(map(json.dumps, ROWS)),
    ],
)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_json_array_is_read_as_rows(tmp_path: Path, text: str, suffix: str) -> None:
    reader = read(tmp_path / f"events.json{suffix}", gzip.compress(text.encode()) if suffix else text)
    assert [(each.type, each.lo) for each in reader] == [("A", 1), ("B", 2)]
    assert reader.types == (event_type("A", {"x": "number"}), event_type("B"))


def test_json_object_is_one_row_whose_array_a_mapping_goes_through(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    path.write_text(json.dumps({"room": "FE02", "data": [{"t": 1}, {"t": 2}]}, indent=1), encoding="utf-8")
    reader = read_events(path, rule("each = 'data'\nattributes.room = {kind = 'string', path = '$payload.room'}"))
    assert [(each.lo, each.attributes) for each in reader] == [
        (1_000_000_000, {"room": "FE02"}), (2_000_000_000, {"room": "FE02"})
    ]  # fmt: skip


def test_bad_elements_of_an_array_are_rejected_alone(tmp_path: Path) -> None:
    reader = read(tmp_path / "events.json", '[{"type": "A", "time": 1}, 7, {"type": "A"}, {"type": "A", "time": 2}]')
    assert [each.lo for each in reader] == [1, 2]
    assert [each.where.rpartition(", ")[2] for each in reader.rejected] == ["row 2", "row 3"]


def test_broken_json_array_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EventError, match=r"not a JSON array: .*events.json .*truncated"):
        list(read(tmp_path / "events.json", '[{"type": "A", "time": 1}, {"ty'))


def test_empty_json_file_has_no_rows(tmp_path: Path) -> None:
    reader = read(tmp_path / "events.json", " \n")
    assert list(reader) == []
    assert reader.rejected == []


def test_rejected_bytes_are_shown_as_text(tmp_path: Path) -> None:
    reader = read(tmp_path / "events.jsonl", b'{"type": \xff "caf\xc3\xa9"\n')
    assert list(reader) == []
    assert 'not JSON: {"type": \\xff "caf\u00e9" (' in str(reader.rejected[0].error)


def test_array_called_json_lines_is_rejected_with_advice(tmp_path: Path) -> None:
    reader = read(tmp_path / "events.jsonl", json.dumps(ROWS))
    assert list(reader) == []
    assert "a JSON array, not JSON lines" in str(reader.rejected[0].error)
    assert "call the file .json" in str(reader.rejected[0].error)


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("a.csv.gz", b"\0"),
        ("a.csv.gz", b"A,2026-11-21T08:00:00Z,FE02\n"),
        ("a.jsonl.gz", b"\n"),
        ("a.jsonl.gz", b'{"type": "A", "time": 1}\n'),
        ("a.json.gz", b"[\n"),
    ],
)
def test_compressed_file_that_explodes_is_an_error(
    tmp_path: Path, name: str, unit: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_of_files, "EXPANDED_FREELY", 200_000)
    path = tmp_path / name
    path.write_bytes(gzip.compress(b"type,time,room\n" + unit * (4_000_000 // len(unit))))
    with pytest.raises(EventError, match=r"explodes: \d+,\d+(,\d+)? bytes out of .* \(allowed: 200 bytes out of one"):
        list(read_events(path))


def test_compressed_file_that_explodes_later_is_an_error_before_those_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_of_files, "EXPANDED_FREELY", 200_000)
    random = Random(1)
    good = [f"A,{number},{random.random()}\n" for number in range(20_000)]
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(("type,time,x\n" + "".join(good) + "A,1,0.5\n" * 100_000).encode()))
    found: list[Event] = []
    with pytest.raises(EventError, match="explodes"):
        for event in read_events(path):
            found.append(event)  # noqa: PERF402
    assert found
    assert len(found) < 50_000


def test_compressed_file_of_like_events_is_read(tmp_path: Path) -> None:
    line = '{"type": "A", "time": %d, "attributes": {"note": "' + "the same text again " * 40 + '"}}\n'
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress("".join(line % number for number in range(7_000)).encode()))
    assert path.stat().st_size * 50 < 7_000 * len(line)
    assert sum(1 for _ in read_events(path)) == 7_000


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.log"])
def test_endless_line_is_an_error(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_of_files, "LONGEST_LINE", 1 << 20)
    path = tmp_path / name
    path.write_bytes(b"type,time\n" + b"0" * (2 << 20))
    mapping = rule("") if name == "a.log" else None
    with pytest.raises(EventError, match=r"a line that is too long .allowed: 1 MiB., at"):
        list(read_events(path, mapping))


def test_mapping_that_is_too_large_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "home.toml"
    path.write_bytes(b"#" * (MOST_BYTES + 1))
    with pytest.raises(MappingError, match=r"a TOML file that is too large: .*home.toml .allowed: 524,288 bytes"):
        load_mapping(path)

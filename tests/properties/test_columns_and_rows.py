"""Rows read as columns give the events, ids and rejected rows that they give one by one: by any mapping, and JSON lines
of the native form."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distced.middleware.event_files import events_of_table, read_events
from distced.middleware.event_files.reader import EventReader
from distced.middleware.mapping import Mapping, parse_mapping
from distced.middleware.model.errors import EventError, MappingError
from tests.support.rows_and_columns import assert_same_by_rows_and_columns

pa = pytest.importorskip("pyarrow", reason="needs the extra distced[tables]")

FIELDS = ("a", "b", "c", "n", "t", "u", "d")
TEXTS = (
    "x", "y", "x 7", "7", "7.0", "-0.0", "1e3", " 7", "nan", "NaN", "inf", "", "true", "off", "999", "é", "1_0", "٣",
    "+5", "99999999999999999999", "0x1F", "-3",
)  # fmt: skip
TIMES = (
    "2026-11-21T08:00:00Z", "2026-11-21T08:00:01", "2026-11-21T08:00:00.5+01:00", "2026-11-21 07:59:59", "1700000000",
    "1700000001", "1700000000.5", "Nov 21 08:00:00", "Feb 29 08:00:00", "Jan  1 00:00:01", "Dec 31 23:59:59", "",
    "yesterday", "20261121", "9223372036", "-9223372037", "2026-02-30T00:00:00Z", "2026-10-25T02:30:00",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    1, 1.0, True, False, None, 0, -0.0, 0.0, 7, 7.5, 2**53, 2**63, 2**64, -3, [], [1, 2.5, None], {"y": 1}, {"y": "x"},
    {"y": [3]}, {"$length": 2},
)  # fmt: skip
ODD_LINES = ("{", "[1]", "7", '{"a": NaN, "t": 1}', '{"a": "\\ud800"}', '{"a": 1, "a": 2}', "", "  ", "\x00")
STYLES = {"iso": TIMES[:4], "s": TIMES[4:6], "%b %d %H:%M:%S": TIMES[7:11]}
"""Texts that are times in a format."""

PATHS = (*FIELDS, "d.y", "d.y.0", "d.$length", "missing", "n.y")
TEMPLATES = ("k", "k", "{a}", "{b}-{c}", "{{{a}", "{d.y}", "{g}")


def toml(value: Any) -> str:
    """A value in TOML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def random_condition(random: Random) -> dict[str, Any]:
    place = {"path": random.choice(PATHS)} if random.random() < 0.8 else {"text": random.choice(TEMPLATES)}
    regex = random.choice(["x", r"^(?P<g>\w+) ?(?P<h>\d)?", "^(?P<a>.)"])
    test: dict[str, Any] = random.choice(
        [{}, {"present": random.random() < 0.7}, {"equals": random.choice(["x", 7, ["x", "y", "7"], True])},
         {"differs": random.choice(["x", 7])}, {"matches": regex},
         {"above": 3}, {"below": 900}]
    )  # fmt: skip
    return place | test


def random_attribute(random: Random) -> Any:
    kind = random.choice(["number", "string", "boolean"])
    if random.random() < 0.3:
        return kind
    found: dict[str, Any] = {"kind": kind}
    found |= {"path": random.choice((*PATHS, "g"))} if random.random() < 0.8 else {"text": random.choice(TEMPLATES)}
    if random.random() < 0.5:
        found["wrong"] = "null"
    if random.random() < 0.3:
        found["null"] = random.choice([["x"], [999, "y"], [7]])
    if random.random() < 0.3:
        found["default"] = {"number": random.choice([0, 2.5]), "string": "none", "boolean": True}[kind]
    if random.random() < 0.2:
        found["lookup"] = {"x": {"number": 4, "string": "ex", "boolean": False}[kind], "7": found.get("default", {
            "number": 1.5, "string": "s", "boolean": True}[kind])}  # fmt: skip
    elif kind == "number":
        found |= random.choice(
            [{}, {"range": [0, 8]}, {"range": [-0.5, 7.25]}, {"scale": 2}, {"scale": 0.5, "offset": 1}]
        )
    elif kind == "boolean":
        found |= random.choice([{}, {"true": ["x", 7]}, {"above": 3}, {"true": ["x"], "false": ["y"]}])
    return found


def random_time(random: Random, style: str) -> dict[str, Any]:
    form = style if random.random() < 0.9 else random.choice([*STYLES, "ms"])
    found: dict[str, Any] = {"format": form}
    found |= (
        {"start": "t", "end": "u"} if random.random() < 0.2 else {"path": random.choice(["t", "t", "t", "t", "n", "g"])}
    )
    if random.random() < 0.2:
        found = {key: value for key, value in found.items() if key == "format"} | {
            "text": random.choice(["{t}", "{t}{n}"])
        }
    if form.startswith("%"):
        found["year"] = 2027
    for key, value in (("before", "20s"), ("after", "1s"), ("uncertainty", "5s"), ("clock", "monotone"),
                       ("timezone", "Europe/Berlin")):  # fmt: skip
        if random.random() < 0.2:
            found[key] = value
    return found


def random_mapping(random: Random, form: str, style: str) -> Mapping | None:
    """A mapping; None for one that is refused."""
    lines = ["[file]", f'format = "{form}"']
    numbered = random.choice([0, 0, 0, 1, 1, 0.5])
    for number in range(random.randrange(1, 4)):
        lines += ["[[rule]]", f'name = "r{number}"', f"source = {toml(random.choice(TEMPLATES))}"]
        lookup = {"lookup": {"x": "X", "y": "Y", "7": "X"}, "path": random.choice(PATHS)}
        if random.random() < 0.5:
            lookup["default"] = "E"
        lines.append(f"type = {toml(lookup if random.random() < 0.3 else random.choice(['E', 'F']))}")
        lines.append(f"time = {toml(random_time(random, style))}")
        lines.append(f"final = {toml(random.random() < 0.3)}")
        if random.random() < numbered:
            lines.append(f"sequence = {toml(random.choice(['n', 't', 'a', 'd.y']))}")
        conditions = [random_condition(random) for _ in range(random.choice([0, 0, 1, 2]))]
        lines.append(f"when = {toml(conditions)}")
        names = random.sample(["a", "n", "type", "zz"], random.randrange(3))
        lines.append(f"attributes = {toml({name: random_attribute(random) for name in names})}")
    try:
        return parse_mapping("\n".join(lines))
    except MappingError:
        return None


def random_cell(random: Random, name: str, style: str) -> str:
    if name in ("t", "u"):
        return random.choice(TIMES if random.random() < 0.05 else STYLES[style])
    return random.choice(TEXTS[: random.choice([2, len(TEXTS)])])


def csv_text(random: Random, style: str) -> str:
    names = random.sample(FIELDS, random.randrange(4, len(FIELDS) + 1))
    lines = [",".join(names)]
    for _ in range(random.randrange(30)):
        cells = [random_cell(random, name, style) for name in names]
        if random.random() < 0.05:
            cells = random.choice([cells[:-1], [*cells, "more"], ['"open', *cells[1:]]])
        lines.append(",".join(cells))
    return "\n".join(lines)


def json_text(random: Random, style: str) -> str:
    lines = []
    for _ in range(random.randrange(30)):
        if random.random() < 0.05:
            lines.append(random.choice(ODD_LINES))
            continue
        row = {
            name: random.choice(VALUES) if random.random() < 0.3 else random_cell(random, name, style)
            for name in FIELDS
            if random.random() < 0.9
        }
        if style == "s" and random.random() < 0.5:
            row["t"] = random.choice([1_700_000_000, 1_700_000_000.25, 1_700_000_001])
        lines.append(json.dumps(row))
    return "\n".join(lines)


COLUMNS = {
    "a": [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())],
    "n": [pa.int64(), pa.float64(), pa.uint64(), pa.bool_(), pa.decimal128(5, 2), pa.duration("ns"), pa.date32()],
    "t": [pa.timestamp("ns", "UTC"), pa.timestamp("us"), pa.int64(), pa.string(), pa.float64()],
    "d": [pa.struct([("y", pa.int64())]), pa.list_(pa.float64()), pa.null()],
}


def random_table(random: Random, style: str) -> Any:
    count = random.randrange(30)
    columns = {}
    for name, kinds in COLUMNS.items():
        kind = random.choice(kinds)
        if pa.types.is_null(kind):
            values: list[Any] = [None] * count
        elif pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind):
            values = [random_cell(random, name, style) for _ in range(count)]
        elif pa.types.is_struct(kind):
            values = [{"y": random.randrange(3)} for _ in range(count)]
        elif pa.types.is_list(kind):
            values = [[0.5] * random.randrange(3) for _ in range(count)]
        elif pa.types.is_boolean(kind):
            values = [random.random() < 0.5 for _ in range(count)]
        else:
            values = [1_700_000_000 + random.randrange(3) if name == "t" else random.randrange(9) for _ in range(count)]
        columns[name] = pa.array([None if random.random() < 0.1 else value for value in values], kind)
    return pa.table(columns)


@pytest.fixture(autouse=True)
def small_files_are_read_by_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distced.middleware.event_files.reader.SMALL", 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mapped")


@given(st.integers(min_value=0, max_value=2**32))
@settings(print_blob=True)
def test_mapped_columns_are_mapped_rows(folder: Path, seed: int) -> None:
    random = Random(seed)
    form = random.choice(["csv", "jsonl", "parquet"])
    style = random.choice([*STYLES])
    mapping = random_mapping(random, form, style)
    if mapping is None:
        return
    if form == "parquet":
        table = random_table(random, style)

        def make() -> EventReader:
            return events_of_table(table, mapping)
    else:
        path = folder / f"rows.{form}"
        path.write_text((csv_text if form == "csv" else json_text)(random, style), encoding="utf-8")

        def make() -> EventReader:
            return read_events(path, mapping)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("distced.middleware.event_files.csv_blocks.BLOCK", random.choice([50, 400, 10**6]))
        patched.setattr("distced.middleware.event_files.field_columns.LIST_ROWS", random.choice([1, 5, 10**6]))
        assert_same_by_rows_and_columns(make)


def native_line(random: Random, number: int, damage: float) -> str:
    """JSON line of the native form."""
    at = 10**18 + random.choice([0, 1, 10**9])
    times = random.choice([{"lo": at, "hi": at + 1}, {"lo": at, "hi": at + 1}, {"time": at}])
    line: dict[str, Any] = {"type": random.choice("AB"), **times}
    line |= {"source": random.choice("st")} if random.random() < 0.9 else {}
    line |= {"seq": number} if random.random() < 0.97 else {}
    values = {"x": [1, 2.5, None, 3], "room": ["k", "", "é", None], "ok": [True, False, None], "lo": [7, -0.0]}
    line["attributes"] = {name: random.choice(some) for name, some in values.items() if random.random() < 0.7}
    if random.random() < damage:
        part = random.choice(["type", "lo", "hi", "time", "source", "seq", "attributes", "constituents", "more"])
        odd = [
            *VALUES,
            "",
            "1x",
            "2026-11-21T08:00:00Z",
            {"x": "k"},
            {"ok": 1},
            {"1x": 1},
            {"x": 2**63},
            [["s", 1]],
            1e3,
        ]
        line[part] = random.choice(odd)
    return random.choice(ODD_LINES) if random.random() < damage / 4 else json.dumps(line)


@given(st.integers(min_value=0, max_value=2**32))
@settings(print_blob=True)
def test_json_lines_as_columns_are_json_lines_by_rows(folder: Path, seed: int) -> None:
    random = Random(seed)
    damage, count = random.choice([0.0, 0.02, 0.2]), random.randrange(30)
    array = random.random() < 0.3
    lines = [native_line(random, number, damage) for number in range(count)]
    if random.random() < 0.3:
        iso = "2026-11-21T08:00:0"
        lines = [json.dumps({"type": "A", "time": f"{iso}{random.randrange(9)}Z"}) for _ in range(count)]
    path = folder / f"native.{'json' if array else 'jsonl'}"
    text = f"[{','.join(lines)}]" if array else "\n".join(lines)
    path.write_text(random.choice(["", "\ufeff"]) + text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("distced.middleware.event_files.native_json.LIST_ROWS", random.choice([1, 5, 10**6]))
        try:
            list(read_events(path))
        except EventError:
            return
        assert_same_by_rows_and_columns(lambda: read_events(path))

"""The worked examples of docs/how-to/mappings.md do what the page says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from distced.middleware.mapping import NO_RULE, Mapping, parse_mapping
from distced.middleware.model.timestamps import parse_instant

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "mappings.md"
BLOCK = re.compile(r"^```(toml|messages)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples() -> list[tuple[str, str]]:
    """Each toml block of the page with the messages that follow it, if any do."""
    blocks = [(match[1], match[2]) for match in BLOCK.finditer(PAGE.read_text(encoding="utf-8"))]
    found = []
    for place, (kind, text) in enumerate(blocks):
        if kind == "toml":
            follows = blocks[place + 1] if place + 1 < len(blocks) else ("toml", "")
            found.append((text, follows[1] if follows[0] == "messages" else ""))
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Folder with the lookup file of the page."""
    (table,) = re.findall(r"^with `devices.csv`:\n\n```csv\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
    (tmp_path / "devices.csv").write_text(table, encoding="utf-8")
    return tmp_path


def outcome(mapping: Mapping, line: str) -> list[object]:
    """What becomes of one message, in the words of the page."""
    arrival, topic, payload = line.split(" ", 2)
    before = mapping.counts.copy()
    events, rejected = mapping.map(topic, payload.encode(), parse_instant(arrival))
    said: list[object] = [(e.type, e.source, e.seq, e.lo, e.hi, e.attributes) for e in events]
    said += [f"rejected: {each.reason}" for each in rejected]
    gained = mapping.counts - before
    said += ["duplicate"] * sum(number for (_, what), number in gained.items() if what == "duplicate")
    said += ["unmatched"] * gained[NO_RULE, "unmatched"]
    return said


def promised(line: str) -> object:
    """What the page says, in the same form."""
    if not line[0].isupper():
        return line
    type_name, source, seq, time, attributes = line.split(" ", 4)
    lo, _, hi = time.partition("..")
    return type_name, source, int(seq), parse_instant(lo), parse_instant(hi or lo), json.loads(attributes)


def exactly(value: object) -> object:
    """With the kinds of numbers and booleans told apart, which `==` does not do."""
    if isinstance(value, dict):
        return {name: exactly(each) for name, each in value.items()}
    if isinstance(value, tuple):
        return tuple(exactly(each) for each in value)
    return (type(value).__name__, pytest.approx(value) if isinstance(value, float) else value)


def test_page_has_its_worked_examples() -> None:
    assert len(examples()) >= 8
    assert sum(bool(messages) for _, messages in examples()) >= 6


@pytest.mark.parametrize(("text", "messages"), [each for each in examples() if each[1]])
def test_example_gives_the_events_of_its_messages(text: str, messages: str, folder: Path) -> None:
    mapping = parse_mapping(text, folder=folder)
    said: list[object] = []
    reported: list[object] = []
    for line in messages.splitlines():
        if line.startswith(" "):
            reported.append(promised(line.strip()))
        else:
            assert [exactly(each) for each in said] == [exactly(each) for each in reported]
            said, reported = outcome(mapping, line), []
    assert [exactly(each) for each in said] == [exactly(each) for each in reported]


@pytest.mark.parametrize("text", [text for text, messages in examples() if not messages])
def test_example_without_messages_loads(text: str, folder: Path) -> None:
    assert parse_mapping(text, folder=folder).types

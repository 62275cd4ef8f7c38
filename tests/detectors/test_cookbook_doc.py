"""Cookbook and "coming from" pages: every example is read from its page and run on both engines, whole and cut.

An example is a block `detect`: a pattern or a pattern file, a line `events`, lines `finds` with the composite events
(`nothing` for none; attributes behind two spaces), and lines `misses`, the events of which are run by themselves, up to
the last of them, and give nothing. Times are compared as values, so a page may say `60s` or `1min`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from distced.detectors.compiler import Compiled, read_pattern
from distced.detectors.conformance.case_runner import ENGINES
from distced.detectors.conformance.cases import parse_event
from distced.detectors.pattern_files import Patterns, PatternSource, compile_source
from distced.detectors.runtime.engines import make_engine
from distced.middleware.model.events import CompositeEvent, Event
from distced.policies.local_runner import HowCut, cut_run
from tests.support.comparison import seen
from tests.support.oracle import read

DOCS = Path(__file__).parents[2] / "docs"
COOKBOOK = DOCS / "how-to" / "cookbook.md"
PAGES = [COOKBOOK, *sorted((DOCS / "coming-from").glob("*.md"))]


class Example(NamedTuple):
    """A block `detect` of a page."""

    name: str
    pattern: str
    events: list[Event]
    finds: list[str]
    misses: list[list[Event]]


def examples(page: Path) -> list[Example]:
    """Examples of a page, each named by the heading above it."""
    found, heading = [], page.stem
    blocks = re.compile(r"^#+ ([^\n]*)$|^```detect\n(.*?)^```", re.MULTILINE | re.DOTALL)
    for title, block in blocks.findall(page.read_text("utf-8")):
        if title:
            heading = title
            continue
        pattern, events, rest = block.partition("\nevents  ")
        given, *others = rest.rstrip().splitlines()
        assert events and all(line.startswith(("finds   ", "misses  ")) for line in others), block
        finds = [line[8:] for line in others if line.startswith("finds")]
        misses = [_events(line[8:]) for line in others if line.startswith("misses")]
        assert finds, f"{heading}: no line finds"
        found.append(Example(heading, pattern, _events(given), [] if finds == ["nothing"] else finds, misses))
    return found


def _events(text: str) -> list[Event]:
    return [parse_event(each, place) for place, each in enumerate(text.split(", "))]


READ = [(f"{page.stem}: {each.name}", each) for page in PAGES for each in examples(page)]
EXAMPLES = [pytest.param(each, id=name) for name, each in READ]
# The oracle reads a single pattern.
SINGLE = [pytest.param(each, id=name) for name, each in READ if not each.pattern.startswith("type ")]


def read_patterns(example: Example) -> Patterns:
    several = bool(re.search(r"\n(?=\S)", example.pattern))
    return compile_source(PatternSource(example.pattern, "example" if several else ""))


def compiled(example: Example) -> tuple[Compiled, ...]:
    return tuple(read_patterns(example).compiled)


def shown(composites: list[CompositeEvent], attributes: bool, names: Mapping[str, str] | None = None) -> list[str]:
    """Composite events in a form that can be compared; `names` of clocks by their rules."""
    known = names or {}
    return sorted(
        _form(
            [(known.get(each.type, each.type), each.lo, each.hi) for each in found.events],
            found.attributes if attributes else {},
        )
        for found in composites
    )


def wanted(line: str) -> str:
    constituents, _, attributes = line.partition("  ")
    events = [parse_event(each, 0) for each in constituents.split(" + ")]
    return _form(
        [(each.type, each.lo, each.hi) for each in events], parse_event(f"X 1 {attributes}".strip(), 0).attributes
    )


def _form(events: object, attributes: object) -> str:
    return f"{events} {attributes}"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("example", EXAMPLES)
def test_example_finds_what_the_page_says(example: Example, engine: str) -> None:
    attributes = any("  " in line for line in example.finds)
    patterns = read_patterns(example)
    found = ENGINES[engine](patterns.compiled, sorted(example.events, key=lambda event: event.key), lambda _: None)
    assert shown(found, attributes, patterns.derived) == sorted(map(wanted, example.finds))


@pytest.mark.parametrize("example", SINGLE)
def test_oracle_finds_what_the_page_says(example: Example) -> None:
    attributes = any("  " in line for line in example.finds)
    known = {event.id: event for event in example.events}
    found = []
    for match in read(read_pattern(example.pattern, {}), [seen(event) for event in example.events]):
        constituents = [(known[each].type, known[each].lo, known[each].hi) for each in match.constituents]
        found.append(_form(constituents, dict(match.attributes) if attributes else {}))
    assert sorted(found) == sorted(map(wanted, example.finds))


@pytest.mark.parametrize("engine", ["stepwise", "columnar"])
@pytest.mark.parametrize("example", EXAMPLES)
def test_near_misses_give_nothing(example: Example, engine: str) -> None:
    for events in example.misses:
        runner = make_engine(
            compiled(example), lambda _: None, engine="stepwise" if engine == "stepwise" else "columnar"
        )
        assert runner.feed(sorted(events, key=lambda event: event.key)) == []


@pytest.mark.parametrize("how", ["none", "full"])
@pytest.mark.parametrize("example", EXAMPLES)
def test_cut_finds_the_same(example: Example, how: HowCut) -> None:
    patterns = compiled(example)
    for each in (example.events, *example.misses):
        events = sorted(each, key=lambda event: event.key)
        whole = ENGINES["stepwise"](patterns, events, lambda _: None)
        cut = cut_run(how, 1)(patterns, events, lambda _: None)
        assert shown(cut, True) == shown(whole, True)


@pytest.mark.parametrize("example", [pytest.param(each, id=each.name) for each in examples(COOKBOOK)])
def test_rule_has_a_near_miss_and_at_most_three_lines(example: Example) -> None:
    assert example.finds and example.misses
    assert len(example.pattern.splitlines()) <= 3


def test_cookbook_has_fifty_rules() -> None:
    names = [each.name for each in examples(COOKBOOK)]
    assert len(names) >= 50
    assert len(set(names)) == len(names)

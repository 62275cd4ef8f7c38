"""What docs/reference/pretty.md says is so: every example is run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from distced.detectors.batch_run.runner import run
from distced.detectors.conformance.cases import parse_event
from distced.detectors.pattern_files import PatternSource, compile_source
from distced.middleware.cli.command import main
from distced.middleware.model.events import CompositeEvent
from distced.middleware.model.timestamps import format_duration

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "pretty.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("example", blocks("pretty"), ids=lambda text: text.splitlines()[0])
def test_examples_find_what_the_page_says(example: str) -> None:
    text, _, rest = example.partition("\nevents  ")
    given, *wanted = rest.strip().split("\nfinds   ")
    events = [parse_event(each, place) for place, each in enumerate(given.split(", "))]
    composites = run(compile_source(PatternSource(text, "", "pretty")).compiled, events, finish=True)
    assert sorted(_shown(each) for each in composites) == sorted(wanted)


def _shown(composite: CompositeEvent) -> str:
    text = " + ".join(f"{each.type} {format_duration(each.hi)}" for each in composite.events)
    attributes = " ".join(f"{name}={value!r}" for name, value in composite.attributes.items())
    return f"{text}  {attributes}" if attributes else text


@pytest.mark.parametrize("example", blocks("pretty-error"), ids=lambda text: text.splitlines()[0])
def test_errors_are_those_of_the_page(example: str, capsys: pytest.CaptureFixture[str]) -> None:
    text, _, message = example.partition("\n")
    assert main(["check", text, "--language", "pretty"]) == 2
    assert capsys.readouterr().err == message


def test_pattern_is_shown_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = blocks("sh")
    command, *shown = example.splitlines()
    assert main(["explain", command.split("'")[1]]) == 0
    assert capsys.readouterr().out.splitlines()[: len(shown)] == shown

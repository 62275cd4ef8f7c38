"""What the reference and the tutorial of Cayuga say is so: examples find what the pages say, commands run."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from distced.detectors.compiler import compile_translation
from distced.detectors.conformance.case_runner import ENGINES
from distced.detectors.conformance.cases import parse_event
from distced.detectors.frontends.languages import translate
from distced.middleware.cli.command import main
from distced.middleware.model.event_types import TypeRegistry
from tests.support.verbs import load_verbs

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reference" / "cayuga.md").read_text(encoding="utf-8")
TUTORIAL = (DOCS / "tutorial" / "cayuga.md").read_text(encoding="utf-8")
EXAMPLES = [
    (language, example)
    for language, example in re.findall(r"^```(cel|algebra)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("language", "example"), EXAMPLES, ids=[text.splitlines()[1] for _, text in EXAMPLES])
def test_example_finds_what_the_page_says(language: str, example: str, engine: str) -> None:
    text, _, rest = example.partition("\nevents  ")
    given, *wanted = rest.strip().split("\nfinds   ")
    events = [parse_event(each, place) for place, each in enumerate(given.split(", "))]
    patterns, _ = compile_translation(translate(text, language, TypeRegistry(open=True)), TypeRegistry(open=True))
    found = ENGINES[engine](patterns, sorted(events, key=lambda each: each.key), lambda _: None)
    shown = [
        f"{' '.join(str(each.seq) for each in composite.events)}  "
        + " ".join(f"{name}={value!r}" for name, value in composite.attributes.items())
        for composite in found
        if composite.source == patterns[-1].canonical_id
    ]
    assert sorted(shown) == sorted(wanted)


def test_commands_of_the_tutorial_find_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    load_verbs()
    monkeypatch.chdir(tmp_path)
    in_files = TUTORIAL.partition("## 5. Live")[0] + TUTORIAL.partition("## 6. Double tops")[2]
    for block in re.findall(r"^```sh\n(.*?)^```", in_files, re.MULTILINE | re.DOTALL):
        for name, content in re.findall(r"cat > (\S+) <<'?END'?\n(.*?)^END$", block, re.MULTILINE | re.DOTALL):
            (tmp_path / name).write_text(content)
        commands = re.sub(r"cat > \S+ <<'?END'?\n.*?^END$", "", block, flags=re.MULTILINE | re.DOTALL)
        for line in commands.replace("\\\n", " ").splitlines():
            if line.strip():
                assert main(shlex.split(line)[1:]) == 0, line
    found: list[dict[str, Any]] = [
        json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith('{"')
    ]
    fall = {"Name": "IBM", "before": 90, "after": 85}
    assert [each["attributes"] for each in found if each["type"] == "Fall"] == [fall]
    (rebound,) = (each for each in found if each["type"] == "Rebound")
    assert len(rebound["constituents"]) == 4
    (two,) = (each for each in found if each["type"] == "Two")
    assert two["attributes"] == {"one": 90, "Name": "Dell", "other": 40}
    (top,) = (each for each in found if each["type"] == "DoubleTop")
    assert top["attributes"] == {"symbol": "EBAY", "A": 4.1, "B": 5.3, "C": 4.2, "D": 5.2, "E": 3.9}

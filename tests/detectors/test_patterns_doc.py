"""What docs/reference/patterns.md and docs/reference/command-line.md say is so: every example in them is run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest

from distced.detectors.batch_run.runner import run
from distced.detectors.conformance.cases import parse_event
from distced.detectors.language.parser import parse_file, parse_publication
from distced.detectors.pattern_files import PatternSource, compile_source
from distced.middleware import patterns as binding
from distced.middleware.cli.command import main
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import format_duration

DOCS = Path(__file__).parents[2] / "docs"
PATTERNS = (DOCS / "reference" / "patterns.md").read_text(encoding="utf-8")
COMMANDS = (DOCS / "reference" / "command-line.md").read_text(encoding="utf-8")


def blocks(text: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("example", blocks(PATTERNS, "detect"), ids=lambda text: text.splitlines()[0])
def test_examples_find_what_the_page_says(example: str) -> None:
    pattern, _, rest = example.partition("\nevents  ")
    given, *found = rest.strip().split("\nfinds   ")
    events = [parse_event(text, place) for place, text in enumerate(given.split(", "))]
    source = PatternSource(pattern, "example" if pattern.startswith("type ") else "")
    patterns = compile_source(source)
    composites = run(patterns.compiled, events, finish=True)
    wanted = [] if found == ["nothing"] else found
    assert sorted(_shown(each, "  " in wanted[0], patterns.derived) for each in composites) == sorted(wanted)


def _shown(composite: CompositeEvent, with_attributes: bool, names: Mapping[str, str]) -> str:
    text = " + ".join(_event(each, names) for each in composite.events)
    if not with_attributes:
        return text
    return f"{text}  {' '.join(f'{name}={value!r}' for name, value in composite.attributes.items())}"


def _event(event: Event, names: Mapping[str, str]) -> str:
    times = [event.lo] if event.lo == event.hi else [event.lo, event.hi]
    return " ".join([names.get(event.type, event.type), *map(format_duration, times)])


@pytest.mark.parametrize("example", blocks(PATTERNS, "error"), ids=lambda text: text.splitlines()[0])
def test_errors_are_those_of_the_page(example: str, capsys: pytest.CaptureFixture[str]) -> None:
    pattern, _, message = example.partition("\n")
    assert main(["check", pattern]) == 2
    assert capsys.readouterr().err == message


@pytest.mark.parametrize("name", ["a pattern file", "derived types"])
def test_pattern_files_of_the_page_are_parsed(name: str) -> None:
    files = [text for text in blocks(PATTERNS, "pattern") if "type Seen" in text]
    file = parse_file(files[1 if name == "a pattern file" else 0])
    assert [each.name for each in file.types][-1] == "Seen"
    assert len(file.publications) == (2 if name == "a pattern file" else 0)


def test_file_with_a_private_publication_of_the_page_is_compiled() -> None:
    (file,) = [text for text in blocks(PATTERNS, "pattern") if text.startswith("private")]
    assert [each.publishes.name for each in compile_source(PatternSource(file, "file")).compiled] == ["Lit", "Crowd"]


def rows() -> list[tuple[str, str]]:
    """What stands in the table of the binding: Python, and the text it gives."""
    table = PATTERNS.partition("| Python | text |\n| --- | --- |\n")[2].partition("\n\n")[0]
    pairs: list[tuple[str, str]] = []
    for row in table.splitlines():
        left, right = re.split(r"(?<!\\)\|", row.strip("| "))
        pairs += zip(*(re.findall(r"`([^`]+)`", cell.replace("\\|", "|")) for cell in (left, right)), strict=True)
    return pairs


@pytest.mark.parametrize(("code", "text"), rows(), ids=[code for code, _ in rows()])
def test_table_of_the_binding_holds(code: str, text: str) -> None:
    known = {name: getattr(binding, name) for name in binding.__all__}
    written = str(eval(code, known | {name.lower(): binding.event(name) for name in "ABC"}))
    assert parse_publication(written) == parse_publication(text)


@pytest.mark.parametrize("code", blocks(PATTERNS, "python"), ids=lambda text: text.splitlines()[0])
def test_python_examples_run(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    if "pandas" in code:
        pytest.importorskip("pandas", reason="pandas is not installed")
        pytest.importorskip("pyarrow", reason="needs the extra distced[tables]")
    exec(compile(code, "docs/reference/patterns.md", "exec"), {})
    printed = capsys.readouterr().out
    if printed:
        compile_source(PatternSource(printed, "printed"))
    if "It prints" in PATTERNS.partition(code)[2][:20]:
        assert printed in PATTERNS


def test_every_method_of_the_binding_is_in_the_docs() -> None:
    for owner in (binding.Pattern, binding.EventSet):
        for name in vars(owner):
            if not name.startswith("_") and callable(getattr(owner, name)):
                assert f"{name}(" in PATTERNS, name
    classes = {"EventSet", "Pattern", "PatternFile", "PrivatePublication", "Publication", "State", "Timer", "Value"}
    for name in set(binding.__all__) - classes:
        assert f"{name}(" in PATTERNS, name


# The command line.


def test_session_of_the_docs_is_reproduced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files are those shown; then every command is run and prints what is shown, times and speeds aside."""
    monkeypatch.chdir(tmp_path)
    for name, content in re.findall(r"^`(\S+)`:\n\n```\w*\n(.*?)^```", COMMANDS, re.MULTILINE | re.DOTALL):
        (tmp_path / name).write_text(content, encoding="utf-8")
    for session in blocks(COMMANDS, "console"):
        for command in re.split(r"^\$ distced ", session, flags=re.MULTILINE)[1:]:
            line, _, wanted = command.partition("\n")
            main(shlex.split(line))
            shown = capsys.readouterr()
            printed = shown.out + shown.err
            assert _plain(printed) == _plain(wanted), line


def _plain(text: str) -> str:
    """The text without what changes from run to run, or with the canonical form."""
    text = re.sub(r"read in .* a second.*", "read in", text.strip())
    return re.sub(r"\bc[0-9a-f]{16}\b(\", \d+)?", "(id)", text)


def test_every_option_is_in_the_docs(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("check", "explain", "run", "test"):
        main([verb, "--help"])
        for option in re.findall(r"(--[\w-]+)", capsys.readouterr().out.partition("Options:")[2]):
            assert f"`{option}" in COMMANDS, f"{verb} {option}"

"""Documentation: Python examples parse, and what they import is there."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])


def examples() -> Iterator[tuple[str, str]]:
    """Python examples of all pages, each with its place."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for found in re.finditer(r"^( *)```python\n(.*?)^\1```", text, re.MULTILINE | re.DOTALL):
            line = text.count("\n", 0, found.start()) + 2
            yield f"{page.relative_to(ROOT)}:{line}", re.sub(rf"^{found[1]}", "", found[2], flags=re.MULTILINE)


@pytest.mark.parametrize(("place", "source"), list(examples()))
def test_python_example_imports_what_is_there(place: str, source: str) -> None:
    for node in ast.walk(ast.parse(source, place)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "distced":
            module = importlib.import_module(node.module or "")
            for name in node.names:
                if not hasattr(module, name.name):
                    importlib.import_module(f"{node.module}.{name.name}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_shell_changes_nothing_in_files_that_examples_write(page: Path) -> None:
    for content in re.findall(r"<<END$(.*?)^END$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        assert not re.search(r"[$`\\]", content), f"write <<'END': {content}"


def expanded(path: str) -> list[str]:
    """Paths of a shell pattern with one alternative in braces."""
    begin, brace, rest = path.partition("{")
    inside, _, end = rest.partition("}")
    return [f"{begin}{each}{end}" for each in inside.split(",")] if brace else [path]


def test_named_files_are_there() -> None:
    named = r"(?:middleware|detectors|policies|brokers|simulations|tests)/[\w/{},]*\.(?:py|toml)"
    missing = [
        f"{page.relative_to(ROOT)}: {path}"
        for page in PAGES
        if page.name != "renames.md"
        for found in re.findall(named, page.read_text(encoding="utf-8"))
        for path in expanded(found)
        if not (ROOT / path).exists()
    ]
    assert missing == []

"""The tree of the product: no import circles, one word for one thing, folders and names that a reader can hold.

Contracts of layers are import-linter's (`make contracts`); here is what it has no contract for.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import grimp
import networkx as nx
import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("middleware", "detectors", "policies", "brokers", "simulations")
EVERY_PACKAGE_HAS = {"__init__", "cli"}

MOST_ENTRIES = 12
MOST_PACKAGES_OF_A_NAME = 2

GIVEN_UP = re.compile(
    r"\banew\b|\bso many\b|\breckon|\bby chance\b|\bwhat is told\b|\bdoorkeeper|\bregistrar\b|\bthinn(ed|ing)\b",
    re.IGNORECASE,
)
"""Words that the glossary has replaced."""


@cache
def modules() -> dict[Path, ast.Module]:
    """The product's modules, parsed."""
    paths = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths if "__pycache__" not in path.parts}


def definitions(tree: ast.Module) -> Iterator[ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_modules_import_without_circles() -> None:
    """Those for types alone and those inside functions count, too."""
    graph = grimp.build_graph("distced", include_external_packages=False)
    imports = nx.DiGraph(
        (importer, imported)
        for importer in graph.modules
        for imported in graph.find_modules_directly_imported_by(importer)
    )
    assert [sorted(each) for each in nx.strongly_connected_components(imports) if len(each) > 1] == []


@pytest.mark.parametrize("folder", ["middleware", "brokers", "detectors/columnar"])
def test_folder_has_few_entries(folder: str) -> None:
    entries = {path.relative_to(ROOT / folder).parts[0] for path in modules() if path.is_relative_to(ROOT / folder)}
    assert len(entries) <= MOST_ENTRIES, sorted(entries)


def test_module_name_is_in_two_packages_at_most() -> None:
    places = defaultdict(set)
    for path in modules():
        if path.stem not in EVERY_PACKAGE_HAS:
            places[path.stem].add(str(path.parent.relative_to(ROOT)))
    assert {name: sorted(each) for name, each in places.items() if len(each) > MOST_PACKAGES_OF_A_NAME} == {}


def test_class_name_is_in_two_modules_at_most() -> None:
    places = defaultdict(set)
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].add(str(path.relative_to(ROOT)))
    assert {name: sorted(each) for name, each in places.items() if len(each) > MOST_PACKAGES_OF_A_NAME} == {}


def test_module_has_a_docstring() -> None:
    assert [str(path.relative_to(ROOT)) for path, tree in modules().items() if not ast.get_docstring(tree)] == []


def test_words_are_those_of_the_glossary() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in [*modules(), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
        if path.name != "renames.md"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (match := GIVEN_UP.search(line))
    ]
    assert found == []

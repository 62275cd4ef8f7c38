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

GIVEN_UP = {
    "anew": r"\banew\b",
    "so many": r"\bso many\b",
    "reckon": r"\breckon",
    "by chance": r"\bby chance\b",
    "what is told": r"\bwhat is told\b",
    "doorkeeper": r"\bdoorkeeper",
    "registrar": r"\bregistrar\b",
    "thinn": r"\bthinn(ed|ing)\b",
}
"""Words that the glossary has replaced. Most files have not even the letters, which is found out much faster."""

NOT_IN_NAMES = {
    "told",
    "telling",
    "seat",
    "seats",
    "anew",
    "who",
    "whom",
    *(word for word in GIVEN_UP if " " not in word),
}
"""Words that no name of the product has, be it of a variable, an attribute, a function or a class."""


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
        for path in [
            *modules(),
            *(ROOT / "tests").rglob("*.py"),
            *(ROOT / "docs").rglob("*.md"),
            ROOT / "README.md",
            ROOT / "CONTRIBUTING.md",
        ]
        if path.name not in ("renames.md", "test_tree.py")
        for text in [path.read_text(encoding="utf-8").lower()]
        for letters, word in GIVEN_UP.items()
        if letters in text
        for number, line in enumerate(text.splitlines(), 1)
        if (match := re.search(word, line))
    ]
    assert found == []


def names_in(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Names that a module defines or uses, each with its line."""
    for node in ast.walk(tree):
        for field in ("id", "attr", "arg", "name"):
            name = getattr(node, field, None)
            if isinstance(name, str):
                yield getattr(node, "lineno", 0), name


def words_of(name: str) -> set[str]:
    """Words of a name with underscores, or in camel case."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def test_names_have_the_words_of_the_glossary() -> None:
    assert words_of("_ToldBy") | words_of("TOLD_AT_ONCE") >= {"told", "by", "at", "once"}
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path, tree in modules().items()
        for line, name in names_in(tree)
        if not words_of(name).isdisjoint(NOT_IN_NAMES)
    ]
    assert found == []


def is_of_msgspec(function: ast.expr) -> bool:
    while isinstance(function, ast.Attribute):
        function = function.value
    return isinstance(function, ast.Name) and function.id == "msgspec"


def test_decoders_are_made_at_import() -> None:
    """The first decoding of a type in several threads at once may crash msgspec, and so may making its decoder."""
    made, converted, late = set[str](), dict[str, str](), list[str]()
    for path, tree in modules().items():
        if not any(isinstance(node, ast.Name) and node.id == "msgspec" for node in ast.walk(tree)):
            continue
        inside = {
            node
            for function in ast.walk(tree)
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            for node in ast.walk(function)
        }
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call) and is_of_msgspec(node.func)):
            what, where = ast.unparse(call.func), f"{path.relative_to(ROOT)}:{call.lineno}"
            typed = any(each.arg == "type" for each in call.keywords)
            if what.startswith("msgspec.") and (what.endswith("Decoder") or (what.endswith("decode") and typed)):
                if call not in inside:
                    made.update(ast.unparse(each) for each in call.args)
                elif what != "msgspec.json.Decoder" or path.name != "codec.py":
                    late.append(where)
            elif what == "msgspec.convert":
                kinds = [*call.args[1:2], *(each.value for each in call.keywords if each.arg == "type")]
                converted[where] = ast.unparse(kinds[0])
    assert late == []
    known = {*made, "float", "wanted"}  # `mapping.schema.shape` has the three types of its module
    assert {where: kind for where, kind in converted.items() if kind not in known} == {}


def test_rename_map_leads_to_files() -> None:
    """The right-hand side of each row is there, in the package of its section or as it stands."""
    section, missing = "", []
    for line in (ROOT / "docs/contributing/renames.md").read_text(encoding="utf-8").splitlines():
        section = line[3:] if line.startswith("## ") else section
        cells = line.split("|")
        missing += [
            f"{section}: {path}"
            for path in (re.findall(r"`([^`]+)`", cells[2]) if len(cells) == 4 else ())
            if not any((ROOT / folder / path).exists() for folder in (section, ""))
        ]
    assert missing == []

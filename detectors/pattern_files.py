"""Input of patterns as text or as a pattern file, and the types they are checked against.

Every verb that takes a pattern takes both: a file if one of this name exists. An error in a file names the file.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Final

from distced.detectors.compiler import (
    Compiled,
    Consumption,
    compile_pattern,
    compile_statements,
    compile_translation,
)
from distced.detectors.frontends.languages import check_language, language_of_file, translate
from distced.detectors.frontends.translation import Translation
from distced.detectors.language.derived import without_derived
from distced.detectors.language.parser import parse_file
from distced.detectors.language.states import states_of, states_read
from distced.middleware.model.clock_rules import is_clock
from distced.middleware.model.errors import DistcedError, PatternError
from distced.middleware.model.event_types import EventType, TypeRegistry
from distced.middleware.patterns.statements import pattern_text
from distced.middleware.patterns.tree import Atom, PatternFile, Reference, Scope, walk
from distced.middleware.sets.describable import Filtered, TypeSet, walk_set
from distced.middleware.sets.expressions import Name

ENDING: Final = ".pattern"

_STATEMENT: Final = re.compile(r"^[^\s#]", re.MULTILINE)
_FIRST_COLUMN: Final = "a line that begins in the first column begins a new statement: indent lines that go on"


@dataclass(frozen=True, slots=True)
class PatternSource:
    """A pattern, or the statements of a pattern file; the name is its path, empty for the text of a single pattern.
    `language`: of a text in another language than the core language, which may have several queries."""

    text: str
    name: str = ""
    language: str = ""

    @property
    def needs_types(self) -> bool:
        """Whether it may be wrong without event types and right with them."""
        return bool(self.language)


@dataclass(frozen=True, slots=True)
class Patterns:
    """The compiled patterns of a source in their order, the names of throttled types by mark, warnings, and the derived
    types of a file, each behind its base; `results` are names of the patterns of a text in another language."""

    source: PatternSource
    compiled: tuple[Compiled, ...]
    derived: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    types: tuple[EventType, ...] = ()
    results: tuple[str, ...] = ()


def read_source(given: str | Path, language: str = "") -> PatternSource:
    """A pattern file if one of this name exists, standard input for `-`, else the text of a pattern; in a language of
    this name, or of a file's ending."""
    chosen = check_language(language)
    if given == "-":
        return _read(sys.stdin.buffer.read, "standard input", chosen)
    path = _as_path(given)
    if path is None:
        return PatternSource(str(given), "", chosen)
    if not language:
        chosen = language_of_file(path.name)
    return _read(path.read_bytes, str(path), chosen)


def _read(content: Callable[[], bytes], name: str, language: str) -> PatternSource:
    try:
        return PatternSource(dedent(pattern_text(content())), name, language)
    except FileNotFoundError:
        written = "paths begin in the current folder"
        if not language:
            written += ", and a pattern itself has brackets: [Door] ; [Motion]"
        raise PatternError("no such pattern file", given=name, advice=written) from None
    except (OSError, ValueError) as error:
        raise PatternError("cannot read the pattern file", given=name, advice=str(error)) from None


def _as_path(given: str | Path) -> Path | None:
    if not str(given).strip():
        return None
    path = Path(given)
    try:
        if isinstance(given, Path) or path.is_file():
            return path
    except (OSError, ValueError):  # too long for a name, or with a null in it
        return None
    if "[" not in given and (path.suffix == ENDING or language_of_file(path.name) or path.exists()):
        return path
    return None


def compile_source(
    source: PatternSource, registry: TypeRegistry | None = None, *, consumption: Consumption = "ordered"
) -> Patterns:
    """The patterns of a source, checked against the registry; without one every type is accepted."""
    if source.language:
        with _in_file(source):
            return _compile_translated(source, registry, consumption)
    if not source.name:
        return Patterns(source, (compile_pattern(source.text, registry, consumption=consumption),))
    with _in_file(source):
        return _compile_file(source, registry, consumption)


def check_possible(patterns: Patterns) -> None:
    """Raise `PatternError` for the first pattern that no events can match."""
    with _in_file(patterns.source):
        for each in patterns.compiled:
            each.check_possible()


@contextmanager
def _in_file(source: PatternSource) -> Iterator[None]:
    """Name the file and the language in errors."""
    try:
        yield
    except DistcedError as error:
        if isinstance(error, PatternError):
            error.language = source.language
        if source.name:
            error.where = f"{source.name}, {error.where}" if error.where else source.name
            if error.advice is None and error.given == "the end of the pattern" and not source.language:
                error.advice = _FIRST_COLUMN
        raise


def _compile_file(source: PatternSource, registry: TypeRegistry | None, consumption: Consumption) -> Patterns:
    if not _STATEMENT.search(source.text):
        raise PatternError("a pattern file without a statement", advice="a statement begins in the first column")
    file = parse_file(source.text)
    compiled, known = compile_statements(source.text, registry, consumption=consumption)
    if not compiled:
        raise PatternError(
            "a pattern file that publishes nothing",
            given=", ".join(name for name, _ in file.definitions) or None,
            advice="a pattern that is to be detected has no `Name =` before it: [A] ; [B] -> Name()",
        )
    named = {each.name for each in file.types}
    derived = tuple(each for each in known if each.name in named)
    return Patterns(source, compiled, _marks(file, known), tuple(_slips(file)), derived)


def _compile_translated(source: PatternSource, registry: TypeRegistry | None, consumption: Consumption) -> Patterns:
    translation = translate_source(source, registry)
    compiled, known = compile_translation(translation, registry, consumption=consumption)
    named = {each.name for each in translation.file.types}
    derived = tuple(each for each in known if each.name in named)
    return Patterns(source, compiled, _marks(translation.file, known), translation.notes, derived, translation.results)


def translate_source(source: PatternSource, registry: TypeRegistry | None = None) -> Translation:
    """The core statements of a source in another language. Raises `PatternError` for one without a query, too."""
    known = TypeRegistry(registry or (), open=registry is None or registry.open)
    translation = translate(source.text, source.language, known)
    if not translation.results:
        raise PatternError("a text without a query", given=source.text.strip() or None)
    return translation


def _marks(file: PatternFile, registry: TypeRegistry) -> dict[str, str]:
    """The names of the derived types that are pure throttlings, and of clocks, by mark."""
    names = {}
    for each in file.types:
        plain, _ = without_derived(Atom(TypeSet(each.name)), registry)
        match plain:
            case Atom(label=Filtered(base=TypeSet(), condition=Name(name=mark))):
                names[mark] = each.name
            case Atom(label=TypeSet(name=name)) if is_clock(name):
                names.setdefault(name, each.name)
            case _:
                pass
    return names


def _slips(file: PatternFile) -> Iterable[str]:
    """Warnings: unused definitions, and patterns that look split in two."""
    published = [*file.publications, *file.privates]
    published += [private for each in file.publications for private in each.privates]
    patterns = [*(each.pattern for each in published), *dict(file.definitions).values()]
    nodes = [node for pattern in patterns for node in walk(pattern)]
    references = {node.name for node in nodes if isinstance(node, Reference)}
    sets = [node.label for node in nodes if isinstance(node, Atom)]
    sets += [node.domain for node in nodes if isinstance(node, Atom | Scope) and node.domain is not None]
    types = {each.name for described in sets for each in walk_set(described) if isinstance(each, TypeSet)}
    types |= {each.base for each in file.types}
    types |= {name for each in file.types for name in states_of(each)}
    types |= {name for each in patterns for name in states_read(each)}
    unnamed = [each for each in file.publications if each.output is None or not each.output.type_name]
    if unnamed and len(file.publications) > 1:
        yield f"{len(unnamed)} of {len(file.publications)} patterns publish no type; {_FIRST_COLUMN}"
    for name, _ in file.definitions:
        if name not in references:
            yield f"the definition {name} is used nowhere, and so is not checked"
    for each in file.types:
        if each.name not in types:
            yield f"the derived type {each.name} is used nowhere"

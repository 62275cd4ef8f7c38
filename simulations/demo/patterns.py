"""Patterns of the demonstration: those of both scenarios, or those of given files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from distced.detectors.compiler import Compiled, compile_publication, register_derived
from distced.detectors.language.inlining import inline_file
from distced.detectors.language.parser import parse_file
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import EventType, TypeRegistry
from distced.simulations.office.scenarios import read_scenario

DEFAULT: Final = ("scenario1", "scenario2", "scenario2-residents")


@dataclass(frozen=True)
class Question:
    """A pattern of the demonstration.

    Attributes:
        name: for people: what it publishes, or the file it is from.
        compiled: the pattern, for the check against the recorded events; its text is what is subscribed to.
    """

    name: str
    compiled: Compiled


def questions(types: Iterable[EventType], files: Sequence[Path]) -> tuple[list[Question], list[EventType]]:
    """Patterns, and the derived types of their files."""
    registry = TypeRegistry(types)
    texts = [(path.name, _read(path)) for path in files] or [(name, read_scenario(name)) for name in DEFAULT]
    before = {each.name for each in registry}
    asked: list[Question] = []
    for name, text in texts:
        file = parse_file(text)
        register_derived(file, registry)
        for publication in inline_file(file, text=text):
            compiled = compile_publication(publication, registry, text=text)
            asked.append(Question(compiled.publishes.name or name, compiled))
            if compiled.publishes.name:
                registry.register(compiled.publishes)
                before.add(compiled.publishes.name)
    return asked, [each for each in registry if each.name not in before]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise DistcedError("a pattern file that cannot be read", given=str(path), advice=str(error.strerror)) from None

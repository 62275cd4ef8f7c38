"""Attributes of streams, for languages whose meaning depends on them (frontends, section 1, Streams and types)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from distced.detectors.language.scanner import error_at
from distced.middleware.model.errors import PatternError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.sets.expressions import Span, Spanned

_SHOWN: Final = 30
"""Names of streams that an error lists."""


@dataclass(frozen=True, slots=True)
class Declaration(Spanned):
    """`STREAM name(a, b)`."""

    name: str
    attributes: tuple[str, ...]


class Schemas:
    """Attributes of streams in order: those that the text declares or publishes, else those of event types.

    Attributes:
        below: streams that queries further down publish.
    """

    def __init__(self, text: str, registry: TypeRegistry, language: str) -> None:
        """The schemas of a text in a language of this name."""
        self._text = text
        self._registry = registry
        self._language = language
        self._declared: dict[str, tuple[str, ...]] = {}
        self._read: dict[str, tuple[str, ...]] = {}
        self.below: set[str] = set()

    def declare(self, name: str, attributes: tuple[str, ...], span: Span) -> None:
        """Declare a stream, `STREAM S(a, b)`. Raises `PatternError` for one that is known with other attributes."""
        if name in self._declared:
            raise error_at(self._text, span, "a stream declared twice", given=name)
        known = self._of_registry(name)
        if known is not None and (wrong := [each for each in attributes if each not in known]):
            raise error_at(
                self._text,
                span,
                f"the event type {name} has no such attribute",
                given=", ".join(wrong),
                allowed=", ".join(known) or "none",
            )
        self._declared[name] = attributes

    def publish(self, name: str, attributes: tuple[str, ...], span: Span) -> None:
        """Add a stream that a query publishes. Raises `PatternError` for a name that is taken."""
        if name in self._declared:
            advice = "choose another name"
            raise error_at(self._text, span, "this stream exists already", given=name, advice=advice)
        self._declared[name] = self._read[name] = attributes
        self.below.discard(name)

    def find(self, name: str) -> tuple[str, ...] | None:
        """Attributes of a stream; None for unknown ones."""
        found = self._declared.get(name)
        return self._of_registry(name) if found is None else found

    def of(self, name: str, span: Span) -> tuple[str, ...]:
        """Attributes of a stream. Raises `PatternError` for unknown ones."""
        found = self.find(name)
        if found is not None:
            self._read[name] = found
            return found
        if name in self.below:
            advice = "put that query in front"
            raise error_at(self._text, span, "a query further down publishes this stream", given=name, advice=advice)
        if self._registry.open:
            raise error_at(
                self._text,
                span,
                f"{self._language} needs the attributes of this stream",
                given=name,
                advice=f"declare them: STREAM {name}(a, b)",
            )
        raise self._unknown(name, span)

    @property
    def names_read(self) -> set[str]:
        """Names of the streams of the text, and of their attributes."""
        return {*self._read, *(each for attributes in self._read.values() for each in attributes)}

    def _unknown(self, name: str, span: Span) -> PatternError:
        known = sorted({*self._declared, *(each.name for each in self._registry)})
        allowed = ", ".join(known[:_SHOWN]) + (", ..." if len(known) > _SHOWN else "")
        return error_at(self._text, span, "unknown stream", given=name, allowed=allowed or "none is known")

    def _of_registry(self, name: str) -> tuple[str, ...] | None:
        found = self._registry.find(name)
        if found is None:
            return None
        others = self._registry.undetermined(name) | self._registry.computed(name)
        return (*found.attributes, *sorted(others - found.attributes.keys()))

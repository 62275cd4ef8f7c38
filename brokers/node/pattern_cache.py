"""Cache of a node's checked patterns, by text.

A pattern is read by the coordinators of its subscription and its detector, and by the host: often one node. The checked
form gives the canonical id; the automaton is built where a detector is planned or hosted, and kept with the form. The
key is text, definitions and consumption; an entry is valid as long as the event types that the check looked up are
unchanged. All known types as part of the key were rejected: every detector that publishes under a name adds one.
"""

from __future__ import annotations

from typing import Final

from distced.detectors.compiler import Compiled, Consumption, check_pattern
from distced.middleware.model.event_types import EventType, TypeRegistry

SIZE: Final = 1000
"""Patterns cached; the least recently used is evicted first."""

_Key = tuple[str, tuple[tuple[str, str], ...], Consumption]


class PatternCache:
    """Recently checked patterns of a node.

    Attributes:
        checked: number of checks.
    """

    def __init__(self) -> None:
        self.checked = 0
        self._kept: dict[_Key, tuple[Compiled, dict[str, EventType | None]]] = {}

    def check(
        self, text: str, definitions: dict[str, str], consumption: Consumption, registry: TypeRegistry
    ) -> Compiled:
        """Pattern checked by `check_pattern`. Raises `DistcedError` for a faulty one, which is not cached."""
        key = (text, tuple(definitions.items()), consumption)
        kept = self._kept.pop(key, None)
        if kept is None or any(registry.find(name) != known for name, known in kept[1].items()):
            consulted = _Consulted(registry)
            self.checked += 1
            checked = check_pattern(text, consulted, definitions=definitions, consumption=consumption)
            kept = checked, consulted.consulted
        # Ordered by last use.
        self._kept[key] = kept
        if len(self._kept) > SIZE:
            del self._kept[next(iter(self._kept))]
        return kept[0]


class _Consulted(TypeRegistry):
    """Registry that records the types looked up.

    Attributes:
        consulted: by name, what was found; None for nothing.
    """

    def __init__(self, registry: TypeRegistry) -> None:
        self.consulted: dict[str, EventType | None] = {}
        super().__init__(registry, open=registry.open)
        # What is asked for while it is filled says nothing.
        self.consulted.clear()

    def find(self, name: str) -> EventType | None:
        found = self.consulted[name] = super().find(name)
        return found

    def get(self, name: str) -> EventType:
        self.find(name)
        return super().get(name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.find(name) is not None

    def root(self, name: str) -> str:
        event_type = self.find(name)
        while event_type is not None and event_type.derived is not None:
            name = event_type.derived.base
            event_type = self.find(name)
        return name

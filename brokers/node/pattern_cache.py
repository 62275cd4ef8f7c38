"""Cache of a node's compiled patterns, by text.

Between a subscription and its detector a pattern is compiled by the coordinator of the subscription, by that of the
detector, and by the host; often that is one node, and the coordinator asks again until the subscription is served. What
compiling depends on is the key (text, definitions, consumption) and the event types it looked up; so an entry holds as
long as these are what they were, whatever else is registered. A key with all types that are known was rejected: every
detector that publishes under a name adds one.
"""

from __future__ import annotations

from typing import Final

from distced.detectors.compiler import Compiled, Consumption, compile_pattern
from distced.middleware.model.event_types import EventType, TypeRegistry

SIZE: Final = 1000
"""Patterns cached; the least recently used is evicted first."""

_Key = tuple[str, tuple[tuple[str, str], ...], Consumption]


class PatternCache:
    """Recently compiled patterns of a node.

    Attributes:
        compiled: how many times a pattern was compiled.
    """

    def __init__(self) -> None:
        self.compiled = 0
        self._kept: dict[_Key, tuple[Compiled, dict[str, EventType | None]]] = {}

    def compile(
        self, text: str, definitions: dict[str, str], consumption: Consumption, registry: TypeRegistry
    ) -> Compiled:
        """Pattern compiled by `compile_pattern`. Raises `DistcedError` for a faulty one, which is not cached."""
        key = (text, tuple(definitions.items()), consumption)
        kept = self._kept.pop(key, None)
        if kept is None or any(registry.find(name) != known for name, known in kept[1].items()):
            consulted = _Consulted(registry)
            self.compiled += 1
            kept = (
                compile_pattern(text, consulted, definitions=definitions, consumption=consumption),
                consulted.consulted,
            )
        # The order is that in which they were asked for.
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

"""Event types that a check of a pattern looks up, which its result depends on."""

from __future__ import annotations

from collections.abc import Mapping

from distced.middleware.model.event_types import EventType, TypeRegistry
from distced.middleware.model.published_types import PublishedType, known_type


class ConsultedTypes(TypeRegistry):
    """Registry that records look-ups.

    Attributes:
        consulted: types by name, None for a missing one.
        published: types that what is checked publishes: such a type was missing, and makes no difference when it comes.
    """

    def __init__(self, registry: TypeRegistry) -> None:
        self.consulted: dict[str, EventType | None] = {}
        self.published: Mapping[str, PublishedType] = {}
        super().__init__(registry, open=registry.open)
        # What is asked for while it is filled says nothing.
        self.consulted.clear()

    def unchanged(self, registry: TypeRegistry) -> bool:
        """Whether the types that were looked up are those of another registry."""
        return all(
            registry.find(name) == known or (known is None and self._is_published(name, registry))
            for name, known in self.consulted.items()
        )

    def _is_published(self, name: str, registry: TypeRegistry) -> bool:
        found = registry.find(name)
        as_published = name in self.published and known_type(registry, name) == self.published[name]
        return as_published and found is not None and found.derived is None

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

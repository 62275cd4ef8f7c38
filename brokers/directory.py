"""The directory as one participant sees it: what the retained messages said so far.

It needs no server of its own (design, section 4): entries arrive as retained messages and are kept up to date by those
that follow. Reading an entry has no effects; what to do about a change is the node's decision.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from middleware.errors import FrameError, TypeRegistryError
from middleware.eventtypes import EventType, TypeRegistry
from middleware.protocol import DetectorEntry, NodeEntry, SourceEntry, SubscriptionEntry, decode

KINDS: Final[dict[str, type[msgspec.Struct]]] = {
    "type": EventType,
    "source": SourceEntry,
    "node": NodeEntry,
    "detector": DetectorEntry,
    "subscription": SubscriptionEntry,
}


class Change(msgspec.Struct, frozen=True):
    """What an entry said.

    Attributes:
        kind: a key of `KINDS`.
        name: what the entry is about.
        entry: its content; None where it was cleared.
        before: what it said before; None where it is new.
    """

    kind: str
    name: str
    entry: Any
    before: Any


class Directory:
    """What is known.

    Attributes:
        types: the event types, by name.
        sources, nodes, detectors, subscriptions: their entries by name.
    """

    def __init__(self) -> None:
        self.types: dict[str, EventType] = {}
        self.sources: dict[str, SourceEntry] = {}
        self.nodes: dict[str, NodeEntry] = {}
        self.detectors: dict[str, DetectorEntry] = {}
        self.subscriptions: dict[str, SubscriptionEntry] = {}

    def read(self, levels: tuple[str, ...], payload: bytes, *, where: str) -> Change:
        """Take an entry in. Raises `FrameError` for what is none; the directory then stays as it was."""
        if len(levels) != 2 or levels[0] not in KINDS:
            raise FrameError("no entry of the directory", given="/".join(levels), allowed=", ".join(KINDS), where=where)
        kind, name = levels
        table: dict[str, Any] = getattr(self, f"{kind}s")
        before = table.get(name)
        if not payload:
            table.pop(name, None)
            return Change(kind, name, None, before)
        entry = decode(payload, KINDS[kind], where=where)
        if isinstance(entry, EventType) and entry.name != name:
            raise FrameError("an entry for another type", given=entry.name, allowed=name, where=where)
        table[name] = entry
        return Change(kind, name, entry, before)

    def registry(self) -> TypeRegistry:
        """The types that patterns may read: those that are registered, and those that detectors publish."""
        registry = TypeRegistry()
        waiting = list(self.types.values())
        while waiting:
            # A derived type needs its base; entries come in any order.
            ready = [each for each in waiting if each.derived is None or each.derived.base in registry]
            if not ready:
                break
            for each in ready:
                registry.register(each)
            waiting = [each for each in waiting if each not in ready]
        for entry in self.detectors.values():
            if entry.publishes and entry.publishes not in registry:
                registry.register(EventType(entry.publishes, entry.attributes))  # type: ignore[arg-type]
        return registry

    def publishers(self, type_name: str) -> list[str]:
        """The detectors whose composite events are of this type."""
        return sorted(name for name, entry in self.detectors.items() if entry.publishes == type_name)

    def check_types(self, additional: EventType) -> None:
        """Raise `TypeRegistryError` where a detector would publish a type that is known with other attributes."""
        known = self.registry().find(additional.name)
        if known is not None and known.attributes != additional.attributes:
            raise TypeRegistryError(
                f"the type {additional.name!r} is known with other attributes",
                given=", ".join(additional.attributes) or "none",
                allowed=", ".join(known.attributes) or "none",
                advice="publish under another name",
            )

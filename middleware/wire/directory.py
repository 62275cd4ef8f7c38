"""Directory as one participant sees it, from retained messages (design, section 4); reading has no effects."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

import msgspec
from msgspec.structs import force_setattr

from distced.middleware.model.clock_rules import is_clock
from distced.middleware.model.errors import FrameError, TypeRegistryError
from distced.middleware.model.event_types import EventType, TypeRegistry
from distced.middleware.model.published_types import PublishedType, with_published
from distced.middleware.wire.bounded_values import LEVEL_MAX
from distced.middleware.wire.codec import declare, decode
from distced.middleware.wire.directory_entries import (
    ClientEntry,
    DetectorEntry,
    DurableEntry,
    ExclusionEntry,
    HintEntry,
    LoadEntry,
    NodeEntry,
    PositionEntry,
    ReaderEntry,
    RecorderEntry,
    SampleEntry,
    SourceEntry,
    SubscriptionEntry,
    SubscriptionHead,
    TopologyEntry,
)
from distced.middleware.wire.topics import MAX_BYTES, ROOT, directory_topic, encode_level

KINDS: Final[dict[str, type[msgspec.Struct]]] = {
    "type": EventType,
    "client": ClientEntry,
    "source": SourceEntry,
    "node": NodeEntry,
    "detector": DetectorEntry,
    "subscription": SubscriptionEntry,
    "load": LoadEntry,
    "sample": SampleEntry,
    "recorder": RecorderEntry,
    "topology": TopologyEntry,
    "hint": HintEntry,
    "exclusion": ExclusionEntry,
    "durable": DurableEntry,
    "position": PositionEntry,
    "reader": ReaderEntry,
}
declare(*KINDS.values(), SubscriptionHead)


_ALIKE: Final[dict[type, tuple[str, ...]]] = {
    DetectorEntry: (
        *("node", "policy", "reads", "publishes", "attributes", "parts", "exports", "home", "replicas"),
        *("distribution", "readers", "expected", "json", "waits"),
    ),
    SubscriptionEntry: ("client", "definitions", "consumption", "policy", "decomposition", "exports", "hints"),
}
"""Fields that few entries differ in."""

_LEVELS: Final = frozenset(("node", "recorder", "source"))
"""Kinds whose names are levels of topics beside another name."""

CLIENT_BYTES: Final = MAX_BYTES // 2
"""Bytes of the name of a client at most, as a level of the topics of its answers."""

_SHARED: Final = 10_000
"""Number of values that are kept to be shared."""

_EMPTY: Final[dict[type, Any]] = {}
_packed: Final = msgspec.msgpack.Encoder().encode


class Change(msgspec.Struct, frozen=True):
    """Change of the directory: an entry, None where it was cleared, and the one before, None where it is new.

    `outdated`: the entry received was not taken, as the one before is of a later primary of the detector.
    """

    kind: str
    name: str
    entry: Any
    before: Any
    outdated: bool = False


class Entries:
    """Entries of the directory by kind and name.

    Attributes:
        filtering: names of the sources that leave out what nobody reads (`middleware.wire.declared_reads`), kept as
            entries come and go: whether there is any is asked with every change, and sources may be 100,000.
    """

    def __init__(self) -> None:
        self.types: dict[str, EventType] = {}
        self.clients: dict[str, ClientEntry] = {}
        self.sources: dict[str, SourceEntry] = {}
        self.nodes: dict[str, NodeEntry] = {}
        self.detectors: dict[str, DetectorEntry] = {}
        self.subscriptions: dict[str, SubscriptionEntry] = {}
        self.loads: dict[str, LoadEntry] = {}
        self.samples: dict[str, SampleEntry] = {}
        self.recorders: dict[str, RecorderEntry] = {}
        self.topologies: dict[str, TopologyEntry] = {}
        self.hints: dict[str, HintEntry] = {}
        self.exclusions: dict[str, ExclusionEntry] = {}
        self.durables: dict[str, DurableEntry] = {}
        self.positions: dict[str, PositionEntry] = {}
        self.readers: dict[str, ReaderEntry] = {}
        self.filtering: dict[str, None] = {}
        # Values of fields of detectors and subscriptions, by themselves or packed.
        self._shared: dict[object, Any] = {}

    def read(self, levels: tuple[str, ...], payload: bytes, *, where: str) -> Change:
        """Take an entry in. Raises `FrameError` for a malformed one; the directory then stays as it was."""
        if len(levels) != 2 or levels[0] not in KINDS:
            raise FrameError("no entry of the directory", given="/".join(levels), allowed=", ".join(KINDS), where=where)
        kind, name = levels
        if not payload:
            return self.put(kind, name, None)
        if kind in _LEVELS and len(name) > LEVEL_MAX:
            allowed = f"a name of {LEVEL_MAX:,} characters at most"
            raise FrameError(f"a {kind} whose name is too long", given=f"{len(name):,}", allowed=allowed, where=where)
        entry = decode(payload, KINDS[kind], where=where)
        if isinstance(entry, EventType):
            _check_type(entry, name, where)
        elif isinstance(entry, DetectorEntry | SubscriptionEntry):
            if isinstance(entry, SubscriptionEntry):
                check_client(entry.client, where)
            else:
                _check_topic(name, entry.publishes, where)
            self._share(entry)
        return self.put(kind, name, entry)

    def _share(self, entry: DetectorEntry | SubscriptionEntry) -> None:
        """Let entries have one object for equal fields: they differ in their patterns, and in little else."""
        shared = self._shared
        if len(shared) > _SHARED:
            shared.clear()
        for name in _ALIKE[type(entry)]:
            value = getattr(entry, name)
            if value:
                key = value if value.__class__ is str else (name, _packed(value))
                force_setattr(entry, name, shared.setdefault(key, value))
            elif value is not None and value.__class__ is not bool:
                force_setattr(entry, name, _EMPTY.setdefault(value.__class__, value))

    def put(self, kind: str, name: str, entry: Any) -> Change:
        """Take a decoded entry in, None to remove it."""
        table = self.table(kind)
        before = table.get(name)
        if entry is None:
            table.pop(name, None)
        else:
            table[name] = entry
        if kind == "source" and (before is None or not before.filters) != (entry is None or not entry.filters):
            if name in self.filtering:
                del self.filtering[name]
            else:
                self.filtering[name] = None
        return Change(kind, name, entry, before)

    def table(self, kind: str) -> dict[str, Any]:
        """Entries of one kind."""
        entries: dict[str, Any] = getattr(self, "topologies" if kind == "topology" else f"{kind}s")
        return entries

    def names(self) -> set[tuple[str, str]]:
        """Kind and name of every entry."""
        return {(kind, name) for kind in KINDS for name in self.table(kind)}

    def registry(self, published: Iterable[PublishedType] = ()) -> TypeRegistry:
        """Registry of the usable types, in any order of arrival; a derived one needs its base, which may be one of the
        types that detectors have `published`.

        Types that contradict themselves or others are left out, without cost to the rest.
        """
        # Each was checked by itself when it was read.
        registry = TypeRegistry().with_checked(each for each in self.types.values() if each.derived is None)
        waiting = [each for each in self.types.values() if each.derived is not None]
        found, beside = list[PublishedType](), list[PublishedType]()
        for each in published:
            (beside if each.name in self.types else found).append(each)
        registry = with_published(registry, found)
        waiting = _register_derived(registry, waiting)
        # An unusable entry does not take the place of what is published under its name.
        instead = [each for each in beside if each.name not in registry]
        if instead:
            registry = with_published(registry, instead)
            _register_derived(registry, waiting)
        return registry

    def publishers(self, type_name: str) -> list[str]:
        """Detectors whose composite events are of this type."""
        return sorted(name for name, entry in self.detectors.items() if entry.publishes == type_name)


def _register_derived(registry: TypeRegistry, waiting: list[EventType]) -> list[EventType]:
    """Register derived types whose bases are there; those that are left."""
    while waiting:
        ready, later = list[EventType](), list[EventType]()
        for each in waiting:
            base = None if each.derived is None else each.derived.base
            (ready if base is not None and (is_clock(base) or base in registry) else later).append(each)
        if not ready:
            break
        waiting = later
        for each in ready:
            with suppress(TypeRegistryError):
                registry.register(each)
    return waiting


def check_client(name: str, where: str) -> None:
    """Raise `FrameError` for a client of a subscription that no answer has a topic for."""
    if not name or len(encode_level(name).encode()) > CLIENT_BYTES:
        allowed = f"a name of 1 to {CLIENT_BYTES:,} bytes"
        raise FrameError(
            "a subscription of a client without a usable name", given=repr(name), allowed=allowed, where=where
        )


def _check_topic(name: str, publishes: str, where: str) -> None:
    """Raise `FrameError` for an entry of a detector at a topic that is not the one from which it would be cleared."""
    topic = directory_topic("detector", name, publishes=publishes)
    below = topic.removeprefix(ROOT)
    if "/detector/" in where and not where.endswith(below):
        raise FrameError("not the topic of this detector", given=where, allowed=f"one that ends in {below}")


def _check_type(entry: EventType, name: str, where: str) -> None:
    """Check a type by itself; whether it fits its base shows when both are there."""
    if entry.name != name:
        raise FrameError("an entry for another type", given=entry.name, allowed=name, where=where)
    try:
        TypeRegistry(open=True).register(entry)
    except TypeRegistryError as error:
        raise FrameError(error.problem, given=error.given, allowed=error.allowed, where=where) from None

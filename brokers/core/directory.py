"""Directory of a broker node: entries, types that patterns may read, and checks of a pattern to be detected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import reduce
from itertools import takewhile
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from distced.middleware.model.detection import may_read
from distced.middleware.model.errors import DistcedError, PatternError, TypeRegistryError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.published_types import (
    PublishedType,
    agreed,
    derived_error,
    known_type,
    publish,
    with_published,
)
from distced.middleware.model.timestamps import INSTANT_MIN, SECOND
from distced.middleware.wire.administration import Counters
from distced.middleware.wire.codec import decode
from distced.middleware.wire.directory import KINDS, Change, Entries
from distced.middleware.wire.directory_entries import DetectorEntry
from distced.middleware.wire.topics import client_of

__all__ = ["KINDS", "Change", "Directory"]


LATEST_LIFE: Final = 2**61
"""Microsecond behind which no host has begun: an entry with a greater life makes no sense, and none could follow it."""

MOST_CLEARED: Final = 10_000
"""Number of cleared detectors whose lives are remembered."""

CONFIRM_WITHIN: Final = 30 * SECOND
"""Time after a reconnection for entries of the directory to be delivered again, ns."""


class Directory(Entries):
    """Entries by kind and name, as in `Entries`, with the types that detectors publish.

    A subscription costs the same with a hundred thousand others there, so what is looked up for each is kept up to date
    with each change.

    Attributes:
        missing: nodes that were lost a moment ago and may be back, with the time, ns.
        unconfirmed: entries to be delivered again, as after a lost connection, by kind and name, with the end of the
            time for that, ns, in order of it.
        by_client: names of the subscriptions of each client that has any.
        durable_names: names of the durable subscriptions.
    """

    def __init__(self) -> None:
        super().__init__()
        self.missing: dict[str, int] = {}
        self.unconfirmed: dict[tuple[str, str], int] = {}
        self.by_client: dict[str, dict[str, None]] = {}
        self.durable_names: dict[str, None] = {}
        # Counters of nodes, where they are read.
        self._counts: dict[str, dict[str, int]] = {}
        # Detectors by the type of their composite events, and number of subscriptions to each detector as a part.
        self._publishers: dict[str, set[str]] = {}
        # The same by what they say of the type, and the type where they agree.
        self._forms: dict[str, dict[_Form, set[str]]] = {}
        self._published: dict[str, PublishedType] = {}
        # Whether the registry has all types that are registered.
        self._all_usable = True
        self._parts: Counter[str] = Counter()
        self._registry: TypeRegistry | None = None
        # Greatest lives of detectors whose entries were cleared, or followed by those of lesser ones.
        self._lives: dict[str, int] = {}

    def put(self, kind: str, name: str, entry: Any) -> Change:
        if kind == "detector" and entry is not None and self._outdated(name, entry):
            known = self.detectors[name]
            return Change(kind, name, known, known, outdated=True)
        if kind == "node" and entry is not None and name in self._counts:
            entry = replace(entry, counts=self._counts[name])
        change = super().put(kind, name, entry)
        self.unconfirmed.pop((kind, name), None)
        if entry != change.before:
            self._note(change)
        return change

    def count(self, node: str, payload: bytes, *, where: str) -> None:
        """Take the counters of a node in, into its entry; empty where they were cleared. Raises `FrameError`."""
        counts = decode(payload, Counters, where=where).counts if payload else {}
        if payload:
            self._counts[node] = counts
        else:
            self._counts.pop(node, None)
        if node in self.nodes:
            self.nodes[node] = replace(self.nodes[node], counts=counts)

    def _outdated(self, name: str, entry: DetectorEntry) -> bool:
        """Whether an entry of a detector is of an earlier primary than the known one, which is present.

        Messages of two primaries arrive in any order. What was known before this node lost its connection may have been
        cleared since, so any entry is valid then.
        """
        known = self.detectors.get(name)
        if known is None or entry.generation >= known.generation or known.node not in self.nodes:
            return False
        return ("detector", name) not in self.unconfirmed

    def without_promise(self, change: Change) -> Change:
        """Take a source in without its promise, which is none that counts."""
        return self.put(change.kind, change.name, replace(change.entry, watermark=INSTANT_MIN))

    def _note(self, change: Change) -> None:
        match change.kind:
            case "type":
                self._note_type(change)
            case "detector":
                self._note_life(change)
                before, after = (
                    None if each is None or not each.publishes else each.published
                    for each in (change.before, change.entry)
                )
                if before != after:
                    self._note_publisher(change)
            case "subscription":
                self._note_subscription(change)

    def last_life(self, detector: str) -> int:
        """Greatest known life of a detector; 0 for none, and for one that no clock has reached."""
        known = self.detectors.get(detector)
        found = max(0 if known is None else known.life, self._lives.get(detector, 0))
        return found if found <= LATEST_LIFE else 0

    def _note_life(self, change: Change) -> None:
        before = 0 if change.before is None else change.before.life
        if change.entry is None or change.entry.life < before:
            self._lives[change.name] = max(before, self._lives.pop(change.name, 0))
            if len(self._lives) > MOST_CLEARED:
                del self._lives[next(iter(self._lives))]

    def _note_publisher(self, change: Change) -> None:
        for entry, noted in ((change.before, False), (change.entry, True)):
            if entry is None or not entry.publishes:
                continue
            name = entry.publishes
            known, forms = self._publishers.setdefault(name, set()), self._forms.setdefault(name, {})
            form = _form(entry)
            if noted:
                known.add(change.name)
                forms.setdefault(form, set()).add(change.name)
            else:
                known.discard(change.name)
                forms[form].discard(change.name)
                if not forms[form]:
                    del forms[form]
            if not known:
                del self._publishers[name], self._forms[name]
            self._note_published(name)

    def _note_published(self, name: str) -> None:
        """Note a type that detectors publish, after one of them has changed."""
        before, after = self._published.get(name), self._agreed(name)
        if before == after:
            return
        if after is None:
            del self._published[name]
        else:
            self._published[name] = after
        registry = self._registry
        if before is None and after is not None and self._all_usable and registry is not None and name not in registry:
            self._registry = with_published(registry, [after])
        else:
            self._registry = None

    def _agreed(self, name: str) -> PublishedType | None:
        """The type that detectors publish under a name; None where no entry makes sense. Of several that do not agree
        the first by name count, on all nodes."""
        forms = [(_published(name, form), detectors) for form, detectors in self._forms.get(name, {}).items()]
        usable = [(each, detectors) for each, detectors in forms if each is not None]
        if not usable:
            return None
        with suppress(TypeRegistryError):
            return reduce(PublishedType.joined, (each for each, _ in usable))
        return agreed(each for each, _ in sorted(usable, key=lambda pair: min(pair[1])))

    def _note_type(self, change: Change) -> None:
        """Add a new type to the registry, which is made again where a type has changed, or others may wait for it."""
        entry, registry = change.entry, self._registry
        new = entry is not None and change.before is None and entry.derived is None
        if registry is not None and new and self._all_usable and entry.name not in registry:
            self._registry = registry.with_checked([entry])
        else:
            self._registry = None

    def _note_subscription(self, change: Change) -> None:
        if change.entry is not None and change.entry.durable is not None:
            self.durable_names[change.name] = None
        else:
            self.durable_names.pop(change.name, None)
        for entry, count in ((change.before, -1), (change.entry, 1)):
            if entry is None:
                continue
            names = self.by_client.setdefault(entry.client, {})
            if count > 0:
                names[change.name] = None
            else:
                names.pop(change.name, None)
            if not names:
                del self.by_client[entry.client]
            part = part_of(change.name) if entry.derivations else ""
            if part:
                self._parts[part] += count
                if not self._parts[part]:
                    del self._parts[part]

    @property
    def parts_wanted(self) -> Mapping[str, int]:
        """Number of subscriptions to each detector as a part of a pattern, by its id."""
        return self._parts

    def reconnected(self, now: int) -> None:
        """Expect all entries but types to be delivered again, over a new connection."""
        self.unconfirmed = {}
        self.expect(((kind, name) for kind, name in self.names() if kind != "type"), now)

    def expect(self, entries: Iterable[tuple[str, str]], now: int) -> None:
        """Expect these entries, by kind and name, to be delivered again; those that are not have been cleared."""
        for each in entries:
            self.unconfirmed.pop(each, None)
            self.unconfirmed[each] = now + CONFIRM_WITHIN

    def confirm(self, entries: Iterable[tuple[str, str]]) -> None:
        """Expect these entries no longer to be delivered again."""
        for each in entries:
            self.unconfirmed.pop(each, None)

    def clear_unconfirmed(self, now: int, waiting: Container[str] = ()) -> Iterator[Change]:
        """Clear entries, one after the other, that were not delivered again in time, but for subscriptions of clients
        with `waiting` messages."""
        for kind, name in sorted(takewhile(lambda each: now > self.unconfirmed[each], self.unconfirmed)):
            if kind != "subscription" or client_of(name) not in waiting:
                yield self.read((kind, name), b"", where="the directory")

    @property
    def expected_nodes(self) -> set[str]:
        """Nodes that are present, or may return in a moment."""
        return self.nodes.keys() | self.missing.keys()

    @property
    def common_nodes(self) -> list[str]:
        """Nodes that decide, and that host any detector: neither reserved for one, nor draining."""
        return [name for name, entry in self.nodes.items() if entry.common]

    def not_of(self, publisher: str, sources: Iterable[str]) -> set[str]:
        """Sources that have another publisher, by their entries."""
        known = self.sources
        return {each for each in sources if each in known and known[each].publisher not in ("", publisher)}

    def registry(self, published: Iterable[PublishedType] = ()) -> TypeRegistry:
        """Types that patterns may read: registered ones, and those that detectors publish. Not to be changed."""
        if self._registry is None:
            self._registry = super().registry(self._published.values())
            usable = ((self._registry.find(name), entry) for name, entry in self.types.items())
            self._all_usable = all(each is not None and each.derived == entry.derived for each, entry in usable)
        return self._registry

    def publishers(self, type_name: str, policy: str = "") -> list[str]:
        """Detectors whose composite events are of this type, as far as a detector of this policy may read them.

        Guaranteed detection does not read composite events of other policies: they are never known to be complete.
        """
        return [
            name
            for name in sorted(self._publishers.get(type_name, ()))
            if not policy or may_read(policy, self.detectors[name].policy)
        ]

    def check_published(self, additional: PublishedType, reads: frozenset[str]) -> None:
        """Check that a detector that reads these types may publish this one.

        Raises:
            TypeRegistryError: for a derived type, or one with other attributes.
            PatternError: for a detector that would read, directly or through others, its own composite events.
        """
        registry = self.registry()
        known = registry.find(additional.name)
        if known is not None and known.derived is not None:
            raise derived_error(additional.name)
        published = known_type(registry, additional.name)
        if published is not None:
            published.joined(additional)
        paths: list[tuple[str, ...]] = [(name,) for name in sorted(reads)]
        seen: set[str] = set()
        for path in paths:
            if path[-1] == additional.name:
                circle = " <- ".join((additional.name, *path))
                raise PatternError("patterns that read each other's composite events in a circle", given=circle)
            if path[-1] not in seen:
                seen.add(path[-1])
                sources = [self.detectors[each].reads or () for each in self.publishers(path[-1])]
                paths += [(*path, name) for names in sources for name in names]

    def check_read(self, reads: frozenset[str], policy: str) -> None:
        """Raise `DistcedError` where a pattern reads a type that only detectors of another policy publish."""
        for name in sorted(reads):
            if name not in self.types and self.publishers(name) and not self.publishers(name, policy):
                raise DistcedError(
                    "composite events that are found by best effort cannot be read with guaranteed detection",
                    given=name,
                    advice="take best effort here, too, or have them detected with the guarantee",
                )


_Form: TypeAlias = tuple[frozenset[tuple[str, str]], frozenset[str]]


def _form(entry: DetectorEntry) -> _Form:
    """What a detector says of the type that it publishes."""
    return frozenset(entry.attributes.items()), frozenset(entry.undetermined)


def _published(name: str, form: _Form) -> PublishedType | None:
    """The type of an entry; None where it makes no sense."""
    made = PublishedType(name, dict(sorted(form[0])), form[1])  # type: ignore[arg-type]
    with suppress(TypeRegistryError):
        publish(TypeRegistry(), made)
        return made
    return None


def part_subscription(reader: str, part: str, node: str) -> str:
    """Name of a node's subscription to a part. Two nodes that host the reader for a moment have two.

    Without a dot, so that its topic has no level for a client.
    """
    return f"{reader} {part} {node.replace('%', '%25').replace('.', '%2E')}"


def part_of(subscription: str) -> str:
    """Detector of the part that a node subscribes to by this name; empty for the subscription of an application."""
    return subscription.split(" ")[1] if subscription.count(" ") == 2 else ""

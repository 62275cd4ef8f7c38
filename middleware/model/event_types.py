"""Event types: the attributes events of a type carry, types derived from others, and the registry of known types.

An event type must be registered before events of it can be published or patterns over it be checked
(composite-event-framework-2004, Fig. 5). A type may be *derived*: filtered, with further attributes that are computed,
or throttled to one event per interval and key, the article's "one sighting a minute" (scenario 1). The interval is
aligned to the epoch and not to the first event seen, so that it does not matter where one starts to read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, Literal

import msgspec

from distced.middleware.model.clock_rules import check_clock, is_clock
from distced.middleware.model.errors import EventError, TypeRegistryError
from distced.middleware.model.events import Attribute, Event, check_event

Kind = Literal["number", "string", "boolean"]
KINDS: Final[tuple[Kind, ...]] = ("number", "string", "boolean")

UNKNOWN_TYPE: Final = "unknown event type"
"""Problem of an error about a type that is not registered, perhaps for the moment."""

_NAME = re.compile(r"[^\W\d]\w*")
_MOST_NAMED = 100  # attributes in an error at most
_NAME_BYTES = 200  # at most, because a history has a folder for each type


class Derivation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Derivation of a type from another.

    Attributes:
        base: name of the type it is derived from, derived itself perhaps; or of a clock (`model.clock_rules`).
        where: an expression over the attributes of `base`, as pattern text; empty for every event.
        every: throttle to one event per interval of this many ns, aligned to the epoch; 0 for no throttling.
        by: throttle for each combination of values of these attributes separately.
        quiet: throttle to one event, after which no other passes for this many ns; 0 for no such throttling.
        computed: further attributes with their expressions over the attributes of `base`, as pattern text. Their kinds
            follow from the expressions, so `EventType.attributes` does not have them.
        last: a state, the last event of `base` for each combination of values of `by`.
    """

    base: str
    where: str = ""
    every: int = 0
    by: tuple[str, ...] = ()
    computed: tuple[tuple[str, str], ...] = ()
    quiet: int = 0
    last: bool = False


class EventType(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Type of events.

    Attributes:
        name: an identifier; it is a level of the topics its events travel on.
        attributes: the kind of each attribute by name. Every attribute may be null. None for a derived type has those
            of its base, as where that is a type of composite events, whose attributes are those of its detectors.
        derived: its derivation; None for a type that is published.
        home: URL of its home server; empty for the server it is registered at.
    """

    name: str
    attributes: dict[str, Kind]
    derived: Derivation | None = None
    home: str = ""

    def create(
        self, lo: int, hi: int | None = None, *, source: str, seq: int, attributes: Mapping[str, Attribute]
    ) -> Event:
        """Event of this type at `[lo, hi]` (`hi` is `lo` where it is left out), checked against the type."""
        event = Event(self.name, lo, lo if hi is None else hi, source, seq, dict(attributes))
        self.check(event)
        return event

    def same_as(self, other: EventType) -> bool:
        """Whether events of the two are alike, wherever they are at home."""
        return msgspec.structs.replace(self, home="") == msgspec.structs.replace(other, home="")

    def check(self, event: Event, *, where: str | None = None) -> None:
        """Raise `EventError` for an event of another type: each attribute must be there, known, and of its kind."""
        given = event.attributes
        if len(given) <= len(self.attributes):
            # One with more is wrong anyway, and may have any number of them.
            check_event(event, where=where)
        for name, kind in self.attributes.items():
            if name not in given:
                raise EventError(
                    f"an event of type {self.name!r} lacks the attribute {name!r}",
                    given=", ".join(islice(given, _MOST_NAMED)) or "no attributes",
                    allowed=self._signature(),
                    where=where,
                    advice="give it as null where it is not known",
                )
            value = given[name]
            if value is not None and kind_of(value) != kind:
                raise EventError(
                    f"the attribute {name!r} of type {self.name!r} is a {kind}", given=value, allowed=f"{kind} or null",
                    where=where,
                )  # fmt: skip
        if len(given) > len(self.attributes):
            extra = next(name for name in given if name not in self.attributes)
            raise EventError(
                f"type {self.name!r} has no attribute {extra!r}", given=extra, allowed=self._signature(), where=where
            )

    def _signature(self) -> str:
        return ", ".join(f"{name}: {kind}" for name, kind in self.attributes.items()) or "none"


def kind_of(value: Attribute) -> Kind | None:
    """Kind of an attribute's value; None for null."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "boolean"
    return "string" if isinstance(value, str) else "number"


class TypeRegistry:
    """Registry of event types, by name.

    An `open` registry takes any type and any attribute as known, for patterns over undeclared events (conformance
    cases, a first look at a recording).
    """

    def __init__(self, types: Iterable[EventType] = (), *, open: bool = False) -> None:  # noqa: A002
        self._types: dict[str, EventType] = {}
        # Attributes of an open kind, of the types of composite events that have any.
        self._undetermined: dict[str, frozenset[str]] = (
            dict(types._undetermined) if isinstance(types, TypeRegistry) else {}
        )
        self.open = open
        for event_type in types:
            self.register(event_type)

    def register(self, event_type: EventType) -> None:
        """Register a type. Doing so again changes nothing; a different one of its name is an error."""
        _check_type(event_type)
        if event_type.derived is not None and not event_type.attributes and event_type.derived.base in self._types:
            attributes = self._types[event_type.derived.base].attributes
            event_type = msgspec.structs.replace(event_type, attributes=attributes)
        if event_type.derived is not None:
            base = self._types.get(event_type.derived.base)
            if base is not None and base.derived is not None and base.derived.last:
                raise TypeRegistryError(
                    f"{event_type.name!r} is derived from {base.name!r}, which is a state and has no events of its own",
                    given=base.name,
                    allowed=base.derived.base,
                    advice=f"derive it from {base.derived.base}",
                )
        known = self._types.get(event_type.name)
        if known is not None and not known.same_as(event_type):
            raise TypeRegistryError(
                f"the type {event_type.name!r} is registered already, and differs",
                given=msgspec.json.encode(event_type).decode(),
                allowed=msgspec.json.encode(known).decode(),
                advice="unregister it first, or choose another name",
            )
        if event_type.derived is not None and not self.open:
            self._check_derived(event_type, event_type.derived)
        self._types[event_type.name] = event_type

    def with_checked(
        self, types: Iterable[EventType], undetermined: Mapping[str, frozenset[str]] | None = None
    ) -> TypeRegistry:
        """Copy with further types of other names that are no derived ones, and were checked before: a registry of ten
        thousand is made for each new type. `undetermined` are their attributes of an open kind, by type."""
        made = TypeRegistry(open=self.open)
        made._types = {**self._types, **{each.name: each for each in types}}
        made._undetermined = {**self._undetermined, **(undetermined or {})}
        return made

    def adopt(self, event_type: EventType, undetermined: frozenset[str]) -> None:
        """Register a type of composite events, perhaps in place of what is known of it, with its attributes of an open
        kind; types derived from it have its attributes from now on."""
        _check_type(event_type)
        for name in undetermined:
            _check_name(name)
        self._types[event_type.name] = event_type
        self._undetermined[event_type.name] = undetermined
        for name, other in self._types.items():
            if other.derived is not None and self.root(name) == event_type.name:
                self._types[name] = msgspec.structs.replace(other, attributes=event_type.attributes)

    def undetermined(self, name: str) -> frozenset[str]:
        """Attributes of a type, or of the one that it is derived from, whose kind is open: patterns that publish it do
        not know it."""
        return self._undetermined.get(self.root(name), frozenset()) if self._undetermined else frozenset()

    def unregister(self, name: str) -> EventType:
        """Remove a type and return it; one that others are derived from is an error."""
        event_type = self.get(name)
        for other in self._types.values():
            if other.derived is not None and other.derived.base == name:
                raise TypeRegistryError(
                    f"{other.name!r} is derived from {name!r}", given=name, advice=f"unregister {other.name!r} first"
                )
        del self._types[name]
        self._undetermined.pop(name, None)
        return event_type

    def get(self, name: str) -> EventType:
        """Type of this name, or a `TypeRegistryError` that lists the known ones."""
        try:
            return self._types[name]
        except KeyError:
            raise TypeRegistryError(
                UNKNOWN_TYPE, given=name, allowed=", ".join(sorted(self._types)) or "none is registered yet"
            ) from None

    def find(self, name: str) -> EventType | None:
        """Type of this name, or None."""
        return self._types.get(name)

    def root(self, name: str) -> str:
        """Published type that this one is derived from, directly or not; itself where it is not derived."""
        event_type = self._types.get(name)
        while event_type is not None and event_type.derived is not None:
            name = event_type.derived.base
            event_type = self._types.get(name)
        return name

    def computed(self, name: str) -> frozenset[str]:
        """Computed attributes of a type, those of the types it is derived from among them."""
        found: set[str] = set()
        event_type = self._types.get(name)
        while event_type is not None and event_type.derived is not None:
            found.update(each for each, _ in event_type.derived.computed)
            event_type = self._types.get(event_type.derived.base)
        return frozenset(found)

    def __contains__(self, name: object) -> bool:
        return name in self._types

    def __iter__(self) -> Iterator[EventType]:
        return iter(self._types.values())

    def __len__(self) -> int:
        return len(self._types)

    def _check_derived(self, event_type: EventType, derived: Derivation) -> None:
        base = EventType(derived.base, {}) if is_clock(derived.base) else self.get(derived.base)
        if event_type.attributes != base.attributes:
            raise TypeRegistryError(
                f"the derived type {event_type.name!r} must have the attributes of {base.name!r}",
                given=", ".join(event_type.attributes),
                allowed=", ".join(base.attributes),
            )
        known = {
            **base.attributes,
            **dict.fromkeys(
                (*self.undetermined(base.name), *self.computed(base.name), *(each for each, _ in derived.computed))
            ),
        }
        for name in derived.by:
            if name not in known:
                raise TypeRegistryError(
                    f"{base.name!r} has no attribute to {'keep its last event' if derived.last else 'throttle'} by",
                    given=name,
                    allowed=", ".join(known),
                )


def derive(
    base: EventType,
    name: str,
    *,
    where: str = "",
    every: int = 0,
    by: Iterable[str] = (),
    computed: Iterable[tuple[str, str]] = (),
    quiet: int = 0,
    last: bool = False,
) -> EventType:
    """Type derived from `base`: filtered by an expression, with attributes computed by expressions, throttled to one
    event per `every` nanoseconds and key, or to one and then none for `quiet` nanoseconds; or the state of its last
    event."""
    if not isinstance(base, EventType):
        raise TypeRegistryError(
            "not an event type to derive from", given=repr(base), allowed="an EventType",
            advice="make one with event_type(name, attributes), or read it from the registry",
        )  # fmt: skip
    derived = Derivation(base.name, where, every, tuple(by), tuple(computed), quiet, last)
    return EventType(name, base.attributes, derived, base.home)


def event_type(name: str, attributes: Mapping[str, str] | None = None, *, home: str = "") -> EventType:
    """Type by name and attributes, checked."""
    made = EventType(name, dict(attributes or {}), None, home)  # type: ignore[arg-type]
    _check_type(made)
    return made


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or len(name.encode()) > _NAME_BYTES:
        raise TypeRegistryError(
            "not a name for a type or an attribute", given=name,
            allowed="letters, digits and _, no digit first" + (f", {_NAME_BYTES} bytes" if len(name) > 50 else ""),
        )  # fmt: skip


def clock_type(name: str, clock: str) -> EventType:
    """Type of the events of a clock, by its name in `middleware.model.clock_rules`."""
    made = EventType(name, {}, Derivation(clock))
    _check_type(made)
    return made


def _check_type(event_type: EventType) -> None:
    if event_type.derived is not None and is_clock(event_type.derived.base):
        check_clock(event_type.derived.base)
        if event_type.derived != Derivation(event_type.derived.base):
            raise TypeRegistryError(
                "a clock that is filtered, computed or throttled", given=event_type.name,
                advice="derive another type from it, with where or with",
            )  # fmt: skip
    computed = () if event_type.derived is None else tuple(name for name, _ in event_type.derived.computed)
    if len(set(computed)) < len(computed):
        raise TypeRegistryError("an attribute that is computed twice", given=", ".join(computed))
    for name in (event_type.name, *event_type.attributes, *computed):
        _check_name(name)
    for name, kind in event_type.attributes.items():
        if kind not in KINDS:
            raise TypeRegistryError(
                f"not a kind for the attribute {name!r} of {event_type.name!r}", given=kind, allowed=", ".join(KINDS)
            )
    for interval in () if event_type.derived is None else (event_type.derived.every, event_type.derived.quiet):
        if interval < 0:
            raise TypeRegistryError("not an interval to throttle to", given=interval, allowed="from 0 ns")

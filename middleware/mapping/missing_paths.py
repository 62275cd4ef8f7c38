"""Paths of a mapping without a value in any message so far: misspelt, or of fields that no device sends.

A null is a value that a device may leave out, so one message says nothing; a whole recording does. Paths are probed
until they have had a value once, so a correct mapping costs nothing after its first messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final, NamedTuple

from distced.middleware.mapping.extraction import DeviceMessage, Pick, compile_path, template_paths
from distced.middleware.mapping.schema import AttributeSpec, RuleSpec, TimeSpec, TypeSpec, ValuePath

_NAMES_SHOWN: Final = 10


class Probe(NamedTuple):
    """Path in a rule, with the key where it stands, such as `attributes.room`."""

    key: str
    path: ValuePath
    pick: Pick


@dataclass(slots=True)
class Unseen:
    """Probes of a rule that have not had a value yet.

    Attributes:
        going: of the array or table to go through; probed in all messages the rule is tried on.
        choosing: of the conditions; probed in all elements of these messages.
        reading: of the event; probed in messages the rule applies to.
        latest: by key, the last message without the value.
        looked: by key, number of these messages.
    """

    going: tuple[Probe, ...]
    choosing: tuple[Probe, ...]
    reading: tuple[Probe, ...]
    latest: dict[str, DeviceMessage] = field(default_factory=dict)
    looked: dict[str, int] = field(default_factory=dict)

    def go(self, message: DeviceMessage) -> None:
        """Probe the path of what is gone through."""
        self.going = self._without(self.going, message)

    def choose(self, message: DeviceMessage) -> None:
        """Probe the paths of the conditions."""
        self.choosing = self._without(self.choosing, message)

    def read(self, message: DeviceMessage) -> None:
        """Probe the paths of the event."""
        self.reading = self._without(self.reading, message)

    def _without(self, probes: Sequence[Probe], message: DeviceMessage) -> tuple[Probe, ...]:
        left = []
        for probe in probes:
            if probe.pick(message) is None:
                left.append(probe)
                self.latest[probe.key] = message
                self.looked[probe.key] = self.looked.get(probe.key, 0) + 1
        return tuple(left)


class MissingPath(NamedTuple):
    """Path that had no value in any of the messages its rule was tried on.

    Attributes:
        names: names that the last of these messages has in its place.
    """

    rule: str
    key: str
    path: str
    messages: int
    names: tuple[str, ...]

    def __str__(self) -> str:
        near = get_close_matches(self.path.rpartition(".")[2], self.names, n=1)
        if near:
            advice = f"; did you mean {near[0]!r}?"
        elif self.names:
            more = ", …" if len(self.names) > _NAMES_SHOWN else ""
            advice = f"; the last one has {', '.join(self.names[:_NAMES_SHOWN])}{more}"
        else:
            advice = ""
        number = "the only one" if self.messages == 1 else f"any of {self.messages:,}"
        return f"rule {self.rule}, {self.key}: no value at {self.path!r} in {number}{advice}"


def missing_paths(unseen: Mapping[str, Unseen]) -> list[MissingPath]:
    """Paths of rules, by name, that had no value although they were looked for."""
    return [
        MissingPath(
            rule, probe.key, _text(probe.path), left.looked[probe.key], _names_at(left.latest[probe.key], probe.path)
        )
        for rule, left in unseen.items()
        for probe in (*left.going, *left.choosing, *left.reading)
        if probe.key in left.looked
    ]


def _text(path: ValuePath) -> str:
    return path if isinstance(path, str) else ".".join(path)


def _names_at(message: DeviceMessage, path: ValuePath) -> tuple[str, ...]:
    """Names beside the first step of a path that leads nowhere."""
    first, *rest = path.split(".") if isinstance(path, str) else path
    here: object = message.fields
    steps = [first, *rest]
    if first.startswith("$"):
        here, steps = message.outside.get(first[1:]), rest
    for step in steps:
        if not isinstance(here, Mapping) or step not in here:
            break
        here = here[step]
    return tuple(str(name) for name in here) if isinstance(here, Mapping) else ()


def going_probes(spec: RuleSpec) -> tuple[Probe, ...]:
    """Probe of the array or table that a rule goes through."""
    return tuple(_probes("each", spec.each, None))


def choosing_probes(spec: RuleSpec, groups: frozenset[str]) -> tuple[Probe, ...]:
    """Probes of a rule's conditions; not of fields that are named `groups` of the conditions themselves, or have to be
    absent."""
    found: list[Probe] = []
    for number, condition in enumerate(spec.when, 1):
        if condition.present is not False:
            found += _probes(f"when {number}", condition.path, condition.text, groups)
    return tuple(found)


def reading_probes(spec: RuleSpec, attributes: Mapping[str, AttributeSpec], time: TimeSpec) -> tuple[Probe, ...]:
    """Probes of the event of a rule. The source and a sequence number are left out: their lack is an error."""
    found: list[Probe] = []
    if isinstance(spec.type, TypeSpec):
        found += _probes("type", spec.type.path, spec.type.text)
    for name, each in attributes.items():
        path = [name] if each.path is None and each.text is None else each.path
        found += _probes(f"attributes.{name}", path, each.text)
    found += _probes("time", time.path, time.text)
    found += _probes("time.start", time.start, None)
    found += _probes("time.end", time.end, None)
    for path in () if spec.duplicates is None else spec.duplicates.by:
        found += _probes("duplicates.by", path, None)
    return tuple(found)


def _probes(
    key: str, path: ValuePath | None, text: str | None, besides: frozenset[str] = frozenset()
) -> Iterator[Probe]:
    paths = [path] if path is not None else [] if text is None else list(template_paths(text))
    for each in paths:
        first = each.split(".")[0] if isinstance(each, str) else each[0]
        if first not in besides:
            # Whether a name can follow a $ here was checked where the path is read.
            yield Probe(key, each, compile_path(each, lambda _: True))

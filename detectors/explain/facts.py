"""Inputs, outputs and requirements of a pattern in short: the output of `distced check`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from distced.detectors.automata.automaton import Automaton, AutomatonTimer
from distced.detectors.compiler import Compiled
from distced.detectors.language.derived import throttled_names
from distced.middleware.patterns.printer import format_when


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts of a pattern.

    Attributes:
        publishes: the type of its composite events; empty for one without a name.
        attributes: their kinds by name; None where a kind is not known.
        reads: the types of events it reads, in order; None where `any` leaves that open.
        throttled: how the events it reads are throttled before.
        key: the attributes it is keyed by.
        within: the length of a window around the whole, ns; None for none.
        timers: its time events and when they are due, by name.
        text: the pattern as the printer writes it.
    """

    publishes: str
    attributes: Mapping[str, str | None]
    canonical_id: str
    reads: tuple[str, ...] | None
    throttled: tuple[str, ...]
    key: tuple[str, ...]
    within: int | None
    timers: Mapping[str, str]
    epochs: bool
    text: str

    def as_dict(self) -> dict[str, Any]:
        """The facts as JSON."""
        return {
            "publishes": self.publishes or None,
            "attributes": dict(self.attributes),
            "canonical_id": self.canonical_id,
            "reads": None if self.reads is None else list(self.reads),
            "throttled": list(self.throttled),
            "key": list(self.key),
            "within_ns": self.within,
            "timers": dict(self.timers),
            "consumption": "epoch" if self.epochs else "ordered",
            "text": self.text,
        }

    def signature(self) -> str:
        """The published type, as `Name(attribute: kind)`."""
        attributes = ", ".join(f"{name}: {kind or 'any kind'}" for name, kind in self.attributes.items())
        return f"{self.publishes}({attributes})" if self.publishes else "composite events without a name"


def facts_of(compiled: Compiled, derived: Mapping[str, str] | None = None) -> Facts:
    """The facts of a compiled pattern; `derived` are names of throttled types by mark, where known."""
    automaton, output = compiled.automaton, compiled.publication.output
    names = automaton.type_names()
    described = throttled_names(compiled.throttlings, {})
    known = derived or {}
    kinds = compiled.publishes.attributes
    return Facts(
        publishes="" if output is None else output.type_name,
        attributes={} if output is None else {name: kinds.get(name) for name, _ in output.attributes},
        canonical_id=automaton.canonical_id,
        reads=None if names is None else tuple(sorted(names)),
        throttled=tuple(f"{known[mark]} = {text}" if mark in known else text for mark, text in described.items()),
        key=automaton.key,
        within=automaton.whole_window,
        timers={timer.name: format_when(timer.when) for timer in _timers(automaton)},
        epochs=automaton.epochs,
        text=compiled.text,
    )


def _timers(automaton: Automaton) -> list[AutomatonTimer]:
    return [*automaton.timers, *(timer for part in automaton.inner for timer in _timers(part))]

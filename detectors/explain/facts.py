"""Inputs, outputs and requirements of a pattern in short: the output of `distced check`."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from distced.detectors.automata.automaton import Automaton, AutomatonTimer
from distced.detectors.compiler import Compiled, Consumption, beneath
from distced.detectors.explain.manner import remarks_of
from distced.detectors.language.computed import key_names
from distced.detectors.language.derived import last_values, throttled_names
from distced.detectors.language.private import output_of
from distced.middleware.patterns.printer import format_when


class Facts(msgspec.Struct, frozen=True, rename={"within": "within_ns"}):
    """Facts of a pattern, in JSON as here.

    Attributes:
        publishes: the type of its composite events; None for one without a name.
        attributes: their kinds by name; None where a kind is not known.
        reads: the types of events it reads, in order; None where `any` leaves that open.
        throttled: how the events it reads are throttled before.
        windows: the aggregates over sliding windows that it reads.
        states: the last values that it reads, and what they are of.
        key: the attributes it is keyed by.
        within: the length of a window around the whole, ns; None for none.
        timers: its time events and when they are due, by name.
        manner: how it begins and emits, where that is not as usual.
        private: private publications that it reads, directly or by one another, with their attributes.
        text: the pattern as the printer writes it.
    """

    publishes: str | None
    attributes: Mapping[str, str | None]
    canonical_id: str
    reads: tuple[str, ...] | None
    throttled: tuple[str, ...]
    windows: tuple[str, ...]
    key: tuple[str, ...]
    within: int | None
    timers: Mapping[str, str]
    consumption: Consumption
    text: str
    manner: tuple[str, ...] = ()
    private: tuple[str, ...] = ()
    states: tuple[str, ...] = ()

    def signature(self) -> str:
        """The published type, as `Name(attribute: kind)`."""
        attributes = _attributes(self.attributes)
        if self.publishes:
            return f"{self.publishes}({attributes})"
        return f"composite events without a name ({attributes})" if attributes else "composite events without a name"


def facts_of(compiled: Compiled, derived: Mapping[str, str] | None = None) -> Facts:
    """The facts of a compiled pattern; `derived` are names of throttled types by mark, where known."""
    automaton, output = compiled.automaton, compiled.publication.output
    names = automaton.type_names()
    keys = key_names(compiled.computations)
    described = throttled_names(compiled.throttlings, {}, compiled.computations)
    sliding = {each.mark for each in compiled.throttlings if each.sliding is not None}
    beside = sliding.union(each.mark for each in compiled.throttlings if each.state is not None)
    known = derived or {}
    kinds = compiled.publishes.attributes
    return Facts(
        publishes=None if output is None else output.type_name or None,
        attributes={} if output is None else {name: kinds.get(name) for name, _ in output.attributes},
        canonical_id=automaton.canonical_id,
        reads=None if names is None else tuple(sorted(names)),
        throttled=tuple(
            f"{known[mark]} = {text}" if mark in known else text
            for mark, text in described.items()
            if mark not in keys and mark not in beside
        ),
        windows=tuple(text for mark, text in described.items() if mark in sliding),
        key=tuple(keys.get(name, name) for name in automaton.key),
        within=automaton.whole_window,
        timers={timer.name: format_when(timer.when) for timer in _timers(automaton)},
        consumption="epoch" if automaton.epochs else "ordered",
        text=compiled.text,
        manner=remarks_of(automaton),
        private=tuple(map(_signature, beneath(compiled).values())),
        states=tuple(f"{described[mark]} = {text}" for mark, text in last_values(compiled.throttlings).items()),
    )


def _attributes(kinds: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name}: {kind or 'any kind'}" for name, kind in kinds.items())


def _signature(private: Compiled) -> str:
    output = output_of(private.publication)
    kinds = private.publishes.attributes
    return f"{output.type_name}({_attributes({name: kinds.get(name) for name, _ in output.attributes})})"


def _timers(automaton: Automaton) -> list[AutomatonTimer]:
    return [*automaton.timers, *(timer for part in automaton.inner for timer in _timers(part))]

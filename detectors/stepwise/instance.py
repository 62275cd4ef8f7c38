"""An instance: a partial match on its way through an automaton.

composite-event-framework-2004, "Formal Definition of Automata": a state, a timestamp and a list of detected events,
with bindings, registers, windows and time events beside them (design, section 1). The events matched so far are a chain
from the last to the first, shared between instances that forked.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

from distced.middleware.model.events import Attribute, Event, OrderKey
from distced.middleware.model.timestamps import INSTANT_MAX, INSTANT_MIN

Origin: TypeAlias = tuple[OrderKey, OrderKey | None, int | None]
"""Origin of a match: the order key of its first event, and the two parts of the gap before it."""

Chain: TypeAlias = Any
"""The constituents so far as `(chain before, event)`, the last first; None for none."""


class Instance(msgspec.Struct, eq=False, gc=False):
    """A partial match, held by its pool only; a move creates a new one, or changes this one if nothing of it stays.

    A msgspec struct, because instances are made by the hundred thousand a second; nothing it refers to leads back to
    it.

    Attributes:
        state: the index of the state it is in.
        key: the value of the whole pattern's key; None for a pattern without one.
        chain: the constituents so far.
        lo: the least `lo` of all events matched, hidden ones and time events included, ns.
        last: the event matched last, which the next one has to follow; None only for a start.
        hi: its `hi`, ns.
        bindings: the event bound to each variable.
        registers: the value of each register, then of each inner key; None while an inner key is not entered.
        windows: the least `lo` matched inside each window, ns; None while it is not entered.
        timers: the due instant of each time event, ns; None for one not started.
        bounds: for each `&` the `hi` its second side must strongly follow, ns; None for none.
        spent: the closed values of inner keys, whose instances have split off.
        origin: where it began; None where no derivations are kept.
        alive: False once it has moved or failed; its pending time events then have no effect.
    """

    state: int
    key: object
    chain: Chain
    lo: int
    hi: int
    last: Event | None
    bindings: tuple[Event | None, ...]
    registers: tuple[Attribute, ...]
    windows: tuple[int | None, ...]
    timers: tuple[int | None, ...]
    bounds: tuple[int | None, ...]
    spent: frozenset[tuple[frozenset[int], tuple[object, ...]]]
    origin: Origin | None = None
    alive: bool = True

    def moved(self, state: int, chain: Chain, lo: int, event: Event) -> Instance:
        """The instance after a move that changes only constituents and timestamp."""
        return Instance(
            state,
            self.key,
            chain,
            lo,
            event.hi,
            event,
            self.bindings,
            self.registers,
            self.windows,
            self.timers,
            self.bounds,
            self.spent,
            self.origin,
        )

    def same_as(self, other: Instance) -> bool:
        """Whether the two are equal in all parts; both matched the same event last."""
        return (
            self.state == other.state
            and self.lo == other.lo
            and (self.last is other.last or _same_last(self.last, other.last))
            and self.origin == other.origin
            and self.timers == other.timers
            and self.windows == other.windows
            and self.bounds == other.bounds
            and self.spent == other.spent
            and _same_values(self.registers, other.registers)
            and _same_events(self.bindings, other.bindings)
            and same_chain(self.chain, other.chain)
        )


BEFORE_ALL: Final = INSTANT_MIN - 1
AFTER_ALL: Final = INSTANT_MAX


def chain_events(chain: Chain) -> list[Event]:
    """The events of a chain, in order."""
    events: list[Event] = []
    while chain is not None:
        events.append(chain[1])
        chain = chain[0]
    events.reverse()
    return events


def same_chain(one: Chain, other: Chain) -> bool:
    """Whether two chains hold the same events. Iterative: a chain may be longer than Python's stack."""
    while one is not other:
        if one is None or other is None or one[1].id != other[1].id:
            return False
        one, other = one[0], other[0]
    return True


def _same_last(one: Event | None, other: Event | None) -> bool:
    """Whether two instances have equal last events; only place and type matter, as two parts may end with the same
    event.
    """
    return one is not None and other is not None and one.key == other.key and one.rank == other.rank


def _same_values(one: tuple[Attribute, ...], other: tuple[Attribute, ...]) -> bool:
    return one == other and all(type(a) is type(b) for a, b in zip(one, other, strict=True))


def _same_events(one: tuple[Event | None, ...], other: tuple[Event | None, ...]) -> bool:
    return all(a is b or (a is not None and b is not None and a.id == b.id) for a, b in zip(one, other, strict=True))

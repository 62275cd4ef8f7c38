"""An instance: a partial match on its way through an automaton.

composite-event-framework-2004, "Formal Definition of Automata": state, timestamp and detected events; plus bindings,
registers, windows and time events (design, section 1). Events form a chain from last to first, shared between forks.
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

    A msgspec struct for speed (10^5 instances a second); its references form no cycle.

    Attributes:
        state: index of its state.
        key: key of the whole pattern; None for a pattern without one.
        lo: least `lo` of all matched events, hidden ones and time events included, ns.
        last: last matched event, which the next has to follow; None only for a start; `hi` is its `hi`, ns.
        registers: values of the registers, then of the inner keys, None while an inner key is not entered, then the
            constants of the automaton, which are the same for all.
        windows: least `lo` inside each window, ns; None while not entered.
        timers: due instant of each time event, ns; None if not started.
        bounds: for each `&` the `hi` its second side must strongly follow, ns; None for none.
        spent: closed values of inner keys, whose instances have split off.
        origin: start of the match; None without derivations.
        alive: False once moved or failed; pending time events then have no effect.
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

    def rest(self) -> tuple[object, ...]:
        """What `same_as` compares beside state, `lo`, last event and chain, in a hashable form."""
        registers = self.registers
        return (
            self.origin,
            self.timers,
            self.windows,
            self.bounds,
            self.spent,
            registers,
            tuple(map(type, registers)),
            tuple([None if event is None else event.id for event in self.bindings]),
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
    """Whether last events are equal by place and type, as two parts may end with the same event."""
    return one is not None and other is not None and one.key == other.key and one.rank == other.rank


def _same_values(one: tuple[Attribute, ...], other: tuple[Attribute, ...]) -> bool:
    return one == other and all(type(a) is type(b) for a, b in zip(one, other, strict=True))


def _same_events(one: tuple[Event | None, ...], other: tuple[Event | None, ...]) -> bool:
    return all(a is b or (a is not None and b is not None and a.id == b.id) for a, b in zip(one, other, strict=True))

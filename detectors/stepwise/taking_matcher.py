"""Matcher of a pattern whose matches depend on others: `take`, `consuming`.

cedr-2007, sections 3.2 and 4, instance selection and consumption. Matches that are completed together are gathered
behind the generative states, selected from, and emitted; then instances end that an emitted match excludes. A list of
consumed events is not needed, as new instances bind later events only. Instances are found by the events in their
variables through an index, which is made with the first event that is consumed, and holds ended instances until it is
made once more. Rejected: a search of all instances for each emitted match; selection in the engine, which knows
composite events only, not what their variables are bound to.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from distced.detectors.automata.automaton import TIMER_PREFIX
from distced.detectors.stepwise.composites import Composites
from distced.detectors.stepwise.inner_events import PartMatch
from distced.detectors.stepwise.instance import AFTER_ALL, Chain, Instance, Origin
from distced.detectors.stepwise.instance_store import distinct
from distced.detectors.stepwise.plans import StatePlan
from distced.detectors.stepwise.settled_matcher import SettledMatcher
from distced.middleware.model.events import TIME, Attribute, Event, EventId, OrderKey

_LEAST_INDEX: Final = 1024
"""Number of entries from which an index with many ended instances is dropped."""

_Held: TypeAlias = tuple[EventId, object]
"""An event that a variable is bound to, and the key of the instance: one of a clock is met by those of all keys."""


@dataclass(slots=True)
class _Candidate:
    """A completed match, as `Composites.add` takes it.

    Attributes:
        place: place of the last event before the latest time event: where time events complete matches, the one that
            has completed this one.
        now: the event that has completed it.
        goes_on: the instance that stands there and goes on; None for one that has ended.
    """

    chain: Chain
    lo: int
    hi: int
    bindings: tuple[Event | None, ...]
    registers: tuple[Attribute, ...]
    key: object
    origin: Origin | None
    place: OrderKey | None
    now: Event
    goes_on: Instance | None = None

    def held(self) -> list[_Held]:
        """The events that variables are bound to."""
        return _held(self.bindings, self.key)


class Candidates(Composites):
    """Composite events, selected among those completed together.

    Attributes:
        waiting: matches completed, and not selected yet.
        place: place of the last event before the latest time event; None without one.
    """

    __slots__ = ("place", "waiting")

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.waiting: list[_Candidate] = []
        self.place: OrderKey | None = None

    def add(
        self,
        chain: Chain,
        lo: int,
        hi: int,
        bindings: tuple[Event | None, ...],
        registers: tuple[Attribute, ...],
        key: object,
        origin: Origin | None,
    ) -> bool:
        """Gather a complete match; nothing is emitted yet."""
        begin = self.shown_lo(chain, bindings, lo)
        self.waiting.append(_Candidate(chain, begin, hi, bindings, registers, key, origin, self.place, self.now))
        return False

    def add_standing(self, instance: Instance) -> None:
        """Gather the match of an instance that goes on."""
        self.add(
            instance.chain,
            instance.lo,
            instance.hi,
            instance.bindings,
            instance.registers,
            instance.key,
            instance.origin,
        )
        standing = self.waiting[-1]
        standing.goes_on, standing.now = instance, instance.last or self.now

    def emit(self, each: _Candidate) -> bool:
        """Report a selected match; whether the final filter lets it pass."""
        self.now = each.now
        return super().add(each.chain, each.lo, each.hi, each.bindings, each.registers, each.key, each.origin)

    def selected(self, group: list[_Candidate]) -> list[_Candidate]:
        """What remains of a group after the final filter and all selections."""
        selections = self._output.selections
        if not selections:
            return group
        shown: dict[int, Event] = {}
        if self._condition is not True or any(condition is not None for _, _, condition in selections):
            shown = {id(each): event for each in group if (event := self._shown(each)) is not None}
            group = [each for each in group if id(each) in shown]
        for kind, variable, condition in selections:
            if condition is not None:
                group = [
                    each
                    for each in group
                    if condition is True
                    or (condition is not False and condition(shown[id(each)], each.bindings, each.registers))
                ]
                continue
            places = [(_place(event), each) for each in group if (event := each.bindings[variable]) is not None]
            if places:
                among = [place for place, _ in places]
                wanted = min(among) if kind == "first" else max(among)
                group = [each for place, each in places if place == wanted]
        return group

    def _shown(self, each: _Candidate) -> Event | None:
        """A composite event as conditions read it; None where the final filter rejects it."""
        shown = Event("", each.lo, each.hi, "", 0, {})
        if self._output.attributes:
            values = {name: value(shown, each.bindings, each.registers) for name, value in self._output.attributes}
            shown = Event("", each.lo, each.hi, "", 0, values)
        if self._condition is not True and (
            self._condition is False or not self._condition(shown, each.bindings, each.registers)
        ):
            return None
        return shown


class TakingMatcher(SettledMatcher):
    """Runs one automaton of which only selected matches are emitted, or whose matches end others in progress."""

    __slots__ = ("_consuming", "_entries", "_holders")

    composites: Candidates

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        output = self.automaton.output
        assert output is not None
        source, derivations = options.get("source", ""), options.get("derivations", False)
        self.composites = Candidates(self.automaton, self.plans.output, None, source=source, derivations=derivations)
        self._consuming = output.consuming
        if self._consuming == "all":
            self.store.look_up_by_key()
        # Instances by the events in their variables; None until an event is consumed.
        self._holders: dict[_Held, list[Instance]] | None = None
        self._entries = 0

    # When matches are gathered, and when they are selected.

    def offer(self, event: Event) -> None:
        super().offer(event)
        self._end_group()

    def offer_together(self, events: Iterable[Event]) -> None:
        super().offer_together(events)
        self._end_group()

    def offer_match(self, match: PartMatch) -> None:
        raise TypeError("what selects among matches is detected whole")

    def fire(self, until: int) -> None:
        # Instant by instant: those of one are together.
        while (due := self.store.next_due()) is not None and due <= until:
            super().fire(due)
            self._end_group()

    def end_instant(self) -> None:
        """Select among the matches of a `settled` pattern that are complete at the end of the instant."""
        for each in self._take_reached():
            if each.alive:
                self.composites.add_standing(each)
        if self.composites.waiting:
            self._select()

    def _take(self, instance: Instance, event: Event, plan: StatePlan) -> bool:
        if event.rank == TIME and instance.last is not None:
            self.composites.place = _place(instance.last)
        return super()._take(instance, event, plan)

    def _settle(self, *, one_key: bool = True) -> None:
        if not self._born:
            return
        born = self._born = distinct(self._born)
        super()._settle(one_key=one_key)
        if self._holders is not None:
            self._note(born)
        if not self.automaton.settled:
            for each in self._take_reached():
                self.composites.add_standing(each)

    def _end_group(self) -> None:
        if self.composites.waiting and not self.automaton.settled:
            self._select()

    # Selection, and consumption.

    def _select(self) -> None:
        """Emit what is selected of each group, in order, and end what that excludes."""
        composites, settled = self.composites, self.automaton.settled
        waiting, composites.waiting = composites.waiting, []
        groups: dict[tuple[OrderKey | None, object], list[_Candidate]] = {}
        for each in waiting:
            groups.setdefault((None if settled else each.place, each.key), []).append(each)
        in_order = list(groups.items())
        if len(in_order) > 1 and in_order[0][0][0] is not None:
            in_order.sort(key=_place_of_group)
        consumed: set[_Held] = set()
        ended: set[object] = set()
        for (_, key), group in in_order:
            if key in ended:
                continue
            if consumed:
                group = [each for each in group if consumed.isdisjoint(each.held())]
            group = composites.selected(group)
            if self.automaton.epochs:
                # Of equal composite events the first in the order of consumption counts.
                group.sort(key=_place_of_completion)
            emitted = [each for each in group if composites.emit(each)]
            if self.automaton.once:
                self._renew(emitted)
            if emitted and self._consuming == "all":
                ended.add(key)
            elif self._consuming:
                consumed.update(event for each in emitted for event in each.held())
        for key in ended:
            self._end_all(key)
        if consumed:
            self._end_holders(consumed)

    def _renew(self, emitted: list[_Candidate]) -> None:
        """Begin the next composite event of a `once` pattern where the instance goes on."""
        for each in emitted:
            if (instance := each.goes_on) is not None:
                instance.chain, instance.lo, instance.windows = None, AFTER_ALL, self.root.windows

    def _end_all(self, key: object) -> None:
        """End all instances of a key."""
        for state, pool in enumerate(self.store.pools):
            if bucket := pool.get(key):
                self.store.keep(state, key, bucket, [])

    def _end_holders(self, consumed: set[_Held]) -> None:
        """End the instances that hold one of these events in a variable."""
        if self._holders is None:
            self._holders, self._entries = {}, 0
            self._note(self.store.instances())
        holders = self._holders
        gone = {id(each): each for event in consumed for each in holders.pop(event, ()) if each.alive}
        if gone:
            self.store.leave_out(gone)

    def _note(self, instances: list[Instance]) -> None:
        """Add instances to the index, which is made once more where most of it has ended."""
        holders = self._holders
        assert holders is not None
        for each in instances:
            for event in _held(each.bindings, each.key):
                holders.setdefault(event, []).append(each)
                self._entries += 1
        if self._entries > _LEAST_INDEX + 2 * len(self.automaton.variables) * self.store.live:
            self._holders = None


def _held(bindings: tuple[Event | None, ...], key: object) -> list[_Held]:
    """The events that variables are bound to; a time event is of its instance alone."""
    return [(event.id, key) for event in bindings if event is not None and not _is_timer(event)]


def _is_timer(event: Event) -> bool:
    """Whether it is a time event, of the pattern itself or handed on by a side of a `&`."""
    return event.type[0] == TIMER_PREFIX


def _place(event: Event) -> OrderKey:
    return (event.hi, event.hi, TIME, "", 0) if _is_timer(event) else event.key


def _place_of_completion(each: _Candidate) -> OrderKey:
    return _place(each.now)


def _place_of_group(group: tuple[tuple[OrderKey | None, object], list[_Candidate]]) -> Any:
    return group[0][0]

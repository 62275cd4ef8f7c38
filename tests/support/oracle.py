"""The brute-force reading of design, section 1: slow, literal, and for tests only.

No automaton and no tables: an instance holds the atoms that may match next, each with what comes behind it as a closure
over the syntax tree; every possible beginning is followed through the whole list of events by itself. Keys are read
literally,
too: one instance for every value there is. The engines are held to give the same composite events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import reduce
from math import inf
from typing import Any

import msgspec
from msgspec.structs import replace

from distced.detectors.automata.automaton import due_again, due_instant
from distced.detectors.canonical.form import canonical_id
from distced.detectors.compiler import compile_publication
from distced.detectors.language.aggregates import with_aggregates
from distced.detectors.language.computed import key_names
from distced.detectors.language.derived import needed_throttlings, written_out
from distced.detectors.language.key_output import with_key_registers
from distced.detectors.language.names import all_registers, all_variables, attributes_read
from distced.detectors.language.parser import parse_expression
from distced.detectors.language.private import marked, types_named
from distced.middleware.model.clock_rules import clock_event, is_clock, next_instant
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.events import COMPOSITE, PRIMITIVE, TIME, composite_digest
from distced.middleware.patterns.tree import (
    Alternation,
    Atom,
    Calculated,
    Concatenation,
    Hidden,
    Init,
    Iteration,
    Keyed,
    Output,
    Parallel,
    Pattern,
    Publication,
    Quiet,
    Scope,
    Sequence,
    Timing,
    When,
    Window,
    children,
    expressions_of,
    output_expressions,
    sets_of,
    walk,
)
from distced.middleware.sets import values
from distced.middleware.sets.aggregates import aggregates, is_aggregate, is_sliding, slides
from distced.middleware.sets.describable import AnySet, Difference, Filtered, Intersection, TypeSet, Union, walk_set
from distced.middleware.sets.expressions import Binary, Call, Field, Literal, Moment, Name, Unary, transform, variables
from distced.middleware.sets.expressions import names as bare_names
from distced.middleware.sets.state_reads import over_event, state_of

OTHER = object()
"""The value of a key that no event shows."""

ALL = "\n"
"""Beside a variable: all events that were bound to it. No name begins so."""


class Seen(msgspec.Struct, frozen=True):
    """An event as the oracle sees it: primitive, a composite of a side of `&`, or a time event."""

    type: str
    lo: int
    hi: int
    rank: int
    source: str
    seq: int
    attributes: dict[str, Any]
    constituents: tuple[tuple[str, int], ...] = ()
    bound: dict[str, Any] = msgspec.field(default_factory=dict)
    counted: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def key(self) -> tuple[int, int, int, str, int]:
        return (self.hi, self.lo, self.rank, self.source, self.seq)


class Found(msgspec.Struct, frozen=True):
    """A composite event: constituents in order of consumption, attributes, timestamp."""

    constituents: tuple[tuple[str, int], ...]
    attributes: tuple[tuple[str, Any], ...]
    lo: int
    hi: int


class Around(msgspec.Struct, frozen=True):
    """What an atom stands in."""

    scopes: tuple[tuple[Any, frozenset[str]], ...] = ()
    timers: frozenset[str] = frozenset()
    hidden: bool = False
    windows: tuple[tuple[int, int], ...] = ()
    keys: tuple[tuple[tuple[str, ...], tuple[Any, ...]], ...] = ()


class Thread(msgspec.Struct, frozen=True):
    """Something that may match next, and what comes behind it."""

    what: Any
    around: Around
    strong: bool
    onward: Callable[[], list[list[Any]]]
    enters: tuple[Any, ...] = ()
    arms: tuple[tuple[str, Any], ...] = ()


class Skip(msgspec.Struct, frozen=True):
    """An empty path; strong where it passes a `;`."""

    strong: bool


class Inst(msgspec.Struct):
    threads: list[Thread]
    last: Seen | None = None
    lo: int = 2**63
    matched: tuple[tuple[str, int], ...] = ()
    keys_of: dict[tuple[str, int], Any] = msgspec.field(default_factory=dict)
    bindings: dict[str, Seen] = msgspec.field(default_factory=dict)
    registers: dict[str, Any] = msgspec.field(default_factory=dict)
    timers: dict[str, int] = msgspec.field(default_factory=dict)
    windows: dict[int, int] = msgspec.field(default_factory=dict)
    bound: int | None = None
    # It stands in a generative state that it has reached in this instant.
    due: bool = False


class Candidate(msgspec.Struct):
    """A match that is completed, among others it is selected from.

    Attributes:
        place: of the last event before the time event that has completed it; None for one completed by an event.
        goes_on: the instance that stands there and goes on.
    """

    result: Any
    bindings: dict[str, Seen]
    registers: dict[str, Any]
    shown: Seen
    place: Any = None
    goes_on: Inst | None = None


class Derived:
    """Derived types, read literally: an event is in one under its own attributes, or it is not."""

    def __init__(self, registry: TypeRegistry, events: list[Seen]) -> None:
        self.registry = registry
        self.values = Oracle(Atom(Union(())), None, [])
        self.values.derived = self
        self.events = sorted(events, key=lambda each: each.key)
        self.passed: dict[str, set[tuple[str, int]]] = {}
        for each in registry:
            self.throttle(each.name, events)

    def throttle(self, name: str, events: list[Seen]) -> None:
        """The events that pass, the first of each interval and key, in the order of consumption."""
        found = self.registry.find(name)
        if name in self.passed or found is None or found.derived is None:
            return
        derived = found.derived
        self.throttle(derived.base, events)
        passed = self.passed.setdefault(name, set())
        if not derived.every and not derived.quiet:
            return
        taken: set[Any] = set()
        last: dict[Any, int] = {}
        for event in sorted(events, key=lambda each: each.key):
            view = self.view(name, event, throttled=False)
            if view is None:
                continue
            key = [view.attributes.get(each) for each in derived.by]
            if None in key:
                continue
            values = tuple((type(each) is bool, each) for each in key)
            if derived.quiet:
                if values not in last or event.hi >= last[values] + derived.quiet:
                    last[values] = event.hi
                    passed.add((event.source, event.seq))
            elif (event.hi // derived.every, values) not in taken:
                taken.add((event.hi // derived.every, values))
                passed.add((event.source, event.seq))

    def view(self, name: str, event: Seen, *, throttled: bool = True) -> Seen | None:
        """The event as one of a type; None for one of another."""
        found = self.registry.find(name)
        if found is None or found.derived is None:
            return event if event.type == name else None
        derived = found.derived
        base = self.view(derived.base, event)
        if base is None:
            return None
        if derived.where and self.values.value(parse_expression(derived.where), base, {}, {}) is not True:
            return None
        computed = {
            each: self.values.value(transform(parse_expression(text), self.slid(name, event)), base, {}, {})
            for each, text in derived.computed
        }
        view = replace(base, attributes={**base.attributes, **computed})
        if throttled and (derived.every or derived.quiet):
            # A state that another type reads may be of one that comes behind that type.
            self.throttle(name, self.events)
            if (event.source, event.seq) not in self.passed[name]:
                return None
        return view

    def slid(self, name: str, event: Seen) -> Callable[[Any], Any]:
        """Aggregates over windows in place, over all events of the type and the key up to an event."""
        derived = self.registry.get(name).derived

        def key(view: Seen) -> Any:
            plain = [(each, text) for each, text in derived.computed if not slides(parse_expression(text))]
            own = {each: self.values.value(parse_expression(text), view, {}, {}) for each, text in plain}
            shown = [{**view.attributes, **own}.get(each) for each in derived.by]
            return None if None in shown else [(type(each) is bool, each) for each in shown]

        def change(node: Any) -> Any:
            if not is_sliding(node):
                return node
            aggregate, length = node.arguments
            views = []
            for other in self.events:
                if event.hi - length.value <= other.hi and other.key <= event.key:
                    view = self.view(derived.base, other)
                    if view is not None and (
                        not derived.where or self.values.value(parse_expression(derived.where), view, {}, {}) is True
                    ):
                        views.append(view)
            own = next(each for each in views if (each.source, each.seq) == (event.source, event.seq))
            if key(own) is None:
                return Literal(None)
            every = [self.values.value(aggregate.arguments[0], view, {}, {}) for view in views if key(view) == key(own)]
            return Literal(_slid(aggregate.function, every))

        return change

    def is_state(self, name: str) -> bool:
        found = self.registry.find(name) if name else None
        return found is not None and found.derived is not None and found.derived.last

    def last_value(self, read: Call, event: Seen) -> Any:
        """Last value of a state: of its events before the one at hand, which may count, too, the last with its key."""
        name = state_of(read)
        value, *at = read.arguments
        key = [self.values.value(each, event, {}, {}) for each in at]
        if None in key:
            return None
        last: dict[Any, Any] = {}
        for other in self.events:
            if other.key > event.key or (other.key == event.key and read.function == "last"):
                break
            view = self.view(name, other)
            if view is None:
                continue
            own = [view.attributes.get(each) for each in self.registry.get(name).derived.by]
            shown = tuple((type(each) is bool, each) for each in own)
            if None not in own and shown[: len(key)] == tuple((type(each) is bool, each) for each in key):
                last[shown] = self.values.value(over_event(value, name), view, {}, {})
        match read.function:
            case "all":
                return all(each is True for each in last.values())
            case "count":
                return sum(each is not None for each in last.values())
            case _:
                return next(iter(last.values()), None)

    def views(self, event: Seen) -> list[Seen]:
        """The event as one of each type that it is of."""
        found = (self.view(each.name, event) for each in self.registry if not self.is_state(each.name))
        return [event, *(each for each in found if each is not None)]


class TooLongError(Exception):
    """The oracle is exponential where alternations are iterated; this reading took more steps than it was given."""


class Budget:
    """How many steps are left; shared by the oracles of one reading."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def spend(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise TooLongError


class Oracle:
    """Reads one pattern over one list of events."""

    def __init__(
        self,
        pattern: Pattern,
        output: Output | None,
        events: list[Seen],
        *,
        epochs: bool = False,
        outer_key: tuple[str, ...] = (),
        exports: frozenset[str] = frozenset(),
        budget: Budget | None = None,
        named: frozenset[str] = frozenset(),
        derived: Derived | None = None,
        written: tuple[Pattern, tuple[str, ...]] | None = None,
        handed: tuple[Call, ...] = (),
        once: bool = False,
        settled: bool = False,
        privates: tuple[Seen, ...] = (),
    ) -> None:
        # `any` is every primitive event, and composite ones whose type the whole pattern names anywhere.
        self.named = named or frozenset(
            each.name
            for node in walk(pattern)
            for described in sets_of(node)
            for each in walk_set(described)
            if isinstance(each, TypeSet)
        )
        self.derived = derived
        if derived is not None:
            self.named |= {derived.registry.root(each) for each in self.named}
        # Over published types and with registers for aggregates and the key, for the ids of sides alone.
        if written is None:
            out = written_out(Publication(pattern, output), TypeRegistry() if derived is None else derived.registry)
            # What a state is of is named, too.
            plain = out.publication
            stages = needed_throttlings(out.throttlings, attributes_read(plain.pattern, plain.output))
            self.named |= {each.type_name for each in stages if each.state is not None}
            given = with_aggregates(out.publication)
            registers = with_key_registers(given.pattern, given.output, key_names(out.computations))
            written = registers[0], outer_key
        self.written, self.written_key = written
        self.handed = handed
        self.budget = budget or Budget(10**9)
        self.pattern, self.output, self.epochs = pattern, output, epochs
        self.outer_key, self.exports = outer_key, exports
        self.once, self.settled = once, settled
        self.selects = output is not None and output.selects
        self.group: list[Candidate] = []
        self.place: Any = None
        self.timer_places: dict[str, int] = {}
        for node in walk(pattern):
            if isinstance(node, Timing):
                self.timer_places.setdefault(node.timer, len(self.timer_places))
        self.found: dict[Any, Found] = {}
        self.parts: dict[tuple[int, str], str] = {}
        self.primitives = events
        self.whens = {each.timer: each.when for each in walk(pattern) if isinstance(each, Timing)}
        # Behind the last event a recurring time event comes once more.
        self.last = max((each.hi for each in events if not is_clock(each.type)), default=0)
        self.privates = privates
        self.events = [*events, *privates]
        self.read_sides(pattern, outer_key, self.written, self.written_key)
        self.events.sort(key=lambda e: e.key)
        self.order = {(e.source, e.seq): e.key for e in self.events}

    # The sides of `&` are read first, each on its own.

    def read_sides(self, pattern: Pattern, key: tuple[str, ...], written: Pattern, its_key: tuple[str, ...]) -> None:
        # Aggregates of a side's variables are read behind the `&`, not in the sides beside it.
        own = [each for node in _own(pattern) for each in expressions_of(node)]
        read = (*self.handed, *(each for one in (*own, *output_expressions(self.output)) for each in aggregates(one)))
        joints = zip(_joints(pattern, key), _joints(written, its_key), strict=True)
        for (parallel, keyed), (plain, plainly_keyed) in joints:
            for where, side, its_own in (
                ("left", parallel.left, plain.left),
                ("right", parallel.right, plain.right),
            ):
                made = frozenset((*all_variables(side), *all_registers(side)))
                name = f"&{len(self.parts)}"
                self.parts[id(parallel), where] = name
                inner = Oracle(
                    side,
                    None,
                    self.primitives,
                    epochs=self.epochs,
                    outer_key=keyed,
                    exports=made & (_read_outside(self.pattern, self.output, side) | self.exports),
                    budget=self.budget,
                    named=self.named,
                    derived=self.derived,
                    written=(its_own, plainly_keyed),
                    handed=tuple(dict.fromkeys(each for each in read if variables(each) <= made)),
                    privates=self.privates,
                )
                key_of_side = side_key(its_own, plainly_keyed)
                source = canonical_id(Publication(its_own, None), key=key_of_side, epochs=self.epochs)
                self.events += inner.as_parts(name, source)

    def as_parts(self, name: str, source: str) -> list[Seen]:
        """What a side finds, as events: one for each way at the first moment that hands on something else."""
        parts: dict[Any, Seen] = {}
        firsts: dict[Any, tuple[Any, int]] = {}
        for part in sorted(self.run_all(), key=lambda p: (p[3], p[2].lo)):
            key_values, (bound, counted), found, at = part
            digest = composite_digest(found.constituents, {})
            keys = side_key(self.pattern, self.outer_key)
            attributes = dict(zip(keys, key_values, strict=True))
            moment = (at[0], TIME) if at[2] == TIME else at
            first, lo = firsts.setdefault(digest, (moment, found.lo))
            if moment != first:
                continue
            event = Seen(name, lo, found.hi, COMPOSITE, source, digest, attributes, found.constituents, bound, counted)
            aggregated = [self.carried(each, bound) for each in self.handed]
            parts.setdefault((digest, repr(_carried(bound, counted)), repr(aggregated)), event)
        return list(parts.values())

    # Runs.

    def run(self) -> list[Found]:
        best: dict[Any, Found] = {}
        for _, _, found, _ in sorted(self.run_all(), key=lambda p: (p[3], p[2].lo)):
            best.setdefault((found.constituents, tuple((n, type(v), v) for n, v in found.attributes)), found)
        found = list(best.values())
        return found if self.output is None or self.output.quiet is None else self.spaced(found, self.output.quiet)

    def spaced(self, found: list[Found], quiet: Quiet) -> list[Found]:
        """The composite events that are emitted, where those of the same values are some time apart."""

        def place(each: Found) -> Any:
            constituents = [self.order[one] for one in each.constituents]
            return each.hi, each.lo, constituents, composite_digest((), dict(each.attributes))

        emitted: list[Found] = []
        for each in sorted(found, key=place):
            mine = self.values_by(each, quiet)
            before = [other.hi for other in emitted if self.values_by(other, quiet) == mine]
            if None not in mine and (not before or each.hi - before[-1] >= quiet.length):
                emitted.append(each)
        return emitted

    def values_by(self, found: Found, quiet: Quiet) -> list[Any]:
        values = [dict(found.attributes)[name] for name in quiet.by]
        return [(each,) if isinstance(each, bool) else each for each in values]

    def run_all(self) -> list[Any]:
        pattern, keys, windows = self.pattern, self.outer_key, []
        while isinstance(pattern, Keyed | Window):
            if isinstance(pattern, Keyed):
                keys = (*keys, *(n for n in pattern.attributes if n not in keys))
            else:
                windows.append((-1 - len(windows), pattern.length))
            pattern = pattern.body
        self.results: list[Any] = []
        self.key_names = keys
        choices = self.values_of(keys) if keys else [()]
        for values_of_key in choices:
            if None in values_of_key:
                continue
            around = Around(windows=tuple(windows), keys=((keys, values_of_key),) if keys else ())
            self.key_values = values_of_key
            starts = []
            for alternative in self.enter(pattern, around, lambda: [[Skip(False)]]):
                threads = [t for t in alternative if isinstance(t, Thread)]
                if threads and self.selects:
                    starts.append(Inst(threads))
                elif threads and self.once:
                    # It stands in the start from the origin on, an instance as any other.
                    self.follow(Inst(threads), 0)
                elif threads:
                    self.begin(Inst(threads))
            if starts:
                self.follow_together(starts)
        return self.results

    def values_of(self, names: tuple[str, ...]) -> list[tuple[Any, ...]]:
        """Every value of a key that some event shows; true is not 1."""
        events = [event for event in self.events if event.rank != TIME and not is_clock(event.type)]
        if self.derived is not None:
            events = [view for event in events for view in self.derived.views(event)]
        shown = [tuple(event.attributes.get(name) for name in names) for event in events]
        return list({tuple((type(each) is bool, each) for each in choice): choice for choice in shown}.values())

    def begin(self, start: Inst) -> None:
        # The start state is always active: every event gets its chance, and none of them ends it.
        for index, event in enumerate(self.events):
            for child in self.offer(start, event) or ():
                self.follow(child, self.after_epoch(index))

    def after_epoch(self, index: int) -> int:
        # What two sides of a `&` find alike is one event that is in both sets: it goes together, too.
        at = self.events[index]
        while index < len(self.events) and (
            self.events[index].hi == at.hi if self.epochs else self.events[index].key == at.key
        ):
            index += 1
        return index

    def follow(self, inst: Inst, index: int) -> None:
        while inst.threads:
            event, timer, upto = self.next(inst, index)
            if inst.due and (event is None or inst.last is None or event.hi > inst.last.hi):
                emitted = self.emit(inst.matched, inst.bindings, inst.registers, inst.lo, inst.last)
                inst = replace(inst, due=False)
                if emitted and self.once:
                    inst = replace(inst, lo=2**63, matched=(), windows={})
            if event is None:
                return
            if timer is not None:
                inst = replace(inst, timers={n: d for n, d in inst.timers.items() if n != timer})
                again = due_again(self.whens[timer], event.hi) if event.hi <= self.last else None
                if again is not None:
                    inst.timers[timer] = again
            if timer is None:
                outcomes = [self.offer(inst, each) for each in self.events[index:upto]]
                affected = [each for each in outcomes if each is not None]
                if affected:
                    for children in affected:
                        for child in children:
                            self.follow(child, upto)
                    return
            else:
                children = self.offer(inst, event)
                if children is not None:
                    for child in children:
                        self.follow(child, upto)
                    return
            index = upto

    # Matches that depend on others: all instances of a key, moment by moment.

    def follow_together(self, starts: list[Inst]) -> None:
        live, index, instant = starts if self.once else [], 0, None
        while True:
            due = min((due for inst in live for due in inst.timers.values()), default=None)
            event = self.events[index] if index < len(self.events) else None
            timed = event is None or (due is not None and due < event.hi)
            now = due if timed else event.hi
            if self.settled and instant not in (None, now):
                for inst in live:
                    if inst.due:
                        inst.due = False
                        self.emit(inst.matched, inst.bindings, inst.registers, inst.lo, inst.last, inst)
                live, instant = self.chosen(live), None
                continue
            if now is None:
                return
            instant = now
            if timed:
                live = self.fire_together(live, now)
            else:
                upto = self.after_epoch(index)
                live = self.offer_together(live, [] if self.once else starts, self.events[index:upto])
                index = upto
            if not self.settled:
                live = self.chosen(live)

    def offer_together(self, live: list[Inst], starts: list[Inst], events: list[Seen]) -> list[Inst]:
        staying, born = [], []
        for inst in live:
            affected = [each for event in events if (each := self.offer(inst, event)) is not None]
            born += [child for children in affected for child in children]
            staying += [] if affected else [inst]
        for event in events:
            for start in starts:
                born += self.offer(start, event) or ()
        return [*staying, *born]

    def fire_together(self, live: list[Inst], now: int) -> list[Inst]:
        while (
            place := next((place for place, each in enumerate(live) if now in each.timers.values()), None)
        ) is not None:
            inst = live[place]
            _, _, timer = min((due, self.timer_places[name], name) for name, due in inst.timers.items())
            del inst.timers[timer]
            if now <= self.last and (again := due_again(self.whens[timer], now)) is not None:
                inst.timers[timer] = again
            self.place = inst.last.key
            children = self.offer(inst, Seen(timer, now, now, TIME, "", 0, {}))
            self.place = None
            if children is not None:
                live = [*live[:place], *children, *live[place + 1 :]]
        return live

    def chosen(self, live: list[Inst]) -> list[Inst]:
        groups: dict[Any, list[Candidate]] = {}
        for candidate in self.group:
            groups.setdefault(None if self.settled else candidate.place, []).append(candidate)
        self.group = []
        consumed: set[Any] = set()
        for place in sorted(groups):
            group = [each for each in groups[place] if not consumed & held(each.bindings)]
            for selection in self.output.take:
                group = self.selected(group, selection)
            for each in group:
                self.results.append(each.result)
                if self.once and each.goes_on is not None:
                    each.goes_on.lo, each.goes_on.matched, each.goes_on.windows = 2**63, (), {}
            if group and self.output.consuming == "all":
                return []
            if self.output.consuming:
                consumed = consumed.union(*(held(each.bindings) for each in group))
        return [each for each in live if not consumed & held(each.bindings)]

    def selected(self, group: list[Candidate], selection: Any) -> list[Candidate]:
        name, kind = selection.variable, selection.kind
        if kind == "where":
            condition = selection.condition
            return [each for each in group if self.value(condition, each.shown, each.bindings, each.registers) is True]
        bound = [each.bindings[name].key for each in group if name in each.bindings]
        if kind == "each" or not bound:
            return group
        wanted = min(bound) if kind == "first" else max(bound)
        return [each for each in group if name in each.bindings and each.bindings[name].key == wanted]

    def next(self, inst: Inst, index: int) -> tuple[Seen | None, str | None, int]:
        # Of several due together the outermost is first, whatever their names.
        due = min(((d, self.timer_places[n], n) for n, d in inst.timers.items()), default=None)
        if index < len(self.events) and (due is None or self.events[index].hi <= due[0]):
            return self.events[index], None, self.after_epoch(index)
        if due is None:
            return None, None, index
        return Seen(due[2], due[0], due[0], TIME, "", 0, {}), due[2], index

    # The three rules.

    def offer(self, inst: Inst, event: Seen) -> list[Inst] | None:
        self.budget.spend()
        threads = inst.threads
        strong = all(thread.strong for thread in threads)
        if not self.follows(inst, event, strong):
            return None
        if not any(self.in_domain(inst, event, thread) for thread in threads):
            return None
        second = any(t.what[0] == "second" and event.type == t.what[1] for t in threads if isinstance(t.what, tuple))
        if second and inst.bound is not None and event.lo <= inst.bound:
            return None
        children: list[Inst] = []
        for thread in threads:
            if self.follows(inst, event, thread.strong):
                view = self.labelled(inst, event, thread)
                children += [] if view is None else self.move(inst, view, thread)
        return children

    def follows(self, inst: Inst, event: Seen, strong: bool) -> bool:
        if inst.last is None:
            return True
        if event.rank == TIME:
            return event.hi >= inst.last.hi
        return event.lo > inst.last.hi if strong else event.key > inst.last.key

    def in_domain(self, inst: Inst, event: Seen, thread: Thread) -> bool:
        around = thread.around
        if event.rank == TIME:
            return event.type in around.timers
        registers = self.initialised(inst, thread)
        # Sides of a `&` have numbers, private publications ids.
        if not event.type.startswith("&") or event.type.startswith("&c"):
            for described, timers in around.scopes:
                # What a side takes does not fail the joining state.
                taken = isinstance(thread.what, tuple) and self.taken(thread.what[3], event)
                if not taken and self.views(described, event, inst, registers, timers, around):
                    return True
        if isinstance(thread.what, tuple):
            return event.type in thread.what[2] and self.keyed(event, around)
        described = thread.what.label if thread.what.domain is None else thread.what.domain
        return bool(self.views(described, event, inst, registers, around.timers, around))

    def taken(self, sides: tuple[Pattern, ...], event: Seen) -> bool:
        return any(
            self.may_hold(node.label, event, all_registers(side), True)
            for side in sides
            for node in walk(side)
            if isinstance(node, Atom)
        )

    def may_hold(self, described: Any, event: Seen, registers: tuple[str, ...], unknown: bool) -> list[Seen]:
        """The event as one of a set, where a guard is `unknown`; none for one that is not in it."""

        def held(each: Any) -> list[Seen]:
            return self.may_hold(each, event, registers, unknown)

        match described:
            case TypeSet(name=name):
                return [] if event.rank == TIME else self.of_type(name, event)
            case AnySet():
                return [event] if self.of_any(event) else []
            case Union(members=members):
                return [view for each in members for view in held(each)]
            case Intersection(left=left, right=right):
                return [_both(event, one, other) for one in held(left) for other in held(right)]
            case Difference(left=left, right=right):
                return [] if self.may_hold(right, event, registers, not unknown) else held(left)
            case Filtered(base=base, condition=condition):
                return [view for view in held(base) if self.may_be(condition, view, registers, unknown)]
        raise TypeError(described)

    def may_be(self, condition: Any, event: Seen, registers: tuple[str, ...], unknown: bool) -> bool:
        match condition:
            case Unary(operator="not", operand=operand):
                return not self.may_be(operand, event, registers, not unknown)
            case Binary(operator="and" | "or" as operator, left=left, right=right):
                sides = [self.may_be(each, event, registers, unknown) for each in (left, right)]
                return all(sides) if operator == "and" else any(sides)
        condition = transform(condition, lambda each: self.read_state(each, event))
        if variables(condition) or bare_names(condition) & set(registers):
            return unknown
        return self.value(condition, event, {}, {}) is True

    def read_state(self, expression: Any, event: Seen) -> Any:
        """The last value in place of a state that is read."""
        state = self.derived is not None and self.derived.is_state(state_of(expression))
        return Literal(self.value(expression, event, {}, {})) if state else expression

    def labelled(self, inst: Inst, event: Seen, thread: Thread) -> Seen | None:
        """The event as one of a label; None for one that is not in it."""
        if isinstance(thread.what, tuple):
            return event if event.type == thread.what[1] and self.keyed(event, thread.around) else None
        around = None if event.rank == TIME else thread.around
        registers = self.initialised(inst, thread)
        views = self.views(thread.what.label, event, inst, registers, thread.around.timers, around)
        return views[0] if views else None

    def keyed(self, event: Seen, around: Around) -> bool:
        if is_clock(event.type):
            # It is of every key.
            return True
        for names, wanted in around.keys:
            for name, value in zip(names, wanted, strict=True):
                given = event.attributes.get(name)
                if given is None or not values.same(given, value) if value is not OTHER else True:
                    return False
        return True

    def initialised(self, inst: Inst, thread: Thread) -> dict[str, Any]:
        registers = dict(inst.registers)
        for kind, *what in thread.enters:
            if kind == "init":
                for name, initial in what[0]:
                    registers[name] = self.value(initial, None, inst.bindings, registers)
        return registers

    def move(self, inst: Inst, event: Seen, thread: Thread) -> list[Inst]:
        around = thread.around
        windows = dict(inst.windows)
        for entered in thread.enters:
            if entered[0] == "window":
                windows.pop(entered[1], None)
        for window, length in around.windows:
            windows[window] = min(windows.get(window, event.lo), event.lo)
            if event.hi - windows[window] > length:
                return []
        bindings, registers = dict(inst.bindings), self.initialised(inst, thread)
        bindings |= event.bound
        registers |= event.counted
        matched, keys_of = inst.matched, dict(inst.keys_of)
        if isinstance(thread.what, Atom):
            if thread.what.variable:
                bindings[thread.what.variable] = event
                bindings[ALL, thread.what.variable] = (*bindings.get((ALL, thread.what.variable), ()), event)
            for name, update in thread.what.updates:
                registers[name] = self.value(update, event, bindings, registers)
        if not around.hidden and event.rank != TIME:
            ids = event.constituents if event.type.startswith("&") else ((event.source, event.seq),)
            matched = (*matched, *(each for each in ids if each not in matched))
        bound = inst.bound
        if isinstance(thread.what, tuple):
            first = thread.what[0] == "first"
            bound = inst.last.hi if first and thread.strong and inst.last is not None else None
        lo = min(inst.lo, event.lo)
        children = []
        for alternative in thread.onward():
            renewed = False
            generative = any(isinstance(each, Skip) for each in alternative)
            stands = generative and self.settled and any(isinstance(each, Thread) for each in alternative)
            candidate = None
            if generative and not stands:
                renewed = self.emit(matched, bindings, registers, lo, event) and self.once
                candidate = self.group[-1] if renewed and self.selects else None
            threads = [each for each in alternative if isinstance(each, Thread)]
            if not threads:
                continue
            inside = {timer for each in threads for timer in each.around.timers}
            timers = {name: due for name, due in inst.timers.items() if name in inside}
            for each in threads:
                for name, when in each.arms:
                    due = self.due(when, event, bindings, registers)
                    timers.pop(name, None)
                    if due is not None:
                        timers[name] = due
            since = (2**63, (), {}) if renewed and not self.selects else (lo, matched, windows)
            children.append(
                Inst(threads, event, since[0], since[1], keys_of, bindings, registers, timers, since[2], bound, stands)
            )
            if candidate is not None:
                candidate.goes_on = children[-1]
        return children

    def emit(
        self, matched: Any, bindings: Any, registers: Any, lo: int, event: Seen, goes_on: Inst | None = None
    ) -> bool:
        attributes: dict[str, Any] = {}
        if (self.once or self.selects) and matched:
            # The time of what is not hidden, or in a variable.
            bound = [each.lo for name, each in bindings.items() if name[0] != ALL and each is not None]
            lo = min([*(self.order[each][1] for each in matched), *bound])
        shown = Seen("", lo, event.hi, PRIMITIVE, "", 0, {})
        if self.output is not None:
            keys = dict(zip(self.key_names, self.key_values, strict=True))
            itself = Seen("", lo, event.hi, PRIMITIVE, "", 0, keys)
            for name, value in self.output.attributes:
                attributes[name] = self.value(value, itself, bindings, registers)
            shown = replace(itself, attributes={**keys, **attributes})
            condition = self.output.condition
            if condition is not None and self.value(condition, shown, bindings, registers) is not True:
                return False
        ordered = tuple(sorted(matched, key=lambda each: self.order[each]))
        # At the end of an instant all is one moment.
        moment = (event.hi,) if self.settled else event.key
        exported = (
            {
                n: e
                for n, e in bindings.items()
                if (any(variables(each) == {n[1]} for each in self.handed) if n[0] == ALL else n in self.exports)
            },
            {n: registers.get(n) for n in all_registers(self.pattern) if n in self.exports},
        )
        result = (self.key_values, exported, Found(ordered, tuple(attributes.items()), lo, event.hi), moment)
        if self.selects:
            self.group.append(Candidate(result, bindings, registers, shown, self.place, goes_on))
        else:
            self.results.append(result)
        return True

    # Ways into a pattern.

    def enter(self, pattern: Pattern, around: Around, onward: Callable[[], list[list[Any]]]) -> list[list[Any]]:
        """Alternatives; an empty path shows as a `Skip`, which whoever is around replaces by what comes behind."""
        self.budget.spend()
        match pattern:
            case Atom():
                return [[Thread(pattern, around, False, onward)]]
            case Concatenation(parts=parts):
                return self.enter_joined(list(parts), around, onward, False)
            case Sequence(parts=parts):
                return self.enter_joined(list(parts), around, onward, True)
            case Alternation(parts=parts):
                return [each for part in parts for each in self.enter(part, around, onward)]
            case Iteration(body=body, least=least, most=most):
                return self.enter_iteration(body, least, most, around, onward)
            case Scope(body=body, domain=domain):
                return self.enter(body, replace(around, scopes=(*around.scopes, (domain, around.timers))), onward)
            case Hidden(body=body):
                return self.enter(body, replace(around, hidden=True), onward)
            case Window(body=body, length=length):
                inside = replace(around, windows=(*around.windows, (id(pattern), length)))
                return _mark(self.enter(body, inside, onward), ("window", id(pattern)))
            case Init(registers=registers, body=body):
                return _mark(self.enter(body, around, onward), ("init", registers))
            case Keyed(body=body, attributes=names):
                result = []
                for choice in [*(c for c in self.values_of(names) if None not in c), (OTHER,) * len(names)]:
                    result += self.enter(body, replace(around, keys=(*around.keys, (names, choice))), onward)
                return result
            case Timing(first=first, second=second, timer=timer, when=when):
                inside = replace(around, timers=around.timers | {timer})

                def between() -> list[list[Any]]:
                    paths = self.enter(second, inside, onward)
                    armed = [
                        [replace(t, arms=(*t.arms, (timer, when))) if isinstance(t, Thread) else t for t in w]
                        for w in paths
                    ]
                    return _fill(armed, onward)

                return self.enter(first, around, between)
            case Parallel():
                left, right = self.parts[id(pattern), "left"], self.parts[id(pattern), "right"]

                sides = (pattern.left, pattern.right)

                def then(other: str) -> Callable[[], list[list[Any]]]:
                    return lambda: [[Thread(("second", other, (other,), sides), around, False, onward)]]

                return [
                    [
                        Thread(("first", left, (left, right), sides), around, False, then(right)),
                        Thread(("first", right, (left, right), sides), around, False, then(left)),
                    ]
                ]
        raise TypeError(pattern)

    def enter_joined(self, parts: list[Pattern], around: Around, onward: Any, strong: bool) -> list[list[Any]]:
        head, rest = parts[0], parts[1:]
        if not rest:
            return self.enter(head, around, onward)

        def behind() -> list[list[Any]]:
            paths = self.enter_joined(rest, around, onward, strong)
            return _fill(_strong(paths) if strong else paths, onward)

        paths = self.enter(head, around, behind)
        if not any(isinstance(each, Skip) for path in paths for each in path):
            return paths
        second = self.enter_joined(rest, around, onward, strong)
        second = _strong(second) if strong else second
        return _fill(paths, lambda: second)

    def enter_iteration(
        self, body: Pattern, least: int, most: int | None, around: Around, onward: Any
    ) -> list[list[Any]]:
        def path(done: int) -> list[list[Any]]:
            if most is not None and done >= most:
                return [[Skip(False)]]
            into = self.enter(body, around, lambda: _fill(path(done + 1), onward))
            if done >= least:
                return [[*each, Skip(False)] for each in into]
            # A round that matches nothing counts as a round.
            return _fill(into, lambda: path(done + 1))

        return path(0)

    # Sets and expressions.

    def views(
        self,
        described: Any,
        event: Seen,
        inst: Inst,
        registers: dict[str, Any],
        timers: frozenset[str],
        around: Around | None,
    ) -> list[Seen]:
        """The event as one of a set, with a value of the key; none for one that is not in it."""

        def held(each: Any) -> list[Seen]:
            return self.views(each, event, inst, registers, timers, None)

        match described:
            case TypeSet(name=name):
                found = self.of_type(name, event) if event.rank != TIME or name in timers else []
            case AnySet():
                found = [event] if self.of_any(event) else []
            case Union(members=members):
                found = [view for each in members for view in held(each)]
            case Intersection(left=left, right=right):
                found = [_both(event, one, other) for one in held(left) for other in held(right)]
            case Difference(left=left, right=right):
                found = [] if held(right) else held(left)
            case Filtered(base=base, condition=condition):
                found = [view for view in held(base) if self.value(condition, view, inst.bindings, registers) is True]
            case _:
                raise TypeError(described)
        return [view for view in found if around is None or self.keyed(view, around)]

    def of_type(self, name: str, event: Seen) -> list[Seen]:
        if self.derived is None or event.rank == TIME:
            return [event] if event.type == name else []
        view = self.derived.view(name, event)
        return [] if view is None else [view]

    def of_any(self, event: Seen) -> bool:
        return (event.rank == PRIMITIVE and not is_clock(event.type)) or (
            event.rank == COMPOSITE and event.type in self.named
        )

    def aggregate(self, aggregate: Call, bindings: dict[Any, Any]) -> Any:
        """An aggregate, from all the events that were bound to its variable."""
        argument, *rest = aggregate.arguments
        (variable,) = variables(argument)
        every = [self.value(argument, None, {variable: each}, {}) for each in bindings.get((ALL, variable), ())]
        known = [each for each in every if each is not None]
        numbers = [each for each in known if type(each) in (int, float)]
        alike = [each for each in known if values.comparable(known[0], each)]
        place = rest[0].value if rest else 0
        match aggregate.function:
            case "count":
                return len(known)
            case "sum":
                return reduce(values.add, numbers, 0)
            case "avg":
                return values.divide(reduce(values.add, numbers, 0), len(numbers))
            case "min":
                return min(alike, default=None)
            case "max":
                return max(alike, default=None)
            case "first":
                return every[0] if every else None
            case "last":
                return every[-1] if every else None
            case "nth":
                there = len(every) >= abs(place)
                return every[place - 1 if place > 0 else place] if there else None
            case "distinct":
                different = [each for at, each in enumerate(known) if not any(values.same(each, o) for o in known[:at])]
                return min(len(different), place)
            case "collect":
                items = ", ".join(values.json_text(each) for each in known[:place])
                return f"[{items}]"
        raise TypeError(aggregate)

    def carried(self, aggregate: Call, bindings: dict[Any, Any]) -> Any:
        """What a side hands on of an aggregate: of a mean the sum and the number of its values."""
        if aggregate.function != "avg":
            return self.aggregate(aggregate, bindings)
        argument = Binary("*", aggregate.arguments[0], Literal(1))
        return [self.aggregate(Call(each, (argument,)), bindings) for each in ("sum", "count")]

    def due(self, when: When, event: Seen, bindings: dict[str, Seen], registers: dict[str, Any]) -> int | None:
        if not isinstance(when, Calculated):
            return due_instant(when, event.hi)
        delay = self.value(when.delay, event, bindings, registers)
        if type(delay) not in (int, float) or not 0 <= delay < 2**63 or event.hi + int(delay) >= 2**63:
            return None
        return event.hi + int(delay)

    def value(self, expression: Any, event: Seen | None, bindings: dict[str, Any], registers: dict[str, Any]) -> Any:
        if self.derived is not None and self.derived.is_state(name := state_of(expression)) and name not in bindings:
            return self.derived.last_value(expression, event)
        if is_aggregate(expression):
            return self.aggregate(expression, bindings)

        def of(each: Any) -> Any:
            return self.value(each, event, bindings, registers)

        match expression:
            case Literal(value=value):
                return value
            case Name(name=name):
                return registers[name] if name in registers else event.attributes.get(name) if event else None
            case Field(variable=variable, attribute=attribute):
                return bindings[variable].attributes.get(attribute) if variable in bindings else None
            case Moment(end=end, variable=variable):
                at = bindings.get(variable) if variable else event
                return getattr(at, end) if at is not None else None
            case Unary(operator="not", operand=operand):
                return of(operand) is not True
            case Unary(operand=operand):
                return values.negate(of(operand))
            case Binary(operator="and", left=left, right=right):
                return of(left) is True and of(right) is True
            case Binary(operator="or", left=left, right=right):
                return of(left) is True or of(right) is True
            case Binary(operator=operator, left=left, right=right):
                return values.BINARY[operator](of(left), of(right))
            case Call(function="if", arguments=(condition, then, otherwise)):
                return of(then) if of(condition) is True else of(otherwise)
            case Call(function="in", arguments=(sought, *options)):
                return any(values.same(of(sought), of(each)) for each in options)
            case Call(function=function, arguments=arguments):
                return values.FUNCTIONS[function].compute(*map(of, arguments))
        raise TypeError(expression)


def read(
    publication: Publication,
    events: Iterable[Seen],
    *,
    epochs: bool = False,
    steps: int = 10**9,
    registry: TypeRegistry | None = None,
) -> list[Found]:
    """The composite events of a pattern in a list of events; `TooLongError` where that takes more steps. The registry
    is for derived types."""
    events = [*(given := list(events)), *ticks(publication, given, registry)]
    derived = None if registry is None else Derived(registry, events)
    budget = Budget(steps)
    ids = private_ids(publication, epochs=epochs, registry=registry) if publication.privates else {}
    marks = {name: f"&{identity}" for name, identity in ids.items()}
    privates: list[Seen] = []

    def oracle(each: Publication) -> Oracle:
        return Oracle(
            marked(each.pattern, marks),
            each.output,
            events,
            epochs=each.consumption == "epoch" or (epochs and each.consumption != "ordered"),
            budget=budget,
            derived=derived,
            once=each.once,
            settled=each.settled,
            privates=tuple(privates),
        )

    # Private publications first, on their own: their events join the others.
    for each in publication.privates:
        assert each.output is not None
        # Without an id it is read where nothing can match alone.
        identity = ids.get(each.output.type_name)
        if identity is None:
            continue
        for found in oracle(each).run():
            attributes = dict(found.attributes)
            seq = composite_digest(found.constituents, attributes)
            kind, source = f"&{identity}", identity
            seen = Seen(kind, found.lo, found.hi, COMPOSITE, source, seq, attributes, found.constituents)
            if seen not in privates:
                privates.append(seen)
    return oracle(publication).run()


def ticks(publication: Publication, events: list[Seen], registry: TypeRegistry | None) -> list[Seen]:
    """The events of the clocks that a pattern names, from the first event on; behind the last they come once more."""
    named = {name for each in (publication, *publication.privates) for name in types_named(each.pattern)}
    roots = {name if registry is None else registry.root(name) for name in named}
    found: list[Seen] = []
    # What is found at the end of a recording, by clocks or time events, does not lengthen it.
    last = max((each.hi for each in events if each.rank == PRIMITIVE), default=0)
    for name in filter(is_clock, roots if events else ()):
        instant = min(each.hi for each in events) - 1
        while instant <= last and (following := next_instant(name, instant)) is not None:
            instant = following
            event = clock_event(name, instant)
            found.append(Seen(event.type, event.lo, event.hi, PRIMITIVE, event.source, event.seq, {}))
    return found


def private_ids(publication: Publication, *, epochs: bool, registry: TypeRegistry | None) -> dict[str, str]:
    """Canonical ids of private publications by name: they break ties."""
    found: dict[str, str] = {}
    waiting = [compile_publication(publication, registry, consumption="epoch" if epochs else "ordered")]
    while waiting:
        for each in waiting.pop().privates:
            assert each.publication.output is not None
            found[each.publication.output.type_name] = each.canonical_id
            waiting.append(each)
    return found


def _rounded(exact: Fraction) -> float:
    """The float next to a number."""
    try:
        return float(exact)
    except OverflowError:
        return inf if exact > 0 else -inf


def _slid(function: str, every: list[Any]) -> Any:
    """An aggregate of values; sums are exact and rounded once."""
    known = [each for each in every if each is not None]
    numbers = [each for each in known if type(each) in (int, float)]
    infinite = [each for each in numbers if abs(each) == inf]
    exact = sum(map(Fraction, [] if infinite else numbers), Fraction(0))
    if infinite and function in ("sum", "avg"):
        return values.number(sum(infinite))
    match function:
        case "count":
            return len(known)
        case "sum":
            return values.number(int(exact)) if all(type(each) is int for each in numbers) else _rounded(exact)
        case "avg":
            return _rounded(exact / len(numbers)) if numbers else None
        case "min":
            return min(numbers, default=None)
        case "max":
            return max(numbers, default=None)
        case "first":
            return every[0]
        case _:
            return len({(type(each) is bool, each) for each in known})


def _both(event: Seen, one: Seen, other: Seen) -> Seen:
    """An event as one of two sets."""
    own = event.attributes
    changed = {
        name: value
        for view in (one, other)
        for name, value in view.attributes.items()
        if name not in own or value is not own[name]
    }
    return replace(event, attributes={**own, **changed})


def _own(pattern: Pattern) -> Iterator[Pattern]:
    """A pattern and those in it, without the sides of `&`."""
    yield pattern
    if not isinstance(pattern, Parallel):
        for child in children(pattern):
            yield from _own(child)


def _joints(pattern: Pattern, key: tuple[str, ...]) -> Iterator[tuple[Parallel, tuple[str, ...]]]:
    """The `&` in a pattern that are in no side of another, with their keys."""
    if isinstance(pattern, Parallel):
        yield pattern, key
        return
    if isinstance(pattern, Keyed):
        key = (*key, *(name for name in pattern.attributes if name not in key))
    for child in children(pattern):
        yield from _joints(child, key)


def _read_outside(pattern: Pattern, output: Output | None, side: Pattern) -> frozenset[str]:
    """Variables and bare names that are read outside of a side, other than all events of a variable together."""
    found: set[str] = set()

    def single(node: Any) -> Any:
        if not is_aggregate(node):
            return node
        last = node.function == "last" or node.arguments[1:] == (Literal(-1),)
        return node.arguments[0] if last else Literal(None)

    def collect(part: Pattern) -> None:
        if part is not side:
            for expression in expressions_of(part):
                add(expression)
            for child in children(part):
                collect(child)

    def add(expression: Any) -> None:
        plain = transform(expression, single)
        found.update(variables(plain) | bare_names(plain))

    collect(pattern)
    for each in output_expressions(output):
        add(each)
    if output is not None and output.consuming == "variables":
        found |= set(all_variables(pattern))
    return frozenset(found)


def held(bindings: dict[Any, Any]) -> set[Any]:
    """Ids of the events that variables are bound to; a time event is the instance's own."""
    bound = (each for name, each in bindings.items() if name[0] != ALL)
    return {(each.source, each.seq) for each in bound if each.rank != TIME}


def _carried(bound: dict[Any, Any], counted: dict[str, Any]) -> Any:
    events = sorted((name, (event.source, event.seq)) for name, event in bound.items() if name[0] != ALL)
    return events, sorted((name, repr(value)) for name, value in counted.items())


def side_key(side: Pattern, outer: tuple[str, ...]) -> tuple[str, ...]:
    """What a side of a `&` is keyed by altogether."""
    keys = outer
    while isinstance(side, Keyed | Window):
        if isinstance(side, Keyed):
            keys = (*keys, *(n for n in side.attributes if n not in keys))
        side = side.body
    return keys


def _strong(paths: list[list[Any]]) -> list[list[Any]]:
    return [[replace(each, strong=True) for each in path] for path in paths]


def _mark(paths: list[list[Any]], entered: Any) -> list[list[Any]]:
    return [[replace(t, enters=(entered, *t.enters)) if isinstance(t, Thread) else t for t in path] for path in paths]


def _fill(paths: list[list[Any]], onward: Callable[[], list[list[Any]]]) -> list[list[Any]]:
    """Put what comes behind in the place of empty paths, in every combination of alternatives."""
    result = []
    for path in paths:
        skips = [each for each in path if isinstance(each, Skip)]
        threads = [each for each in path if isinstance(each, Thread)]
        if not skips:
            result.append(path)
            continue
        for behind in onward():
            merged: list[Any] = list(threads)
            for skip in skips:
                merged += [replace(each, strong=each.strong or skip.strong) for each in behind]
            result.append(merged)
    return result

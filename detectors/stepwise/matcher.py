"""Matcher: run of one automaton, with events offered to instances, and time events fired.

Design, section 1, "Automata", rules 1 to 3, in order of consumption; late events go to instances they still follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from distced.detectors.automata.automaton import Automaton, timer_type
from distced.detectors.limits import (
    BIRTH,
    TOGETHER,
    UNBOUNDED,
    UNLIMITED,
    Limits,
    too_long_text,
    too_many_instances,
    too_many_time_events,
    too_much_work,
)
from distced.detectors.stepwise.composites import Composites
from distced.detectors.stepwise.inner_events import PartEvent, PartMatch, TimeEvent
from distced.detectors.stepwise.instance import AFTER_ALL, BEFORE_ALL, Instance
from distced.detectors.stepwise.instance_store import InstanceStore
from distced.detectors.stepwise.plans import (
    KeyGroup,
    MovePlan,
    StatePlan,
    TypePlan,
    assigned,
    initialised,
    kept_registers,
    planner_of,
    timers_after,
)
from distced.detectors.stepwise.provenance import StartGaps, start_recorded
from distced.detectors.stepwise.quiet_time import QuietTime
from distced.middleware.model.clock_rules import is_clock
from distced.middleware.model.errors import LimitError
from distced.middleware.model.event_types import Kind
from distced.middleware.model.events import PRIMITIVE, TIME, Attribute, Event
from distced.middleware.patterns.tree import Recurring

# In a bucket with fewer instances it costs more to look for those whose window has closed than it saves.
_CROWD: Final = 8
# Of all matchers without new instances; nothing is put into it.
_NONE_BORN: Final[list[Instance]] = []
_NO_ATTRIBUTES: Final[dict[str, Attribute]] = {}
_NOTHING_SPENT: Final[frozenset[tuple[frozenset[int], tuple[object, ...]]]] = frozenset()
_NO_TIMERS: Final[frozenset[int]] = frozenset()


ALL_KEYS: Final = object()
"""Key of the events of clocks in patterns with a key."""


def _key_or_all(key_of: Callable[[Event], object]) -> Callable[[Event], object]:
    return lambda event: ALL_KEYS if is_clock(event.type) else key_of(event)


class Matcher:
    """Runs one automaton.

    Attributes:
        automaton: without constants of its own, the same for all patterns of a shape.
        constants: of the pattern, in the order of the parameters.
        plans: effects of events by type.
        latest: latest offered event, perhaps without its attributes; None before the first.
        late: number of late events.
        touched: examined pairs of an instance and an event with its key, and wait key, that its state's plan reads,
            without those that one test of the event has settled; the start counts as one, with events that begin a
            match; instances that are swept count once. So it is the same where the engine is not called for events
            that change nothing. 0 after a snapshot.
        gaps: gap before every possible match; None without derivations.
        root: the start, as the instance all others come from.
        begun: of a `once` pattern the keys with an instance that stands in the start, or has left it; else None.
        begins_at: `touched` from which the next call is to begin to count; before, most of its work is left.
        limits: of the detector; work beyond them raises `LimitError` amid an event, and the matcher is then unusable.
        key_of: gives the key of the whole pattern; None for a pattern without one.
        quiet: stage behind the composite events (`at most`); None for none.
    """

    # A node has ten thousand of them.
    __slots__ = (
        "_born",
        "_by_type",
        "_key_attribute",
        "_latest_hi",
        "_most",
        "_recurring",
        "_splits",
        "_stop",
        "_window",
        "automaton",
        "begins_at",
        "begun",
        "composites",
        "constants",
        "ended",
        "gaps",
        "key_of",
        "late",
        "latest",
        "limits",
        "plans",
        "quiet",
        "root",
        "store",
        "touched",
    )

    def __init__(
        self,
        automaton: Automaton,
        kinds: Callable[[str], Mapping[str, Kind] | None] = lambda _: None,
        *,
        source: str = "",
        constants: tuple[Attribute, ...] = (),
        own_type: str | None = None,
        derivations: bool = False,
    ) -> None:
        """Args: source: canonical id of the pattern; empty for that of the automaton. constants: of its parameters."""
        self.automaton = automaton
        self.constants = constants
        self.gaps = StartGaps() if derivations else None
        self.latest: Event | None = None
        self.late = 0
        self.touched = 0
        self.plans = planner_of(automaton, kinds)
        self._by_type = self.plans.by_type
        self._window = self.plans.window
        # A gap before open matches is that of a key, for which instances are found by it.
        waits = None if derivations and automaton.key else self.plans.waits
        self.store = InstanceStore(
            len(automaton.states), self._window, waits, timed=bool(automaton.timers or automaton.ends_otherwise)
        )
        self.quiet = None if automaton.quiet is None else QuietTime(automaton.quiet)
        self._latest_hi = BEFORE_ALL
        # Whether the input has ended, so that no time event recurs.
        self.ended = False
        self._recurring = _NO_TIMERS
        if automaton.timers:
            timers = enumerate(automaton.timers)
            self._recurring = frozenset(place for place, each in timers if isinstance(each.when, Recurring))
        self._born = _NONE_BORN
        self.limits = UNLIMITED
        # Instances that one event may concern, and `touched` at which the work of this call is beyond the limit.
        self._most = self._stop = self.begins_at = UNBOUNDED
        self._splits: dict[int, tuple[Instance, set[tuple[frozenset[int], tuple[object, ...]]]]] | None = None
        self.key_of = self.plans.key_of
        self._key_attribute = self.plans.key_attribute
        self.root = Instance(
            -1,
            None,
            None,
            AFTER_ALL,
            BEFORE_ALL,
            None,
            (None,) * len(automaton.variables),
            self.plans.nothing + constants,
            (None,) * len(automaton.windows),
            (None,) * len(automaton.timers),
            (None,) * automaton.joints,
            _NOTHING_SPENT,
        )
        self.composites = Composites(automaton, self.plans.output, own_type, source=source, derivations=derivations)
        self.begun: set[object] | None = None
        if automaton.once:
            self.begun = set()
            if self.key_of is None:
                self._stand(None)
            else:
                self.key_of, self._key_attribute = self._key_that_stands, None
        if automaton.clocks and self.key_of is not None:
            self.key_of, self._key_attribute = _key_or_all(self.key_of), None

    # The start of a `once` pattern.

    def _key_that_stands(self, event: Event) -> object:
        """The key of an event, with an instance that stands in the start where it is the first of its key there."""
        assert self.plans.key_of is not None and self.begun is not None
        key = self.plans.key_of(event)
        if key is not None and key not in self.begun and (plan := self.plans.of(event.type)) and plan.stands:
            self._stand(key)
        return key

    def _stand(self, key: object) -> None:
        """Put an instance of a key into each start state."""
        assert self.begun is not None
        self.begun.add(key)
        if len(self.begun) > self.limits.instances:
            raise too_many_instances(self.limits, len(self.begun))
        root = self.root
        for state in self.automaton.starts:
            self.store.add(
                Instance(
                    state,
                    key,
                    None,
                    AFTER_ALL,
                    BEFORE_ALL,
                    None,
                    root.bindings,
                    root.registers,
                    root.windows,
                    root.timers,
                    root.bounds,
                    _NOTHING_SPENT,
                )
            )

    def stand_again(self, keys: Iterable[object]) -> None:
        """Resume a `once` pattern with the keys that have begun; its instances are still to be added."""
        self.begun = set(keys)
        self.store.clear()

    # Limits.

    def limit(self, limits: Limits) -> None:
        """Set the limits."""
        self.limits, self._most = limits, limits.work
        self.store.limit(limits)
        self.composites.limit(TOGETHER * limits.work)
        self.begin()

    def begin(self) -> None:
        """Begin to count the work of events consumed in one go."""
        self.begins_at = self.touched + self._most
        self._stop = self.touched + TOGETHER * self._most

    def _count(self, size: int) -> None:
        """Count instances that an event is offered to."""
        self.touched += size
        if size > self._most or self.touched > self._stop:
            raise self._overworked(size)

    def _overworked(self, size: int) -> LimitError:
        if size > self._most:
            return too_much_work(size, self._most)
        allowed = TOGETHER * self._most
        return too_much_work(self.touched - self._stop + allowed, allowed, together=True)

    # What is offered.

    def offer(self, event: Event) -> None:
        """Consume an event by itself, after every event offered before it."""
        try:
            plan = self._by_type[event.type]
        except KeyError:
            plan = self.plans.of(event.type)
        hi = event.hi
        if hi <= self._latest_hi and self.latest is not None and event.key <= self.latest.key:
            self._offer_late(event, plan)
            return
        self._latest_hi = hi
        self.latest = event
        if plan is None:
            return
        self.composites.now = event
        key: object = None
        if self._key_attribute is not None:
            # What `self.key_of` does for a single attribute, without a call.
            key = event.attributes.get(self._key_attribute)
            if key is None:
                return
            if key.__class__ is bool:
                key = (key,)
        elif self.key_of is not None:
            key = self.key_of(event)
            if key is None:
                return
            if key is ALL_KEYS:
                self._offer_to_all(event, plan)
                return
        pools, waits = self.store.pools, self.store.waits
        for index, state in plan.visits:
            place = key
            if waits is not None and (wait := waits[index]) is not None:
                place = wait.of_event(key, event)
            bucket = pools[index].get(place)
            if bucket:
                plain = state.plain
                if plain:
                    self.touched += (size := len(bucket))
                else:
                    if state.reads is not None and not state.reads(event, self.root.bindings, self.root.registers):
                        continue
                    self.touched += (size := len(bucket))
                    if bucket[0].lo < hi - self._window:
                        # What has run out of its window would be looked at with every event.
                        bucket = self.store.shed(index, place, bucket, hi - self._window)
                        size = len(bucket)
                if size > _CROWD:
                    if size > self._most or self.touched > self._stop:
                        raise self._overworked(size)
                    if BIRTH * size * len(state.leaving) > self._most:
                        # What is born is counted one by one.
                        plain = False
                if plain:
                    kept = self._take_plain(bucket, event, state)
                else:
                    kept = [instance for instance in bucket if not self._take(instance, event, state)]
                if len(kept) != len(bucket):
                    self.store.keep(index, place, bucket, kept)
        if plan.looks:
            self._start(event, plan, key)
        if self._born:
            self._settle()
        if self._splits:
            self._settle_splits()

    def _offer_to_all(self, event: Event, plan: TypePlan) -> None:
        """Offer the event of a clock to the instances of all keys."""
        pools = self.store.pools
        # It is one event, however many keys there are.
        self._count(sum(len(bucket) for index, _ in plan.visits for bucket in pools[index].values()))
        for index, state in plan.visits:
            for place, bucket in list(pools[index].items()):
                kept = [instance for instance in bucket if not self._take(instance, event, state)]
                if len(kept) != len(bucket):
                    self.store.keep(index, place, bucket, kept)
        self._settle(one_key=False)
        self._settle_splits()

    def ignores(self, event: Event) -> bool:
        """Whether an event certainly changes nothing: it begins no match, and no state with instances reads it."""
        try:
            plan = self._by_type[event.type]
        except KeyError:
            plan = self.plans.of(event.type)
        if plan is None:
            return True
        timers = self.store.timers
        if timers and timers[0][0] < event.hi:
            # A time event comes first, and may change which states have instances.
            return False
        pools, bindings, registers = self.store.pools, self.root.bindings, self.root.registers
        for index, state in plan.visits:
            if pools[index]:
                reads = state.reads
                if reads is None or reads(event, bindings, registers):
                    return False
        begins = plan.begins
        return begins is not None and not begins(event, bindings, registers)

    def offer_together(self, events: Iterable[Event]) -> None:
        """Consume an epoch (cayuga-algebra-cesar), the events of one `hi`: each is offered to the instances before all
        of them; affected instances end, new ones see later epochs only."""
        affected: dict[int, Instance] = {}
        for event in events:
            plan = self.plans.of(event.type)
            # By best effort it may be late; then it concerns only those it still follows.
            late = self.latest is not None and event.hi < self._latest_hi
            if not late:
                self.latest, self._latest_hi = event, event.hi
            self.composites.now = event
            key = self.key_of(event) if self.key_of is not None else None
            if plan is None or (key is None and self.key_of is not None):
                continue
            for index, state in plan.visits:
                if state.reads is not None and not state.reads(event, self.root.bindings, self.root.registers):
                    continue
                pool = self.store.pools[index]
                bucket = pool.get(self._place(index, key, event), ())
                if key is ALL_KEYS:
                    bucket = [each for some in pool.values() for each in some]
                self._count(len(bucket))
                for instance in bucket:
                    if late and instance.last is not None and event.key <= instance.last.key:
                        continue
                    if self._take(instance, event, state):
                        affected[id(instance)] = instance
            if plan.looks:
                self._start(event, plan, key)
        if affected:
            self.store.leave_out(affected)
        self._settle_splits(affected)
        self._settle(one_key=False)

    def offer_match(self, match: PartMatch) -> None:
        """Consume a match of a delegated part, after all events up to its last; waiting instances stay for more."""
        plan = self.plans.of(match.type)
        key = self.key_of(match) if self.key_of is not None else None
        if plan is None or (key is None and self.key_of is not None):
            return
        self.composites.now = match
        if match.hi > self._latest_hi:
            self._latest_hi = match.hi
        for index, state in plan.visits:
            (move,) = state.moves
            bucket = self.store.pools[index].get(key, ())
            self._count(len(bucket))
            for instance in bucket:
                follows = instance.alive and match.follows(instance.last, strong=move.strong)
                if follows and self.labelled(instance, match, move):
                    self.follow(instance, match, move)
        root, derivation = self.root, match.derivation
        self.touched += bool(plan.starts)
        for move, _ in plan.starts:
            root.key = key
            if self.gaps is not None:
                # A prefix hands its gap upwards.
                root.origin = (derivation.first, derivation.gap.previous, derivation.gap.greatest_lo)
            self.follow(root, match, move)
        self._settle()

    def fire(self, until: int) -> None:
        """Fire every time event due at or before `until`, in order."""
        store = self.store
        recurred, begun, most = 0, store.live, self._most
        while (fired := store.pop_due(until)) is not None:
            due, timer, instance = fired
            plan = self.plans.of_timer(instance.state, timer)
            if plan is None:
                continue
            if timer in self._recurring:
                # Counted with every call: a short interval holds a node up as long as its instance waits.
                recurred += 1
                if recurred > most:
                    # Some that were there at first may have ended meanwhile.
                    most = self._most * max(len(store.instances()), 1) + begun
                    if recurred > most:
                        raise too_many_time_events(self._most)
            self._count(1)
            store.numbers += 1
            event = TimeEvent(timer_type(timer), due, due, "@", store.numbers, {})
            if self.latest is None or event.key > self.latest.key:
                self.latest, self._latest_hi = event, due
            self.composites.now = event
            if self._take(instance, event, plan):
                instance.alive = False
            self._settle()
            self._settle_splits()

    def resume(self, latest: Event | None, numbers: int) -> None:
        """Resume behind this event, from a snapshot."""
        self.latest, self.store.numbers = latest, numbers
        self._latest_hi = BEFORE_ALL if latest is None else latest.hi

    def keep_derivations(self) -> None:
        """Record from now on the start of matches and the gap before it."""
        if self.gaps is None:
            latest = self.latest
            self.gaps = StartGaps(None if latest is None else (latest.key, latest.hi))
            self.composites.keep_derivations()
            if self.automaton.key:
                self.store.look_up_by_key()

    def awaits_matches(self, type_name: str) -> bool:
        """Whether the part with this type is no side of a `&`, so that each of its matches counts."""
        return type_name in self.plans.match_types

    # The three rules.

    def _take(self, instance: Instance, event: Event, plan: StatePlan) -> bool:
        """Offer an event to an instance; whether the instance is gone afterwards, moved or failed."""
        if not instance.alive:
            return True
        if plan.strong and event.lo <= instance.hi:
            return False
        if plan.opens:
            return self._take_open(instance, event, plan)
        if plan.joint is not None and not self._beyond_bound(instance, event, plan.joint):
            return False
        if plan.alike and not plan.everything:
            return self._take_alike(instance, event, plan)
        if not plan.everything and not self.in_domain(instance, event, plan, frozenset()):
            return False
        for move in plan.moves:
            if (move.strong and event.lo <= instance.hi) or not self.labelled(instance, event, move):
                continue
            self.follow(instance, event, move)
        return True

    def _take_alike(self, instance: Instance, event: Event, plan: StatePlan) -> bool:
        """Offer an event to an instance where labels and domains agree: each condition is evaluated once only."""
        gone = False
        for move in plan.moves:
            if self.labelled(instance, event, move):
                gone = True
                if not move.strong or event.lo > instance.hi:
                    self.follow(instance, event, move)
        return gone

    def _take_plain(self, bucket: list[Instance], event: Event, plan: StatePlan) -> list[Instance]:
        """`_take` and `_follow` in one loop, for unconditional moves that change only constituents and timestamp (the
        common case); returns the instances that stay."""
        kept: list[Instance] = []
        # A call of `list[Instance]` would take ten times as long.
        born: list[Instance] = []
        event_lo, event_hi, window = event.lo, event.hi, self._window
        seen: set[tuple[object, ...]] | None = set() if plan.stays and len(bucket) > 1 else None
        for instance in bucket:
            apart = event_lo > instance.hi
            if plan.strong and not apart:
                kept.append(instance)
                continue
            lo = event_lo if event_lo < instance.lo else instance.lo
            if event_hi - lo > window:
                continue
            chain = instance.chain
            for move in plan.leaving:
                if move.strong and not apart:
                    continue
                longer = chain if move.hidden else (chain, event)
                for target in move.targets:
                    if target.accepting:
                        emitted = self.composites.add(
                            longer, lo, event_hi, instance.bindings, instance.registers, instance.key, instance.origin
                        )
                        if target.renews and emitted:
                            born.append(instance.moved(target.state, None, AFTER_ALL, event))
                            continue
                    if target.goes_on:
                        born.append(instance.moved(target.state, longer, lo, event))
            # Nothing else holds the instance, so one that stays need not be made again. Those that have become equal
            # share their chain, or had different states when it last grew, which bounds how many there can be.
            if plan.stays:
                if seen is not None:
                    mark: tuple[object, ...] = (id(chain), lo)
                    if instance.origin is not None:
                        mark = (*mark, instance.origin)
                    if mark in seen:
                        continue
                    seen.add(mark)
                instance.lo, instance.hi, instance.last = lo, event_hi, event
                kept.append(instance)
        if born:
            self._born = [*self._born, *born] if self._born else born
        return kept

    def _take_open(self, instance: Instance, event: Event, plan: StatePlan) -> bool:
        """Offer an event where an inner key may be entered: the instance stands for all unseen values, and an event
        splits off an independent instance for its value."""
        split = [group for group in plan.opens if self._splits_off(instance, event, plan, group)]
        for keys in _unions([group.keys for group in split]):
            self._take_with(instance, event, plan, keys)
        gone = self._take_with(instance, event, plan, frozenset())
        if split and not gone:
            if self._splits is None:
                self._splits = {}
            _, spent = self._splits.setdefault(id(instance), (instance, set()))
            spent.update((group.keys, group.values(event)) for group in split)
        return gone

    def _splits_off(self, instance: Instance, event: Event, plan: StatePlan, group: KeyGroup) -> bool:
        """Whether the instance of this event's key values has not split off yet, and reads the event."""
        values = group.values(event)
        if None in values:
            return False
        for keys, gone in instance.spent:
            if keys <= group.keys and all(value == gone_value for value, gone_value in group.meet(keys, values, gone)):
                return False
        return self.in_domain(instance, event, plan, group.keys)

    def _take_with(self, instance: Instance, event: Event, plan: StatePlan, keys: frozenset[int]) -> bool:
        if not self.in_domain(instance, event, plan, keys):
            return False
        for move in plan.moves:
            entered = frozenset(key for key, _ in move.entered_keys)
            if not entered <= keys or (move.strong and event.lo <= instance.hi):
                continue
            if self.labelled(instance, event, move):
                self.follow(instance, event, move)
        return True

    def in_domain(self, instance: Instance, event: Event, plan: StatePlan, keys: frozenset[int]) -> bool:
        """Whether an event is in the domain of a state for an instance, with these inner keys chosen."""
        for test in plan.domain:
            if not test.entered_keys <= keys:
                continue
            if test.condition is True:
                return True
            registers = initialised(instance, event, test.inits)
            if test.condition(event, instance.bindings, registers):  # type: ignore[operator]
                return True
        return False

    def labelled(self, instance: Instance, event: Event, move: MovePlan) -> bool:
        """Whether an event of the right type satisfies the rest of a move's label."""
        if move.label is True:
            return True
        return move.label(event, instance.bindings, initialised(instance, event, move.inits))  # type: ignore[operator]

    def _beyond_bound(self, instance: Instance, event: Event, joint: int) -> bool:
        bound = instance.bounds[joint]
        return bound is None or event.lo > bound

    def _start(self, event: Event, plan: TypePlan, key: object) -> None:
        """Offer an event to the start states, which are always active."""
        if self.gaps is not None:
            start_recorded(self, event, plan, key, self.gaps)
            return
        root = self.root
        root.key = key
        begins = 0
        for move, state in plan.starts:
            if move.entered_keys and any(of(event) is None for _, of in move.entered_keys):
                continue
            looked_at = state.alike or state.everything or self.in_domain(root, event, state, state.keys_of(event))
            if looked_at and self.labelled(root, event, move):
                begins = 1
                self.follow(root, event, move)
        self.touched += begins

    # Moves.

    def follow(self, instance: Instance, event: Event, move: MovePlan) -> None:
        """Follow a transition, unless a window has closed: emit a completed match, continue as a new instance."""
        lo = event.lo if event.lo < instance.lo else instance.lo
        if event.hi - lo > self._window:
            return
        if not move.simple:
            self._follow_full(instance, event, move, lo)
            return
        chain = instance.chain if move.hidden else (instance.chain, event)
        for target in move.targets:
            if target.accepting:
                emitted = self.composites.add(
                    chain, lo, event.hi, instance.bindings, instance.registers, instance.key, instance.origin
                )
                if target.renews and emitted:
                    self._bear(instance.moved(target.state, None, AFTER_ALL, event))
                    continue
            if target.goes_on:
                self._bear(instance.moved(target.state, chain, lo, event))

    def _follow_full(self, instance: Instance, event: Event, move: MovePlan, lo: int) -> None:
        windows = list(instance.windows)
        for window, length, entered in move.windows:
            inside = windows[window]
            start = event.lo if entered or inside is None else min(inside, event.lo)
            if event.hi - start > length:
                return
            windows[window] = start
        bindings, registers = assigned(self.automaton, instance, event, move)
        if move.updates and self.plans.grows_texts:
            self._check_texts(registers)
        chain = instance.chain
        if not move.hidden and event.rank != TIME:
            for each in event.events if isinstance(event, PartEvent) else (event,):
                chain = (chain, each)
        bounds = instance.bounds
        if move.joint is not None and not move.after_first:
            bound = instance.hi if move.strong and instance.last is not None else None
            bounds = (*bounds[: move.joint], bound, *bounds[move.joint + 1 :])
        elif move.joint is not None:
            bounds = (*bounds[: move.joint], None, *bounds[move.joint + 1 :])
        for target in move.targets:
            emitted = False
            if target.accepting:
                emitted = self.composites.add(chain, lo, event.hi, bindings, registers, instance.key, instance.origin)
            if target.goes_on:
                renewed = emitted and target.renews
                self._bear(
                    Instance(
                        target.state,
                        instance.key,
                        None if renewed else chain,
                        AFTER_ALL if renewed else lo,
                        event.hi,
                        event,
                        bindings,
                        kept_registers(self.automaton, registers, target),
                        self.root.windows
                        if renewed
                        else tuple(each if place in target.windows else None for place, each in enumerate(windows)),
                        timers_after(instance, event, target, bindings, registers, ended=self.ended),
                        bounds,
                        _NOTHING_SPENT,
                        instance.origin,
                    )
                )

    def _check_texts(self, registers: tuple[Attribute, ...]) -> None:
        longest = max((len(each) for each in registers if each.__class__ is str), default=0)
        if longest > self.limits.text:
            raise too_long_text(longest, self.limits.text)

    # Bookkeeping.

    def _bear(self, instance: Instance) -> None:
        born = self._born
        if born:
            born.append(instance)
            if BIRTH * len(born) > self._most:
                raise too_much_work(BIRTH * len(born), self._most)
        else:
            self._born = [instance]

    def _settle(self, *, one_key: bool = True) -> None:
        """Put new instances into their buckets; `one_key` if one event brought them forth, so that all have its key."""
        born = self._born
        if born:
            self._born = _NONE_BORN
            # They are work of the events consumed in this go, too.
            work = BIRTH * len(born)
            self._stop -= work
            self.begins_at -= work
            self.store.settle(born, self._latest_hi, one_key=one_key)

    def _settle_splits(self, affected: Iterable[int] = ()) -> None:
        """Record the values of inner keys whose instances have split off."""
        for number, (instance, spent) in (self._splits or {}).items():
            if number not in affected:
                instance.spent |= spent
        self._splits = None

    def tidy(self) -> None:
        """Drop state that has become irrelevant; to be called periodically."""
        self.composites.forget(self._latest_hi - self._window, self.store.instances)

    def let_go(self) -> None:
        """Keep of the latest event its place in the order alone, where no instance holds it."""
        latest = self.latest
        if latest is not None and latest.rank == PRIMITIVE and latest.attributes and not self.store.live:
            latest = Event(latest.type, latest.lo, latest.hi, latest.source, latest.seq, _NO_ATTRIBUTES)
            self.latest = self.composites.now = latest

    def sweep(self, clock: int) -> bool:
        """Drop what no event behind an instant, ns, can concern; whether nothing is left."""
        store, floor = self.store, clock - self._window
        if store.live:
            # An event would have ended them, each once.
            self.touched += store.sweep(floor)
        if self.composites.reported:
            self.composites.forget_now(floor, store.instances)
        if self.quiet is not None and not self.quiet.sweep(clock):
            return False
        return not (store.live or store.timers or self.composites.reported or self.gaps or self.begun)

    def _place(self, index: int, key: object, event: Event) -> object:
        """Bucket, in the pool of a state, of the instances that may read an event with this key."""
        wait = None if self.store.waits is None else self.store.waits[index]
        return key if wait is None else wait.of_event(key, event)

    def _offer_late(self, event: Event, plan: TypePlan | None) -> None:
        assert self.latest is not None
        if event.key == self.latest.key:
            return
        self.late += 1
        self.composites.now = event
        key = self.key_of(event) if self.key_of is not None else None
        if plan is None or (key is None and self.key_of is not None):
            return
        order = event.key
        for index, state in plan.visits:
            place = self._place(index, key, event)
            bucket = self.store.pools[index].get(place)
            if bucket:
                self._count(len(bucket))
                kept = [
                    each
                    for each in bucket
                    if (each.last is not None and order <= each.last.key) or not self._take(each, event, state)
                ]
                self.store.keep(index, place, bucket, kept)
        if plan.looks:
            self._start(event, plan, key)
        self._settle()
        self._settle_splits()


def _unions(groups: list[frozenset[int]]) -> set[frozenset[int]]:
    """Every union of one or more of the groups."""
    unions: set[frozenset[int]] = set()
    for group in groups:
        unions |= {group, *(group | other for other in unions)}
    return unions

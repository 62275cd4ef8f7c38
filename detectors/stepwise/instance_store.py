"""Waiting instances of a matcher, and their pending time events.

One pool per state, split by the key of the whole pattern, and by the wait key of the state where it has one
(`automata.wait_keys`): an event meets only instances it may concern. Instances with a closed window are swept out
periodically.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final, TypeAlias

from distced.detectors.automata.wait_keys import WaitKeys
from distced.detectors.limits import UNLIMITED, Limits, too_many_instances
from distced.detectors.stepwise.instance import Chain, Instance
from distced.middleware.model.events import EventId

Pool: TypeAlias = dict[object, list[Instance]]

SWEEP_LEAST: Final = 512
"""Number of instances that triggers the first sweep of closed windows; the next one follows when the number has
doubled.
"""


NO_POOL: Final[Pool] = {}
"""Pool of a state that no instance was in, the same for all stores; nothing is put into it."""


_NO_TIMERS: Final[list[tuple[int, int, int, Instance]]] = []


class InstanceStore:
    """Instances of a matcher and their pending time events.

    Attributes:
        pools: for each state its instances by key, or by wait key; `NO_POOL` for none so far.
        waits: wait keys of the states; None where there are none.
        timers: heap of pending (due, timer, number, instance).
        live: number of instances, unswept dead ones included.
        numbers: number of time events started or fired; orders those of one instant.
        limits: of the detector.
    """

    __slots__ = ("_sweep_at", "_timed", "_window", "limits", "live", "numbers", "pools", "timers", "waits")

    def __init__(self, states: int, window: int, waits: WaitKeys | None = None, *, timed: bool) -> None:
        """`window`: of the whole pattern, ns; `timed`: whether time events refer to instances beyond their end."""
        self.pools: list[Pool] = [NO_POOL] * states
        self.waits = waits
        self.timers: list[tuple[int, int, int, Instance]] = [] if timed else _NO_TIMERS
        self.live = 0
        self.numbers = 0
        self._window = window
        self._timed = timed
        self._sweep_at = SWEEP_LEAST
        self.limits = UNLIMITED

    def limit(self, limits: Limits) -> None:
        """Set the limits; they are looked at with the next sweep."""
        self.limits = limits
        self._sweep_at = min(self._sweep_at, limits.instances + 1)

    def instances(self) -> list[Instance]:
        """The live instances."""
        return [each for pool in self.pools for bucket in pool.values() for each in bucket if each.alive]

    def clear(self) -> None:
        """Drop all instances."""
        self.pools = [NO_POOL] * len(self.pools)
        self.timers.clear()
        self.live = 0

    def add(self, instance: Instance) -> None:
        """Put an instance into its bucket, and start its time events."""
        self._pool(instance.state).setdefault(self._bucket_of(instance), []).append(instance)
        self.live += 1
        for timer, due in enumerate(instance.timers):
            if due is not None:
                self.numbers += 1
                heappush(self.timers, (due, timer, self.numbers, instance))

    def settle(self, born: list[Instance], latest: int, *, one_key: bool) -> None:
        """Put instances into buckets, equal ones once; `latest`: last `hi`, ns; `one_key` if one event bore all.

        Raises:
            LimitError: more instances than the limits allow.
        """
        if len(born) > 1:
            born = distinct(born)
        if self._timed or not one_key:
            for instance in born:
                self.add(instance)
        else:
            key, waits = born[0].key, self.waits
            for instance in born:
                pool = self.pools[instance.state]
                if pool is NO_POOL:
                    pool = self._pool(instance.state)
                place = key if waits is None else self._bucket_of(instance)
                bucket = pool.get(place)
                if bucket is None:
                    pool[place] = [instance]
                else:
                    bucket.append(instance)
            self.live += len(born)
        if self.live >= self._sweep_at:
            self.sweep(latest - self._window)
            if self.live > self.limits.instances:
                raise too_many_instances(self.limits, self.live)

    def _bucket_of(self, instance: Instance) -> object:
        wait = None if self.waits is None else self.waits[instance.state]
        return instance.key if wait is None else wait.of_instance(instance)

    def look_up_by_key(self) -> None:
        """Look up all instances by the key of the whole pattern alone from now on."""
        if self.waits is None:
            return
        self.waits = None
        for state, pool in enumerate(self.pools):
            if pool:
                regrouped: Pool = {}
                for instance in (each for bucket in pool.values() for each in bucket):
                    regrouped.setdefault(instance.key, []).append(instance)
                self.pools[state] = regrouped

    def keep(self, state: int, key: object, bucket: list[Instance], kept: list[Instance]) -> None:
        """Keep only these instances of the bucket of a state and key."""
        gone = len(bucket) - len(kept)
        if gone:
            self.live -= gone
            if self._timed:
                staying = set(map(id, kept))
                for instance in bucket:
                    instance.alive = instance.alive and id(instance) in staying
            pool = self.pools[state]
            if kept:
                pool[key] = kept
            elif len(pool) > 1:
                del pool[key]
            else:
                self.pools[state] = NO_POOL

    def leave_out(self, gone: dict[int, Instance]) -> None:
        """Remove these instances, by `id`, from their buckets."""
        for state, place in {(each.state, self._bucket_of(each)) for each in gone.values()}:
            bucket = self.pools[state][place]
            self.keep(state, place, bucket, [each for each in bucket if id(each) not in gone])

    def shed(self, state: int, key: object, bucket: list[Instance], floor: int) -> list[Instance]:
        """Keep the instances of a bucket that began at an instant or after it."""
        kept = [each for each in bucket if each.lo >= floor]
        self.keep(state, key, bucket, kept)
        return kept

    def next_due(self) -> int | None:
        """The instant the next time event is due, ns; None without a pending one."""
        timers = self.timers
        while timers and not timers[0][3].alive:
            heappop(timers)
        return timers[0][0] if timers else None

    def pop_due(self, until: int) -> tuple[int, int, Instance] | None:
        """Pop the next time event due at or before `until`: instant, timer and instance; None without one."""
        due = self.next_due()
        if due is None or due > until:
            return None
        _, timer, _, instance = heappop(self.timers)
        return due, timer, instance

    def _pool(self, state: int) -> Pool:
        pool = self.pools[state]
        if pool is NO_POOL:
            pool = self.pools[state] = {}
        return pool

    def sweep(self, floor: int) -> int:
        """Drop ended instances, and those whose window has closed for all later events; the number of the latter."""
        self.live = closed = 0
        for pool in self.pools:
            for key, bucket in list(pool.items()):
                kept = [each for each in bucket if each.alive and each.lo >= floor]
                self.live += len(kept)
                if len(kept) == len(bucket):
                    continue
                closed += sum(each.alive for each in bucket) - len(kept)
                if not kept:
                    del pool[key]
                else:
                    for each in bucket:
                        each.alive = each.alive and each.lo >= floor
                    pool[key] = kept
        most = self.limits.instances
        # Close to the limit not with every event.
        self._sweep_at = min(max(SWEEP_LEAST, 2 * self.live), max(most + 1, self.live + most // 16))
        return closed


def distinct(born: list[Instance]) -> list[Instance]:
    """New instances without repetitions: of equal ones the first; the others stay in order."""
    if len(born) == 2 and born[0].state != born[1].state:
        return born
    if len({(instance.state, instance.lo) for instance in born}) == len(born):
        return born
    groups: dict[tuple[int, int, int], list[Instance]] = {}
    for instance in born:
        groups.setdefault((instance.state, instance.lo, id(instance.last)), []).append(instance)
    repeated: set[int] = set()
    for group in groups.values():
        if len(group) > 2:
            repeated |= _repeated(group)
        elif len(group) == 2 and group[1].same_as(group[0]):
            repeated.add(id(group[1]))
    return [instance for instance in born if id(instance) not in repeated] if repeated else born


def _repeated(group: list[Instance]) -> set[int]:
    """Ids of the instances equal to an earlier one, of some with the same state, `lo` and last event.

    Equality in all parts is an equivalence, so the instances are divided: by everything but the chain, then by one
    event of the chain after the other, the last first. Chains behind the same link are equal. An instance that is alone
    is looked at no further, so each costs no more than the events it shares with another.
    """
    by_rest: dict[object, list[tuple[Chain, Instance]]] = {}
    for instance in group:
        by_rest.setdefault(instance.rest(), []).append((instance.chain, instance))
    repeated: set[int] = set()
    waiting = [alike for alike in by_rest.values() if len(alike) > 1]
    while waiting:
        links: set[int] = set()
        by_event: dict[EventId, list[tuple[Chain, Instance]]] = {}
        for chain, instance in waiting.pop():
            if id(chain) in links:
                repeated.add(id(instance))
                continue
            links.add(id(chain))
            if chain is not None:
                before, event = chain
                by_event.setdefault(event.id, []).append((before, instance))
        waiting += [alike for alike in by_event.values() if len(alike) > 1]
    return repeated

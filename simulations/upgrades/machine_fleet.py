"""Machines that are upgraded, in virtual time, with the upgrades that fail as the truth to compare with.

The application of cedr-2007, section 3.2: patches are installed on a machine, it is shut down, and should be up again
within minutes. Sites have times of maintenance, in which their machines are upgraded one after the other; in between
machines go down by themselves. Each machine is a source, and so is the calendar of maintenance.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from random import Random
from typing import Final

from distced.middleware.model.event_types import event_type
from distced.middleware.model.events import Attribute, Event
from distced.middleware.model.timestamps import MINUTE, SECOND, parse_instant
from distced.simulations.office import OfficeStep

INSTALL: Final = event_type(
    "INSTALL",
    {"machine_id": "string", "site": "string", "patch": "string", "software_type": "string", "version_id": "string"},
)
SHUTDOWN: Final = event_type("SHUTDOWN", {"machine_id": "string", "site": "string"})
RESTART: Final = event_type("RESTART", {"machine_id": "string", "site": "string"})
MAINTENANCE_BEGINS: Final = event_type("MAINTENANCE_BEGINS", {"site": "string"})
MAINTENANCE_ENDS: Final = event_type("MAINTENANCE_ENDS", {"site": "string"})
TYPES: Final = (INSTALL, SHUTDOWN, RESTART, MAINTENANCE_BEGINS, MAINTENANCE_ENDS)

DEFAULT_START: Final = parse_instant("2007-02-05T08:00:00Z")
CALENDAR: Final = "calendar"
SITES: Final = ("Redmond", "Cambridge", "Beijing")
MACHINES: Final = 8
"""Machines of a site."""

UP_AGAIN: Final = (30 * SECOND, 4 * MINUTE)
LATE: Final = (6 * MINUTE, 15 * MINUTE)
"""Time from a shutdown to the restart, where an upgrade succeeds, and where it fails, ns."""

GIVEN_UP: Final = 5 * MINUTE
"""Time from a shutdown after which its upgrade has failed, ns."""

FAILS: Final = 0.12
FAILS_OF_BAD: Final = 0.6
"""Probability that an upgrade fails, and that one with a bad patch does."""

STAYS_DOWN: Final = 0.3
"""Probability that a machine whose upgrade has failed stays down for the rest of the maintenance."""

MAINTENANCE: Final = (40 * MINUTE, 70 * MINUTE)
PAUSE: Final = (10 * MINUTE, 40 * MINUTE)
"""Duration of a maintenance, and time from one to the next of a site, ns."""

CRASHES: Final = 0.02
"""Shutdowns of a machine by itself, a minute, outside of maintenance."""

TICK: Final = 10 * SECOND


class MachineFleet:
    """Machines of several sites; the same random source gives the same events, to the byte.

    Attributes:
        sources: the types that each source publishes.
        failed: machine and patch of the upgrades that fail, with the instant at which that is known, ns; some of them
            later than `now`.
        now: the virtual instant, ns.
    """

    def __init__(self, random: Random, start: int = DEFAULT_START) -> None:
        self.now = start
        self.machines = {f"{site}-{number}": site for site in SITES for number in range(1, MACHINES + 1)}
        own = (INSTALL.name, SHUTDOWN.name, RESTART.name)
        self.sources: dict[str, tuple[str, ...]] = dict.fromkeys(self.machines, own)
        self.sources[CALENDAR] = (MAINTENANCE_BEGINS.name, MAINTENANCE_ENDS.name)
        self.failed: dict[tuple[str, str], int] = {}
        self._random = random
        self._number = 0
        self._patch = 0
        self._seq = dict.fromkeys(self.sources, 0)
        self._due: list[tuple[int, int, str, str, dict[str, Attribute]]] = []
        self._next = {site: start + random.randint(MINUTE, 10 * MINUTE) for site in SITES}

    def run(self, duration: int) -> Iterator[OfficeStep]:
        """Steps of ten seconds for a time, ns."""
        end = self.now + duration
        while self.now < end:
            self.now += TICK
            for site in SITES:
                if self._next[site] <= self.now:
                    self._maintain(site, self._next[site])
            yield OfficeStep(self.now, list(self._published()))

    def _maintain(self, site: str, begin: int) -> None:
        """Plan a maintenance, and what happens until the next one."""
        random = self._random
        end = begin + random.randint(*MAINTENANCE)
        self._plan(begin, MAINTENANCE_BEGINS.name, CALENDAR, {"site": site})
        self._plan(end, MAINTENANCE_ENDS.name, CALENDAR, {"site": site})
        self._next[site] = end + random.randint(*PAUSE)
        patches = [self._new_patch() for _ in range(random.choice((1, 2, 2, 3)))]
        bad = {patch for patch, _ in patches if random.random() < 0.25}
        at = begin
        for machine, own in self.machines.items():
            if own != site:
                continue
            at += random.randint(MINUTE, 4 * MINUTE)
            up = self._upgrade(machine, at, end, patches, bad)
            self._crash(machine, max(up, end), self._next[site])

    def _new_patch(self) -> tuple[str, str]:
        """A patch and its version."""
        self._patch += 1
        return f"KB{890_000 + self._patch}", self._random.choice(("1", "2", "2"))

    def _upgrade(self, machine: str, at: int, end: int, patches: list[tuple[str, str]], bad: set[str]) -> int:
        """Plan the upgrade of a machine, and return the instant from which it is up."""
        random = self._random
        for patch, version in patches:
            kind = random.choice(("SP", "SP", "driver"))
            details: dict[str, Attribute] = {"patch": patch, "software_type": kind, "version_id": version}
            self._plan(at, INSTALL.name, machine, details)
            at += random.randint(20 * SECOND, 90 * SECOND)
        self._plan(at, SHUTDOWN.name, machine, {})
        fails = random.random() < (FAILS_OF_BAD if bad else FAILS)
        if not fails:
            up = at + random.randint(*UP_AGAIN)
        else:
            self.failed |= dict.fromkeys(((machine, patch) for patch, _ in patches), at + GIVEN_UP)
            up = at + random.randint(*LATE)
            if random.random() < STAYS_DOWN:
                up = max(up, end + random.randint(MINUTE, 5 * MINUTE))
        self._plan(up, RESTART.name, machine, {})
        return up

    def _crash(self, machine: str, begin: int, end: int) -> None:
        """Perhaps plan a shutdown of a machine by itself, which is over before the next maintenance."""
        random = self._random
        at = begin + round(random.expovariate(CRASHES) * MINUTE)
        up = at + random.randint(*UP_AGAIN)
        if up < end:
            self._plan(at, SHUTDOWN.name, machine, {})
            self._plan(up, RESTART.name, machine, {})

    def _plan(self, instant: int, type_name: str, source: str, attributes: dict[str, Attribute]) -> None:
        if source in self.machines:
            attributes = {"machine_id": source, "site": self.machines[source], **attributes}
        self._number += 1
        heappush(self._due, (instant, self._number, type_name, source, attributes))

    def _published(self) -> Iterator[Event]:
        while self._due and self._due[0][0] <= self.now:
            instant, _, type_name, source, attributes = heappop(self._due)
            yield Event(type_name, instant, instant, source, self._seq[source], attributes)
            self._seq[source] += 1

"""Alarms of a made carrier network, in virtual time, with the effects of each alarm as the truth to compare with.

Faults come at random devices (Poisson). An alarm sets off each of its effects, at its device or at a neighbour, with a
probability, some seconds later, and these further ones. Some devices flap: an alarm comes again and again. An alarm is
cleared by an event `Cleared` after a while, or never. `near` of an alarm names its device and the neighbours, each as
`tag` of an alarm names its device, so that a pattern finds a cause nearby by its text.

Timestamps are intervals: devices have clocks of their own, which are off by some milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random
from typing import Final

from distced.middleware.model.event_types import event_type
from distced.middleware.model.events import Attribute, Event, EventId
from distced.middleware.model.timestamps import MILLISECOND, MINUTE, SECOND, parse_instant
from distced.simulations.carrier.carrier_network import CarrierNetwork
from distced.simulations.office import OfficeStep

ALARM: Final = event_type(
    "Alarm", {"alarm": "number", "device": "string", "site": "string", "tag": "string", "near": "string"}
)
CLEARED: Final = event_type("Cleared", {"alarm": "number", "device": "string"})

DEFAULT_START: Final = parse_instant("2004-01-12T09:00:00Z")

FAULTS: Final = 6.0
"""Faults a minute in the whole network."""

SPREADS: Final = 0.7
"""Probability that an alarm sets off an effect, by causal edge."""

DELAY: Final = (2 * SECOND, 20 * SECOND)
"""Time from a cause to its effect, ns."""

FLAPS: Final = 0.03
"""Probability that a fault flaps."""

REPEATS: Final = 6
FLAP: Final = 45 * SECOND
"""Number of further alarms of a fault that flaps, and time between them, ns."""

STAYS: Final = 0.1
"""Probability that an alarm is never cleared."""

CLEARS: Final = (20 * SECOND, 4 * MINUTE)
"""Time to the event that clears an alarm, ns."""

UNCERTAINTY: Final = 50 * MILLISECOND
TICK: Final = SECOND


@dataclass(order=True)
class _Due:
    """An event to come: `cause` is the id of the alarm that has set it off."""

    instant: int
    number: int
    kind: int = field(compare=False)
    device: str = field(compare=False)
    cause: EventId | None = field(compare=False, default=None)
    clears: bool = field(compare=False, default=False)


class CarrierAlarms:
    """Alarms of a network; the same random source and network give the same events, to the byte.

    Attributes:
        sources: the types that each source publishes; a device is a source.
        truth: ids of causes and effects, of the alarms so far.
        now: the virtual instant, ns.
    """

    def __init__(self, random: Random, network: CarrierNetwork, start: int = DEFAULT_START) -> None:
        self.network = network
        self.now = start
        self.sources: dict[str, tuple[str, ...]] = dict.fromkeys(network.devices, (ALARM.name, CLEARED.name))
        self.truth: set[tuple[EventId, EventId]] = set()
        self._random = random
        self._effects = network.effects()
        kinds = {kind for edge in network.causes for kind in edge}
        # Faults begin with what is a cause, and with some that have no effect and no cause.
        self._kinds = sorted(kinds)
        self._number = 0
        self._due: list[_Due] = []
        self._waiting: list[tuple[int, int, Event]] = []
        self._seq = dict.fromkeys(network.devices, 0)
        self._last: dict[str, int] = {}
        self._next_fault = start

    def run(self, duration: int) -> Iterator[OfficeStep]:
        """Steps of a second for a time, ns; events of the last instants are in the last step."""
        end = self.now + duration
        while self.now < end:
            self.now += TICK
            self._advance(self.now)
            yield OfficeStep(self.now, self._publish(self.now))
        self.now += 2 * UNCERTAINTY + self._longest_delay()
        yield OfficeStep(self.now, self._publish(self.now))

    def _longest_delay(self) -> int:
        return max((hi - self.now for hi, _, _ in self._waiting), default=0) + 1

    def _advance(self, now: int) -> None:
        random = self._random
        while self._next_fault <= now:
            kind, device = random.choice(self._kinds), random.choice(self.network.devices)
            self._plan(self._next_fault, kind, device)
            if random.random() < FLAPS:
                for count in range(REPEATS):
                    self._plan(self._next_fault + (count + 1) * FLAP, kind, device)
            self._next_fault += round(random.expovariate(FAULTS) * MINUTE)
        while self._due and self._due[0].instant <= now:
            self._occur(heappop(self._due))

    def _plan(
        self, instant: int, kind: int, device: str, cause: EventId | None = None, *, clears: bool = False
    ) -> None:
        heappush(self._due, _Due(instant, self._number, kind, device, cause, clears))
        self._number += 1

    def _occur(self, due: _Due) -> None:
        device, random = due.device, self._random
        instant = max(due.instant, self._last.get(device, due.instant - 1) + 1)
        self._last[device] = instant
        seq = self._seq[device]
        self._seq[device] += 1
        attributes: dict[str, Attribute] = {"alarm": due.kind, "device": device}
        made = CLEARED if due.clears else ALARM
        event = Event(made.name, instant - UNCERTAINTY, instant + UNCERTAINTY, device, seq, attributes)
        if not due.clears:
            event = placed(event, self.network)
        made.check(event)
        heappush(self._waiting, (event.hi, self._number, event))
        self._number += 1
        if due.clears:
            return
        if due.cause is not None:
            self.truth.add((due.cause, event.id))
        if random.random() >= STAYS:
            self._plan(instant + random.randint(*CLEARS), due.kind, device, clears=True)
        for effect in self._effects.get(due.kind, ()):
            if random.random() < SPREADS:
                at = random.choice((device, *self.network.neighbours(device)))
                self._plan(instant + random.randint(*DELAY), effect, at, event.id)

    def _publish(self, now: int) -> list[Event]:
        found = []
        while self._waiting and self._waiting[0][0] <= now:
            found.append(heappop(self._waiting)[2])
        return found


def placed(event: Event, network: CarrierNetwork) -> Event:
    """An alarm with its site, its tag, and what is near."""
    device = str(event.attributes["device"])
    near = (device, *network.neighbours(device))
    where = {"site": site_of(device), "tag": tag(device), "near": "".join(map(tag, near))}
    return Event(event.type, event.lo, event.hi, event.source, event.seq, {**event.attributes, **where})


def tag(device: str) -> str:
    """A device as a part of `near`: no name is a part of another one."""
    return f"|{device}|"


def site_of(device: str) -> str:
    """Site of a device: ten of neighbouring numbers."""
    number = device.rpartition("-")[2]
    return f"site-{int(number) // 10}" if number.isdigit() else device

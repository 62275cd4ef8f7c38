"""Events of the Active Office as its sensors publish them, at instants from the start, ns.

"Workers wear Active Bats to inform the building of their movements at least once a minute" (composite-event-framework-
2004, "Motivation"); the office's receivers sense a badge more often. `once a minute` keeps of each person's sightings
those in another room than the last, and of the others the least number of which no two are more than a minute apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from random import Random

from distced.middleware.model.event_types import EventType
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import MINUTE, SECOND
from distced.simulations.experiments.office_network.setting import SettingSpec
from distced.simulations.network.scenario_model import START
from distced.simulations.office import ActiveOffice


@dataclass(frozen=True, slots=True)
class OfficeEvents:
    """What the sensors of the office publish.

    Attributes:
        types: those that are published, none derived.
        sources: names of their types, by source.
        messages: events sent together, of one source and type, with the instant, in order of time.
    """

    types: tuple[EventType, ...]
    sources: dict[str, tuple[str, ...]]
    messages: tuple[tuple[int, tuple[Event, ...]], ...]

    @property
    def events(self) -> list[Event]:
        """All events, in the order they are sent."""
        return [event for _, events in self.messages for event in events]

    def rates(self, duration: int) -> dict[str, float]:
        """Mean rates of the types, events a second."""
        counts = {each.name: 0 for each in self.types}
        for event in self.events:
            counts[event.type] += 1
        return {name: count * SECOND / duration for name, count in counts.items() if count}


@lru_cache(maxsize=4)
def office_events(seed: int, setting: SettingSpec, duration: int) -> OfficeEvents:
    """Events of an office in a setting; every solution and number of PDAs has the same."""
    office = ActiveOffice(Random(seed), START)
    events: Iterable[Event] = (event for event in office.events(duration) if event.hi < START + duration)
    if setting.sightings == "once a minute":
        events = _once_a_minute(list(events))
    batch = setting.batch_ns
    sent: dict[str, list[tuple[int, Event]]] = {}
    for event in events:
        at = event.hi - START
        sent.setdefault(event.source, []).append((-(-at // batch) * batch if batch else at, event))
    messages = [
        (at, tuple(event for _, event in group))
        for source in sent.values()
        for (at, _), group in groupby(source, key=lambda each: (each[0], each[1].type))
    ]
    messages.sort(key=lambda each: (each[0], each[1][0].key))
    types = tuple(each for each in office.types if each.derived is None)
    return OfficeEvents(types, office.sources, tuple(messages))


def _once_a_minute(events: Sequence[Event]) -> Iterator[Event]:
    """Events with as few sightings as the article allows."""
    following: dict[int, Event] = {}
    last: dict[object, int] = {}
    for place, event in enumerate(events):
        if event.type == "Pers":
            person = event.attributes["person"]
            if person in last:
                following[last[person]] = event
            last[person] = place
    kept: dict[object, Event] = {}
    for place, event in enumerate(events):
        if event.type == "Pers":
            person, after = event.attributes["person"], following.get(place)
            before = kept.get(person)
            stays = before is not None and before.attributes["room"] == event.attributes["room"]
            if stays and before is not None and after is not None and after.hi - before.hi <= MINUTE:
                continue
            kept[person] = event
        yield event

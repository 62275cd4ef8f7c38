"""Events on their way: random sources, frames, watermarks and delays, seeded; order is kept within a source."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from distced.middleware.model.events import CompositeEvent, Event
from tests.support.random_patterns import make_events

END = 1_000
"""Beyond every event and time event of the generated streams."""


@dataclass(frozen=True)
class Message:
    """What a source sends at once: events, of one type or not, with a watermark if it gives one.

    A message without events and with a watermark is a heartbeat.
    """

    source: str
    events: tuple[Event, ...]
    watermark: int | None


def comparable(found: list[CompositeEvent]) -> list[object]:
    """What two runs have to agree in, in any order."""
    return sorted((e.type, e.id, e.lo, e.hi, e.constituents, repr(sorted(e.attributes.items()))) for e in found)


def spread(random: Random, count: int, sources: int, *, span: int = 10) -> list[Event]:
    """Random events, each from one of `sources` sources, whose sequence numbers follow the order of time."""
    numbers = dict.fromkeys(range(sources), 0)
    events = []
    for event in make_events(random, count, span=span):
        source = random.randrange(sources)
        events.append(Event(event.type, event.lo, event.hi, f"s{source}", numbers[source], event.attributes))
        numbers[source] += 1
    return sorted(events, key=lambda event: event.key)


def messages(random: Random, events: list[Event], source: str, *, shuffled: bool = False) -> list[Message]:
    """What a source sends: frames of random size, watermarks that hold, heartbeats in between; at last, `END`.

    Where `shuffled`, events leave their order as far as the watermarks allow.
    """
    own = [event for event in events if event.source == source]
    sent: list[Message] = []
    while own:
        size = random.randrange(1, 4)
        frame, own = own[:size], own[size:]
        if shuffled and own and random.random() < 0.5:
            later = random.randrange(len(own))
            frame[-1], own[later] = own[later], frame[-1]
        highest = min((event.hi for event in own), default=END) - 1
        promise = random.randrange(-3, highest + 1) if highest >= -3 else None
        if random.random() < 0.5:
            sent.append(Message(source, tuple(frame), promise))
        else:
            sent.append(Message(source, tuple(frame), None))
            if random.random() < 0.7:
                sent.append(Message(source, (), promise))
    sent = [each for each in sent if each.events or each.watermark is not None]
    return [*sent, Message(source, (), END)]


def interleaved(random: Random, *streams: list[Message], again: float = 0.0) -> list[Message]:
    """All messages in an order they may arrive in; a share of them arrives again, some time afterwards."""
    waiting = [list(stream) for stream in streams if stream]
    arriving: list[Message] = []
    repeated: list[Message] = []
    while waiting:
        if repeated and random.random() < 0.3:
            arriving.append(repeated.pop(random.randrange(len(repeated))))
            continue
        stream = random.choice(waiting)
        message = stream.pop(0)
        arriving.append(message)
        if random.random() < again:
            repeated.append(message)
        waiting = [each for each in waiting if each]
    return arriving + repeated

"""The primitive solution: every PDA subscribes to all primitive events that its pattern names, and detects for itself.

composite-event-framework-2004: "a JMS-only solution (PE), in which the wireless PDAs subscribed to all the primitive
events and performed the CE detection themselves in an ad hoc manner". It has no directory, no administration and no
renewals, and sends the same events over the same links at QoS 1. Variants by what is sent and who filters:

    mqtt            frames of this project without numbers, a topic for each type and source; a PDA reads four types
    mqtt-narrow     the same, with the filtered attributes as levels of the topic: the server filters by them
    json            the events as JSON, a topic for each type and source; a PDA reads four types
    jms             text messages of JMS with an event in XML, a topic for each type; a PDA reads four topics
    jms-selectors   the same with message selectors, f2 and f3 of the article: the server filters by them

A message of JMS is in STOMP 1.2 with the headers of the JMS specification (section 3.4) and those of a selector, as
ActiveMQ writes it: the article's JORAM serialises Java objects, of a size that it does not report. Its acknowledgements
are counted as those of MQTT, which are smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Final
from xml.sax.saxutils import escape

import msgspec

from distced.brokers.core.effects import Publish, Subscribe
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import MILLISECOND, SECOND
from distced.middleware.wire.administration import METERED_EVERY, Heartbeat
from distced.middleware.wire.codec import encode
from distced.middleware.wire.frames import encode as encode_frame
from distced.policies.topology.model import Place
from distced.policies.topology.topology import Topology
from distced.simulations.experiments.office_network.office_events import OfficeEvents, office_events
from distced.simulations.experiments.office_network.setting import (
    BUILDING,
    EVENTS_AT,
    LEAD,
    PDA,
    READ,
    NetworkSpec,
    SettingSpec,
    office_topology,
    served_by,
)
from distced.simulations.network.scenario.outcome import LinkTraffic
from distced.simulations.network.scenario_model import START
from distced.simulations.network.transport.connections import Participant
from distced.simulations.network.transport.fabric import Fabric

PROMISES: Final = "promises"
"""Topic of the building's heartbeats, where both solutions have them."""

MEETING_ROOMS: Final = ("Meeting Room 1", "Meeting Room 2")

_HELD: Final = 5 * SECOND
"""Time after the working day in which the last messages arrive, ns."""


def by_source(event: Event) -> str:
    """Topic of an event by its type and source."""
    return f"{event.type}/{event.source}"


def by_attributes(event: Event) -> str:
    """Topic of an event by its type and the attributes that the pattern filters by."""
    attributes = event.attributes
    return "/".join([event.type, *(str(attributes[name]) for name in ("person", "room") if name in attributes)])


def by_type(event: Event) -> str:
    """Topic of an event by its type."""
    return event.type


def _all_types(person: str) -> list[str]:
    return [f"{name}/#" for name in READ]


def _filtered(person: str) -> list[str]:
    """f2 and f3: sightings and log-ins of a person; of the sightings those in the meeting rooms, which have boards."""
    return [*(f"Pers/{person}/{room}" for room in MEETING_ROOMS), "BoardOn/#", "BoardOff/#", f"Login/{person}/#"]


def frames(events: Sequence[Event]) -> bytes:
    """Events in a frame, without a number and a promise."""
    return encode_frame(events, type=events[0].type, source=events[0].source, watermark=None, check=False)


def as_json(events: Sequence[Event]) -> bytes:
    """Events in JSON, as the project reads it."""
    made = [
        {"lo": each.lo, "hi": each.hi, "source": each.source, "seq": each.seq, **each.attributes} for each in events
    ]
    return msgspec.json.encode(made[0] if len(made) == 1 else made)


def jms_message(events: Sequence[Event]) -> bytes:
    """A text message of JMS with events in XML."""
    first = events[0]
    headers = {
        "subscription": "1",
        "message-id": f"ID\\c{first.source}-41234-{START // MILLISECOND}-1\\c1\\c1\\c1\\c{first.seq}",
        "destination": f"/topic/{first.type}",
        "timestamp": str(first.hi // MILLISECOND),
        "expires": "0",
        "priority": "4",
        "persistent": "true",
        "type": first.type,
        **{name: str(value) for name, value in first.attributes.items()},
    }
    body = "".join(_as_xml(each) for each in events)
    lines = ["MESSAGE", *(f"{name}:{value}" for name, value in headers.items()), "", f"{body}\0"]
    return "\n".join(lines).encode()


def _as_xml(event: Event) -> str:
    attributes = "".join(f"<{name}>{escape(str(value))}</{name}>" for name, value in event.attributes.items())
    head = f'<event type="{event.type}" source="{event.source}" seq="{event.seq}" lo="{event.lo}" hi="{event.hi}">'
    return f"{head}{attributes}</event>"


class PrimitiveSolution(msgspec.Struct, frozen=True):
    """A variant: topic of an event, payload of events, topics that the PDA of a person reads."""

    topic: Callable[[Event], str]
    payload: Callable[[Sequence[Event]], bytes]
    read: Callable[[str], list[str]]
    about: str


PRIMITIVE: Final[Mapping[str, PrimitiveSolution]] = {
    "mqtt": PrimitiveSolution(by_source, frames, _all_types, "MQTT, topics by type, binary frames"),
    "mqtt-narrow": PrimitiveSolution(by_attributes, frames, _filtered, "MQTT, topics by attributes, binary frames"),
    "json": PrimitiveSolution(by_source, as_json, _all_types, "MQTT, topics by type, JSON"),
    "jms": PrimitiveSolution(by_type, jms_message, _all_types, "JMS, topics by type, XML"),
    "jms-selectors": PrimitiveSolution(by_attributes, jms_message, _filtered, "JMS, message selectors, XML"),
}
"""Variants by name."""


class _Sensors(Participant):
    """The sensors of the building, on one connection; they publish what is due."""

    def __init__(self, network: Fabric, place: Place, solution: PrimitiveSolution, office: OfficeEvents) -> None:
        super().__init__(network, place)
        self._solution = solution
        for at, events in office.messages:
            network.engine.at(START + at, self._send, events)

    def _send(self, events: tuple[Event, ...]) -> None:
        for topic, group in groupby(events, key=self._solution.topic):
            self.do([Publish(topic, self._solution.payload(list(group)), home=self.home)])

    def promise(self, sources: tuple[str, ...], every: int, behind: int) -> None:
        """Promise for all sources, again and again."""
        engine = self.network.engine
        beat = Heartbeat(sources, engine.instant - behind - 1)
        self.do([Publish(PROMISES, encode(beat), home=self.home)])
        engine.after(every, self.promise, sources, every, behind)


class _Pda(Participant):
    """A PDA that reads primitive events; `received` is their number of messages."""

    received = 0

    def arrived(self, topic: str, payload: bytes, home: str) -> None:
        self.received += 1


def run_primitive(
    network: NetworkSpec, setting: SettingSpec, pdas: int, duration: int, seed: int, solution: str
) -> tuple[list[LinkTraffic], int]:
    """Run the office with PDAs that subscribe to primitive events; traffic, and messages that one PDA gets."""
    office, variant = office_events(seed, setting, duration), PRIMITIVE[solution]
    topology = office_topology(network, pdas, office.rates(duration))
    fabric = Fabric(
        topology, start=START - LEAD, seed=seed, keepalive=network.keepalive_ns, served_by=served_by(pdas), pings=True
    )
    sensors = _Sensors(fabric, topology.publishers[BUILDING].place, variant, office)
    sensors.connection(sensors.home)
    if setting.heartbeat:
        sources, every = tuple(office.sources), setting.heartbeat_ns
        fabric.engine.at(START, sensors.promise, sources, every, setting.batch_ns)
    readers = [_reader(fabric, topology, number, setting, variant, metered=network.metered) for number in range(pdas)]
    fabric.run(LEAD + duration + _HELD)
    fabric.count_pings()
    return [_traffic(fabric, pair) for pair in fabric.links.all], readers[0].received


def _reader(
    fabric: Fabric, topology: Topology, number: int, setting: SettingSpec, variant: PrimitiveSolution, *, metered: bool
) -> _Pda:
    pda = _Pda(fabric, topology.subscribers[f"{PDA}{number + 1}"].place)
    pda.keepalive = METERED_EVERY if metered else 0
    topics = variant.read(setting.person(number)) + ([PROMISES] if setting.heartbeat else [])
    pda.do([Subscribe(topic, home=EVENTS_AT) for topic in topics])
    return pda


def _traffic(fabric: Fabric, pair: tuple[str, str]) -> LinkTraffic:
    link = fabric.links.all[pair]
    messages = {area: count for area, (count, _) in link.traffic.items()}
    sizes = {area: size for area, (_, size) in link.traffic.items()}
    return LinkTraffic(link.origin, link.target, messages, sizes, link.bytes * link.cost)

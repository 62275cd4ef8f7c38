"""Setting of an experiment in the Active Office: the network of the article's Fig. 10, and what a file varies.

    building ==== jms-2 ==== jms-1          === wired, counted as wired
                    |  \\    /  |            ... wireless, one link of each PDA to each server, counted as wireless
               broker-2  ....  broker-1
                          pda-1, pda-2, ...

All sensors publish at `jms-2`, as in the article; `jms-1` has the directory (the admin server). Broker nodes stand at
sites of their own, so that what they read and publish is counted. A PDA reaches each server over its wireless link
alone: the wired hop behind the access point is not counted, for neither solution. Only `jms-1` and `jms-2` are servers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from distced.middleware.model.timestamps import MINUTE, format_duration, parse_duration
from distced.policies.topology.model import BrokerNode, Link, Publisher, Site, Subscriber
from distced.policies.topology.quantities import parse_bandwidth
from distced.policies.topology.topology import Topology
from distced.simulations.network.scenario.outcome import LinkTraffic

BUILDING: Final = "building"
DIRECTORY, EVENTS_AT = "jms-1", "jms-2"
BROKERS: Final = {"broker-1": DIRECTORY, "broker-2": EVENTS_AT}
PDA: Final = "pda-"

RESIDENTS: Final = ("Jean", "Anna", "Brian", "Ruth", "Peter", "Maria", "David", "Ken")

READ: Final = ("Pers", "BoardOn", "BoardOff", "Login")
"""Types of the primitive events that equations 1 and 2 of the article name."""

Sightings: TypeAlias = Literal["once a minute", "as sensed"]
Patterns: TypeAlias = Literal["one for all", "one each"]


class NetworkSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Links of the network, keepalive of connections, interval of the ticks of nodes, whether PDAs take their links for
    metered ones."""

    wired_latency: str = "500us"
    wired_bandwidth: str = "100Mbit/s"
    wireless_latency: str = "20ms"
    wireless_jitter: str = "20ms"
    wireless_bandwidth: str = "1Mbit/s"
    keepalive: str = "60s"
    tick: str = "100ms"
    metered: bool = True

    @property
    def keepalive_ns(self) -> int:
        return parse_duration(self.keepalive)

    @property
    def tick_ns(self) -> int:
        return parse_duration(self.tick)


class SettingSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One setting of the office.

    Attributes:
        about: of the setting, for readers of the report.
        subscribers: numbers of PDAs.
        sightings: `once a minute`, or each one of the office's receivers, `as sensed`.
        detection: of both solutions.
        heartbeat: interval of the building's promises, which both solutions read; empty for none.
        batch: period for which a source collects events before it sends them; empty for none.
        patterns: whether all PDAs subscribe to the article's C, for Jean, or each one for another resident.
    """

    name: str
    about: str
    subscribers: tuple[int, ...]
    sightings: Sightings = "once a minute"
    detection: str = "best-effort"
    heartbeat: str = ""
    batch: str = ""
    patterns: Patterns = "one for all"

    @property
    def heartbeat_ns(self) -> int:
        return parse_duration(self.heartbeat) if self.heartbeat else 0

    @property
    def batch_ns(self) -> int:
        return parse_duration(self.batch) if self.batch else 0

    def person(self, pda: int) -> str:
        """The person that a PDA is of, counted from 0."""
        return RESIDENTS[0] if self.patterns == "one for all" else RESIDENTS[pda % len(RESIDENTS)]


NETWORK: Final = msgspec.json.Decoder(NetworkSpec)
SETTING: Final = msgspec.json.Decoder(SettingSpec)
"""Decoders of what cells of experiments have, made at import."""

T1: Final = 5 * MINUTE
"""The timer of C: "does not log in to the workstation in her office within five minutes of the meeting", ns."""


def pattern_for(person: str, timer: int = T1) -> tuple[str, dict[str, str]]:
    """The article's C for a person, with its definition of C1 (equations 1 and 2); `timer` is T1, ns."""
    theirs = f"Pers where person == '{person}' and room == b.room"
    over = "BoardOff where room == b.room"
    attended = f"[BoardOn as b] [ [{theirs}] [{theirs}]* [{over}] <= {{{theirs}, {over}}} ]"
    missed = f"([Attended], [T <= {{T, Login where person == '{person}'}}]) @ T = {format_duration(timer)}"
    return f"{missed} -> MissedMeeting(room = b.room, person = '{person}')", {"Attended": attended}


def patterns_for(person: str, timer: int = T1) -> dict[str, tuple[str, dict[str, str]]]:
    """C and C1 for a person, each with its definitions: the last event of C is a timer, that of C1 one of a sensor."""
    missed, definitions = pattern_for(person, timer)
    attended = f"{definitions['Attended']} -> Attended(room = b.room, person = '{person}')"
    return {"C": (missed, definitions), "C1": (attended, {})}


class Notified(NamedTuple):
    """A notification, C or C1, of a PDA, counted from 0, and how long after its last event it has come, ns."""

    notification: str
    pda: int
    delay: int


def office_topology(spec: NetworkSpec, pdas: int, rates: Mapping[str, float]) -> Topology:
    """The network with a number of PDAs; `rates` of the building's events, events a second."""
    names = [f"{PDA}{number}" for number in range(1, pdas + 1)]
    latency, bandwidth = parse_duration(spec.wired_latency), parse_bandwidth(spec.wired_bandwidth)
    wired = [(DIRECTORY, EVENTS_AT), (BUILDING, EVENTS_AT), *BROKERS.items()]
    links = [Link(pair, latency, bandwidth=bandwidth) for pair in wired]
    links += [
        Link(
            (name, server), parse_duration(spec.wireless_latency), parse_duration(spec.wireless_jitter),
            parse_bandwidth(spec.wireless_bandwidth), cost=10.0,
        )
        for name in names
        for server in (DIRECTORY, EVENTS_AT)
    ]  # fmt: skip
    return Topology(
        [Site(name, local_latency=0) for name in (DIRECTORY, EVENTS_AT, BUILDING, *BROKERS, *names)],
        [BrokerNode(name, name) for name in BROKERS],
        [Publisher(BUILDING, BUILDING, tuple(rates), rates)],
        [Subscriber(name, name) for name in names],
        links,
        directory=DIRECTORY,
    )


def served_by(pdas: int) -> dict[str, str]:
    """Sites without a server of their own, with the site whose server they use."""
    names = (f"{PDA}{number}" for number in range(1, pdas + 1))
    return {BUILDING: EVENTS_AT, **BROKERS, **dict.fromkeys(names, DIRECTORY)}


LEAD: Final = MINUTE
"""Time before the working day in which all participants start, ns; its bytes count."""

_AREAS: Final = {
    "e": "events", "c": "composite", "d": "directory", "a": "administration", "x": "administration",
    "mqtt": "connections", "other": "events",
}  # fmt: skip


def traffic_row(links: Iterable[LinkTraffic]) -> dict[str, int]:
    """Bytes of all links, by class, by part of the wired network, and by what the messages are."""
    row = dict.fromkeys(("total_bytes", "wired_bytes", "wireless_bytes"), 0)
    row |= dict.fromkeys(("sensors_bytes", "servers_bytes", "brokers_bytes"), 0)
    row |= {f"{place}_{area}_bytes": 0 for place in ("wired", "wireless") for area in dict.fromkeys(_AREAS.values())}
    for link in links:
        ends = {link.origin, link.target}
        place = "wireless" if any(end.startswith(PDA) for end in ends) else "wired"
        size = sum(link.bytes.values())
        row["total_bytes"] += size
        row[f"{place}_bytes"] += size
        if place == "wired":
            part = "sensors" if BUILDING in ends else "brokers" if ends & BROKERS.keys() else "servers"
            row[f"{part}_bytes"] += size
        for area, some in link.bytes.items():
            row[f"{place}_{_AREAS[area]}_bytes"] += some
    return row

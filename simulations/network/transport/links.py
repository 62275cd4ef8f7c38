"""Links in one direction with their queues, the paths of messages over them, and the sizes of messages.

A link sends one message after the other at its bandwidth (store and forward), then takes its latency and some jitter.
Connections share a link and its queue. Order is kept within a path, not between paths: TCP does not deliver what
overtook. Messages wait at a link that is down, since TCP repeats them; its back-off, by which they would come a little
later, is left out.

Sizes are those of MQTT 5 packets (sections 2.1, 3.3) in TCP segments over IPv4. Pings of idle connections count where
a fabric asks for it, and take no bandwidth. Left out: TCP's own acknowledgements, which ride along with traffic; frames
of the link layer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import COUNTERS
from distced.middleware.wire.topics import ROOT, Area
from distced.policies.topology.model import Link
from distced.policies.topology.paths import NetworkPath
from distced.policies.topology.topology import Topology
from distced.simulations.network.transport.virtual_time import VirtualTime

SEGMENT: Final = 1_460
"""Bytes of payload in a TCP segment on Ethernet."""

SEGMENT_HEADERS: Final = 40
"""Bytes of the headers of IPv4 and TCP."""

ACKNOWLEDGEMENT: Final = SEGMENT_HEADERS + 4
"""Bytes of the acknowledgement of a message at QoS 1, and of a subscription."""

PING: Final = SEGMENT_HEADERS + 2
"""Bytes of a ping of an idle connection, and of its answer."""

HANDSHAKE: Final = 3 * SEGMENT_HEADERS
"""Bytes of the opening of a TCP connection."""


def message_size(topic: str, payload: int, qos: int) -> int:
    """Bytes of a message; `payload` is the size of its payload."""
    rest = 3 + len(topic.encode()) + payload + (2 if qos else 0)
    return segmented(1 + _length(rest) + rest)


def subscribe_size(topic_filter: str) -> int:
    """Bytes of a message that subscribes or unsubscribes."""
    rest = 6 + len(topic_filter.encode())
    return segmented(1 + _length(rest) + rest)


def connect_size(client: str, will_topic: str | None) -> int:
    """Bytes of the opening of a connection: TCP's handshake, and CONNECT with the will."""
    rest = 13 + len(client.encode()) + (0 if will_topic is None else 5 + len(will_topic.encode()))
    return HANDSHAKE + segmented(1 + _length(rest) + rest)


def segmented(size: int) -> int:
    """Bytes of a packet with the headers of its segments."""
    return size + SEGMENT_HEADERS * -(-size // SEGMENT)


def _length(rest: int) -> int:
    """Bytes of the length field of a packet."""
    return 1 if rest < 128 else 2 if rest < 16_384 else 3 if rest < 2_097_152 else 4


MQTT: Final = "mqtt"
"""Area for the traffic of connections themselves."""

OTHER: Final = "other"
"""Area of composite events as JSON."""

_BELOW: Final = f"{ROOT}/"
_AREA: Final = len(_BELOW)
_OF_DIRECTORY: Final = tuple(f"{ROOT}/{Area.ADMINISTRATION}/{each}/" for each in ("known", "alive", COUNTERS))
_DIRECTORY: Final = str(Area.DIRECTORY)


def area_of(topic: str) -> str:
    """Area of a topic, one letter, as of `Area`; `OTHER` for foreign topics.

    Barriers, renewals and counters of nodes count for the directory.
    """
    if not topic.startswith(_BELOW):
        return OTHER
    # Barriers read the directory and measure servers, renewals keep its entries, whatever is detected; counters
    # complete those of nodes.
    return _DIRECTORY if topic.startswith(_OF_DIRECTORY) else topic[_AREA]


class DirectedLink:
    """A link in one direction, its queue and its traffic.

    Attributes:
        origin, target: sites.
        latency, jitter: ns, as of `Link`.
        bandwidth: bytes a second; 0 for unlimited.
        cost: of a byte.
        free: instant at which the queue is sent, ns.
        down: number of faults that keep it down.
        delay: by which faults delay messages on it, ns.
        held: messages waiting for it: path, place on it, message.
        traffic: messages and bytes by area, `mqtt` for the packets of connections.
    """

    __slots__ = (
        "bandwidth", "cost", "delay", "down", "free", "held", "jitter", "latency", "origin", "target", "traffic",
    )  # fmt: skip

    def __init__(self, origin: str, target: str, link: Link) -> None:
        self.origin = origin
        self.target = target
        self.latency = link.latency
        self.jitter = link.jitter
        self.bandwidth = link.bandwidth or 0
        self.cost = link.cost
        self.free = 0
        self.down = 0
        self.delay = 0
        self.held: list[tuple[LinkPath, int, Any, int, str]] = []
        self.traffic: dict[str, list[int]] = {}

    def count(self, area: str, size: int) -> None:
        """Count a message of `size` bytes."""
        counted = self.traffic.get(area)
        if counted is None:
            counted = self.traffic[area] = [0, 0]
        counted[0] += 1
        counted[1] += size

    def fail(self) -> None:
        """Take the link down; messages wait."""
        self.down += 1

    def mend(self) -> None:
        """End one fault; after the last the waiting messages continue in order."""
        self.down -= 1
        if not self.down:
            held, self.held = self.held, []
            for path, place, item, size, area in held:
                path.cross(place, item, size, area)

    @property
    def bytes(self) -> int:
        """Bytes sent so far."""
        return sum(size for _, size in self.traffic.values())


@dataclass(slots=True, eq=False)
class LinkPath:
    """One direction of a connection: its links in order, none within a site.

    Attributes:
        before, behind: ns within the first and the last site.
        arrived: gets each message.
        open: once closed, messages under way are lost.
        answers: path of the answers to pings; None where pings do not count.
        keepalive: longest time in which nothing is sent without a ping, ns.
    """

    _time: VirtualTime
    links: Sequence[DirectedLink]
    before: int
    behind: int
    arrived: Callable[[Any], object]
    open: bool = True
    answers: LinkPath | None = None
    keepalive: int = 0
    # When the last message had come through each link, ns.
    _last: list[int] = field(init=False)
    # When something was sent last, ns.
    _sent_at: int = field(init=False)

    def __post_init__(self) -> None:
        self._last = [0] * len(self.links)
        self._sent_at = self._time.instant

    @property
    def latency(self) -> int:
        """Latency of a small message without queues and jitter, ns."""
        return self.before + self.behind + sum(each.latency for each in self.links)

    @property
    def down(self) -> bool:
        """Whether one of its links is down."""
        return any(each.down for each in self.links)

    def send(self, item: Any, size: int, area: str) -> None:
        """Send a message of `size` bytes."""
        time = self._time
        if self.answers is not None:
            self.count_pings()
        if self.links:
            time.at(time.instant + self.before, self.cross, 0, item, size, area)
        else:
            time.at(time.instant + self.before + self.behind, self._arrive, item)

    def cross(self, place: int, item: Any, size: int, area: str) -> None:
        """Queue a message at the link at this place."""
        if not self.open:
            return
        link = self.links[place]
        if link.down:
            link.held.append((self, place, item, size, area))
            return
        # The most frequent step of a run by far: hence without calls.
        counted = link.traffic.get(area)
        if counted is None:
            counted = link.traffic[area] = [0, 0]
        counted[0] += 1
        counted[1] += size
        time = self._time
        instant = time.instant
        if link.bandwidth:
            if link.free > instant:
                instant = link.free
            instant -= -size * SECOND // link.bandwidth
            link.free = instant
        instant += link.latency + link.delay
        if link.jitter:
            instant += int(time.random.random() * link.jitter)
        last = self._last[place]
        if last > instant:
            instant = last
        self._last[place] = instant
        place += 1
        if place == len(self.links):
            time.at(instant + self.behind, self._arrive, item)
        else:
            time.at(instant, self.cross, place, item, size, area)

    def acknowledge(self) -> None:
        """Count the acknowledgement of a message from the other end; it takes bandwidth and delays nothing."""
        if self.answers is not None:
            self.count_pings()
        for link in self.links:
            if link.bandwidth:
                begin = max(link.free, self._time.instant)
                link.free = begin - (-ACKNOWLEDGEMENT * SECOND // link.bandwidth)
            link.count(MQTT, ACKNOWLEDGEMENT)

    def count_pings(self) -> None:
        """Count the pings since something was sent last, with their answers: one after each keepalive."""
        now, answers = self._time.instant, self.answers
        pings = (now - self._sent_at) // self.keepalive if self.open and answers is not None else 0
        self._sent_at = now
        if pings and answers is not None:
            for link in (*self.links, *answers.links):
                counted = link.traffic.setdefault(MQTT, [0, 0])
                counted[0] += pings
                counted[1] += pings * PING

    def _arrive(self, item: Any) -> None:
        if self.open:
            self.arrived(item)


class Links:
    """The links of a topology in both directions, by the sites they lead from and to."""

    def __init__(self, topology: Topology) -> None:
        self.all: dict[tuple[str, str], DirectedLink] = {
            (origin, target): DirectedLink(origin, target, link)
            for link in topology.links
            for origin, target in link.directions
        }

    def between(self, one: str, other: str) -> list[DirectedLink]:
        """The links between two sites, both directions."""
        return [each for pair in ((one, other), (other, one)) if (each := self.all.get(pair)) is not None]

    def of_site(self, site: str) -> list[DirectedLink]:
        """The links from and to a site."""
        return [each for each in self.all.values() if site in (each.origin, each.target)]

    def along(self, path: NetworkPath) -> tuple[DirectedLink, ...]:
        """The links of a path."""
        return tuple(self.all[hop.origin, hop.target] for hop in path.hops)

"""A publisher in the simulation: becomes a source, waits for the broker nodes, publishes what it has when it is due.

The protocol of `middleware.client.client` and `middleware.client.source`: the source is announced at its home; once all
broker nodes have acknowledged it events are published, several of one type in a frame; watermarks travel with them
where the source has one type only, and as heartbeats else. Where nodes take long, events wait; the client would raise
an error and leave it to the application to try again.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from distced.brokers.core.effects import Effect, Publish, Subscribe
from distced.middleware.client.source import FRAME
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.directory_entries import Acknowledgement, Heartbeat, SourceEntry, decode, encode
from distced.middleware.wire.frames import encode as encode_frame
from distced.middleware.wire.topics import Area, administration_topic, area_filter, event_topic
from distced.policies.topology.model import Place
from distced.simulations.network.participants.client import SimulatedClient
from distced.simulations.network.scenario_model import Send, Stream

if TYPE_CHECKING:
    from distced.simulations.network.network import Network

PROMISE_AGAIN: Final = SECOND
"""How often the last watermark is told again, ns: a heartbeat at QoS 0 may be lost, and others may come later."""


class SimulatedPublisher(SimulatedClient):
    """A publisher with the streams of its sources.

    Attributes:
        sources: by name.
        published: the events that were sent and not lost, in order.
        lost: how many messages were lost on the way to the server.
        late: events that were not sent, for the detectors were beyond them when the source began.
    """

    def __init__(self, network: Network, place: Place, loss: float) -> None:
        super().__init__(network, place)
        self.sources: dict[str, _Source] = {}
        self.published: list[Event] = []
        self.lost = 0
        self.late: list[Event] = []
        self._loss = loss
        self._qos = 0 if loss else 1

    def source(self, stream: Stream, start: int) -> None:
        """Become a source, and publish from `start`, ns, on."""
        self.sources[stream.source] = _Source(stream, start)
        if self.known:
            self._become(self.sources[stream.source])

    @property
    def done(self) -> bool:
        """Whether everything was sent."""
        return all(each.sent == len(each.stream.sends) for each in self.sources.values())

    # What happens to it.

    def connected(self, home: str) -> None:
        super().connected(home)
        if not home:
            self.do([Subscribe(area_filter(Area.ADMINISTRATION, "ack"))])

    def changed(self, kind: str, name: str, payload: bytes) -> None:
        if kind == "":
            for each in self.sources.values():
                if not each.announced:
                    self._become(each)
        elif kind == "source" and not payload and name in self.sources:
            self.sources[name].fenced = True
        if kind in ("", "node"):
            self._look()

    def heard(self, levels: tuple[str, ...], payload: bytes, topic: str, home: str) -> None:
        if levels[0] == "ack" and len(levels) == 3 and levels[1] in self.sources:
            source = self.sources[levels[1]]
            if not source.begun:
                source.acknowledged[levels[2]] = decode(payload, Acknowledgement, where=topic).watermark
                self._look()

    def _become(self, source: _Source) -> None:
        stream = source.stream
        source.announced = True
        floor = source.floor(self.network.engine.instant)
        self.put("source", stream.source, SourceEntry(stream.types, floor, stream.lease, self.client, self.home))

    def _look(self) -> None:
        """Begin where all broker nodes count with a source."""
        nodes = self.entries["node"].keys()
        for source in self.sources.values():
            if source.announced and not source.begun and self.known and nodes and nodes <= source.acknowledged.keys():
                source.begun = True
                floor = source.floor(self.network.engine.instant)
                source.watermark = max(floor, *source.acknowledged.values())
                self._next(source)

    def _next(self, source: _Source) -> None:
        """Send what is due, and wait for what is next."""
        engine, sends = self.network.engine, source.stream.sends
        if not self.alive or source.fenced:
            return
        while source.sent < len(sends) and sends[source.sent].at + source.start <= engine.instant:
            send = sends[source.sent]
            source.sent += 1
            self._send(source, send)
        if source.sent < len(sends):
            engine.at(sends[source.sent].at + source.start, self._next, source)
        else:
            self._promise_again(source)

    def _promise_again(self, source: _Source) -> None:
        if source.promised is not None and self.alive and not source.fenced:
            engine = self.network.engine
            engine.after(PROMISE_AGAIN, self._promise_again, source)
            if self.network.promising:
                self.do(self._unless_lost([self._heartbeat(source, source.promised)]))

    def _send(self, source: _Source, send: Send) -> None:
        stream, watermark = source.stream, send.watermark
        events = [each for each in send.events if each.hi > source.watermark]
        if len(events) < len(send.events):
            self.late += [each for each in send.events if each.hi <= source.watermark]
        apart = watermark is not None and (not events or len(stream.types) > 1)
        groups = [list(group) for _, group in groupby(events, key=lambda event: event.type)]
        for place, group in enumerate(groups):
            promised = None if apart or place < len(groups) - 1 else watermark
            for begin in range(0, len(group), FRAME):
                frame = group[begin : begin + FRAME]
                last = promised if begin + FRAME >= len(group) else None
                topic = event_topic(frame[0].type, stream.source)
                payload = encode_frame(frame, type=frame[0].type, source=stream.source, watermark=last, check=False)
                if self._arrives():
                    self.published += frame
                    self.do([Publish(topic, payload, self._qos, home=self.home)])
        if watermark is not None:
            source.watermark = source.promised = max(watermark, source.watermark)
            if apart:
                self.do(self._unless_lost([self._heartbeat(source, watermark)]))

    def _heartbeat(self, source: _Source, watermark: int) -> Effect:
        beat = encode(Heartbeat((source.stream.source,), watermark))
        return Publish(administration_topic("heartbeat", self.client), beat, self._qos, home=self.home)

    def _unless_lost(self, effects: list[Effect]) -> list[Effect]:
        return effects if self._arrives() else []

    def _arrives(self) -> bool:
        if self._loss and self.network.engine.random.random() < self._loss:
            self.lost += 1
            return False
        return True


class _Source:
    """A source of a publisher.

    Attributes:
        stream: what it publishes.
        start: the instant its times count from, ns.
        announced, begun: whether it is in the directory, and whether all nodes count with it.
        fenced: whether somebody has cleared its entry.
        acknowledged: how far the detectors of each node are, ns.
        watermark: what was promised, by it or for it, ns.
        promised: what it has promised itself last, ns.
        sent: how much of its stream was sent.
    """

    def __init__(self, stream: Stream, start: int) -> None:
        self.stream = stream
        self.start = start
        self.announced = False
        self.begun = False
        self.fenced = False
        self.acknowledged: dict[str, int] = {}
        self.watermark = 0
        self.promised: int | None = None
        self.sent = 0

    def floor(self, now: int) -> int:
        """Its first promise."""
        return now - 1 if self.stream.floor is None else self.stream.floor

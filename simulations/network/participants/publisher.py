"""Simulated publisher: opens sources and publishes their streams when messages are due.

A source opens once there are a broker node and its types; until then its events wait. Events at or before its watermark
by then are not sent: they would be late everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Final

from distced.brokers.core.effects import Publish
from distced.middleware.client.source_session import SourceState, heartbeat
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.outbox import Outbox
from distced.middleware.wire.outbox_log import OutboxLog
from distced.policies.topology.model import Place
from distced.simulations.network.participants.client import SimulatedClient
from distced.simulations.network.scenario_model import Send, SourceStream
from distced.simulations.network.transport.fabric import Fabric
from distced.simulations.network.transport.virtual_outbox import VirtualOutbox

PROMISE_AGAIN: Final = SECOND
"""Interval at which the last watermark is repeated, ns: a heartbeat at QoS 0 may be lost, and nodes may start later."""


@dataclass(eq=False)
class _Source:
    """An open source; `start` is the origin of the stream's times, ns, `sent` the number of messages sent."""

    stream: SourceStream
    start: int
    state: SourceState = field(init=False)
    sent: int = 0


class SimulatedPublisher(SimulatedClient):
    """A publisher with the streams of its sources.

    Attributes:
        sources: by name.
        published: events sent, in order, with those that a filter has left out.
        lost: number of messages lost on the way to the server, which readers request again.
        late: events not sent, at or before the watermark of their new source.
    """

    def __init__(
        self,
        network: Fabric,
        place: Place,
        loss: float,
        folder: VirtualOutbox | None = None,
        *,
        filters: bool = False,
    ) -> None:
        """`loss`: probability of losing a message; `folder`: of an outbox that outlives the publisher; `filters`:
        whether its sources leave out events that nobody reads."""
        outbox = None
        if folder is not None:
            outbox = Outbox()
            outbox.attach(OutboxLog(folder, str(place), outbox.most_bytes, network.engine.instant))
        super().__init__(network, place, outbox=outbox, filters=filters)
        self.sources: dict[str, _Source] = {}
        self.published: list[Event] = []
        self.lost = 0
        self.late: list[Event] = []
        self._loss = loss
        # Sources that wait for the directory, a node, or their types.
        self._unopened: list[_Source] = []

    def source(self, stream: SourceStream, start: int, sent: int = 0) -> None:
        """Open a source that publishes from `start` on, ns, behind the messages that an earlier process has sent."""
        source = self.sources[stream.source] = _Source(stream, start, sent=sent)
        self._unopened.append(source)
        self._open_sources()

    @property
    def done(self) -> bool:
        """Whether everything was sent."""
        return all(each.sent == len(each.stream.sends) for each in self.sources.values())

    def arrived(self, topic: str, payload: bytes, home: str) -> None:
        super().arrived(topic, payload, home)
        if self._unopened:
            self._open_sources()

    def _open_sources(self) -> None:
        session, now = self.session, self.network.engine.instant
        if not session.directory.known or not session.entries.nodes:
            return
        types = session.entries.types
        for source in [each for each in self._unopened if types.keys() >= set(each.stream.types)]:
            self._unopened.remove(source)
            stream, qos = source.stream, 0 if self._loss else 1
            floor = now - 1 if stream.floor is None else stream.floor
            named = {name: types[name] for name in stream.types}
            source.state = SourceState(
                session.name,
                stream.source,
                named,
                floor,
                qos,
                now,
                home=self.home,
                streams=session.sources.streams,
                wanted=session.filters.filter,
            )
            self.do(session.open_sources([source.state], stream.lease, partial(self._opened, source)))

    def _opened(self, source: _Source, error: DistcedError | None) -> None:
        if error is not None:
            raise error
        self._publish_due(source)

    def _publish_due(self, source: _Source) -> None:
        """Send the messages that are due, and schedule the next one."""
        engine, sends = self.network.engine, source.stream.sends
        if not self.publishes(source.stream.source):
            return
        while source.sent < len(sends) and sends[source.sent].at + source.start <= engine.instant:
            send = sends[source.sent]
            source.sent += 1
            self._send(source.state, send)
        if source.sent < len(sends):
            engine.at(sends[source.sent].at + source.start, self._publish_due, source)
        else:
            self._repeat(source)

    def _repeat(self, source: _Source) -> None:
        promised = [each.watermark for each in source.stream.sends if each.watermark is not None]
        if promised and self.publishes(source.stream.source):
            self.network.engine.after(PROMISE_AGAIN, self._repeat, source)
            now = self.network.engine.instant
            watermark = max(source.state.watermark, *promised)
            beat = heartbeat(self.session.name, [source.state], watermark, now, home=self.home)
            self._publish(beat, events=False)

    def _send(self, source: SourceState, send: Send) -> None:
        events = [each for each in send.events if each.hi > source.watermark]
        self.late += [each for each in send.events if each.hi <= source.watermark]
        watermark = None if send.watermark is None else max(send.watermark, source.watermark)
        for frame, message in source.messages(events, watermark, self.network.engine.instant):
            self._publish(message, events=bool(frame))
        self.published += events

    def _publish(self, message: Publish, *, events: bool) -> None:
        """Send a message, unless it is lost, or waits in the outbox."""
        if self.session.sources.defer(message, events=events):
            return
        if self._loss and self.network.engine.random.random() < self._loss:
            self.lost += 1
        else:
            self.do([message])

    def publishes(self, source: str) -> bool:
        """Whether a source is open and continues; one whose entry was cleared has been fenced off."""
        return self.alive and source in self.session.directory.own.get("source", {})

"""Live driver of a sans-I/O participant: MQTT buses bring messages and the time, and carry out its effects.

A message is handled on the thread of the bus that delivered it: no change of threads from socket to socket. Buses, one
per server (`middleware.bus.pool`), take turns with the participant. Effects at a server are carried out by the thread
of its bus, in order of decision; a slow or absent server delays its own effects only.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeAlias

from distced.brokers.core.effects import Note, Publish, Subscribe, Unsubscribe
from distced.brokers.core.metrics import Delays, MetricsReading, Values, put
from distced.brokers.live.metrics_board import MetricsBoard
from distced.middleware.bus import Bus, BusState, Message
from distced.middleware.bus.logger import Logger
from distced.middleware.bus.pool import Connections
from distced.middleware.bus.subscriptions import Handler
from distced.middleware.model.clock import Clock, SystemClock
from distced.middleware.model.errors import BusError
from distced.middleware.wire.topics import ROOT

if TYPE_CHECKING:
    from distced.brokers.live.participant_traces import Described, ParticipantTraces, Released
    from distced.middleware.bus.traces import Traces

MAX_QUEUED: Final = 100_000
"""Messages queued for one server at most; further ones are dropped, and counted."""

HOMES: Final = 20
"""Servers with metrics of their own: the first; those of further ones are added up."""

DIRECTORY: Final = "directory"
"""The server of the directory in metrics, where its connection has no name."""

OTHERS: Final = "others"
"""Further servers in metrics."""

MqttEffect: TypeAlias = Publish | Subscribe | Unsubscribe


class Outlet:
    """Effects at one server, in order.

    Attributes:
        waiting: effects to be carried out.
        put: takes an effect, under the participant's lock.
        unsent: number of messages dropped, queue of the bus full.
    """

    def __init__(self, home: str, bus: Bus, handler_of: Callable[[str], Handler], warn: Callable[..., None]) -> None:
        """Effects at a home, given the handlers of messages by filter, and a logger of warnings."""
        self.bus = bus
        self.waiting: deque[MqttEffect | Released] = deque()
        self.put: Callable[[MqttEffect], object] = self.waiting.append
        self.unsent = 0
        self._home = home
        self._handler_of = handler_of
        self._warn = warn
        self._handlers: dict[str, Handler] = {}

    def drain(self) -> None:
        """Carry out the queued effects; on the thread of the bus."""
        while self.waiting:
            match self.waiting.popleft():
                case Publish(topic=topic, payload=payload, qos=qos, retain=retain):
                    try:
                        self.bus.publish(topic, payload, qos=qos, retain=retain)
                    except BusError as error:
                        self._drop(error)
                case Subscribe(topic_filter=topic_filter, qos=qos, retained=retained):
                    # The bus subscribes again by itself after a loss.
                    if topic_filter not in self._handlers:
                        handler = self._handlers[topic_filter] = self._handler_of(topic_filter)
                        self.bus.subscribe(topic_filter, handler, qos=qos, retained=retained)
                case Unsubscribe(topic_filter=topic_filter):
                    self.bus.unsubscribe(topic_filter, self._handlers.pop(topic_filter, None))
                case other:
                    self._publish_traced(other)

    def _publish_traced(self, released: Released) -> None:
        """Publish a message of events with its trace context."""
        raise NotImplementedError

    def _drop(self, error: BusError) -> None:
        self.unsent += 1
        # Logged at each power of two.
        if self.unsent.bit_count() == 1:
            self._warn("message dropped", home=self._home, reason=str(error), so_far=self.unsent)


class TracedOutlet(Outlet):
    """Outlet that has the spans of events begin when they are decided, and end when they are published."""

    def __init__(
        self,
        home: str,
        bus: Bus,
        handler_of: Callable[[str], Handler],
        warn: Callable[..., None],
        traces: ParticipantTraces,
        described: Callable[[str], Described | None],
    ) -> None:
        super().__init__(home, bus, handler_of, warn)
        self.put = self._put
        self._traces = traces
        self._described = described

    def _put(self, effect: MqttEffect) -> None:
        released = None
        if isinstance(effect, Publish) and not effect.retain and self._traces.follows(effect.topic):
            released = self._traces.released(effect, self._described)
        self.waiting.append(effect if released is None else released)

    def _publish_traced(self, released: Released) -> None:
        message = released.message
        try:
            self.bus.publish(
                message.topic,
                message.payload,
                qos=message.qos,
                retain=message.retain,
                properties=released.properties,
            )
        except BusError as error:
            self._drop(error)
        self._traces.published(released)


class Participant:
    """Base of the live drivers; a context manager, or `start` and `stop`.

    Drivers override the hooks at the end of the class; each is called under the lock (`_decided` without it), on the
    thread of a bus.

    Attributes:
        log: logger; None for none.
        role: field of log events that holds the name; empty for none.
        tick_every: interval of ticks, s.
        end_within: time for the last decision at `stop`, s.
        consumes_at_once: whether messages are consumed when they arrive.
        ends_unconnected: whether the last decision is also taken without a connection.
        connections: all buses, by home; `bus` is that of the directory.
    """

    log: Logger | None = None
    role: ClassVar[str] = "participant"
    tick_every: ClassVar[float] = 0.1
    end_within: ClassVar[float] = 2.0
    consumes_at_once: ClassVar[bool] = True
    ends_unconnected: ClassVar[bool] = False

    def __init__(
        self,
        url: str,
        name: str,
        home: str = "",
        *,
        client_id: str,
        clock: Clock | None = None,
        will: Publish | None = None,
        session_expiry: int = 0,
        hold_acknowledgements: bool = False,
        board: MetricsBoard | None = None,
        traces: Traces | None = None,
        root: str = ROOT,
    ) -> None:
        """Describe a participant; nothing happens before `start`.

        Args:
            url, home: MQTT servers of the directory and of the site; an empty home for the same.
            will: published by the server of the directory when the participant is lost.
            session_expiry, hold_acknowledgements: as of `Bus`.
            board: takes a reading of its metrics each second; None for no metrics.
            traces: takes the spans of events; None for no traces.
            root: first level of all topics.

        Raises:
            BusError: invalid URL of a server.
        """
        self.clock = clock or SystemClock()
        self.connections = Connections(
            url,
            home,
            client_id=client_id,
            clock=self.clock,
            will=None if will is None else Message(will.topic, will.payload, will.qos, will.retain),
            on_state=self._state_changed,
            max_queued=MAX_QUEUED,
            session_expiry=session_expiry,
            hold_acknowledgements=hold_acknowledgements,
            reads_properties=traces is not None,
        )
        self.bus = self.connections.main
        self._name, self._board = name, board
        self._identity: dict[str, Any] = {self.role: name} if self.role else {}
        self._traces = None if traces is None else self._traced(traces, root)
        # The buses take turns with the participant.
        self._turn = threading.Lock()
        self._outlets: dict[str, Outlet] = {}
        # Homes without a usable URL, and homes whose connection is lost; each is logged once.
        self._unusable: set[str] = set()
        self._lost: set[str] = set()
        # Homes beyond which traces do not go.
        self._untraced: set[str] = set()
        self._started = self._met = False
        self._stopped = threading.Event()
        self._make_outlet("", self.bus)

    def start(self, timeout: float = 10.0) -> Self:
        """Connect to the directory's server (`BusError` after `timeout` seconds) and begin; other servers follow."""
        with self._turn:
            outlets = self._hand_out(self._before())
        for outlet in outlets.values():
            outlet.drain()
        self._started = True
        self.bus.start()
        try:
            self.bus.wait_connected(timeout)
            self.bus.every(self.tick_every, self._tick)
            self._wait_ready(timeout)
        except Exception:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Take the last decision, carry out queued effects, and disconnect."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        if self._started:
            if self.bus.connected or self.ends_unconnected:
                run_on(self.bus, lambda: self._decide("", lambda: self._end(self.clock.now())), self.end_within)
                for home, bus in self.connections.all().items():
                    run_on(bus, partial(self._last, home, bus), 1.0)
            self.connections.stop()
        self._close()
        if self._board is not None:
            self._board.remove(self.role, self._name)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def unsent(self) -> int:
        """Number of messages dropped."""
        return sum(outlet.unsent for outlet in list(self._outlets.values()))

    # On the threads of the buses.

    def _state_changed(self, home: str, state: BusState, error: BusError | None) -> None:
        where = {"home": home} if home else {}
        if state is BusState.CONNECTED:
            self._met = True
            if home in self._lost:
                self._lost.discard(home)
                self._note("info", "connection restored", **where)
            bus = self.connections.to(home)
            if self._traces is not None and bus.protocol != "5" and home not in self._untraced:
                self._untraced.add(home)
                reason = "its MQTT 3.1.1 has no user properties"
                self._note("warning", "traces end", server=str(bus.address), reason=reason)
            resumed = bus.resumed
            self._decide(home, lambda: self._connected(home, self.clock.now(), resumed=resumed))
        elif state is BusState.WAITING:
            with self._turn:
                self._disconnected(home, self.clock.now(), error)
            # Where the first connection fails `start` says so.
            if (home or self._met) and home not in self._lost and not self._stopped.is_set():
                self._lost.add(home)
                self._note("warning", "connection lost", reason=str(error), **where)

    def _receive(self, home: str, topic: str, payload: bytes, retained: bool) -> None:
        with self._turn:
            effects = self._message(home, topic, payload, self.clock.now())
            outlets = self._hand_out(effects) if effects else None
        self._decided()
        if outlets:
            self._drain(home, outlets)

    def _receive_traced(self, home: str, topic: str, payload: bytes, retained: bool) -> None:
        assert self._traces is not None
        properties = self._outlets[home].bus.arriving
        if properties and not retained and self._traces.follows(topic):
            self._traces.arrived(home, topic, payload, properties)
        self._receive(home, topic, payload, retained)
        if self.consumes_at_once:
            self._traces.consumed(home)

    def _tick(self) -> None:
        if not self._stopped.is_set():
            self._decide("", lambda: self._time(self.clock.now()))
            if self._board is not None and self._board.is_due(self.role, self._name, time.monotonic()):
                self._board.put(self._reading(time.monotonic()))

    def _reading(self, at: float) -> MetricsReading:
        """Metrics at an instant by the monotonic clock, s."""
        with self._turn:
            values, delays = self._measured(self.clock.now())
            waiting = {home: len(outlet.waiting) for home, outlet in self._outlets.items()}
        put(values, "distced_unsent_messages_total", self.unsent)
        buses = self.connections.all()
        for home, bus in islice(buses.items(), HOMES):
            _add_connection(values, home or DIRECTORY, bus, waiting.get(home, 0))
        for home, bus in islice(buses.items(), HOMES, None):
            _add_connection(values, OTHERS, bus, waiting.get(home, 0))
        return MetricsReading(self.role, self._name, at, self.bus.connected, values, delays)

    def _decide(self, here: str, decide: Callable[[], Iterable[Any]]) -> None:
        """Take a decision, on the thread of the bus to `here`, and have its effects carried out."""
        with self._turn:
            outlets = self._hand_out(decide())
        self._decided()
        self._drain(here, outlets)

    def _drain(self, here: str, outlets: dict[str, Outlet]) -> None:
        for home, outlet in outlets.items():
            if home == here:
                outlet.drain()
            else:
                outlet.bus.call_soon(outlet.drain)

    def _hand_out(self, effects: Iterable[Any]) -> dict[str, Outlet]:
        outlets: dict[str, Outlet] = {}
        for effect in effects:
            match effect:
                case Publish() | Subscribe() | Unsubscribe():
                    outlet = self._outlets.get(effect.home) or self._open(effect.home)
                    if outlet is not None:
                        outlet.put(effect)
                        outlets[effect.home] = outlet
                case Note():
                    # Where a note names another participant of the same role, the field is called otherwise.
                    fields = {
                        f"other_{name}" if name == self.role else name: each for name, each in effect.fields.items()
                    }
                    self._note(effect.level, effect.event, **fields, **self._cause(effect))
                case _:
                    self._do(effect)
        return outlets

    def _open(self, home: str) -> Outlet | None:
        """Outlet of a home without one; None for a home without a usable URL."""

        def prepare(bus: Bus) -> None:
            # What a session has kept comes as soon as the server accepts.
            outlet = self._make_outlet(home, bus)
            outlet.waiting.extend(self._first(home))
            outlet.drain()

        try:
            self.connections.to(home, prepare)
        except BusError as error:
            if home not in self._unusable:
                self._unusable.add(home)
                self._note("warning", "server unusable", home=home, reason=str(error))
        return self._outlets.get(home)

    def _make_outlet(self, home: str, bus: Bus) -> Outlet:
        handlers, warn = self._handlers(home), partial(self._note, "warning")
        if self._traces is None:
            outlet = Outlet(home, bus, handlers, warn)
        else:
            outlet = TracedOutlet(home, bus, handlers, warn, self._traces, self._described)
        self._outlets[home] = outlet
        return outlet

    def _traced(self, traces: Traces, root: str) -> ParticipantTraces:
        from distced.brokers.live.participant_traces import ParticipantTraces

        return ParticipantTraces(traces, self.role, self._name, self.clock, root)

    def _note(self, level: str, event: str, **fields: Any) -> None:
        if self.log is not None:
            getattr(self.log, level)(event, **self._identity, **fields)

    # Hooks.

    def _handlers(self, home: str) -> Callable[[str], Handler]:
        """Handlers of messages from a home, by filter; the same for all."""
        handler = partial(self._receive if self._traces is None else self._receive_traced, home)
        return lambda topic_filter: handler

    def _before(self) -> Iterable[Any]:
        """Effects before the first connection, at the server of the directory."""
        return ()

    def _first(self, home: str) -> Iterable[MqttEffect]:
        """Effects before the first connection to another server."""
        return ()

    def _wait_ready(self, timeout: float) -> None:
        """Wait until `start` may return; raise an error after `timeout` seconds."""

    def _connected(self, home: str, now: int, *, resumed: bool) -> Iterable[Any]:
        """Effects of a connection, perhaps a repeated one, where the server may have `resumed` the session."""
        return ()

    def _disconnected(self, home: str, now: int, error: BusError | None) -> None:
        """Effects of a lost connection."""

    def _message(self, home: str, topic: str, payload: bytes, now: int) -> Collection[Any]:
        """Effects of a message."""
        return ()

    def _time(self, now: int) -> Iterable[Any]:
        """Effects of the time."""
        return ()

    def _cause(self, note: Note) -> dict[str, Any]:
        """Field of a log event with its cause; none where that is unknown."""
        return {}

    def _described(self, detector: str) -> Described | None:
        """Description of a detector for the traces of its composite events; None for an unknown one."""
        return None

    def _measured(self, now: int) -> tuple[Values, Delays | None]:
        """Figures for metrics, and delays of composite events; None for no detectors."""
        return {}, None

    def _decided(self) -> None:
        """Consequences of a decision for the driver itself."""

    def _do(self, effect: Any) -> None:
        """Carry out an effect that is neither MQTT nor a log event."""

    def _end(self, now: int) -> Iterable[Any]:
        """Effects of the last decision."""
        return ()

    def _last(self, home: str, bus: Bus) -> None:
        """Last call on the thread of each bus, behind all effects."""

    def _close(self) -> None:
        """Release resources of the driver besides connections."""


def _add_connection(values: Values, home: str, bus: Bus, waiting: int) -> None:
    """Add the figures of a connection to those of its home."""
    counted = bus.statistics
    figures = {
        "distced_connected": int(bus.connected),
        "distced_reconnections_total": counted.reconnections,
        "distced_received_messages_total": counted.messages_in,
        "distced_received_bytes_total": counted.bytes_in,
        "distced_sent_messages_total": counted.messages_out,
        "distced_sent_bytes_total": counted.bytes_out,
        "distced_outgoing_messages": waiting + bus.unsettled,
    }
    for name, figure in figures.items():
        of_homes = values.setdefault(name, {})
        of_homes[(home,)] = of_homes.get((home,), 0) + figure


def run_on(bus: Bus, run: Callable[[], object], timeout: float) -> None:
    """Run a function on the thread of a bus, and wait up to `timeout` seconds for its end."""
    done = threading.Event()

    def both() -> None:
        try:
            run()
        finally:
            done.set()

    bus.call_soon(both)
    done.wait(timeout)

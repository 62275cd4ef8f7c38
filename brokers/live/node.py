"""Live driver of a broker node.

Events at the server of the directory come and go over a second connection there, as to another server. Servers and
sockets keep what they have to send in the order of each connection: over one, thousands of requests were read before an
event, and acknowledgements of composite events came behind them. Priorities within one connection were rejected, as
MQTT has none.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from distced.brokers.core.effects import Compile, Effect, Isolate, Load, Note, Publish, ReadHistory, Release, Save
from distced.brokers.core.message_limits import LIMITS as MESSAGE_LIMITS
from distced.brokers.core.message_limits import MessageLimits
from distced.brokers.core.metrics import Delays, Values
from distced.brokers.core.node_location import LIMITS, SubscriptionLimits
from distced.brokers.live.checkpoint_store import open_store
from distced.brokers.live.checkpoint_thread import CheckpointThread
from distced.brokers.live.history_thread import HistoryThread
from distced.brokers.live.installation import installation
from distced.brokers.live.metrics_board import MetricsBoard
from distced.brokers.live.participant import Participant
from distced.brokers.node.compiling import THREADS, compiled_beside
from distced.brokers.node.node import Node
from distced.brokers.node.node_metrics import NodeMetrics
from distced.detectors.limits import LIMITS as DETECTOR_LIMITS
from distced.detectors.limits import Limits
from distced.detectors.runtime.engine_switch import engines
from distced.detectors.runtime.engines import EngineName
from distced.detectors.warm_start import in_background
from distced.middleware.bus.logger import get_logger
from distced.middleware.bus.pool import home_name
from distced.middleware.model.clock import Clock, SystemClock
from distced.middleware.model.errors import BusError
from distced.middleware.model.server_address import server_name
from distced.middleware.wire.administration import Pointer
from distced.middleware.wire.codec import encode
from distced.middleware.wire.directory_entries import MAX_AHEAD
from distced.middleware.wire.topics import ROOT, pointer_topic

if TYPE_CHECKING:
    from distced.brokers.live.participant_traces import Described
    from distced.middleware.bus.traces import Traces

TOGETHER: Final = 64 * 1024
"""Bytes of messages, with their topics, that are consumed in one go at most: some milliseconds of work, whose events
take a megabyte."""

SLICE: Final = 0.002
QUIET_SLICE: Final = 0.02
QUIET_AFTER: Final = 0.2
"""Seconds for which requests are served between messages, while events arrive, and where none have come for a while, s;
the last request may take longer. The answers of a slice go out together."""

PAUSES: Final = 4
"""Time between slices while events arrive, as a multiple of the last one: behind a process that is busy for half of the
time or more the server waits for a processor, and all events with it. One request alone delays the next but little."""

CROWD: Final = 32
CROWDED_PAUSE: Final = 0.02
"""Number of messages that arrive together from which more are behind them, perhaps events; and the time between slices
meanwhile, s."""

AT_ONCE: Final = 16
"""Messages about the directory that are consumed in one go at most; events pass further ones, which wait."""


@dataclass(slots=True)
class _Arrived:
    """Messages that have arrived together, topic and payload of each, with the bytes of the payloads."""

    messages: list[tuple[str, bytes]] = field(default_factory=list)
    size: int = 0


class LiveNode(Participant):
    """Node with its connections; `node` is usable outside the buses only while no messages arrive."""

    log = get_logger("distced.node")
    role = "node"
    consumes_at_once = False

    def __init__(
        self,
        url: str,
        name: str,
        *,
        home: str = "",
        capacity: float = 0.0,
        clock: Clock | None = None,
        root: str = ROOT,
        inspects: bool = True,
        reserved: str = "",
        isolate: Callable[[str, str], object] | None = None,
        release: Callable[[str], object] | None = None,
        engine: EngineName = "auto",
        limits: SubscriptionLimits = LIMITS,
        detector_limits: Limits = DETECTOR_LIMITS,
        checkpoints: str = "",
        history: str | Path = "",
        max_ahead: int = MAX_AHEAD,
        message_limits: MessageLimits = MESSAGE_LIMITS,
        board: MetricsBoard | None = None,
        traces: Traces | None = None,
    ) -> None:
        """Describe a node; nothing happens before `start`.

        Args:
            url, home: MQTT servers of the directory and of the site; an empty home for the same.
            capacity, inspects, reserved: as of `Node`.
            isolate: starts a node (name) at the site, in its own process, for a detector (id), without waiting; None if
                not possible.
            release: ends a node started by `isolate`, without waiting.
            engine: engine of the detectors; `auto` for the cheaper one of each.
            limits: numbers of subscriptions at most.
            detector_limits: of each detector; those beyond are excluded.
            checkpoints: folder or URL of the store of checkpoints; empty or `none` for none.
            history: folder of a history, for subscriptions that begin with recorded events; empty for none.
            max_ahead: events and promises further beyond the clock are rejected, ns.
            message_limits: of messages and entries of the directory.
            board: takes its metrics; None for none.
            traces: takes the spans of events; None for none.

        Raises:
            DistcedError: engine not available, or store or history not usable.
        """
        clock = clock or SystemClock()
        # Raises before anything is opened.
        self._history = HistoryThread(history) if str(history) else None
        store = open_store(checkpoints, root, name, clock.now())
        self._store = None if store is None else CheckpointThread(store)
        # Its threads start with the first large pattern, and behind late ones.
        self._compiler = ThreadPoolExecutor(THREADS, "compiling")
        self._isolate = isolate
        self._release = release
        self.node = Node(
            name,
            clock.now(),
            root=root,
            inspects=inspects,
            home=home_name(home, url),
            events_over=server_name(url),
            capacity=capacity,
            isolates=isolate is not None and release is not None,
            reserved=reserved,
            engines=engines(engine, in_background()),
            limits=limits,
            detector_limits=detector_limits,
            checkpoints=store is not None,
            history=self._history is not None,
            max_ahead=max_ahead,
            message_limits=message_limits,
            installation=installation(),
        )
        if store is not None:
            self.node.checkpoints.stored(store.stored(), clock.now())
        self._metrics = None if board is None else NodeMetrics(self.node)
        super().__init__(
            url,
            name,
            home,
            client_id=f"distced-node-{name}",
            clock=clock,
            will=self.node.will(),
            board=board,
            traces=traces,
            root=root,
        )
        self._pointer = encode(Pointer(server_name(url)))
        # By home; each belongs to the thread of the bus there.
        self._arrived: dict[str, _Arrived] = {}
        # Whether a slice of requests is due on the bus of the directory; connections whose messages wait for its end.
        self._slice_due = False
        self._urgent: set[str] = set()
        # Whether the last messages were a crowd; end of the last slice, and the pause behind it, s; events that had
        # arrived by then; time from which none counts as quiet, s.
        self._crowded = False
        self._slice_end = self._pause = 0.0
        self._events = 0
        self._quiet_from = 0.0

    def start(self, timeout: float = 10.0) -> Self:
        """Connect to the server of the directory, then to that of the node's site; see `Participant.start`."""
        super().start(timeout)
        with self._turn:
            self._open(self.node.home)
        return self

    def statistics(self) -> dict[str, int]:
        """Counters of the node, number of detectors hosted, dead letters by reason, and messages dropped."""
        dead = {f"dead letters, {name}": count for name, count in self.node.dead_letters.counts.items()}
        return {"detectors": len(self.node.hosted), **self.node.counts, **dead, "unsent": self.unsent}

    def _receive(self, home: str, topic: str, payload: bytes, retained: bool) -> None:
        arrived = self._arrived.get(home) or self._arrived.setdefault(home, _Arrived())
        if not arrived.messages:
            # Behind all messages that have arrived together with it.
            self._outlets[home].bus.call_soon(partial(self._take, home))
        arrived.messages.append((topic, payload))
        arrived.size += len(topic) + len(payload)
        if arrived.size > TOGETHER:
            self._take(home)

    def _take(self, home: str) -> None:
        if home:
            self._urgent.add(home)
        self._decide(home, lambda: self._consumed(home, self.clock.now()))

    def _consumed(self, home: str, now: int) -> list[Effect]:
        """Effects of the messages that have arrived from a home."""
        self._urgent.discard(home)
        arrived = self._arrived.get(home)
        if arrived is None or not arrived.messages:
            return []
        messages, arrived.messages, arrived.size = arrived.messages, [], 0
        if not home:
            self._crowded = len(messages) >= CROWD
        effects = self.node.receive_all(messages, now, home, at_once=AT_ONCE)
        if self._traces is not None:
            self._traces.consumed(home)
        return effects

    def _serve(self) -> None:
        """Serve requests for a while, on the bus of the directory, whose messages take turns with that."""
        begin = time.monotonic()
        before, self._events = self._events, self.node.events_at_once
        if self._events != before:
            self._quiet_from = begin + QUIET_AFTER
        crowded, self._crowded = self._crowded, False
        quiet = not crowded and begin >= self._quiet_from
        rest = begin - self._slice_end
        if crowded and rest < CROWDED_PAUSE:
            # What is behind the crowd is read first, and perhaps that is all.
            self.bus.call_soon(self._serve)
            return
        if not quiet and rest < self._pause:
            self.bus.call_later(self._pause - rest, self._serve)
            return
        self._slice_due = False
        length = QUIET_SLICE if quiet else SLICE

        def goes_on() -> bool:
            return not self._urgent and time.monotonic() - begin < length

        self._decide("", lambda: self.node.serve(self.clock.now(), goes_on))
        self._slice_end = time.monotonic()
        # Messages and requests keep the server busy, for which all others wait; turns of detectors do not.
        self._pause = (PAUSES if self.node.waiting else 1) * (self._slice_end - begin)

    def _connected(self, home: str, now: int, *, resumed: bool) -> Iterable[Effect]:
        # Both connections to the server of the directory are lost with it, and return together.
        over = self.node.homes.events_over
        if home in ("", over) and (other := self._outlets.get("" if home else over)) is not None:
            other.bus.hurry()
        effects = self._consumed(home, now)
        effects += self.node.linked(home, now) if home else self.node.start(now)
        if home not in ("", self.node.home):
            return effects
        # Clients that know only the server of their own site find the directory by it.
        pointer = self._pointer if home else b""
        return [Publish(pointer_topic(root=self.node.root), pointer, retain=True, home=home), *effects]

    def _disconnected(self, home: str, now: int, error: BusError | None) -> None:
        self.node.identification.disconnected(home, str(error))

    def _time(self, now: int) -> Iterable[Effect]:
        return self.node.tick(now)

    def _cause(self, note: Note) -> dict[str, Any]:
        cause = self.node.stories.cause(note.cause)
        return {"cause": cause} if cause else {}

    def _described(self, detector: str) -> Described | None:
        from distced.brokers.live.participant_traces import Described

        hosted = self.node.hosted.get(detector)
        return None if hosted is None else Described(hosted.detector.policy.name, tuple(hosted.parts))

    def _measured(self, now: int) -> tuple[Values, Delays | None]:
        return ({}, None) if self._metrics is None else (self._metrics.read(now), self._metrics.delays())

    def _end(self, now: int) -> Iterable[Effect]:
        return self.node.stop()

    def _do(self, effect: Effect) -> None:
        match effect:
            case Isolate(node=node, detector=detector):
                if self._isolate is not None:
                    self._isolate(node, detector)
            case Release(node=node):
                if self._release is not None:
                    self._release(node)
            case Compile():
                self._compiler.submit(self._compile, effect)
            case Save(number=number, entries=entries) if self._store is not None:
                self._store.save(
                    entries, lambda problem: self._answer(lambda now: self.node.saved(number, problem, now))
                )
            case ReadHistory() if self._history is not None:
                self._history.read(
                    effect, lambda part: self._answer(lambda now: self.node.history_read(effect, part, now))
                )
            case Load(detector=detector) if self._store is not None:
                self._store.load(
                    detector,
                    lambda found, problem: self._answer(lambda now: self.node.loaded(detector, found, problem, now)),
                )

    def _compile(self, order: Compile) -> None:
        """Compile a pattern, on the thread for that."""
        cache = compiled_beside(order)
        self._answer(lambda now: self.node.compiled(order, cache, now))

    def _answer(self, decide: Callable[[int], list[Effect]]) -> None:
        """Take an answer of a thread, on the bus of the directory."""
        self.bus.call_soon(lambda: self._decide("", lambda: decide(self.clock.now())))

    def _close(self) -> None:
        self._compiler.shutdown(wait=False, cancel_futures=True)
        if self._history is not None:
            self._history.close()
        if self._store is not None:
            self._store.close()

    def _decided(self) -> None:
        if self.node.unfinished and not self._slice_due:
            self._slice_due = True
            self.bus.call_soon(self._serve)
        if self.node.claim.lost and not self._stopped.is_set():
            # The entries under this name belong to another node: no farewell, no last will.
            self._stopped.set()
            # A bus cannot be stopped from its own thread.
            threading.Thread(target=self.connections.stop, name="retiring", daemon=True).start()

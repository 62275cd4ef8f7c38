"""Subscription: the handle that gives events to an application; its queue, and its waiting on threads."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, Protocol, Self, TypeAlias, cast

from distced.middleware.bus.logger import get_logger
from distced.middleware.bus.subscriptions import Handler
from distced.middleware.client.durable import TakenItems
from distced.middleware.client.quality import QualityOfService
from distced.middleware.client.subscription_state import SubscriptionState
from distced.middleware.model.clock import Clock
from distced.middleware.model.detection import BEST_EFFORT
from distced.middleware.model.errors import DistcedError, SubscriptionError
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import SECOND, format_instant
from distced.middleware.wire.administration import MissingMessages
from distced.middleware.wire.directory_entries import PositionEntry
from distced.middleware.wire.numbered_stream import Loss

_log = get_logger("distced.client")

EventCallback: TypeAlias = Callable[[Event], object] | Callable[[CompositeEvent], object]
"""Function for the events of a subscription. The subscriber knows whether its pattern gives composite events."""

TOO_SLOW: Final = "the application is too slow, and events in its queue were dropped"
"""Reason of a loss."""

_NO_EVENTS: Final[deque[Event | Loss]] = deque()
"""Queue of subscriptions without an event so far, never put into: an empty one of its own takes 600 bytes."""

_making = threading.Lock()
"""Held for a moment, to make locks and conditions when they are needed first: most subscriptions need none for long."""


class QueuedSubscription(SubscriptionState, ABC):
    """Subscription with a queue of events for the application, on threads or on asyncio.

    Attributes:
        on_wait: called with the reason when nothing can be found for the time being, as a type that the pattern reads
            is not published any more or has come back with other attributes; and with an empty text when the
            subscription goes on. On a thread for these calls, or on the event loop. The reason is in `waits`, too, and
            logged.
        on_loss: called with a `Loss` where events were lost for good: between its instants events may be missing or
            wrong. It is called in its place among the events, where these are taken. Losses are counted, kept in
            `losses`, and logged, too.
    """

    client: Any
    __slots__ = ("_asking", "_busy", "_dropped", "_failure", "_items", "_logged_at", "_waiting", "on_loss", "on_wait")

    def __init__(self, identity: str, pattern: str, quality: QualityOfService) -> None:
        super().__init__(identity, pattern, quality)
        self.on_wait: Callable[[str], object] = _nothing
        self._logged_at = 0
        self.on_loss: Callable[[Loss], object] = _nothing
        # Whether missing messages are being requested.
        self._asking = False
        self._waiting = _NO_EVENTS
        # Of a durable subscription what the application has taken; and number of events that a callback has not.
        self._items = TakenItems(quality.detection) if quality.durable else None
        self._busy = 0
        self._failure: DistcedError | None = None
        # Loss of the events dropped last, as long as it is in the queue, foremost; None for none.
        self._dropped: Loss | None = None

    @property
    def filters(self) -> list[str]:
        """Topics it listens to."""
        return [place.filter for place in self.places]

    @abstractmethod
    def handler(self, bus: Any, home: str) -> Handler:
        """Handler of messages that a bus delivers to the subscription, from the server of a home."""

    @abstractmethod
    def take(self, decide: Callable[[int], Iterable[Event | Loss]], home: str) -> None:
        """Take events that have waited for missing messages, given the time."""

    @abstractmethod
    def due(self, now: int) -> dict[str, list[MissingMessages]] | None:
        """Missing messages to be requested now, by home; None where nothing is missing any more."""

    @abstractmethod
    def end(self) -> None:
        """End the intake; events received can still be read."""

    def leave(self) -> None:
        """End the intake at the application's farewell; events that a durable subscription has not given to it come to
        the next one."""
        if self._items is not None:
            self._items.confirm(len(self._waiting) + self._busy)
            self._items.close()
            self._waiting = _NO_EVENTS
        self.end()

    def _confirm(self) -> None:
        """Count what a durable subscription has given to the application as taken, as it asks for more."""
        if self._items is not None and self._items.confirm(len(self._waiting) + self._busy):
            self.client._taken(self)

    def _mark(self) -> None:
        """Note the position behind the events of a durable subscription so far; the first one is published at once, as
        an application that is killed before it takes anything leaves no other."""
        # No position before the loss of a subscription that had ended is taken, or the next application has none.
        if self._items is not None and self._ended_before is None and self._items.mark(self.lives):
            self.client._taken(self)

    def resume(self, position: PositionEntry) -> None:
        super().resume(position)
        if self._items is not None:
            self._items.resume(position.ids)

    def position(self, now: int, *, last: bool = False) -> PositionEntry | None:
        if self._items is None:
            return super().position(now, last=last)
        if self._ended_before is None:
            self._items.mark(self.lives)
        return self._items.position(now, last=last)

    def fail(self, error: DistcedError) -> None:
        """End the intake; raised to the application once it has read the events before."""
        self._failure = error
        self.end()

    def notify_waiting(self, reason: str) -> None:
        """Notify the application of the reason of a suspension; empty for the resumption."""
        try:
            self.on_wait(reason)
        except Exception:
            self.statistics.errors += 1
            _log.exception("callback failed", subscription=self.id)

    def rejected(self, event: str, reason: DistcedError) -> None:
        _log.warning(event, subscription=self.id, reason=str(reason))

    @property
    def room(self) -> int:
        # A message is taken as a whole, perhaps beyond the limit. Behind, it is worth a request when half is free.
        waiting, limit = len(self._waiting), self.quality.queue
        return 0 if self.behind and waiting > limit // 2 else max(limit - waiting, 0)

    def make_room(self) -> None:
        """Drop the oldest events until half is free; one loss covers them, and those dropped right before."""
        run = self._dropped
        items = [self._waiting.popleft() for _ in range(len(self._waiting) - self.quality.queue // 2)]
        losses = [each for each in items if isinstance(each, Loss)]
        events = [each for each in items if not isinstance(each, Loss)]
        since = min([each.hi - 1 for each in events] + [each.since for each in losses])
        until = max([each.lo for each in events] + [each.until for each in losses])
        self._dropped = Loss(since, until, TOO_SLOW)
        self._waiting.appendleft(self._dropped)
        self.statistics.dropped += len(events)
        self.statistics.received -= len(events)
        self.statistics.losses += run is None
        self._remember(self._dropped, instead=run)
        if run is None:
            self._log_loss(self._dropped)

    def _take(self) -> Event | None:
        """Remove the oldest event; None where none waits. A failure is raised behind the last event."""
        while self._waiting:
            item = self._waiting.popleft()
            if self._items is not None:
                self._items.handed_out(item, len(self._waiting))
            if not isinstance(item, Loss):
                return item
            if item is self._dropped:
                self._dropped = None
            self._notify_loss(item)
        if self._failure is not None:
            raise self._failure
        return None

    def _notify_loss(self, loss: Loss) -> None:
        try:
            self.on_loss(loss)
        except Exception:
            self.statistics.errors += 1
            _log.exception("callback failed", subscription=self.id)

    def _put(self, item: Event | Loss, now: int) -> None:
        if self._waiting is _NO_EVENTS:
            self._waiting = deque()
        if not isinstance(item, Loss):
            self._waiting.append(item)
            if self._items is not None:
                self._items.put()
            self.delivered(item, now)
            return
        # By best effort late events are nothing unusual.
        if self.quality.detection != BEST_EFFORT or now - self._logged_at >= SECOND:
            self._logged_at = now
            self._log_loss(item)
        last = self._waiting[-1] if self._waiting else None
        if isinstance(last, Loss) and last is not self._dropped and last.reason == item.reason:
            # One item for a run of losses, however many there are.
            item = last.union(item)
            self._waiting.pop()
        elif self._items is not None:
            self._items.put()
        self._waiting.append(item)

    def _log_loss(self, loss: Loss) -> None:
        since, until = format_instant(loss.since), format_instant(loss.until)
        fields = {"concerned": len(loss.concerned)} if loss.concerned else {}
        _log.warning("events lost", subscription=self.id, since=since, until=until, reason=loss.reason, **fields)

    def _due(self, now: int) -> dict[str, list[MissingMessages]] | None:
        self._asking = not self.complete
        return self.missing(now) if self._asking else None


class SubscriptionOwner(Protocol):
    """Client of a subscription on threads, as far as the subscription needs it."""

    @property
    def clock(self) -> Clock: ...

    def unsubscribe(self, subscription: Subscription, *, forget: bool = False) -> None: ...

    def _drop(self, subscription: QueuedSubscription) -> None: ...

    def _taken(self, subscription: QueuedSubscription) -> None: ...

    def _request_missing(self, subscription: QueuedSubscription) -> None: ...


class Subscription(QueuedSubscription):
    """Events of a pattern or a type; iterate over it, or have a callback called. A context manager that unsubscribes.

    Beside its own attributes it has those of `SubscriptionState`.

    Attributes:
        on_change: called when there is something to get again, or the subscription has ended, on any thread, also that
            of a bus: it must not wait.
    """

    __slots__ = ("_at", "_callback", "_condition", "_intake", "_shared", "_thread", "client", "on_change")

    def __init__(
        self,
        client: SubscriptionOwner,
        identity: str,
        pattern: str,
        quality: QualityOfService,
        callback: EventCallback | None,
    ) -> None:
        super().__init__(identity, pattern, quality)
        self.client = client
        self.on_change: Callable[[], object] = _nothing
        # Where a callback of several subscriptions is called for it.
        self._shared: SimpleQueue[Subscription] | None = None
        # Home of which it handles messages itself; None for none yet.
        self._at: str | None = None
        self._callback = cast("Callable[[Event], object] | None", callback)
        self._condition: threading.Condition | None = None
        self._intake: threading.Lock | None = None
        self._thread: threading.Thread | None = None

    @property
    def _change(self) -> threading.Condition:
        """Condition for changes of the queue, made when it is needed first: it takes 1.4 kB."""
        if self._condition is None:
            with _making:
                if self._condition is None:
                    self._condition = threading.Condition()
        return self._condition

    @property
    def _receiving(self) -> threading.Lock:
        """Lock of the intake, made with the first message: those of several servers come on several threads."""
        if self._intake is None:
            with _making:
                if self._intake is None:
                    self._intake = threading.Lock()
        return self._intake

    def begin(self) -> None:
        """Start the thread of the callback, if there is one."""
        if self._callback is not None:
            name = f"distced-{self.id}"
            self._thread = threading.Thread(target=self._call_back, args=(self,), name=name, daemon=True)
            self._thread.start()

    def end(self) -> None:
        with self._change:
            self.ended = True
            self._change.notify_all()
        self._changed()

    def share(self, changed: SimpleQueue[Subscription]) -> None:
        """Announce changes to a queue of several subscriptions, too."""
        self._shared = changed

    def _changed(self) -> None:
        if self._shared is not None:
            self._shared.put(self)
        self.on_change()

    def leave(self) -> None:
        with self._change:
            super().leave()

    def position(self, now: int, *, last: bool = False) -> PositionEntry | None:
        with self._receiving, self._change:
            return super().position(now, last=last)

    def close(self, *, forget: bool = False) -> None:
        """Unsubscribe. A durable subscription stays, for the next application of its name, unless nodes are to `forget`
        it."""
        self.client.unsubscribe(self, forget=forget)

    def acknowledge(self) -> None:
        """Count the events of a durable subscription that the application has got as taken, before it asks for more."""
        if self._items is not None:
            with self._change:
                self._confirm()

    def get(self, timeout: float | None = None) -> Event | None:
        """Next event; None after `timeout` seconds without one, or where the subscription has ended.

        Raises:
            SubscriptionError: the subscription was ended by others, and every event received is read.
        """
        with self._change:
            self._confirm()
            deadline = None if timeout is None else time.monotonic() + timeout
            while True:
                self._wait_for(lambda: bool(self._waiting) or self.ended, timeout)
                waited = bool(self._waiting)
                event = self._take()
                if event is not None or not waited:
                    break
                # There was a loss only.
                timeout = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            self._change.notify_all()
            return event

    def events(self) -> list[Event]:
        """The events that have arrived and were not taken yet, in order, without waiting; raises as `get` does."""
        with self._change:
            self._confirm()
            taken: list[Event] = []
            while self._waiting and (event := self._take()) is not None:
                taken.append(event)
            if not taken:
                self._take()
            self._change.notify_all()
            return taken

    def __iter__(self) -> Iterator[Event]:
        while True:
            event = self.get()
            if event is None:
                return
            yield event

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait_watermark(self, watermark: int, timeout: float) -> bool:
        """Wait up to `timeout` seconds until everything up to a watermark, ns, has come; whether it has."""
        with self._change:
            return self._wait_for(
                lambda: self.statistics.watermark is not None and self.statistics.watermark >= watermark, timeout
            )

    def _wait_for(self, holds: Callable[[], bool], timeout: float | None) -> bool:
        """Wait for a condition; whether it holds. In memory this advances virtual time."""
        return self._change.wait_for(holds, timeout)

    # On the thread of a bus.

    def handler(self, bus: Any, home: str) -> Handler:
        # A method would be one more object for each of a hundred thousand, most of which listen at one home.
        if self._at is None:
            self._at = home
        return self if home == self._at else partial(self.receive, home)

    def __call__(self, topic: str, payload: bytes, retain: bool) -> None:
        self.receive(self._at or "", topic, payload, retain)

    def receive(self, home: str, topic: str, payload: bytes, retain: bool) -> None:
        """Take a message from a home."""
        self.take(lambda now: self.arrived(topic, payload, now, home), home)

    def take(self, decide: Callable[[int], Iterable[Event | Loss]], home: str) -> None:
        with self._receiving:
            now = self.client.clock.now()
            for item in decide(now):
                self._give(item, now)
            if self._items is not None:
                with self._change:
                    self._mark()
            asks = not self._asking and self._follows and not self.complete
            self._asking |= asks
        if asks:
            self.client._request_missing(self)

    def due(self, now: int) -> dict[str, list[MissingMessages]] | None:
        with self._receiving:
            return self._due(now)

    def progressed(self, watermark: int) -> None:
        super().progressed(watermark)
        # Without a condition nobody waits; one made meanwhile finds the watermark.
        if self._condition is not None:
            with self._condition:
                self._condition.notify_all()

    def _give(self, event: Event | Loss, now: int) -> None:
        with self._change:
            first = not self._waiting
            self._put(event, now)
            self._change.notify_all()
        if first:
            # Not for each event, as what notes it would grow with an application that takes none.
            self._changed()
        if self.ended:
            self.client._drop(self)

    def make_room(self) -> None:
        with self._change:
            super().make_room()

    # On a thread of its own.

    def _call_back(self, events: Iterable[Event]) -> None:
        assert self._callback is not None
        try:
            for event in events:
                self._busy = 1
                try:
                    self._callback(event)
                except Exception:
                    self.statistics.errors += 1
                    _log.exception("callback failed", subscription=self.id, id=event.id)
                self._busy = 0
                self.acknowledge()
        except SubscriptionError:
            # Logged already.
            self.statistics.errors += 1


SharedFunction: TypeAlias = Callable[[Subscription, Event], object] | Callable[[Subscription, CompositeEvent], object]
"""Function for the events of several subscriptions."""


class SharedCallback:
    """Callback for the events of several subscriptions, on one thread; its exceptions are counted and logged."""

    def __init__(self, callback: SharedFunction, subscriptions: Iterable[Subscription]) -> None:
        self._callback = cast("Callable[[Subscription, Event], object]", callback)
        self._changed: SimpleQueue[Subscription] = SimpleQueue()
        # Those that have not ended, by id. A set has twice the size.
        self._open: dict[str, None] = {}
        for each in subscriptions:
            self._open[each.id] = None
            each.share(self._changed)

    def start(self) -> None:
        """Begin; the thread ends with the last subscription."""
        threading.Thread(target=self._run, name="distced-callback", daemon=True).start()

    def _run(self) -> None:
        while self._open:
            subscription = self._changed.get()
            ended = subscription.ended
            try:
                events = subscription.events()
                for number, event in enumerate(events):
                    subscription._busy = len(events) - number
                    try:
                        self._callback(subscription, event)
                    except Exception:
                        subscription.statistics.errors += 1
                        _log.exception("callback failed", subscription=subscription.id, id=event.id)
                subscription._busy = 0
                subscription.acknowledge()
            except DistcedError:
                # Logged already.
                subscription.statistics.errors += 1
                ended = True
            if ended:
                self._open.pop(subscription.id, None)


def _nothing(*_: object) -> None:
    return None

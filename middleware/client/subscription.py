"""Subscription: the handle that gives events to an application; its queue, and its waiting on threads."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from queue import SimpleQueue
from typing import Any, Final, Protocol, Self, TypeAlias, cast

from distced.middleware.bus.logger import get_logger
from distced.middleware.bus.subscriptions import Handler
from distced.middleware.client.quality import QualityOfService
from distced.middleware.client.subscription_state import SubscriptionState
from distced.middleware.model.clock import Clock
from distced.middleware.model.errors import DistcedError, SubscriptionError
from distced.middleware.model.events import CompositeEvent, Event

_log = get_logger("distced.client")

EventCallback: TypeAlias = Callable[[Event], object] | Callable[[CompositeEvent], object]
"""Function for the events of a subscription. The subscriber knows whether its pattern gives composite events."""

_NO_EVENTS: Final[deque[Event]] = deque()
"""Queue of subscriptions without an event so far, never put into: an empty one of its own takes 600 bytes."""

_making = threading.Lock()
"""Held for a moment, to make locks and conditions when they are needed first: most subscriptions need none for long."""


class QueuedSubscription(SubscriptionState, ABC):
    """Subscription with a queue of events for the application, on threads or on asyncio.

    Attributes:
        on_wait: called with the reason when nothing can be found for the time being, as a type that the pattern reads
            is not published any more or has come back with other attributes; and with an empty text when the
            subscription goes on. On the thread of a bus, or on the event loop. The reason is in `waits`, too, and
            logged.
    """

    __slots__ = ("_failure", "_overflowing", "_waiting", "on_wait")

    def __init__(self, identity: str, pattern: str, quality: QualityOfService) -> None:
        super().__init__(identity, pattern, quality)
        self.on_wait: Callable[[str], object] = _nothing
        self._waiting = _NO_EVENTS
        self._failure: DistcedError | None = None
        # Whether an event was left out, and the application has taken none since.
        self._overflowing = False

    @property
    def filters(self) -> list[str]:
        """Topics it listens to."""
        return [place.filter for place in self.places]

    @abstractmethod
    def handler(self, bus: Any) -> Handler:
        """Handler of messages that a bus delivers to the subscription."""

    @abstractmethod
    def end(self) -> None:
        """End the intake; events received can still be read."""

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

    def _is_full(self) -> bool:
        return len(self._waiting) >= self.quality.queue

    def _take(self) -> Event | None:
        """Remove the oldest event; None where none waits. A failure is raised behind the last event."""
        if self._waiting:
            self._overflowing = False
            return self._waiting.popleft()
        if self._failure is not None:
            raise self._failure
        return None

    def _put(self, event: Event) -> None:
        if self._waiting is _NO_EVENTS:
            self._waiting = deque()
        self._waiting.append(event)

    def _leave_out(self) -> None:
        self.statistics.dropped += 1
        self._overflowing = True


class SubscriptionOwner(Protocol):
    """Client of a subscription on threads, as far as the subscription needs it."""

    @property
    def clock(self) -> Clock: ...

    def unsubscribe(self, subscription: Subscription) -> None: ...

    def _drop(self, subscription: QueuedSubscription) -> None: ...


class Subscription(QueuedSubscription):
    """Events of a pattern or a type; iterate over it, or have a callback called. A context manager that unsubscribes.

    Beside its own attributes it has those of `SubscriptionState`.

    Attributes:
        on_change: called whenever there is something to get, or the subscription has ended, on any thread.
    """

    __slots__ = ("_callback", "_condition", "_intake", "_shared", "_thread", "client", "on_change")

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

    def close(self) -> None:
        """Unsubscribe."""
        self.client.unsubscribe(self)

    def get(self, timeout: float | None = None) -> Event | None:
        """Next event; None after `timeout` seconds without one, or where the subscription has ended.

        Raises:
            SubscriptionError: the subscription was ended by others, and every event received is read.
        """
        with self._change:
            self._wait_for(lambda: bool(self._waiting) or self.ended, timeout)
            event = self._take()
            self._change.notify_all()
            return event

    def events(self) -> list[Event]:
        """The events that have arrived and were not taken yet, in order, without waiting; raises as `get` does."""
        with self._change:
            first = self._take()
            taken = [] if first is None else [first, *self._waiting]
            self._waiting.clear()
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

    def handler(self, bus: Any) -> Handler:
        # A method would be one more object for each of a hundred thousand.
        return self

    def __call__(self, topic: str, payload: bytes, retain: bool) -> None:
        with self._receiving:
            now = self.client.clock.now()
            for event in self.arrived(topic, payload, now):
                self._give(event, now)

    def progressed(self, watermark: int) -> None:
        super().progressed(watermark)
        # Without a condition nobody waits; one made meanwhile finds the watermark.
        if self._condition is not None:
            with self._condition:
                self._condition.notify_all()

    def _give(self, event: Event, now: int) -> None:
        with self._change:
            if self._is_full() and not self._overflowing:
                # The bus waits, so that the server holds back what comes next; but only once for an application that
                # does not take anything.
                self._wait_for_room()
            if self._is_full():
                self._leave_out()
                return
            self._put(event)
            self.delivered(event, now)
            self._change.notify_all()
        self._changed()
        if self.ended:
            self.client._drop(self)

    def _wait_for_room(self) -> None:
        self._change.wait_for(lambda: not self._is_full() or self.ended, self.quality.patience)

    # On a thread of its own.

    def _call_back(self, events: Iterable[Event]) -> None:
        assert self._callback is not None
        try:
            for event in events:
                try:
                    self._callback(event)
                except Exception:
                    self.statistics.errors += 1
                    _log.exception("callback failed", subscription=self.id, id=event.id)
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
                for event in subscription.events():
                    try:
                        self._callback(subscription, event)
                    except Exception:
                        subscription.statistics.errors += 1
                        _log.exception("callback failed", subscription=subscription.id, id=event.id)
            except DistcedError:
                # Logged already.
                subscription.statistics.errors += 1
                ended = True
            if ended:
                self._open.pop(subscription.id, None)


def _nothing(*_: object) -> None:
    return None

"""Client: register types, publish events, subscribe to types and to patterns.

composite-event-framework-2004, Fig. 5, in Python's idiom. A client is light: it sends pattern text to the broker nodes
over the bus and compiles nothing. It reads the directory, so it knows the types, the nodes and the sources. There may
be several MQTT servers (`middleware.bus.pool`): that of the directory, to which every client is connected, that of the
client's own site, where its sources publish, and those where detectors publish.

Every method may be called from any thread but the bus's own. For asyncio see `middleware.client.aio`.
"""

from __future__ import annotations

import re
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Self, TypeVar

from msgspec.structs import replace

from distced.middleware.bus import Bus
from distced.middleware.bus.access import participant_name
from distced.middleware.client.client_effects import ClientEffect
from distced.middleware.client.driver import ROOM_EVERY, BaseDriver, ClientDriver
from distced.middleware.client.durable import durable_id
from distced.middleware.client.outbox_folder import OutboxFolder
from distced.middleware.client.quality import DEFAULT_QUALITY, QualityOfService
from distced.middleware.client.session import ClientSession
from distced.middleware.client.source_session import SourceState, check_watermark, heartbeat
from distced.middleware.client.subscription import (
    EventCallback,
    QueuedSubscription,
    SharedCallback,
    SharedFunction,
    Subscription,
)
from distced.middleware.client.subscription_state import SubscriptionState
from distced.middleware.model.clock import Clock, SystemClock
from distced.middleware.model.clock_rules import is_clock
from distced.middleware.model.clock_uncertainty import Uncertainty, uncertainty_of
from distced.middleware.model.errors import BusError, DistcedError, SubscriptionsError, TypeRegistryError
from distced.middleware.model.event_types import Derivation, EventType, clock_type, derive
from distced.middleware.model.events import Attribute, Event
from distced.middleware.model.extras import missing
from distced.middleware.model.server_address import server_name
from distced.middleware.model.timestamps import SECOND
from distced.middleware.patterns.pattern import PatternFile
from distced.middleware.patterns.statements import FileStatements, behind_bases, failed, read_file, read_statements
from distced.middleware.wire.directory_entries import NODE_CLIENT, RULES_CLIENT, DetectorEntry, NodeEntry
from distced.middleware.wire.mqtt_effects import Publish
from distced.middleware.wire.outbox import Outbox
from distced.middleware.wire.outbox_log import OutboxLog
from distced.middleware.wire.topics import ROOT

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from distced.middleware.client.client_traces import ClientTraces

D = TypeVar("D", bound=BaseDriver[Any])
K = TypeVar("K", bound="BaseClient[Any, Any]")
S = TypeVar("S", bound="OwnedSource[Any]")
Q = TypeVar("Q", bound=QueuedSubscription)

_LAYOUT: Final = re.compile(r"[\s()'\"]")


class BaseClient(ABC, Generic[D, S]):
    """Connection of an application to distced, on threads or on asyncio, without the waiting.

    Attributes:
        name: its name in the directory, unlike all others.
        clock: the time of its sources and subscriptions.
        root: the first level of all topics.
    """

    def __init__(
        self,
        url: str,
        *,
        home: str | None = None,
        name: str | None = None,
        clock: Clock | None = None,
        root: str = ROOT,
        patience: float = 5.0,
        outbox: Outbox | str | Path | None = None,
        traces: bool | TracerProvider = False,
        filters: bool = False,
        metered: bool = False,
    ) -> None:
        """Describe a client; nothing happens before `start`.

        Args:
            url: MQTT server of the directory, such as `mqtt://127.0.0.1:1883`. Where `home` is left out it may be that
                of the
                client's own site as well, provided that there are broker nodes, which know where the directory is.
            home: MQTT server of the client's own site, where its sources publish; that of the directory where left out.
            name: that of the configuration in the URL, or a random one, where left out.
            patience: seconds to wait for broker nodes, and for servers that are needed, to answer.
            outbox: of this client alone, for the messages of its sources; with one they are queued while the server is
                away. A path is that of an outbox that outlives the process.
            traces: whether its events are followed by traces of OpenTelemetry, by the provider that the application has
                set, or else by the variables `OTEL_...`; or another provider. It needs the extra `traces`.
            filters: whether its sources leave out events that no participant of the directory has declared to read. Of
                use where all readers are distced's: an MQTT client that subscribes to topics of events by itself is not
                known, and misses events.
            metered: whether its link is slow or expensive, such as a wireless one: fewer messages without content cross
                it (renewals and pings each 4 min, watermarks each minute), and its loss is noticed that much later.

        Raises:
            BusError: invalid URL of a server.
            DistcedError: a name for others; traces without the extra.
        """
        name = name or participant_name(url) or None
        if name is not None and name.startswith((NODE_CLIENT, RULES_CLIENT)):
            raise DistcedError(
                "not a name for a client",
                given=name,
                advice=f"{NODE_CLIENT} is how nodes call themselves, {RULES_CLIENT} is for rules",
            )
        self.name = name or f"client-{uuid.uuid4().hex[:10]}"
        self.clock = clock or SystemClock()
        self.root = root
        self._url = url
        self._metered = metered
        self._finds = home is None
        self._outbox = Outbox(path=outbox) if isinstance(outbox, str | Path) else outbox
        self._traces = None if not traces else open_traces(traces, self.name, self.clock, root)
        self._filters = filters
        self._sources: dict[str, S] = {}
        # Messages are numbered in the order in which they are handed to the bus.
        self._publishing = self._lock()
        self._driver: D = self._meet(url, home or "", patience)

    def _close_traces(self) -> None:
        """Export the last spans."""
        if self._traces is not None:
            self._traces.stop()

    @abstractmethod
    def _lock(self) -> Any:
        """Lock for publishers on several threads, or in several tasks."""

    @abstractmethod
    def _meet(self, url: str, home: str, patience: float) -> D:
        """Driver, not yet started, for the server of the directory and that of the own site."""

    @property
    def home(self) -> str:
        """Server of the client's own site; empty for that of the directory."""
        return self._session.home

    @property
    def patience(self) -> float:
        """Seconds that broker nodes and servers have to answer."""
        return self._session.patience / SECOND

    @patience.setter
    def patience(self, seconds: float) -> None:
        self._session.patience = round(seconds * SECOND)

    @property
    def types(self) -> dict[str, EventType]:
        """Registered event types, by name."""
        with self._driver.lock:
            return dict(self._session.entries.types)

    @property
    def nodes(self) -> dict[str, NodeEntry]:
        """Broker nodes, by name."""
        with self._driver.lock:
            return dict(self._session.entries.nodes)

    @property
    def left_out(self) -> dict[str, int]:
        """Number of events that its sources have not sent, as nobody reads them, by type."""
        return dict(self._session.filters.filter.left_out)

    @property
    def _session(self) -> ClientSession:
        return self._driver.session

    # Types.

    def type(self, name: str) -> EventType:
        """Event type of this name, or a `TypeRegistryError` that lists the known ones."""
        with self._driver.lock:
            return self._session.directory.type(name)

    def published_type(self, name: str) -> EventType:
        """Event type of this name that events are published under, which excludes derived ones."""
        with self._driver.lock:
            return self._session.directory.published_type(name)

    # For clients.

    def _open_outbox(self) -> None:
        """Continue from the folder of the outbox, where it has one."""
        outbox = self._outbox
        if outbox is not None and outbox.path is not None and outbox.log is None:
            folder = OutboxFolder(outbox.path, outbox.sync_every)
            outbox.attach(OutboxLog(folder, self.name, outbox.most_bytes, self.clock.now()))
            self._driver.report_outbox()

    def _close_outbox(self) -> None:
        if self._outbox is not None:
            self._driver.report_outbox()
            self._outbox.detach()

    def _following(self) -> D | None:
        """Driver for the server of the directory, if that is another; that of the own site is the one given."""
        pointer = self._session.directory.elsewhere
        if not self._finds or not pointer or server_name(pointer) == server_name(self._url):
            return None
        return self._meet(self._driver.connections.with_login(pointer), self._url, self.patience)

    @contextmanager
    def _directed(self) -> Iterator[None]:
        """Errors of another server of the directory say where its name comes from."""
        pointer = self._session.directory.elsewhere
        try:
            yield
        except BusError as error:
            advice = f"the server {server_name(self._url)} says that the directory is there; name the right one"
            raise BusError(error.problem, given=error.given, where=error.where or pointer, advice=advice) from error

    def _register(self, event_type: EventType, operation: object, awaited: Container[str] = ()) -> list[ClientEffect]:
        """Register a type; one that names no home server is at home at that of the directory. `awaited` are types of
        composite events about to be subscribed to."""
        address = self._driver.connections.main.address
        return self._session.register(event_type, f"mqtt{'s' * address.tls}://{address}", operation, awaited)

    def _described(
        self,
        make: Callable[[str, dict[str, EventType], int, int], S],
        named: Mapping[str, Iterable[str]],
        watermark: int | None,
        lease: int,
        qos: int,
        uncertainty: Uncertainty,
    ) -> list[S]:
        """Sources that are not open yet."""
        clock_error = uncertainty_of(uncertainty)
        floor = check_watermark(self.clock.now() - 1 if watermark is None else watermark)
        if lease < 0:
            raise DistcedError("not a lease", given=lease, allowed="ns, or 0 for ever")
        with self._driver.lock:
            # A source begins its streams; those of an open one go on.
            self._session.sources.check_free(named)
        made = [
            make(name, {each: self.published_type(each) for each in types}, floor, qos) for name, types in named.items()
        ]
        for source in made:
            source.check_ahead("a promise", floor, self.clock.now())
            source.uncertainty = clock_error
        return made

    def _heartbeat(self, watermark: int, sources: Iterable[S] | None) -> Publish:
        beating = list(self._sources.values() if sources is None else sources)
        return heartbeat(self.name, beating, watermark, self.clock.now(), home=self.home, root=self.root)

    def _new_id(self) -> str:
        """New id of a subscription."""
        return f"{self.name}.{uuid.uuid4().hex[:16]}"

    def _requested(self, pattern: object, quality: QualityOfService | None) -> tuple[str, str, QualityOfService]:
        """Id of a subscription, the pattern as text, and its quality of service."""
        text = pattern.name if isinstance(pattern, EventType) else str(pattern).strip()
        chosen = quality or DEFAULT_QUALITY
        return durable_id(chosen.durable) if chosen.durable else self._new_id(), text, chosen

    def _texts(
        self, statements: FileStatements, quality: QualityOfService | None
    ) -> list[tuple[str, str, QualityOfService]]:
        """What `_requested` has of the patterns of a pattern file."""
        return self._requested_many([each.text for each in statements.publications], quality)

    def _requested_many(
        self, patterns: Iterable[object], quality: QualityOfService | None
    ) -> list[tuple[str, str, QualityOfService]]:
        """What `_requested` has of several patterns."""
        if isinstance(patterns, str):
            raise DistcedError("one pattern where several are expected", given=patterns, advice="put it into a list")
        requested = [self._requested(each, quality) for each in patterns]
        if quality is not None and quality.durable and len(requested) > 1:
            raise DistcedError(
                "several patterns under the name of one durable subscription",
                given=quality.durable,
                allowed="one pattern",
                advice="subscribe to each of them under a name of its own",
            )
        return requested

    def _derived_types(self, statements: FileStatements) -> Iterator[EventType]:
        """Derived types of a pattern file that are not registered yet, each behind its base."""
        known = self.types
        for each in behind_bases(statements.types):
            # A type of composite events has no entry: it has the attributes that detectors say.
            if is_clock(each.base):
                made = clock_type(each.name, each.base)
                if known.get(each.name) != made:
                    known[each.name] = made
                    yield made
                continue
            base = known.get(each.base, EventType(each.base, {}))
            often = {"every": each.every, "quiet": each.quiet}
            made = derive(
                base, each.name, where=each.where, by=each.by, computed=each.computed, last=each.last, **often
            )
            if each.name in known and _written_alike(known[each.name], made):
                continue
            known[each.name] = made
            yield made

    def _forget(self, subscriptions: Iterable[QueuedSubscription]) -> list[str]:
        """Hand no more messages to subscriptions; ids of those that got some so far."""
        known = self._driver.subscriptions
        return [each.id for each in subscriptions if known.pop(each.id, None) is not None]

    def _standing(self, made: Sequence[Q], errors: Mapping[str, DistcedError]) -> list[Q]:
        """Those of several subscriptions that were not refused."""
        refused = [each for each in made if each.id in errors]
        self._give_up(refused)
        return [each for each in made if each.id not in errors]

    def _give_up(self, subscriptions: Iterable[QueuedSubscription]) -> None:
        """End subscriptions that have not come about."""
        for each in subscriptions:
            each.end()
            self._driver.subscriptions.pop(each.id, None)

    def _request_missing(self, subscription: QueuedSubscription) -> None:
        """Request missing messages of a subscription, without waiting."""
        self._driver.post(lambda: self._session.subscriptions.missing.incomplete(subscription.id, self.clock.now()))

    def _taken(self, subscription: QueuedSubscription) -> None:
        """Publish what the application has taken of a durable subscription, in a moment, without waiting."""
        self._driver.post(lambda: self._session.subscriptions.taken(subscription.id))

    def _drop(self, subscription: QueuedSubscription) -> None:
        """End a subscription without waiting: on the thread of a bus or of an event loop."""
        if self._driver.subscriptions.pop(subscription.id, None) is not None:
            self._driver.post(lambda: self._session.unsubscribe(subscription.id))


class Client(BaseClient[ClientDriver, "Source"]):
    """Connection of an application to distced; a context manager, or `start` and `stop`."""

    _subscription: ClassVar[type[Subscription]] = Subscription

    def _lock(self) -> Any:
        return threading.Lock()

    def _meet(self, url: str, home: str, patience: float) -> ClientDriver:
        return ClientDriver(
            url,
            home,
            name=self.name,
            clock=self.clock,
            root=self.root,
            patience=patience,
            outbox=self._outbox,
            traces=self._traces,
            filters=self._filters,
            metered=self._metered,
        )

    # From start to stop.

    def start(self, timeout: float = 10.0) -> Self:
        """Connect and read the directory; raise `BusError` where that takes longer than a timeout, seconds."""
        deadline = time.monotonic() + timeout
        self._open_outbox()
        try:
            self._driver.start(timeout)
            with self._directed():
                following = self._following()
                if following is not None:
                    self._driver.stop()
                    self._driver = following
                    following.start(max(deadline - time.monotonic(), 0.0))
            if self.home:
                error = self._driver.connections.wait(self.home, max(deadline - time.monotonic(), 0.0))
                if error is not None:
                    raise error
        except BusError:
            if self.bus.connected:
                # Its farewell keeps its last will from being published.
                self._driver.stop(1.0)
            else:
                self._driver.give_up(1.0)
            self._close_outbox()
            self._close_traces()
            raise
        return self

    def stop(self) -> None:
        """Unsubscribe, announce the end of every source, and disconnect."""
        # A subscription that has ended does not hold up the thread of a bus.
        for subscription in list(self._driver.subscriptions.values()):
            subscription.leave()
        self._driver.stop()
        with self._publishing:
            self._close_outbox()
        self._close_traces()

    def flush(self, timeout: float = 5.0) -> bool:
        """Wait up to `timeout` seconds until the servers have taken every message; whether they have."""
        deadline = time.monotonic() + timeout
        while self._session.sources.outbox.waits and time.monotonic() < deadline:
            time.sleep(ROOM_EVERY)
        taken = self._driver.connections.flush(max(deadline - time.monotonic(), 0.0))
        return taken and not self._session.sources.outbox.waits

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def bus(self) -> Bus:
        """Connection to the server of the directory."""
        return self._driver.connections.main

    @property
    def home_bus(self) -> Bus:
        """Connection to the server of the client's own site, perhaps that of the directory."""
        return self._driver.connections.to(self.home)

    @property
    def detectors(self) -> dict[str, DetectorEntry]:
        """Detectors, by id; their entries are read from the first look on, which waits for the server."""
        if not self._session.directory.has_read(""):
            self._driver.run(self._session.read_detectors)
        with self._driver.lock:
            return dict(self._session.entries.detectors)

    # Types and events.

    def register(self, *types: EventType, awaited: Container[str] = ()) -> None:
        """Register event types; one that names no home server is at home at this client's.

        A type of the name that is known with other attributes is a `TypeRegistryError`. One may be derived from a type
        of composite events: one that detectors publish, or that is `awaited`, because a pattern that publishes it is
        about to be subscribed to.
        """
        for event_type in types:
            self._driver.run(partial(self._register, event_type, awaited=awaited))

    def unregister(self, name: str) -> None:
        """Remove an event type; one that others are derived from is a `TypeRegistryError`."""
        self._driver.run(partial(self._session.unregister, name))

    def source(
        self,
        name: str,
        types: Iterable[str],
        *,
        watermark: int | None = None,
        lease: int = 0,
        qos: int = 1,
        uncertainty: Uncertainty = 0,
    ) -> Source:
        """Open a source of events of these types; returns when all broker nodes and recorders have acknowledged it.

        Args:
            name: unlike all other sources.
            types: names of registered types.
            watermark: a promise to publish no event with `hi` at or before it, ns; the present where left out.
            lease: how long the source may be silent before detectors go on without it, ns; 0 for ever.
            qos: 0 or 1 for its messages.
            uncertainty: of the clock that its instants are from, by which `create` widens the interval of each event to
                either side, ns; or `ntp` for the clock of this machine, as the kernel has it.
        """
        (made,) = self.sources({name: tuple(types)}, watermark=watermark, lease=lease, qos=qos, uncertainty=uncertainty)
        return made

    def sources(
        self,
        named: Mapping[str, Iterable[str]],
        *,
        watermark: int | None = None,
        lease: int = 0,
        qos: int = 1,
        uncertainty: Uncertainty = 0,
    ) -> list[Source]:
        """Open several sources at once; the arguments are those of `source`.

        Raises:
            TypeRegistryError: a type that nobody publishes.
            SubscriptionError: no answer of broker nodes; none of the sources is open then.
        """
        with self._publishing:
            made = self._described(partial(Source, self), named, watermark, lease, qos, uncertainty)
        self._driver.run(partial(self._session.open_sources, made, lease))
        self._sources.update((source.name, source) for source in made)
        return made

    def create(
        self, source: Source, type_name: str, lo: int, hi: int | None = None, /, **attributes: Attribute
    ) -> Event:
        """Next event of a source, of a registered type; checked, not yet published."""
        return source.create(type_name, lo, hi, **attributes)

    def publish(self, event: Event) -> None:
        """Publish an event of one of this client's sources."""
        source = self._sources.get(event.source)
        if source is None:
            known = ", ".join(sorted(self._sources)) or "none"
            raise DistcedError(
                "not a source of this client", given=event.source, allowed=known, advice="make it with source()"
            )
        source.publish(event)

    def heartbeat(self, watermark: int, sources: Iterable[Source] | None = None) -> None:
        """Promise for sources, all of this client's where left out, no event with `hi` at or before a watermark, ns."""
        with self._publishing:
            self._driver.send_of_source(self._heartbeat(watermark, sources), events=False)

    # Subscriptions.

    def subscribe(
        self,
        pattern: object,
        callback: EventCallback | None = None,
        *,
        quality: QualityOfService | None = None,
        definitions: Mapping[str, str] | None = None,
        language: str = "",
        query: str = "",
    ) -> Subscription:
        """Subscribe to a pattern, or to an event type by its name.

        Args:
            pattern: pattern text, an expression of the Python binding, an `EventType`, or a registered type's name.
            callback: called with each event, on a thread of its own; without one iterate over the subscription.
            definitions: patterns by name that `pattern` may refer to.
            language: of the pattern text, such as `cel`, which nodes translate; the core language if left out.
            query: name of the query that is meant where the text has several: the type that it publishes.

        Raises:
            SubscriptionError: a refused pattern, or no answer of a broker node.
        """
        identity, text, chosen = self._requested(pattern, quality)
        subscription = self._subscription(self, identity, text, chosen, callback)
        subscription.language, subscription.query = language, query
        self._driver.subscriptions[identity] = subscription
        try:
            self._driver.run(partial(self._session.subscribe, subscription, definitions or {}))
        except DistcedError:
            self._driver.subscriptions.pop(identity, None)
            raise
        subscription.begin()
        if subscription.ended:
            # The first match came before the subscription was complete.
            self.unsubscribe(subscription)
        return subscription

    def subscribe_many(
        self,
        patterns: Iterable[object],
        callback: SharedFunction | None = None,
        *,
        quality: QualityOfService | None = None,
        definitions: Mapping[str, str] | None = None,
        language: str = "",
    ) -> list[Subscription]:
        """Subscribe to many patterns at once, in far less time than one after the other; in their order.

        Args:
            patterns: each as of `subscribe`.
            quality: as of `subscribe`.
            definitions, language: as of `subscribe`.
            callback: called with each event and its subscription, on one thread for all.

        Raises:
            SubscriptionsError: some were refused; the others stand, and are named by the error.
        """
        made = [self._subscription(self, *each, None) for each in self._requested_many(patterns, quality)]
        for each in made:
            each.language = language
        if callback is not None:
            self._share_callback(made, callback)
        self._driver.subscriptions.update((each.id, each) for each in made)
        errors: dict[str, DistcedError] = {}
        try:
            self._driver.run(partial(self._session.subscribe_many, made, definitions or {}, errors))
        except DistcedError:
            self._give_up(made)
            raise
        standing = self._standing(made, errors)
        for each in standing:
            each.begin()
        # The first match of some came before all were complete.
        self.unsubscribe_many([each for each in standing if each.ended])
        if errors:
            raise SubscriptionsError(standing, by_place(made, errors))
        return made

    def subscribe_file(
        self,
        file: str | Path | PatternFile,
        callback: SharedFunction | None = None,
        *,
        quality: QualityOfService | None = None,
    ) -> list[Subscription]:
        """Subscribe to all patterns of a pattern file, in their order, or to none where one of them is refused.

        Its derived types are registered, and its definitions hold for all of its patterns, which may read each other's
        composite events.

        Args:
            file: path, or a `pattern_file` of the Python binding.
            quality: as of `subscribe`.
            callback: called with each event and its subscription, on one thread for all.

        Raises:
            DistcedError: a file that cannot be read, or a faulty statement, with the line of the file.
        """
        statements = statements_of(file)
        made = [self._subscription(self, *each, None) for each in self._texts(statements, quality)]
        if callback is not None:
            self._share_callback(made, callback)
        self._driver.subscriptions.update((each.id, each) for each in made)
        registered: list[str] = []
        try:
            for event_type in self._derived_types(statements):
                with placed(statements, event_type.name):
                    self.register(event_type, awaited=statements.published)
                registered.append(event_type.name)
            for group in statements.in_groups():
                errors: dict[str, DistcedError] = {}
                states = [made[place] for place in group]
                self._driver.run(partial(self._session.subscribe_many, states, statements.texts, errors))
                if errors:
                    raise failed(statements, by_place(made, errors))
        except DistcedError:
            self.unsubscribe_many(made)
            for name in reversed(registered):
                with suppress(DistcedError):
                    self.unregister(name)
            raise
        for each in made:
            each.begin()
        self.unsubscribe_many([each for each in made if each.ended])
        return made

    def _share_callback(self, subscriptions: Sequence[Subscription], callback: SharedFunction) -> None:
        SharedCallback(callback, subscriptions).start()

    def unsubscribe(self, subscription: Subscription, *, forget: bool = False) -> None:
        """End a subscription; events received can still be read. Of durable ones see `Subscription.close`."""
        self.unsubscribe_many([subscription], forget=forget)

    def unsubscribe_many(self, subscriptions: Iterable[Subscription], *, forget: bool = False) -> None:
        """End subscriptions; events received can still be read, but for those of durable ones, which come again."""
        ended = list(subscriptions)
        for each in ended:
            each.leave()
        names = self._forget(ended)
        if names:
            self._driver.run(partial(self._session.unsubscribe_many, names, forget=forget))

    def forget(self, durable: str) -> None:
        """End a durable subscription for good, by its name, wherever it is read."""
        self._driver.do(lambda: self._session.subscriptions.forget(durable))

    def fence(self, source: str) -> None:
        """Have detectors go on without a source, and those to come not wait for it. For administrators.

        Its later events are late, until it announces itself again.
        """
        self._driver.do(lambda: self._session.fence(source))

    def wait_for_nodes(self, count: int = 1, timeout: float = 10.0) -> None:
        """Wait for n broker nodes, up to a timeout in seconds."""
        self._driver.run(partial(self._session.wait_for_nodes, count, round(timeout * SECOND)))


@contextmanager
def placed(statements: FileStatements, name: str) -> Iterator[None]:
    """Name the place of a derived type in errors."""
    try:
        yield
    except TypeRegistryError as error:
        line = next(each.line for each in statements.types if each.name == name)
        raise TypeRegistryError(
            error.problem, given=error.given, allowed=error.allowed, advice=error.advice,
            where=f"{statements.name}, line {line}",
        ) from error  # fmt: skip


def statements_of(file: str | Path | PatternFile) -> FileStatements:
    """Statements of a pattern file, by its path or as an object."""
    return read_statements(str(file)) if isinstance(file, PatternFile) else read_file(file)


def _written_alike(one: EventType, other: EventType) -> bool:
    """Whether two derived types differ in blanks, quotes and parentheses of their expressions alone."""
    texts = [
        () if each.derived is None else tuple(_LAYOUT.sub("", text) for text in _expressions_of(each.derived))
        for each in (one, other)
    ]
    plain = [
        each if each.derived is None else replace(each, derived=replace(each.derived, where="", computed=()))
        for each in (one, other)
    ]
    return plain[0] == plain[1] and texts[0] == texts[1]


def _expressions_of(derived: Derivation) -> tuple[str, ...]:
    return (derived.where, *(text for each in derived.computed for text in each))


def by_place(made: Sequence[SubscriptionState], errors: Mapping[str, DistcedError]) -> dict[int, DistcedError]:
    """Errors of subscriptions by their places."""
    return {place: errors[each.id] for place, each in enumerate(made) if each.id in errors}


class OwnedSource(SourceState, Generic[K]):
    """Source of a client, on threads or on asyncio."""

    def __init__(self, client: K, name: str, types: Mapping[str, EventType], watermark: int, qos: int) -> None:
        now = client.clock.now()
        streams = client._session.sources.streams
        super().__init__(
            client.name,
            name,
            types,
            watermark,
            qos,
            now,
            home=client.home,
            root=client.root,
            streams=streams,
            max_ahead=client._session.sources.max_ahead,
            max_message=client._session.sources.max_message,
            wanted=client._session.filters.filter,
        )
        self.client = client


class Source(OwnedSource[Client]):
    """Handle that publishes events of some types under one name, to the server of the client's site.

    It has the attributes of `SourceState` and its `create`, which makes the source's next event.
    """

    def publish(self, *events: Event, watermark: int | None = None) -> None:
        """Publish events of this source, in this order, several of one type in one frame.

        Args:
            watermark: a promise to publish no further event with `hi` at or before it, ns.

        Raises:
            EventError: an event of a type that is not the source's, or behind an earlier promise; none is published.
            BusError: too many messages wait already, at the bus or in the outbox, for some seconds.
        """
        client = self.client
        with client._publishing:
            for frame, message in self.messages(events, watermark, client.clock.now()):
                client._driver.send_of_source(message, events=bool(frame))

    def heartbeat(self, watermark: int) -> None:
        """Promise to publish no event with `hi` at or before a watermark, ns."""
        self.client.heartbeat(watermark, [self])

    def close(self) -> None:
        """Announce the end of the source: detectors do not wait for it any more."""
        self.client._driver.run(partial(self.client._session.close_source, self.name))
        self.client._sources.pop(self.name, None)


def open_traces(given: bool | TracerProvider, client: str, clock: Clock, root: str) -> ClientTraces:
    """Traces of a client; `DistcedError` without OpenTelemetry."""
    try:
        from distced.middleware.client.client_traces import ClientTraces

        return ClientTraces(given, client, clock, root)
    except ImportError as error:
        raise missing(error) or error from None

"""Broker node, sans-I/O: takes messages and the time, returns effects; live on MQTT and the wall clock, or simulated.

composite-event-framework-2004, "Mobile Composite Event Detectors" and "Implementation using JMS"; design, section 4.

Detectors outlive a lost connection. Entries cleared meanwhile are not reported, and a server without persistence loses
all of them; so after a reconnection an entry not delivered again counts as cleared only after a delay
(`Directory.reconnected`), in which its owner publishes it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import structs

from distced.brokers.core.barriers import Homes
from distced.brokers.core.causes import (
    Connected,
    HistoryRead,
    MessageArrived,
    PatternCompiled,
    Stopping,
    StoreAnswered,
    StoryAnswer,
    StoryLine,
    StoryRequest,
    TimePassed,
)
from distced.brokers.core.dead_letters import foreign_promise
from distced.brokers.core.directory import Change, Directory
from distced.brokers.core.effects import Compile, Effect, Pieces, Publish, ReadHistory, Subscribe, info, warning
from distced.brokers.core.identity import Installation
from distced.brokers.core.message_limits import LIMITS as MESSAGE_LIMITS
from distced.brokers.core.message_limits import MessageLimits
from distced.brokers.core.node_location import LIMITS, SubscriptionLimits
from distced.brokers.core.rendezvous import chosen
from distced.brokers.core.topic_routes import TopicRoute
from distced.brokers.node.absent_clients import AbsentClients
from distced.brokers.node.admission import Admission, Request
from distced.brokers.node.backlog import Backlog
from distced.brokers.node.checkpoints import Checkpoints
from distced.brokers.node.delayed_messages import DelayedMessages
from distced.brokers.node.draining import Draining
from distced.brokers.node.durable import DurableSubscriptions
from distced.brokers.node.entry_limits import EntryLimits
from distced.brokers.node.event_path import EventPath
from distced.brokers.node.exclusion import Exclusion
from distced.brokers.node.hosted import HostedDetector, Phase
from distced.brokers.node.hosting import DetectorHosting
from distced.brokers.node.identification import Identification
from distced.brokers.node.isolation import Isolation
from distced.brokers.node.membership import Membership, NameClaim
from distced.brokers.node.migration import Migration
from distced.brokers.node.placement import Placement
from distced.brokers.node.planning import PatternCache, node_client
from distced.brokers.node.policy_settings import EVERYBODY, PolicySettings
from distced.brokers.node.quarantine import Quarantine
from distced.brokers.node.rebalancing import Rebalancing
from distced.brokers.node.refusals import Refusals
from distced.brokers.node.renewals import RENEWED, Renewals
from distced.brokers.node.replication import Replication
from distced.brokers.node.shared import NodePart, Shared
from distced.brokers.node.silent_sources import SilentSources
from distced.brokers.node.story import Stories
from distced.brokers.node.waiting_frames import WaitingFrame
from distced.detectors.limits import LIMITS as DETECTOR_LIMITS
from distced.detectors.limits import Limits
from distced.detectors.runtime.engine_switch import Engines
from distced.middleware.history.coverage import HistoryPart
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.timestamps import INSTANT_MIN, SECOND
from distced.middleware.wire.administration import (
    COUNTERS,
    Acknowledgement,
    Answers,
    Counters,
    Drain,
    Filtered,
    Heartbeat,
    Listening,
    Missing,
    MissingMessages,
    MoveRequest,
    cleared_counters,
    join_messages,
    read_unavailable,
)
from distced.middleware.wire.codec import decode, encode
from distced.middleware.wire.directory_entries import MAX_AHEAD, NODE_CLIENT, NodeEntry, SampleEntry, SubscriptionEntry
from distced.middleware.wire.directory_handshake import DirectoryHandshake
from distced.middleware.wire.frames import decode as decode_frame
from distced.middleware.wire.topics import (
    ROOT,
    Area,
    administration_topic,
    area_filter,
    composite_topic,
    event_topic,
    parse_topic,
)
from distced.policies.detection.guaranteed import Guaranteed

COUNTERS_EVERY: Final = 30 * SECOND
"""Longest time until changed counters are published, ns."""

FLOW: Final = frozenset({"frames", "events", "composite events", "duplicates"})
"""Counters that go on all the time, of which a small change is no news."""

STATUS_EVERY: Final = 2 * SECOND
"""Interval of status entries, ns."""

MESSAGES_A_REQUEST: Final = 8
"""Delayed messages consumed for each request that is served: refusals for the most part, a twentieth of its cost."""

MOST_NAMED: Final = 10
"""Sources of a lost client that a log event names."""

ALL: Final = 2**63
"""Number of messages beyond any."""


class Node(NodePart):
    """Broker node, composed of its parts: `claim` to its name, `hosted` detectors by id, `counts` since its start,
    `delayed` messages; it `validates` its invariants after every message but events, and with every status."""

    def __init__(
        self,
        name: str,
        now: int,
        *,
        root: str = ROOT,
        inspects: bool = True,
        home: str = "",
        events_over: str = "",
        capacity: float = 0.0,
        isolates: bool = False,
        reserved: str = "",
        engines: Engines | None = None,
        limits: SubscriptionLimits = LIMITS,
        detector_limits: Limits = DETECTOR_LIMITS,
        checkpoints: bool = False,
        history: bool = False,
        max_ahead: int = MAX_AHEAD,
        message_limits: MessageLimits = MESSAGE_LIMITS,
        installation: Installation = Installation(),  # noqa: B008
        validate: bool = False,
    ) -> None:
        """Compose a node.

        Args:
            inspects: whether it may inspect all events of its site.
            home: server of its site; empty for that of the directory.
            events_over: name of a second connection to the server of the directory, for events, so that requests are
                never before them; empty for one connection.
            capacity: instances touched per second at most; 0 for unknown.
            isolates: whether the driver carries out `Isolate`.
            reserved: the only detector it hosts; empty for any.
            engines: choice of engines for its detectors; None for the stepwise engine.
            limits: numbers of subscriptions at most.
            detector_limits: of each detector; those beyond are excluded.
            checkpoints: whether the driver carries out `Save` and `Load`.
            history: whether the driver carries out `ReadHistory`.
            max_ahead: events and promises further beyond the clock are rejected, ns.
            message_limits: of messages and entries of the directory.
            installation: that it runs in, for those who ask.
            validate: check invariants after every message but events, and every tick; for tests.
        """
        self.stories = Stories(name, root)
        directory = Directory()
        event_path = EventPath(
            name, root, directory, self.stories, engines, events_over, max_ahead, message_limits, detector_limits
        )
        homes = Homes(name, root, continued=self.stories.continued, events_over=events_over)
        shared = Shared(
            name, root, home, reserved, directory, event_path, homes, PolicySettings(), engines, detector_limits
        )
        super().__init__(shared)
        self.capacity = capacity
        self.isolates = isolates
        self.inspects = inspects
        self.reads_history = history
        self.identification = Identification(name, installation, root)
        self.validates = validate
        self.claim = NameClaim(name, root, now)
        self.hosting = DetectorHosting(shared)
        self.placement = Placement(directory, self.hosting.planner, self.policies)
        self.isolation = Isolation(shared)
        self.refusals = Refusals(shared, limits)
        self.entry_limits = EntryLimits(shared, message_limits, self.refusals)
        self.quarantine = Quarantine(shared, limits)
        self.checkpoints = Checkpoints(shared, kept=checkpoints)
        self.admission = Admission(self.hosting, self.placement, self.isolation, self.refusals, self.checkpoints)
        self.replication = Replication(self.hosting, self.placement)
        self.migration = Migration(self.hosting, self.admission, self.replication)
        self.draining = Draining(self.migration, self.placement)
        self.rebalancing = Rebalancing(self.hosting, self.placement, self.migration)
        self.exclusion = Exclusion(self.admission)
        self.durable = DurableSubscriptions(self.hosting, limits.kept_bytes)
        self.backlog = Backlog()
        self.silent_sources = SilentSources()
        self.renewals = Renewals(shared, now)
        self.absent_clients = AbsentClients(self.hosting, self.renewals)
        self.membership = Membership(self.migration, self.exclusion)
        self.hosted = self.event_path.hosted
        self.counts = self.event_path.counts
        self.dead_letters = self.event_path.dead_letters
        self._routes = self.event_path.routes.known
        self._client = node_client(name)
        # What one batch of messages brings of these goes out as one message for each client.
        self._joinable = tuple(f"{administration_topic(kind, root=root)}/" for kind in ("answer", "ready"))
        self._below = f"{root}/"
        self._event_areas = (f"{root}/{Area.EVENTS}/", f"{root}/{Area.COMPOSITE_EVENTS}/")
        self._handshake = DirectoryHandshake(name, root)
        self.delayed = DelayedMessages(root, self._handshake.topic, self.quarantine.most, self.quarantine)
        # Entry and counters published last.
        self._published_entry: bytes = b""
        self._counters: bytes = b""
        self._counted: Mapping[str, int] = {}
        self._counters_at = now
        self._status_at = now
        # As of the last tick, ns.
        self._now = now
        self._without_columnar = False
        # Whether its load was published.
        self._measured = False
        # Number of events that have waited, as their publishers publish too much; whether such are taken now.
        self._events_delayed = 0
        self._takes_waiting = False
        # Homes that it has been connected to.
        self._linked: set[str] = set()
        # Whether it has ended, and ignores its own last messages.
        self._stopped = False

    # From the driver.

    def start(self, now: int) -> list[Effect]:
        """Effects of a connection, perhaps a repeated one."""
        if self.claim.lost:
            return []
        # Those of the last connection came before this one.
        effects = self._take_delayed(now)
        self.stories.begin(Connected(), now)
        return [*effects, *self.stories.end(self._start(now))]

    def _start(self, now: int) -> list[Effect]:
        effects: list[Effect] = []
        self.directory.reconnected(now)
        self.membership.connected(now)
        self.renewals.connected()
        self.absent_clients.connected()
        self.hosting.wanted.connected()
        if self.hosted:
            missing = "events published meanwhile"
            effects.append(warning("node reconnected", detectors=len(self.hosted), missing=missing))
        self.claim.connected()
        return [
            *effects,
            *self.quarantine.started(),
            *(
                Subscribe(area_filter(Area.ADMINISTRATION, kind, root=self.root))
                for kind in ("ready", "fence", "move", "policy", "story", "alive")
            ),
            Subscribe(area_filter(Area.ADMINISTRATION, "node", self.name, root=self.root)),
            Subscribe(administration_topic("drain", self.name, root=self.root)),
            Subscribe(administration_topic("answer", self._client, root=self.root)),
            Subscribe(self._handshake.topic),
            *self._second_connection(),
            self._announce(),
            *([self._sample()] if self.event_path.values.published else ()),
            self._handshake.begin(now),
            *(() if self.homes.events_over else self._look_again("", now)),
        ]

    def _second_connection(self) -> list[Effect]:
        """Filters for the connection of events beside those of events: barriers, and types.

        Types come over both, as they are to be known to what is behind them on either.
        """
        over = self.homes.events_over
        types = area_filter(Area.DIRECTORY, "type", root=self.root)
        return [Subscribe(types, home=over), Subscribe(self.homes.topic_at(""), home=over)] if over else []

    def will(self) -> Publish:
        """Last will, published when the node is lost."""
        return self.clear("node", self.name)

    def stop(self) -> list[Effect]:
        """Effects of the end: the node clears its entries in the directory, unless another one owns them by now."""
        self._stopped = True
        if self.claim.lost:
            return []
        self.stories.begin(Stopping(), self._now)
        cleared = [
            self.clear("load", self.name),
            self.clear("sample", self.name),
            cleared_counters(self.name, root=self.root),
            *self.hosting.wanted.stop(),
        ]
        return self.stories.end(
            [*self.checkpoints.last(self._now), *self.replication.leave(), *cleared, self.claim.give_up(), self.will()]
        )

    def linked(self, home: str, now: int) -> list[Effect]:
        """Effects of a connection to another server than that of the directory, perhaps a repeated one."""
        if self._stopped:
            return []
        self.identification.connected(home)
        home = self._server(home)
        self.stories.begin(Connected(home), now)
        return self.stories.end([*self.homes.linked(home, now), *self._look_again(home, now)])

    def _server(self, connection: str) -> str:
        """Server that a connection leads to."""
        return "" if connection == self.homes.events_over else connection

    def receive(self, topic: str, payload: bytes, now: int, home: str = "") -> list[Effect]:
        """Effects of a message over the connection to this home."""
        route = self._routes.get(topic)
        if route is None or self._stopped or route.kind == "e":
            return self.receive_all(((topic, payload),), now, home)
        home = self._server(home)
        return self._consumed(topic, home, now, self.event_path.collect(route, topic, payload, now, home))

    def receive_all(
        self, messages: Iterable[tuple[str, bytes]], now: int, home: str = "", *, at_once: int = ALL
    ) -> list[Effect]:
        """Effects of messages that have arrived together over the connection to this home, topic and payload of each;
        frames in a row are consumed in one go.

        Of the messages about the directory some are consumed `at_once`; further ones wait for `serve`, and so do all
        behind them, while events pass.
        """
        effects: list[Effect] = []
        collected: list[Effect] | None = None
        last, joins = "", False
        delayed, waits = self.delayed, not home
        home = self._server(home)
        if delayed:
            at_once = 0
        for topic, payload in messages:
            if self._stopped:
                break
            route = self._routes.get(topic) or self._route(topic)
            if route is not None:
                put_off = self.event_path.waits(route, topic, payload, now, home)
                made = self.event_path.collect(route, topic, payload, now, home) if put_off is None else put_off
                collected = made if collected is None else collected + made
                last = topic
                continue
            if len(payload) > self.event_path.bound.limits.size:
                letters = self.event_path.bound.too_large(topic, payload)
                if letters is not None:
                    effects += letters
                    continue
            if waits and delayed.takes(topic):
                if at_once <= 0:
                    delayed.put(topic, payload)
                    continue
                at_once -= 1
            if collected is not None:
                effects += self._consumed(last, home, now, collected)
                collected = None
            joins = True
            effects += self._handled(topic, payload, now, home)
        if collected is not None:
            effects += self._consumed(last, home, now, collected)
        if delayed.excessive:
            clients, delayed.excessive = delayed.excessive, set()
            effects += self.stories.caused(self.quarantine_all(clients, now))
        if delayed.full:
            effects += self._take_delayed(now)
            joins = True
        return self._joined(effects + self._refused(now)) if joins else effects

    def _refused(self, now: int) -> list[Effect]:
        """Answers and log events of refusals since the last call, whose cause is the last message."""
        return self.stories.caused(self.refusals.effects(now))

    def _handled(self, topic: str, payload: bytes, now: int, home: str) -> list[Effect]:
        """Effects of a message that is no event."""
        self.stories.begin(MessageArrived(topic, home), now)
        effects = self.stories.end(
            [
                *self._message(topic, payload, now, home),
                *self._declare(now),
                *self._ask_positions(now),
                *self.exclusion.take(now),
            ]
        )
        if self.validates:
            self.validate()
        return effects

    def saved(self, number: int, problem: str, now: int) -> list[Effect]:
        """Effects of the end of a `Save`; why it has failed, empty where it has not."""
        self.stories.begin(StoreAnswered(), now)
        return self.stories.end(self.checkpoints.saved(number, problem, now))

    def loaded(self, detector: str, contents: Iterable[Pieces], problem: str, now: int) -> list[Effect]:
        """Effects of the end of a `Load`, with the checkpoints that there are; why some were not read, empty for
        all."""
        if self._stopped:
            return []
        self.stories.begin(StoreAnswered(), now)
        return self.stories.end([*self._loaded(detector, contents, problem, now), *self._declare(now)])

    def compiled(self, order: Compile, cache: PatternCache, now: int) -> list[Effect]:
        """Effects of the end of a `Compile`; requests go on with `serve`."""
        if self._stopped:
            return []
        self.stories.begin(PatternCompiled(), now)
        return self.stories.end([*self.admission.compiled(order, cache, now), *self._declare(now)])

    def history_read(self, request: ReadHistory, part: HistoryPart, now: int) -> list[Effect]:
        """Effects of the end of a `ReadHistory`."""
        if self._stopped:
            return []
        hosted = self.hosting.origins.arrived(request, part)
        if hosted is None:
            return []
        self.stories.begin(HistoryRead(), now)
        if part.problem is None:
            effects = self.hosting.history_read(hosted, part, now)
        else:
            effects = self._without_history(hosted, part.problem, now)
        return self.stories.end([*effects, *self._declare(now)])

    def _without_history(self, hosted: HostedDetector, problem: DistcedError, now: int) -> list[Effect]:
        """Refuse the subscriptions of a detector whose history cannot be read."""
        if hosted.running:
            return self.hosting.origins.failed(hosted.id, problem, now)
        self.hosting.origins.forget(hosted.id)
        known = self.directory.subscriptions
        names = [name for name in hosted.subscriptions if name in known]
        return [each for name in names for each in self.admission.refuse_origin(name, known[name], problem, now)]

    def _loaded(self, detector: str, contents: Iterable[Pieces], problem: str, now: int) -> list[Effect]:
        hosted, effects = self.checkpoints.found(detector, contents, problem, now)
        self.admission.recover(detector, hosted)
        return effects

    def _declare(self, now: int) -> list[Effect]:
        """Declare what the detectors read by now, where sources filter."""
        return self.hosting.wanted.look(now) if self._handshake.settled and self.hosting.wanted.reads.active else []

    def quarantine_all(self, clients: Iterable[str], now: int) -> list[Effect]:
        """Effects of the quarantine of clients, unless the directory is being read: retained entries come in crowds."""
        settled = self._handshake.settled and not self._handshake.reading
        return [each for client in sorted(clients) if settled for each in self.quarantine.begin(client, now)]

    def _take_delayed(self, now: int) -> list[Effect]:
        """Effects of all delayed messages."""
        effects: list[Effect] = []
        while self.delayed and not self._stopped:
            effects += self._handled(*self.delayed.take(), now, "")
        return effects + self._refused(now)

    @property
    def waiting(self) -> int:
        """Number of delayed messages, and of requests about subscriptions that wait to be served."""
        if self._stopped:
            return 0
        return len(self.delayed) + len(self.admission.queue) + len(self.event_path.waiting)

    @property
    def unfinished(self) -> bool:
        """Whether `serve` has anything to do: messages wait, or events for the turns of detectors."""
        return self.waiting > 0 or (bool(self.event_path.shares.turns) and not self._stopped)

    @property
    def events_at_once(self) -> int:
        """Number of events that were consumed as they arrived."""
        return self.counts["events"] - self._events_delayed

    def serve(self, now: int, goes_on: Callable[[], bool] = lambda: True) -> list[Effect]:
        """Effects of delayed messages, of requests about subscriptions, which wait since their messages, and of events
        that wait for the turns of detectors: one of each client in turn. Some messages, a request and some events
        alternate, at least one of each where any waits, while `goes_on`. Call it again while `unfinished`, between
        messages."""
        effects: list[Effect] = []
        going = True
        while going and self.unfinished:
            for _ in range(MESSAGES_A_REQUEST):
                if not self.delayed or not going or self._stopped:
                    break
                effects += self._handled(*self.delayed.take(), now, "")
                going = goes_on()
            if self.admission.queue and not self._stopped:
                effects += self._served(self.admission.queue.take(), now)
                going = going and goes_on()
            if self.event_path.waiting and going and not self._stopped:
                effects += self._take_waiting(now)
                going = goes_on()
            if self.event_path.shares.turns and going and not self._stopped:
                self.stories.begin(TimePassed(), now)
                effects += self.stories.end([*self.event_path.go_on(now), *self.exclusion.take(now)])
                going = goes_on()
        return self._joined(effects + self._refused(now))

    def _take_waiting(self, now: int) -> list[Effect]:
        """Effects of messages of a publisher that publishes too much."""
        effects: list[Effect] = []
        before, self._takes_waiting = self.counts["events"], True
        collected: list[Effect] | None = None
        last, over = "", ""
        for topic, payload, home in self.event_path.waiting.take():
            route = self._routes.get(topic) or self._route(topic)
            if collected is not None and (route is None or home != over):
                effects += self._consumed(last, over, now, collected)
                collected = None
            if route is None:
                effects += self._handled(topic, payload, now, home)
                continue
            made = self.event_path.collect(route, topic, payload, now, home)
            collected = made if collected is None else collected + made
            last, over = topic, home
        if collected is not None:
            effects += self._consumed(last, over, now, collected)
        self._events_delayed += self.counts["events"] - before
        self._takes_waiting = False
        return effects

    def _waits(self, publisher: str, topic: str, payload: bytes, home: str) -> bool:
        """Have a promise or an entry of a publisher wait behind its events, where some wait."""
        waiting = self.event_path.waiting
        if self._takes_waiting or publisher not in waiting:
            return False
        return waiting.put(publisher, WaitingFrame(topic, payload, home))

    def _served(self, request: Request, now: int) -> list[Effect]:
        """Effects of a request about a subscription."""
        self.stories.begin(request.stimulus, now)
        try:
            served = self.admission.serve(request, now)
        except DistcedError as error:
            served = list(self.dead_letters.message("malformed", error, request.where, b""))
        effects = self.stories.end([*served, *self._declare(now), *self._ask_positions(now), *self.exclusion.take(now)])
        if self.validates:
            self.validate()
        return effects

    def _joined(self, effects: list[Effect]) -> list[Effect]:
        """Effects with one message of answers for each client, in place of the last."""
        found: dict[tuple[str, str], list[tuple[int, Publish]]] = {}
        for place, effect in enumerate(effects):
            if isinstance(effect, Publish) and effect.topic.startswith(self._joinable):
                found.setdefault((effect.topic, effect.home), []).append((place, effect))
        gone: set[int] = set()
        for (topic, _), messages in found.items():
            (last, kept), *others = reversed(messages)
            if others:
                gone.update(place for place, _ in others)
                kind = "answer" if topic.startswith(self._joinable[0]) else "ready"
                payload = join_messages(kind, (each.payload for _, each in messages))
                effects[last] = structs.replace(kept, payload=payload)
        return [effect for place, effect in enumerate(effects) if place not in gone] if gone else effects

    def _consumed(self, topic: str, home: str, now: int, collected: list[Effect]) -> list[Effect]:
        """Effects of the frames collected, the last of them on this topic."""
        effects = collected + self.event_path.consume_arrived(now)
        if self.event_path.excesses:
            effects += self.exclusion.take(now)
        return self.stories.end_events(topic, home, now, effects)

    def _route(self, topic: str) -> TopicRoute | None:
        """Route of a topic of events that is not remembered; None for other topics, and for unusable ones."""
        if not topic.startswith(self._event_areas):
            return None
        try:
            area, levels = parse_topic(topic, root=self.root)
        except DistcedError:
            return None
        return self.event_path.routes.find(topic, area, levels)

    def _message(self, topic: str, payload: bytes, now: int, home: str) -> list[Effect]:
        if not topic.startswith(self._below):
            self.event_path.json_heard(home, topic, payload)
            return []
        try:
            area, levels = parse_topic(topic, root=self.root)
            if area is Area.DIRECTORY:
                return self._entry(levels, payload, now, topic)
            if area is Area.ADMINISTRATION:
                if topic == self.homes.topic_at(home) and (home or topic != self._handshake.topic):
                    return self.homes.answered(home, payload, now)
                return self._administration(levels, payload, now, topic, home)
        except DistcedError as error:
            return list(self.dead_letters.message("malformed", error, topic, payload))
        return []

    def tick(self, now: int) -> list[Effect]:
        """Effects of the time; call it a few times a second."""
        if self._stopped:
            return []
        self._now = now
        self.stories.begin(TimePassed(), now)
        # Entries are cleared behind their answers, which were sent with an earlier call.
        effects = [*self.refusals.clear_some(), *self.stories.end(self._tick(now))]
        if self.validates and self._status_at == now:
            self.validate()
        return self._joined(effects + self._refused(now))

    def _tick(self, now: int) -> list[Effect]:
        again = now - self._status_at >= STATUS_EVERY
        effects = self.event_path.tick(now, publish_again=again)
        effects += self.event_path.relieve(self.shared.limits, now)
        effects += self._request_missing(now)
        self.event_path.bound.tick(now)
        effects += self.dead_letters.tick(now)
        used = self.hosting.topic_filters.homes_used() | ({""} if self.hosted else set())
        effects += self.homes.tick(used, now)
        effects += self.backlog.look(self.homes.ages(used, now), self.waiting)
        effects += self._handshake.again(now)
        effects += self.quarantine.tick(now)
        if not self._handshake.reading:
            # Until then what was delivered again may wait; behind it, only what crowding clients have published.
            for change in self.directory.clear_unconfirmed(now, self.delayed.clients()):
                if change.kind == "detector":
                    # Forgotten by the server, and not cleared by its host.
                    self.hosting.upstream.hold_back([change.name], now)
                effects += self._changed(change, now)
        if self._handshake.settled:
            effects += self.membership.tick(now)
            effects += self.draining.tick(now)
        effects += self.hosting.origins.tick(now)
        if again and not self.backlog.behind:
            # Otherwise it is the node that hears nothing.
            effects += self.silent_sources.look(self.event_path.slowest_sources(), now)
        measured = self.event_path.measured(now, self.homes.latencies, self.backlog, self.silent_sources.longest())
        if measured is not None:
            self._measured = True
            effects.append(self.put("load", self.name, measured))
        if again:
            self.exclusion.measured()
            self._status_at = now
            if self.event_path.values.tick(now):
                effects.append(self._sample())
            effects += self._status_effects(now)
            effects += self._report_engines()
            if self._handshake.settled:
                effects += self.renewals.tick(now)
                effects += [
                    *self.migration.tick(now),
                    *self.admission.tick(now),
                    *self.hosting.wanted.tick(now),
                    *self.hosting.tick(now),
                    *self.absent_clients.tick(now),
                ]
                effects += self.replication.tick(now, self.migration.moving, self.migration.replicate)
                effects += self.rebalancing.tick(now)
                effects += [*self.exclusion.tick(now), *self.durable.tick(now)]
        for detector in self.checkpoints.late(now):
            effects += self._loaded(detector, (), "the store does not answer", now)
        return [*effects, *self.exclusion.take(now), *self.checkpoints.tick(now)]

    def story(self, id: str) -> list[StoryLine]:  # noqa: A002
        """Stories of a subscription, a source, or the detectors with this id prefix, on this node, in order."""
        return sorted(
            (line for lines in self.stories.of(id).values() for line in lines), key=lambda each: (each.at, each.cause)
        )

    def validate(self) -> None:
        """Raise `AssertionError` where an invariant of the node, or of a detector on it, does not hold."""
        for identity, hosted in self.hosted.items():
            assert identity == hosted.id and not hosted.moving and hosted.phase is not Phase.GONE, identity
            hosted.validate()
            for name in hosted.subscriptions:
                assert self.hosting.by_subscription.get(name) == identity, (name, identity)
        for identity, hosted in self.event_path.moving.items():
            assert identity == hosted.id and hosted.moving and identity not in self.hosted, identity
            hosted.validate()
            assert self.migration.moving[identity].arrives == (hosted.phase is Phase.ARRIVING), identity
        arriving = {identity for identity, each in self.migration.moving.items() if each.arrives}
        assert arriving <= self.event_path.moving.keys(), arriving
        self.event_path.inventory.validate()
        self.event_path.inputs.validate()
        self.event_path.shares.validate()
        running = {each.id for each in self.hosted.values() if each.running}
        assert running == self.event_path.inputs.members(), running
        for name, identity in self.hosting.by_subscription.items():
            assert name in self.hosted[identity].subscriptions, (name, identity)

    def holding(self) -> dict[str, list[str]]:
        """Sources that the stream of each detector waits for, by detector."""
        return {
            name: hosted.detector.policy.holding()
            for name, hosted in self.hosted.items()
            if isinstance(hosted.detector.policy, Guaranteed)
        }

    def _report_engines(self) -> list[Effect]:
        """Log once that an engine is unavailable."""
        engines = self.shared.engines
        if engines is None or self._without_columnar or not engines.readiness.problem:
            return []
        self._without_columnar = True
        return [warning("columnar engine refused", reason=engines.readiness.problem, runs="stepwise")]

    # The directory.

    def _entry(self, levels: tuple[str, ...], payload: bytes, now: int, topic: str) -> list[Effect]:
        mine = self.hosted.get(levels[1]) if levels[0] == "detector" and len(levels) == 2 else None
        asked = levels[0] == "subscription" and len(levels) == 2 and self._handshake.settled
        if asked and self.refusals.arrived(levels[1], payload, topic):
            return []
        known = self.directory.sources.get(levels[-1]) if levels[0] == "source" else None
        if known is not None and self._waits(known.publisher, topic, payload, ""):
            # Behind the events that it has published before.
            return []
        refused = self.entry_limits.refused(levels, payload, topic)
        if refused is not None:
            return refused
        change = self.directory.read(levels if mine is None else ("detector", mine.id), payload, where=topic)
        if mine is not None and change.entry is not None and change.entry.pattern == mine.planned.asked.pattern:
            # One object, as for the name: of a hundred thousand these are many bytes.
            structs.force_setattr(change.entry, "pattern", mine.planned.asked.pattern)
        if change.kind == "source" and change.entry is not None:
            problem = self.event_path.clock_bound.check_promise(change.entry.watermark, topic, payload, now)
            if problem is not None:
                return [*problem, *self._changed(self.directory.without_promise(change), now)]
        if change.kind in RENEWED:
            self.renewals.seen(change.kind, change.name)
        if change.outdated:
            # The server retains the message that was published last.
            return [self.hosting.announcements.publish(mine)] if mine is not None and mine.primary else []
        # A source waits for an answer, also to an entry that was known already.
        if change.kind != "source" and (change.entry == change.before or _is_known(change)):
            return self._repeated(change)
        return self._changed(change, now)

    def _repeated(self, change: Change) -> list[Effect]:
        """Effects of an entry that was known: a node that has started again under its name subscribes to parts as
        before, and waits for the offer; and a client may have listened to another host, which the server has forgotten,
        too."""
        entry = change.entry
        if change.kind != "subscription" or entry is None:
            return []
        if not (entry.client.startswith(NODE_CLIENT) or entry.again):
            return []
        hosted = self.hosted.get(self.hosting.by_subscription.get(change.name, ""))
        return [] if hosted is None else self.hosting.offer_again(hosted, [change.name])

    def _changed(self, change: Change, now: int) -> list[Effect]:
        if change.kind == "detector":
            self.hosting.upstream.readers_changed(change)
        wanted = self.hosting.wanted.changed(change, now, known=self._handshake.settled)
        effects = [*self.placement.changed(change), *self._react(change, now), *wanted]
        if change.kind in ("client", "source") and self.hosting.wanted.reads.active:
            # A publisher that detectors have waited for may have gone.
            effects += self.hosting.begin_some(now)
        return effects

    def _react(self, change: Change, now: int) -> list[Effect]:
        match change.kind:
            case "source":
                return self._source_changed(change, now)
            case "client":
                return self._client_changed(change, now)
            case "node":
                return self._node_changed(change, now)
            case "subscription":
                if change.entry is None or self._handshake.settled:
                    return self.admission.entry_arrived(change, now)
                return []
            case "detector":
                effects = self.migration.detector_changed(change, now)
                if effects is None:
                    effects = self.hosting.detector_changed(change, now)
                else:
                    # Detectors that stay here read one that has moved away at its new home.
                    effects = [*effects, *self.hosting.upstream.listen_elsewhere(now)]
                return [*effects, *self.admission.detector_changed(change), *self.isolation.tidy()]
            case "type":
                return self.hosting.types_changed(change.name)
            case "exclusion":
                return self.exclusion.changed(change, now)
            case _:
                return []

    def _source_changed(self, change: Change, now: int) -> list[Effect]:
        name, entry, before = change.name, change.entry, change.before
        effects: list[Effect] = []
        if entry is None or (before is not None and before.types != entry.types):
            # Its last events come from its own server, its end from that of the directory.
            home = "" if before is None else before.home
            effects += self.homes.flush({home}, lambda now: self._leave(name, now), now)
        if entry is None:
            return effects
        watermark, read = self.event_path.join(name, entry, now)
        ack = Publish(administration_topic("ack", name, self.name, root=self.root), encode(Acknowledgement(watermark)))
        # It publishes once its events are subscribed to.
        homes = {entry.home} if read else set()
        effects += self.hosting.topic_filters.refilter() if read else []
        return [*effects, *self.homes.once_subscribed(homes, lambda _: [ack], now)]

    def _leave(self, source: str, now: int) -> list[Effect]:
        """Stop waiting for a source that no longer publishes for detectors."""
        entry = self.directory.sources.get(source)
        types = () if entry is None else entry.types
        if entry is None:
            self.hosting.source_ended(source, now)
        effects: list[Effect] = []
        for reader in self.event_path.inputs.readers():
            if not any(map(reader.takes, types)):
                effects += self.event_path.leave(source, reader, now)
        return effects

    def _client_changed(self, change: Change, now: int) -> list[Effect]:
        return [*self.quarantine.client_changed(change, now), *self._client_lost(change)]

    def _client_lost(self, change: Change) -> list[Effect]:
        if change.entry is not None:
            return []
        sources = sorted(name for name, each in self.directory.sources.items() if each.publisher == change.name)
        if not sources or chosen(change.name, self.directory.common_nodes) != self.name:
            return []
        advice = "its sources are waited for: fence them off if they do not come back"
        named = ", ".join(sources[:MOST_NAMED]) + (
            f", and {len(sources) - MOST_NAMED:,} others" if sources[MOST_NAMED:] else ""
        )
        return [warning("client lost", client=change.name, sources=named, advice=advice)]

    def _node_changed(self, change: Change, now: int) -> list[Effect]:
        effects: list[Effect] = []
        if change.entry is None and change.name == self.name:
            # The last will of a connection that was lost before this one.
            effects.append(self._announce())
        elif self._handshake.settled:
            effects += self.membership.changed(change, now)
        if change.entry is not None:
            effects += self.isolation.node_up(change.name)
        return [*effects, *self.hosting.upstream.listen_elsewhere(now), *self._inspect()]

    # Administration.

    def _administration(self, levels: tuple[str, ...], payload: bytes, now: int, topic: str, home: str) -> list[Effect]:
        match levels:
            case ("heartbeat", publisher):
                if self._waits(publisher, topic, payload, home):
                    return []
                beat = decode(payload, Heartbeat, where=topic)
                foreign = self.directory.not_of(publisher, beat.sources)
                if not foreign:
                    return self.event_path.heard(beat, topic, payload, now)
                letter = self.dead_letters.message("rejected", foreign_promise(publisher, foreign), topic, payload)
                return [*letter, *self.event_path.heard(beat.without(foreign), topic, payload, now)]
            case ("alive", kind, name):
                self.renewals.renewed(kind, name)
                return []
            case ("again", self.name, kind, source):
                return self._again(kind, source, payload, now, home)
            case ("lost", self.name, kind, source):
                return self.event_path.unavailable(read_unavailable(kind, source, payload), now, home)
            case ("missing", "detector"):
                return self.event_path.answer(decode(payload, Missing, where=topic), home)
            case ("filtered", self.hosting.wanted.reads.reader, publisher):
                return self.hosting.filtered(publisher, decode(payload, Filtered, where=topic), now)
            case ("ready", _):
                listening = decode(payload, Listening, where=topic).subscriptions
                for name in listening:
                    self.admission.listening(name)
                return []
            case ("answer", self._client):
                answers = decode(payload, Answers, where=topic).answers
                return [effect for answer in answers for effect in self.hosting.answered(answer, now)]
            case ("move", detector):
                return self.migration.asked(detector, decode(payload, MoveRequest, where=topic), now)
            case ("drain", self.name):
                asked = self.draining.asked(active=decode(payload, Drain, where=topic).active)
                return [*asked, self._announce()]
            case ("node", self.name, "serve" | "host" | "served" as kind, subscription):
                self.admission.message(kind, subscription, payload, topic)
                return []
            case ("node", self.name, "identify", asker):
                return [self.identification.answer(asker, now)]
            case ("node", self.name, "relieve", detector):
                return self.rebalancing.requested(detector, decode(payload, MoveRequest, where=topic), now)
            case ("node", self.name, kind, detector):
                return self.migration.message(kind, detector, payload, now, topic)
            case ("story", asker):
                stories = self.stories.of(decode(payload, StoryRequest, where=topic).id)
                answer = administration_topic("story-of", asker, self.name, root=self.root)
                return [Publish(answer, encode(StoryAnswer(self.name, stories)))]
            case ("policy", key):
                return self._policy_set(key, payload, now, topic)
            case ("fence", source):
                # Behind its events that the server had before.
                return self.homes.flush({""}, lambda now: self.event_path.fence(source, now), now)
            case ("known", self.name):
                return self._known(payload, now)
            case ("node", self.name, "since"):
                return self._claimed(payload)
        return []

    def _again(self, kind: str, source: str, payload: bytes, now: int, home: str) -> list[Effect]:
        """Take a message that was missing, as on its own topic."""
        topic = composite_topic(source, root=self.root)
        if kind == "e":
            topic = event_topic(decode_frame(payload, where=source).type, source, root=self.root)
        route = self._routes.get(topic) or self._route(topic)
        if route is None:
            return []
        return [*self.event_path.collect(route, topic, payload, now, home), *self.event_path.consume_arrived(now)]

    def _look_again(self, home: str, now: int) -> list[Effect]:
        """Request the positions of what is read from a home, over a new connection: messages may be missing, and those
        without numbers are lost."""
        effects = self.event_path.interrupted(home, now) if home in self._linked else []
        self._linked.add(home)
        for publisher, messages in self.event_path.look_again(home).items():
            effects.append(self._missing(publisher, home, messages))
        return effects

    def _missing(self, publisher: str, home: str, messages: Iterable[MissingMessages]) -> Publish:
        """Request for messages of a publisher, of detectors where it is empty, that are at home there."""
        levels = ("source", publisher) if publisher else ("detector",)
        topic = administration_topic("missing", *levels, root=self.root)
        return Publish(topic, encode(Missing(self.name, tuple(messages))), home=self.homes.over(home))

    def _ask_positions(self, now: int) -> list[Effect]:
        """Request the positions of streams that have begun, at once: their watermarks wait for that."""
        if not self.event_path.asks:
            return []
        self.event_path.asks = False
        return self._request_missing(now)

    def _request_missing(self, now: int) -> list[Effect]:
        """Request missing messages from their publishers."""
        sources, detectors = self.event_path.missing(now), self.event_path.missing_of_detectors(now)
        return [
            *(self._missing(publisher, home, messages) for (publisher, home), messages in sources.items()),
            *(self._missing("", home, messages) for home, messages in detectors.items()),
        ]

    def _policy_set(self, key: str, payload: bytes, now: int, topic: str) -> list[Effect]:
        if not self.policies.read(key, payload, topic):
            return []
        self.event_path.inventory.all_changed()
        self.rebalancing.reconsider_soon(None if key == EVERYBODY else key, now)
        policy = self.policies.set[key].text if payload else "none"
        return [info("distribution policy set", of=key, policy=policy), *self.hosting.publish_entries()]

    def _claimed(self, payload: bytes) -> list[Effect]:
        """Take a claim of another node to this name, present or past."""
        effects = self.claim.found(payload)
        self._stopped = self.claim.lost
        return effects

    def _known(self, payload: bytes, now: int) -> list[Effect]:
        """The directory was read."""
        before = self._handshake.settled
        if not self._handshake.answered(payload):
            return []
        effects = self.claim.make()
        if not before and not self._measured:
            # The load is that of an earlier life, which has not ended in order.
            alone = self.directory.common_nodes in ([], [self.name])
            suspects = self.exclusion.suspects(self.name, INSTANT_MIN, now) if alone else ()
            effects += self.exclusion.lost(self.name, suspects, now)
        if before:
            shown = {
                name for kind, name in self.directory.names() - self.directory.unconfirmed.keys() if kind == "detector"
            }
            # The claim is the one entry that nobody else clears.
            forgotten = bool(effects)
            effects += [*self.hosting.compare(shown, now), *self.durable.put_back(shown, forgotten=forgotten)]
        return [*effects, *self.hosting.wanted.look(now), *self.admission.take_up(), *self._inspect()]

    def _inspect(self) -> Iterable[Effect]:
        """Inspect all events of the site for unregistered types, on one node of it."""
        nodes = [name for name in self.directory.common_nodes if self.directory.nodes[name].home == self.home]
        wanted = self.inspects and self._handshake.settled and chosen("inspector", nodes) == self.name
        if wanted == self.hosting.topic_filters.inspecting:
            return []
        self.hosting.topic_filters.inspecting = wanted
        return self.hosting.topic_filters.refilter()

    def _counters_due(self, counts: Mapping[str, int], now: int) -> bool:
        """Whether changed counters are due: where one has changed by a tenth, or one of problems at all; or after a
        while."""
        if not self._counters or now - self._counters_at >= COUNTERS_EVERY:
            return True
        before = self._counted
        changes = {name: abs(count - before.get(name, 0)) for name, count in counts.items()}
        return any(change and (name not in FLOW or change * 10 >= counts[name]) for name, change in changes.items())

    def _status_effects(self, now: int) -> list[Effect]:
        """The entry where it has changed, and the counters where they are due."""
        counts = {**self.counts, **{f"dead letters, {name}": n for name, n in self.dead_letters.counts.items()}}
        if self.dead_letters.unpublished:
            counts["dead letters not published"] = self.dead_letters.unpublished
        entry, counters = self._announce(), encode(Counters(counts))
        effects: list[Effect] = []
        if entry.payload != self._published_entry:
            self._published_entry = entry.payload
            effects.append(entry)
        if counters != self._counters and self._counters_due(counts, now):
            self._counters, self._counted, self._counters_at = counters, counts, now
            topic = administration_topic(COUNTERS, self.name, root=self.root)
            effects.append(Publish(topic, counters, retain=True))
        return effects

    def _sample(self) -> Publish:
        return self.put("sample", self.name, SampleEntry(dict(self.event_path.values.published)))

    def _announce(self) -> Publish:
        entry = NodeEntry(
            self.claim.since,
            len(self.hosted),
            {},
            self.home,
            self.capacity,
            self.isolates,
            self.reserved,
            self.event_path.clock_bound.most,
            self.draining.active,
            self.event_path.bound.limits.size,
            self.reads_history,
        )
        return self.put("node", self.name, entry)


def _is_known(change: Change) -> bool:
    """Whether a subscription was known before its server has forgotten it."""
    entry, before = change.entry, change.before
    if not isinstance(entry, SubscriptionEntry) or before is None or not entry.again:
        return False
    return bool(structs.replace(entry, again=before.again) == before)

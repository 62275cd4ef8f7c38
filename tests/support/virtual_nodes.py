"""A virtual MQTT server with nodes and clients around it, in virtual time: every interleaving from one seed.

Each participant has a queue to the server and one from it, which keep their order; which queue goes on next is random.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import cache
from random import Random
from types import SimpleNamespace
from typing import Any

from msgspec import structs

from distced.brokers.core.effects import (
    Compile,
    Effect,
    Isolate,
    Note,
    Publish,
    ReadHistory,
    Release,
    Subscribe,
    Unsubscribe,
)
from distced.brokers.node.compiling import compiled_beside
from distced.brokers.node.node import Node
from distced.middleware.client.client_effects import Leave, Listen, NotAvailable, Redelivered, SetTimer
from distced.middleware.client.quality import QualityOfService
from distced.middleware.client.session import ClientSession
from distced.middleware.client.subscription_state import SubscriptionState
from distced.middleware.history.coverage import HistoryPart
from distced.middleware.model.errors import BusError
from distced.middleware.model.event_types import EventType
from distced.middleware.model.events import CompositeEvent, Event
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import Answer, Answers, DeadLetter, Heartbeat
from distced.middleware.wire.codec import decode, encode
from distced.middleware.wire.directory_entries import SourceEntry, SubscriptionEntry
from distced.middleware.wire.frames import encode as encode_frame
from distced.middleware.wire.numbered_stream import Loss
from distced.middleware.wire.topics import (
    ROOT,
    Area,
    administration_topic,
    directory_topic,
    event_topic,
    matches,
    parse_topic,
)

FOREVER = 10**18
DEFAULTS = structs.asdict(QualityOfService()) | {"decomposition": ""}
RENAMED = {"policy": "detection"}

_matches = cache(matches)

STEPS = 200_000
"""More messages than this are a circle."""


class Participant:
    """Somebody connected to the server.

    Attributes:
        will: what the server publishes when the connection is lost.
        filters: what the server sends it.
        wanted: what it has asked for; as the bus does, it asks again on every connection.
        out, into: what is on the way to the server, and from it.
    """

    def __init__(self, network: Network, will: Publish | None = None) -> None:
        self.network = network
        self.will = will
        self.connected = False
        # As a process that is stopped: the server keeps its connection.
        self.stalled = False
        self.filters: set[str] = set()
        self.wanted: dict[str, None] = {}
        self.out: deque[Effect] = deque()
        self.into: deque[tuple[str, Any]] = deque()

    def connect(self) -> None:
        self.connected = True
        # What was published without a connection has waited for it.
        waiting, self.out = self.out, deque(Subscribe(each) for each in self.wanted)
        self.do(self.hello())
        self.out.extend(each for each in waiting if isinstance(each, Publish))

    def do(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Subscribe(topic_filter=topic_filter):
                    if topic_filter in self.wanted:
                        continue
                    self.wanted[topic_filter] = None
                case Unsubscribe(topic_filter=topic_filter):
                    self.wanted.pop(topic_filter, None)
            self.out.append(effect)

    def hello(self) -> list[Effect]:
        return []

    def receive(self, topic: str, payload: bytes) -> None:
        raise NotImplementedError

    def disconnected(self) -> None:
        return None

    def tick(self) -> None:
        return None


class Network:
    """The server and everybody around it.

    Attributes:
        now: the virtual instant, ns.
        retained: what the server keeps.
        notes: what nodes had logged.
        letters: the dead letters.
        json: composite events as JSON, topic and payload.
        again: how probably the server delivers an event frame twice.
        history: the recorded events that nodes read.
        hasty: whether the server takes messages before subscriptions that were sent before them, as amqtt may.
    """

    def __init__(self, seed: int = 0, *, again: float = 0.0, hasty: bool = False) -> None:
        self.random = Random(seed)
        self.now = 0
        self.again = again
        self.hasty = hasty
        self.participants: list[Participant] = []
        self.retained: dict[str, bytes] = {}
        self.notes: list[Note] = []
        self.letters: list[DeadLetter] = []
        self.json: list[tuple[str, bytes]] = []
        self.history: Callable[[ReadHistory], HistoryPart] = lambda _: HistoryPart()

    # Who is there.

    def detector_topic(self, detector: str) -> str:
        """Topic of the entry of a detector, whether it publishes a type or not."""
        return next(each for each in self.retained if parse_topic(each).levels == ("detector", detector))

    def node(self, name: str, **arguments: Any) -> VirtualNode:
        """A node that connects now."""
        return self._connected(VirtualNode(self, name, **arguments))

    def client(self, name: str, *, metered: bool = False) -> VirtualClient:
        """A client that connects now."""
        return self._connected(VirtualClient(self, name, metered=metered))

    def _connected(self, made: Any) -> Any:
        self.participants.append(made)
        made.connect()
        return made

    def lose(self, lost: Participant, *, for_good: bool = False) -> None:
        """A connection is lost, with what was on its way from the server, which publishes the will."""
        lost.connected = False
        lost.filters.clear()
        lost.into.clear()
        lost.disconnected()
        if for_good:
            self.participants.remove(lost)
        if lost.will is not None:
            self._publish(lost.will)

    def restart(self, *, remembers: bool = False, killed: Iterable[Participant] = ()) -> None:
        """The server starts again, without wills and perhaps without a memory; participants are killed with it."""
        for each in killed:
            self.participants.remove(each)
        for each in self.participants:
            each.connected = False
            each.filters.clear()
            each.into.clear()
            each.disconnected()
        if not remembers:
            self.retained.clear()

    # What happens.

    def step(self) -> bool:
        """One message goes one way further; False where none was under way."""
        going = [each for each in self.participants if each.connected and not each.stalled]
        ready = [(each, each.out) for each in going if each.out]
        ready += [(each, each.into) for each in going if each.into]
        serving = [each for each in going if isinstance(each, VirtualNode) and each.node.unfinished]
        if not ready and not serving:
            return False
        # A request is served between any two messages.
        place = self.random.randrange(len(ready) + len(serving))
        if place >= len(ready):
            serving[place - len(ready)].serve()
            return True
        participant, queue = ready[place]
        if self.hasty and isinstance(queue[0], Subscribe) and self.random.random() < 0.5:
            first = next((place for place, each in enumerate(queue) if isinstance(each, Publish)), 0)
            queue.rotate(-first)
            item = queue.popleft()
            queue.rotate(first)
        else:
            item = queue.popleft()
        if isinstance(item, tuple):
            participant.receive(*item)
        else:
            self._serve(participant, item)
        return True

    def run(self) -> None:
        """Until nothing is under way."""
        for _ in range(STEPS):
            if not self.step():
                return
        raise AssertionError("messages go in a circle")

    def some(self, steps: int) -> None:
        """A few messages only."""
        for _ in range(steps):
            self.step()

    def pass_time(self, duration: int, every: int = SECOND // 2) -> None:
        """Time passes, and everybody is told every so often."""
        end = self.now + duration
        while self.now < end:
            self.now = min(self.now + every, end)
            for each in list(self.participants):
                if not each.stalled:
                    each.tick()
            self.run()

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Somebody else publishes."""
        self._publish(Publish(topic, payload, retain=retain))

    def _serve(self, participant: Participant, effect: Effect) -> None:
        match effect:
            case Publish():
                self._publish(effect)
            case Subscribe(topic_filter=topic_filter, retained=retained):
                participant.filters.add(topic_filter)
                kept = [each for each in self.retained.items() if retained and _matches(topic_filter, each[0])]
                # No server promises an order for these.
                self.random.shuffle(kept)
                participant.into.extend(kept)
                if isinstance(participant, VirtualClient):
                    participant.into.append((topic_filter, None))
            case Unsubscribe(topic_filter=topic_filter):
                participant.filters.discard(topic_filter)
            case Note():
                self.notes.append(effect)
            case Compile() if isinstance(participant, VirtualNode):
                participant.do(participant.node.compiled(effect, compiled_beside(effect), self.now))
            case ReadHistory() if isinstance(participant, VirtualNode):
                participant.do(participant.node.history_read(effect, self.history(effect), self.now))
            case Isolate(node=name, detector=detector):
                self.node(name, reserved=detector)
            case Release(node=name):
                next(each for each in self.nodes if each.name == name).stop()

    def _publish(self, message: Publish) -> None:
        area = message.topic.split("/")[1] if message.topic.startswith(f"{ROOT}/") else ""
        if not area:
            self.json.append((message.topic, message.payload))
        if message.retain:
            if message.payload:
                self.retained[message.topic] = message.payload
            else:
                self.retained.pop(message.topic, None)
        if area == Area.DEAD_LETTERS:
            self.letters.append(decode(message.payload, DeadLetter, where=message.topic))
        for each in self.participants:
            if each.connected and any(_matches(topic_filter, message.topic) for topic_filter in each.filters):
                each.into.append((message.topic, message.payload))
                if area in (Area.EVENTS, Area.COMPOSITE_EVENTS) and self.random.random() < self.again:
                    each.into.append((message.topic, message.payload))

    # What is known.

    def hosts(self, detector: str) -> list[str]:
        """The nodes that host a detector."""
        return [each.name for each in self.nodes if detector in each.node.hosted]

    @property
    def nodes(self) -> list[VirtualNode]:
        return [each for each in self.participants if isinstance(each, VirtualNode)]

    def reasons(self) -> list[str]:
        """Why there are dead letters."""
        return sorted(each.reason for each in self.letters)


class VirtualNode(Participant):
    """A broker node."""

    def __init__(self, network: Network, name: str, **arguments: Any) -> None:
        self.name = name
        self.node = Node(name, network.now, validate=True, **arguments)
        super().__init__(network, self.node.will())

    def hello(self) -> list[Effect]:
        return self.node.start(self.network.now)

    def receive(self, topic: str, payload: bytes) -> None:
        self.do(self.node.receive(topic, payload, self.network.now))

    def serve(self) -> None:
        """One request is served."""
        self.do(self.node.serve(self.network.now, lambda: False))

    def tick(self) -> None:
        self.do(self.node.tick(self.network.now))

    def stop(self) -> None:
        """The node ends, properly."""
        self.do(self.node.stop())
        self.network.run()
        if self in self.network.participants:
            self.network.participants.remove(self)


class VirtualClient(Participant):
    """A driver of the shipped client session that keeps what it hears.

    Attributes:
        session: the protocol.
        answers: the answers of nodes to each subscription, in order.
        found: the composite events of each subscription, each once.
        watermarks: how far each was heard, ns.
        losses: of each subscription.
        acknowledged: by source and node or recorder, the acknowledgements.
        accepts: whether it answers offers.
    """

    def __init__(self, network: Network, name: str, *, metered: bool = False) -> None:
        self.name = name
        super().__init__(network, Publish(directory_topic("client", name), b"", retain=True))
        self.session = ClientSession(name, patience=FOREVER, metered=metered)
        self.answers: dict[str, list[Answer]] = {}
        self.found: dict[str, dict[Any, CompositeEvent]] = {}
        self.watermarks: dict[str, int] = {}
        self.losses: dict[str, list[Loss]] = {}
        self.acknowledged: dict[str, dict[str, bytes]] = {}
        self.accepts = True
        self._subscriptions: dict[str, SubscriptionState] = {}
        # The subscriptions behind each filter, requests to confirm, and timers with their instants, ns.
        self._listening: dict[str, list[str]] = {}
        self._unconfirmed: dict[str, list[int]] = {}
        self._timers: list[tuple[int, int]] = []
        self.do(self.session.begin())

    def hello(self) -> list[Any]:
        return self.session.connected("", self.network.now)

    def disconnected(self) -> None:
        self.do(self.session.lost("", BusError("connection lost")))

    def put(self, kind: str, name: str, entry: Any) -> None:
        self.do([self.session.directory.put(kind, name, entry)])

    def clear(self, kind: str, name: str) -> None:
        if kind == "subscription":
            self.do(self.session.unsubscribe(name))
        else:
            self.do([self.session.directory.clear(kind, name)])

    def register(self, *types: EventType) -> None:
        for each in types:
            self.put("type", each.name, each)

    def source(self, name: str, types: Iterable[str], watermark: int = -100, lease: int = 0) -> None:
        """Announce a source, again perhaps; what it publishes does not wait."""
        self.acknowledged[name] = {}
        self.put("source", name, SourceEntry(tuple(types), watermark, lease, self.name))

    def subscribe(self, identity: str, pattern: str, **asked: Any) -> None:
        """Subscribe; what the interface for applications would not let through is asked for all the same."""
        self.answers[identity] = []
        self.found[identity] = {}
        if "exports" in asked:
            self.put("subscription", identity, SubscriptionEntry(self.name, pattern, **asked))
            return
        definitions = asked.pop("definitions", {})
        language, query = asked.pop("language", ""), asked.pop("query", "")
        quality: Any = SimpleNamespace(**(DEFAULTS | {RENAMED.get(key, key): value for key, value in asked.items()}))
        state = self._subscriptions[identity] = SubscriptionState(identity, pattern, quality)
        state.language, state.query = language, query
        self.do(self.session.subscriptions.to_pattern(state, definitions, None))
        # Everything that comes is kept.
        quality.constituents = True

    def publish(self, *events: Event, watermark: int | None = None) -> None:
        """Events of one type and source."""
        first = events[0]
        payload = encode_frame(events, type=first.type, source=first.source, watermark=watermark)
        self.do([Publish(event_topic(first.type, first.source), payload)])

    def heartbeat(self, watermark: int, *sources: str) -> None:
        beat = Heartbeat(sources, watermark)
        self.do([Publish(administration_topic("heartbeat", self.name), encode(beat))])

    # The driver.

    def do(self, effects: Iterable[Any]) -> None:
        passed: list[Effect] = []
        for effect in effects:
            match effect:
                case Listen(topic_filter=topic_filter, number=number):
                    self._listening.setdefault(topic_filter, []).append(effect.subscription)
                    self._unconfirmed.setdefault(topic_filter, []).append(number)
                    if topic_filter in self.filters:
                        # The server confirms one that is there, too.
                        self.into.append((topic_filter, None))
                    passed.append(Subscribe(topic_filter))
                case Leave(topic_filter=topic_filter):
                    self._listening[topic_filter].remove(effect.subscription)
                    if not self._listening[topic_filter]:
                        passed.append(Unsubscribe(topic_filter))
                case Redelivered(subscription=identity, topic=topic, payload=payload):
                    self._heard(self._subscriptions[identity], topic, payload)
                case NotAvailable(subscription=identity, lost=lost):
                    state = self._subscriptions[identity]
                    self._take(state, state.unavailable("", lost, self.network.now))
                case SetTimer(delay=delay, number=number):
                    self._timers.append((self.network.now + delay, number))
                case Publish() | Subscribe() | Note():
                    passed.append(effect)
        super().do(passed)

    def tick(self) -> None:
        now = self.network.now
        due = sorted(each for each in self._timers if each[0] <= now)
        self._timers = [each for each in self._timers if each[0] > now]
        for _, number in due:
            self.do(self.session.fired(number, now))

    def receive(self, topic: str, payload: bytes | None) -> None:
        if payload is None:
            for number in self._unconfirmed.pop(topic, ()):
                self.do(self.session.confirmed(number))
            return
        if topic in self._listening:
            for identity in self._listening[topic]:
                self._heard(self._subscriptions[identity], topic, payload)
            return
        if topic.startswith(f"{ROOT}/{Area.ADMINISTRATION}/ack/"):
            _, source, speaker = parse_topic(topic).levels
            if source in self.acknowledged:
                self.acknowledged[source][speaker] = payload
        elif topic == administration_topic("answer", self.name):
            answers = decode(payload, Answers, where=topic).answers
            for answer in answers:
                # Without a name for all that wait; perhaps of an earlier client of this name.
                for name in (answer.subscription, *answer.others) if answer.subscription else ():
                    self.answers.setdefault(name, []).append(answer)
            if not self.accepts:
                payload = encode(Answers(tuple(each for each in answers if each.state != "offered")))
        self.do(self.session.receive(topic, payload, self.network.now))

    def _heard(self, state: SubscriptionState, topic: str, payload: bytes) -> None:
        self._take(state, state.arrived(topic, payload, self.network.now))
        if not state.complete:
            self.do(self.session.subscriptions.missing.incomplete(state.id, self.network.now))

    def _take(self, state: SubscriptionState, items: Iterable[Event | Loss]) -> None:
        for event in items:
            if isinstance(event, Loss):
                self.losses.setdefault(state.id, []).append(event)
            elif isinstance(event, CompositeEvent):
                self.found[state.id].setdefault(event.id, event)
        assert not state.statistics.errors
        if state.statistics.watermark is not None:
            self.watermarks[state.id] = state.statistics.watermark

    def states(self, identity: str) -> list[str]:
        return [each.state for each in self.answers[identity]]

    def detector(self, identity: str) -> str:
        return self.answers[identity][-1].detector

    def composites(self, identity: str) -> list[CompositeEvent]:
        return list(self.found[identity].values())


def delivering(network: Network, sends: Iterable[Callable[[], object]]) -> None:
    """Let each be sent, with a random number of messages going their way in between; then everything arrive."""
    for send in sends:
        send()
        network.some(network.random.randrange(6))
    network.run()

"""Subscriptions of a client: decides where it listens and when it subscribes again, from the request to its end.

Entries of the directory that are published again after a reconnection are `directory_session`'s; `listening` waits for
the confirmations of servers. For a type the client listens at the homes of its sources and detectors. For a pattern it
publishes an entry, and a broker node answers with the topic of a detector and the homes where it publishes; the client
listens there and says that it is ready; the node answers that the detector is active. When that node is lost another
one offers the detector again, and the client answers again without the application's doing. At the former homes it goes
on listening for a while, for events still under way.

An event that comes twice is recognised by its id, so a subscription may listen at several homes at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat
from sys import intern
from typing import Final

from msgspec.structs import replace

from distced.middleware.client.client_effects import (
    ClientEffect,
    DetectorEnded,
    Done,
    Ended,
    Leave,
    LeftHome,
    SessionTimers,
    Waits,
)
from distced.middleware.client.directory_session import OF_DURABLE, DirectorySession
from distced.middleware.client.durable import differences, durable_id
from distced.middleware.client.filter_session import FilterSession
from distced.middleware.client.listening import Attempt, Course, ListeningPlaces, missing_note
from distced.middleware.client.missing_requests import MissingRequests
from distced.middleware.client.quality import origin_at
from distced.middleware.client.subscription_state import Place, SubscriptionState
from distced.middleware.model.errors import BusError, DistcedError, SubscriptionError
from distced.middleware.model.event_types import EventType
from distced.middleware.model.timestamps import SECOND
from distced.middleware.patterns.statements import used_definitions
from distced.middleware.wire.administration import (
    METERED_WATERMARKS,
    Answer,
    Answers,
    Listening,
    Progress,
)
from distced.middleware.wire.codec import decode, encode
from distced.middleware.wire.directory import Change
from distced.middleware.wire.directory_entries import Durable, Origin, SubscriptionEntry
from distced.middleware.wire.mqtt_effects import Note, Publish, Subscribe
from distced.middleware.wire.numbered_stream import ASK_AFTER
from distced.middleware.wire.topics import Area, administration_topic, area_filter, composite_topic, event_topic

LINGER: Final = 5 * SECOND  # time to listen where a detector has published before, ns

GONE_AFTER: Final = 2 * SECOND
"""How long a type may be without a publisher until its subscriptions are notified, ns."""

READY_AGAIN: Final = SECOND, 32 * SECOND
"""Least and greatest interval at which a client repeats that it is ready until the detector is active, ns; doubled each
time. The answer of the node may be lost with a server."""


AT_ONCE: Final = 200
"""Number of subscriptions of one bulk that wait for broker nodes at a time; the others wait for their turn, so that the
patience of each begins when it is asked for."""


TOGETHER: Final = SECOND // 500
"""How long a client that listens for one subscription waits for others that are about to, ns."""

POSITION_EVERY: Final = SECOND // 2
"""Interval of the published positions of a durable subscription, ns: what is taken within it may come again after a
crash of the application."""

NO_POSITION: Final = "the last application of this durable subscription has left no position"
"""Reason of a loss."""


@dataclass(slots=True, eq=False)
class _Bulk:
    """Subscriptions requested together: the application's operation, those whose turn has not come, number of those in
    progress, and errors by id."""

    operation: object
    waiting: deque[SubscriptionState]
    definitions: dict[str, str]
    errors: dict[str, DistcedError]
    progressing: int = 0


class SubscriptionSession:
    """Subscriptions of a client.

    Attributes:
        patience: for an answer of a node, and for the confirmations of servers, ns.
        places: where they listen.
        missing: requests for their missing messages.
        progress_topic: where watermarks of many subscriptions are published.
    """

    def __init__(
        self,
        name: str,
        root: str,
        server: str,
        patience: int,
        directory: DirectorySession,
        timers: SessionTimers,
        filters: FilterSession,
    ) -> None:
        self.patience = patience
        self._filters = filters
        self._name = name
        self._root = root
        self._server = server
        self._directory = directory
        self._timers = timers
        self._courses: dict[str, Course] = {}
        # Bulks that are not complete.
        self._bulks: list[_Bulk] = []
        self.places = ListeningPlaces(server, patience, timers, self._listened)
        # Those that listen, which is about to be published.
        self._ready_soon: list[str] = []
        # Why nodes do not read what this client publishes; empty where they do, as far as is known.
        self._unread = ""
        # Those to a type, by its name and their id.
        self._typed: dict[str, dict[str, Course]] = {}
        self.progress_topic = administration_topic("progress", name, root=root)
        # Homes of detectors: few differ; and those where the watermarks of many are listened to.
        self._homes: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._progress_homes = {""}
        self.missing = MissingRequests(name, root, directory, timers, self._courses)
        # Homes that the client has been connected to.
        self._linked: set[str] = set()

    @property
    def open(self) -> list[str]:
        """Ids of all subscriptions, those that are not complete yet included."""
        return [*self._courses, *(state.id for bulk in self._bulks for state in bulk.waiting)]

    def request(self, state: SubscriptionState, definitions: dict[str, str], operation: object) -> list[ClientEffect]:
        """Subscribe to a pattern, or to an event type by its name."""
        if state.id in self._courses:
            advice = "close that one, or take another name"
            raise SubscriptionError(
                "a durable subscription of this client has this name", given=state.quality.durable, advice=advice
            )
        if state.pattern.isidentifier() and state.pattern not in definitions and not state.language:
            return self.to_type(state, operation)
        return self.to_pattern(state, definitions, operation)

    def request_all(
        self,
        states: Iterable[SubscriptionState],
        definitions: dict[str, str],
        errors: dict[str, DistcedError],
        operation: object,
    ) -> list[ClientEffect]:
        """Request several subscriptions; the operation is complete when each is, or has its error in `errors`."""
        bulk = _Bulk(operation, deque(states), definitions, errors)
        self._bulks.append(bulk)
        return self._continue(bulk)

    def _continue(self, bulk: _Bulk) -> list[ClientEffect]:
        effects: list[ClientEffect] = []
        while bulk.waiting and bulk.progressing < AT_ONCE:
            state = bulk.waiting.popleft()
            try:
                effects += self.request(state, bulk.definitions, bulk)
            except DistcedError as error:
                bulk.errors[state.id] = error
            else:
                bulk.progressing += 1
        if bulk.waiting or bulk.progressing:
            return effects
        self._bulks.remove(bulk)
        return [*effects, Done(bulk.operation)]

    def _done(self, course: Course, error: DistcedError | None = None) -> list[ClientEffect]:
        """Complete the application's operation, unless it is complete."""
        operation, course.operation = course.operation, None
        if not isinstance(operation, _Bulk):
            return [] if operation is None else [Done(operation, error)]
        if error is not None:
            operation.errors[course.state.id] = error
        operation.progressing -= 1
        return self._continue(operation)

    def to_type(self, state: SubscriptionState, operation: object) -> list[ClientEffect]:
        """Listen to the events of a type, from sources and from detectors."""
        name = state.pattern
        if state.quality.publish_json:
            raise SubscriptionError(
                "events of a type leave as JSON by a pattern only", given=name, advice=f"subscribe to [{name}]"
            )
        if state.quality.durable:
            raise SubscriptionError(
                "a durable subscription is one to a pattern", given=name, advice=f"subscribe to [{name}]"
            )
        if state.quality.since is not None:
            raise SubscriptionError(
                "recorded events come first for a pattern only", given=name, advice=f"subscribe to [{name}]"
            )
        state.type_name = name
        course = Course(state, operation)
        self._add(course)
        if self._directory.has_read(name):
            try:
                return self._listen_to_type(course)
            except DistcedError:
                self._drop(course)
                raise

        def known() -> list[ClientEffect]:
            if self._courses.get(state.id) is not course:
                return []
            self._answered_in_time(course)
            try:
                return self._listen_to_type(course)
            except DistcedError as error:
                return self._fail(course, error)

        def unread(now: int) -> list[ClientEffect]:
            return self._fail(course, self._directory.unread(name, self._server))

        timer = self._timers.set(self.patience, unread)
        course.answer_timer = timer.number
        return [timer, *self._directory.read(name, known)]

    def _add(self, course: Course) -> None:
        self._courses[course.state.id] = course
        if course.state.type_name:
            self._typed.setdefault(course.state.type_name, {})[course.state.id] = course

    def _listen_to_type(self, course: Course) -> list[ClientEffect]:
        """Listen to a type, whose publishers are known. Raises `TypeRegistryError` where there is none."""
        name, entries = course.state.type_name, self._directory.entries
        publishers = entries.publishers(name)
        if not publishers:
            self._directory.published_type(name)
        course.state.event_type = entries.types.get(name)
        places = [place for each in publishers for place in self._directory.places(each, entries.detectors[each])]
        if course.state.event_type is not None:
            places += self._directory.places_of_events(name)
        return self.places.attempt(course, places)

    def _type_changed(self, course: Course, event_type: EventType) -> list[ClientEffect]:
        """Take the attributes of a type that is registered, perhaps again, or of one published by detectors only."""
        state, before = course.state, course.state.event_type
        if event_type.derived is not None or event_type == before:
            return []
        state.event_type = event_type
        effects = self.places.listen(course, self._directory.places_of_events(event_type.name))
        if before is not None and before.attributes != event_type.attributes:
            kinds = ", ".join(f"{name}: {kind}" for name, kind in event_type.attributes.items())
            fields: dict[str, object] = {"subscription": state.id, "type": event_type.name, "attributes": kinds}
            effects.append(Note("warning", "type changed", fields))
        return effects

    def to_pattern(
        self, state: SubscriptionState, definitions: dict[str, str], operation: object
    ) -> list[ClientEffect]:
        """Request the detection of a pattern."""
        quality = state.quality
        entry = SubscriptionEntry(
            self._name,
            state.pattern,
            used_definitions(state.pattern, definitions),
            quality.consumption,
            quality.detection,
            quality.constituents,
            quality.decomposition or "",
            distribution=quality.distribution,
            hints=quality.hints,
            publish_json=quality.publish_json,
            quiet=METERED_WATERMARKS if self._directory.metered else 0,
            origin=None if quality.since is None else Origin(origin_at(quality.since, self._directory.now), state.id),
            language=state.language,
            query=state.query,
        )
        course = self._courses[state.id] = Course(state, operation)
        if quality.durable:
            return self._find_durable(course, entry)
        return [self._directory.put("subscription", state.id, entry), *self._await_answer(course)]

    # Durable subscriptions.

    def _find_durable(self, course: Course, entry: SubscriptionEntry) -> list[ClientEffect]:
        """Read whether a durable subscription is there, then resume it, or make it."""
        identity = course.state.id
        course.finds = True

        def known() -> list[ClientEffect]:
            if self._courses.get(identity) is not course:
                return []
            self._answered_in_time(course)
            course.finds = False
            try:
                return [*self._resume(course, entry), *self._await_answer(course)]
            except DistcedError as error:
                return self._fail(course, error)

        def unread(now: int) -> list[ClientEffect]:
            return self._fail(course, self._directory.unread(identity, self._server))

        timer = self._timers.set(self.patience, unread)
        course.answer_timer = timer.number
        return [timer, *self._directory.read_durable(identity, known)]

    def _resume(self, course: Course, entry: SubscriptionEntry) -> list[ClientEffect]:
        state, quality, entries = course.state, course.state.quality, self._directory.entries
        there, kept = entries.subscriptions.get(state.id), entries.durables.get(state.id)
        position = entries.positions.get(state.id)
        effects: list[ClientEffect] = []
        if there is not None:
            differs = list(differences(there, entry))
            if differs:
                raise SubscriptionError(
                    f"a durable subscription of this name is there, with another {differs[0][0]}",
                    given="; ".join(f"{name} {asked}" for name, asked, _ in differs),
                    allowed="; ".join(f"{name} {known}" for name, _, known in differs),
                    where=quality.durable,
                    advice="take another name, or end it with close(forget=True) or `distced subscriptions rm`",
                )
            course.resumes = True
            if position is not None and not position.ended:
                state.resume(position)
            else:
                state.begin_again(position, NO_POSITION if position is None else position.ended)
        elif kept is not None and kept.ended:
            state.begin_again(position, kept.reason)
            if position is not None:
                # For the next application, should this one not take the loss.
                effects.append(self._directory.put("position", state.id, replace(position, ended=kept.reason)))
            fields: dict[str, object] = {"subscription": state.id, "reason": kept.reason}
            effects.append(Note("warning", "durable subscription had ended", fields))
        terms = Durable(
            name=quality.durable,
            keep_for=int(quality.keep_for),
            keep_bytes=quality.keep_bytes,
            home=self._directory.home,
        )
        # One that is there waits for its types, as one that was forgotten by its server.
        entry = replace(entry, durable=terms, again=there is not None)
        return [*effects, self._directory.put("subscription", state.id, entry)]

    def taken(self, identity: str) -> list[ClientEffect]:
        """Publish the position of a durable subscription, in a moment."""
        course = self._courses.get(identity)
        if course is None or course.position_timer or course.operation is not None:
            return []
        timer = self._timers.set(POSITION_EVERY, lambda now: self._publish_position(course, now))
        course.position_timer = timer.number
        return [timer]

    def _publish_position(self, course: Course, now: int) -> list[ClientEffect]:
        course.position_timer = 0
        identity = course.state.id
        if self._courses.get(identity) is not course or self._reader(identity) != self._name:
            return []
        position = course.state.position(now)
        return [] if position is None else [self._directory.put("position", identity, position)]

    def _leave_durable(self, course: Course, *, forget: bool) -> list[ClientEffect]:
        """Leave a durable subscription to its nodes, or end it for good."""
        identity, directory = course.state.id, self._directory
        if forget:
            return [directory.clear(kind, identity) for kind in OF_DURABLE]
        entry = directory.own.get("subscription", {}).get(identity)
        position = course.state.position(directory.now, last=True) or directory.own.get("position", {}).get(identity)
        effects: list[ClientEffect] = [] if position is None else [directory.leave("position", identity, position)]
        if isinstance(entry, SubscriptionEntry) and entry.durable is not None:
            left = replace(entry.durable, away=max(directory.now, 1))
            effects.append(directory.leave("subscription", identity, replace(entry, durable=left)))
        return effects

    def forget(self, name: str) -> list[ClientEffect]:
        """End a durable subscription for good, by its name, whoever reads it."""
        identity = durable_id(name)
        course = self._courses.get(identity)
        if course is not None:
            return self.end(identity, forget=True)
        return [self._directory.clear(kind, identity) for kind in OF_DURABLE]

    def _reader(self, identity: str) -> str:
        """Client that reads a durable subscription, by the directory."""
        entry = self._directory.entries.subscriptions.get(identity)
        return self._name if entry is None else entry.client

    def _check_reader(self, course: Course) -> list[ClientEffect]:
        """End a durable subscription here, where another client reads it now."""
        client = self._reader(course.state.id)
        if client == self._name or self._courses.get(course.state.id) is not course:
            return []
        for kind in OF_DURABLE:
            self._directory.disown(kind, course.state.id)
        error = SubscriptionError(
            "another client goes on with this durable subscription",
            given=course.state.quality.durable,
            where=f"client {client}",
            advice="subscribe under another name where both are to read",
        )
        return self._fail(course, error)

    def stop(self) -> list[ClientEffect]:
        """End all subscriptions; the connections end, so that no topic need be left."""
        ended = self._unrequested(self.open)
        return [effect for each in ended for effect in self.end(each) if not isinstance(effect, Leave)]

    def end_all(self, identities: Iterable[str], operation: object, *, forget: bool = False) -> list[ClientEffect]:
        """End subscriptions, some at a time: a server with very many of them needs long for each."""
        return self._end_next(deque(self._unrequested(identities)), operation, forget)

    def _end_next(self, waiting: deque[str], operation: object, forget: bool) -> list[ClientEffect]:
        now = [waiting.popleft() for _ in range(min(AT_ONCE, len(waiting)))]
        effects = [effect for each in now for effect in self.end(each, forget=forget)]
        if not waiting:
            return effects if operation is None else [*effects, Done(operation)]
        return [*effects, self._timers.flush("", self.patience, lambda _: self._end_next(waiting, operation, forget))]

    def _unrequested(self, identities: Iterable[str]) -> Iterable[str]:
        """These subscriptions; those of a bulk whose turn has not come are not requested any more."""
        ended = dict.fromkeys(identities)
        for bulk in self._bulks:
            for state in bulk.waiting:
                if state.id in ended:
                    bulk.errors[state.id] = SubscriptionError("the subscription was ended", given=state.id)
            bulk.waiting = deque(state for state in bulk.waiting if state.id not in ended)
        return ended

    def end(self, identity: str, *, forget: bool = False) -> list[ClientEffect]:
        """End a subscription, unless it has ended; a durable one stays with its nodes, unless they `forget` it."""
        course = self._courses.get(identity)
        if course is None:
            return []
        effects = self._drop(course)
        if course.state.quality.durable:
            effects += self._leave_durable(course, forget=forget)
        elif not course.state.type_name:
            effects.append(self._directory.clear("subscription", identity))
        return effects + self._done(course, SubscriptionError("the subscription was ended", given=identity))

    # Answers of nodes, and the directory.

    def answered(self, topic: str, payload: bytes) -> list[ClientEffect]:
        """Take answers of a broker node."""
        answers = decode(payload, Answers, where=topic).answers
        return [effect for answer in answers for effect in self._answered(answer)]

    def _answered(self, answer: Answer) -> list[ClientEffect]:
        asked = self._courses.get(answer.subscription)
        if asked is not None and not asked.state.detector:
            # The first answer to a request since, so it was read.
            self._unread = ""
        if answer.state == "refused":
            names = (answer.subscription, *answer.others)
            if not answer.subscription:
                self._unread = answer.message
                names = tuple(self._unanswered_patterns())
            return [effect for name in names for effect in self._refused(name, answer)]
        course = self._courses.get(answer.subscription)
        if course is None:
            return []
        match answer.state:
            case "waiting":
                error = SubscriptionError(answer.message, where=f"node {answer.node}")
                if course.operation is not None:
                    return self._give_back(course, error)
                return self._waits(course, answer.message)
            case "offered":
                return self._accept(course, answer)
            case "active" if _elsewhere(course.state, answer):
                # Its offer was overtaken by that of a node that has given the detector up.
                return self._accept(course, answer)
            case "active":
                course.state.node = intern(answer.node)
                course.state.begun(answer.homes[0], answer.life, answer.number, answer.watermark)
                resumes = course.state.quality.durable and course.operation is not None
                positions = self.missing.detector_position(course) if resumes else []
                if course.attempt is None:
                    return [*positions, *self._activate(course)]
                course.attempt.activated = True
                return positions
        return []

    def _unanswered_patterns(self) -> Iterator[str]:
        """Subscriptions to a pattern that await their first answer."""
        for identity, course in self._courses.items():
            if course.operation is not None and not course.state.type_name and not course.state.detector:
                yield identity

    def _refused(self, identity: str, answer: Answer) -> list[ClientEffect]:
        course = self._courses.get(identity)
        if course is None:
            return []
        if course.state.quality.durable and (course.resumes or course.operation is None):
            # It was there before, with what is kept for it.
            error = SubscriptionError(answer.message, where=f"node {answer.node}")
            return [*self._leave_durable(course, forget=False), *self._fail(course, error)]
        clear = self._directory.clear("subscription", identity)
        # What is refused for a limit is cleared by the node, if it has read it.
        cleared = [] if answer.limited and answer.subscription else [clear]
        error = SubscriptionError(answer.message, where=f"node {answer.node}")
        if answer.limited and isinstance(course.operation, _Bulk):
            # The rest would be refused, too.
            course.operation.errors |= {state.id: error for state in course.operation.waiting}
            course.operation.waiting.clear()
        return [*cleared, *self._fail(course, error)]

    def progressed(self, payload: bytes, topic: str) -> list[ClientEffect]:
        """Take the watermark of several subscriptions."""
        progress = decode(payload, Progress, where=topic)
        unknown = repeat((0, 0))
        effects: list[ClientEffect] = []
        for name, position in zip(progress.names(self._name), chain(progress.positions, unknown), strict=False):
            course = self._courses.get(name)
            if course is not None:
                course.state.progress(progress.watermark, *position)
                effects += self.missing.look(name)
        return effects

    def listening_at(self, home: str) -> list[Subscribe]:
        """Subscriptions to the watermarks of many subscriptions, and to missing messages, at the server of a home."""
        again = area_filter(Area.ADMINISTRATION, "again", self._name, root=self._root)
        lost = area_filter(Area.ADMINISTRATION, "lost", self._name, root=self._root)
        return [Subscribe(each, home=home) for each in (self.progress_topic, again, lost)]

    def changed(self, change: Change) -> list[ClientEffect]:
        """Take a change of the directory: other publishers of a type, or that a subscription was cleared."""
        entry = change.entry
        effects = self._publishers_changed(change)
        if entry is None:
            if change.kind == "detector" and change.before is not None and change.before.publishes in self._typed:
                look = partial(self._look_for_detector, change.name, change.before.publishes)
                effects.append(self._timers.set(GONE_AFTER, look))
            course = self._courses.get(change.name) if change.kind == "subscription" else None
            if course is not None and (course.finds or self._directory.keeps("subscription", change.name)):
                # Of an earlier one of the name, or published again.
                course = None
            error = SubscriptionError("the subscription was cleared from the directory", given=change.name)
            return effects if course is None else [*effects, *self._fail(course, error)]
        if change.kind == "subscription" and entry.client != self._name:
            read = self._courses.get(change.name)
            if read is None or read.finds:
                return []
            # Of two at once the entry that stays counts.
            return [self._timers.set(ASK_AFTER, lambda now: self._check_reader(read))]
        if change.kind == "detector" and entry.publishes:
            for course in self._of_type({entry.publishes}):
                effects += self.places.listen(course, self._directory.places(change.name, entry))
                effects += self.missing.follow(course, change.name)
        elif change.kind == "type":
            for course in self._of_type({change.name}):
                effects += self._type_changed(course, entry)
        elif change.kind == "source":
            for course in self._of_type(entry.types):
                if course.state.event_type is not None:
                    place = self._directory.events_at(entry.home, course.state.type_name)
                    effects += self.places.listen(course, [place])
                    begins = entry.first > 0 and not entry.resumed
                    if change.before is None and begins and course.operation is None:
                        topic = event_topic(course.state.type_name, change.name, root=self._root)
                        course.state.expect(topic, entry.first)
                    effects.append(self.missing.source_announced(course, change.name, entry))
        return effects

    def _look_for_detector(self, detector: str, name: str, now: int) -> list[ClientEffect]:
        """Follow a detector that has ended no longer, unless another host has taken it over meanwhile."""
        if detector in self._directory.entries.detectors:
            return []
        return [DetectorEnded(course.state.id, detector) for course in self._of_type({name})]

    def _publishers_changed(self, change: Change) -> list[ClientEffect]:
        """Check later whether a subscribed type has a publisher: detectors return after a take-over."""
        if change.kind not in ("detector", "type"):
            return []
        entries = [each for each in (change.before, change.entry) if each is not None]
        names = {change.name} if change.kind == "type" else {each.publishes for each in entries}
        return [
            self._timers.set(GONE_AFTER, partial(self._look_for, name))
            for name in sorted(names & self._typed.keys())
            if bool(self._directory.why_unpublished(name))
            != any(each.state.waits for each in self._typed[name].values())
        ]

    def _look_for(self, name: str, now: int) -> list[ClientEffect]:
        reason = self._directory.why_unpublished(name)
        return [effect for course in self._of_type({name}) for effect in self._waits(course, reason)]

    def _waits(self, course: Course, reason: str) -> list[ClientEffect]:
        """Notify the application of a suspension with its reason, or of the resumption."""
        state = course.state
        if course.operation is not None or state.waits == reason:
            return []
        state.statistics.waits += not state.waits
        state.waits = reason
        fields: dict[str, object] = {"subscription": state.id, "pattern": state.pattern}
        note = Note("info", "subscription resumed", fields)
        if reason:
            note = Note("warning", "subscription suspended", {**fields, "reason": reason})
        return [note, Waits(state.id, reason)]

    # Servers.

    def connected(self, home: str) -> list[ClientEffect]:
        """Take a new connection; messages may be missing that were published without it."""
        typed = [course for courses in self._typed.values() for course in courses.values()]
        interrupted = self.missing.interrupted(typed, home) if home in self._linked else []
        self._linked.add(home)
        return [
            *interrupted,
            *self.places.connected(self._courses.values(), home),
            *self.missing.connected(home),
            *self.missing.positions(typed, home),
        ]

    def lost(self, home: str, reason: BusError) -> list[ClientEffect]:
        """Take the loss of a connection; messages published meanwhile are lost, which is logged once."""
        return self.places.lost(self._courses.values(), home, reason)

    # From an offer to an active detector.

    def _accept(self, course: Course, offer: Answer) -> list[ClientEffect]:
        """Listen to the detector that is offered; being ready follows."""
        state = course.state
        if course.attempt is not None and not _elsewhere(state, offer):
            # An offer is repeated until it is taken.
            return []
        homes = self._homes.setdefault(offer.homes, offer.homes)
        state.detector, state.node = offer.detector, intern(offer.node)
        state.located(homes)
        self._answered_in_time(course)
        others = [home for home in homes if home not in self._progress_homes]
        self._progress_homes.update(others)
        listening = [each for home in others for each in self.listening_at(home)]
        return [*listening, *self.places.attempt(course, self._offered(state))]

    def _listened(self, course: Course, attempt: Attempt) -> list[ClientEffect]:
        """Continue when the servers have confirmed, or cannot."""
        missing = {place.home: error for place, error in attempt.missing.items()}
        if missing and ("" in missing or len(missing) == len({place.home for place in attempt.places})):
            return self._not_listened(course, missing)
        effects: list[ClientEffect] = [missing_note(course, *each) for each in missing.items()]
        if course.state.type_name:
            return [*effects, *self._declare(course)]
        effects += self._ready(course, READY_AGAIN[0])
        if attempt.activated:
            return effects + self._activate(course)
        return effects + (self._await_answer(course) if course.operation is not None else [])

    def _declare(self, course: Course) -> list[ClientEffect]:
        """Declare that a type is read, and continue when no source leaves out its events any more."""
        state = course.state

        def sent() -> list[ClientEffect]:
            return [*self.missing.positions([course]), *self._complete(course)]

        effects = self._filters.reading(state.id, state.type_name, self._directory.now, sent)
        if not self._filters.waits_for(state.id) or course.operation is None:
            return effects
        self._answered_in_time(course)
        timer = self._timers.set(self.patience, lambda now: self._undeclared(course))
        course.answer_timer = timer.number
        return [*effects, timer]

    def _undeclared(self, course: Course) -> list[ClientEffect]:
        error = SubscriptionError(
            "publishers that leave out what nobody reads have not acknowledged a subscription",
            given=", ".join(self._filters.waits_for(course.state.id)),
            where=self._server,
            advice="look whether they run and reach this server; a dead one leaves the directory after a while",
        )
        return self._give_back(course, error)

    def _ready(self, course: Course, again: int) -> list[ClientEffect]:
        """Publish that the client listens, again after an interval, ns."""
        timer = self._timers.set(again, lambda now: self._ready(course, min(2 * again, READY_AGAIN[1])))
        course.ready_timer = timer.number
        self._ready_soon.append(course.state.id)
        if not self.places.attempts:
            return [*self._all_ready(), timer]
        if len(self._ready_soon) > 1:
            return [timer]
        return [timer, self._timers.set(TOGETHER, lambda now: self._all_ready())]

    def _all_ready(self) -> list[ClientEffect]:
        listening = tuple(each for each in self._ready_soon if each in self._courses)
        self._ready_soon.clear()
        if not listening:
            return []
        return [Publish(administration_topic("ready", self._name, root=self._root), encode(Listening(listening)))]

    def _not_listened(self, course: Course, missing: dict[str, BusError]) -> list[ClientEffect]:
        home, reason = next(iter(missing.items()))
        error: DistcedError = missing.get("") or SubscriptionError(
            "none of the servers where it is published can be listened to",
            given=", ".join(missing),
            where=home,
            advice=str(reason),
        )
        if course.operation is not None:
            return self._give_back(course, error)
        # The offer is repeated until it is taken.
        fields: dict[str, object] = {"subscription": course.state.id, "node": course.state.node, "reason": str(error)}
        return [Note("warning", "offer deferred", fields)]

    def _await_answer(self, course: Course) -> list[ClientEffect]:
        self._answered_in_time(course)
        timer = self._timers.set(self.patience, lambda now: self._unanswered(course))
        course.answer_timer = timer.number
        return [timer]

    def _answered_in_time(self, course: Course) -> None:
        self._timers.cancel(course.answer_timer)
        course.answer_timer = 0

    def _unanswered(self, course: Course) -> list[ClientEffect]:
        if self._unread:
            return self._give_back(course, SubscriptionError(self._unread, where=self._server))
        nodes = len(self._directory.entries.nodes)
        error = SubscriptionError(
            "no broker node has answered",
            given=f"after {self.patience / SECOND} s",
            allowed=f"{nodes} nodes are known",
            where=self._server,
            advice="look at the log of the nodes" if nodes else "start one with `distced broker`",
        )
        return self._give_back(course, error)

    def _activate(self, course: Course) -> list[ClientEffect]:
        """Complete the subscription, and leave the places of earlier detectors in a while."""
        self.places.ready_no_more(course)
        effects = [*self._complete(course), *self._waits(course, ""), *self.missing.look(course.state.id)]
        if self._besides(course.state):
            effects.append(self._timers.set(LINGER, lambda now: self._leave_others(course)))
        return effects

    def _complete(self, course: Course) -> list[ClientEffect]:
        self._answered_in_time(course)
        if not course.state.quality.durable or course.operation is None:
            return self._done(course)
        operation, course.operation = course.operation, None
        effects = self._publish_position(course, self._directory.now)
        course.operation = operation
        return effects + self._done(course)

    # The end.

    def _give_back(self, course: Course, error: DistcedError) -> list[ClientEffect]:
        """End a subscription that has not come about."""
        if course.resumes:
            # It was there before.
            return [*self._leave_durable(course, forget=False), *self._fail(course, error)]
        cleared = [] if course.state.type_name else [self._directory.clear("subscription", course.state.id)]
        return [*cleared, *self._fail(course, error)]

    def _fail(self, course: Course, error: DistcedError) -> list[ClientEffect]:
        effects = self._drop(course)
        if course.operation is not None:
            return effects + self._done(course, error)
        note = Note("warning", "subscription ended", {"subscription": course.state.id, "reason": str(error)})
        return [*effects, note, Ended(course.state.id, error)]

    def _drop(self, course: Course) -> list[ClientEffect]:
        del self._courses[course.state.id]
        if course.state.type_name:
            self._filters.read_no_more(course.state.id, self._directory.now)
            typed = self._typed[course.state.type_name]
            del typed[course.state.id]
            if not typed:
                del self._typed[course.state.type_name]
        self.places.give_up(course)
        self._answered_in_time(course)
        self._timers.cancel(course.position_timer)
        return self.places.leave(course, list(course.state.places))

    def _leave_others(self, course: Course) -> list[ClientEffect]:
        state = course.state
        if any(state.places.get(place) for place in self._offered(state)):
            besides = self._besides(state)
            left = [LeftHome(state.id, each) for each in sorted({place.home for place in besides})]
            return [*self.places.leave(course, besides), *left]
        return []

    def _offered(self, state: SubscriptionState) -> list[Place]:
        topic = composite_topic(state.detector, root=self._root)
        return [Place(home, topic) for home in state.homes]

    def _besides(self, state: SubscriptionState) -> list[Place]:
        offered = self._offered(state)
        return [place for place in state.places if place not in offered]

    def _of_type(self, names: Iterable[str]) -> Iterator[Course]:
        return (course for name in names for course in list(self._typed.get(name, {}).values()))


def _elsewhere(state: SubscriptionState, answer: Answer) -> bool:
    """Whether a detector is active elsewhere than where a subscription listens."""
    return (answer.detector, set(answer.homes)) != (state.detector, set(state.homes))

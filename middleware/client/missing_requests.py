"""Requests of a client's subscriptions for missing messages, and for the positions of the streams that they read.

A subscription knows from the numbers of a stream which messages are missing (`subscription_state`); their publisher, a
client or the host of a detector, sends them again, or says that they are not available. Where a subscription begins in
the middle of a stream, and after each new connection, it requests the position of the stream, as no later message may
show that one is missing (`middleware.wire.numbered_stream`).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final, TypeAlias

from distced.middleware.client.client_effects import ClientEffect, NotAvailable, Redelivered, SessionTimers
from distced.middleware.client.directory_session import DirectorySession
from distced.middleware.client.listening import Course
from distced.middleware.model.detection import GUARANTEED
from distced.middleware.wire.administration import Missing, MissingMessages, Unavailable, read_unavailable
from distced.middleware.wire.codec import encode
from distced.middleware.wire.directory_entries import SourceEntry
from distced.middleware.wire.frames import decode as decode_frame
from distced.middleware.wire.mqtt_effects import Publish
from distced.middleware.wire.numbered_stream import ASK_AFTER, ASK_AGAIN
from distced.middleware.wire.topics import administration_topic, composite_topic, event_topic

AT_ONCE: Final = 200
"""Number of streams or messages requested by one message."""

_INTERRUPTED: Final = "the client had no connection, and messages without numbers may be missing"

Asked: TypeAlias = dict[tuple[str, str], dict[MissingMessages, None]]
"""Requests by home and publisher; that of detectors is empty."""


class MissingRequests:
    """Requests for the missing messages of a client's subscriptions."""

    def __init__(
        self, name: str, root: str, directory: DirectorySession, timers: SessionTimers, courses: dict[str, Course]
    ) -> None:
        """Args: courses: all subscriptions of the client, by id."""
        self._name = name
        self._root = root
        self._directory = directory
        self._timers = timers
        self._courses = courses
        # Subscriptions with missing messages, and whether a timer for their requests is set.
        self._incomplete: dict[str, None] = {}
        self._asking = False
        # Those that have asked for messages, by the source or detector.
        self._asked: dict[str, dict[str, None]] = {}

    def incomplete(self, identity: str, now: int) -> list[ClientEffect]:
        """Request the missing messages of a subscription, until it is complete."""
        if identity not in self._courses:
            return []
        self._incomplete[identity] = None
        if self._asking:
            return []
        self._asking = True
        return self._request_due(now)

    def look(self, identity: str) -> list[ClientEffect]:
        """Request what is missing of a subscription, in a moment, as a position without a message has shown it."""
        course = self._courses.get(identity)
        if course is None or course.state.complete:
            return []
        self._incomplete[identity] = None
        if self._asking:
            return []
        self._asking = True
        return [self._timers.set(ASK_AFTER, self._request_due)]

    def _request_due(self, now: int) -> list[ClientEffect]:
        """Request what is due, and look again in a while."""
        found: Asked = {}
        effects: list[ClientEffect] = []
        for identity in list(self._incomplete):
            course = self._courses.get(identity)
            missing = None if course is None else course.state.due(now)
            if missing is None:
                del self._incomplete[identity]
                continue
            for home, messages in missing.items():
                for each in messages:
                    if each.kind == "c":
                        found.setdefault((home, ""), {})[each] = None
                        self._asked.setdefault(each.source, {})[identity] = None
                    else:
                        effects += self._of_source(identity, each, found)
        effects += self._all_requests(found)
        self._asking = bool(self._incomplete)
        return [*effects, self._timers.set(ASK_AFTER, self._request_due)] if self._asking else effects

    def _of_source(self, identity: str, missing: MissingMessages, found: Asked) -> list[ClientEffect]:
        """Have messages of a source requested from its publisher, unless it has begun again behind them."""
        entry = self._directory.entries.sources.get(missing.source)
        if entry is None:
            reason = "the source has ended, and its last messages are missing"
        elif entry.first > missing.begin:
            reason = "its publisher has begun again"
        else:
            found.setdefault((entry.home, entry.publisher), {})[missing] = None
            self._asked.setdefault(missing.source, {})[identity] = None
            return []
        before = missing.begin if missing.end is None else missing.end
        life = 0 if entry is None else entry.first
        lost = Unavailable("e", missing.source, before, type=missing.type, reason=reason, life=life)
        return [NotAvailable(identity, "", lost)]

    def redelivered(self, kind: str, source: str, payload: bytes, home: str) -> list[ClientEffect]:
        """Take a message that was missing."""
        topic = composite_topic(source, root=self._root)
        if kind == "e":
            topic = event_topic(decode_frame(payload, where=source).type, source, root=self._root)
        return [Redelivered(identity, home, topic, payload) for identity in self._readers(kind, source)]

    def not_available(self, kind: str, source: str, payload: bytes, home: str) -> list[ClientEffect]:
        """Take the answer about messages that are missing."""
        lost = read_unavailable(kind, source, payload)
        return [NotAvailable(identity, home, lost) for identity in self._readers(lost.kind, lost.source)]

    def _readers(self, kind: str, source: str) -> list[str]:
        """Subscriptions that have asked for messages of a source or a detector."""
        asked = self._asked.get(source, {})
        for identity in [each for each in asked if each not in self._courses]:
            del asked[identity]
        states = {identity: self._courses[identity].state for identity in asked}
        return [
            identity
            for identity, each in states.items()
            if (each.reads(source) if kind == "c" else bool(each.type_name))
        ]

    # Positions.

    def connected(self, home: str) -> list[ClientEffect]:
        """Request the positions of detectors at a home with a new connection, as messages may have been published
        without it."""
        again = {
            identity: course.state.detector
            for identity, course in self._courses.items()
            if course.state.detector and home in course.state.homes
        }
        for identity, detector in again.items():
            self._asked.setdefault(detector, {})[identity] = None
        asked = {MissingMessages("c", detector, 0, 0): None for detector in again.values()}
        return self._requests(home, ("detector",), asked)

    def detector_position(self, course: Course) -> list[ClientEffect]:
        """Request the position of the detector of a subscription, which has come on while that was away."""
        detector = course.state.detector
        self._asked.setdefault(detector, {})[course.state.id] = None
        position = MissingMessages("c", detector, 0, 0)
        return [effect for home in course.state.homes for effect in self._requests(home, ("detector",), [position])]

    def source_announced(self, course: Course, source: str, entry: SourceEntry) -> ClientEffect:
        """Request the position of a source that has been announced, once its first messages may have come."""
        asked: Asked = {}
        self._ask_source(course, source, entry, asked)
        return self._timers.set(ASK_AGAIN, lambda now: self._all_requests(asked))

    def positions(self, courses: Iterable[Course], home: str | None = None) -> list[ClientEffect]:
        """Request the positions of what subscriptions to a type read, at a home, or at all: messages may be missing
        without a later one that shows it."""
        asked: Asked = {}
        types: dict[str, list[Course]] = {}
        for course in courses:
            types.setdefault(course.state.type_name, []).append(course)
        effects: list[ClientEffect] = []
        for name, reading in types.items():
            for detector in self._directory.entries.publishers(name):
                for course in reading:
                    # One that is new is asked anyway.
                    if course.state.reads(detector):
                        self._ask_detector(course, detector, home, asked)
                    effects += self.follow(course, detector)
            if all(course.state.event_type is None for course in reading):
                continue
            for source, entry in self._directory.entries.sources.items():
                if name in entry.types and home in (None, entry.home):
                    for course in reading:
                        self._ask_source(course, source, entry, asked)
        return [*effects, *self._all_requests(asked)]

    def follow(self, course: Course, detector: str) -> list[ClientEffect]:
        """Follow the stream of a detector that publishes the type of a subscription."""
        entry = self._directory.entries.detectors.get(detector)
        if entry is None:
            return []
        homes = [place.home for place in self._directory.places(detector, entry)]
        course.state.follow(detector, homes, exact=entry.policy == GUARANTEED)
        self._asked.setdefault(detector, {})[course.state.id] = None
        return self.look(course.state.id)

    def _ask_detector(
        self,
        course: Course,
        detector: str,
        home: str | None,
        asked: Asked,
    ) -> None:
        for place in self._directory.places(detector, self._directory.entries.detectors[detector]):
            if home in (None, place.home):
                asked.setdefault((place.home, ""), {})[MissingMessages("c", detector, 0, 0)] = None
                self._asked.setdefault(detector, {})[course.state.id] = None

    def _ask_source(
        self,
        course: Course,
        source: str,
        entry: SourceEntry,
        asked: Asked,
    ) -> None:
        if entry.first:
            position = MissingMessages("e", source, 0, 0, type=course.state.type_name)
            asked.setdefault((entry.home, entry.publisher), {})[position] = None
            self._asked.setdefault(source, {})[course.state.id] = None

    def _all_requests(self, asked: Asked) -> list[ClientEffect]:
        return [
            effect
            for (home, publisher), messages in asked.items()
            for effect in self._requests(home, ("source", publisher) if publisher else ("detector",), messages)
        ]

    def _requests(self, home: str, levels: tuple[str, ...], asked: Iterable[MissingMessages]) -> list[ClientEffect]:
        """Requests for messages at a home."""
        topic = administration_topic("missing", *levels, root=self._root)
        waiting, effects = iter(asked), list[ClientEffect]()
        while batch := tuple(islice(waiting, AT_ONCE)):
            effects.append(Publish(topic, encode(Missing(self._name, batch)), home=home))
        return effects

    def interrupted(self, courses: Iterable[Course], home: str) -> list[ClientEffect]:
        """Losses of subscriptions to a type: messages without numbers, published at a home without the connection."""
        foreign = {
            name
            for each in self._directory.entries.sources.values()
            if each.home == home and not each.first
            for name in each.types
        }
        return [
            NotAvailable(
                course.state.id, home, Unavailable("e", "", 0, type=course.state.type_name, reason=_INTERRUPTED)
            )
            for course in courses
            if course.operation is None and (home in course.state.foreign or course.state.type_name in foreign)
        ]

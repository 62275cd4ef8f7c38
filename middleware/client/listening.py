"""Listening of a client: the places where its subscriptions listen, and attempts until servers have confirmed them.

A subscription is ready when the servers have confirmed that it listens. A server that cannot be reached is waited for
no longer than the others take, and listened to as soon as it can be. What follows is decided by
`subscription_session`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count

from distced.middleware.client.client_effects import ClientEffect, Leave, Listen, SessionTimers
from distced.middleware.client.subscription_state import Place, SubscriptionState
from distced.middleware.model.errors import BusError
from distced.middleware.wire.mqtt_effects import Note


@dataclass(slots=True)
class Attempt:
    """Attempt to listen at places, complete when each is confirmed or known to be out of reach.

    Attributes:
        missing: the reason for each place that is out of reach.
        timer: ends it.
        activated: the node has said meanwhile that the detector is active.
    """

    places: tuple[Place, ...]
    timer: int = 0
    missing: dict[Place, BusError] = field(default_factory=dict)
    activated: bool = False


@dataclass(slots=True)
class Course:
    """Course of one subscription.

    Attributes:
        operation: the application's, or the bulk it is in; None once the subscription is complete.
        answer_timer: ends the wait for an answer of a node, while opening; else 0.
        ready_timer: repeats that the client is ready; 0 for none.
        lost: servers that are listened to and were lost.
        position_timer: publishes the position of a durable subscription; 0 for none.
        finds: whether it is not known yet whether a durable subscription is there.
        resumes: whether one was there.
    """

    state: SubscriptionState
    operation: object | None
    attempt: Attempt | None = None
    answer_timer: int = 0
    ready_timer: int = 0
    lost: frozenset[str] = frozenset()
    position_timer: int = 0
    finds: bool = False
    resumes: bool = False


class ListeningPlaces:
    """Places of all subscriptions of a client.

    Attributes:
        attempts: number of attempts that are not complete.
    """

    def __init__(
        self,
        server: str,
        patience: int,
        timers: SessionTimers,
        listened: Callable[[Course, Attempt], list[ClientEffect]],
    ) -> None:
        """Args: patience: for confirmations of servers, ns; listened: continues a course whose attempt is complete."""
        self.attempts = 0
        self._server = server
        self._patience = patience
        self._timers = timers
        self._listened = listened
        # Why there is no connection, of homes where connecting has failed since it stood last.
        self._unreachable: dict[str, BusError] = {}
        self._numbers = count(1)
        # Requests to listen that the driver has not reported on.
        self._unconfirmed: dict[int, tuple[Course, Place]] = {}

    def listen(self, course: Course, places: Iterable[Place]) -> list[ClientEffect]:
        """Listen at further places."""
        effects: list[ClientEffect] = []
        for place in places:
            if place not in course.state.places:
                course.state.add_place(place)
                number = next(self._numbers)
                self._unconfirmed[number] = course, place
                effects.append(Listen(course.state.id, place.home, place.filter, number))
        return effects

    def leave(self, course: Course, places: Iterable[Place]) -> list[ClientEffect]:
        """Leave places."""
        effects: list[ClientEffect] = []
        for place in places:
            course.state.remove_place(place)
            effects.append(Leave(course.state.id, place.home, place.filter))
        return effects

    # Attempts.

    def attempt(self, course: Course, places: Iterable[Place]) -> list[ClientEffect]:
        """Listen at places and continue when that is settled; an attempt for an earlier offer is given up."""
        self.give_up(course)
        attempt = course.attempt = Attempt(tuple(places))
        self.attempts += 1
        effects = self.listen(course, attempt.places)
        settled = self._settle(course)
        if course.attempt is attempt:
            timer = self._timers.set(self._patience, lambda now: self._settle(course, late=True))
            attempt.timer = timer.number
            effects.append(timer)
        return effects + settled

    def give_up(self, course: Course) -> None:
        """Give up an attempt, and being ready."""
        self.ready_no_more(course)
        if course.attempt is not None:
            self._timers.cancel(course.attempt.timer)
            course.attempt = None
            self.attempts -= 1

    def ready_no_more(self, course: Course) -> None:
        """No longer repeat that the client is ready."""
        self._timers.cancel(course.ready_timer)
        course.ready_timer = 0

    def _settle(self, course: Course, *, late: bool = False) -> list[ClientEffect]:
        """Complete the attempt, if nothing of it is open any more, or it is late."""
        attempt, state = course.attempt, course.state
        if attempt is None:
            return []
        for place in attempt.places:
            if state.places.get(place):
                attempt.missing.pop(place, None)
            elif place not in attempt.missing:
                # The server of the directory is waited for: without it nothing goes on.
                reason = self._unreachable.get(place.home) if place.home else None
                if reason is None and not late:
                    return []
                attempt.missing[place] = reason or BusError(
                    "the server has not confirmed a subscription", given=place.filter, where=place.home or self._server
                )
        self.give_up(course)
        return self._listened(course, attempt)

    # Servers.

    def confirmed(self, number: int) -> list[ClientEffect]:
        """Take a server's confirmation of a `Listen`."""
        course, place = self._unconfirmed.pop(number, (None, Place("", "")))
        if course is None or place not in course.state.places:
            return []
        course.state.confirm_place(place)
        return self._settle(course)

    def refused(self, number: int, error: BusError, *, kept: bool) -> list[ClientEffect]:
        """Take the refusal of a `Listen`; `kept` where the driver asks for it again on the next connection."""
        course, place = self._unconfirmed.pop(number, (None, Place("", "")))
        if course is None or place not in course.state.places:
            return []
        if not kept:
            course.state.remove_place(place)
        if course.attempt is not None and place in course.attempt.places:
            course.attempt.missing[place] = error
            return self._settle(course)
        return [missing_note(course, place.home, error)]

    def connected(self, courses: Iterable[Course], home: str) -> list[ClientEffect]:
        """Take a new connection to a home of these courses."""
        self._unreachable.pop(home, None)
        effects: list[ClientEffect] = []
        for course in courses:
            if home in course.lost:
                course.lost -= {home}
                effects.append(Note("info", "connection restored", _fields(course, home)))
        return effects

    def lost(self, courses: Iterable[Course], home: str, reason: BusError) -> list[ClientEffect]:
        """Take the loss of a connection; messages published meanwhile are lost, which is logged once."""
        self._unreachable[home] = reason
        effects: list[ClientEffect] = []
        for course in list(courses):
            listens = not home or home in {place.home for place in course.state.places}
            if listens and course.operation is None and home not in course.lost:
                course.lost |= {home}
                effects.append(Note("warning", "connection lost", {**_fields(course, home), "reason": str(reason)}))
            effects += self._settle(course)
        return effects


def missing_note(course: Course, home: str, reason: BusError) -> Note:
    """Note of a home that cannot be listened to for now."""
    return Note("warning", "listening deferred", {**_fields(course, home), "reason": str(reason)})


def _fields(course: Course, home: str) -> dict[str, object]:
    return {"subscription": course.state.id, **({"home": home} if home else {})}

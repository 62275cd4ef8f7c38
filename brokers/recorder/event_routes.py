"""What the topics of events lead to: the type that events on them have to have, and what of a frame can be used."""

from __future__ import annotations

from typing import Final

import msgspec

from distced.brokers.core.dead_letters import DeadLetters
from distced.brokers.core.directory import Directory
from distced.brokers.core.effects import Effect
from distced.brokers.core.topic_routes import Fits, fitting, what_is_wrong
from distced.middleware.model.event_types import EventType
from distced.middleware.model.events import Event
from distced.middleware.wire.frames import Frame
from distced.middleware.wire.topics import Area

ROUTES: Final = 100_000
"""How many topics are remembered."""


class Route(msgspec.Struct, frozen=True):
    """What a topic of events leads to.

    Attributes:
        type_name: the type that events on it have to have.
        source: who publishes on it, as the topic says.
        kind: "e" for primitive events, "c" for composite ones.
        type: the type itself; None where events on this topic cannot be used, and `problem` says why.
        fits: the quick test of their attributes.
    """

    type_name: str
    source: str
    kind: str
    type: EventType | None
    problem: str
    fits: Fits

    def usable(
        self, frame: Frame, topic: str, payload: bytes, dead_letters: DeadLetters
    ) -> tuple[list[Event] | None, list[Effect]]:
        """The events of a frame that can be used, None where the frame is none of this topic; and dead letters."""
        effects: list[Effect] = [dead_letters.row(each, topic) for each in frame.rejected]
        if self.type is None:
            effects += [dead_letters.event("unknown-type", self.problem, each, topic) for each in frame.events]
            return None, effects
        if frame.type != self.type_name or frame.kind != self.kind:
            carried = "composite" if frame.kind == "c" else "primitive"
            problem = f"a frame of {carried} events {frame.type!r} on the topic of {self.type_name!r}"
            return None, [*effects, dead_letters.message("malformed", problem, topic, payload)]
        usable: list[Event] = []
        for event in frame.events:
            if self.fits(event.attributes):
                usable.append(event)
            else:
                problem = what_is_wrong(event, self.type, topic)
                effects.append(dead_letters.event("mistyped", problem, event, topic))
        return usable, effects


class Routes:
    """The topics of events.

    Attributes:
        names: of the detectors that are listened to, the types they publish.
    """

    def __init__(self, directory: Directory) -> None:
        self.names: dict[str, str] = {}
        self._directory = directory
        self._found: dict[str, Route] = {}

    def known(self, topic: str) -> Route | None:
        """What a topic was found to lead to before; None where nothing was."""
        return self._found.get(topic)

    def find(self, topic: str, area: Area, levels: tuple[str, ...]) -> Route:
        """What a topic leads to."""
        made = self._primitive(*levels) if area is Area.EVENTS else self._composite(*levels)
        if made.type is not None and len(self._found) < ROUTES:
            self._found[topic] = made
        return made

    def forget(self) -> None:
        """A type or a detector has changed."""
        self._found.clear()

    def _composite(self, detector: str) -> Route:
        name = self.names.get(detector, "")
        problem = f"no detector {detector!r} is known"
        return Route(name, detector, "c", EventType(name, {}) if name else None, problem, _anything)

    def _primitive(self, name: str, source: str) -> Route:
        known = self._directory.types.get(name)
        if known is None:
            return Route(name, source, "e", None, f"no event type {name!r} is registered", _anything)
        if known.derived is not None:
            problem = f"the type {name!r} is derived: events of {known.derived.base!r} are published"
            return Route(name, source, "e", None, problem, _anything)
        return Route(name, source, "e", known, "", fitting(known))


def _anything(attributes: object) -> bool:
    return True

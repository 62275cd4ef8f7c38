"""Routes of event topics: the type of the events on a topic, its readers, and the checks of frames against it."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import Any, Final

from distced.brokers.core.dead_letters import DeadLetters
from distced.brokers.core.directory import Directory
from distced.brokers.core.effects import Effect
from distced.middleware.model.errors import EventError
from distced.middleware.model.event_types import EventType
from distced.middleware.model.events import Event
from distced.middleware.wire.frames import Frame, is_json
from distced.middleware.wire.topics import Area

ROUTES: Final = 100_000
"""Topics remembered."""

_NUMBER = (int, float, type(None))
_STRING = (str, type(None))
_BOOLEAN = (bool, type(None))
_MISSING: Final = object()
_CLASSES = {"number": _NUMBER, "string": _STRING, "boolean": _BOOLEAN}

Fitting = Callable[[list[Event]], list[Event]]
"""Quick test of attributes: the events of a type among some."""


@dataclass(slots=True)
class TopicRoute:
    """Route of a topic of events.

    Attributes:
        type_name, source: type and source of its events, by the topic.
        kind: "e" for primitive events, "c" for composite ones.
        type: the type; None where events on this topic are unusable, for the reason in `problem`.
        fitting: quick test of their attributes.
        readers: readers of the events, as the participant calls them.
        sources: those that are announced.
    """

    type_name: str
    source: str
    kind: str
    type: EventType | None
    problem: str = ""
    fitting: Fitting = lambda events: events
    readers: list[Any] = field(default_factory=list)
    sources: Container[str] = ()

    def usable(
        self, frame: Frame, topic: str, payload: bytes, dead_letters: DeadLetters
    ) -> tuple[list[Event] | None, list[Effect]]:
        """Usable events of a frame, None where the whole frame is unusable; and dead letters."""
        effects: list[Effect] = [*dead_letters.rows(frame.rejected, topic)] if frame.rejected else []
        events = frame.events
        if frame.type != self.type_name or frame.kind != self.kind:
            carried = "composite" if frame.kind == "c" else "primitive"
            problem = f"a frame of {carried} events {frame.type!r} on the topic of {self.type_name!r}"
            return None, [*effects, *dead_letters.message("malformed", problem, topic, payload)]
        if frame.kind == "e" and frame.source != self.source and (not is_json(payload) or frame.source in self.sources):
            # Access lists know topics alone. An event in JSON may name a source that nobody has announced.
            problem = f"a frame of the source {frame.source!r} on the topic of {self.source!r}"
            return None, [*effects, *dead_letters.message("malformed", problem, topic, payload)]
        if self.type is None:
            problem = self.problem
            return None, [*effects, *dead_letters.events("unknown-type", lambda _: problem, events, topic)]
        usable = self.fitting(events)
        if len(usable) < len(events):
            fit, known = set(map(id, usable)), self.type
            unfit = [event for event in events if id(event) not in fit]
            effects += dead_letters.events("mistyped", lambda event: mismatch(event, known, topic), unfit, topic)
        return usable, effects


class TopicRoutes:
    """Routes by topic, remembered until types or detectors change.

    Attributes:
        known: those found so far.
    """

    def __init__(
        self,
        directory: Directory,
        published: Callable[[str], str],
        *,
        readers_of_type: Callable[[str], list[Any]] = lambda name: [],
        readers_of_detector: Callable[[str], list[Any]] = lambda detector: [],
    ) -> None:
        """Routes, given the type that a detector publishes (empty for an unknown one), and the readers."""
        self.known: dict[str, TopicRoute] = {}
        self._directory = directory
        self._published = published
        self._readers_of_type = readers_of_type
        self._readers_of_detector = readers_of_detector

    def find(self, topic: str, area: Area, levels: tuple[str, ...]) -> TopicRoute:
        """Route of a topic, remembered from now on."""
        made = self._primitive(*levels) if area is Area.EVENTS else self._composite(*levels)
        # A topic may hold any text; only usable ones are remembered.
        if made.type is not None and len(self.known) < ROUTES:
            self.known[topic] = made
        return made

    def forget(self) -> None:
        """Forget routes, as a type, a detector or a reader has changed."""
        self.known.clear()

    def _primitive(self, name: str, source: str) -> TopicRoute:
        known = self._directory.types.get(name)
        if known is None:
            return TopicRoute(name, source, "e", None, f"no event type {name!r} is registered")
        if known.derived is not None:
            problem = f"the type {name!r} is derived: events of {known.derived.base!r} are published"
            return TopicRoute(name, source, "e", None, problem)
        sources = self._directory.sources
        return TopicRoute(name, source, "e", known, "", fitting(known), self._readers_of_type(name), sources)

    def _composite(self, detector: str) -> TopicRoute:
        name = self._published(detector)
        if not name:
            return TopicRoute(detector, detector, "c", None, f"no detector {detector!r} is known")
        return TopicRoute(name, detector, "c", EventType(name, {}), readers=self._readers_of_detector(detector))


def fitting(event_type: EventType) -> Fitting:
    """Quick test of attributes against a type; `EventType.check` names the fault of others.

    It is one expression, as every event of a node goes through it; names and classes are referred to by number.
    """
    names: dict[str, Any] = {"missing": _MISSING}
    tests = [f"len(a := event.attributes) == {len(event_type.attributes)}"]
    for number, (name, kind) in enumerate(event_type.attributes.items()):
        names |= {f"n{number}": name, f"c{number}": _CLASSES[kind]}
        tests.append(f"a.get(n{number}, missing).__class__ in c{number}")
    bound = ", ".join(f"{name}={name}" for name in names)
    return eval(  # type: ignore[no-any-return]
        f"lambda events, {bound}: [event for event in events if {' and '.join(tests)}]", names
    )


def mismatch(event: Event, event_type: EventType, topic: str) -> str:
    """Reason why an event is not of a type."""
    try:
        event_type.check(event, where=topic)
    except EventError as error:
        return str(error)
    return "attributes of other kinds"

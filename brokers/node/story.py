"""Stories: the history of each detector, subscription and source on a node, in order, with cause and effect.

After the stories of dask's scheduler. One line per stimulus (`brokers.core.causes`) that changed a subject or led to a
message about it, from reports of the node's parts (`happened`) and from effects. Lines and subjects form rings; a
repeated line is counted. Only faulty events are written: others would fill the rings within a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from msgspec.structs import force_setattr, replace

from distced.brokers.core.causes import (
    Connected,
    HistoryRead,
    MessageArrived,
    PatternCompiled,
    Stimulus,
    Stopping,
    StoreAnswered,
    StoryLine,
    TimePassed,
)
from distced.brokers.core.effects import Effect, Isolate, Note, Publish, Release, Subscribe, Unsubscribe
from distced.middleware.wire.administration import Answers, Listening
from distced.middleware.wire.codec import decode
from distced.middleware.wire.topics import Area, Topic, parse_topic

LINES: Final = 50
"""Lines kept of a subject."""

SUBJECTS: Final = 1000
"""Subjects kept; the one without a line for the longest time is dropped first."""

MATCHES: Final = 10
"""Stories returned for one id at most."""

CAUSES: Final = 1_000
"""Causes of log events kept; a driver asks for one at once."""

LONGEST_CAUSE: Final = 120
"""Characters of a cause in a log event at most: topics have names from outside."""

_KINDS: Final = ("detector", "subscription", "source")


class Stories:
    """Stories of a node; `number` of the last stimulus, the present one, is the cause of effects."""

    def __init__(self, name: str, root: str) -> None:
        self.number = 0
        self._name = name
        self._root = root
        self._below = f"{root}/"
        self._unwritten = tuple(f"{root}/{area}/" for area in (Area.EVENTS, Area.COMPOSITE_EVENTS, Area.DEAD_LETTERS))
        self._rings: dict[tuple[str, str], list[StoryLine]] = {}
        self.stimulus: Stimulus = TimePassed()
        self._now = 0
        # Changes with the present stimulus: kind, id, text; and the stimuli whose barriers it has ended.
        self._happened: list[tuple[str, str, str]] = []
        self._because: list[int] = []
        # Causes of the last log events.
        self._causes: dict[int, str] = {}

    # While the node decides.

    def begin(self, stimulus: Stimulus, now: int) -> None:
        """Begin a stimulus other than a frame of events."""
        self.number += 1
        self.stimulus, self._now = stimulus, now

    def happened(self, kind: str, subject: str, what: str) -> None:
        """Note a change of a detector, a subscription or a source."""
        self._happened.append((kind, subject, what))

    def continued(self, then: Callable[[int], list[Effect]]) -> Callable[[int], list[Effect]]:
        """Continuation behind a barrier; its cause then refers to the present one."""
        number = self.number

        def later(now: int) -> list[Effect]:
            self._because.append(number)
            return then(now)

        return later

    def end(self, effects: list[Effect]) -> list[Effect]:
        """Effects of the present stimulus, with their cause, written down."""
        self.caused(effects)
        if effects or self._happened:
            self._write(effects)
        self._because.clear()
        return effects

    def caused(self, effects: list[Effect]) -> list[Effect]:
        """Effects with the present stimulus as their cause."""
        logs = False
        for effect in effects:
            force_setattr(effect, "cause", self.number)
            logs = logs or effect.__class__ is Note
        if logs:
            self._keep_cause()
        return effects

    def end_events(self, topic: str, home: str, now: int, effects: list[Effect]) -> list[Effect]:
        """Effects of a frame of events, with their cause; written down where they are more than frames."""
        self.number += 1
        noted = bool(self._happened)
        for effect in effects:
            force_setattr(effect, "cause", self.number)
            noted = noted or effect.__class__ is not Publish
        if noted:
            self.stimulus, self._now = MessageArrived(topic, home), now
            if any(effect.__class__ is Note for effect in effects):
                self._keep_cause()
            self._write(effects)
        return effects

    # For readers.

    def of(self, id: str) -> dict[str, tuple[StoryLine, ...]]:  # noqa: A002
        """Stories of this id, else those of detectors with this id prefix, by kind and id."""
        keys = [key for kind in _KINDS if (key := (kind, id)) in self._rings]
        if not keys:
            keys = sorted(key for key in self._rings if key[0] == "detector" and key[1].startswith(id))
        return {f"{kind} {name}": tuple(self._rings[kind, name]) for kind, name in keys[:MATCHES]}

    def cause(self, number: int) -> str:
        """Cause of a log event, as the lines of stories have it: `#12 a/move/c52925`; empty for an unknown one."""
        return self._causes.get(number, "")

    def _keep_cause(self) -> None:
        text = f"#{self.number} {self._text()}"
        self._causes[self.number] = text if len(text) <= LONGEST_CAUSE else f"{text[: LONGEST_CAUSE - 1]}…"
        if len(self._causes) > CAUSES:
            del self._causes[next(iter(self._causes))]

    def _write(self, effects: list[Effect]) -> None:
        # By subject: its changes, and the messages about it.
        texts: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
        for kind, name, what in self._happened:
            texts.setdefault((kind, name), ([], []))[0].append(what)
        self._happened.clear()
        for effect in effects:
            for subject, text in self._lines(effect):
                texts.setdefault(subject, ([], []))[not isinstance(effect, Note)].append(text)
        for subject, both in texts.items():
            happened, done = ("; ".join(dict.fromkeys(each)) for each in both)
            self._add(subject, StoryLine(self._now, self._name, self.number, self._text(), happened, done))

    def _add(self, subject: tuple[str, str], line: StoryLine) -> None:
        # Subjects are ordered by their last line.
        ring = self._rings.pop(subject, None) or []
        self._rings[subject] = ring
        if len(self._rings) > SUBJECTS:
            del self._rings[next(iter(self._rings))]
        if ring:
            last = ring[-1]
            if (last.stimulus, last.happened, last.effect) == (line.stimulus, line.happened, line.effect):
                ring.pop()
                line = replace(line, times=last.times + 1)
        ring.append(line)
        if len(ring) > LINES:
            del ring[0]

    def _text(self) -> str:
        match self.stimulus:
            case MessageArrived(topic=topic, home=home):
                if self._because:
                    return f"barrier of {', '.join(f'#{each}' for each in sorted(set(self._because)))}"
                topic = topic.removeprefix(f"{self._root}/")
                return f"{topic} at {home}" if home else topic
            case Connected(home=home):
                return f"connected to {home}" if home else "connected"
            case Stopping():
                return "stopping"
            case StoreAnswered():
                return "checkpoints"
            case HistoryRead():
                return "recorded events"
            case PatternCompiled():
                return "pattern compiled"
            case _:
                return "timer"

    # Effects.

    def _lines(self, effect: Effect) -> Iterator[tuple[tuple[str, str], str]]:
        """Subjects of an effect, with a text for each."""
        match effect:
            case Note(event=event, fields=fields):
                for kind in _KINDS:
                    if kind in fields:
                        rest = ", ".join(f"{name} {each}" for name, each in fields.items() if name != kind)
                        yield (kind, str(fields[kind])), f"{event} ({rest})" if rest else event
            case Publish(topic=topic) if topic.startswith(self._below) and not topic.startswith(self._unwritten):
                yield from self._published(parse_topic(topic, root=self._root), effect)
            case Subscribe(topic_filter=topic) | Unsubscribe(topic_filter=topic):
                if topic.startswith(self._unwritten[1]):
                    verb = "subscribed to" if isinstance(effect, Subscribe) else "unsubscribed from"
                    yield ("detector", parse_topic(topic, root=self._root).levels[0]), f"{verb} its events"
            case Isolate(node=node, detector=detector):
                yield ("detector", detector), f"node {node} started for it"
            case Release(node=node):
                yield ("detector", node.rpartition("+")[2]), f"node {node} ended"

    def _published(self, topic: Topic, effect: Publish) -> Iterator[tuple[tuple[str, str], str]]:
        match topic:
            case (Area.DIRECTORY, (kind, name)) if kind in _KINDS:
                verb = "published" if effect.payload else "cleared"
                yield (kind, name), f"entry {verb}"
                if kind == "subscription" and name.count(" ") == 2:
                    # A detector's subscription to a part of its pattern.
                    reader, part, _ = name.split(" ")
                    yield ("detector", reader), f"subscription to part {part} {verb}"
            case (Area.ADMINISTRATION, ("answer", client)):
                for answer in decode(effect.payload, Answers, where=effect.topic).answers:
                    why = f": {answer.message}" if answer.message else ""
                    yield ("subscription", answer.subscription), f"{answer.state} to {client}{why}"
                    if answer.detector:
                        yield ("detector", answer.detector), f"{answer.state} to {answer.subscription}"
            case (Area.ADMINISTRATION, ("ack", source, _)):
                yield ("source", source), "acknowledged"
            case (Area.ADMINISTRATION, ("ready", _)):
                for subscription in decode(effect.payload, Listening, where=effect.topic).subscriptions:
                    yield ("subscription", subscription), "ready sent"
            case (Area.ADMINISTRATION, ("node", node, kind, subject)):
                of = "subscription" if kind in ("serve", "host", "served") else "detector"
                yield (of, subject), f"{kind} sent to {node}"

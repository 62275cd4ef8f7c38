"""Causes of effects: the stimuli that reach a broker node, and the lines of a story.

Every effect of a node carries the number of its stimulus, and a node keeps the last changes of each detector,
subscription and source with their causes (`brokers.node.story`). Numbers count the stimuli of one run of one node,
events included. Identifiers across nodes in messages were rejected: every frame would be longer, and times and topics
tell as much.

    <root>/a/story/<asker>             asks every node for a story             StoryRequest
    <root>/a/story-of/<asker>/<node>   the answer, empty where nothing is known    StoryAnswer
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from distced.middleware.wire.codec import declare


class MessageArrived(msgspec.Struct, frozen=True):
    """Arrival of a message over the connection to a home server; empty for that of the directory."""

    topic: str
    home: str = ""


class TimePassed(msgspec.Struct, frozen=True):
    """Timer of the driver, a few times a second."""


class Connected(msgspec.Struct, frozen=True):
    """Connection to a home, perhaps a repeated one; an empty home for the server of the directory."""

    home: str = ""


class Stopping(msgspec.Struct, frozen=True):
    """End of the node by its driver."""


class StoreAnswered(msgspec.Struct, frozen=True):
    """Answer of the store of checkpoints."""


class HistoryRead(msgspec.Struct, frozen=True):
    """Recorded events, read for a detector."""


class PatternCompiled(msgspec.Struct, frozen=True):
    """End of the compilation of a pattern beside the messages."""


Stimulus: TypeAlias = MessageArrived | TimePassed | Connected | Stopping | StoreAnswered | HistoryRead | PatternCompiled


class StoryLine(msgspec.Struct, frozen=True):
    """Effects of one stimulus on a detector, a subscription or a source.

    Attributes:
        at: time by the clock of the node, ns; the last one of several in a row.
        cause: number of the stimulus on this node.
        stimulus: a topic, `timer`, `connected`, `stopping`, `checkpoints`, `pattern compiled`.
        happened: change of the subject; empty where only messages were sent.
        effect: messages and other effects of the node.
        times: number in a row.
    """

    at: int
    node: str
    cause: int
    stimulus: str
    happened: str
    effect: str
    times: int = 1


class StoryRequest(msgspec.Struct, frozen=True):
    """Request for a story: id of a subscription or source, or the beginning of that of a detector."""

    id: str


class StoryAnswer(msgspec.Struct, frozen=True):
    """Stories of an id on a node, by kind and id, as in `detector c52925`; empty for an unknown id."""

    node: str
    stories: dict[str, tuple[StoryLine, ...]]


declare(StoryRequest, StoryAnswer)

"""Causes of effects: the stimuli that reach a broker node, and the lines of a story.

Every effect of a node carries the number of the stimulus that it follows from (`brokers.core.effects`), and a node
keeps, for each detector, subscription and source, the last things that befell it with their causes
(`brokers.node.story`): after the stories of tasks in dask's scheduler. Numbers count the stimuli of one life of one
node, events included. Identifiers that travel with messages, across nodes, were rejected: every frame would be longer,
and times and topics tell as much.

    <root>/a/story/<asker>             asks every node for a story             StoryRequest
    <root>/a/story-of/<asker>/<node>   the answer, empty where nothing is known    StoryAnswer
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec


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


Stimulus: TypeAlias = MessageArrived | TimePassed | Connected | Stopping


class StoryLine(msgspec.Struct, frozen=True):
    """Effects of one stimulus on a detector, a subscription or a source.

    Attributes:
        at: when, by the clock of the node, ns; of the last time where it happened several times in a row.
        node: the node.
        cause: the number of the stimulus on this node.
        stimulus: what it was: a topic, `timer`, `connected`, `stopping`.
        happened: what changed here; empty where only messages were sent.
        effect: what the node did about it.
        times: how many times in a row.
    """

    at: int
    node: str
    cause: int
    stimulus: str
    happened: str
    effect: str
    times: int = 1


class StoryRequest(msgspec.Struct, frozen=True):
    """Request for a story.

    Attributes:
        id: of a subscription or a source, or how that of a detector begins.
    """

    id: str


class StoryAnswer(msgspec.Struct, frozen=True):
    """Stories of an id on a node.

    Attributes:
        node: the node.
        stories: by kind and id, as in `detector c52925`; empty where it knows nothing.
    """

    node: str
    stories: dict[str, tuple[StoryLine, ...]]

"""Effects of a broker node, each with its cause, carried out by a driver: live over MQTT, or in a simulation."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import field

from distced.detectors.checked_texts import CheckedTexts
from distced.detectors.frontends.languages import IN_CORE, Written
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.wire.mqtt_effects import Caused, Note, Publish, Subscribe, Unsubscribe

__all__ = [
    "Compile",
    "Effect",
    "Isolate",
    "Load",
    "Note",
    "Pieces",
    "Publish",
    "ReadHistory",
    "Release",
    "Save",
    "Subscribe",
    "Unsubscribe",
    "info",
    "warning",
]


class Isolate(Caused, frozen=True, eq=False):
    """Start a node at this one's site, in a process of its own, for one detector.

    Attributes:
        node: what it is to be called.
        detector: the detector it is reserved for.
    """

    node: str
    detector: str


class Release(Caused, frozen=True, eq=False):
    """End a node that was started by `Isolate`."""

    node: str


Pieces: TypeAlias = tuple[bytes, ...]
"""Checkpoint of a detector in pieces, which it may share with others."""


class Save(Caused, frozen=True, eq=False):
    """Write checkpoints to the store, all or none; `Node.saved` takes the end.

    Attributes:
        number: of the write.
        entries: pieces by detector, of which several may have the same object; None for a deletion.
    """

    number: int
    entries: dict[str, Pieces | None]


class Load(Caused, frozen=True, eq=False):
    """Read the checkpoints of a detector by all nodes; `Node.loaded` takes them."""

    detector: str


class ReadHistory(Caused, frozen=True, eq=False):
    """Read recorded events for a detector; `Node.history_read` takes a part of them.

    Attributes:
        number: of the request.
        types: of the events.
        since: least `hi` of all of them, ns; None for the begin of the recording.
        behind: instant up to which parts were read so far, ns; None for the first part.
    """

    detector: str
    number: int
    types: tuple[str, ...]
    since: int | None
    behind: int | None


class Compile(Caused, frozen=True, eq=False):
    """Compile a pattern beside the messages, by `brokers.node.compiling.compiled_beside`; `Node.compiled` takes it.

    Attributes:
        number: of the request.
        pattern, definitions, consumption, written: of a subscription.
        types: known to the node.
        texts: has the text of `pattern`, where that is known.
    """

    number: int
    pattern: str
    definitions: dict[str, str]
    consumption: str
    types: TypeRegistry
    written: Written = IN_CORE
    texts: CheckedTexts = field(default_factory=CheckedTexts)


def info(event: str, **fields: object) -> Note:
    """Log event of the level info."""
    return Note("info", event, fields)


def warning(event: str, **fields: object) -> Note:
    """Log event of the level warning."""
    return Note("warning", event, fields)


Effect: TypeAlias = Publish | Subscribe | Unsubscribe | Note | Isolate | Release | Save | Load | ReadHistory | Compile

"""Recorded events as a workload: a stretch of a history, at the sites of a topology's publishers.

The alarms of a network are published where its devices are, and badges see one another in different rooms; a
recording has neither sites nor links. So the events are divided among the topology's publishers by the value of an
attribute: those of one device come from one publisher. The stretch is another one for each seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import msgspec

from distced.detectors.compiler import compile_publication, register_derived
from distced.detectors.language.inlining import inline_file
from distced.detectors.language.parser import parse_file
from distced.middleware.history.history import History, events_of_history
from distced.middleware.model.errors import DistcedError, HistoryError
from distced.middleware.model.event_types import EventType, TypeRegistry
from distced.middleware.model.events import Event
from distced.simulations.experiments.model import SpecError
from distced.simulations.network.scenario_model import START


class RecordedSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A recording and the patterns of it.

    Attributes:
        history: folder of an event history; absolute after `resolved`.
        patterns: file of patterns; their text after `resolved`.
        divide_by: attribute by which events are divided among publishers.
        content: digest of the history, filled in.
    """

    history: str
    patterns: str
    divide_by: str
    content: str = ""


def resolved(spec: RecordedSpec, folder: Path) -> RecordedSpec:
    """The spec with the path and digest of its history, and the text of its patterns."""
    root = (folder / spec.history).resolve()
    files = History(root).files
    digest = sha256()
    for file in files:
        digest.update(Path(file.path).name.encode() + Path(file.path).read_bytes())
    if not files:
        raise HistoryError("a history without events", given=str(root))
    try:
        text = (folder / spec.patterns).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise DistcedError("cannot read the patterns", given=spec.patterns, advice=str(error)) from None
    return RecordedSpec(str(root), text, spec.divide_by, digest.hexdigest()[:16])


def patterns_of(spec: RecordedSpec, types: Sequence[EventType]) -> list[str]:
    """Patterns of the file, each alone."""
    registry = TypeRegistry(types)
    file = parse_file(spec.patterns)
    register_derived(file, registry)
    publications = inline_file(file, text=spec.patterns)
    return [compile_publication(each, registry, text=spec.patterns).text for each in publications]


def check_recorded(spec: RecordedSpec, path: Sequence[str | int]) -> None:
    """Check that types have the attribute, and that patterns compile; raises `DistcedError`."""
    types = list(History(spec.history).types.values())
    for each in types:
        if spec.divide_by not in each.attributes:
            raise SpecError("no attribute of the recorded events", (*path, "divide_by"), given=spec.divide_by,
                            allowed=", ".join(each.attributes))  # fmt: skip
    patterns_of(spec, types)


def stretch(
    spec: RecordedSpec, publishers: Sequence[str], duration: int, random: Random
) -> tuple[tuple[EventType, ...], dict[str, list[Event]]]:
    """Types, and events by publisher, of a random stretch; moved to the start of scenarios."""
    history = History(spec.history)
    # On a day by its number of events, so that nights and holidays are rare.
    [file] = random.choices(history.files, [each.rows for each in history.files])
    begin = random.randint(file.note.first, max(file.note.last - duration, file.note.first)) - 1
    by_publisher: dict[str, list[Event]] = {name: [] for name in publishers}
    moved = START - begin
    for event in events_of_history(history, None, begin + 1, begin + duration):
        name = publishers[crc32(str(_value(event, spec.divide_by)).encode()) % len(publishers)]
        own = by_publisher[name]
        own.append(Event(event.type, event.lo + moved, event.hi + moved, name, len(own), event.attributes))
    return tuple(history.types.values()), by_publisher


def _value(event: Event, attribute: str) -> Any:
    return event.attributes.get(attribute)

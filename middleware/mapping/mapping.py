"""Mapping at work: events from foreign messages and rows.

Sans-I/O: it takes a topic, a payload and the arrival, or a row, and returns events and rejections. It keeps a little
for each source (sequence number, clock) and recent deliveries, nothing that a restart could not lose: `first_seq` makes
ids unique from one start to the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Mapping as Row
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from distced.middleware.mapping.clocks import InstantReader
from distced.middleware.mapping.extraction import DeviceMessage, Pick, decode_payload, text_of
from distced.middleware.mapping.missing_paths import MissingPath, missing_paths
from distced.middleware.mapping.rules import Memory, Rejected, Rule, located
from distced.middleware.mapping.schema import FileSpec
from distced.middleware.model.errors import MappingError
from distced.middleware.model.event_types import EventType
from distced.middleware.model.events import Event

NO_RULE: Final = "(no rule)"  # in place of a rule's name, in counts of messages that came to no rule
REMARKS: Final = {
    "unmatched": "rows without a rule",
    "duplicate": "second deliveries",
    "nulled": "wrong attributes read as null",
    "by arrival": "times taken from the arrival",
    "held": "times that went back, held",
    "offset relearnt": "times after which a clock was set again",
}
"""Outcomes besides events and rejections, in words of a summary."""


class Mapped(NamedTuple):
    """Events and rejections of a message or row; both empty where no rule applied or it was a second delivery."""

    events: list[Event]
    rejected: list[Rejected]


class RowReader(NamedTuple):
    """Reader of a file's rows, besides their fields.

    Attributes:
        topic, payload: the message recorded in a row; None where rows are read as they are.
        arrival, clock: its arrival; None for unknown.
    """

    topic: Pick | None = None
    payload: Pick | None = None
    arrival: Pick | None = None
    clock: InstantReader | None = None

    def read_arrival(self, message: DeviceMessage) -> int | None:
        """Arrival of a row, ns; None for unknown. `MappingError` where it cannot be read."""
        value = None if self.arrival is None else self.arrival(message)
        return None if value is None or value == "" or self.clock is None else self.clock.read(value, None).hi


class Mapping:
    """Rules of a mapping file, which turn messages and rows into events.

    Attributes:
        name: the file it comes from.
        types: event types it gives.
        topics: topic filters to subscribe to.
        file: how rows are read out of files.
        lookups: files that its lookups were read from.
        row_rules: rules for rows, which have no topic.
        memory: what it has seen.
    """

    def __init__(
        self,
        name: str,
        rules: Sequence[Rule],
        types: Sequence[EventType],
        *,
        file: FileSpec,
        rows: RowReader,
        lookups: Sequence[Path] = (),
        first_seq: int = 0,
    ) -> None:
        self.name = name
        self.lookups = tuple(lookups)
        self.types = tuple(types)
        self.file = file
        self._rules = tuple(rules)
        self._rows = rows
        self.memory = Memory(first_seq)
        self._message_rules = [(rule.topic, rule) for rule in rules if rule.topic is not None]
        self.row_rules = [rule for rule in rules if rule.topic is None]
        self.topics = tuple(dict.fromkeys(topic.mqtt for topic, _ in self._message_rules))

    @property
    def counts(self) -> Counter[tuple[str, str]]:
        """Counts by the name of the rule and by outcome.

        Outcomes are `event`, `duplicate`, `rejected: time` and so on; of events moreover `nulled` (an attribute that
        was wrong), `by arrival`, `held` and `offset relearnt` (clocks); and `(NO_RULE, "unmatched")` where no rule
        applied.
        """
        return self.memory.counts

    @property
    def remarks(self) -> dict[str, int]:
        """Counts of outcomes besides events and rejections, over all rules."""
        found = Counter[str]()
        for (_, outcome), count in self.memory.counts.items():
            if outcome in REMARKS:
                found[outcome] += count
        return dict(sorted(found.items()))

    @property
    def missing_paths(self) -> list[MissingPath]:
        """Paths that were looked for and had no value in any message so far."""
        return missing_paths(self.memory.unseen)

    @property
    def counts_all(self) -> bool:
        """Whether no source brings numbers of its own, and events are counted."""
        return all(rule.sequence is None for rule in self._rules)

    @property
    def has_columns(self) -> bool:
        """Whether rows can be mapped as columns: each rule knows what it reads, and a row is all there is to know."""
        rows = self._rows
        plain = rows.topic is None and rows.arrival is None
        return plain and all(each.reads is not None and not each.clock.needs_arrival for each in self.row_rules)

    def fresh(self) -> Mapping:
        """Copy with the same rules and nothing seen yet."""
        return Mapping(
            self.name, self._rules, self.types, file=self.file, rows=self._rows, lookups=self.lookups,
            first_seq=self.memory.first_seq,
        )  # fmt: skip

    def map(self, topic: str, payload: bytes, arrival: int) -> Mapped:
        """Events of a live message that arrived at an instant, ns since the Unix epoch."""
        return self._map_message(topic, payload, arrival, topic, None)

    def map_row(self, row: Row[str, object], where: str) -> Mapped:
        """Events of a row of a file or table, or of the message that was recorded in it; `where` names file and row."""
        message = DeviceMessage(row, {"row": row, "payload": row})
        try:
            arrival = self._rows.read_arrival(message)
        except MappingError as error:
            return Mapped([], [self._reject(where, "arrival", error, row)])
        if self._rows.topic is not None and self._rows.payload is not None:
            topic = text_of(self._rows.topic(message))
            if topic is None:
                none = MappingError("a row without a topic", given=dict(row), allowed="the text that file.topic names")
                return Mapped([], [self._reject(where, "row", none, row)])
            return self._map_message(topic, _as_sent(self._rows.payload(message)), arrival, where, row)
        given = ((rule, DeviceMessage(row, message.outside)) for rule in self.row_rules)
        return self._apply(given, arrival, where, Mapped([], []))

    def _map_message(
        self, topic: str, payload: bytes, arrival: int | None, where: str, row: Row[str, object] | None
    ) -> Mapped:
        mapped = Mapped([], [])
        return self._apply(self._messages(topic, payload, where, row, mapped), arrival, where, mapped)

    def _messages(
        self, topic: str, payload: bytes, where: str, row: Row[str, object] | None, mapped: Mapped
    ) -> Iterator[tuple[Rule, DeviceMessage]]:
        """Rules whose filters match, each with the message as the rule reads it."""
        decoded: dict[object, Row[str, object] | None] = {}
        # An empty payload takes back a retained message.
        for wanted, rule in self._message_rules if payload else ():
            outside = wanted.match(topic)
            if outside is None:
                continue
            if rule.payload not in decoded:
                try:
                    decoded[rule.payload] = decode_payload(payload, *rule.payload)
                except MappingError as error:
                    decoded[rule.payload] = None
                    mapped.rejected.append(self._reject(where, "payload", error, payload))
            fields = decoded[rule.payload]
            if fields is not None:
                yield rule, DeviceMessage(fields, {**outside, "row": row, "payload": fields})

    def _apply(
        self, given: Iterable[tuple[Rule, DeviceMessage]], arrival: int | None, where: str, mapped: Mapped
    ) -> Mapped:
        applied = False
        for rule, message in given:
            applies, events, rejected = rule.apply(message, arrival, where, self.memory)
            mapped.events.extend(events)
            mapped.rejected.extend(rejected)
            applied = applied or applies
            if applies and rule.final:
                break
        if not applied and not mapped.rejected:
            self.memory.counts[NO_RULE, "unmatched"] += 1
        return mapped

    def _reject(self, where: str, reason: str, error: MappingError, given: object) -> Rejected:
        self.memory.counts[NO_RULE, f"rejected: {reason}"] += 1
        return Rejected(where, "", reason, located(error, where), given)


def _as_sent(payload: object) -> bytes:
    """Recorded payload as the bytes it was: a text as it stands, a table as JSON."""
    if isinstance(payload, str):
        return payload.encode()
    return b"" if payload is None else msgspec.json.encode(payload)

"""Rows mapped as columns: the events and rejected rows that `Mapping.map_row` gives row by row.

Rows without an event go to the rule itself, which says why. A block goes row by row altogether where the rule finds an
event after all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np

from distced.middleware.event_files.cells import Ints, Numbers
from distced.middleware.event_files.event_chunks import EventChunk, chunk_of
from distced.middleware.event_files.field_columns import FieldBlock, FieldColumn
from distced.middleware.event_files.mapped_events import AppliedRule, MappedEvents
from distced.middleware.event_files.rule_parts import (
    Columns,
    Evaluated,
    UnknownBlockError,
    attribute_values,
    claims_of,
    evaluate,
    messages_of,
    sequence_of,
)
from distced.middleware.mapping import NO_RULE, Rejected
from distced.middleware.mapping import Mapping as Rules
from distced.middleware.mapping.clocks import SourceClock
from distced.middleware.mapping.extraction import DeviceMessage
from distced.middleware.mapping.missing_paths import Probe, Unseen
from distced.middleware.mapping.reads import RuleReads, Steps
from distced.middleware.mapping.rules import Memory, Rule, located
from distced.middleware.model.event_types import Kind
from distced.middleware.model.events import Event


class MappedColumns:
    """Reader of blocks of rows by a mapping."""

    def __init__(self, name: str, mapping: Rules) -> None:
        self._name = name
        self._mapping = mapping
        self._memory = mapping.memory

    def read(self, block: FieldBlock, reject: Callable[[Rejected], None]) -> EventChunk:
        """Events of a block; rejected rows, in their order, go to `reject`."""
        try:
            chunk, rejected = self._columns(block)
        except UnknownBlockError:
            chunk, rejected = self._by_rows(block)
        for place, row in block.problems:
            assert row.problem is not None
            where = self._where(row.number)
            problem = Rejected(where, "", "row", located(row.problem, where), row.problem.given)
            rejected.append((place, -1, problem))
        # A row that cannot be read comes before the row that follows it.
        for _, _, each in sorted(rejected, key=lambda each: each[:2]):
            reject(each)
        return chunk

    def _where(self, number: int) -> str:
        return f"{self._name}, row {number}"

    def _by_rows(self, block: FieldBlock) -> tuple[EventChunk, list[tuple[int, int, Rejected]]]:
        events: list[Event] = []
        found = []
        for place, fields in enumerate(block.rows(np.arange(len(block)))):
            made, rejected = self._mapping.map_row(fields, self._where(int(block.numbers[place])))
            events += made
            found += [(place, 0, each) for each in rejected]
        return chunk_of(events), found

    def _columns(self, block: FieldBlock) -> tuple[EventChunk, list[tuple[int, int, Rejected]]]:
        open_rows = np.arange(len(block))
        matched = np.zeros(len(block), np.bool_)
        unseen: dict[str, Unseen] = {}
        applied = []
        for rule in self._mapping.row_rules:
            if not len(open_rows):
                break
            each = self._apply(rule, block, open_rows, unseen)
            applied.append(each)
            matched[each.rows] = True
            if rule.final:
                taken = np.zeros(len(block), np.bool_)
                taken[each.rows] = True
                open_rows = open_rows[~taken[open_rows]]
        events = MappedEvents(applied, self._memory)
        counts = Counter(events.counts)
        rejected = [
            found for number, each in enumerate(applied) for found in self._rejected(block, number, each, counts)
        ]
        counts[NO_RULE, "unmatched"] += int((~matched).sum())
        # From here on nothing can go wrong.
        self._memory.counts.update(+counts)
        self._memory.unseen.update(unseen)
        self._memory.sources.update(events.sources)
        return events.chunk(), rejected

    def _apply(self, rule: Rule, block: FieldBlock, rows: Ints, unseen: dict[str, Unseen]) -> AppliedRule:
        reads = rule.reads
        assert reads is not None
        groups: dict[str, FieldColumn] = {}

        def columns(steps: Steps) -> FieldColumn:
            own = groups.get(steps[0])
            return block.column(steps) if own is None else own.inside(steps[1:])

        known = self._memory.unseen.get(rule.name)
        left = Unseen(rule.going, rule.choosing, rule.reading) if known is None else copy(known)
        left.latest, left.looked = dict(left.latest), dict(left.looked)
        unseen[rule.name] = left
        latest: dict[str, int] = {}
        left.choosing = _probe(left.choosing, columns, rows, left.looked, latest)
        for condition, paths, names in zip(rule.when, reads.conditions, reads.groups, strict=True):

            def holds(message: DeviceMessage, condition: Any = condition) -> object:
                return message.fields if condition(message) else None

            tested = evaluate(columns, paths, rows, holds)
            good = np.array([each is not None for each in tested.results], np.bool_)[tested.codes]
            for name in names:
                codes = np.zeros(len(block), np.int64)
                codes[rows] = tested.codes
                groups[name] = FieldColumn([None if each is None else each[name] for each in tested.results], codes)
            rows = rows[good]
        left.reading = _probe(left.reading, columns, rows, left.looked, latest)
        for key, fields in zip(latest, block.rows(np.array([*latest.values()], np.int64)), strict=True):
            left.latest[key] = _as_chosen(rule, fields)
        return self._made(rule, reads, columns, rows)

    def _made(self, rule: Rule, reads: RuleReads, columns: Columns, rows: Ints) -> AppliedRule:
        """Parts of the events of these rows."""
        sources = evaluate(columns, reads.source, rows, rule.read_source)
        good = sources.right
        types = None
        if not isinstance(rule.type, str):
            types = evaluate(columns, reads.type, rows, rule.read_type)
            good &= types.right
        nulled = np.zeros(len(rows), np.int64)
        attributes: dict[str, tuple[Kind, Numbers | Evaluated]] = {}
        for name, reader in rule.attributes.items():
            kind = rule.kinds[name]
            values, right = attribute_values(kind, reader, columns, reads.attributes[name], rows)
            if reader.forgiving:
                nulled += ~right
            else:
                good &= right
            attributes[name] = kind, values
        lo, hi = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
        made = AppliedRule(rule, rows, good, sources, types, attributes, lo, hi, nulled)
        if rule.time.lacks_year:
            made.messages = messages_of(columns, reads.time, rows)
        else:
            made.lo, made.hi, timed = claims_of(rule, reads, columns, rows)
            made.good &= timed
        if rule.sequence is not None:
            made.numbers = sequence_of(rule, reads, columns, rows)
        return made

    def _rejected(
        self, block: FieldBlock, number: int, applied: AppliedRule, counts: Counter[tuple[str, str]]
    ) -> Iterator[tuple[int, int, Rejected]]:
        """Rows without an event, with the reasons that the rule gives."""
        bad = np.flatnonzero(~applied.good)
        rule = applied.rule
        for index, place, fields in zip(
            bad.tolist(), applied.rows[bad].tolist(), block.rows(applied.rows[bad]), strict=True
        ):
            memory = Memory(self._memory.first_seq, unseen={rule.name: Unseen((), (), ())})
            source = applied.sources.results[applied.sources.codes[index]]
            if isinstance(source, str):
                if applied.messages is not None:
                    memory.sources[source] = SourceClock(-1, applied.claims_before.get(index))
                elif applied.numbers is not None:
                    memory.sources[source] = SourceClock(int(applied.numbers_before[index]))
            message = DeviceMessage(fields, {"row": fields, "payload": fields})
            where = self._where(int(block.numbers[place]))
            _, events, rejected = rule.apply(message, None, where, memory)
            if events or len(rejected) != 1:
                raise UnknownBlockError
            counts.update(memory.counts)
            yield place, number, rejected[0]


def _as_chosen(rule: Rule, fields: Mapping[str, object]) -> DeviceMessage:
    """Message of a row, with what the conditions of a rule add."""
    message = DeviceMessage(fields, {"row": fields, "payload": fields})
    for condition in rule.when:
        if not condition(message):
            break
    return message


def _probe(
    probes: Sequence[Probe], columns: Columns, rows: Ints, looked: dict[str, int], latest: dict[str, int]
) -> tuple[Probe, ...]:
    """Probes without a value in these rows; counts the rows, and notes the last one."""
    left = []
    for probe in probes if len(rows) else ():
        steps = tuple(probe.path.split(".") if isinstance(probe.path, str) else probe.path)
        column = columns(steps)
        there = np.array([each is not None for each in column.values], np.bool_)[column.codes[rows]]
        before = int(there.argmax()) if there.any() else len(rows)
        if before:
            looked[probe.key] = looked.get(probe.key, 0) + before
        if before == len(rows):
            left.append(probe)
            latest[probe.key] = int(rows[-1])
    return tuple(left) if len(rows) else tuple(probes)

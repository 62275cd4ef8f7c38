"""Events of a mapping's rules, made of the columns of a block.

What depends on earlier rows (sequence numbers, monotone clocks, years) is computed by source, in the order of rows and
rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from distced.middleware.event_files.cells import Ints, Mask, Numbers, arrow_mask, arrow_of, arrow_texts, nulled
from distced.middleware.event_files.event_chunks import EventChunk
from distced.middleware.event_files.rule_parts import Evaluated, UnknownBlockError
from distced.middleware.event_files.tables import WHOLE, column_of
from distced.middleware.mapping.clocks import Claim, SourceClock
from distced.middleware.mapping.extraction import DeviceMessage
from distced.middleware.mapping.rules import Memory, Rule
from distced.middleware.model.errors import MappingError
from distced.middleware.model.event_types import Kind
from distced.middleware.model.timestamps import INSTANT_MAX, INSTANT_MIN


@dataclass(slots=True)
class AppliedRule:
    """A rule applied to the rows of a block.

    Attributes:
        rows: places of those it applies to.
        good: which of them have an event.
        sources, types, attributes: parts of the events, by row; types are None for that of the rule.
        lo, hi: claims, ns, before anything is added for uncertainty.
        nulled: number of attributes that were wrong and read as null.
        messages: by distinct text of a time without a year, the message that has it; with the index for each row.
        claims_before: by row, the previous claim of its source, where the time has no year.
        numbers: sequence numbers that rows bring, -1 for none; None where events are counted.
        numbers_before: by row, the last number of its source before it.
    """

    rule: Rule
    rows: Ints
    good: Mask
    sources: Evaluated
    types: Evaluated | None
    attributes: dict[str, tuple[Kind, Numbers | Evaluated]]
    lo: Ints
    hi: Ints
    nulled: Ints
    messages: tuple[list[DeviceMessage], Ints] | None = None
    claims_before: dict[int, int | None] = field(default_factory=dict)
    numbers: Ints | None = None
    numbers_before: Ints = field(default_factory=lambda: np.empty(0, np.int64))


class MappedEvents:
    """Events of the rules applied to a block: their numbers and times, by source, in the order of rows and rules.

    Attributes:
        sources: their clocks afterwards.
        counts: as in the memory.
    """

    def __init__(self, applied: Sequence[AppliedRule], memory: Memory) -> None:
        self._applied = applied
        numbers: dict[str, int] = {}
        # Numbers of the sources, by rule and row; -1 for none.
        own = [_numbered(each.sources, numbers) for each in applied]
        self._names = list(numbers)
        numbered = [each.numbers is not None for each in applied]
        before_first = -1 if any(numbered) else memory.first_seq - 1
        self._clocks = [memory.sources.get(name) or SourceClock(before_first) for name in numbers]
        yearless = any(each.messages is not None for each in applied)
        if any(numbered) and (yearless or not all(numbered)):
            # What is rejected for its number does not count for what comes after it.
            raise UnknownBlockError
        if yearless:
            self._claim_years(own)
        if any(numbered):
            self._reject_numbers(own)
        counts = [int(each.good.sum()) for each in applied]
        ends = np.cumsum([0, *counts]).tolist()
        self._parts = [slice(begin, end) for begin, end in pairwise(ends)]
        rows = _joined([each.rows[each.good] for each in applied])
        order = (
            np.lexsort((np.repeat(np.arange(len(applied)), counts), rows)) if len(applied) > 1 else np.arange(len(rows))
        )
        self._places = np.empty(len(rows), np.int64)
        self._places[order] = np.arange(len(rows))
        source = _joined([mine[each.good] for each, mine in zip(applied, own, strict=True)])
        claimed = _joined([each.hi[each.good] for each in applied])
        self._lo = _joined([each.lo[each.good] - each.rule.clock.before for each in applied])
        self._hi = _joined([each.hi[each.good] + each.rule.clock.after for each in applied])
        monotone = np.repeat(np.array([each.rule.clock.is_monotone for each in applied], np.bool_), counts)
        self._seq, held = np.empty(len(rows), np.int64), np.zeros(len(rows), np.bool_)
        self.sources: dict[str, SourceClock] = {}
        given = _joined([each.numbers[each.good] for each in applied if each.numbers is not None])
        self._order_sources(order[np.argsort(source[order], kind="stable")], source, claimed, monotone, held, given)
        self.counts: Counter[tuple[str, str]] = Counter()
        for each, part in zip(applied, self._parts, strict=True):
            found = {"event": each.good.sum(), "nulled": each.nulled[each.good].sum(), "held": held[part].sum()}
            self.counts.update({(each.rule.name, outcome): int(count) for outcome, count in found.items()})

    def _reject_numbers(self, own: Sequence[Ints]) -> None:
        """Leave out rows whose number does not grow."""
        rows = _joined([each.rows for each in self._applied])
        rules = np.repeat(np.arange(len(own)), [len(each.rows) for each in self._applied])
        source = _joined(own)
        asked = [np.where(each.good, each.numbers, -1) for each in self._applied if each.numbers is not None]
        given, before = _joined(asked), np.full(len(rows), -1)
        order = np.lexsort((rules, rows, source))
        begins = np.flatnonzero(np.diff(source[order], prepend=-2))
        for begin, end in pairwise([*begins.tolist(), len(order)]):
            mine = order[begin:end]
            if source[mine[0]] >= 0:
                last = self._clocks[int(source[mine[0]])].seq
                before[mine] = np.maximum.accumulate(np.append(last, given[mine]))[:-1]
        begin = 0
        for each in self._applied:
            here = slice(begin, begin + len(each.rows))
            begin = here.stop
            each.good &= given[here] > before[here]
            each.numbers_before = before[here]

    def _order_sources(self, order: Ints, source: Ints, claimed: Ints, monotone: Mask, held: Mask, given: Ints) -> None:
        """Number the events, unless numbers are given, and hold times that went back; `order` is by source."""
        begins = np.flatnonzero(np.diff(source[order], prepend=-1))
        ends = np.append(begins[1:], len(order))[: len(begins)]
        clocks = [self._clocks[number] for number in source[order[begins]].tolist()]
        before = np.array([INSTANT_MIN if clock.hi is None else clock.hi for clock in clocks], np.int64)
        first = np.array([clock.seq + 1 for clock in clocks], np.int64)
        self._seq[order] = (
            given[order] if len(given) else np.arange(len(order)) + np.repeat(first - begins, ends - begins)
        )
        if monotone.any():
            for begin, end, least in zip(begins.tolist(), ends.tolist(), before.tolist(), strict=True):
                mine = order[begin:end]
                latest = np.maximum.accumulate(np.append(least, self._hi[mine]))[:-1]
                held[mine] = monotone[mine] & (self._hi[mine] < latest)
                self._hi[mine] = np.where(held[mine], latest, self._hi[mine])
        greatest = np.maximum(np.maximum.reduceat(self._hi[order], begins), before) if len(begins) else before
        last = order[ends - 1]
        parts = (clocks, source[last], self._seq[last].tolist(), claimed[last].tolist(), greatest.tolist())
        for clock, number, seq, claim, hi in zip(*parts, strict=True):
            self.sources[self._names[number]] = SourceClock(seq, claim, hi, clock.offset)

    def _claim_years(self, own: Sequence[Ints]) -> None:
        """Claims of times without a year, which are near the one before of their source."""
        latest = [clock.claim for clock in self._clocks]
        rows = _joined([each.rows for each in self._applied])
        rules = np.repeat(np.arange(len(own)), [len(each.rows) for each in self._applied])
        indices = _joined([np.arange(len(each.rows)) for each in self._applied])
        order = np.lexsort((rules, rows))
        for number, index in zip(rules[order].tolist(), indices[order].tolist(), strict=True):
            each, source = self._applied[number], int(own[number][index])
            if source < 0:
                continue
            if each.messages is None:
                if each.good[index]:
                    latest[source] = int(each.hi[index])
                continue
            messages, codes = each.messages
            claim, each.claims_before[index] = None, latest[source]
            with suppress(MappingError):
                claim = each.rule.time.read(messages[codes[index]], None, latest[source])
            if claim is None or not _is_within(each.rule, claim):
                each.good[index] = False
            elif each.good[index]:
                each.lo[index], each.hi[index] = claim
                latest[source] = claim.hi

    def chunk(self) -> EventChunk:
        """The events, one table for each rule."""
        tables, places = [], []
        for each, mine in zip(self._applied, self._parts, strict=True):
            if mine.start == mine.stop:
                continue
            if each.types is None:
                assert isinstance(each.rule.type, str)
                types = _texts([each.rule.type], np.zeros(mine.stop - mine.start, np.int64))
            else:
                types = _texts(each.types.results, each.types.codes[each.good])
            data = {
                "type": types,
                "lo": arrow_of(self._lo[mine]),
                "hi": arrow_of(self._hi[mine]),
                "source": _texts(each.sources.results, each.sources.codes[each.good]),
                "seq": arrow_of(self._seq[mine]),
            }
            for name, (kind, values) in each.attributes.items():
                data |= {prefix + column_of(name): array for prefix, array in _arrays(kind, values, each.good).items()}
            for name in each.rule.unknown:
                data[column_of(name)] = pa.nulls(mine.stop - mine.start, pa.float64())
            tables.append(pa.table(data))
            places.append(self._places[mine])
        return EventChunk(tables, _joined(places))


def _joined(parts: Sequence[Ints]) -> Ints:
    return np.concatenate([np.empty(0, np.int64), *parts])


def _numbered(names: Evaluated, numbers: dict[str, int]) -> Ints:
    """Numbers of names, by row; -1 for none."""
    found = [numbers.setdefault(each, len(numbers)) if isinstance(each, str) else -1 for each in names.results]
    return np.array(found, np.int64)[names.codes]


def _is_within(rule: Rule, claim: Claim) -> bool:
    """Whether a claim with its uncertainty has 64 bits."""
    return claim.lo - rule.clock.before >= INSTANT_MIN and claim.hi + rule.clock.after <= INSTANT_MAX


def _arrays(kind: Kind, values: Numbers | Evaluated, good: Mask) -> dict[str, Any]:
    """Arrays of an attribute by prefix of their column, in the native form."""
    if isinstance(values, Numbers):
        some = values.of(good)
        floats, integers = some.arrays()
        if floats is None:
            return {"": integers if integers is not None else pa.nulls(len(some.contents), pa.float64())}
        return {"": floats} if integers is None else {"": floats, WHOLE: integers}
    codes = values.codes[good]
    if kind == "string":
        return {"": _texts(values.results, codes).cast(pa.string())}
    true = np.array([each is True for each in values.results], np.bool_)[codes]
    there = np.array([each is not None for each in values.results], np.bool_)[codes]
    return {"": nulled(arrow_mask(true), there)}


def _texts(values: Sequence[object], codes: Ints) -> Any:
    """Texts by index of each row's, null where there are none."""
    there = np.array([isinstance(each, str) for each in values], np.bool_)[codes]
    names = [each if isinstance(each, str) else "" for each in values]
    return pa.DictionaryArray.from_arrays(arrow_of(codes.astype(np.int32), there), arrow_texts(names or [""]))

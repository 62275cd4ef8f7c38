"""Parts of a mapping's rules evaluated over columns: conditions, sources, types, attributes, times.

A part is evaluated by its own function, once for all rows with the same values at the paths it reads. Numbers and
instants of common spelling are read many at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow.compute as pc

from distced.middleware.event_files.cells import (
    FRACTION,
    MISSING,
    WHOLE_NUMBER,
    WRONG,
    Ints,
    Mask,
    Numbers,
    arrow_of,
    arrow_texts,
    instants_of,
    numpy_of,
)
from distced.middleware.event_files.field_columns import FieldColumn
from distced.middleware.mapping.clocks import Claim
from distced.middleware.mapping.conversion import NULL_NUMBERS, AttributeReader, PlainNumber
from distced.middleware.mapping.extraction import DeviceMessage
from distced.middleware.mapping.reads import Reads, RuleReads, Steps
from distced.middleware.mapping.rules import Rule
from distced.middleware.model.errors import MappingError
from distced.middleware.model.event_types import Kind
from distced.middleware.model.events import Attribute
from distced.middleware.model.timestamps import INSTANT_MAX, INSTANT_MIN

_WIDEST: Final = 2**62
"""Uncertainty that is added to columns of instants, ns."""

_SPARSE: Final = 8  # possible codes for each row from which on they are sorted

Columns: TypeAlias = Callable[[Steps], FieldColumn]
"""Gives the values at a path."""


class UnknownBlockError(Exception):
    """A block that columns do not know; row by row it is read all the same."""


class Evaluated(NamedTuple):
    """Results of a part for some rows: the distinct ones, those that are errors, and the index of each row's."""

    results: list[Any]
    codes: Ints

    @property
    def right(self) -> Mask:
        """Rows whose result is no error."""
        return np.array([not isinstance(each, MappingError) for each in self.results], np.bool_)[self.codes]


def messages_of(columns: Columns, reads: Reads, rows: Ints) -> tuple[list[DeviceMessage], Ints]:
    """Messages with the distinct values at some paths, and the index of each row's."""
    found = [columns(steps) for steps in reads]
    codes = np.zeros(len(rows), np.int64)
    firsts = np.zeros(min(1, len(rows)), np.int64)
    distinct = 1
    for column in found:
        firsts, codes = _compact(codes * len(column.values) + column.codes[rows], distinct * len(column.values))
        distinct = len(firsts)
    messages = []
    for first in rows[firsts].tolist():
        fields: dict[str, Any] = {}
        for steps, column in zip(reads, found, strict=True):
            inner = fields
            for step in steps[:-1]:
                inner = inner.setdefault(step, {})
            inner[steps[-1]] = column.values[column.codes[first]]
        messages.append(DeviceMessage(fields, {}))
    return messages, codes


def _compact(codes: Ints, most: int) -> tuple[Ints, Ints]:
    """First place of each code that occurs, and the codes without those that do not; they are less than `most`."""
    if most > _SPARSE * len(codes):
        _, firsts, compact = np.unique(codes, return_index=True, return_inverse=True)
        return firsts, compact
    places = np.full(most, -1)
    places[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    used = np.flatnonzero(places >= 0)
    numbers = np.empty(most, np.int64)
    numbers[used] = np.arange(len(used))
    return places[used], numbers[codes]


def evaluate(columns: Columns, reads: Reads, rows: Ints, part: Callable[[DeviceMessage], object]) -> Evaluated:
    """Results of a part, or the errors that it raises."""
    messages, codes = messages_of(columns, reads, rows)
    results: list[object] = []
    for message in messages:
        try:
            results.append(part(message))
        except MappingError as error:
            results.append(error)
    return Evaluated(results, codes)


def attribute_values(
    kind: Kind, reader: AttributeReader, columns: Columns, reads: Reads, rows: Ints
) -> tuple[Numbers | Evaluated, Mask]:
    """Values of an attribute, the default for wrong ones, and which rows are right."""
    if reader.plain is not None and len(reads) == 1:
        numbers = _plain_numbers(reader.plain, columns(reads[0]), rows)
        if numbers is not None:
            right = numbers.contents != WRONG
            return _filled(numbers, reader.default), right
    found = evaluate(columns, reads, rows, reader.read)
    right = found.right
    results = [reader.default if isinstance(each, MappingError) else each for each in found.results]
    found = Evaluated(results, found.codes)
    return _numbers(found) if kind == "number" else found, right


def _plain_numbers(plain: PlainNumber, column: FieldColumn, rows: Ints) -> Numbers | None:
    """Numbers of these rows, wrong beyond the range; None where values are no texts or numbers."""
    read = column.numbers
    if read is None or (column.texts is None and plain.nulls != NULL_NUMBERS):
        return None
    contents, whole, fractions = read.contents[rows], read.whole[rows], read.fractions[rows]
    contents[(contents == FRACTION) & np.isnan(fractions)] = MISSING
    if column.texts is not None and (plain.nulls != NULL_NUMBERS or (contents == WRONG).any()):
        nulls = arrow_texts([each for each in plain.nulls if each is not None])
        contents[numpy_of(pc.is_in(column.texts, value_set=nulls))[rows]] = MISSING
    if plain.range is not None:
        least, greatest = plain.range
        inside = (whole >= math.ceil(least)) & (whole <= math.floor(greatest))
        contents[(contents == WHOLE_NUMBER) & ~inside] = WRONG
        contents[(contents == FRACTION) & ~((fractions >= least) & (fractions <= greatest))] = WRONG
    return Numbers(contents, whole, fractions)


def _filled(numbers: Numbers, default: Attribute) -> Numbers:
    """Numbers with the default in place of those that are missing or wrong."""
    contents, whole, fractions = numbers
    absent = (contents == MISSING) | (contents == WRONG)
    if not absent.any():
        return numbers
    one = _numbers(Evaluated([default], np.zeros(1, np.int64)))
    return Numbers(
        np.where(absent, one.contents[0], contents),
        np.where(absent, one.whole[0], whole),
        np.where(absent, one.fractions[0], fractions),
    )


def _numbers(found: Evaluated) -> Numbers:
    contents = [MISSING if each is None else WHOLE_NUMBER if type(each) is int else FRACTION for each in found.results]
    whole = [each if type(each) is int else 0 for each in found.results]
    fractions = [each if type(each) is float else 0.0 for each in found.results]
    distinct = Numbers(np.array(contents, np.uint8), np.array(whole, np.int64), np.array(fractions, np.float64))
    return distinct.of(found.codes)


def sequence_of(rule: Rule, reads: RuleReads, columns: Columns, rows: Ints) -> Ints:
    """Sequence numbers of rows; -1 for those without one."""
    read = columns(reads.sequence[0]).numbers
    if read is not None:
        whole = read.whole[rows]
        return np.where((read.contents[rows] == WHOLE_NUMBER) & (whole >= 0), whole, -1)
    found = evaluate(columns, reads.sequence, rows, rule.read_number)
    return np.array([each if isinstance(each, int) else -1 for each in found.results], np.int64)[found.codes]


def claims_of(rule: Rule, reads: RuleReads, columns: Columns, rows: Ints) -> tuple[Ints, Ints, Mask]:
    """Begins and ends that rows claim, and which do so; those whose uncertainty exceeds 64 bits do not."""
    before, after = rule.clock.before, rule.clock.after
    if max(before, after) > _WIDEST:
        raise UnknownBlockError
    found = None
    if reads.point is not None:
        at_once = _instants(rule, columns(reads.point), rows)
        found = None if at_once is None else (at_once[0], at_once[0], at_once[1])
    elif reads.start is not None and reads.end is not None:
        start, end = (_instants(rule, columns(each), rows) for each in (reads.start, reads.end))
        if start is not None and end is not None:
            found = start[0], end[0], start[1] & end[1] & (start[0] <= end[0])
    if found is None:
        claimed = evaluate(columns, reads.time, rows, lambda message: rule.time.read(message, None, None))
        claims = [each if isinstance(each, Claim) else None for each in claimed.results]
        lo = np.array([0 if each is None else each.lo for each in claims], np.int64)[claimed.codes]
        hi = np.array([0 if each is None else each.hi for each in claims], np.int64)[claimed.codes]
        found = lo, hi, np.array([each is not None for each in claims], np.bool_)[claimed.codes]
    lo, hi, timed = found
    return lo, hi, timed & (lo >= INSTANT_MIN + before) & (hi <= INSTANT_MAX - after)


def _instants(rule: Rule, column: FieldColumn, rows: Ints) -> tuple[Ints, Mask] | None:
    """Instants in ISO 8601 or whole units, and which rows have one; None where they are to be read one by one."""
    reader = rule.time.instant
    if reader.is_iso and column.texts is not None:
        some = column.texts if len(rows) == len(column.texts) else column.texts.take(arrow_of(rows))
        return instants_of(some, lambda text: reader.read(text, None).lo, counts=False)
    if reader.unit and column.numbers is not None:
        contents, whole = column.numbers.contents[rows], column.numbers.whole[rows]
        most = INSTANT_MAX // reader.unit
        if not ((contents == WHOLE_NUMBER) | (contents == MISSING)).all() or ((whole > most) | (whole < -most)).any():
            return None
        return whole * reader.unit, contents == WHOLE_NUMBER
    return None

"""Wanted sets: describable sets in a small, closed form, by which a source decides what nobody reads (CEDR, section 4).

A set is a list of conjunctions for each event type; a conjunction tests attributes of one event against constants, a
few values or a range of numbers. Whoever reads declares such sets (`middleware.wire.declared_reads`), a source has
their union (`middleware.wire.source_filter`). The form cannot say everything that a pattern can: what it cannot say is
left out of a conjunction, so that a set only grows. The same holds for its size: beyond `MOST_VALUES` values, or
`MOST_CONJUNCTIONS`, tests are dropped, at last all of a type. Every step is deterministic, so that equal readers
declare equal sets.

An event that any reader's pattern looks at is in the union, whatever was dropped: each step replaces sets by one that
holds them. Values compare as in the language: 1 and 1.0 are equal, true is neither.

Rejected: conditions as text (a source would have to parse, and could not tell what they have in common); Bloom filters
(no ranges, and no union that people can read in the directory); intervals of texts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from distced.middleware.model.events import Attribute

MOST_CONJUNCTIONS: Final = 16
"""Conjunctions of a type at most."""

MOST_VALUES: Final = 256
"""Values of a test at most."""

MOST_READ: Final = 1_000
"""Conjunctions of a type in an entry of the directory that are looked at; of more, all events of the type are wanted.
"""

AT_ONCE: Final = 64
"""Conjunctions joined at a time."""

LONGEST_TEXT: Final = 200
"""Characters of a text among the values at most: a longer one is not tested for."""


class Test(msgspec.Struct, frozen=True, omit_defaults=True, rename={"values": "in", "least": "from", "most": "to"}):
    """Test of an attribute: one of some values, or a number within closed bounds.

    Attributes:
        values: in order; None for a range.
        least, most: bounds; None for none.
    """

    values: tuple[str | bool | int | float, ...] | None = None
    least: float | None = None
    most: float | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no value passes, as far as the form shows."""
        if self.values is not None:
            return not self.values
        return self.least is not None and self.most is not None and self.least > self.most

    def passes(self, value: Attribute) -> bool:
        """Whether a value passes; null passes no test."""
        if self.values is not None:
            return (type(value) is bool, value) in map(_identity, self.values)
        return type(value) in (int, float) and self._holds(value)  # type: ignore[arg-type]

    def _holds(self, number: float) -> bool:
        return (self.least is None or number >= self.least) and (self.most is None or number <= self.most)

    def within(self, other: Test) -> bool:
        """Whether everything that passes this test passes the other."""
        if other.values is None:
            if self.values is not None:
                return all(map(other.passes, self.values))
            least = other.least is None or (self.least is not None and self.least >= other.least)
            return least and (other.most is None or (self.most is not None and self.most <= other.most))
        if self.values is None:
            return False
        allowed = set(map(_identity, other.values))
        return all(_identity(each) in allowed for each in self.values)


Conjunction: TypeAlias = tuple[tuple[str, Test], ...]
"""Tests that all hold, by attribute, in order of the attributes; empty for every event."""

EVERY_EVENT: Final[Conjunction] = ()

WantedSets: TypeAlias = Mapping[str, tuple[Conjunction, ...]]
"""Conjunctions by type, of which one holds; no other types."""

NOTHING: Final[WantedSets] = {}


def one_of(values: Iterable[Attribute]) -> Test | None:
    """Test for some values; None where it cannot be stated."""
    found = [each for each in values if each is not None]
    if any(_unsayable(each) for each in found):
        return None
    return Test(tuple({_identity(each): each for each in sorted(found, key=_order)}.values()))


def between(least: float = -math.inf, most: float = math.inf) -> Test | None:
    """Test for numbers from one to another; None where it tests nothing."""
    if math.isnan(least) or math.isnan(most) or (least == -math.inf and most == math.inf):
        return None
    if least == math.inf or most == -math.inf:
        # No finite bound says this.
        return None
    return Test(None, None if least == -math.inf else float(least), None if most == math.inf else float(most))


def conjunction(tests: Mapping[str, Test | None]) -> Conjunction | None:
    """Tests that all hold, without those that test nothing; None where no event passes."""
    stated = tuple(sorted((name, test) for name, test in tests.items() if test is not None))
    return None if any(test.is_empty for _, test in stated) else stated


def holds(tested: Conjunction, attributes: Mapping[str, Attribute]) -> bool:
    """Whether an event with these attributes passes all tests."""
    return all(test.passes(attributes.get(name)) for name, test in tested)


def is_wanted(sets: WantedSets | None, type_name: str, attributes: Mapping[str, Attribute]) -> bool:
    """Whether an event is in wanted sets; None wants everything."""
    return sets is None or any(holds(each, attributes) for each in sets.get(type_name, ()))


def implies(one: Conjunction, other: Conjunction) -> bool:
    """Whether every event that passes one conjunction passes the other."""
    tests = dict(one)
    return all(name in tests and tests[name].within(test) for name, test in other)


def covers(sets: WantedSets | None, others: WantedSets | None, types: Iterable[str] | None = None) -> bool:
    """Whether sets hold others, those of some types where they are given. True is certain; False may be too careful."""
    if sets is None:
        return True
    if others is None:
        return False
    names = others if types is None else [each for each in types if each in others]
    return all(any(implies(each, wide) for wide in sets.get(name, ())) for name in names for each in others[name])


def union(sets: Iterable[WantedSets | None]) -> WantedSets | None:
    """Sets that hold all the given ones, kept small; None where any wants everything."""
    found: dict[str, list[Conjunction]] = {}
    for each in sets:
        if each is None:
            return None
        for name, conjunctions in each.items():
            found.setdefault(name, []).extend(conjunctions)
    return {name: widened(found[name]) for name in sorted(found) if found[name]}


def widened(conjunctions: Iterable[Conjunction]) -> tuple[Conjunction, ...]:
    """Conjunctions of a type that hold all the given ones, joined and few.

    They are taken in some at a time, as each is compared with all before it.
    """
    waiting = sorted({_limited(each) for each in conjunctions}, key=_key)
    found: tuple[Conjunction, ...] = ()
    for place in range(0, len(waiting), AT_ONCE):
        found = _few([*found, *waiting[place : place + AT_ONCE]])
        if found == (EVERY_EVENT,):
            break
    return found


def _few(conjunctions: Sequence[Conjunction]) -> tuple[Conjunction, ...]:
    found = _absorbed(conjunctions)
    while True:
        joined = _joined(found)
        if joined is None:
            break
        found = _absorbed(joined)
    return found if len(found) <= MOST_CONJUNCTIONS else (_projected(found),)


def _limited(tested: Conjunction) -> Conjunction:
    return tuple(pair for pair in tested if pair[1].values is None or len(pair[1].values) <= MOST_VALUES)


def _absorbed(conjunctions: Sequence[Conjunction]) -> tuple[Conjunction, ...]:
    """Conjunctions without those that another holds, in a fixed order."""
    kept: list[Conjunction] = []
    for each in sorted(set(conjunctions), key=lambda tested: (len(tested), _key(tested))):
        if not any(implies(each, wide) for wide in kept):
            kept = [narrow for narrow in kept if not implies(narrow, each)] + [each]
    return tuple(sorted(kept, key=_key))


def _joined(conjunctions: Sequence[Conjunction]) -> list[Conjunction] | None:
    """Conjunctions that differ in the test of one attribute, joined where one test says the same; None for none."""
    for attribute in sorted({name for each in conjunctions for name, _ in each}):
        groups: dict[tuple[Conjunction, bool], list[Test]] = {}
        others: list[Conjunction] = []
        for each in conjunctions:
            test = dict(each).get(attribute)
            if test is None:
                others.append(each)
            else:
                rest = tuple(pair for pair in each if pair[0] != attribute)
                groups.setdefault((rest, test.values is None), []).append(test)
        made: list[Conjunction] = []
        for (rest, ranges), tests in groups.items():
            found = _ranges(tests) if ranges else _values(tests)
            made += [rest if test is None else tuple(sorted([*rest, (attribute, test)])) for test in found]
        if len(made) + len(others) < len(conjunctions):
            return made + others
    return None


def _values(tests: Sequence[Test]) -> list[Test | None]:
    """One test for all values of several; None in place of one for too many."""
    joined = one_of(value for test in tests for value in test.values or ())
    return [None if joined is None or len(joined.values or ()) > MOST_VALUES else joined]


def _ranges(tests: Sequence[Test]) -> list[Test | None]:
    """Ranges of which those that overlap or touch are joined."""
    bounds = sorted((_least(each), _most(each)) for each in tests)
    found = [bounds[0]]
    for least, most in bounds[1:]:
        if least <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], most)
        else:
            found.append((least, most))
    return [between(*each) for each in found]


def _projected(conjunctions: Sequence[Conjunction]) -> Conjunction:
    """One conjunction that holds all: a test for each attribute that all of them test alike."""
    tests: dict[str, Test | None] = {}
    for attribute in sorted(set.intersection(*({name for name, _ in each} for each in conjunctions))):
        of_it = [dict(each)[attribute] for each in conjunctions]
        if all(each.values is not None for each in of_it):
            tests[attribute] = _values(of_it)[0]
        elif all(each.values is None for each in of_it):
            tests[attribute] = between(min(map(_least, of_it)), max(map(_most, of_it)))
    return conjunction(tests) or EVERY_EVENT


def _least(test: Test) -> float:
    return -math.inf if test.least is None else test.least


def _most(test: Test) -> float:
    return math.inf if test.most is None else test.most


def _unsayable(value: Attribute) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    return isinstance(value, str) and len(value) > LONGEST_TEXT


def _identity(value: Attribute) -> tuple[bool, Attribute]:
    """Value of which equal ones are equal in the language, too: true is not 1, as it is in Python."""
    return type(value) is bool, value


def _order(value: Attribute) -> tuple[str, object, str]:
    """Order of values: of numbers by size, so that equal ones of several kinds stand together."""
    if isinstance(value, str):
        return "text", value, ""
    assert value is not None
    return "number", value, type(value).__name__


def _key(tested: Conjunction) -> str:
    return repr(tested)


def read_sets(types: Mapping[str, Sequence[Mapping[str, Test]]]) -> WantedSets:
    """Sets as they are declared in the directory; a conjunction that holds of no event is left out."""
    found = {
        name: (EVERY_EVENT,)
        if len(conjunctions) > MOST_READ
        else widened(made for each in conjunctions if (made := conjunction(each)) is not None)
        for name, conjunctions in types.items()
    }
    return {name: each for name, each in found.items() if each}


def declared(sets: WantedSets) -> dict[str, tuple[dict[str, Test], ...]]:
    """Sets as they are declared in the directory."""
    return {name: tuple(map(dict, conjunctions)) for name, conjunctions in sets.items()}

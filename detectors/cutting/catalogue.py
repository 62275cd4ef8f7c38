"""Catalogue of running detectors, by the canonical form of their patterns.

Design, section 2, "Sharing". Rejected: hashing each of the five thousand runs of a hundred-atom pattern, slower than a
plan may be. Instead a trie of joints as sequences of signed parts, walked from each part of a new pattern. Keys and
windows of the whole stand beside the sequence, as a detector with a longer window serves as well. Names are numbered
along the sequence, so equal sub-patterns match anywhere.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from distced.detectors.automata.properties import may_repeat
from distced.detectors.canonical.form import canonical_form
from distced.detectors.cutting.cut import DetectorPlan
from distced.detectors.cutting.joints import Joint, joint_of
from distced.detectors.cutting.uses import uses_of
from distced.detectors.language.names import all_registers
from distced.middleware.patterns.printer import format_pattern
from distced.middleware.patterns.tree import Init, Keyed, Pattern, Publication, Timing, Window, expressions_of, walk
from distced.middleware.sets.expressions import Literal
from distced.middleware.sets.expressions import variables as read_variables

NEAR: Final = 4
"""Maximum of candidates examined among detectors that differ in windows only."""

NULL: Final = Literal(None)

Sign: TypeAlias = bool | None
"""Whether a part strongly follows its predecessor; None for the first part."""

Token: TypeAlias = tuple[Sign, str, tuple[int, ...]]
"""A part in a sequence: the sign before it, its own canonical text, and the number of each name in it."""


class Word(NamedTuple):
    """A part by itself: its canonical text, and its names in order of occurrence."""

    text: str
    names: tuple[str, ...]


class Core(NamedTuple):
    """A pattern without its outermost keys (sorted attributes) and windows (shortest length, ns; None for none)."""

    pattern: Pattern
    key: tuple[str, ...]
    window: int | None


@dataclass(frozen=True, slots=True)
class Entry:
    """A reusable detector.

    Attributes:
        id, source: as in `DetectorPlan`.
        key: key attributes, in order.
        window: length of the window around the whole, ns; None for none.
        names: canonical names of variables and registers, by number.
        exports, registers: numbers of the names in its derivations, and of registers.
        repeats: whether a composite event may recur.
        size: number of parts.
    """

    id: str
    source: str
    key: tuple[str, ...]
    window: int | None
    names: tuple[str, ...]
    exports: frozenset[int]
    registers: frozenset[int]
    repeats: bool
    size: int


class Around(NamedTuple):
    """Surroundings of a sub-pattern: all key attributes, sorted; its `own` and shortest window, ns; None for none."""

    key: tuple[str, ...]
    own: int | None
    window: int | None


@dataclass(slots=True)
class _Shelf:
    """Detectors of one sequence and one key by the length of the window, and these lengths, sorted."""

    by_window: dict[int | None, list[Entry]] = field(default_factory=dict)
    lengths: list[int] = field(default_factory=list)

    def add(self, entry: Entry) -> None:
        if entry.window not in self.by_window and entry.window is not None:
            insort(self.lengths, entry.window)
        self.by_window.setdefault(entry.window, []).append(entry)

    def remove(self, detector: str, window: int | None) -> None:
        left = [each for each in self.by_window[window] if each.id != detector]
        if left:
            self.by_window[window] = left
            return
        del self.by_window[window]
        if window is not None:
            self.lengths.remove(window)

    def serving(self, around: Around) -> Iterator[Entry]:
        """Detectors of the required events in this place, possibly without matches longer than the window."""
        own, window = around.own, around.window
        if own is not None and (window is None or own < window):
            yield from self.by_window.get(own, ())
            return
        yield from self.by_window.get(None, ())
        if window is not None:
            # The shortest that are long enough find the least in vain.
            at = bisect_left(self.lengths, window)
            for length in self.lengths[at : at + NEAR]:
                yield from self.by_window[length]


@dataclass(slots=True)
class _TrieNode:
    """A node of the trie: the continuations of sequences, and by key the detectors of the sequence that ends here."""

    onward: dict[Token, _TrieNode] = field(default_factory=dict)
    shelves: dict[tuple[str, ...], _Shelf] = field(default_factory=dict)


class Catalogue:
    """Running detectors by canonical form, and by id."""

    def __init__(self) -> None:
        self.plans: dict[str, DetectorPlan] = {}
        self._root = _TrieNode()

    def __len__(self) -> int:
        return len(self.plans)

    def __contains__(self, detector: str) -> bool:
        return detector in self.plans

    def add(self, plan: DetectorPlan) -> None:
        """Add a running detector. One that publishes under a name, or consumes by epochs, is found by its id only."""
        if plan.id in self.plans:
            return
        self.plans[plan.id] = plan
        if _is_part(plan):
            entry, tokens = _in_trie(plan)
            node = self._root
            for token in tokens:
                node = node.onward.setdefault(token, _TrieNode())
            node.shelves.setdefault(entry.key, _Shelf()).add(entry)

    def remove(self, detector: str) -> None:
        """Remove a detector."""
        plan = self.plans.pop(detector, None)
        if plan is None or not _is_part(plan):
            return
        path = [self._root]
        entry, tokens = _in_trie(plan)
        for token in tokens:
            path.append(path[-1].onward[token])
        shelf = path[-1].shelves[entry.key]
        shelf.remove(detector, entry.window)
        if not shelf.by_window:
            del path[-1].shelves[entry.key]
        for token, node, child in reversed(list(zip(tokens, path[:-1], path[1:], strict=True))):
            if not child.shelves and not child.onward:
                del node.onward[token]

    def find(
        self, words: list[Word], joint: Joint, start: int, around: Around
    ) -> Iterator[tuple[int, Entry, tuple[str, ...]]]:
        """The detectors of runs that begin with a part: the end of each, the detector, and the names by number."""
        node = self._root
        numbers: dict[str, int] = {}
        for stop in range(start, len(words)):
            child = node.onward.get(token_of(words[stop], joint.strong[stop - 1] if stop > start else None, numbers))
            if child is None:
                return
            node = child
            shelf = node.shelves.get(around.key)
            if shelf is not None:
                for entry in shelf.serving(around):
                    yield stop + 1, entry, tuple(numbers)


def core_of(pattern: Pattern) -> Core:
    """The pattern inside its outermost keys and windows."""
    key: set[str] = set()
    window: int | None = None
    while isinstance(pattern, Keyed | Window):
        if isinstance(pattern, Keyed):
            key |= set(pattern.attributes)
        else:
            window = pattern.length if window is None else min(window, pattern.length)
        pattern = pattern.body
    return Core(pattern, tuple(sorted(key)), window)


def word_of(part: Pattern, registers: frozenset[str]) -> Word:
    """A part of a joint of a canonical tree, by itself; bare names that are no `registers` are attributes."""
    uses = uses_of(part)
    foreign = tuple(sorted(name for name in {*uses.read, *uses.updated} if name in registers and not uses.begun[name]))
    variables = {name for node in walk(part) for each in expressions_of(node) for name in read_variables(each)}
    names = frozenset((*uses.bound, *uses.begun, *variables, *foreign))
    if not names and not any(isinstance(node, Timing) for node in walk(part)):
        return Word(format_pattern(part), ())
    # A register from elsewhere would be taken for an attribute.
    closed = Init(tuple((name, NULL) for name in foreign), part) if foreign else part
    form = canonical_form(Publication(closed), exports=names)
    given = {canonical: name for name, canonical in form.names.items()}
    return Word(form.text, tuple(given[canonical] for canonical in sorted(given)))


def token_of(word: Word, sign: Sign, numbers: dict[str, int]) -> Token:
    """A part in its place in a sequence; names that occur first in it are numbered."""
    if not word.names:
        return (sign, word.text, ())
    return (sign, word.text, tuple(numbers.setdefault(name, len(numbers)) for name in word.names))


def _is_part(plan: DetectorPlan) -> bool:
    return plan.compiled.automaton.output is None and not plan.compiled.automaton.indivisible


def entry_of(plan: DetectorPlan) -> Entry:
    """A detector that may be read."""
    return _in_trie(plan)[0]


def _in_trie(plan: DetectorPlan) -> tuple[Entry, list[Token]]:
    automaton = plan.compiled.automaton
    pattern, _, window = core_of(plan.compiled.plain.pattern)
    joint = joint_of(pattern)
    registers = frozenset(all_registers(pattern))
    numbers: dict[str, int] = {}
    tokens = [
        token_of(word, joint.strong[place - 1] if place else None, numbers)
        for place, word in enumerate(word_of(part, registers) for part in joint.parts)
    ]
    entry = Entry(
        plan.id,
        plan.source,
        automaton.key,
        window,
        tuple(numbers),
        frozenset(numbers[name] for name in plan.exports),
        frozenset(number for name, number in numbers.items() if name in registers),
        may_repeat(automaton),
        len(tokens),
    )
    return entry, tokens

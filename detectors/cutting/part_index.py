"""Index of running detectors by the words of their patterns: which of them a new pattern might read as parts.

A `Catalogue` finds the cheapest cover, and needs the plan of every detector, which takes milliseconds to make and
kilobytes to keep. Here a detector is a number: the hash of its words, the canonical texts of the parts of its joint
(`catalogue.word_of`), without names, keys and windows. What matches no run of a pattern's words cannot be a part of it;
what matches is looked at by the catalogue. So plans are made of the few detectors that may be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from distced.detectors.compiler import Compiled
from distced.detectors.cutting.catalogue import core_of, word_of
from distced.detectors.cutting.joints import joint_of
from distced.detectors.language.names import all_registers
from distced.detectors.shapes import ShapedPattern
from distced.middleware.patterns.tree import Pattern, walk

Words: TypeAlias = tuple[str, ...]


class PartIndex:
    """Detectors by the hash of their words."""

    def __init__(self) -> None:
        self._hashes: dict[str, int] = {}
        # The only detector, as of most, or several.
        self._by_hash: dict[int, str | tuple[str, ...]] = {}

    def __len__(self) -> int:
        return len(self._hashes)

    def add(self, detector: str, compiled: Compiled) -> None:
        """Add a detector by its pattern."""
        self.remove(detector)
        (*_, found) = _hashes(_filled(compiled, _own_words)[0])
        self._hashes[detector] = found
        self._by_hash[found] = (*self._of(found), detector) if found in self._by_hash else detector

    def remove(self, detector: str) -> None:
        """Remove a detector, if it is there."""
        known = self._hashes.pop(detector, None)
        if known is not None:
            left = tuple(each for each in self._of(known) if each != detector)
            if left:
                self._by_hash[known] = left
            else:
                del self._by_hash[known]

    def _of(self, found: int) -> tuple[str, ...]:
        there = self._by_hash.get(found, ())
        return (there,) if isinstance(there, str) else there

    def candidates(self, compiled: Compiled) -> list[str]:
        """Detectors that may be parts of a pattern, each once; one of the whole pattern is among them."""
        found: dict[str, None] = {}
        for words in _filled(compiled, _all_words):
            for start in range(len(words)):
                for each in _hashes(words[start:]):
                    found |= dict.fromkeys(self._of(each))
        return list(found)


def _hashes(words: Iterable[str]) -> Iterator[int]:
    """Hash of each beginning of words."""
    made = 0
    for word in words:
        made = hash((made, word))
        yield made


def _filled(compiled: Compiled, words: Callable[[Compiled], list[Words]]) -> list[Words]:
    """Words of a pattern; of a known shape those of the shape, with its constants."""
    if isinstance(compiled, ShapedPattern):
        return [
            tuple(compiled.shape.filled(each, compiled.constants) for each in made)
            for made in compiled.shape.remembered(words)
        ]
    return words(compiled)


def _own_words(compiled: Compiled) -> list[Words]:
    """Words of a pattern, without its outermost keys and windows."""
    pattern = compiled.form.publication.pattern
    return [_words(pattern, frozenset(all_registers(pattern)))]


def _all_words(compiled: Compiled) -> list[Words]:
    """Words of a pattern and of each node in it."""
    pattern = compiled.form.publication.pattern
    registers = frozenset(all_registers(pattern))
    return list(dict.fromkeys(_words(node, registers) for node in walk(pattern)))


def _words(pattern: Pattern, registers: frozenset[str]) -> Words:
    return tuple(word_of(part, registers).text for part in joint_of(core_of(pattern).pattern).parts)

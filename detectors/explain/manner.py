"""Properties of a pattern as a whole beside its states, in words: how it is consumed, begins and emits. One with any of
them is detected whole."""

from __future__ import annotations

from typing import Final

from distced.detectors.automata.automaton import Automaton

ONCE: Final = (
    "once: an instance for each value of the key stands in the start; a composite event holds what came since the last"
)
SETTLED: Final = (
    "settled: emitted at the end of an instant, for what then stands in a generative state, or has ended there"
)


def manner_of(automaton: Automaton) -> tuple[str, ...]:
    """Short forms, as in the text of the pattern."""
    found = (("by epochs", automaton.epochs), ("once", automaton.once), ("settled", automaton.settled))
    return tuple(word for word, holds in found if holds)


def remarks_of(automaton: Automaton) -> tuple[str, ...]:
    """Explanations of what differs from a pattern that begins with every event."""
    found = ((ONCE, automaton.once), (SETTLED, automaton.settled))
    return tuple(remark for remark, holds in found if holds)

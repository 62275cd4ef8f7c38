"""Properties of a pattern as a whole beside its states, in words: how it is consumed, begins and emits. One with any of
them is detected whole."""

from __future__ import annotations

from typing import Final

from distced.detectors.automata.automaton import Automaton
from distced.middleware.patterns.printer import format_quiet, format_selection

ONCE: Final = (
    "once: an instance for each value of the key stands in the start; a composite event holds what came since the last"
)
SETTLED: Final = (
    "settled: emitted at the end of an instant, for what then stands in a generative state, or has ended there"
)

CONSUMING: Final = {
    "variables": "consuming: instances end that have an event in a variable that an emitted match has in one",
    "all": "consuming all: all instances end with an emitted match",
}


def manner_of(automaton: Automaton) -> tuple[str, ...]:
    """Short forms, as in the text of the pattern."""
    found = (("by epochs", automaton.epochs), ("once", automaton.once), ("settled", automaton.settled))
    words = [word for word, holds in found if holds]
    if automaton.selects and (output := automaton.output) is not None:
        words += [word for word, holds in (("take", output.take), ("consuming", output.consuming)) if holds]
    words += [] if automaton.quiet is None else [format_quiet(automaton.quiet)]
    return tuple(words)


def remarks_of(automaton: Automaton) -> tuple[str, ...]:
    """Explanations of what differs from a pattern that begins with every event."""
    found = ((ONCE, automaton.once), (SETTLED, automaton.settled))
    remarks = [remark for remark, holds in found if holds]
    if automaton.selects and (output := automaton.output) is not None:
        if output.take:
            selections = ", ".join(map(format_selection, output.take))
            remarks.append(f"take {selections}: what is selected so of the matches that one event completes is emitted")
        remarks += [CONSUMING[output.consuming]] if output.consuming else []
    if (quiet := automaton.quiet) is not None:
        of = f" of the same {', '.join(quiet.by)}" if quiet.by else ""
        remarks.append(
            f"{format_quiet(quiet)}: after a composite event none{of} is emitted for this time; run by the stepwise "
            "engine, within the columnar one, too"
        )
    return tuple(remarks)

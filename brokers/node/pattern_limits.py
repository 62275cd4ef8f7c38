"""Limits of the automaton of a pattern: states, registers, nesting, and the cost of its conditions for each event.

They are known before its first event, unlike those of a detector (`detectors.limits`), so that a pattern beyond them is
refused and no node hosts it. The language has limits of its own, which these lower. Parts were made by nodes of a
pattern that is within them.
"""

from __future__ import annotations

from distced.brokers.core.node_location import SubscriptionLimits
from distced.detectors.automata.automaton import Automaton
from distced.detectors.automata.properties import guard_cost
from distced.detectors.compiler import Compiled
from distced.detectors.language.depth import MOST_NESTED, check_depth
from distced.middleware.model.errors import DistcedError, LimitError


def check_size(compiled: Compiled, limits: SubscriptionLimits) -> None:
    """Raise `DistcedError` for a pattern beyond the limits; its automaton is built."""
    automaton = compiled.structure
    _check("states of a pattern", _states(automaton), limits.states, "take iterations apart", "--max-states")
    registers = _registers(automaton)
    _check("registers of a pattern", registers, limits.registers, "keep fewer values", "--max-registers")
    cost = guard_cost(automaton)
    advice = "derive a type by a condition, and read that"
    _check("operators in the conditions for one event", cost, limits.guard, advice, "--max-guard")
    if limits.nesting < MOST_NESTED:
        try:
            check_depth(compiled.publication.pattern, text=compiled.source, most_nested=limits.nesting)
        except DistcedError as error:
            advice = f"{error.advice}; or start nodes with --max-nesting"
            raise LimitError(
                error.problem, given=error.given, allowed=error.allowed, where=error.where, advice=advice
            ) from None


def _check(what: str, given: int, allowed: int, advice: str, option: str) -> None:
    if given > allowed:
        raise LimitError(
            f"more {what} than nodes accept",
            given=f"{given:,}",
            allowed=f"{allowed:,}",
            advice=f"{advice}, or start nodes with {option}",
        )


def _states(automaton: Automaton) -> int:
    return len(automaton.states) + sum(map(_states, automaton.inner))


def _registers(automaton: Automaton) -> int:
    return len(automaton.registers) + sum(map(_registers, automaton.inner))

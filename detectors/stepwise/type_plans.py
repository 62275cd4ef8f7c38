"""What events of a type may do in an automaton: where they may begin an instance, and which waiting ones they meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from distced.detectors.automata.automaton import Automaton, timer_type
from distced.detectors.stepwise.instance_store import Pool
from distced.detectors.stepwise.plans import MovePlan, Planner, StatePlan


@dataclass(frozen=True, slots=True)
class TypePlan:
    """What an event of one type may do.

    Attributes:
        starts: the moves out of start states that may begin an instance, each with its reasons to be in the domain.
        visits: the states that look at such events, with their pools.
        looks: the start states that look at such events, by index.
    """

    starts: tuple[tuple[MovePlan, StatePlan], ...]
    visits: tuple[tuple[Pool, StatePlan], ...]
    looks: tuple[tuple[int, StatePlan], ...]


class TypePlans:
    """The plans of an automaton, each made when it is first asked for.

    Attributes:
        by_type: those that there are; None for a type that nothing looks at.
    """

    def __init__(self, automaton: Automaton, planner: Planner, pools: Sequence[Pool]) -> None:
        self.by_type: dict[str, TypePlan | None] = {}
        self._automaton = automaton
        self._planner = planner
        self._pools = pools
        self._timers: dict[tuple[int, int], StatePlan | None] = {}

    def of(self, type_name: str) -> TypePlan | None:
        """What events of a type may do; None where nothing looks at them."""
        if type_name not in self.by_type:
            self.by_type[type_name] = self._make(type_name)
        return self.by_type[type_name]

    def of_timer(self, state: int, timer: int) -> StatePlan | None:
        """What a time event does to an instance in a state that has set it off."""
        place = (state, timer)
        if place not in self._timers:
            self._timers[place] = self._planner.plan(state, timer_type(timer), timer=True)
        return self._timers[place]

    def _make(self, type_name: str) -> TypePlan | None:
        automaton = self._automaton
        starts: list[tuple[MovePlan, StatePlan]] = []
        looks: list[tuple[int, StatePlan]] = []
        for index in automaton.starts:
            plan = self._planner.plan(index, type_name)
            if plan is not None:
                starts += [(move, plan) for move in plan.moves]
                looks.append((index, plan))
        reached = {state for arrival in automaton.arrivals for state in arrival}
        visits: list[tuple[Pool, StatePlan]] = []
        for index in sorted(reached):
            plan = self._planner.plan(index, type_name)
            if plan is not None:
                visits.append((self._pools[index], plan))
        return TypePlan(tuple(starts), tuple(visits), tuple(looks)) if looks or visits else None

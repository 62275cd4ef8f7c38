"""Cayuga's technical benchmark: the stream, and the queries out of five templates.

cayuga-algebra-cesar, section 5.1 and Table 2. One stream of events with four discrete and four continuous attributes,
uniformly distributed, one a tick. A query has three steps; each asks for two values of discrete attributes, one of them
the *primary* one that all three steps ask for, and for two ranges of continuous ones. These values follow Zipf's law,
so that queries have steps in common. A template is compiled once, and its conditions are exchanged in the automaton:
compiling 400,000 patterns from text takes a quarter of an hour.

The templates are written in the core language and in Cayuga Event Language (CEL). What the nondeterministic ones skip
is hidden in the core, and a part of the run of a FOLD.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from random import Random
from typing import Final, Literal, TypeAlias, get_args

import numpy as np

from distced.detectors.automata.automaton import Automaton
from distced.detectors.columnar.batch.columns import Batch
from distced.detectors.compiler import Compiled, compile_pattern, compile_translation
from distced.detectors.frontends.languages import translate
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import EventType, Kind, TypeRegistry
from distced.middleware.sets.describable import ConditionByType
from distced.middleware.sets.expressions import (
    Binary,
    Expression,
    Name,
    conjunction,
    format_expression,
)
from distced.middleware.sets.expressions import Literal as Constant

Template: TypeAlias = Literal["LinearStat", "LinearDyn", "Filter", "NonDeterministic", "NonDeterministicAgg"]
TEMPLATES: Final[tuple[Template, ...]] = get_args(Template)

Language: TypeAlias = Literal["core", "cel"]
LANGUAGES: Final[tuple[Language, ...]] = get_args(Language)

DISCRETE: Final = ("a", "b", "c", "d")
CONTINUOUS: Final = ("w", "x", "y", "z")
DOMAIN: Final = 100
RANGES: Final = 25
STEPS: Final = 3
DURATION: Final = 20  # window, in ticks; an event 20 ticks after the first is too late
MARKS: Final = tuple(f"step{place}" for place in range(STEPS + 1))
"""Attributes that stand for the conditions in a template."""

_ALL: Final = ", ".join((*DISCRETE, *CONTINUOUS, *MARKS))
_FIRST: Final = "FILTER{{{0}}} (S)"
_RUN: Final = " FOLD{{DUR < 20 AND {3}, , }} S"
TEXTS: Final[Mapping[Language, Mapping[Template, str]]] = {
    "core": {
        "LinearStat": "[S where {0}] ; [S where {1} <= S] ; [S where {2} <= S]",
        "LinearDyn": "[S where {0} as x] ; [S where {1} and w >= x.w as y <= S] ; [S where {2} and w >= y.w <= S]",
        "Filter": "[S where {0}] ; [S where {1} <= S where {3}] ; [S where {2} <= S where {3}] within 19ns",
        "NonDeterministic": "[S where {0}] ; ~[S where {1}]* [S where {1}] ; ~[S where {2}]* [S where {2}] within 19ns",
        "NonDeterministicAgg": (
            "init s = 0 : ([S where {0} set s = s + w] ; ~[S where {1}]* [S where {1} set s = s + w] ; "
            "~[S where {2}]* [S where {2} set s = s + w]) within 19ns -> Sum(s = s)"
        ),
    },
    "cel": {
        "LinearStat": "SELECT w FROM FILTER{{{2}}} ((FILTER{{{1}}} (" + _FIRST + " NEXT (S))) NEXT (S))",
        "LinearDyn": (
            "SELECT w FROM FILTER{{{2} AND w >= w_1}} ((FILTER{{{1} AND w >= w_1}} (" + _FIRST + " NEXT (S))) NEXT (S))"
        ),
        "Filter": (
            "SELECT w FROM FILTER{{{2}}} ((FILTER{{{1}}} (" + _FIRST + " NEXT{{DUR < 20 AND {3}}} (S)))"
            " NEXT{{DUR < 20 AND {3}}} (S))"
        ),
        "NonDeterministic": (
            # Events of equal values and ends are one: without the earlier values there are fewer.
            "SELECT w1, w_1 AS w2, w FROM FILTER{{{2}}} "
            "((SELECT w_1 AS w1, " + _ALL + " FROM FILTER{{{1}}} (" + _FIRST + _RUN + "))" + _RUN + ")"
        ),
        "NonDeterministicAgg": (
            "SELECT s + w AS s FROM FILTER{{{2}}} "
            "((SELECT w_1 + w AS s, " + _ALL + " FROM FILTER{{{1}}} (" + _FIRST + _RUN + "))" + _RUN + ")"
        ),
    },
}
"""Texts of the templates; the numbers are placeholders for the conditions of steps, the last for the primary value."""

_KINDS: Final[dict[str, Kind]] = {
    **dict.fromkeys((*DISCRETE, *CONTINUOUS), "number"),
    **dict.fromkeys(MARKS, "boolean"),
}


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters of random queries and events."""

    template: Template = "Filter"
    zipf: tuple[float, float, float] = (1.0, 1.0, 0.8)  # of the attributes and the values of each step
    selectivity: float = 0.7  # the share of the values of a continuous attribute that a range lets through
    domain: int = DOMAIN  # number of values of a discrete attribute
    seed: int = 1
    language: Language = "core"


@dataclass(frozen=True, slots=True)
class Query:
    """Conditions of one query: of each step, and that of the primary value."""

    steps: tuple[Expression, ...]
    primary: Expression


def parse_templates(text: str) -> tuple[Template, ...]:
    """Templates from a text with commas between their names, or `all`."""
    asked = TEMPLATES if text == "all" else tuple(each.strip() for each in text.split(","))
    found = tuple(each for each in TEMPLATES if each in asked)
    if len(found) != len(set(asked)):
        allowed = f"{', '.join(TEMPLATES)}, or all"
        raise DistcedError("no such template", given=text, allowed=allowed, where="--templates")
    return found


def queries(parameters: Parameters, count: int) -> Iterator[Query]:
    """The first n queries; they are the same for every n."""
    random = Random(f"{parameters.seed} queries")
    attributes = [_zipf(len(DISCRETE), parameters.zipf[0]), _zipf(len(CONTINUOUS), parameters.zipf[0])]
    values = [_zipf(parameters.domain, each) for each in parameters.zipf]
    ranges = [_zipf(RANGES, each) for each in parameters.zipf]
    # The most frequent values are not the same for all attributes.
    shuffled = {name: random.sample(range(parameters.domain), parameters.domain) for name in DISCRETE}
    for _ in range(count):
        primary = DISCRETE[attributes[0](random)]
        fixed = _equals(primary, shuffled[primary][values[0](random)])
        steps = []
        for step in range(STEPS):
            while (other := DISCRETE[attributes[0](random)]) == primary:
                pass
            condition = conjunction(fixed, _equals(other, shuffled[other][values[step](random)]))
            pair = {attributes[1](random)}
            while len(pair) < 2:
                pair.add(attributes[1](random))
            for number in sorted(pair):
                least = ranges[step](random) * (1 - parameters.selectivity) / (RANGES - 1)
                for operator, bound in ((">=", least), ("<=", least + parameters.selectivity)):
                    condition = conjunction(condition, Binary(operator, Name(CONTINUOUS[number]), Constant(bound)))
            steps.append(condition)
        yield Query(tuple(steps), fixed)


def text_of(query: Query, template: Template, language: Language = "core") -> str:
    """The query as text."""
    conditions = [_written(each, language) for each in query.steps]
    primary = _written(query.primary, language)
    # The event at hand, and not that of the step before.
    return TEXTS[language][template].format(*conditions, primary if language == "core" else f"$2.{primary}")


def compiled_query(text: str, language: Language = "core") -> Compiled:
    """The query, checked and compiled."""
    if language == "core":
        return compile_pattern(text)
    registry = TypeRegistry([EventType("S", _KINDS)])
    return compile_translation(translate(text, language, registry), registry)[0][0]


def with_automata(parameters: Parameters, count: int) -> Iterator[tuple[Query, Automaton]]:
    """n queries with their automata, each derived from that of the template."""
    marks = [Binary("==", Name(each), Constant(True)) for each in MARKS]
    text = text_of(Query(tuple(marks[:STEPS]), marks[STEPS]), parameters.template, parameters.language)
    template = compiled_query(text, parameters.language).automaton
    for number, query in enumerate(queries(parameters, count)):
        exchanged: dict[Expression, Expression] = dict(zip(marks, (*query.steps, query.primary), strict=True))
        known: dict[int, ConditionByType] = {}
        positions = tuple(
            replace(
                position,
                label=_exchanged(position.label, exchanged, known),
                domain=_exchanged(position.domain, exchanged, known),
            )
            for position in template.positions
        )
        yield query, replace(template, canonical_id=f"c{number:016x}", positions=positions)


def stream(count: int, seed: int = 1, begin: int = 0, domain: int = DOMAIN) -> Batch:
    """n events, one a tick, from tick `begin` on."""
    random = np.random.default_rng(seed)
    attributes: dict[str, object] = {name: random.integers(0, domain, count) for name in DISCRETE}
    attributes |= {name: random.random(count) for name in CONTINUOUS}
    ticks = np.arange(begin, begin + count)
    return Batch.of_arrays(np.zeros(count, np.int32), ["S"], ticks, attributes, source="stream", first=begin)


def _zipf(count: int, power: float) -> Callable[[Random], int]:
    """Random numbers from 0 with Zipf's distribution: the k-th has a probability proportional to 1 / k to a power."""
    sums = list(accumulate(1 / (place + 1) ** power for place in range(count)))
    return lambda random: random.choices(range(count), cum_weights=sums)[0]


def _equals(name: str, value: int) -> Expression:
    return Binary("==", Name(name), Constant(value))


def _exchanged(
    form: ConditionByType, exchanged: Mapping[Expression, Expression], known: dict[int, ConditionByType]
) -> ConditionByType:
    """A condition of the template with the values of a query; the same object where it stays the same."""
    if id(form) not in known:
        by_type = {name: _with(condition, exchanged) for name, condition in form.by_type.items()}
        known[id(form)] = ConditionByType(by_type, form.others)
    return known[id(form)]


def _with(condition: Expression, exchanged: Mapping[Expression, Expression]) -> Expression:
    if condition in exchanged:
        return exchanged[condition]
    if isinstance(condition, Binary) and condition.operator == "and":
        return conjunction(_with(condition.left, exchanged), _with(condition.right, exchanged))
    return condition


def _written(condition: Expression, language: Language) -> str:
    text = format_expression(condition)
    return text if language == "core" else text.replace(" and ", " AND ").replace(" == ", " = ").replace("true", "TRUE")

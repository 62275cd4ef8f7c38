"""The printer and the parser are inverse to one another, and any text is read or refused with a `PatternError`."""

from __future__ import annotations

import math
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from distced.detectors.compiler import compile_pattern, compile_publication
from distced.detectors.language.depth import check_depth
from distced.detectors.language.parser import parse_expression, parse_file, parse_publication, parse_set
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.errors import PatternError
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import DAY, INSTANT_MAX
from distced.middleware.patterns.printer import format_file, format_publication
from distced.middleware.patterns.tree import (
    SELECTING,
    Alternation,
    Atom,
    Calculated,
    Concatenation,
    DerivedType,
    Hidden,
    Init,
    Instant,
    Iteration,
    Keyed,
    Output,
    Parallel,
    PatternFile,
    Publication,
    Quiet,
    Reference,
    Relative,
    Scope,
    Selection,
    Sequence,
    TimeOfDay,
    Timing,
    Window,
)
from distced.middleware.sets.describable import AnySet, Difference, Filtered, Intersection, TypeSet, Union, format_set
from distced.middleware.sets.expressions import (
    LEVELS,
    Binary,
    Call,
    Field,
    Literal,
    Moment,
    Name,
    Unary,
    format_expression,
)
from tests.support.random_patterns import PatternMaker

# Trees, as the parser can give them.

DEFINED = ("Meeting", "by", "strange name")
TYPE_NAMES = st.sampled_from(["A", "B", "Temp", "any", "where", "lo", "type", "ä", "x1", "with blank", "1st", "in"])
NAMES = st.sampled_from(["v", "room", "max", "hi", "set", "inf", "null", "été", "a b", "@0", "in", "if"])
NUMBERS = st.one_of(
    st.integers(min_value=-INSTANT_MAX, max_value=INSTANT_MAX),
    st.floats(allow_nan=False),
    st.sampled_from([0, -0.0, 1e16, 5e-324, math.inf, -math.inf]),
)
VALUES = st.one_of(NUMBERS, st.text(max_size=8), st.booleans(), st.none())
# `not` is no operator of two.
OPERATORS = st.sampled_from([operator for level in LEVELS for operator in level if operator != "not"])


def _functions(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(lambda a, b: Call("max", (a, b)), inner, inner),
        st.builds(lambda a: Call("abs", (a,)), inner),
        st.builds(lambda a, b: Call("contains", (a, b)), inner, inner),
        st.builds(lambda a, b, c: Call("coalesce", (a, b, c)), inner, inner, inner),
        st.builds(lambda a, b, c: Call("if", (a, b, c)), inner, inner, inner),
        st.builds(lambda function, a: Call(function, (a,)), st.sampled_from(["sum", "avg", "min", "first"]), inner),
        st.builds(lambda a, b: Call("nth", (a, b)), inner, inner),
        st.builds(lambda name: Call("count", (Moment("hi", name),)), NAMES),
        st.builds(lambda a, b: Call("in", (a, *b)), inner, st.lists(inner, min_size=1, max_size=3)),
        st.builds(
            lambda function, a, zone: Call(function, (a, Literal(zone))),
            st.sampled_from(["hour", "minute", "weekday", "date"]),
            inner.filter(lambda a: not (isinstance(a, Literal) and isinstance(a.value, str))),
            st.sampled_from(["UTC", "Europe/London"]),
        ),
    )


EXPRESSIONS: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.builds(Literal, VALUES),
        st.builds(Name, NAMES),
        st.builds(Field, NAMES, NAMES),
        st.builds(Moment, st.sampled_from(["lo", "hi"]), st.one_of(st.just(""), NAMES)),
    ),
    lambda inner: st.one_of(
        st.builds(Unary, st.sampled_from(["not", "-"]), inner),
        st.builds(Binary, OPERATORS, inner, inner),
        _functions(inner),
    ),
    max_leaves=6,
)

SETS: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.builds(TypeSet, TYPE_NAMES), st.just(AnySet()), st.just(Union(()))),
    lambda inner: st.one_of(
        st.builds(Union, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(Intersection, inner, inner),
        st.builds(Difference, inner, inner),
        st.builds(Filtered, inner, EXPRESSIONS),
    ),
    max_leaves=4,
)

# A label or a domain of a single member in braces reads back without them where a list may stand.
ATOMS = st.builds(
    Atom,
    SETS,
    st.one_of(st.none(), SETS),
    st.one_of(st.just(""), NAMES),
    st.dictionaries(NAMES, EXPRESSIONS, max_size=2).map(lambda pairs: tuple(pairs.items())),
)
TIMES = st.tuples(st.integers(0, 3), st.one_of(st.none(), st.integers(1, 3))).filter(
    lambda times: times[1] is None or times[0] <= times[1]
)
WHENS = st.one_of(
    st.builds(Relative, st.integers(0, 10**18)),
    st.builds(Instant, st.integers(-(10**18), 4 * 10**18)),
    st.builds(
        lambda variable, operator, value, turned: Calculated(
            Binary(operator, *((value, Field(variable, "v")) if turned else (Field(variable, "v"), value)))
        ),
        NAMES,
        st.sampled_from("+-*/%"),
        EXPRESSIONS,
        st.booleans(),
    ),
    st.builds(TimeOfDay, st.integers(0, DAY - 1), st.one_of(st.integers(-1439, 1439), st.just("Europe/London"))),
)
# Words of the language among them.
VARIABLES = st.one_of(NAMES, st.sampled_from(["first", "all", "consuming", "where"]))
REGISTERS = st.dictionaries(NAMES, EXPRESSIONS, min_size=1, max_size=2).map(lambda pairs: tuple(pairs.items()))


def _joined(node: Any, inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    # What is joined is no joint of the same kind, unless in parentheses, which nested nodes stand for.
    return st.builds(node, st.lists(inner, min_size=2, max_size=3).map(tuple))


PATTERNS: st.SearchStrategy[Any] = st.recursive(
    st.one_of(ATOMS, st.builds(Reference, st.sampled_from(DEFINED))),
    lambda inner: st.one_of(
        _joined(Concatenation, inner),
        _joined(Sequence, inner),
        _joined(Alternation, inner),
        st.builds(Parallel, inner, inner),
        st.builds(lambda body, times: Iteration(body, *times), inner, TIMES),
        st.builds(Timing, inner, inner, NAMES, WHENS),
        st.builds(Scope, inner, SETS),
        st.builds(Hidden, inner),
        st.builds(Window, inner, st.integers(0, 10**18)),
        st.builds(Keyed, inner, st.lists(NAMES, min_size=1, max_size=2, unique=True).map(tuple)),
        st.builds(Init, REGISTERS, inner),
    ),
    max_leaves=5,
)
OUTPUTS = st.builds(
    Output,
    TYPE_NAMES,
    st.dictionaries(NAMES, EXPRESSIONS, max_size=2).map(lambda pairs: tuple(pairs.items())),
    st.one_of(st.none(), EXPRESSIONS),
    st.lists(
        st.one_of(
            st.builds(Selection, st.sampled_from(SELECTING), VARIABLES),
            st.builds(Selection, st.just("where"), VARIABLES, EXPRESSIONS),
        ),
        max_size=2,
    ).map(tuple),
    st.sampled_from(["", "variables", "all"]),
    st.one_of(st.none(), st.builds(Quiet, st.integers(1, 10**12), st.lists(NAMES, max_size=2, unique=True).map(tuple))),
)
DERIVED = st.builds(
    lambda name, base, condition, every, by, computed, quiet, last: (
        DerivedType(name, base, condition, 0, by, tuple(computed.items()), 0, True)
        if last
        else DerivedType(
            name, base, condition, 0 if quiet else every, by if every or quiet else (), tuple(computed.items()), quiet
        )
    ),
    TYPE_NAMES,
    st.one_of(TYPE_NAMES, st.sampled_from(["last", "with", "every", "at"])),
    st.one_of(st.none(), EXPRESSIONS),
    st.integers(0, 10**12),
    st.lists(NAMES, max_size=2, unique=True).map(tuple),
    st.dictionaries(NAMES, EXPRESSIONS, max_size=2),
    st.sampled_from([0, 0, 1, 10**10]),
    st.booleans(),
)
FILES = st.builds(
    PatternFile,
    st.lists(DERIVED, max_size=2).map(tuple),
    st.tuples(*(PATTERNS.map(lambda pattern, name=name: (name, pattern)) for name in DEFINED)),
    st.lists(
        st.builds(
            Publication,
            PATTERNS,
            OUTPUTS,
            consumption=st.sampled_from(["", "ordered", "epoch"]),
            once=st.booleans(),
            settled=st.booleans(),
        ),
        max_size=2,
    ).map(tuple),
)


@given(EXPRESSIONS)
def test_expressions_read_back(expression: Any) -> None:
    assert parse_expression(format_expression(expression)) == expression


@given(SETS)
def test_sets_read_back(described: Any) -> None:
    assert parse_set(format_set(described)) == described


@given(st.builds(Publication, PATTERNS, st.one_of(st.none(), OUTPUTS), once=st.booleans(), settled=st.booleans()))
def test_patterns_read_back(publication: Publication) -> None:
    text = format_publication(publication)
    assert parse_publication(text, DEFINED) == publication, text


@given(FILES)
@settings(max_examples=settings().max_examples // 2)
def test_files_read_back(file: PatternFile) -> None:
    text = format_file(file)
    assert parse_file(text) == file, text


SEEDS = st.integers(min_value=0, max_value=2**32)
ONE_AFTER_THE_OTHER = (Phase.explicit, Phase.reuse, Phase.generate)


@pytest.mark.slow
@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER)
def test_random_patterns_read_back_and_keep_their_id(seed: int) -> None:
    random = Random(seed)
    for _ in range(10):
        publication = PatternMaker(random).publication(random.randrange(1, 9))
        text = format_publication(publication)
        assert parse_publication(text) == publication
        with suppress(PatternError):
            assert (
                compile_pattern(text).automaton.canonical_id == compile_publication(publication).automaton.canonical_id
            )


# Text that means nothing.

WORDS = """
[ ] ( ) { } <= ; & | ~ * + , : @ = == -> - ! ⊆ ¬ ∥ A B T x any as where set init once within by at and or not true null
inf lo hi max 1 2.5 5s 1h 19:00 2026-11-21T08:00Z 'x' " ` # \\ . < é 0 99999999999999999999
"""
SCRAPS = st.lists(st.sampled_from([*WORDS.split(), "\n", "\t"]), max_size=14).map(" ".join)


def _read(text: str) -> None:
    try:
        publication = parse_publication(text)
    except PatternError as error:
        assert not text or (error.line >= 1 and error.column >= 1 and "^" in error.snippet)
        return
    again = format_publication(publication)
    assert parse_publication(again) == publication, again


@given(st.one_of(st.text(max_size=30), SCRAPS))
@settings(max_examples=settings().max_examples * 5)
def test_random_text_is_read_or_refused(text: str) -> None:
    _read(text)


@given(st.one_of(st.text(max_size=30), SCRAPS))
def test_random_text_is_a_file_or_refused(text: str) -> None:
    try:
        file = parse_file(text)
    except PatternError:
        return
    assert parse_file(format_file(file)) == file


@given(SEEDS)
@settings(phases=ONE_AFTER_THE_OTHER)
def test_damaged_patterns_are_run_or_refused(seed: int) -> None:
    random = Random(seed)
    for _ in range(10):
        text = format_publication(PatternMaker(random).publication(random.randrange(1, 7)))
        for _ in range(random.randrange(1, 4)):
            text = _damaged(random, text)
        _read(text)
        try:
            engine = StepwiseEngine([compile_pattern(text)])
        except PatternError:
            continue
        events = [Event("ABC"[seq % 3], seq, seq, "e", seq, {"k": seq % 2, "v": seq % 3}) for seq in range(6)]
        engine.feed(events)
        engine.finish()


def _damaged(random: Random, text: str) -> str:
    start, end = sorted(random.randrange(len(text) + 1) for _ in range(2))
    match random.randrange(4):
        case 0:
            return text[:start] + text[min(end, start + 4) :]
        case 1:
            return text[:start] + random.choice("[](){}<=;&|~*+,:@.-'` 5sABTxn\n") + text[start:]
        case 2:
            return text[:end] + text[start:]
        case _:
            return text[:start] + text[start:end][::-1] + text[end:]


@pytest.mark.slow
@given(PATTERNS)
def test_patterns_of_allowed_depth_read_back(pattern: Any) -> None:
    """Whatever the limits let through can be printed and read again, also deep inside others."""
    for _ in range(60):
        wrapped = Hidden(Scope(Iteration(Concatenation((pattern, pattern)), 1, None), TypeSet("A")))
        try:
            check_depth(wrapped)
        except PatternError:
            break
        pattern = wrapped
        # Twice as large each time: look at one of the two only.
        pattern = Hidden(Scope(Iteration(pattern.body.body.body.parts[0], 1, None), TypeSet("A")))
    text = format_publication(Publication(pattern))
    assert parse_publication(text, DEFINED).pattern == pattern

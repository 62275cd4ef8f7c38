"""Tables of words are those of the parsers: each literal that a parser compares a word with is in the table of its
language, and each word of the table is compared with by a parser."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from types import ModuleType

import pytest

from distced.detectors.frontends.algebra import algebra_parser
from distced.detectors.frontends.cedmos import cedmos_parser
from distced.detectors.frontends.cedr import cedr_conditions, cedr_parser
from distced.detectors.frontends.cel import cel_parser
from distced.detectors.frontends.lexicon import Lexicon
from distced.detectors.frontends.pretty import sentence_parser
from distced.detectors.language import expression_parser, parser
from distced.detectors.language.contextual_words import EXPRESSION_WORDS, PATTERN_WORDS
from distced.middleware.sets.aggregates import AGGREGATES
from distced.middleware.sets.expressions import RESERVED
from distced.middleware.sets.state_reads import ALL, CURRENT
from distced.middleware.sets.values import FUNCTIONS

TAKING = {"at", "take", "expect", "word", "take_word", "expect_word", "_left_associative"}
TAKING |= {"_at", "_take", "_expect", "_at_both", "_take_name", "_at_word"}
"""Methods of scanners and parsers that compare the current word with their arguments."""

COMPARED = (".text", ".attribute", ".lower()", "written", "parts[")
"""In the text of an expression that is a word."""

CALLED = {*FUNCTIONS, *AGGREGATES, CURRENT, ALL, "lo", "hi"}
FRONTENDS: dict[str, tuple[Lexicon, tuple[ModuleType, ...]]] = {
    "cel": (cel_parser.CelScanner.lexicon, (cel_parser,)),
    "algebra": (algebra_parser.AlgebraScanner.lexicon, (algebra_parser,)),
    "cedmos": (cedmos_parser.CedmosScanner.lexicon, (cedmos_parser,)),
    "cedr": (cedr_conditions.CedrScanner.lexicon, (cedr_parser, cedr_conditions)),
    "pretty": (sentence_parser.PrettyScanner.lexicon, (sentence_parser,)),
}


def literals(node: ast.expr, module: ModuleType) -> Iterator[str]:
    """Texts that an expression is, or lists, by itself or by a constant of the module."""
    match node:
        case ast.Constant(value=str(value)):
            yield value
        case ast.Tuple(elts=each) | ast.List(elts=each) | ast.Set(elts=each):
            for one in each:
                yield from literals(one, module)
        case ast.Starred(value=value):
            yield from literals(value, module)
        case ast.Name(id=name):
            yield from _texts(getattr(module, name, ()))
        case ast.Attribute(value=ast.Name(id=owner), attr=name):
            yield from _texts(getattr(getattr(module, owner, None), name, ()))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple | list | set | frozenset | dict):
        yield from (each for each in value if isinstance(each, str))


def compared(module: ModuleType) -> set[str]:
    """Words that a parser compares with."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        match node:
            case ast.Compare(left=left, comparators=others):
                sides = [left, *others]
                if any(mark in ast.unparse(side) for side in sides for mark in COMPARED):
                    found.update(text for side in sides for text in literals(side, module))
            case ast.Call(func=ast.Attribute(attr=name), args=arguments) if name in TAKING:
                found.update(text for each in arguments for text in literals(each, module))
    return {each.lower() for each in found if each.isidentifier()}


def test_words_of_patterns_are_those_of_their_parser() -> None:
    assert compared(parser) - RESERVED - EXPRESSION_WORDS == PATTERN_WORDS
    assert PATTERN_WORDS.isdisjoint(RESERVED)


def test_words_of_expressions_are_those_of_their_parser() -> None:
    assert compared(expression_parser) - RESERVED - (CALLED - EXPRESSION_WORDS) == EXPRESSION_WORDS


@pytest.mark.parametrize("language", FRONTENDS)
def test_words_of_a_language_are_those_of_its_parser(language: str) -> None:
    lexicon, modules = FRONTENDS[language]
    read = set[str]().union(*map(compared, modules))
    assert read - lexicon.keywords == lexicon.contextual | lexicon.called | lexicon.attributes
    assert lexicon.contextual.isdisjoint(lexicon.keywords)
    assert lexicon.called.isdisjoint(lexicon.keywords)
    assert lexicon.attributes.isdisjoint(lexicon.keywords)
    # Operators of expressions, which the parser of the core reads.
    read |= compared(expression_parser)
    assert lexicon.keywords <= read

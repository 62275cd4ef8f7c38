"""Printer of core patterns as sentences, where the pretty language has one that says the same (frontends, section 8).

Patterns with registers, scopes, hidden events, sets of several types and the rest of what sentences have no words for
have none: a sentence that says about the same would mislead. Read back, a sentence gives a pattern of the same id.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from distced.middleware.model.timestamps import format_duration
from distced.middleware.patterns import tree
from distced.middleware.patterns.printer import format_assignments, format_when
from distced.middleware.sets.describable import (
    AnySet,
    DescribableSet,
    Difference,
    Filtered,
    TypeSet,
    Union,
    walk_set,
)
from distced.middleware.sets.expressions import Expression, Field, Name, format_expression, quote_name, walk

_PHRASE: Final = 0
_OR: Final = 1
_AND: Final = 2
_CHAIN: Final = 3
_STEP: Final = 4
_ITEM: Final = 5

_KEYWORDS: Final = frozenset(("and", "or", "not", "true", "false", "null", "inf"))


class _NoSentenceError(Exception):
    """There are no words for a part of the pattern."""


def sentence(publication: tree.Publication) -> str | None:
    """The sentence for a pattern with its output; None where there is none."""
    output = publication.output
    special = publication.once or publication.settled or publication.privates or publication.consumption
    if special or publication.publish_json or (output is not None and not _is_plain(output)):
        return None
    try:
        text = _phrase(publication.pattern, _PHRASE)
        if output is None:
            return f"{text}."
        for _, value in output.attributes:
            _check(value)
    except _NoSentenceError:
        return None
    attributes = f"({format_assignments(output.attributes)})" if output.attributes else ""
    return f"Report {quote_name(output.type_name)}{attributes} when {text}."


def _is_plain(output: tree.Output) -> bool:
    special = output.condition is not None or output.take or output.consuming or output.quiet is not None
    return bool(output.type_name) and not special and not any(_misread(name) for name, _ in output.attributes)


def _phrase(pattern: tree.Pattern, level: int) -> str:
    """Text of a pattern, in parentheses where it is looser than `level`."""
    text, own = _format(pattern)
    return f"({text})" if own < level else text


def _format(pattern: tree.Pattern) -> tuple[str, int]:
    match pattern:
        case tree.Atom():
            return _atom(pattern), _ITEM
        case tree.Sequence(parts=parts):
            return _joined(parts, "followed by", tree.Sequence), _CHAIN
        case tree.Concatenation(parts=parts):
            return _joined(parts, "followed or overlapped by", tree.Concatenation), _CHAIN
        case tree.Timing():
            return _timing(pattern), _CHAIN
        case tree.Alternation(parts=parts):
            return " or ".join(_separate(part, _AND) for part in parts), _OR
        case tree.Parallel(left=left, right=right):
            # To the left, as it is read.
            return f"{_separate(left, _AND)} and {_separate(right, _CHAIN)}", _AND
        case tree.Iteration(body=body, least=least, most=most):
            return f"{_times(least, most)} {_phrase(body, _ITEM)}", _STEP
        case tree.Window(body=body, length=length):
            return f'{_phrase(body, _OR)} overall within "{format_duration(length)}"', _PHRASE
        case tree.Keyed(body=body, attributes=attributes):
            inner = _format(body)[0] if isinstance(body, tree.Window) else _phrase(body, _OR)
            if any(map(_misread, attributes)):
                raise _NoSentenceError
            return f"{inner} for each {' and '.join(map(quote_name, attributes))}", _PHRASE
        case _:
            raise _NoSentenceError


def _separate(pattern: tree.Pattern, level: int) -> str:
    """Text of a part beside `and` or `or`, which a condition at its end would take for its own."""
    text, own = _format(pattern)
    return f"({text})" if own < level or " where " in text else text


def _joined(parts: tuple[tree.Pattern, ...], link: str, joint: type[tree.Pattern]) -> str:
    first, *others = parts
    # Steps of one chain are joined from the left; those of an equal joint would be of this one.
    text = _phrase(first, _STEP if isinstance(first, joint) else _CHAIN)
    for each in others:
        every = _every(each) if joint is tree.Sequence else None
        text += f" followed by every {every}" if every else f" {link} {_phrase(each, _STEP)}"
    return text


def _every(pattern: tree.Pattern) -> str | None:
    """`Y` of `~[Y]* [Y]`; None for another pattern."""
    match pattern:
        case tree.Concatenation(
            parts=(
                tree.Hidden(body=tree.Iteration(body=tree.Atom() as skipped, least=0, most=None)),
                tree.Atom(label=label, domain=None) as last,
            )
        ) if skipped == tree.Atom(label) and not last.updates:
            return _atom(last)
        case _:
            return None


def _timing(timing: tree.Timing) -> str:
    first = _phrase(timing.first, _CHAIN)
    match timing.when:
        case tree.Relative(delay=delay):
            absent = by = f'within "{format_duration(delay)}"'
        case tree.TimeOfDay() as when:
            clock = format_when(when).removeprefix("at ").replace("'", "")
            absent, by = f'until "{clock}"', f'by "{clock}"'
        case _:
            raise _NoSentenceError
    timer = TypeSet(timing.timer)
    second = timing.second
    if isinstance(second, tree.Atom) and second.label == timer:
        others = _without(second.domain, timer)
        # A domain may name the time event twice.
        if others is None or second.variable or second.updates or timer in walk_set(others):
            raise _NoSentenceError
        return f"{first} not followed by {_event(others)} {absent}"
    second = _unlimited(second, timer)
    if any(each == timer for node in tree.walk(second) for each in _members(node)):
        raise _NoSentenceError
    return f"{first} followed by {(_every(second) and 'every ') or ''}{_every(second) or _phrase(second, _STEP)} {by}"


def _unlimited(pattern: tree.Pattern, timer: TypeSet) -> tree.Pattern:
    """An atom without the time event in its domain, which is in the domain of all that follows anyhow."""
    if not isinstance(pattern, tree.Atom) or _without(pattern.domain, timer) != pattern.label:
        return pattern
    return tree.Atom(pattern.label, None, pattern.variable, pattern.updates, span=pattern.span)


def _without(domain: DescribableSet | None, timer: TypeSet) -> DescribableSet | None:
    """The other member of a domain of two, of which one is the time event; None for another domain."""
    if not isinstance(domain, Union) or len(domain.members) != 2 or timer not in domain.members:
        return None
    one, other = domain.members
    return other if one == timer else one


def _members(node: tree.Pattern) -> Iterator[DescribableSet]:
    for described in tree.sets_of(node):
        yield from walk_set(described)


def _atom(atom: tree.Atom) -> str:
    if atom.updates:
        raise _NoSentenceError
    label, domain = atom.label, atom.domain
    if domain is None or domain == label:
        if not atom.variable:
            return _event(label)
        if _misread(atom.variable):
            raise _NoSentenceError
        return f"{_event(label)} as {quote_name(atom.variable)}"
    if atom.variable or not isinstance(domain, Union) or len(domain.members) != 2:
        raise _NoSentenceError
    one, other = domain.members
    if label in (one, other):
        return f"{_event(label)} before {_event(other if label == one else one)}"
    if label == Difference(domain, one):
        return f"{_event(other)} other than {_event(one)}"
    if label == Difference(domain, other):
        return f"{_event(one)} other than {_event(other)}"
    raise _NoSentenceError


def _event(described: DescribableSet) -> str:
    match described:
        case TypeSet(name=name) if name.isidentifier():
            return f'"{name}"'
        case Filtered(base=TypeSet() as base, condition=condition):
            _check(condition)
            return f"{_event(base)} where {format_expression(condition)}"
        case AnySet():
            return "any event"
        case Difference(left=AnySet(), right=TypeSet() | Filtered() as right):
            return f"any event but {_event(right)}"
        case _:
            raise _NoSentenceError


def _times(least: int, most: int | None) -> str:
    if most is None:
        return {0: "any number of", 1: "at least one"}.get(least, f"at least {least} times")
    return f"{least} times" if least == most else f"{least} to {most} times"


def _check(expression: Expression) -> None:
    """Check that no name in an expression is a word of the language in another case."""
    for node in walk(expression):
        named = isinstance(node, Name) and _misread(node.name)
        if named or (isinstance(node, Field) and (_misread(node.variable) or _misread(node.attribute))):
            raise _NoSentenceError


def _misread(name: str) -> bool:
    return name.lower() in _KEYWORDS and name not in _KEYWORDS

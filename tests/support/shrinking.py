"""Making a failure small: a smaller pattern or fewer and plainer events that still fail, until there are none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from distced.detectors.language.private import read_by
from distced.middleware.model.events import Event
from distced.middleware.patterns.tree import (
    Alternation,
    Atom,
    Calculated,
    Concatenation,
    Iteration,
    Parallel,
    Pattern,
    Publication,
    Recurring,
    Relative,
    Timing,
    Window,
    children,
)
from distced.middleware.patterns.tree import Sequence as Joint
from distced.middleware.sets.describable import TypeSet, Union

Fails = Callable[[Publication, Sequence[Event]], bool]


def shrink(
    publication: Publication, events: Sequence[Event], fails: Fails, *, tries: int = 3000
) -> tuple[Publication, list[Event]]:
    """A small publication and few events for which `fails` still holds."""
    events = list(events)
    left = tries
    while left > 0:
        for smaller, fewer in _smaller(publication, events):
            left -= 1
            if left <= 0:
                break
            if fails(smaller, fewer):
                publication, events = smaller, list(fewer)
                break
        else:
            break
    return publication, events


def _smaller(publication: Publication, events: list[Event]) -> Iterator[tuple[Publication, list[Event]]]:
    for place in range(len(events)):
        yield publication, events[:place] + events[place + 1 :]
    if publication.output is not None:
        yield replace(publication, output=None), events
        if publication.output.condition is not None:
            yield replace(publication, output=replace(publication.output, condition=None)), events
        for place in range(len(publication.output.take)):
            take = (*publication.output.take[:place], *publication.output.take[place + 1 :])
            yield replace(publication, output=replace(publication.output, take=take)), events
        if publication.output.consuming:
            yield replace(publication, output=replace(publication.output, consuming="")), events
        if publication.output.quiet is not None:
            yield replace(publication, output=replace(publication.output, quiet=None)), events
    for place, each in enumerate(publication.privates):
        for smaller, _ in _smaller(each, []):
            if smaller.output is not None:
                privates = (*publication.privates[:place], smaller, *publication.privates[place + 1 :])
                yield replace(publication, privates=read_by(publication.pattern, privates)), events
    for pattern in _patterns(publication.pattern):
        yield replace(publication, pattern=pattern, privates=read_by(pattern, publication.privates)), events
    for place, event in enumerate(events):
        for plainer in _plainer(event):
            yield publication, [*events[:place], plainer, *events[place + 1 :]]


def _patterns(pattern: Pattern) -> Iterator[Pattern]:
    """Smaller patterns: a part in place of the whole, or the whole with a smaller part."""
    yield from children(pattern)
    match pattern:
        case Atom(label=label, domain=domain):
            if domain is not None:
                yield replace(pattern, domain=None)
            if pattern.variable:
                yield replace(pattern, variable="")
            if pattern.updates:
                yield replace(pattern, updates=())
            for plainer in _sets(label):
                yield replace(pattern, label=plainer)
            for plainer in _sets(domain) if domain is not None else ():
                yield replace(pattern, domain=plainer)
        case Concatenation(parts=parts) | Joint(parts=parts) | Alternation(parts=parts):
            if len(parts) > 2:
                for place in range(len(parts)):
                    yield replace(pattern, parts=parts[:place] + parts[place + 1 :])
            for place, part in enumerate(parts):
                for smaller in _patterns(part):
                    yield replace(pattern, parts=(*parts[:place], smaller, *parts[place + 1 :]))
        case Parallel(left=left, right=right):
            yield from (replace(pattern, left=smaller) for smaller in _patterns(left))
            yield from (replace(pattern, right=smaller) for smaller in _patterns(right))
        case Timing(first=first, second=second):
            yield from (replace(pattern, first=smaller) for smaller in _patterns(first))
            yield from (replace(pattern, second=smaller) for smaller in _patterns(second))
            if isinstance(pattern.when, Recurring):
                yield replace(pattern, when=pattern.when.first)
            if isinstance(pattern.when, Calculated):
                yield replace(pattern, when=Relative(1))
            if isinstance(pattern.when, Relative) and pattern.when.delay > 1:
                yield replace(pattern, when=Relative(pattern.when.delay - 1))
        case _:
            if isinstance(pattern, Iteration) and pattern.most is None:
                yield replace(pattern, most=max(pattern.least, 1))
            if isinstance(pattern, Window) and pattern.length:
                yield replace(pattern, length=pattern.length - 1)
            if hasattr(pattern, "body"):
                yield from (replace(pattern, body=smaller) for smaller in _patterns(pattern.body))


def _sets(described: Any) -> Iterator[Any]:
    """Plainer sets: what is inside, and the type alone."""
    if isinstance(described, TypeSet):
        return
    if isinstance(described, Union):
        yield from described.members
        return
    if is_dataclass(described):
        for each in fields(described):
            value = getattr(described, each.name)
            if each.name in ("left", "right", "base"):
                yield value
    yield TypeSet("A")


def _plainer(event: Event) -> Iterator[Event]:
    def with_(lo: int, hi: int, attributes: dict[str, Any]) -> Event:
        return Event(event.type, lo, hi, event.source, event.seq, attributes)

    if event.lo < event.hi:
        yield with_(event.hi, event.hi, event.attributes)
    for name in event.attributes:
        yield with_(event.lo, event.hi, {key: value for key, value in event.attributes.items() if key != name})

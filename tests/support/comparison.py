"""The engine and the oracle on the same pattern and events, told in the same form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from distced.detectors.compiler import Compiled, compile_publication
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.errors import PatternError
from distced.middleware.model.events import PRIMITIVE, CompositeEvent, Event, EventId
from distced.middleware.patterns.printer import format_publication
from distced.middleware.patterns.tree import Publication
from distced.middleware.sets.expressions import format_value
from tests.support.oracle import Seen, TooLongError, read
from tests.support.shrinking import shrink


class Composite(NamedTuple):
    """What counts of a composite event."""

    constituents: tuple[EventId, ...]
    attributes: str
    lo: int
    hi: int


@lru_cache(maxsize=256)
def compiled(publication: Publication, *, epochs: bool = False) -> Compiled:
    """The pattern for the engine; a `PatternError` where it is refused."""
    return compile_publication(publication, consumption="epoch" if epochs else "ordered")


def by_engine(pattern: Compiled, events: Iterable[Event]) -> list[Composite]:
    """What the stepwise engine finds in events in the order of consumption, sorted."""
    engine = StepwiseEngine([pattern])
    return composites([*engine.feed(events), *engine.finish()])


def by_oracle(
    publication: Publication, events: Iterable[Event], *, epochs: bool = False, steps: int = 200_000
) -> list[Composite]:
    """What the oracle finds, sorted; `TooLongError` where that takes more steps."""
    found = read(publication, map(seen, events), epochs=epochs, steps=steps)
    return sorted(Composite(each.constituents, repr(sorted(each.attributes)), each.lo, each.hi) for each in found)


def composites(events: Iterable[CompositeEvent]) -> list[Composite]:
    """Composite events in the form that is compared, sorted."""
    return sorted(Composite(e.constituents, repr(sorted(e.attributes.items())), e.lo, e.hi) for e in events)


def seen(event: Event) -> Seen:
    """An event as the oracle sees it."""
    return Seen(event.type, event.lo, event.hi, PRIMITIVE, event.source, event.seq, event.attributes)


def as_case(
    publication: Publication, events: Sequence[Event], expected: list[Composite], *, epochs: bool = False
) -> str:
    """The text of a conformance case, to be kept in `found.toml`."""
    ordered = sorted(events, key=lambda event: event.seq)
    places = {event.id: place for place, event in enumerate(ordered)}
    lines = ["[[case]]", 'name = "..."', f'pattern = """{format_publication(publication)}"""']
    lines += ['consumption = "epoch"'] if epochs else []
    lines += [f"events = [{', '.join(map(_quoted, ordered))}]"]
    lines += [f"expect = {[[places[each] for each in one.constituents] for one in expected]}"]
    lines += [f"# attributes {[one.attributes for one in expected]}, timestamps {[(o.lo, o.hi) for o in expected]}"]
    return "\n".join(lines)


def _quoted(event: Event) -> str:
    times: list[Any] = [event.lo] if event.lo == event.hi else [event.lo, event.hi]
    attributes = [f"{name}={format_value(value)}" for name, value in event.attributes.items()]
    return f'"{" ".join(map(str, [event.type, *times, *attributes]))}"'


def assert_alike(publication: Publication, events: Sequence[Event], *, epochs: bool = False) -> bool:
    """Hold the engine to the oracle; False where the pattern is refused or the oracle would take too long.

    A difference is made small before it is told.
    """
    found = _both(publication, events, epochs)
    if found is None:
        return False
    if found[0] != found[1]:
        publication, events = shrink(publication, events, lambda p, e: _differ(p, e, epochs))
        engine, oracle = _both(publication, events, epochs) or found
        raise AssertionError(
            f"{as_case(publication, events, oracle, epochs=epochs)}\n"
            f"missing    {[each for each in oracle if each not in engine]}\n"
            f"unexpected {[each for each in engine if each not in oracle]}"
        )
    return True


def _differ(publication: Publication, events: Sequence[Event], epochs: bool) -> bool:
    found = _both(publication, events, epochs)
    return found is not None and found[0] != found[1]


def _both(
    publication: Publication, events: Sequence[Event], epochs: bool
) -> tuple[list[Composite], list[Composite]] | None:
    try:
        pattern = compiled(publication, epochs=epochs)
        expected = by_oracle(publication, events, epochs=epochs)
    except (PatternError, TooLongError):
        return None
    return by_engine(pattern, events), expected

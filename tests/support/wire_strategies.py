"""Events, derivations and gaps as the wire may carry them, for the properties of the wire format."""

from hypothesis import strategies as st

from distced.middleware.model.events import (
    COMPOSITE,
    PRIMITIVE,
    TIME,
    CompositeEvent,
    Derivation,
    Event,
    Gap,
    OpenGap,
    OrderKey,
)
from distced.middleware.model.timestamps import INSTANT_MAX, INSTANT_MIN
from distced.middleware.wire.frames import SEQUENCE_MAX

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NAME = TEXT.filter(bool)
INSTANT = st.integers(INSTANT_MIN, INSTANT_MAX)
VALUE = st.none() | st.booleans() | st.integers(INSTANT_MIN, INSTANT_MAX) | st.floats(allow_nan=False) | TEXT
ATTRIBUTES = st.dictionaries(TEXT, VALUE, max_size=4)
SPAN = st.tuples(INSTANT, INSTANT).map(sorted)
SEQ = st.integers(0, SEQUENCE_MAX)
DIGEST = st.integers(0, 2**96 - 1)
IDS = st.lists(st.tuples(NAME, SEQ | DIGEST), max_size=3).map(tuple)
KEY_VALUES = st.lists(VALUE, max_size=2).map(tuple)

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.binary(max_size=13),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)


@st.composite
def primitive_events(draw: st.DrawFn, type_: str | None = None, source: str | None = None) -> Event:
    lo, hi = draw(SPAN)
    return Event(type_ or draw(NAME), lo, hi, source or draw(NAME), draw(SEQ), draw(ATTRIBUTES))


@st.composite
def composite_events(
    draw: st.DrawFn, type_: str | None = None, source: str | None = None, depth: int = 2, recorded: bool = False
) -> CompositeEvent:
    """Composite events of composite ones; where `recorded`, with derivations, and perhaps come again."""
    lo, hi = draw(SPAN)
    return CompositeEvent(
        type_ or draw(NAME),
        lo,
        hi,
        source or draw(NAME),
        draw(DIGEST),
        draw(ATTRIBUTES),
        constituents=draw(IDS),
        events=tuple(draw(st.lists(inner_events(depth), max_size=2))),
        derivations=tuple(draw(st.lists(derivations(), max_size=2))) if recorded else (),
        again=recorded and draw(st.booleans()),
    )


def inner_events(depth: int) -> st.SearchStrategy[Event]:
    """What is sent inside another event: primitive events, and composite ones so deep."""
    return primitive_events() | composite_events(depth=depth - 1) if depth else primitive_events()


@st.composite
def order_keys(draw: st.DrawFn) -> OrderKey:
    rank = draw(st.sampled_from([PRIMITIVE, COMPOSITE, TIME]))
    lo, hi = draw(SPAN)
    if rank == TIME:
        return (hi, hi, TIME, "@", 0)
    return (hi, lo, rank, draw(NAME), draw(SEQ if rank == PRIMITIVE else DIGEST))


def gaps() -> st.SearchStrategy[Gap]:
    return st.builds(Gap, st.none() | order_keys(), st.none() | INSTANT)


@st.composite
def derivations(draw: st.DrawFn) -> Derivation:
    first, last = sorted([draw(order_keys()), draw(order_keys())])
    return Derivation(
        first,
        last,
        draw(st.integers(INSTANT_MIN, min(first[1], last[1]))),
        draw(gaps()),
        draw(KEY_VALUES),
        draw(st.dictionaries(NAME, inner_events(2), max_size=2)),
        draw(st.dictionaries(NAME, VALUE, max_size=2)),
    )


def open_gaps() -> st.SearchStrategy[tuple[OpenGap, ...]]:
    return st.lists(st.builds(OpenGap, KEY_VALUES, gaps()), max_size=3).map(tuple)

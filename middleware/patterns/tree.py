"""Syntax tree of patterns.

One node for each row of the language's table (design, section 1; composite-event-framework-2004, "Core Composite Event
Language" and Appendix B). Nodes are plain values: equal when written alike, whatever the place in the text. Joints of
any length are flat tuples, so that a pattern of a thousand atoms is no deeper than one of two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from distced.middleware.sets.describable import DescribableSet, conditions
from distced.middleware.sets.expressions import Expression, Moment, Spanned


@dataclass(frozen=True, slots=True)
class Atom(Spanned):
    """`[A, B as x set n = n + 1 <= Σ]`: the first event of the domain that follows; one not in the label fails.

    Attributes:
        label: events it matches. `[!E <= Σ]` is read as `[Σ - E <= Σ]`.
        domain: events it looks at; None stands for the label itself.
        variable: the name the matched event is bound to; empty for none.
        updates: registers it changes, with their new values, in order.
    """

    label: DescribableSet
    domain: DescribableSet | None = None
    variable: str = ""
    updates: tuple[tuple[str, Expression], ...] = ()


@dataclass(frozen=True, slots=True)
class Reference(Spanned):
    """`Name` or `[Name]`, where a definition is meant."""

    name: str


@dataclass(frozen=True, slots=True)
class Concatenation(Spanned):
    """`C1 C2 ...`: each weakly follows the one before."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Sequence(Spanned):
    """`C1 ; C2 ; ...`: each strongly follows the one before."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Alternation(Spanned):
    """`C1 | C2 | ...`: either, each an instance of its own."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Parallel(Spanned):
    """`C1 & C2`: both, in any order. Not flattened: which two are joined first makes a difference."""

    left: Pattern
    right: Pattern


@dataclass(frozen=True, slots=True)
class Iteration(Spanned):
    """`C{least,most}`, None for no limit; `C*` is `C{0,}` and `C+` is `C{1,}`."""

    body: Pattern
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Relative:
    """Time event a delay, ns, after the end of what came before."""

    delay: int


@dataclass(frozen=True, slots=True)
class Calculated:
    """Time event a delay after the end of what came before, a number of ns that an expression over variables and
    registers gives then; never for what is no number, or negative."""

    delay: Expression


@dataclass(frozen=True, slots=True)
class TimeOfDay:
    """Time event when the clock next shows a time, ns since midnight, in a zone: minutes east of UTC, or its name."""

    nanosecond: int
    zone: int | str = 0


@dataclass(frozen=True, slots=True)
class Instant:
    """Time event at one instant, ns since the Unix epoch."""

    instant: int


@dataclass(frozen=True, slots=True)
class Recurring:
    """Time event that comes again and again: a delay, of 1 ns at least, after the last one, or at each time of day."""

    first: Relative | TimeOfDay


When: TypeAlias = Relative | Calculated | TimeOfDay | Instant | Recurring


@dataclass(frozen=True, slots=True)
class Timing(Spanned):
    """`(C1, C2) @ T = when`: T is set off by the end of C1, and is in the domain of all of C2's states."""

    first: Pattern
    second: Pattern
    timer: str
    when: When


@dataclass(frozen=True, slots=True)
class Scope(Spanned):
    """`[ C <= Σ ]`: adds Σ to the domain of every state inside C."""

    body: Pattern
    domain: DescribableSet


@dataclass(frozen=True, slots=True)
class Hidden(Spanned):
    """`~C`: matches as C, but what it matches is no constituent."""

    body: Pattern


@dataclass(frozen=True, slots=True)
class Window(Spanned):
    """`C within 5s`: the span of the match is at most this long, ns, inclusive."""

    body: Pattern
    length: int


@dataclass(frozen=True, slots=True)
class Keyed(Spanned):
    """`C by room`, `C by (room, person)`: every set in C is read per value of the attributes."""

    body: Pattern
    attributes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Init(Spanned):
    """`init n = 0, top = 0 : C`: registers with the values they have on entering C.

    Attributes:
        written: what registers that a translation made up stand for, as errors name it.
    """

    registers: tuple[tuple[str, Expression], ...]
    body: Pattern
    written: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Delegated(Spanned):
    """Sub-pattern that a detector of its own detects; made by cutting, never written.

    Attributes:
        whole: the sub-pattern, in the names of the pattern around it.
        detector: the id of its detector.
        source: name of the sub-pattern's canonical form; its composite events sort under it.
        key: attributes the detector is keyed by, in order: those in force where it stands, and its own.
        bound, counted: variables and registers that are read outside, each as (canonical name, name here).
        repeats: whether a composite event of it may be found again later, in another way.
        private: whether it is a private publication, read as its composite events wherever its type stands in a set.
    """

    whole: Pattern
    detector: str
    source: str
    key: tuple[str, ...] = ()
    bound: tuple[tuple[str, str], ...] = ()
    counted: tuple[tuple[str, str], ...] = ()
    repeats: bool = False
    private: bool = False


Pattern: TypeAlias = (
    Atom
    | Reference
    | Concatenation
    | Sequence
    | Alternation
    | Parallel
    | Iteration
    | Timing
    | Scope
    | Hidden
    | Window
    | Keyed
    | Init
    | Delegated
)


SELECTING: Final = ("first", "last", "each")
"""Words that begin a selection by a variable."""


@dataclass(frozen=True, slots=True)
class Selection(Spanned):
    """`first x`, `last x`, `each x`, or `x where condition`: selection among the matches completed together.

    Attributes:
        kind: `first`, `last`, `each`, or `where`.
        condition: what the matches must fulfil, for `where`; it may read what the final filter may read.
    """

    kind: str
    variable: str
    condition: Expression | None = None


@dataclass(frozen=True, slots=True)
class Quiet(Spanned):
    """`at most 1 per 10min by user`: after a composite event none of the same attribute values for a time, ns."""

    length: int
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Output(Spanned):
    """`-> Name(attribute = expression, ...) where condition take first x consuming at most 1 per 10min by attribute`:
    output published for a match.

    Attributes:
        type_name: empty for composite events of the canonical id.
        attributes: by name, as expressions over variables and registers.
        condition: the final filter, which may also read the attributes above; None for every match.
        take: selections among the matches that are completed together, in order.
        consuming: which matches in progress end with a match that is emitted: `variables`, those that have an event
            in a variable that it has in one, or `all`; empty for none.
        quiet: which of the composite events that remain are not emitted; None for none.
    """

    type_name: str
    attributes: tuple[tuple[str, Expression], ...] = ()
    condition: Expression | None = None
    take: tuple[Selection, ...] = ()
    consuming: str = ""
    quiet: Quiet | None = None

    @property
    def selects(self) -> bool:
        """Whether matches depend on others: on those completed together, or on those emitted before."""
        return bool(self.consuming) or any(each.kind != "each" for each in self.take)

    def mapped(
        self, value: Callable[[Expression], Expression], condition: Callable[[Expression], Expression] | None = None
    ) -> Output:
        """The output with other expressions: for attributes, and for the final filter and selections."""
        change = condition or value

        def selection(each: Selection) -> Selection:
            return each if each.condition is None else replace(each, condition=change(each.condition))

        return replace(
            self,
            attributes=tuple((name, value(each)) for name, each in self.attributes),
            condition=None if self.condition is None else change(self.condition),
            take=tuple(map(selection, self.take)),
        )


@dataclass(frozen=True, slots=True)
class Publication:
    """Pattern to detect, and its output; None for a composite event without a name.

    Attributes:
        publish_json: topic on which its composite events leave as JSON, too; empty for none. No part of the meaning.
        consumption: `ordered` or `epoch`; empty for that of the run or the subscription.
        once: `once C`: whether one instance for each key stands in the start, instead of a start that is always active.
        settled: whether composite events are emitted at the end of an instant, for what then stands.
        privates: `private C -> Name(...) : `, publications that only the pattern and each other read, by their types.
    """

    pattern: Pattern
    output: Output | None = None
    publish_json: str = ""
    consumption: str = ""
    once: bool = False
    settled: bool = False
    privates: tuple[Publication, ...] = ()


@dataclass(frozen=True, slots=True)
class DerivedType(Spanned):
    """`type Name = Base where condition with (hour = ...) every 1min by (person, room)`, or `at most 1 per 1min`;
    `every` and `quiet` in ns, 0 for no throttling. A state, `type Name = last Base by person`, where `last`.
    Of `type Name = clock every 1h` the base is the clock, as `middleware.model.clock_rules` names it."""

    name: str
    base: str
    condition: Expression | None = None
    every: int = 0
    by: tuple[str, ...] = ()
    computed: tuple[tuple[str, Expression], ...] = ()
    quiet: int = 0
    last: bool = False


@dataclass(frozen=True, slots=True)
class PatternFile:
    """Statements of a pattern file in their order: derived types, definitions, which are inlined, publications, and
    private ones, which are read in the file only."""

    types: tuple[DerivedType, ...]
    definitions: tuple[tuple[str, Pattern], ...]
    publications: tuple[Publication, ...]
    privates: tuple[Publication, ...] = ()


def children(pattern: Pattern) -> tuple[Pattern, ...]:
    """Patterns directly inside, in the order they are written."""
    match pattern:
        case Atom() | Reference() | Delegated():
            return ()
        case Concatenation(parts=parts) | Sequence(parts=parts) | Alternation(parts=parts):
            return parts
        case Parallel(left=left, right=right):
            return (left, right)
        case Timing(first=first, second=second):
            return (first, second)
        case _:
            return (pattern.body,)


def walk(pattern: Pattern) -> Iterator[Pattern]:
    """Pattern and every pattern inside it, outermost first."""
    yield pattern
    for child in children(pattern):
        yield from walk(child)


def nullable(pattern: Pattern) -> bool:
    """Whether the pattern can match the empty sequence."""
    match pattern:
        case Atom() | Reference() | Parallel() | Delegated():
            return False
        case Concatenation(parts=parts) | Sequence(parts=parts):
            return all(nullable(part) for part in parts)
        case Alternation(parts=parts):
            return any(nullable(part) for part in parts)
        case Iteration(body=body, least=least):
            return least == 0 or nullable(body)
        case Timing(first=first, second=second):
            return nullable(first) and nullable(second)
        case _:
            return nullable(pattern.body)


def sets_of(pattern: Pattern) -> tuple[DescribableSet, ...]:
    """Sets that stand in this node itself."""
    match pattern:
        case Atom(label=label, domain=None):
            return (label,)
        case Atom(label=label, domain=domain) if domain is not None:
            return (label, domain)
        case Scope(domain=domain):
            return (domain,)
        case _:
            return ()


def expressions_of(pattern: Pattern) -> Iterator[Expression]:
    """Expressions that stand in this node itself."""
    match pattern:
        case Atom(label=label, domain=domain, updates=updates):
            yield from conditions(label)
            if domain is not None:
                yield from conditions(domain)
            yield from (value for _, value in updates)
        case Scope(domain=domain):
            yield from conditions(domain)
        case Init(registers=registers):
            yield from (initial for _, initial in registers)
        case Timing(when=Calculated(delay=delay)):
            yield delay
        case _:
            pass


def with_delay(timing: Timing, change: Callable[[Expression], Expression]) -> Timing:
    """Timing with another calculation of its delay, if any."""
    if not isinstance(timing.when, Calculated):
        return timing
    return replace(timing, when=Calculated(change(timing.when.delay)))


def output_expressions(output: Output | None) -> Iterator[Expression]:
    """Expressions of an output."""
    if output is not None:
        yield from (value for _, value in output.attributes)
        if output.condition is not None:
            yield output.condition
        for selection in output.take:
            # Any expression that reads the variable.
            yield Moment("hi", selection.variable, span=selection.span)
            if selection.condition is not None:
                yield selection.condition

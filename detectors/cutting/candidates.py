"""Permitted cuts: sub-patterns that may become detectors of their own, and conditions the others fail.

Design, section 2, "Cutting"; composite-event-framework-2004, "Decomposition", would also cut inside iterations. A
sub-pattern is a node of the canonical tree, or a run of neighbouring parts of a joint. Conditions (a) and (b) concern
the state that waits for it; without one (at the beginning, or a side of `&`) they hold. Each can be left out by name,
for tests that show its need.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Final, Literal, TypeAlias

from distced.detectors.cutting.joints import Joint, ends_open, joint_of, opens_parallel, opens_strong
from distced.detectors.cutting.uses import Uses, uses_of, uses_of_output
from distced.detectors.language.private import output_of, types_named
from distced.middleware.patterns import tree
from distced.middleware.patterns.printer import format_pattern

Path: TypeAlias = tuple[int, ...]
"""Child indexes from the root; a joint is one node, however it is nested, and its children are its parts."""

Stand: TypeAlias = Literal["whole", "prefix", "branch", "side", "timed", "right-hand side", "private", "nowhere"]
"""Place of a sub-pattern in its pattern."""

CONDITIONS: Final = {
    "stand": "a prefix, an operand of | at the start, a side of &, the first part of a timing, or a right-hand side",
    "closed": "no variable, register or time event of it is bound outside, and `any` means the same in it",
    "empty": "it cannot match the empty sequence",
    "a": "what precedes it does not end in an iteration or in an optional part",
    "b": "it does not open with an optional part before a `;`, nor with `&`",
    "c": "it does not end in an iteration or in an optional part, unless nothing follows it",
}
"""The conditions on a sub-pattern, by name."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed condition, one of the `CONDITIONS`, and the reason in words."""

    condition: str
    reason: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A sub-pattern in its place.

    Attributes:
        path: the node, or the joint it is a run of.
        run: parts of the joint: from, to before; None for the whole node. Of a private publication that the pattern
            reads, one of several in order, an empty run at its number.
        failures: reasons against a detector of its own; empty if permitted.
        key: attributes of the surrounding keys, sorted, which the detector inherits.
        window: shortest surrounding window, ns; None for none; longer matches are useless.
        exports: variables and registers made here and read outside.
        private: of a private publication the type by which it is read.
    """

    path: Path
    run: tuple[int, int] | None
    pattern: tree.Pattern
    stand: Stand
    failures: tuple[Failure, ...]
    key: tuple[str, ...]
    window: int | None
    exports: frozenset[str]
    private: str = ""

    @property
    def allowed(self) -> bool:
        """Whether the candidate may become a detector of its own."""
        return not self.failures

    @property
    def size(self) -> int:
        """Number of atoms."""
        return size_of(self.pattern)


@dataclass(frozen=True, slots=True)
class Context:
    """Surroundings of a node, as far as cuts depend on them.

    Attributes:
        stand: place of a sub-pattern that begins with the node.
        uses: those in its automaton, and of its exports.
        nowhere: reason for a stand of `nowhere`.
        inside: reason against any cut inside; empty if permitted.
        before: predecessor that may continue or be left out, so that condition (a) fails; None for none.
        waiting: whether a state waits for the beginning, so that (b) matters.
        followed: successor; None for none.
        timers: time events in scope.
        key, window: as in `Candidate`.
    """

    stand: Stand
    uses: Uses
    nowhere: str = ""
    inside: str = ""
    before: tree.Pattern | None = None
    waiting: bool = False
    followed: tree.Pattern | None = None
    timers: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    window: int | None = None


@dataclass(slots=True)
class JointView:
    """A joint in its place, for constant-time checks of its runs; other nodes are joints of one part. `uses` of parts
    are None where nothing makes names and no set is open, so every run is closed."""

    path: Path
    joint: Joint
    context: Context
    uses: list[Uses] | None = None
    _nullable: list[bool] = field(default_factory=list)
    _open: list[bool] = field(default_factory=list)
    # Up to each part, how many have to match something.
    _needed: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._nullable = [tree.nullable(part) for part in self.joint.parts]
        self._needed = list(accumulate((not empty for empty in self._nullable), initial=0))
        self._open = [empty or ends_open(part) for part, empty in zip(self.joint.parts, self._nullable, strict=True)]
        if not self.context.uses.nothing:
            self.uses = [uses_of(part) for part in self.joint.parts]

    def context_at(self, start: int, stop: int) -> Context:
        """Surroundings of the run from `start` to before `stop`."""
        context, parts = self.context, self.joint.parts
        if stop < len(parts):
            context = replace(context, followed=parts[stop])
        if start == 0:
            at_start = not context.waiting and stop < len(parts)
            return replace(context, stand="prefix") if at_start else context
        before = parts[start - 1] if self._open[start - 1] else None
        return replace(context, stand="right-hand side", nowhere="", before=before, waiting=True)

    def allows(self, start: int, stop: int) -> bool:
        """Whether a run meets every condition: a fast `not failures`."""
        context = self.context
        if context.inside or context.timers or self._needed[start] == self._needed[stop]:
            return False
        if start == 0 and (context.nowhere or context.before is not None):
            return False
        if start > 0 and self._open[start - 1]:
            return False
        if self._open[stop - 1] and (stop < len(self._open) or context.followed is not None):
            return False
        if (start > 0 or context.waiting) and self._opens_badly(start, stop):
            return False
        return self.uses is None or not (self._foreign(start, stop) or self._meant(start, stop))

    def failures(self, start: int, stop: int, without: frozenset[str] = frozenset()) -> tuple[Failure, ...]:
        """The conditions a run fails."""
        context = self.context_at(start, stop)
        found: list[Failure] = []
        if context.inside or context.nowhere:
            found.append(Failure("stand", context.inside or context.nowhere))
        if context.timers:
            found.append(Failure("closed", f"the time event {', '.join(context.timers)} is set off outside"))
        foreign = self._foreign(start, stop)
        if foreign:
            found.append(Failure("closed", f"{', '.join(foreign)} {_are(foreign)} bound outside, too"))
        meant = self._meant(start, stop)
        if meant:
            found.append(Failure("closed", f"`any` in it may stand for {', '.join(meant)}, named outside"))
        if all(self._nullable[start:stop]):
            found.append(Failure("empty", "it can match the empty sequence"))
        if context.before is not None:
            found.append(Failure("a", f"{_short(context.before)} before it may go on or be left out"))
        if context.waiting and self._opens_badly(start, stop):
            opening = self.joint.run(start, stop)
            if opens_strong(opening):
                found.append(Failure("b", "it opens with an optional part before a `;`"))
            if opens_parallel(opening):
                found.append(Failure("b", "it opens with `&`"))
        if context.followed is not None and self._open[stop - 1]:
            found.append(Failure("c", f"it may go on, or end earlier, and {_short(context.followed)} follows"))
        return tuple(each for each in found if each.condition not in without)

    def exports(self, start: int, stop: int) -> frozenset[str]:
        """Variables and registers of a run that are read outside."""
        if self.uses is None:
            return frozenset()
        return self._uses(start, stop).exported(self.context.uses)

    def candidate(self, start: int, stop: int, without: frozenset[str] = frozenset()) -> Candidate:
        """A run as a candidate."""
        whole = stop - start == len(self.joint.parts)
        single = stop - start == 1 and not whole
        path = (*self.path, start) if single else self.path
        context = self.context_at(start, stop)
        return Candidate(
            path,
            None if whole or single else (start, stop),
            self.joint.run(start, stop),
            context.stand,
            self.failures(start, stop, without),
            context.key,
            context.window,
            self.exports(start, stop),
        )

    def _opens_badly(self, start: int, stop: int) -> bool:
        """Whether a run fails condition (b), by the parts it may begin with, up to the first non-empty one."""
        for place in range(start, stop):
            part = self.joint.parts[place]
            if (place > start and self.joint.strong[place - 1]) or opens_strong(part) or opens_parallel(part):
                return True
            if not self._nullable[place]:
                return False
        return False

    def _uses(self, start: int, stop: int) -> Uses:
        uses = Uses()
        for each in (self.uses or [])[start:stop]:
            uses.add(each)
        return uses

    def _meant(self, start: int, stop: int) -> list[str]:
        return [] if self.uses is None else self._uses(start, stop).meant(self.context.uses)

    def _foreign(self, start: int, stop: int) -> list[str]:
        return [] if self.uses is None else self._uses(start, stop).foreign(self.context.uses)


def views(publication: tree.Publication, *, exports: frozenset[str] = frozenset()) -> Iterator[JointView]:
    """Joints of a canonical pattern, other nodes as one-part joints, outermost first; `exports`: read outside."""
    yield from _views(publication.pattern, (), outermost(publication, exports))


def outermost(publication: tree.Publication, exports: frozenset[str]) -> Context:
    """Surroundings of a pattern as a whole."""
    uses = uses_of(publication.pattern)
    uses.add(uses_of_output(publication.output))
    uses.read.update(exports)
    return Context("whole", uses)


def candidates(
    publication: tree.Publication, *, exports: frozenset[str] = frozenset(), without: frozenset[str] = frozenset()
) -> Iterator[Candidate]:
    """Nodes and runs of a canonical pattern, cuttable or not; `exports`: read outside; `without`: skipped checks."""
    for view in views(publication, exports=exports):
        count = len(view.joint.parts)
        for start in range(count):
            for stop in range(start + 1, count + 1):
                # A single part of a joint has a view of its own.
                if count == 1 or stop - start > 1:
                    yield view.candidate(start, stop, without)


def private_candidates(publication: tree.Publication) -> Iterator[Candidate]:
    """Private publications that a canonical pattern reads: each may always have a detector of its own, because readers
    take it by its composite events."""
    read = types_named(publication.pattern)
    found = (each for each in publication.privates if output_of(each).type_name in read)
    for number, each in enumerate(sorted(found, key=lambda each: output_of(each).type_name)):
        mark = output_of(each).type_name
        yield Candidate((), (number, number), each.pattern, "private", (), (), None, frozenset(), mark)


def size_of(pattern: tree.Pattern) -> int:
    """Number of atoms of a pattern."""
    return sum(isinstance(node, tree.Atom | tree.Delegated) for node in tree.walk(pattern))


def _views(pattern: tree.Pattern, path: Path, context: Context) -> Iterator[JointView]:
    view = JointView(path, joint_of(pattern), context)
    yield view
    if isinstance(pattern, tree.Concatenation | tree.Sequence):
        for place, part in enumerate(view.joint.parts):
            yield from _views(part, (*path, place), view.context_at(place, place + 1))
        return
    for place, (child, around) in enumerate(inside(pattern, context)):
        yield from _views(child, (*path, place), around)


def inside(pattern: tree.Pattern, context: Context) -> list[tuple[tree.Pattern, Context]]:
    """The nodes directly inside a node that is no joint, with their surroundings."""
    match pattern:
        case tree.Alternation(parts=parts):
            branch = replace(context, stand="branch")
            if context.waiting:
                branch = replace(context, stand="nowhere", nowhere="an operand of | that is not at the start")
            return [(part, branch) for part in parts]
        case tree.Parallel(left=left, right=right):
            return [(side, _side_context(side, pattern, context)) for side in (left, right)]
        case tree.Scope(body=tree.Parallel() as body):
            # The scope belongs to the `&`; what can be cut is both together.
            return [(body, replace(context, stand="nowhere", nowhere="its scope belongs to it"))]
        case tree.Timing(first=first, second=second, timer=timer):
            timed = replace(context, followed=second)
            if timed.stand in ("whole", "prefix", "branch"):
                timed = replace(timed, stand="timed")
            before = first if ends_open(first) else None
            rest = replace(
                context, stand="right-hand side", before=before, waiting=True, timers=(*context.timers, timer)
            )
            return [(first, timed), (second, rest)]
        case tree.Iteration(body=body):
            return [(body, replace(context, stand="nowhere", inside="inside an iteration"))]
        case tree.Window(body=body, length=length):
            window = length if context.window is None else min(length, context.window)
            return [(body, replace(context, window=window))]
        case tree.Keyed(body=body, attributes=attributes):
            return [(body, replace(context, key=tuple(sorted({*context.key, *attributes}))))]
        case tree.Hidden(body=body) | tree.Scope(body=body) | tree.Init(body=body):
            return [(body, context)]
        case _:
            return []


def _side_context(side: tree.Pattern, parallel: tree.Parallel, context: Context) -> Context:
    """Context of a side of `&`: detected separately, from a fresh start, under the surrounding keys only."""
    uses = uses_of(side)
    uses.read.update(uses.exported(context.uses))
    uses.types |= context.uses.types
    return Context("side", uses, key=context.key)


def _short(pattern: tree.Pattern) -> str:
    text = format_pattern(pattern)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _are(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"

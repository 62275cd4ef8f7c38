"""The tree of a pattern in canonical form: the laws of equivalence, and the representative each one chooses.

- A scoped domain is pushed down into the domains of the atoms. Only around a `&` it stays, for the joining states: the
  sides have states of their own (`builder._parallel`).
- Joints of both kinds are one row: a path from one part to another is strong iff any joint on it is, whatever the
  brackets. Written as a sequence of concatenations.
- Alternatives are one row, too, sorted, each once. The sides of `&` are sorted; `&` is not associative.
- `C{1,1}` is `C`, `~~C` is `~C`, the shorter of two windows counts, two keys are one. Windows and keys are marks on the
  same states, so their order says nothing: a key stands around a window.
- Names are marks until all is in order (`pieces`).

What a label holds beyond its domain stays: in a merged state it may match all the same, for there a label counts within
the domain of the whole state. Alternatives that are equal but for the names of variables stay two: in an iteration a
round may read what another has bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from distced.detectors.canonical.conditions import REGISTER, TIMER, VARIABLE, Expressions
from distced.detectors.canonical.names import Places, Space
from distced.detectors.canonical.pieces import NameSlot, Piece, arranged, changed, combined, named
from distced.detectors.canonical.sets import NOTHING, canonical_set
from distced.middleware.patterns import tree
from distced.middleware.patterns.printer import format_quiet, format_when
from distced.middleware.patterns.tree import Sequence as Joint
from distced.middleware.sets.describable import EMPTY, ConditionByType, DescribableSet, normal_form, union
from distced.middleware.sets.expressions import TRUE, Expression, Name, quote_name, transform

_JOINT: Final = "joint"
_ALTERNATION: Final = "alternation"
_HIDDEN: Final = "hidden"
_BOUNDED: Final = "bounded"


class Trees:
    """Canonical pieces of one pattern, with the places of its names and the types and attributes that occur."""

    def __init__(self, space: Space, places: Places) -> None:
        self.places = places
        self.given: set[str] = set()
        self.root = _Frame(self, space, _expressions(space, self.given), EMPTY, {})

    def pattern(self, pattern: tree.Pattern, key: Sequence[str]) -> Piece:
        """The whole pattern, with these attributes as its outer key."""
        self.given.update(key)
        piece = self.root.pattern(pattern)
        return bounded(key, None, piece) if key else piece

    def output(self, output: tree.Output) -> Piece:
        """The published output: its node is an `Output`."""
        expressions = self.root.expressions
        self.given.add(output.type_name)
        self.given.update(name for name, _ in output.attributes)
        attributes = sorted(output.attributes, key=lambda pair: pair[0])
        values = [expressions.value(value) for _, value in attributes]
        text = ", ".join(f"{name} = {value.text}" for (name, _), value in zip(attributes, values, strict=True))
        pieces = values
        filtered = False
        if output.condition is not None:
            condition = expressions.condition(self._without_shown(output, output.condition))
            filtered = condition.orderings[0].node != TRUE
            if filtered:
                pieces = [*values, condition]
                text = f"{text} where {condition.text}"
        selections = [piece for each in output.take if (piece := self._selection(output, each)) is not None]
        text += "".join(f" take {each.text}" for each in selections) + f" {output.consuming}"
        quiet = output.quiet
        if quiet is not None:
            quiet = tree.Quiet(quiet.length, tuple(sorted(set(quiet.by))))
            text += f" {format_quiet(quiet)}"

        def build(nodes: list[Any]) -> tree.Output:
            pairs = tuple((name, node) for (name, _), node in zip(attributes, nodes, strict=False))
            rest = nodes[len(pairs) :]
            condition = rest.pop(0) if filtered else None
            return tree.Output(output.type_name, pairs, condition, tuple(rest), output.consuming, quiet)

        return combined(text, [[*pieces, *selections]], build)

    def _selection(self, output: tree.Output, selection: tree.Selection) -> Piece | None:
        """A selection; None for one that every match fulfils."""
        kind = selection.kind
        variable = named(VARIABLE, self.root.space.variables[selection.variable])
        if selection.condition is None:
            if kind == "each":
                return None
            return changed(variable, f"{kind} {VARIABLE}", lambda name: tree.Selection(kind, name))
        condition = self.root.expressions.condition(self._without_shown(output, selection.condition))
        if condition.orderings[0].node == TRUE:
            return None
        text = f"{VARIABLE} where {condition.text}"
        return combined(text, [[variable, condition]], lambda nodes: tree.Selection(kind, *nodes))

    def _without_shown(self, output: tree.Output, condition: Expression) -> Expression:
        """The final filter, or the condition of a selection, with registers in place of attributes that only show
        them."""
        registers = self.root.space.registers
        shown = {
            name: value
            for name, value in output.attributes
            if name not in registers and isinstance(value, Name) and value.name in registers
        }

        def replace(node: Expression) -> Expression:
            return shown.get(node.name, node) if isinstance(node, Name) else node

        return transform(condition, replace)


class _Frame:
    """Surroundings of a part of the pattern.

    Attributes:
        space: the pattern or side of `&`; `sides` are those inside it that are still to come.
        scope: the addition of scoped domains to every domain.
        timers: the time events in scope, outermost first.
    """

    def __init__(
        self,
        trees: Trees,
        space: Space,
        expressions: Expressions,
        scope: ConditionByType,
        timers: Mapping[str, NameSlot],
        sides: Iterable[Space] | None = None,
    ) -> None:
        self.trees = trees
        self.space = space
        self.sides = iter(space.sides if sides is None else sides)
        self.expressions = expressions
        self.scope = scope
        self.timers = timers
        self._atoms: dict[tree.Atom, Piece] = {}
        self._labels: dict[DescribableSet, tuple[Piece, Piece]] = {}
        self._domains: dict[tuple[DescribableSet, DescribableSet], Piece] = {}

    def inside(self, scope: ConditionByType, timers: Mapping[str, NameSlot]) -> _Frame:
        """The same surroundings with another layer around."""
        return _Frame(self.trees, self.space, self.expressions, scope, timers, self.sides)

    def pattern(self, pattern: tree.Pattern) -> Piece:
        """The canonical piece of a part."""
        match pattern:
            case tree.Atom():
                if pattern not in self._atoms:
                    self._atoms[pattern] = self.atom(pattern)
                return self._atoms[pattern]
            case tree.Concatenation(parts=parts):
                return joint([self.pattern(part) for part in parts], strong=False)
            case Joint(parts=parts):
                return joint([self.pattern(part) for part in parts], strong=True)
            case tree.Alternation(parts=parts):
                return self.alternation([self.pattern(part) for part in parts])
            case tree.Parallel(left=left, right=right):
                return self.parallel(left, right)
            case tree.Iteration(body=body, least=1, most=1):
                return self.pattern(body)
            case tree.Iteration(body=body, least=least, most=most):
                piece = self.pattern(body)
                return changed(
                    piece,
                    f"{piece.text}{{{least},{most}}}",
                    lambda node: tree.Iteration(node, least, most),
                    "iteration",
                )
            case tree.Timing():
                return self.timing(pattern)
            case tree.Scope(body=body, domain=domain):
                return self.inside(union(self.scope, normal_form(domain, self.timers)), self.timers).pattern(body)
            case tree.Hidden(body=body):
                piece = self.pattern(body)
                return piece if piece.kind == _HIDDEN else changed(piece, f"~{piece.text}", tree.Hidden, _HIDDEN)
            case tree.Window(body=body, length=length):
                return bounded((), length, self.pattern(body))
            case tree.Keyed(body=body, attributes=attributes):
                self.trees.given.update(attributes)
                return bounded(attributes, None, self.pattern(body))
            case tree.Init(registers=registers, body=body):
                return self.init(registers, body)
            case tree.Reference(name=name):
                raise TypeError(f"{name} was not inlined")
            case tree.Delegated(detector=detector):
                raise TypeError(f"the part of the detector {detector} was not put back")

    # Atoms.

    def atom(self, atom: tree.Atom) -> Piece:
        label, bare = self.label(atom.label)
        pieces = [label]
        text = label.text
        place = self.space.variables[atom.variable] if atom.variable else None
        if bound := place is not None and place in self.trees.places.read:
            pieces.append(named(VARIABLE, place))
            text += f" as {VARIABLE}"
        for name, value in atom.updates:
            change = self.expressions.value(value, atom.variable)
            pieces += [named(REGISTER, self.space.registers[name]), change]
            text += f" set {REGISTER} = {change.text}"
        domain = bare
        if atom.domain is not None or self.scope is not EMPTY:
            domain = self.domain(atom.label if atom.domain is None else atom.domain, atom.label)
        if wider := domain.identity != bare.identity:
            pieces.append(domain)
            text += f" <= {domain.text}"

        def build(nodes: list[Any]) -> tree.Atom:
            rest = iter(nodes[1:])
            variable = next(rest) if bound else ""
            updates = tuple((next(rest), next(rest)) for _ in atom.updates)
            return tree.Atom(nodes[0], next(rest) if wider else None, variable, updates)

        return combined(f"[{text}]", [pieces], build)

    def label(self, described: DescribableSet) -> tuple[Piece, Piece]:
        """A label, and its rest without the time events in scope, for comparison with a domain."""
        if described not in self._labels:
            form = normal_form(described, self.timers)
            whole = canonical_set(form, self.expressions, self.timers, bare=False)
            bare = canonical_set(form, self.expressions, self.timers, bare=True, named_already=form.by_type)
            self._labels[described] = (whole, bare)
        return self._labels[described]

    def domain(self, described: DescribableSet, label: DescribableSet) -> Piece:
        """The domain of a label with the additions of the scopes, without time events it holds anyway."""
        if (described, label) not in self._domains:
            form = union(normal_form(described, self.timers), self.scope)
            named = normal_form(label, self.timers).by_type
            piece = canonical_set(form, self.expressions, self.timers, bare=True, named_already=named)
            self._domains[described, label] = piece
        return self._domains[described, label]

    # What holds others.

    def alternation(self, parts: Sequence[Piece]) -> Piece:
        flat: list[Piece] = []
        for part in parts:
            flat += part.parts if part.kind == _ALTERNATION else [part]
        found: dict[object, Piece] = {}
        for part in flat:
            found.setdefault(self._but_for_inner_names(part), part)
        if len(found) == 1:
            return flat[0]
        orders = arranged(found.values())
        text = f"({' | '.join(part.text for part in orders[0])})"
        return combined(text, orders, lambda nodes: tree.Alternation(tuple(nodes)), _ALTERNATION, orders[0])

    def _but_for_inner_names(self, piece: Piece) -> object:
        """The identity of a piece, except for names local to it: time events, those in a side of `&`."""
        around = {*self.space.variables.values(), *self.space.registers.values(), *self.timers.values()}
        found = []
        for ordering in piece.orderings:
            inner: dict[NameSlot, int] = {}
            found.append(
                tuple(name if name in around else -1 - inner.setdefault(name, len(inner)) for name in ordering.names)
            )
        return piece.text, min(found)

    def parallel(self, left: tree.Pattern, right: tree.Pattern) -> Piece:
        pieces = []
        for side in (left, right):
            space = next(self.sides)
            frame = _Frame(self.trees, space, _expressions(space, self.trees.given), EMPTY, {})
            pieces.append(frame.pattern(side))
        orders = arranged(pieces)
        text = f"({' & '.join(piece.text for piece in orders[0])})"
        both = combined(text, orders, lambda nodes: tree.Parallel(*nodes), "parallel")
        scope = canonical_set(self.scope, self.expressions, self.timers, bare=True)
        if scope.text == NOTHING:
            return both
        return combined(f"[{both.text} <= {scope.text}]", [[both, scope]], lambda nodes: tree.Scope(*nodes), "scope")

    def timing(self, timing: tree.Timing) -> Piece:
        first = self.pattern(timing.first)
        place = self.trees.places.new(TIMER)
        second = self.inside(self.scope, {**self.timers, timing.timer: place}).pattern(timing.second)
        when = timing.when
        if isinstance(when, tree.Calculated):
            delay = self.expressions.value(when.delay)
            return combined(
                f"({first.text}, {second.text}) @ {TIMER} = ({delay.text})",
                [[first, second, named(TIMER, place), delay]],
                lambda nodes: tree.Timing(nodes[0], nodes[1], nodes[2], tree.Calculated(nodes[3])),
                "timing",
            )
        return combined(
            f"({first.text}, {second.text}) @ {TIMER} = {format_when(when)}",
            [[first, second, named(TIMER, place)]],
            lambda nodes: tree.Timing(nodes[0], nodes[1], nodes[2], when),
            "timing",
        )

    def init(self, registers: Sequence[tuple[str, Expression]], body: tree.Pattern) -> Piece:
        pieces: list[Piece] = []
        values = [self.expressions.value(value) for _, value in registers]
        for (name, _), value in zip(registers, values, strict=True):
            pieces += [named(REGISTER, self.space.registers[name]), value]
        pieces.append(self.pattern(body))
        begun = ", ".join(f"{REGISTER} = {value.text}" for value in values)

        def build(nodes: list[Any]) -> tree.Init:
            return tree.Init(tuple(zip(nodes[:-1:2], nodes[1:-1:2], strict=True)), nodes[-1])

        return combined(f"(init {begun} : {pieces[-1].text})", [pieces], build, "init")


def joint(parts: Sequence[Piece], *, strong: bool) -> Piece:
    """A concatenation or sequence as one row, joints inside its parts included."""
    row: list[Piece] = []
    strengths: list[bool] = []
    for part in parts:
        if row:
            strengths.append(strong)
        if part.kind == _JOINT:
            row += part.parts
            strengths += part.detail
        else:
            row.append(part)
    if len(row) == 1:
        return row[0]
    groups: list[list[Piece]] = [[row[0]]]
    for part, strength in zip(row[1:], strengths, strict=True):
        if strength:
            groups.append([part])
        else:
            groups[-1].append(part)
    pieces = [
        group[0]
        if len(group) == 1
        else combined(f"({' '.join(part.text for part in group)})", [group], _concatenation, _JOINT, row, strengths)
        for group in groups
    ]
    if len(pieces) == 1:
        return pieces[0]
    return combined(f"({' ; '.join(piece.text for piece in pieces)})", [pieces], _sequence, _JOINT, row, strengths)


def bounded(attributes: Sequence[str], length: int | None, body: Piece) -> Piece:
    """A pattern with a key around a window, merging all that stand directly around it."""
    keys, least = set(attributes), length
    if body.kind == _BOUNDED:
        inner, window = body.detail
        keys |= set(inner)
        lengths = [each for each in (length, window) if each is not None]
        least = min(lengths) if lengths else None
        body = body.parts[0]
    names = tuple(sorted(keys))
    text = body.text if least is None else f"({body.text} within {least})"
    if names:
        text = f"({text} by {', '.join(map(quote_name, names))})"

    def build(node: tree.Pattern) -> tree.Pattern:
        inside = node if least is None else tree.Window(node, least)
        return tree.Keyed(inside, names) if names else inside

    return changed(body, text, build, _BOUNDED, (names, least))


def _concatenation(nodes: Sequence[tree.Pattern]) -> tree.Pattern:
    return tree.Concatenation(tuple(nodes))


def _sequence(nodes: Sequence[tree.Pattern]) -> tree.Pattern:
    return Joint(tuple(nodes))


def _expressions(space: Space, given: set[str]) -> Expressions:
    return Expressions(space.variables, space.registers, given)

"""Static checks of a pattern: types, attributes, kinds, names and scopes.

Unknown types and attributes, comparisons of a string with a number, unbound variables and time events out of their
scope are errors here and never surprises later. An open registry knows all types and attributes, of unknown kinds.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Final

from distced.detectors.language.key_output import whole_key
from distced.detectors.language.names import all_registers, all_variables
from distced.detectors.language.parser import parse_expression
from distced.detectors.language.private import WithPrivates
from distced.detectors.language.scanner import error_at
from distced.detectors.language.states import readers_in
from distced.middleware.model.clock_rules import check_clock, is_clock
from distced.middleware.model.errors import PatternError, TypeRegistryError
from distced.middleware.model.event_types import UNKNOWN_TYPE, EventType, Kind, TypeRegistry, kind_of
from distced.middleware.patterns import tree
from distced.middleware.sets import expressions
from distced.middleware.sets.aggregates import (
    AGGREGATES,
    SLIDING,
    fault,
    is_aggregate,
    is_sliding,
    slides,
    sliding_fault,
)
from distced.middleware.sets.describable import AnySet, DescribableSet, Filtered, TypeSet, set_children, walk_set
from distced.middleware.sets.describable import conditions as describable_conditions
from distced.middleware.sets.expressions import walk as walk_expression
from distced.middleware.sets.local_time import LOCAL_TIMES
from distced.middleware.sets.state_reads import ALL, GROUP_READS, is_certain, state_of
from distced.middleware.sets.values import FUNCTIONS

Kinds = Mapping[str, Kind | None]

# What the registry takes as a name. Other names can be written in back-quotes, and some mean something to automata.
_NAME: Final = re.compile(r"[^\W\d]\w*")
_MARK: Final = re.compile(r"&c[0-9a-f]{16}")
"""Type of a private publication in canonical form, its canonical id."""


def check_computed(derived: tree.DerivedType, registry: TypeRegistry, *, text: str = "") -> None:
    """Raise `PatternError` for an invalid computed attribute of a derived type."""
    checker = _Checker(registry, text)
    base = registry.find(derived.base)
    known = None if registry.open or base is None else checker.attributes_of(base)
    checker.may_slide = True
    checker.readers = (TypeSet(derived.base),)
    for name, value in derived.computed:
        checker.kind(value, _Scope(), known)
        if name in derived.by and slides(value):
            raise checker.error("an aggregate over a window as a key", value.span)


def computed_kinds(event_type: EventType, registry: TypeRegistry) -> dict[str, Kind | None]:
    """The kinds of the attributes that a derived type computes itself. Raises `PatternError` for an invalid one."""
    return _Checker(registry, "").computed(event_type)


def check(publication: tree.Publication, registry: TypeRegistry, *, text: str = "") -> EventType:
    """The type of the pattern's composite events. Raises `PatternError` for an invalid pattern."""
    return _Checker(registry, text).publication(publication)


def check_private_name(output: tree.Output, *, text: str = "") -> None:
    """Raise `PatternError` for an invalid name of a private publication."""
    if not _MARK.fullmatch(output.type_name):
        _Checker(TypeRegistry(), text).name_of(output.type_name, "a type", output.span)


@dataclass(frozen=True, slots=True)
class _Scope:
    """The names visible at a place in the pattern.

    Attributes:
        variables: the attributes of the events bound so far, None where any may be there.
        registers: their kinds, None where unknown.
        timers: time events.
        open: the registers whose `init` stands around this place.
        beyond: the names outside a side of a `&`, which are not visible within it.
        keys: the attributes every set is read by.
    """

    variables: Mapping[str, Kinds | None] = field(default_factory=dict)
    registers: Mapping[str, Kind | None] = field(default_factory=dict)
    timers: frozenset[str] = frozenset()
    open: frozenset[str] = frozenset()
    beyond: frozenset[str] = frozenset()
    keys: tuple[str, ...] = ()


class _Checker:
    def __init__(self, registry: TypeRegistry, text: str) -> None:
        self.registry = registry
        self.text = text
        # What registers that were made up stand for.
        self.written: dict[str, str] = {}
        self.used_types: dict[str, expressions.Span | None] = {}
        self.used_timers: dict[str, expressions.Span | None] = {}
        self.derived_kinds: dict[str, Kinds] = {}
        # Types of the event at hand.
        self.at_hand: frozenset[str] = frozenset()
        # Whether an expression is a computed attribute, which may be an aggregate over a window.
        self.may_slide = False
        # Types of the events at hand where an expression may read a state; None where it may not.
        self.readers: tuple[TypeSet | AnySet, ...] | None = None
        # Variables of the pattern, which hide states of their names.
        self.variables: frozenset[str] = frozenset()

    def publication(self, publication: tree.Publication) -> EventType:
        pattern, output = publication.pattern, publication.output
        self.variables = frozenset(all_variables(pattern))
        scope = self.pattern(pattern, _Scope())
        self.scoped_sides(pattern)
        for name, span in self.used_timers.items():
            if name in self.used_types:
                raise self.error("a time event may not hide a type", span, given=name, advice="choose another name")
        if not any(_visible(pattern)):
            raise self.error(
                "a pattern that would match nothing: all it matches is hidden, or time events",
                pattern.span,
                advice="take a ~ away",
            )
        if output is None:
            return EventType("", {})
        # The value of the key is the same for all events, whatever they are.
        registers = self.registers_of(pattern, scope)
        return self.output(output, replace(scope, registers=registers, keys=whole_key(pattern)))

    # Patterns: each gives the scope of what comes behind it.

    def pattern(self, pattern: tree.Pattern, scope: _Scope) -> _Scope:
        match pattern:
            case tree.Atom():
                return self.atom(pattern, scope)
            case tree.Concatenation(parts=parts) | tree.Sequence(parts=parts):
                for part in parts:
                    scope = self.pattern(part, scope)
                return scope
            case tree.Alternation(parts=parts):
                return self.after(scope, [self.pattern(part, scope) for part in parts])
            case tree.Parallel():
                return self.parallel(pattern, scope)
            case tree.Iteration(body=body):
                # What a round binds can be read in the next.
                bound = _either((scope.variables, self.variables_in(body, scope)))
                inside = self.pattern(body, replace(scope, variables=bound))
                return self.after(scope, [scope, inside]) if tree.nullable(pattern) else inside
            case tree.Timing():
                return self.timing(pattern, scope)
            case tree.Scope(body=body, domain=domain):
                self.set(domain, scope)
                return self.pattern(body, scope)
            case tree.Hidden(body=body) | tree.Window(body=body):
                return self.pattern(body, scope)
            case tree.Keyed(body=body, attributes=attributes):
                self.key_begins(body, scope)
                inside = self.pattern(body, replace(scope, keys=(*scope.keys, *attributes)))
                return replace(inside, keys=scope.keys)
            case tree.Init():
                return self.init(pattern, scope)
            case tree.Reference(name=name):
                raise self.error("no definition of this name", pattern.span, given=name)
            case tree.Delegated(whole=whole):
                return self.pattern(whole, scope)

    def key_begins(self, body: tree.Pattern, scope: _Scope) -> None:
        """Check that no match of a key's pattern begins with a time event, which has no attributes for the key."""
        for atom in _first_atoms(body):
            for each in walk_set(atom.label):
                if isinstance(each, TypeSet) and is_clock(self.registry.root(each.name)):
                    raise self.error(
                        "what is read by a key may not begin with a clock, which has no value of it",
                        each.span,
                        given=each.name,
                        advice="let it begin with an event",
                    )
                if isinstance(each, TypeSet) and each.name in scope.timers:
                    raise self.error(
                        "what is read by a key may not begin with a time event, which has no value of it",
                        each.span,
                        given=each.name,
                        advice=f"let the key begin behind it: [{each.name}] (... by ...)",
                    )

    def atom(self, atom: tree.Atom, scope: _Scope) -> _Scope:
        known = self.set(atom.label, scope)
        if atom.domain is not None:
            self.set(atom.domain, scope)
        after = scope
        self.at_hand = _types_in(atom.label)
        if atom.variable:
            if atom.variable in scope.registers:
                raise self.error("a variable and a register of one name", atom.span, given=atom.variable)
            after = replace(scope, variables={**scope.variables, atom.variable: known})
        for name, value in atom.updates:
            if name not in scope.registers:
                raise self.error(
                    "no register of this name",
                    atom.span,
                    given=name,
                    allowed=", ".join(scope.registers) or "none",
                    advice=f"begin the pattern with `init {name} = 0 :`",
                )
            self.readers = tuple(readers_in(atom.label))
            what = self.written.get(name, f"the register {name}")
            self.same_kind(scope.registers[name], self.kind(value, after, known), value, what)
            self.readers = None
        return after

    def parallel(self, pattern: tree.Parallel, scope: _Scope) -> _Scope:
        hidden = frozenset((*scope.variables, *scope.registers, *scope.timers)) | scope.beyond
        sides = []
        for side, other in ((pattern.left, pattern.right), (pattern.right, pattern.left)):
            if not any(_visible(side)):
                raise self.error(
                    "a side of & that would match nothing: all it matches is hidden, or time events",
                    side.span,
                    advice="take a ~ away, or hide the whole: ~(... & ...)",
                )
            beyond = (hidden | _made(other)) - _made(side)
            sides.append(self.pattern(side, _Scope(open=scope.open, beyond=beyond, keys=scope.keys)))
        # Both sides are there behind it: what they bind hides what was bound before.
        both = self.after(scope, sides)
        variables = {**scope.variables, **both.variables}
        return replace(scope, variables=variables, registers={**scope.registers, **both.registers})

    def scoped_sides(self, pattern: tree.Pattern) -> None:
        """Check that what a side of a `&` in a scope asks of an attribute is no register outside of the side, for the
        joining state asks for it, too."""
        scopes = (node for node in tree.walk(pattern) if isinstance(node, tree.Scope))
        for node in (inner for scope in scopes for inner in tree.walk(scope.body)):
            for side in (node.left, node.right) if isinstance(node, tree.Parallel) else ():
                outside = frozenset(all_registers(pattern)) - frozenset(all_registers(side))
                atoms = [each for each in tree.walk(side) if isinstance(each, tree.Atom)]
                conditions = [each for atom in atoms for each in describable_conditions(atom.label)]
                for each in (part for condition in conditions for part in walk_expression(condition)):
                    if isinstance(each, expressions.Name) and each.name in outside:
                        raise self.error(
                            "both a register and an attribute", each.span, given=each.name, advice="rename the register"
                        )

    def timing(self, pattern: tree.Timing, scope: _Scope) -> _Scope:
        if tree.nullable(pattern.first):
            raise self.error(
                "what comes before a time event can match nothing, so the time event would have no beginning",
                pattern.first.span,
                advice="let it match at least one event, with + for *",
            )
        between = self.pattern(pattern.first, scope)
        timer = pattern.timer
        if timer in scope.timers:
            raise self.error(
                "a time event may not hide another", pattern.span, given=timer, advice="choose another name"
            )
        if timer in self.registry:
            raise self.error(
                "a time event may not hide a type", pattern.span, given=timer, advice="choose another name"
            )
        self.used_timers[timer] = pattern.span
        if isinstance(pattern.when, tree.Calculated):
            self.delay(pattern.when.delay, between)
        after = self.pattern(pattern.second, replace(between, timers=scope.timers | {timer}))
        return replace(after, timers=scope.timers)

    def delay(self, delay: expressions.Expression, scope: _Scope) -> None:
        """Check the calculated delay of a time event."""
        where = "where a time event is set off"
        self.no_event(delay, where)
        for each in walk_expression(delay):
            if isinstance(each, expressions.Name) and each.name not in scope.registers:
                raise self.error(
                    f"no event is at hand {where}",
                    each.span,
                    given=each.name,
                    allowed=self.listed((*scope.registers, *(f"{x}.{each.name}" for x in scope.variables))),
                    advice=f"bind the event before, [... as x], and write x.{each.name}",
                )
        self.at_hand = frozenset()
        kind = self.kind(delay, scope, {})
        if kind not in (None, "number"):
            raise self.error(
                f"a {kind} where a duration is wanted",
                delay.span,
                allowed="a number of nanoseconds",
                advice="of a number of seconds write x.timeout * 1s",
            )

    def no_event(self, expression: expressions.Expression, where: str) -> None:
        """Check that an expression does not read the time of an event at hand."""
        for each in walk_expression(expression):
            if isinstance(each, expressions.Moment) and not each.variable:
                raise self.error(
                    f"no event is at hand {where}",
                    each.span,
                    allowed=f"{each.end}(x) of a variable x that is bound before",
                )

    def init(self, pattern: tree.Init, scope: _Scope) -> _Scope:
        registers = dict(scope.registers)
        names = frozenset(name for name, _ in pattern.registers)
        self.written |= dict(pattern.written)
        for name, initial in pattern.registers:
            if name in scope.variables:
                raise self.error("a variable and a register of one name", pattern.span, given=name)
            if name in scope.open:
                raise self.error(
                    "a register may not hide another", pattern.span, given=name, advice="choose another name"
                )
            self.no_event(initial, "where a register begins")
            self.at_hand = frozenset()
            registers[name] = self.kind(initial, scope, {})
        inside = self.pattern(pattern.body, replace(scope, registers=registers, open=scope.open | names))
        return replace(inside, open=scope.open)

    def after(self, scope: _Scope, branches: list[_Scope]) -> _Scope:
        """The scope behind alternatives."""
        registers: dict[str, Kind | None] = {}
        for branch in branches:
            for name, kind in branch.registers.items():
                registers[name] = kind if registers.get(name, kind) == kind else None
        return replace(scope, variables=_either(branch.variables for branch in branches), registers=registers)

    def variables_in(self, pattern: tree.Pattern, scope: _Scope) -> dict[str, Kinds | None]:
        """The variables bound by the atoms of a pattern, before any of them is checked."""
        return _either(
            {node.variable: self.attributes(node.label, scope)}
            for node in tree.walk(pattern)
            if isinstance(node, tree.Atom) and node.variable
        )

    def registers_of(self, pattern: tree.Pattern, scope: _Scope) -> Mapping[str, Kind | None]:
        return {**dict.fromkeys(all_registers(pattern)), **scope.registers}

    def kind_of_key(self, attribute: str) -> Kind | None:
        """The kind of a key's attribute, where it is one for all types."""
        types = [self.registry.find(name) for name in self.used_types]
        kinds = {self.attributes_of(each).get(attribute) for each in types if each is not None}
        return kinds.pop() if len(kinds) == 1 and not self.registry.open else None

    # Sets.

    def set(self, described: DescribableSet, scope: _Scope) -> Kinds | None:
        """Check a set; the attributes of its events, None for any."""
        for each in walk_set(described):
            if isinstance(each, TypeSet):
                self.type_name(each, scope)
        self.filters(described, scope)
        return self.attributes(described, scope)

    def filters(self, described: DescribableSet, scope: _Scope) -> None:
        for child in set_children(described):
            self.filters(child, scope)
        if isinstance(described, Filtered):
            known = self.common_attributes(described.base, scope)
            self.at_hand = _types_in(described.base)
            self.readers = tuple(readers_in(described.base))
            kind = self.kind(described.condition, scope, known)
            self.readers = None
            self.boolean(kind, described.condition)

    def type_name(self, named: TypeSet, scope: _Scope) -> None:
        name = named.name
        if name in scope.timers:
            return
        if name in scope.beyond and name not in self.registry:
            raise self.error(
                "a side of & is detected on its own and cannot see this from outside", named.span, given=name
            )
        if is_clock(name):
            try:
                check_clock(name)
            except TypeRegistryError as error:
                raise self.error(error.problem, named.span, given=error.given, allowed=error.allowed) from None
        elif not (isinstance(self.registry, WithPrivates) and self.registry.private(name)):
            self.name_of(name, "a type", named.span)
        self.used_types.setdefault(name, named.span)
        if is_clock(self.registry.root(name)):
            # Whatever the key of an instance is, a clock concerns it.
            return
        event_type = self.registry.find(name)
        if event_type is not None and event_type.derived is not None and event_type.derived.last:
            raise self.error(
                "a state has no events of its own",
                named.span,
                given=name,
                allowed=f"{event_type.derived.base}, whose last event it is",
                advice=f"read it in a guard: [A where x > last({name}.x{', ...' * bool(event_type.derived.by)})]",
            )
        if event_type is None and not self.registry.open:
            known = sorted((*(each.name for each in self.registry), *scope.timers))
            raise self.error(
                UNKNOWN_TYPE,
                named.span,
                given=name,
                allowed=", ".join(known) or "none is registered yet",
                advice="register it, or mend its name",
            )
        if event_type is not None and not self.registry.open:
            attributes: Kinds = self.attributes_of(event_type) if scope.keys else {}
            for attribute in scope.keys:
                if attribute not in attributes:
                    raise self.error(
                        f"the pattern is keyed by {attribute!r}, which {name!r} does not have",
                        named.span,
                        given=name,
                        allowed=", ".join(attributes) or None,
                    )

    def name_of(self, name: str, what: str, span: expressions.Span | None) -> None:
        if not _NAME.fullmatch(name):
            allowed = "letters, digits and _, no digit first"
            raise self.error(f"not a name for {what}", span, given=name, allowed=allowed)

    def types(self, described: DescribableSet, scope: _Scope) -> Iterator[EventType | None]:
        """The types of a set's events; None for an unknown one."""
        match described:
            case TypeSet(name=name):
                if is_clock(name):
                    yield EventType(name, {})
                elif name not in scope.timers:
                    yield None if self.registry.open else self.registry.find(name)
            case AnySet():
                yield None
            case _:
                children = set_children(described)
                # What is taken away does not add types.
                for child in children[:1] if hasattr(described, "left") else children:
                    yield from self.types(child, scope)

    def attributes(self, described: DescribableSet, scope: _Scope) -> Kinds | None:
        """The attributes that events of a set may have."""
        found: dict[str, Kind | None] = {}
        for event_type in self.types(described, scope):
            if event_type is None:
                return None
            for name, kind in self.attributes_of(event_type).items():
                found[name] = kind if found.get(name, kind) == kind else None
        return found

    def common_attributes(self, described: DescribableSet, scope: _Scope) -> Kinds | None:
        """The attributes that all events of a set have."""
        types = list(self.types(described, scope))
        known = self.attributes(described, scope)
        if known is None:
            return None
        return {
            name: kind
            for name, kind in known.items()
            if all(each is None or name in self.attributes_of(each) for each in types)
        }

    # Expressions.

    def kind(self, expression: expressions.Expression, scope: _Scope, known: Kinds | None) -> Kind | None:
        """The kind of an expression's value; None if unknown. `known` are the attributes in scope."""
        match expression:
            case expressions.Literal(value=value, constant=constant):
                if constant and known is not None and constant in known:
                    raise self.error(
                        "both a constant and an attribute",
                        expression.span,
                        given=constant,
                        advice="rename the constant",
                    )
                return kind_of(value)
            case expressions.Name():
                return self.name(expression, scope, known)
            case expressions.Field():
                return self.field(expression, scope)
            case expressions.Moment(variable=variable):
                if variable:
                    self.bound(variable, expression, scope)
                return "number"
            case expressions.Unary(operator="not", operand=operand):
                self.boolean(self.kind(operand, scope, known), operand)
                return "boolean"
            case expressions.Unary(operand=operand):
                self.number(self.kind(operand, scope, known), operand)
                return "number"
            case expressions.Binary():
                return self.binary(expression, scope, known)
            case expressions.Call():
                return self.call(expression, scope, known)
            case expressions.Verbatim() | expressions.Parameter():
                given = expressions.format_expression(expression)
                raise self.error("an expression that was not parsed", expression.span, given=given)

    def name(self, expression: expressions.Name, scope: _Scope, known: Kinds | None) -> Kind | None:
        name = expression.name
        if name in scope.registers:
            evident = known is None and (name in scope.keys or any(map(self.has, self.at_hand, repeat(name))))
            if evident or (known is not None and name in known):
                raise self.error(
                    "both a register and an attribute", expression.span, given=name, advice="rename the register"
                )
            return scope.registers[name]
        if known is None:
            return None
        if name not in known:
            advice = f"{name} is a variable: write {name}.attribute" if name in scope.variables else None
            if name in scope.beyond:
                advice = "a side of & is detected on its own and cannot see this from outside"
            computed = frozenset[str]().union(*map(self.registry.computed, self.at_hand))
            allowed = self.listed((*scope.registers, *known), known.keys() - computed)
            raise self.error("unknown attribute", expression.span, given=name, allowed=allowed, advice=advice)
        return known[name]

    def listed(self, names: Iterable[str], declared: Collection[str] = ()) -> str | None:
        """Names for an error: those that a translation made up begin with `_`, and are not in the text."""
        shown = (each for each in names if not each.startswith("_") or each in declared or each in self.text)
        return ", ".join(shown) or None

    def has(self, type_name: str, attribute: str) -> bool:
        """Whether a type that need not be declared is known to have an attribute."""
        found = self.registry.find(type_name)
        return found is not None and (attribute in found.attributes or attribute in self.registry.computed(type_name))

    def attributes_of(self, event_type: EventType) -> Kinds:
        """The attributes of a type, computed ones and those of an unknown kind among them."""
        unknown = dict.fromkeys(sorted(self.registry.undetermined(event_type.name)))
        if event_type.derived is None:
            return {**event_type.attributes, **unknown} if unknown else event_type.attributes
        known = self.derived_kinds.get(event_type.name)
        if known is None:
            base = self.registry.find(event_type.derived.base)
            of_base = event_type.attributes if base is None else self.attributes_of(base)
            own = self.computed(event_type) if event_type.derived.computed else {}
            known = self.derived_kinds[event_type.name] = {**event_type.attributes, **of_base, **own}
        return known

    def computed(self, event_type: EventType) -> dict[str, Kind | None]:
        """The kinds of the attributes that a derived type computes itself."""
        derived = event_type.derived
        base = None if derived is None else self.registry.find(derived.base)
        if derived is None or base is None:
            return {}
        of_base = None if self.registry.open else self.attributes_of(base)
        kinds: dict[str, Kind | None] = {}
        for name, text in derived.computed:
            try:
                # Places in errors are those of the expression.
                checker = _Checker(self.registry, text)
                checker.may_slide = True
                checker.readers = (TypeSet(base.name),)
                kinds[name] = checker.kind(parse_expression(text), _Scope(), of_base)
            except PatternError as error:
                where = f"derived type {event_type.name}"
                error.where = f"{where}, {error.where}" if error.where else where
                raise
        return kinds

    def field(self, expression: expressions.Field, scope: _Scope) -> Kind | None:
        known = self.bound(expression.variable, expression, scope)
        if known is None:
            return None
        if expression.attribute not in known:
            raise self.error(
                f"the events bound to {expression.variable!r} have no such attribute",
                expression.span,
                given=expression.attribute,
                allowed=", ".join(known) or None,
            )
        return known[expression.attribute]

    def bound(
        self, variable: str, expression: expressions.Expression, scope: _Scope, otherwise: str = ""
    ) -> Kinds | None:
        if variable not in scope.variables:
            advice = f"bind it before: [... as {variable}]{otherwise}"
            if variable in scope.beyond:
                advice = "a side of & is detected on its own and cannot see what is bound outside"
            raise self.error(
                "nothing is bound to this variable",
                expression.span,
                given=variable,
                allowed=self.listed(scope.variables),
                advice=advice,
            )
        return scope.variables[variable]

    def binary(self, expression: expressions.Binary, scope: _Scope, known: Kinds | None) -> Kind | None:
        operator, left, right = expression.operator, expression.left, expression.right
        kinds = self.kind(left, scope, known), self.kind(right, scope, known)
        if operator in ("and", "or"):
            self.boolean(kinds[0], left)
            self.boolean(kinds[1], right)
            return "boolean"
        if operator in expressions.COMPARISONS:
            if None not in kinds and kinds[0] != kinds[1]:
                raise self.error(f"compares a {kinds[0]} with a {kinds[1]}", expression.span)
            return "boolean"
        if operator == "+" and kinds[0] != "number" and kinds[1] != "number":
            for kind, side in zip(kinds, (left, right), strict=True):
                if kind == "boolean":
                    raise self.error("adds a boolean", side.span, allowed="two numbers, or two strings")
            return kinds[0] or kinds[1]
        self.number(kinds[0], left)
        self.number(kinds[1], right)
        return "number"

    def aggregate(self, aggregate: expressions.Call, scope: _Scope) -> Kind | None:
        """The kind of an aggregate over the events of a variable."""
        if found := fault(aggregate):
            raise self.error(found[0], aggregate.span, allowed=found[1])
        argument = aggregate.arguments[0]
        kind = self.kind(argument, scope, None)
        takes, gives = AGGREGATES[aggregate.function].takes, AGGREGATES[aggregate.function].gives
        if None not in (kind, takes) and kind != takes:
            raise self.error(f"{aggregate.function} of a {kind}", argument.span, allowed=f"a {takes}", given=None)
        return gives or kind  # type: ignore[return-value]

    def sliding(self, sliding: expressions.Call, scope: _Scope, known: Kinds | None) -> Kind | None:
        """The kind of an aggregate over a sliding window."""
        if not self.may_slide:
            raise self.error(
                "an aggregate over a window that is no computed attribute of a derived type",
                sliding.span,
                advice="write type Mean = Temp with (mean = avg(temp) over 10min) by room, and read its attribute",
            )
        if found := sliding_fault(sliding):
            raise self.error(found[0], sliding.span, allowed=found[1])
        aggregate, _ = sliding.arguments
        assert isinstance(aggregate, expressions.Call)
        takes, gives = SLIDING[aggregate.function], AGGREGATES[aggregate.function].gives
        kind = self.kind(aggregate.arguments[0], scope, known)
        if None not in (kind, takes) and kind != takes:
            raise self.error(f"{aggregate.function} of a {kind}", aggregate.span, allowed=f"a {takes}", given=None)
        return gives or kind  # type: ignore[return-value]

    def state(self, read: expressions.Call, state: EventType, scope: _Scope, known: Kinds | None) -> Kind | None:
        """The kind of the last value of a type."""
        assert state.derived is not None
        if self.readers is None:
            raise self.error(
                "a state is read where an event is at hand",
                read.span,
                allowed="guards, set, and computed attributes of derived types",
                advice=f"keep the value in a register, [A set x = {expressions.format_expression(read)}], "
                "or in a computed attribute, type B = A with (...)",
            )
        self.check_readers(read, scope)
        value, *at = read.arguments
        if expressions.names(value) or any(
            isinstance(node, expressions.Moment) and not node.variable for node in walk_expression(value)
        ):
            allowed = f"{read.function}({state.name}.temp, ...), or a calculation with attributes of {state.name} alone"
            raise self.error(f"{read.function} of what is not of the events of the state", value.span, allowed=allowed)
        if any(is_aggregate(node) or state_of(node) for node in walk_expression(value)):
            raise self.error("a state of a state, or of an aggregate", value.span, allowed="one of a derived type")
        of_state = None if self.registry.open else self.attributes_of(state)
        kind = self.kind(value, _Scope(variables={state.name: of_state}), {})
        group = read.function in GROUP_READS
        if group and not state.derived.by:
            raise self.error(
                f"{read.function} of a state without a key", read.span, allowed="one that is kept by an attribute"
            )
        if group and len(at) >= len(state.derived.by):
            *others, _ = state.derived.by
            keys = ", ".join((f"{read.function}({expressions.format_expression(value)}", *others))
            raise self.error(
                f"{read.function} is over what is left out of the key, which is {', '.join(state.derived.by)}",
                read.span,
                allowed=f"{keys})",
                given=None,
            )
        if read.function == ALL:
            self.boolean(kind, value)
        if not group and len(at) != len(state.derived.by):
            keys = ", ".join((f"{read.function}({expressions.format_expression(value)}", *state.derived.by))
            raise self.error(
                f"the state {state.name} is kept by {', '.join(state.derived.by) or 'nothing'}",
                read.span,
                allowed=f"{keys})",
                given=None,
            )
        for name, each in zip(state.derived.by, at, strict=False):
            outside = expressions.variables(each) or expressions.names(each) & scope.registers.keys()
            if outside and not state_of(each):
                raise self.error(
                    "the key of a state is of the event at hand",
                    each.span,
                    allowed="its attributes, and calculations with them",
                )
            wanted = None if of_state is None else of_state.get(name)
            self.same_kind(wanted, self.kind(each, scope, known), each, f"the key {name} of {state.name}")
        if group:
            return "boolean" if read.function == ALL else "number"
        return kind

    def check_readers(self, read: expressions.Call, scope: _Scope) -> None:
        """Check that a state is read by events of named types."""
        for each in self.readers or ():
            named = each.name if isinstance(each, TypeSet) else "any"
            private = isinstance(self.registry, WithPrivates) and self.registry.private(named)
            if isinstance(each, AnySet) or private or named in scope.timers:
                what = "a private publication" if private else "a time event" if named in scope.timers else "any"
                raise self.error(
                    f"a state is read by events of named types, and not by {what}",
                    read.span,
                    given=named,
                    allowed="event types, derived types, and types that other patterns publish",
                )

    def call(self, expression: expressions.Call, scope: _Scope, known: Kinds | None) -> Kind | None:
        if is_sliding(expression):
            return self.sliding(expression, scope, known)
        if (name := state_of(expression)) and name not in self.variables:
            state = self.registry.find(name)
            if state is not None and state.derived is not None and state.derived.last:
                return self.state(expression, state, scope, known)
        if is_certain(expression):
            states = [each.name for each in self.registry if each.derived is not None and each.derived.last]
            raise self.error(
                "a variable where a state is wanted" if name in self.variables else "no state of this name",
                expression.span,
                given=name,
                allowed=", ".join(sorted(states)) or "none is defined",
                advice="define it: type Inside = last Temp by room",
            )
        if is_aggregate(expression):
            return self.aggregate(expression, scope)
        function = FUNCTIONS[expression.function]
        common: Kind | None = None
        arguments = expression.arguments
        if expression.function == "if":
            self.boolean(self.kind(arguments[0], scope, known), arguments[0])
            arguments = arguments[1:]
        if expression.function == "in":
            kinds = [self.kind(each, scope, known) for each in arguments]
            for kind, option in zip(kinds[1:], arguments[1:], strict=True):
                if None not in (kinds[0], kind) and kinds[0] != kind:
                    raise self.error(f"compares a {kinds[0]} with a {kind}", option.span)
            return "boolean"
        if expression.function in LOCAL_TIMES:
            arguments = arguments[:1]
            if isinstance(instant := arguments[0], expressions.Moment) and instant.variable:
                otherwise = f", or for an attribute write {expression.function}(({instant.variable}))"
                self.bound(instant.variable, instant, scope, otherwise)
        for argument in arguments:
            kind = self.kind(argument, scope, known)
            wanted = function.takes or common
            if kind is not None and wanted is not None and kind != wanted:
                raise self.error(f"{expression.function} of a {kind}", argument.span, allowed=f"a {wanted}", given=None)
            common = common or kind
        return function.gives or common  # type: ignore[return-value]

    def boolean(self, kind: Kind | None, expression: expressions.Expression) -> None:
        if kind not in (None, "boolean"):
            raise self.error(
                f"a {kind} where a condition is wanted", expression.span, advice="compare it with something"
            )

    def number(self, kind: Kind | None, expression: expressions.Expression) -> None:
        if kind not in (None, "number"):
            raise self.error(f"calculates with a {kind}", expression.span, allowed="numbers")

    def same_kind(self, wanted: Kind | None, kind: Kind | None, expression: expressions.Expression, what: str) -> None:
        if None not in (wanted, kind) and wanted != kind:
            raise self.error(f"{what} is a {wanted}", expression.span, given=f"a {kind}")

    # The output.

    def output(self, output: tree.Output, scope: _Scope) -> EventType:
        if output.type_name in self.used_types:
            raise self.error(
                "the pattern reads what it publishes itself",
                output.span,
                given=output.type_name,
                advice="choose another name",
            )
        if output.type_name:
            self.name_of(output.type_name, "a type", output.span)
        for name, _ in output.attributes:
            self.name_of(name, "an attribute", output.span)
        self.at_hand = frozenset()
        keys = {name: self.kind_of_key(name) for name in scope.keys}
        kinds = {name: self.kind(value, scope, keys) for name, value in output.attributes}
        # An attribute that shows a register under the register's own name is no second thing.
        known = keys | {name: kinds[name] for name, value in output.attributes if value != expressions.Name(name)}
        for each in output.take:
            self.kind(expressions.Moment("hi", each.variable, span=each.span), scope, known)
        for condition in (output.condition, *(each.condition for each in output.take)):
            if condition is not None:
                self.boolean(self.kind(condition, scope, known), condition)
        if output.consuming == "variables" and not scope.variables:
            raise self.error(
                "nothing to consume: no event of the pattern has a variable",
                output.span,
                advice="name the events that are in one match only, [A as a], or write consuming all",
            )
        self.quiet(output)
        return EventType(output.type_name, {name: kind for name, kind in kinds.items() if kind is not None})

    def quiet(self, output: tree.Output) -> None:
        if output.quiet is None:
            return
        shown = [name for name, _ in output.attributes]
        for name in output.quiet.by:
            if name not in shown:
                raise self.error(
                    "at most is by attributes of the output",
                    output.quiet.span,
                    given=name,
                    allowed=", ".join(shown) or "none, as the output has none",
                    advice=f"add {name} = ... to the output, or leave by out",
                )

    def error(
        self,
        problem: str,
        span: expressions.Span | None,
        *,
        given: object = None,
        allowed: str | None = None,
        advice: str | None = None,
    ) -> PatternError:
        if given is None and span is not None and self.text:
            given = self.text[span.start : span.end]
        return error_at(self.text, span, problem, given=given, allowed=allowed, advice=advice)


def _types_in(described: DescribableSet) -> frozenset[str]:
    """Types whose events a set may hold, as far as it names them."""
    if isinstance(described, TypeSet):
        return frozenset((described.name,))
    children = set_children(described)
    return frozenset().union(*map(_types_in, children[:1] if hasattr(described, "left") else children))


def _either(branches: Iterable[Mapping[str, Kinds | None]]) -> dict[str, Kinds | None]:
    """The attributes of variables bound in either alternative."""
    found: dict[str, Kinds | None] = {}
    for branch in branches:
        for name, kinds in branch.items():
            known = found.get(name, {})
            if name not in found or known is None or kinds is None:
                found[name] = kinds if name not in found else None
            else:
                found[name] = {
                    attribute: kind if known.get(attribute, kind) == kinds.get(attribute, kind) else None
                    for attribute, kind in {**known, **kinds}.items()
                }
    return found


def _made(side: tree.Pattern) -> frozenset[str]:
    timers = (node.timer for node in tree.walk(side) if isinstance(node, tree.Timing))
    return frozenset((*all_variables(side), *all_registers(side), *timers))


def _first_atoms(pattern: tree.Pattern) -> Iterator[tree.Atom]:
    """The atoms with which a match of the pattern may begin."""
    match pattern:
        case tree.Atom():
            yield pattern
        case tree.Concatenation(parts=parts) | tree.Sequence(parts=parts):
            for part in parts:
                yield from _first_atoms(part)
                if not tree.nullable(part):
                    break
        case tree.Timing(first=first):
            yield from _first_atoms(first)
        case tree.Parallel() | tree.Reference() | tree.Delegated():
            return
        case _:
            for child in tree.children(pattern):
                yield from _first_atoms(child)


def _visible(pattern: tree.Pattern, timers: frozenset[str] = frozenset(), hidden: bool = False) -> Iterator[bool]:
    """For each atom whether its match can be a constituent."""
    match pattern:
        case tree.Atom(label=label):
            named = [each for each in walk_set(label) if isinstance(each, AnySet | TypeSet)]
            # An empty set is another matter: it is a pattern that can never match.
            yield not hidden and (
                not named or any(isinstance(each, AnySet) or each.name not in timers for each in named)
            )
        case tree.Hidden(body=body):
            yield from _visible(body, timers, True)
        case tree.Timing(first=first, second=second, timer=timer):
            yield from _visible(first, timers, hidden)
            yield from _visible(second, timers | {timer}, hidden)
        case tree.Reference() | tree.Delegated():
            yield True
        case _:
            for child in tree.children(pattern):
                yield from _visible(child, timers, hidden)

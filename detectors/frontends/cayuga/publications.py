"""Publications of plans: what is no part of a chain is a private publication, which is read as a stream.

cayuga-algebra-cesar, section 3.5: right inputs that are composite, and unions as left inputs, need automata of their
own, whose events the others read within the same instant. All publications are consumed by epochs (section 2.2: all
first successors of one instant are taken).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from distced.detectors.frontends.cayuga.algebra_plan import (
    Compute,
    Follow,
    Iterate,
    Plan,
    Select,
    Stream,
    Union,
    attributes,
    inputs,
)
from distced.detectors.frontends.cayuga.chain import (
    MOST_NODES,
    Chain,
    Flat,
    TooLargeError,
    begun,
    flat,
    followed,
    iterated,
)
from distced.detectors.frontends.made_names import MadeNames
from distced.detectors.language.private import output_of
from distced.detectors.language.scanner import error_at
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.patterns.naming import rebuild
from distced.middleware.patterns.tree import (
    Alternation,
    Atom,
    Init,
    Output,
    Pattern,
    Publication,
    expressions_of,
    output_expressions,
    walk,
)
from distced.middleware.sets.describable import conditions
from distced.middleware.sets.expressions import Expression, Literal, Name, Span, variables
from distced.middleware.sets.expressions import names as names_in

EPOCH: Final = "epoch"


class Publications:
    """Publications of a text, made of its plans.

    Attributes:
        public: in order.
        privates: those that others read, each behind what it reads itself.
    """

    def __init__(self, text: str, registry: TypeRegistry, taken: Iterable[str]) -> None:
        """Those of a text; `taken`: names of streams and attributes that it reads or publishes."""
        self._text = text
        self.public: list[Publication] = []
        self.privates: list[Publication] = []
        self._registry = registry
        self._taken = frozenset(taken)
        self._names = MadeNames(taken)

    def publish(self, name: str, plan: Plan, span: Span | None, name_span: Span | None) -> None:
        """Add a publication, with the places of the whole and of its name; its composite events have no type of their
        own where the name is empty."""
        self._taken |= _all_attributes(plan)
        try:
            made = self._publication(name, plan, name_span or span)
        except TooLargeError as error:
            raise error_at(
                self._text,
                error.span or span,
                "an expression that is too large with what its names stand for",
                allowed=f"{MOST_NODES:,} parts",
                advice="publish what is computed before, and read it as a stream",
            ) from None
        self.public.append(replace(made, pattern=replace(made.pattern, span=span)))

    def _publication(self, name: str, plan: Plan, span: Span | None) -> Publication:
        names = MadeNames(self._taken)
        if isinstance(plan, Union):
            pattern, output = self._union(plan, names)
        else:
            chain = self._chain(plan, names)
            pattern = chain.closed()
            output = tuple((each, chain.env.of[each]) for each in attributes(plan))
        made = Publication(pattern, Output(name, output, span=span), consumption=EPOCH)
        return without_unread(made)

    def _chain(self, plan: Plan, names: MadeNames) -> Chain:
        single = flat(plan)
        if single is not None:
            return begun(single, names)
        match plan:
            case Select(source=source, condition=condition):
                return self._chain(source, names).select(condition)
            case Compute(source=source, values=values):
                return self._chain(source, names).compute(values)
            case Follow(first=first, second=second, condition=condition, overlapping=overlapping):
                chain, at_hand = self._chain(first, names), self._stream(second)
                return followed(chain, at_hand, condition, names, plan.span, overlapping=overlapping)
            case Iterate(first=first, second=second):
                return iterated(self._chain(first, names), self._stream(second), plan, names)
            case _:
                return begun(self._stream(plan), names)

    def _stream(self, plan: Plan) -> Flat:
        """A plan as a single stream, where need be of a private publication: of the whole, but of a union without what
        is selected and computed around it."""
        single = flat(plan)
        if single is None:
            inner = plan
            while isinstance(inner, Select | Compute):
                inner = inner.source
            read = _replaced(plan, self._read(inner)) if isinstance(inner, Union) else self._read(plan)
            single = flat(read)
        assert single is not None
        return single

    def _read(self, plan: Plan) -> Plan:
        """A plan by its private publication, whose attributes have no dots."""
        names = _without_dots(attributes(plan))
        stream = Stream(self._private(plan, names), tuple(names.values()), span=plan.span)
        if all(old == new for old, new in names.items()):
            return stream
        return Compute(stream, tuple((old, Name(new)) for old, new in names.items()), span=plan.span)

    def _private(self, plan: Plan, names: Mapping[str, str]) -> str:
        """Name of the private publication of a plan, with these names of attributes; equal ones are one."""
        made = self._publication("", plan, plan.span)
        output = made.output or Output("")
        output = replace(output, attributes=tuple((names[name], value) for name, value in output.attributes))
        made = replace(made, output=output)
        for each in self.privates:
            if replace(each, output=replace(output_of(each), type_name="")) == made:
                return output_of(each).type_name
        name = self._names.make("part")
        while name in self._registry:
            name = self._names.make("part")
        self.privates.append(replace(made, output=replace(output, type_name=name)))
        return name

    def _union(self, plan: Union, names: MadeNames) -> tuple[Pattern, tuple[tuple[str, Expression], ...]]:
        """Alternatives, whose last atoms set registers for the attributes: an event that two of them find is one."""
        registers = {each: names.make(each) for each in attributes(plan)}
        branches: list[Pattern] = []
        for member in _members(plan):
            chain = self._chain(member, names)
            updates = tuple((register, chain.now.of[name]) for name, register in registers.items())
            branches.append(chain.closed(updates))
        initial = tuple((register, Literal(None)) for register in registers.values())
        pattern: Pattern = Alternation(tuple(branches), span=plan.span)
        if initial:
            pattern = Init(initial, pattern, span=plan.span)
        return pattern, tuple((name, Name(register)) for name, register in registers.items())


def _all_attributes(plan: Plan) -> set[str]:
    """Names of the attributes of a plan and of those inside it, also as private publications have them."""
    names = attributes(plan)
    return {*names, *_without_dots(names).values()}.union(*map(_all_attributes, inputs(plan)))


def _without_dots(names: tuple[str, ...]) -> dict[str, str]:
    """Names without dots, by the names."""
    if not any("." in name for name in names):
        return {name: name for name in names}
    made: dict[str, str] = {}
    taken = set(names)
    for name in names:
        wish = base = name.replace(".", "_")
        number = 1
        while wish != name and wish in taken:
            number += 1
            wish = f"{base}{number}"
        taken.add(wish)
        made[name] = wish
    return made


def _members(plan: Plan) -> list[Plan]:
    if not isinstance(plan, Union):
        return [plan]
    return [member for each in plan.members for member in _members(each)]


def _replaced(plan: Plan, innermost: Plan) -> Plan:
    """A plan of selections and computations over another one."""
    if isinstance(plan, Select | Compute):
        return replace(plan, source=_replaced(plan.source, innermost))
    return innermost


def without_unread(publication: Publication) -> Publication:
    """The publication without registers and variables that nothing reads."""
    updates: dict[str, list[Expression]] = {}
    waiting: list[Expression] = list(output_expressions(publication.output))
    for node in walk(publication.pattern):
        match node:
            case Atom(label=label, domain=domain, updates=changed):
                waiting += conditions(label)
                waiting += () if domain is None else conditions(domain)
                for name, value in changed:
                    updates.setdefault(name, []).append(value)
            case Init(registers=registers):
                for name, value in registers:
                    updates.setdefault(name, []).append(value)
            case _:
                waiting += expressions_of(node)
    read: set[str] = set()
    bound: set[str] = set()
    while waiting:
        each = waiting.pop()
        bound |= variables(each)
        for name in (names_in(each) & updates.keys()) - read:
            read.add(name)
            waiting += updates[name]
    return replace(publication, pattern=_without(publication.pattern, read, bound))


def _without(pattern: Pattern, read: set[str], bound: set[str]) -> Pattern:
    match pattern:
        case Atom(variable=variable, updates=updates):
            kept = tuple(each for each in updates if each[0] in read)
            return replace(pattern, variable=variable if variable in bound else "", updates=kept)
        case Init(registers=registers, body=body):
            left = tuple(each for each in registers if each[0] in read)
            inner = _without(body, read, bound)
            return replace(pattern, registers=left, body=inner) if left else inner
        case _:
            return rebuild(pattern, lambda part: _without(part, read, bound))

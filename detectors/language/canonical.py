"""The name of a pattern: equal patterns share it, whatever they call their variables and however they are laid out.

The name goes into the ids of composite events and tells detectors apart (design, section 1, "Events and describable
sets"). It is a digest of the canonical text: scoped domains pushed down to the atoms, negation and shorthand written
out, sets as a condition for each type, nested joints flattened, alternatives in order and each once, the sides of `&`
in order, and variables, registers and time events numbered as they come.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b

from detectors.language.names import referenced
from detectors.language.printer import format_when
from detectors.language.tree import (
    Alternation,
    Atom,
    Concatenation,
    Hidden,
    Init,
    Iteration,
    Keyed,
    Output,
    Parallel,
    Pattern,
    Publication,
    Reference,
    Scope,
    Sequence,
    Timing,
    Window,
)
from middleware.sets.describable import EMPTY, ConditionByType, DescribableSet, normal_form, union
from middleware.sets.expressions import (
    FALSE,
    TRUE,
    Expression,
    Field,
    Moment,
    Name,
    format_expression,
    quote_name,
    transform,
)

_DIGEST_BYTES = 8


def canonical_id(publication: Publication, *, key: tuple[str, ...] = (), epochs: bool = False) -> str:
    """The name of a pattern with its output, whatever it is keyed by from outside, and its consumption."""
    text = canonical_text(publication, key=key, epochs=epochs)
    return "c" + blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def canonical_text(publication: Publication, *, key: tuple[str, ...] = (), epochs: bool = False) -> str:
    """The text the name is a digest of."""
    writer = _Writer(referenced(publication.pattern, publication.output))
    text = writer.write(publication.pattern, EMPTY)
    if key:
        text = f"{text} by {', '.join(map(quote_name, sorted(key)))}"
    if epochs:
        text = f"{text} by epochs"
    return text if publication.output is None else f"{text} -> {writer.output(publication.output)}"


@dataclass
class _Writer:
    """Writes canonical text.

    Attributes:
        read: the names that are read anywhere; a variable that is not says nothing.
        variables, registers, timers: the canonical name of each, given in the order they are met, read or made. That of
            a register is no name of an attribute, which would look alike.
    """

    read: frozenset[str]
    variables: dict[str, str] = field(default_factory=dict)
    registers: dict[str, str] = field(default_factory=dict)
    timers: dict[str, str] = field(default_factory=dict)

    def write(self, pattern: Pattern, scope: ConditionByType) -> str:
        match pattern:
            case Atom():
                return self.atom(pattern, scope)
            case Concatenation() | Sequence():
                sign = " ; " if isinstance(pattern, Sequence) else " "
                return "(" + sign.join(self.write(part, scope) for part in _flat(pattern)) + ")"
            case Alternation():
                parts = dict.fromkeys(self.write(part, scope) for part in _flat(pattern))
                return "(" + " | ".join(sorted(parts)) + ")" if len(parts) > 1 else next(iter(parts))
            case Parallel(left=left, right=right):
                return "(" + " & ".join(sorted(self.write(side, EMPTY) for side in (left, right))) + self.scope(scope)
            case Iteration(body=body, least=1, most=1):
                return self.write(body, scope)
            case Iteration(body=body, least=least, most=most):
                return f"{self.write(body, scope)}{{{least},{'' if most is None else most}}}"
            case Timing(first=first, second=second, timer=timer, when=when):
                before = self.write(first, scope)
                outer = dict(self.timers)
                self.timers[timer] = f"@{len(self.timers)}"
                named = ConditionByType({self.timers[timer]: TRUE}, FALSE)
                after = self.write(second, union(scope, named))
                self.timers = outer
                return f"({before}, {after}) @ {format_when(when)}"
            case Scope(body=body, domain=domain):
                return self.write(body, union(scope, self.form(domain)))
            case Hidden(body=Hidden() as body):
                return self.write(body, scope)
            case Hidden(body=body):
                return f"~{self.write(body, scope)}"
            case Window(body=body, length=length):
                return f"({self.write(body, scope)} within {length})"
            case Keyed(body=body, attributes=attributes):
                return f"({self.write(body, scope)} by {', '.join(map(quote_name, sorted(set(attributes))))})"
            case Init(registers=registers, body=body):
                return self.init(registers, body, scope)
            case Reference(name=name):
                raise TypeError(f"{name} was not inlined")

    def atom(self, atom: Atom, scope: ConditionByType) -> str:
        label = self.form(atom.label)
        domain = union(label if atom.domain is None else self.form(atom.domain), scope)
        # Only what is in the domain can match, so the rest of a label says nothing.
        text = f"[{_format_form(label)}"
        if atom.updates:
            text += " set " + ", ".join(
                f"{self.registers[name]} = {self.expression(value, atom.variable)}" for name, value in atom.updates
            )
        if atom.variable in self.read:
            text += f" as {self.variable(atom.variable)}"
        return f"{text} <= {_format_form(domain)}]"

    def init(self, registers: tuple[tuple[str, Expression], ...], body: Pattern, scope: ConditionByType) -> str:
        values = [self.expression(initial) for _, initial in registers]
        for name, _ in registers:
            # A name in back-quotes cannot hold one.
            self.registers.setdefault(name, f"`{len(self.registers)}")
        names = [self.registers[name] for name, _ in registers]
        pairs = ", ".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))
        return f"(init {pairs} : {self.write(body, scope)})"

    def output(self, output: Output) -> str:
        pairs = sorted((name, self.expression(value)) for name, value in output.attributes)
        text = f"{quote_name(output.type_name)}({', '.join(f'{name} = {value}' for name, value in pairs)})"
        return text if output.condition is None else f"{text} where {self.expression(output.condition)}"

    def scope(self, scope: ConditionByType) -> str:
        return ")" if scope == EMPTY else f" <= {_format_form(scope)})"

    def form(self, described: DescribableSet) -> ConditionByType:
        form = normal_form(described, self.timers)
        by_type = {self.timers.get(name, name): self._renamed(each) for name, each in form.by_type.items()}
        return ConditionByType(by_type, self._renamed(form.others))

    def expression(self, expression: Expression, own: str = "") -> str:
        return format_expression(self._renamed(expression, own))

    def variable(self, name: str) -> str:
        return self.variables.setdefault(name, f"x{len(self.variables)}")

    def _renamed(self, expression: Expression, own: str = "") -> Expression:
        """The expression with canonical names. `own` is the variable the event at hand is bound to, if it has any."""

        def rename(node: Expression) -> Expression:
            match node:
                case Name(name=name) if name in self.registers:
                    return Name(self.registers[name])
                case Field(variable=variable, attribute=attribute):
                    return Field("$" if variable == own else self.variable(variable), attribute)
                case Moment(end=end, variable=variable) if variable:
                    return Moment(end, "$" if variable == own else self.variable(variable))
                case _:
                    return node

        return transform(expression, rename)


def _flat(pattern: Concatenation | Sequence | Alternation) -> list[Pattern]:
    parts: list[Pattern] = []
    for part in pattern.parts:
        parts += _flat(part) if type(part) is type(pattern) else [part]
    return parts


def _format_form(form: ConditionByType) -> str:
    members = [
        name if condition == TRUE else f"{name} where {format_expression(condition)}"
        for name, condition in sorted(form.by_type.items())
        if condition != form.others
    ]
    if form.others != FALSE:
        members.append("any" if form.others == TRUE else f"any where {format_expression(form.others)}")
    return "{" + ", ".join(members) + "}"

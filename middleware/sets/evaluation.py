"""Evaluation of expressions: a Python function of (event, bindings, registers).

An expression is turned into the source of one Python function and compiled once, because a guard runs for every event
and instance; walking the tree took five to ten times as long. The meaning of operators stands in `values`; only shapes
whose kinds are known (a literal, an attribute of a registered type) are written in line, with the same meaning. The
source holds names and constants by reference and never text from the pattern, so a pattern cannot smuggle in code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from distced.middleware.model.event_types import Kind, kind_of
from distced.middleware.model.events import Attribute, Event
from distced.middleware.sets import values
from distced.middleware.sets.expressions import (
    COMPARISONS,
    FALSE,
    TRUE,
    Binary,
    Call,
    Expression,
    Field,
    Literal,
    Moment,
    Name,
    Parameter,
    Unary,
    operands,
)

Bindings: TypeAlias = Sequence[Event | None]
Registers: TypeAlias = Sequence[Attribute]
Condition: TypeAlias = Callable[[Event, Bindings, Registers], bool]
Value: TypeAlias = Callable[[Event, Bindings, Registers], Attribute]

_NUMBERS: Final = (int, float)


@dataclass(frozen=True, slots=True)
class Scope:
    """Meaning of the names in an expression.

    Attributes:
        variables: place of each variable among the bindings.
        registers: place of each register; a bare name that is none is an attribute.
        kinds: of the attributes of the event at hand, where its type is registered; else None.
        variable_kinds: the same for the events bound to variables.
        parameters: place of the first parameter behind the registers.
    """

    variables: Mapping[str, int] = field(default_factory=dict)
    registers: Mapping[str, int] = field(default_factory=dict)
    kinds: Mapping[str, Kind] | None = None
    variable_kinds: Mapping[str, Mapping[str, Kind] | None] = field(default_factory=dict)
    parameters: int = 0


def compile_condition(expression: Expression, scope: Scope) -> Condition | bool:
    """Function that tests the condition; plain True or False where it always or never holds."""
    if expression == TRUE:
        return True
    if expression == FALSE:
        return False
    writer = _FunctionWriter(scope)
    return writer.function(writer.condition(expression))


def compile_value(expression: Expression, scope: Scope) -> Value:
    """Function that gives the expression's value."""
    writer = _FunctionWriter(scope)
    return writer.function(writer.value(expression))


class _FunctionWriter:
    """Writer of one function's body.

    Attributes:
        constants: values the source refers to by name; no text of a pattern is ever part of the source itself.
        temporaries: number of local names in use.
    """

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.constants: dict[str, Any] = {"_NUMBERS": _NUMBERS}
        self.temporaries = 0

    def function(self, body: str) -> Callable[[Event, Bindings, Registers], Any]:
        names = ", ".join(f"{name}={name}" for name in self.constants)
        source = f"lambda e, b, r, {names}: {body}"
        return eval(source, dict(self.constants))  # type: ignore[no-any-return]

    def condition(self, expression: Expression) -> str:
        match expression:
            case Literal(value=value):
                return str(value is True)
            case Binary(operator="and" | "or" as operator):
                # All in one pair of parentheses, for Python reads no more than 200 of them inside one another.
                return f"({f' {operator} '.join(map(self.condition, operands(expression, operator)))})"
            case Unary(operator="not", operand=operand):
                return f"(not {self.condition(operand)})"
            case Binary(operator=operator) if operator in COMPARISONS:
                return self.comparison(expression)
            case Call(function="in", arguments=(sought, *options)):
                return self.membership(sought, options)
            case _:
                return f"({self.value(expression)} is True)"

    def comparison(self, expression: Binary) -> str:
        operator = expression.operator
        left, right = expression.left, expression.right
        kinds = (self.kind(left), self.kind(right))
        if operator in ("==", "!="):
            # A string is equal to nothing but a string, and two of one kind compare as Python does, null included.
            if any(map(_is_text, (left, right))) or (kinds[0] == kinds[1] and kinds[0] is not None):
                return f"({self.value(left)} {operator} {self.value(right)})"
        elif self.kind(right) == "number" and isinstance(right, Literal | Parameter):
            name = self.temporary()
            test = "is not None" if kinds[0] == "number" else ".__class__ in _NUMBERS"
            space = " " if test[0] == "i" else ""
            return f"(({name} := {self.value(left)}){space}{test} and {name} {operator} {self.value(right)})"
        return f"{self.constant(values.BINARY[operator])}({self.value(left)}, {self.value(right)})"

    def membership(self, sought: Expression, options: Sequence[Expression]) -> str:
        """`sought in (options)`. Texts are looked up, as they are equal to nothing else."""
        if all(isinstance(each, Literal) and type(each.value) is str for each in options):
            texts = frozenset(each.value for each in options if isinstance(each, Literal))
            return f"({self.value(sought)} in {self.constant(texts)})"
        if isinstance(sought, Name | Field):
            return f"({' or '.join(self.comparison(Binary('==', sought, each)) for each in options)})"
        compute = self.constant(values.FUNCTIONS["in"].compute)
        return f"{compute}({', '.join(self.value(each) for each in (sought, *options))})"

    def value(self, expression: Expression) -> str:
        match expression:
            case Literal(value=value):
                return self.constant(value)
            case Parameter(number=number):
                return f"r[{self.scope.parameters + number}]"
            case Name(name=name):
                if name in self.scope.registers:
                    return f"r[{self.scope.registers[name]}]"
                return f"e.attributes.get({self.constant(name)})"
            case Field(variable=variable, attribute=attribute):
                return self.of_variable(variable, f".attributes.get({self.constant(attribute)})")
            case Moment(end=end, variable=""):
                return f"e.{'lo' if end == 'lo' else 'hi'}"
            case Moment(end=end, variable=variable):
                return self.of_variable(variable, ".lo" if end == "lo" else ".hi")
            case Unary(operator="-", operand=operand):
                return f"{self.constant(values.negate)}({self.value(operand)})"
            case Binary(operator=operator, left=left, right=right) if operator in "+-*/%":
                return f"{self.constant(values.BINARY[operator])}({self.value(left)}, {self.value(right)})"
            case Call(function="if", arguments=(condition, then, otherwise)):
                return f"({self.value(then)} if {self.condition(condition)} else {self.value(otherwise)})"
            case Call(function=function, arguments=arguments) if function != "in":
                compute = self.constant(values.FUNCTIONS[function].compute)
                return f"{compute}({', '.join(self.value(each) for each in arguments)})"
            case _:
                return self.condition(expression)

    def of_variable(self, variable: str, member: str) -> str:
        name = self.temporary()
        place = self.scope.variables[variable]
        return f"({name}{member} if ({name} := b[{place}]) is not None else None)"

    def kind(self, expression: Expression) -> Kind | None:
        """Kind of a value that is not null, where it is known for certain."""
        match expression:
            case Literal(value=value):
                return kind_of(value)
            case Parameter(kind=kind):
                return kind
            case Name(name=name) if name not in self.scope.registers and self.scope.kinds is not None:
                return self.scope.kinds.get(name)
            case Field(variable=variable, attribute=attribute):
                known = self.scope.variable_kinds.get(variable)
                return known.get(attribute) if known is not None else None
            case Moment():
                return "number"
            case Call(function="if", arguments=(_, then, otherwise)):
                return self.kind(then) if self.kind(then) == self.kind(otherwise) else None
            case _:
                return None

    def temporary(self) -> str:
        self.temporaries += 1
        return f"t{self.temporaries}"

    def constant(self, value: object) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name


def _is_text(expression: Expression) -> bool:
    if isinstance(expression, Parameter):
        return expression.kind == "string"
    return isinstance(expression, Literal) and type(expression.value) is str

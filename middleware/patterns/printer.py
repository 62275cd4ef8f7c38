"""Printer of trees: the inverse of the parser.

`parse(print(tree)) == tree` for every tree the parser can give; the properties hold it to that.
"""

from __future__ import annotations

from typing import Final

from distced.middleware.model.clock_rules import format_clock, is_clock
from distced.middleware.model.timestamps import SECOND, format_duration, format_instant
from distced.middleware.patterns import tree
from distced.middleware.sets.describable import (
    DescribableSet,
    Filtered,
    Union,
    conditions,
    format_filtered_guarded,
    format_set,
)
from distced.middleware.sets.expressions import (
    COMPARISONS,
    SUM_LEVEL,
    Binary,
    Call,
    Expression,
    Field,
    Moment,
    Name,
    Unary,
    format_expression,
    format_value,
    quote_name,
)
from distced.middleware.sets.expressions import walk as walk_expression

# Precedence, loosest first. A node is put in parentheses where it is looser than its place.
_WHOLE: Final = 0  # within, by
_INIT: Final = 1
_ALTERNATION: Final = 2
_PARALLEL: Final = 3
_SEQUENCE: Final = 4
_CONCATENATION: Final = 5
_HIDDEN: Final = 6
_POSTFIX: Final = 7
_PRIMARY: Final = 8

_CONSUMING: Final = {"": "", "variables": " consuming", "all": " consuming all"}

_BOOLEAN: Final = (*COMPARISONS, "and", "or", "not")


def format_pattern(pattern: tree.Pattern, level: int = _WHOLE) -> str:
    """Text that reads back as this pattern, in parentheses where it is looser than `level`."""
    text, own = _format(pattern)
    return f"({text})" if own < level else text


def format_publication(publication: tree.Publication) -> str:
    """Text of a pattern with its output, behind the private publications that it reads."""
    text = format_pattern(publication.pattern)
    if publication.once:
        text = f"once {text}"
    if publication.output is not None:
        text += f" -> {format_output(publication.output)}"
    if publication.settled:
        text += " settled"
    if publication.consumption:
        text += f" consumed {publication.consumption}"
    if publication.publish_json:
        text += f" publish_json = {format_value(publication.publish_json)}"
    return "".join(f"{format_private(each)} : " for each in publication.privates) + text


def format_private(publication: tree.Publication) -> str:
    """`private C -> Name(...)`."""
    return f"private {format_publication(publication)}"


def format_output(output: tree.Output) -> str:
    """`Name(attribute = expression) where condition take first x consuming at most 1 per 10min by attribute`."""
    name = quote_name(output.type_name) if output.type_name else ""
    text = f"{name}({format_assignments(output.attributes)})"
    if output.condition is not None:
        text += f" where {format_expression(output.condition)}"
    if output.take:
        text += f" take {', '.join(map(format_selection, output.take))}"
    text += _CONSUMING[output.consuming]
    return text if output.quiet is None else f"{text} {format_quiet(output.quiet)}"


def format_quiet(quiet: tree.Quiet) -> str:
    """`at most 1 per 10min by attribute`."""
    text = f"at most 1 per {format_duration(quiet.length)}"
    return f"{text} by {_attributes(quiet.by)}" if quiet.by else text


def format_selection(selection: tree.Selection) -> str:
    """`first x`, or `x where condition`."""
    if selection.condition is not None:
        return f"{quote_name(selection.variable)} where {format_expression(selection.condition)}"
    return f"{selection.kind} {quote_name(selection.variable)}"


def format_file(file: tree.PatternFile) -> str:
    """Statements of a file, one a line: types, definitions, publications."""
    lines = [format_derived_type(each) for each in file.types]
    lines += [f"{quote_name(name)} = {format_pattern(pattern)}" for name, pattern in file.definitions]
    lines += [format_private(each) for each in file.privates]
    lines += [format_publication(each) for each in file.publications]
    return "\n".join(lines) + "\n"


def format_derived_type(derived: tree.DerivedType) -> str:
    """`type Name = Base where condition with (hour = ...) every 1min by (person, room)`, or
    `= last Base`, or `= clock every 1h`."""
    base = f"clock {format_clock(derived.base)}" if is_clock(derived.base) else quote_name(derived.base)
    if base == "clock" and derived.every:
        base = "`clock`"
    if derived.last:
        # Words that may stand behind a type called `last`.
        base = f"last `{base}`" if base in ("with", "every", "at") else f"last {base}"
    text = f"type {quote_name(derived.name)} = {base}"
    if derived.condition is not None:
        text += f" where {format_expression(derived.condition)}"
    if derived.computed:
        text += f" with ({format_assignments(derived.computed)})"
    if derived.every:
        text += f" every {format_duration(derived.every)}"
    if derived.quiet:
        text += f" at most 1 per {format_duration(derived.quiet)}"
    return text + (f" by {_attributes(derived.by)}" if derived.by else "")


def _format(pattern: tree.Pattern) -> tuple[str, int]:
    match pattern:
        case tree.Atom():
            return _format_atom(pattern), _PRIMARY
        case tree.Reference(name=name):
            return quote_name(name), _PRIMARY
        case tree.Concatenation(parts=parts):
            return " ".join(format_pattern(part, _HIDDEN) for part in parts), _CONCATENATION
        case tree.Sequence(parts=parts):
            return " ; ".join(format_pattern(part, _CONCATENATION) for part in parts), _SEQUENCE
        case tree.Parallel(left=left, right=right):
            return f"{format_pattern(left, _PARALLEL)} & {format_pattern(right, _SEQUENCE)}", _PARALLEL
        case tree.Alternation(parts=parts):
            return " | ".join(format_pattern(part, _PARALLEL) for part in parts), _ALTERNATION
        case tree.Iteration(body=body, least=least, most=most):
            return format_pattern(body, _POSTFIX) + _times(least, most), _POSTFIX
        case tree.Timing(first=first, second=second, timer=timer, when=when):
            pair = f"({format_pattern(first)}, {format_pattern(second)})"
            # Behind a calculation `*` and `+` would be its own.
            own = _HIDDEN if isinstance(when, tree.Calculated) else _POSTFIX
            return f"{pair} @ {quote_name(timer)} = {format_when(when)}", own
        case tree.Scope(body=body, domain=domain):
            return f"[ {_scope_body(body)} <= {format_set(domain)} ]", _PRIMARY
        case tree.Hidden(body=body):
            return f"~{format_pattern(body, _HIDDEN)}", _HIDDEN
        case tree.Window(body=body, length=length):
            return f"{format_pattern(body)} within {format_duration(length)}", _WHOLE
        case tree.Delegated(whole=whole):
            return _format(whole)
        case tree.Keyed(body=body, attributes=attributes):
            return f"{format_pattern(body)} by {_attributes(attributes)}", _WHOLE
        case tree.Init(registers=registers, body=body):
            return f"init {format_assignments(registers)} : {format_pattern(body, _INIT)}", _INIT


def _scope_body(body: tree.Pattern) -> str:
    # A scope is distinguished from an atom by what it opens with; only a bare name could be taken for a label.
    text = format_pattern(body)
    return text if isinstance(body, tree.Reference) or text[0] in "[(~" or text.startswith("init ") else f"({text})"


def _format_atom(atom: tree.Atom) -> str:
    if atom.domain is None and not atom.variable and not atom.updates and not _seems_to_end(atom.label):
        return f"[{_format_list(atom.label)}]"
    text = _format_guarded_list(atom.label)
    if atom.variable:
        text += f" as {quote_name(atom.variable)}"
    if atom.updates:
        text += " set " + ", ".join(
            f"{quote_name(name)} = {format_expression(value, SUM_LEVEL)}" for name, value in atom.updates
        )
    if atom.domain is not None:
        text += f" {_sign(atom)} {format_set(atom.domain)}"
    return f"[{text}]"


def _sign(atom: tree.Atom) -> str:
    """Sign before the domain: behind a condition that is a calculation, `<=` would compare."""
    calculated = (
        isinstance(condition, Binary) and condition.operator not in _BOOLEAN for condition in conditions(atom.label)
    )
    return "⊆" if any(calculated) and not atom.variable and not atom.updates else "<="


def _seems_to_end(label: DescribableSet) -> bool:
    """Whether a comparison in the label could be taken for the beginning of the domain."""
    compared = (
        node.left
        for condition in conditions(label)
        for node in walk_expression(condition)
        if isinstance(node, Binary) and node.operator == "<="
    )
    return any(
        left.function == "in"
        if isinstance(left, Call)
        else isinstance(left, Binary | Unary) and left.operator in _BOOLEAN
        for left in compared
    )


def _format_list(described: DescribableSet) -> str:
    """Label of an atom: a union of two or more needs no braces there."""
    if isinstance(described, Union) and len(described.members) > 1:
        return ", ".join(format_set(member) for member in described.members)
    return format_set(described)


def _format_guarded_list(described: DescribableSet) -> str:
    """Label of an atom, with every condition in parentheses, because `as`, `set` or `<=` follow."""
    if isinstance(described, Union) and len(described.members) > 1:
        return ", ".join(_format_guarded(member) for member in described.members)
    return _format_guarded(described)


def _format_guarded(described: DescribableSet) -> str:
    return format_filtered_guarded(described) if isinstance(described, Filtered) else format_set(described)


def _times(least: int, most: int | None) -> str:
    if most is None:
        return {0: "*", 1: "+"}.get(least, f"{{{least},}}")
    return f"{{{least}}}" if least == most else f"{{{least},{most}}}"


def _attributes(names: tuple[str, ...]) -> str:
    return quote_name(names[0]) if len(names) == 1 else "(" + ", ".join(map(quote_name, names)) + ")"


def format_assignments(pairs: tuple[tuple[str, Expression], ...]) -> str:
    """Registers or attributes with their values, as they are written."""
    return ", ".join(f"{quote_name(name)} = {format_expression(value)}" for name, value in pairs)


def _stands_alone(delay: Expression) -> bool:
    """Whether a calculation can be told from what may stand around it: it begins with a variable or a function, and
    does not end with a name, which would be a function's before a parenthesis."""
    first = last = delay
    while isinstance(first, Binary):
        first = first.left
    while isinstance(last, Binary | Unary):
        last = last.right if isinstance(last, Binary) else last.operand
    return isinstance(first, Field | Moment | Call) and not isinstance(last, Name)


def format_when(when: tree.When) -> str:
    """Due time of a time event, as it is written after `@ T =`."""
    match when:
        case tree.Relative(delay=delay):
            return format_duration(delay)
        case tree.Calculated(delay=delay):
            text = format_expression(delay, SUM_LEVEL)
            return text if _stands_alone(delay) else f"({text})"
        case tree.Recurring(first=tree.Relative(delay=delay)):
            return f"every {format_duration(delay)}"
        case tree.Recurring(first=first):
            return f"every day {format_when(first)}"
        case tree.Instant(instant=instant):
            return f"at {format_instant(instant)}"
        case tree.TimeOfDay(nanosecond=nanosecond, zone=zone):
            seconds, fraction = divmod(nanosecond, SECOND)
            text = f"at {seconds // 3600:02}:{seconds // 60 % 60:02}"
            if seconds % 60 or fraction:
                text += f":{seconds % 60:02}"
            if fraction:
                text += f".{fraction:09}".rstrip("0")
            if isinstance(zone, str):
                return f"{text} '{zone}'"
            return f"{text}{'+' if zone > 0 else '-'}{abs(zone) // 60:02}:{abs(zone) % 60:02}" if zone else text

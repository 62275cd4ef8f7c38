"""Tree of a pattern in words: a line for each node of the syntax tree."""

from __future__ import annotations

from typing import Final

import msgspec

from distced.middleware.model.timestamps import format_duration
from distced.middleware.patterns import tree
from distced.middleware.patterns.printer import format_pattern, format_when
from distced.middleware.sets.describable import format_set
from distced.middleware.sets.expressions import format_expression, quote_name

_KINDS: Final[dict[type, str]] = {tree.Keyed: "key", tree.Init: "registers"}
_WORDS: Final[dict[type, str]] = {
    tree.Concatenation: "one after the other, weakly: they may overlap",
    tree.Sequence: "one after the other, strongly ( ; )",
    tree.Alternation: "either ( | ), an instance for each branch",
    tree.Parallel: "both, in any order ( & )",
    tree.Hidden: "hidden ( ~ ): what it matches is no constituent",
}


class Outline(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A node of the tree, in JSON as here: its role in the node above, its kind (`atom`, `sequence`, ...), its text,
    its parts."""

    role: str = ""
    kind: str
    text: str
    parts: tuple[Outline, ...] = ()


def outline(pattern: tree.Pattern, role: str = "") -> Outline:
    """The outline of a pattern."""
    kind = _KINDS.get(type(pattern), type(pattern).__name__.lower())
    roles = (
        ("first", f"then, with {pattern.timer}")
        if isinstance(pattern, tree.Timing)
        else ("",) * len(tree.children(pattern))
    )
    return Outline(role=role, kind=kind, text=_text(pattern), parts=tuple(map(outline, tree.children(pattern), roles)))


def _text(pattern: tree.Pattern) -> str:
    match pattern:
        case tree.Reference(name=name):
            return name
        case tree.Delegated(detector=detector):
            return f"detected by {detector}"
        case tree.Iteration(least=least, most=most):
            return _times(least, most)
        case tree.Timing(timer=timer, when=when):
            after = " after the end of the first" if isinstance(when, tree.Relative) else ""
            return f"the time event {timer} comes {format_when(when)}{after}"
        case tree.Scope(domain=domain):
            return f"every state inside also looks at {format_set(domain)}"
        case tree.Window(length=length):
            return f"within {format_duration(length)}"
        case tree.Keyed(attributes=attributes):
            return f"by {', '.join(attributes)}: for each value on its own"
        case tree.Init(registers=registers):
            values = ", ".join(f"{quote_name(name)} = {format_expression(value)}" for name, value in registers)
            return f"registers: {values}"
        case _:
            return _WORDS.get(type(pattern)) or format_pattern(pattern)


def _times(least: int, most: int | None) -> str:
    match least, most:
        case (0, None):
            return "any number of times ( * )"
        case (1, None):
            return "once or more ( + )"
        case (_, None):
            return f"{least} times or more"
        case (0, 1):
            return "once or not at all"
        case _ if least == most:
            return "once" if least == 1 else f"{least} times"
    return f"{least} to {most} times"

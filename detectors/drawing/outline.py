"""The tree of a pattern in words: a line for each node of the syntax tree."""

from __future__ import annotations

from dataclasses import dataclass

from distced.middleware.model.timestamps import format_duration
from distced.middleware.patterns.printer import format_pattern, format_when
from distced.middleware.patterns.tree import (
    Alternation,
    Atom,
    Concatenation,
    Delegated,
    Hidden,
    Init,
    Iteration,
    Keyed,
    Parallel,
    Pattern,
    Reference,
    Relative,
    Scope,
    Sequence,
    Timing,
    When,
    Window,
    children,
)
from distced.middleware.sets.describable import format_set
from distced.middleware.sets.expressions import format_expression, quote_name


@dataclass(frozen=True, slots=True)
class Outline:
    """A node of the tree.

    Attributes:
        role: its role in the node above; empty where implied by its place.
        kind: which row of the language's table it is: `atom`, `sequence`, ...
        text: it in words; of an atom its text.
        parts: the nodes inside.
    """

    role: str
    kind: str
    text: str
    parts: tuple[Outline, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """The outline as JSON."""
        shown: dict[str, object] = {"role": self.role} if self.role else {}
        shown |= {"kind": self.kind, "text": self.text}
        if self.parts:
            shown["parts"] = [part.as_dict() for part in self.parts]
        return shown


def outline(pattern: Pattern, role: str = "") -> Outline:
    """The outline of a pattern."""
    kind, text = _heading(pattern)
    roles = ("first", f"then, with {pattern.timer}") if isinstance(pattern, Timing) else ()
    parts = tuple(
        outline(child, roles[place] if roles else "") for place, child in enumerate(children(pattern))
    )  # fmt: skip
    return Outline(role, kind, text, parts)


def outline_lines(node: Outline) -> list[tuple[str, Outline]]:
    """The nodes line by line, each with the branches drawn before it."""
    return [("", node), *_below(node, "")]


def _below(node: Outline, indent: str) -> list[tuple[str, Outline]]:
    lines: list[tuple[str, Outline]] = []
    for part in node.parts:
        last = part is node.parts[-1]
        lines.append((indent + ("└─ " if last else "├─ "), part))
        lines += _below(part, indent + ("   " if last else "│  "))
    return lines


def _heading(pattern: Pattern) -> tuple[str, str]:
    match pattern:
        case Atom():
            return "atom", format_pattern(pattern)
        case Reference(name=name):
            return "reference", name
        case Delegated(detector=detector):
            return "delegated", f"detected by {detector}"
        case Concatenation():
            return "concatenation", "one after the other, weakly: they may overlap"
        case Sequence():
            return "sequence", "one after the other, strongly ( ; )"
        case Alternation():
            return "alternation", "either ( | ), an instance for each branch"
        case Parallel():
            return "parallel", "both, in any order ( & )"
        case Iteration(least=least, most=most):
            return "iteration", _times(least, most)
        case Timing(timer=timer, when=when):
            return "timing", f"the time event {timer} comes {_when(when)}"
        case Scope(domain=domain):
            return "scope", f"every state inside also looks at {format_set(domain)}"
        case Hidden():
            return "hidden", "hidden ( ~ ): what it matches is no constituent"
        case Window(length=length):
            return "window", f"within {format_duration(length)}"
        case Keyed(attributes=attributes):
            return "key", f"by {', '.join(attributes)}: for each value on its own"
        case Init(registers=registers):
            values = ", ".join(f"{quote_name(name)} = {format_expression(value)}" for name, value in registers)
            return "registers", f"registers: {values}"


def _times(least: int, most: int | None) -> str:
    if most is None:
        return {0: "any number of times ( * )", 1: "once or more ( + )"}.get(least, f"{least} times or more")
    if least == most:
        return "once" if least == 1 else f"{least} times"
    if (least, most) == (0, 1):
        return "once or not at all"
    return f"{least} to {most} times"


def _when(when: When) -> str:
    text = format_when(when)
    return f"{text} after the end of the first" if isinstance(when, Relative) else text

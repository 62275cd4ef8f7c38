"""Joints: concatenation and sequence as one flat list of parts, and properties of a pattern at its ends.

`A (B ; C)` and `(A B) ; C` are one automaton: a way between parts is strong where a `;` lies on it. So a joint lists
parts and signs, and cuts are runs of neighbours. *Open* ends, in states merged with others, restrict cuts (design,
section 2).
"""

from __future__ import annotations

from dataclasses import dataclass

from distced.middleware.patterns import tree


@dataclass(frozen=True, slots=True)
class Joint:
    """Consecutive parts, none of them a joint; `strong[i]` tells whether part `i + 1` follows part `i` strongly."""

    parts: tuple[tree.Pattern, ...]
    strong: tuple[bool, ...]

    def run(self, start: int, stop: int) -> tree.Pattern:
        """The parts from `start` to before `stop`, as a pattern."""
        return joined(self.parts[start:stop], self.strong[start : stop - 1])


def joint_of(pattern: tree.Pattern) -> Joint:
    """The pattern as a joint, of one part for any other node."""
    if not isinstance(pattern, tree.Concatenation | tree.Sequence):
        return Joint((pattern,), ())
    parts: list[tree.Pattern] = []
    strong: list[bool] = []
    for part in pattern.parts:
        inner = joint_of(part)
        if parts:
            strong.append(isinstance(pattern, tree.Sequence))
        parts += inner.parts
        strong += inner.strong
    return Joint(tuple(parts), tuple(strong))


def joined(parts: tuple[tree.Pattern, ...], strong: tuple[bool, ...]) -> tree.Pattern:
    """The pattern of a joint, in canonical form: a sequence of concatenations."""
    groups: list[list[tree.Pattern]] = [[parts[0]]]
    for sign, part in zip(strong, parts[1:], strict=True):
        if sign:
            groups.append([part])
        else:
            groups[-1].append(part)
    concatenated = tuple(group[0] if len(group) == 1 else tree.Concatenation(tuple(group)) for group in groups)
    return concatenated[0] if len(concatenated) == 1 else tree.Sequence(concatenated)


def flat_children(pattern: tree.Pattern) -> tuple[tree.Pattern, ...]:
    """The patterns directly inside, a joint as one node however it is nested."""
    return (
        joint_of(pattern).parts if isinstance(pattern, tree.Concatenation | tree.Sequence) else tree.children(pattern)
    )


def ends_open(pattern: tree.Pattern) -> bool:
    """Whether a match may go on: the pattern ends in an iteration, or before an optional part."""
    match pattern:
        case tree.Concatenation(parts=parts) | tree.Sequence(parts=parts):
            return tree.nullable(parts[-1]) or ends_open(parts[-1])
        case tree.Alternation(parts=parts):
            return any(map(ends_open, parts))
        case tree.Iteration(body=body, least=least, most=most):
            return most is None or (most > 1 and (least < most or tree.nullable(body))) or ends_open(body)
        case tree.Timing(second=second):
            return tree.nullable(second) or ends_open(second)
        case (
            tree.Scope(body=body)
            | tree.Hidden(body=body)
            | tree.Window(body=body)
            | tree.Keyed(body=body)
            | tree.Init(body=body)
        ):
            return ends_open(body)
        case _:
            return False


def opens_strong(pattern: tree.Pattern) -> bool:
    """Whether the pattern's first atom may lie behind a `;`, after optional parts only."""
    match pattern:
        case tree.Concatenation() | tree.Sequence():
            joint = joint_of(pattern)
            strong = False
            for place, part in enumerate(joint.parts):
                strong = strong or (place > 0 and joint.strong[place - 1])
                if strong or opens_strong(part):
                    return True
                if not tree.nullable(part):
                    return False
            return False
        case tree.Parallel():
            return False
        case tree.Timing(first=first):
            return opens_strong(first)
        case _:
            return any(map(opens_strong, tree.children(pattern)))


def opens_parallel(pattern: tree.Pattern) -> bool:
    """Whether the pattern may begin with a `&`."""
    match pattern:
        case tree.Parallel():
            return True
        case tree.Concatenation(parts=parts) | tree.Sequence(parts=parts):
            for part in parts:
                if opens_parallel(part):
                    return True
                if not tree.nullable(part):
                    return False
            return False
        case tree.Timing(first=first):
            return opens_parallel(first)
        case _:
            return any(map(opens_parallel, tree.children(pattern)))

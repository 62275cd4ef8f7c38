"""The conditions under which a rule applies: plain tests of one value each, all of which must hold.

They choose a rule; they are no second pattern language. A test for a combination that this does not offer belongs into
the pattern, where it can be read beside the rest of its meaning.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from distced.middleware.mapping.extraction import DeviceMessage, Pick, compile_path, text_of
from distced.middleware.mapping.schema import ConditionSpec, Scalar
from distced.middleware.model.errors import MappingError

RuleCondition: TypeAlias = Callable[[DeviceMessage], bool]
"""Whether it holds; a `matches` that holds adds its named groups to the fields of the message."""

_TESTS = ("present", "equals", "differs", "matches", "above", "below")


def compile_condition(spec: ConditionSpec, outside: Callable[[str], bool]) -> RuleCondition:
    """One condition as a function."""
    pick = compile_path(spec.path, outside)
    given = [name for name in _TESTS if getattr(spec, name) is not None]
    if len(given) > 1:
        raise MappingError(
            "several tests in one condition", given=", ".join(given), allowed="one of " + ", ".join(_TESTS),
            advice="write one condition for each, all of them must hold",
        )  # fmt: skip
    if spec.equals is not None:
        return _one_of(pick, spec.equals, True)
    if spec.differs is not None:
        return _one_of(pick, spec.differs, False)
    if spec.matches is not None:
        return _matches(pick, spec.matches)
    if spec.above is not None or spec.below is not None:
        return _bounded(pick, spec.above, spec.below)
    wanted = spec.present is not False
    return lambda message: (pick(message) is not None) is wanted


def _one_of(pick: Pick, values: Scalar | list[Scalar], wanted: bool) -> RuleCondition:
    texts = frozenset(text_of(value) for value in (values if isinstance(values, list) else [values]))
    return lambda message: (text_of(pick(message)) in texts) is wanted


def _matches(pick: Pick, pattern: str) -> RuleCondition:
    search = compile_regex(pattern).search

    def matches(message: DeviceMessage) -> bool:
        text = text_of(pick(message))
        match = None if text is None else search(text)
        if match is None:
            return False
        groups = match.groupdict()
        if groups:
            message.fields = {**message.fields, **groups}
        return True

    return matches


def _bounded(pick: Pick, above: float | None, below: float | None) -> RuleCondition:
    def bounded(message: DeviceMessage) -> bool:
        value = pick(message)
        try:
            number = float(value) if isinstance(value, str | int | float) else float("nan")
        except (ValueError, OverflowError):
            return False
        return number > above if above is not None else number < below  # type: ignore[operator]

    return bounded


def compile_regex(pattern: str) -> re.Pattern[str]:
    """A regular expression, checked."""
    try:
        return re.compile(pattern)
    except re.error as error:
        raise MappingError("not a regular expression", given=pattern, advice=str(error)) from None

"""Python binding of the pattern language: expressions on event objects (docs/reference/patterns.md)."""

from distced.middleware.patterns.operands import Value, call, choose, value
from distced.middleware.patterns.pattern import (
    EventSet,
    Pattern,
    PatternFile,
    PrivatePublication,
    Publication,
    Timer,
    any_event,
    count,
    derived_type,
    event,
    hi,
    lo,
    other_than,
    over,
    pattern_file,
)

__all__ = [
    "EventSet",
    "Pattern",
    "PatternFile",
    "PrivatePublication",
    "Publication",
    "Timer",
    "Value",
    "any_event",
    "call",
    "choose",
    "count",
    "derived_type",
    "event",
    "hi",
    "lo",
    "other_than",
    "over",
    "pattern_file",
    "value",
]

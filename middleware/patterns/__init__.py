"""Patterns in Python: expressions on event objects that become text of the language (docs/reference/patterns.md)."""

from distced.middleware.patterns.events import EventSet, Timer, any_event, derived_type, event, other_than
from distced.middleware.patterns.operands import Value, call, hi, lo, value
from distced.middleware.patterns.pattern import Pattern, Publication
from distced.middleware.patterns.pattern_file import PatternFile, pattern_file

__all__ = [
    "EventSet",
    "Pattern",
    "PatternFile",
    "Publication",
    "Timer",
    "Value",
    "any_event",
    "call",
    "derived_type",
    "event",
    "hi",
    "lo",
    "other_than",
    "pattern_file",
    "value",
]

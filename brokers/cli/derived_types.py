"""Derived types of a pattern file as entries of the directory."""

from __future__ import annotations

from collections.abc import Container

from msgspec.structs import replace

from distced.detectors.pattern_files import Patterns
from distced.middleware.model.event_types import EventType, TypeRegistry


def new_types(patterns: Patterns, registry: TypeRegistry, registered: Container[str]) -> list[EventType]:
    """Derived types that the directory does not have yet, each behind its base.

    Those of composite events have no attributes of their own: detectors say them, and may change.
    """
    bases = {each.name: each.derived.base for each in patterns.types if each.derived is not None}
    made = []
    for each in patterns.types:
        if each.name in registry:
            continue
        root = each.name
        while root in bases:
            root = bases[root]
        made.append(each if registry.root(root) in registered else replace(each, attributes={}))
    return made


def published_by(patterns: Patterns) -> frozenset[str]:
    """Types that the patterns publish."""
    return frozenset(each.publishes.name for each in patterns.compiled if each.publishes.name)

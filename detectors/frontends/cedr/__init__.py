"""CEDR, the language of Complex Event Detection and Response: queries that select and consume the instances they match.

cedr-2007, section 3, as frontends, section 6, reads it: parser, names, ways through a pattern, branches for the orders
of their events, core.
"""

from __future__ import annotations

from distced.detectors.frontends.cedr.cedr_check import checked, notes
from distced.detectors.frontends.cedr.cedr_parser import parse
from distced.detectors.frontends.cedr.cedr_translation import core_file
from distced.detectors.frontends.translation import Translation
from distced.detectors.language.scanner import error_at
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.sets.expressions import Span


def translate(text: str, registry: TypeRegistry) -> Translation:
    """The core statements of a text in CEDR. Raises `PatternError`."""
    file = checked(parse(text), text)
    if not file.queries:
        advice = "Q: NAME EVENT_PATTERN SEQUENCE(A x, B y)"
        raise error_at(text, Span(0, len(text)), "a text without a query", advice=advice)
    results = tuple(query.name for query in file.queries)
    return Translation(core_file(file, text), results, text, tuple(notes(file)))

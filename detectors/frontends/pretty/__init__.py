"""Pretty language: sentences for those who do not program, and sentences for core patterns.

composite-event-framework-2004, Fig. 3 and Further Work, as frontends, section 8, reads it.
"""

from __future__ import annotations

from distced.detectors.frontends.pretty.named_sets import resolved
from distced.detectors.frontends.pretty.sentence_parser import parse
from distced.detectors.frontends.translation import Translation, result_names
from distced.detectors.language.scanner import error_at
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.patterns.tree import PatternFile
from distced.middleware.sets.expressions import Span


def translate(text: str, registry: TypeRegistry) -> Translation:
    """The core statements of sentences. Raises `PatternError`."""
    # Names may be used before they are said, so a text is read twice.
    sets = resolved(parse(text).sets, text)
    publications = parse(text, sets).publications
    if not publications:
        advice = '"A" followed by "B" within "1h"'
        raise error_at(text, Span(0, len(text)), "a text without a sentence to detect", advice=advice)
    names = ["" if each.output is None else each.output.type_name for each in publications]
    return Translation(PatternFile((), (), tuple(publications)), result_names(names), text)

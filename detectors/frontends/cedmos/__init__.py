"""CEDMOS: event transformers, which filter, categorise and summarise events and emit net changes of their state.

cedmos-1999, sections 3, 4 and 5.3.2, as frontends, section 7, reads it: parser with the palette of operators, rules,
core.
"""

from __future__ import annotations

from distced.detectors.frontends.cedmos.cedmos_check import checked
from distced.detectors.frontends.cedmos.cedmos_parser import parse
from distced.detectors.frontends.cedmos.cedmos_translation import core_file
from distced.detectors.frontends.translation import Translation
from distced.detectors.language.scanner import error_at
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.sets.expressions import Span


def translate(text: str, registry: TypeRegistry) -> Translation:
    """The core statements of a text in CEDMOS. Raises `PatternError`."""
    transformers = checked(parse(text), registry, text)
    if not transformers:
        advice = "transformer Count state n = 0 visible firing on A do n = n + 1"
        raise error_at(text, Span(0, len(text)), "a text without a transformer", advice=advice)
    return Translation(core_file(transformers, registry), tuple(each.name for each in transformers), text)

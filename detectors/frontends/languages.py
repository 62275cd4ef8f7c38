"""Languages of patterns beside the core language: their names, file endings and front ends."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import Final, NamedTuple

from distced.detectors.frontends import algebra, cedmos, cedr, cel, pretty
from distced.detectors.frontends.algebra.algebra_parser import AlgebraScanner
from distced.detectors.frontends.cedmos.cedmos_parser import CedmosScanner
from distced.detectors.frontends.cedr.cedr_conditions import CedrScanner
from distced.detectors.frontends.cel.cel_parser import CelScanner
from distced.detectors.frontends.lexicon import Lexicon
from distced.detectors.frontends.pretty.sentence_parser import PrettyScanner
from distced.detectors.frontends.translation import Translate, Translation
from distced.middleware.model.errors import PatternError
from distced.middleware.model.event_types import TypeRegistry

CORE: Final = "core"
"""Name of the core language, which needs no translation."""


@dataclass(frozen=True, slots=True)
class Language:
    """Language of patterns; `ending` is that of its files."""

    name: str
    title: str
    translate: Translate
    lexicon: Lexicon

    @property
    def ending(self) -> str:
        return f".{self.name}"


LANGUAGES: Final = {
    each.name: each
    for each in (
        Language("cel", "Cayuga Event Language", cel.translate, CelScanner.lexicon),
        Language("algebra", "Cayuga algebra", algebra.translate, AlgebraScanner.lexicon),
        Language("cedmos", "Complex Event Detection and Monitoring System", cedmos.translate, CedmosScanner.lexicon),
        Language("cedr", "Complex Event Detection and Response", cedr.translate, CedrScanner.lexicon),
        Language("pretty", "pretty language", pretty.translate, PrettyScanner.lexicon),
    )
}  # fmt: skip
"""The languages that this version translates, by name."""


class Written(NamedTuple):
    """Language of a text, empty for the core language, and the name of the query that is meant; empty for the only
    one."""

    language: str = ""
    query: str = ""


IN_CORE: Final = Written()


def check_language(name: str) -> str:
    """Name of a language as sources and entries have it, empty for the core language. Raises `PatternError`."""
    if name in ("", CORE):
        return ""
    if name not in LANGUAGES:
        raise PatternError("unknown language of a pattern", given=name, allowed=", ".join((CORE, *LANGUAGES)))
    return name


def language_of_file(name: str) -> str:
    """Language of a file by its ending; empty for the core language."""
    suffix = PurePath(name).suffix
    return next((each.name for each in LANGUAGES.values() if each.ending == suffix), "")


def translate(text: str, language: str, registry: TypeRegistry) -> Translation:
    """The core statements of a text in another language. Raises `PatternError`."""
    return LANGUAGES[check_language(language)].translate(text, registry)


def place_of_query(translation: Translation, query: str = "") -> int:
    """Place of a query of this name among the results of a text; empty for the only one. Raises `PatternError`."""
    names = translation.results
    if query in names:
        return names.index(query)
    if query:
        raise PatternError("no query of this name", given=query, allowed=", ".join(names) or "none")
    if len(names) == 1:
        return 0
    if not names:
        raise PatternError("a text without a query", given=translation.source.strip() or None)
    raise PatternError(
        "several queries, of which one can be detected at a time",
        given=", ".join(names),
        advice=f"name the one that is meant, query={names[-1]!r}, and subscribe to each",
    )

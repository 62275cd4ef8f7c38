"""Places of what a CEDR query is translated to: each part of the pattern leads back to the text, and errors show it."""

from __future__ import annotations

from pathlib import Path

import pytest

from distced.detectors.compiler import compile_translation
from distced.detectors.conformance.cases import Case, load_cases
from distced.detectors.frontends.cedr import translate
from distced.middleware.model.errors import PatternError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.patterns.tree import Atom, walk
from distced.middleware.sets.describable import TypeSet, walk_set

CASES = load_cases(Path(__file__).parents[1] / "conformance" / "languages" / "cedr.toml")


@pytest.mark.parametrize("case", [case for case in CASES if not case.error], ids=lambda case: case.name)
def test_each_part_leads_back_to_the_text(case: Case) -> None:
    translation = translate(case.pattern, TypeRegistry(open=True))
    for publication in translation.file.publications:
        assert publication.output is not None
        assert publication.output.span is not None
        assert publication.output.type_name in case.pattern[slice(*publication.output.span)]
        for node in walk(publication.pattern):
            assert node.span is not None, node
            assert translation.place(node) is not None
            if isinstance(node, Atom):
                for described in walk_set(node.label):
                    if isinstance(described, TypeSet) and not described.name.startswith("_"):
                        assert described.span is not None
                        assert described.name in case.pattern[slice(*described.span)]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("Q: S\nEVENT_PATTERN SEQUENCE(A x, B y)\nWHERE x.v = 1 AND x.v = 2", "line 2, column 15"),
        ("Q: S EVENT_PATTERN A x & B y\nWHERE y.v < 1 AND y.v > 2", "line 1, column 20"),
    ],
)
def test_a_query_that_can_never_match_has_its_place(text: str, place: str) -> None:
    with pytest.raises(PatternError, match="can never match") as caught:
        for each in compile_translation(translate(text, TypeRegistry(open=True)))[0]:
            each.check_possible()
    assert place in str(caught.value)

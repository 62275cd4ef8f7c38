"""Cayuga's algebra as a language: σ π ρ α ∪ ; µ over streams.

cayuga-algebra-cesar, section 2, as frontends, section 5, reads it: scanner and parser, names, plans
(`detectors.frontends.cayuga`), core.
"""

from __future__ import annotations

from distced.detectors.frontends.algebra.algebra_names import AlgebraResolver
from distced.detectors.frontends.algebra.algebra_parser import parse
from distced.detectors.frontends.algebra.algebra_tree import Definition
from distced.detectors.frontends.cayuga.algebra_plan import Plan, attributes
from distced.detectors.frontends.cayuga.publications import Publications
from distced.detectors.frontends.schemas import Declaration, Schemas
from distced.detectors.frontends.translation import Translation, result_names
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.patterns.tree import PatternFile


def translate(text: str, registry: TypeRegistry) -> Translation:
    """The core statements of a text in the algebra. Raises `PatternError`."""
    schemas = Schemas(text, registry, "the algebra")
    resolver = AlgebraResolver(text, schemas)
    found: list[tuple[Definition, Plan]] = []
    statements = parse(text)
    schemas.below = {each.name for each in statements if isinstance(each, Definition)}
    for each in statements:
        if isinstance(each, Declaration):
            assert each.span is not None
            schemas.declare(each.name, each.attributes, each.span)
            continue
        plan = resolver.published(each.source)
        if each.name_span is not None:
            schemas.publish(each.name, attributes(plan), each.name_span)
        found.append((each, plan))
    made = Publications(text, registry, schemas.names_read)
    for definition, plan in found:
        made.publish(definition.name, plan, definition.span, definition.name_span)
    results = result_names([definition.name for definition, _ in found])
    return Translation(PatternFile((), (), tuple(made.public), tuple(made.privates)), results, text)

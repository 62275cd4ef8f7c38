"""Cayuga Event Language: SELECT, FROM, PUBLISH over streams joined by FILTER, NEXT and FOLD.

cayuga-system-2007, section 2, as frontends, section 4, reads it: scanner and parser, names, plans
(`detectors.frontends.cayuga`), core.
"""

from __future__ import annotations

from distced.detectors.frontends.cayuga.algebra_plan import Plan, attributes
from distced.detectors.frontends.cayuga.publications import Publications
from distced.detectors.frontends.cel.cel_names import CelResolver
from distced.detectors.frontends.cel.cel_parser import parse
from distced.detectors.frontends.cel.cel_tree import Query
from distced.detectors.frontends.schemas import Declaration, Schemas
from distced.detectors.frontends.translation import Translation, result_names
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.patterns.tree import PatternFile
from distced.middleware.sets.expressions import Span


def translate(text: str, registry: TypeRegistry) -> Translation:
    """The core statements of a text in CEL. Raises `PatternError`."""
    schemas = Schemas(text, registry, "CEL")
    queries: list[tuple[Query, Plan]] = []

    def publish(query: Query, plan: Plan) -> None:
        if query.name:
            assert query.name_span is not None
            schemas.publish(query.name, attributes(plan), query.name_span)
        queries.append((query, plan))

    resolver = CelResolver(text, schemas, publish)
    statements = parse(text)
    schemas.below = {each.name for each in statements if isinstance(each, Query)}
    for each in statements:
        match each:
            case Declaration(name=name, attributes=names, span=Span() as span):
                schemas.declare(name, names, span)
            case Query():
                publish(each, resolver.query(each).plan)
            case _:
                pass
    made = Publications(text, registry, schemas.names_read)
    for query, plan in queries:
        made.publish(query.name, plan, query.span, query.name_span)
    results = result_names([query.name for query, _ in queries])
    return Translation(PatternFile((), (), tuple(made.public), tuple(made.privates)), results, text)

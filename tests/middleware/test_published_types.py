"""Types that several patterns publish: what they agree on does not depend on their order."""

from __future__ import annotations

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distced.middleware.model.errors import TypeRegistryError
from distced.middleware.model.event_types import KINDS, TypeRegistry, derive, event_type
from distced.middleware.model.published_types import PublishedType, known_type, publish


@st.composite
def published(draw: st.DrawFn) -> PublishedType:
    kinds = draw(st.dictionaries(st.sampled_from("abc"), st.sampled_from(("", *KINDS[:2]))))
    known = {name: kind for name, kind in kinds.items() if kind}
    return PublishedType("N", known, frozenset(kinds.keys() - known.keys()))  # type: ignore[arg-type]


def joined(types: list[PublishedType]) -> PublishedType | None:
    try:
        return reduce(PublishedType.joined, types)
    except TypeRegistryError:
        return None


@given(st.lists(published(), min_size=1, max_size=4))
def test_order_of_publications_does_not_matter(types: list[PublishedType]) -> None:
    found = joined(types)
    assert (
        found == joined(types[::-1]) == joined(sorted(types, key=lambda each: each.text)) == joined([*types, types[0]])
    )
    every = {name for each in types for name in each.kinds}
    kinds = {name: {each.kinds[name] for each in types if name in each.kinds} for name in every}
    agree = all(len(each) == 1 for each in kinds.values())
    agree = agree and all(name in each.all_kinds for name in every for each in types)
    assert (found is not None) == agree
    if found is not None:
        assert found.kinds == {name: each for name, (each,) in kinds.items()}
        assert all(each.suits(found.all_kinds) for each in types)


def test_registered_type_keeps_its_home_and_derived_types_follow() -> None:
    registry = TypeRegistry([event_type("N", {"a": "number"}, home="mqtt://attic")])
    publish(registry, PublishedType("N", {}, frozenset("a")))
    assert registry.get("N") == event_type("N", {"a": "number"}, home="mqtt://attic")
    publish(registry, PublishedType("M", {}, frozenset("a")))
    registry.register(derive(registry.get("M"), "Slow", every=5, by=["a"]))
    publish(registry, PublishedType("M", {"a": "string"}))
    assert registry.get("Slow").attributes == {"a": "string"}
    assert known_type(registry, "Slow") == PublishedType("Slow", {"a": "string"})
    with pytest.raises(TypeRegistryError, match="derived from another"):
        publish(registry, PublishedType("Slow", {"a": "string"}))

"""Type of composite events, as one or several patterns publish it: the kinds that are known, and the attributes whose
kind a pattern leaves open, such as `v = null` or an attribute that is a string in one type and a number in another.

Patterns that publish one type agree where no attribute has two known kinds, and each attribute of a known kind is an
attribute of all; one whose kind a pattern leaves open takes the kind that another knows. This is commutative and
associative, so nodes agree on a type in whatever order they hear of its detectors. A known kind is a claim for the
checks of readers: values may still be of another kind, and comparisons stay safe. The rule "an attribute whose kind one
leaves open is of no known kind" was rejected: readers of the type could not name the attribute at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

import msgspec

from distced.middleware.model.errors import TypeRegistryError
from distced.middleware.model.event_types import EventType, Kind, TypeRegistry

OPEN = ""
"""Kind of an attribute whose kind is open, in a mapping of kinds."""


class PublishedType(msgspec.Struct, frozen=True):
    """Type of composite events.

    Attributes:
        name: of the type.
        kinds: known kinds of attributes.
        undetermined: attributes whose kind is open.
    """

    name: str
    kinds: Mapping[str, Kind]
    undetermined: frozenset[str] = frozenset()

    @property
    def event_type(self) -> EventType:
        """The event type, with the known kinds."""
        return EventType(self.name, dict(self.kinds))

    @property
    def all_kinds(self) -> dict[str, str]:
        """Kinds of all attributes, `OPEN` for an open one."""
        return {**self.kinds, **dict.fromkeys(sorted(self.undetermined), OPEN)}

    def joined(self, other: PublishedType) -> PublishedType:
        """The type that two patterns publish together. Raises `TypeRegistryError` where they do not agree."""
        for name, kind in self.kinds.items():
            if (there := other.kinds.get(name, kind)) != kind:
                raise self._differs(other, f"{name!r} is a {kind} there, and a {there} here")
        kinds = {**self.kinds, **other.kinds}
        common = (self.kinds.keys() | self.undetermined) & (other.kinds.keys() | other.undetermined)
        for name in kinds:
            if name not in common:
                raise self._differs(other, f"{name!r} is an attribute of one of them only")
        return PublishedType(self.name, kinds, frozenset(common - kinds.keys()))

    def suits(self, kinds: Mapping[str, str]) -> bool:
        """Whether its events have the attributes of a type with these kinds, `OPEN` for an open one."""
        return all(kinds.get(name) == kind for name, kind in self.kinds.items()) and all(
            name in self.kinds or name in self.undetermined for name in kinds
        )

    def _differs(self, other: PublishedType, how: str) -> TypeRegistryError:
        return TypeRegistryError(
            f"the type {self.name!r} is known with other attributes: {how}",
            given=other.text,
            allowed=self.text,
            advice="publish the same attributes, or under another name",
        )

    @property
    def text(self) -> str:
        """Attributes with their kinds, as text."""
        return ", ".join(f"{name}: {kind or 'of any kind'}" for name, kind in self.all_kinds.items()) or "none"


def agreed(published: Iterable[PublishedType]) -> PublishedType:
    """Type that one or more patterns publish; what does not agree with those before it is left out."""
    first, *others = published
    for each in others:
        with suppress(TypeRegistryError):
            first = first.joined(each)
    return first


def known_type(registry: TypeRegistry, name: str) -> PublishedType | None:
    """Type of this name as the registry has it; None for none."""
    found = registry.find(name)
    return None if found is None else PublishedType(name, found.attributes, registry.undetermined(name))


def publish(registry: TypeRegistry, added: PublishedType) -> None:
    """Register a type that a pattern publishes, together with what others publish under its name. Raises
    `TypeRegistryError` where they do not agree, and for the name of a derived type."""
    known = registry.find(added.name)
    if known is not None and known.derived is not None:
        raise derived_error(added.name)
    before = known_type(registry, added.name)
    after = added if before is None else before.joined(added)
    made = after.event_type if known is None else msgspec.structs.replace(known, attributes=dict(after.kinds))
    registry.adopt(made, after.undetermined)


def derived_error(name: str) -> TypeRegistryError:
    """Error for a pattern that would publish under the name of a derived type."""
    problem = f"the type {name!r} is derived from another, and nothing is published under it"
    return TypeRegistryError(problem, given=name, advice="publish under another name")


def with_published(registry: TypeRegistry, published: Iterable[PublishedType]) -> TypeRegistry:
    """Copy of a registry with further types of other names, which were checked before."""
    types = list(published)
    return registry.with_checked(
        (each.event_type for each in types), {each.name: each.undetermined for each in types if each.undetermined}
    )

"""Types that patterns may read: kept up to date with each change, the same as made again from all entries."""

from __future__ import annotations

from contextlib import suppress
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from distced.brokers.core.directory import Directory
from distced.middleware.model.errors import TypeRegistryError
from distced.middleware.model.event_types import Derivation, EventType, TypeRegistry, event_type
from distced.middleware.model.published_types import publish
from distced.middleware.wire.directory import Entries
from distced.middleware.wire.directory_entries import DetectorEntry

ATTRIBUTES = ({"a": "number"}, {"b": "number"}, {"a": "no kind"}, {"a": "string"}, {}, {"a": "number", "b": "string"})
UNDETERMINED = ((), (), ("a",), ("b",), ("a", "b"), ("not a name",))

Types = dict[str, tuple[EventType, frozenset[str]]]


def types_of(registry: TypeRegistry) -> Types:
    return {each.name: (each, registry.undetermined(each.name)) for each in registry}


def made_again(directory: Directory) -> Types:
    """Types by name: registered ones, then the published ones, of each the detectors that make sense and agree with
    those before them by name."""
    registry = Entries.registry(directory)
    for name in {each.publishes for each in directory.detectors.values() if each.publishes} - types_of(registry).keys():
        for _, entry in sorted(directory.detectors.items()):
            if entry.publishes == name:
                with suppress(TypeRegistryError):
                    publish(TypeRegistry(), entry.published)
                    publish(registry, entry.published)
    return types_of(registry)


def change(directory: Directory, random: Random) -> None:
    gone, name = random.random() < 0.3, random.choice("TUV")
    if random.random() < 0.6:
        attributes = random.choice(ATTRIBUTES)
        undetermined = tuple(each for each in random.choice(UNDETERMINED) if each not in attributes)
        entry = DetectorEntry(
            "n", "[A]", "guaranteed", (), publishes=name, attributes=attributes, undetermined=undetermined
        )
        directory.put("detector", f"x{random.randrange(5)}", None if gone else entry)
    elif random.random() < 0.5:
        made = random.choice((event_type(name, {"z": "number"}), EventType(name, {"z": "number"}, Derivation("W"))))
        directory.put("type", name, None if gone else made)
    else:
        directory.put("type", "W", None if gone else event_type("W", {"z": "number"}))


@given(st.randoms(use_true_random=False))
def test_types_are_those_made_again_from_all_entries(random: Random) -> None:
    directory = Directory()
    for _ in range(60):
        change(directory, random)
        if random.random() < 0.7:
            assert types_of(directory.registry()) == made_again(directory)


def test_registry_that_was_handed_out_stays_as_it_is() -> None:
    directory = Directory()
    directory.put("type", "A", event_type("A", {}))
    handed_out = directory.registry()
    directory.put("type", "B", event_type("B", {}))
    assert "B" not in handed_out and "B" in directory.registry()

"""Types that patterns may read: kept up to date with each change, the same as made again from all entries."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from distced.brokers.core.directory import Directory
from distced.middleware.model.errors import TypeRegistryError
from distced.middleware.model.event_types import Derivation, EventType, event_type
from distced.middleware.wire.directory import Entries
from distced.middleware.wire.directory_entries import DetectorEntry

ATTRIBUTES = ({"a": "number"}, {"b": "number"}, {"a": "no kind"})


def made_again(directory: Directory) -> dict[str, EventType]:
    """Types by name: registered ones, then of each published one the first detector that makes sense."""
    registry = Entries.registry(directory)
    for name in {each.publishes for each in directory.detectors.values() if each.publishes}:
        for _, entry in sorted(directory.detectors.items()) if name not in registry else ():
            if entry.publishes == name:
                try:
                    registry.register(EventType(name, entry.attributes))  # type: ignore[arg-type]
                    break
                except TypeRegistryError:
                    pass
    return {each.name: each for each in registry}


def change(directory: Directory, random: Random) -> None:
    gone, name = random.random() < 0.3, random.choice("TUV")
    if random.random() < 0.6:
        attributes = random.choice(ATTRIBUTES)
        entry = DetectorEntry("n", "[A]", "guaranteed", reads=(), publishes=name, attributes=attributes)
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
            assert {each.name: each for each in directory.registry()} == made_again(directory)


def test_registry_that_was_handed_out_stays_as_it_is() -> None:
    directory = Directory()
    directory.put("type", "A", event_type("A", {}))
    handed_out = directory.registry()
    directory.put("type", "B", event_type("B", {}))
    assert "B" not in handed_out and "B" in directory.registry()

"""Carrier network: devices, the links between them, and the causal edges between kinds of alarms.

A fault of a device shows as an alarm there; an alarm of one kind causes alarms of other kinds at the device itself and
at its neighbours. Experts of a network know these causal edges, from a cause to an effect. A made network is a tree of
exchanges with some links across, as microwave networks are; its causal edges have no circle.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from distced.middleware.model.errors import DistcedError

BRANCHES: Final = 4
"""Devices below one in a made network, at most."""

ACROSS: Final = 0.1
"""Links across the tree, as a share of the devices."""


@dataclass(frozen=True)
class CarrierNetwork:
    """Devices, links and causal edges.

    Attributes:
        devices: names, each once.
        links: pairs of devices, in both directions.
        causes: kinds of a cause and of its effect.
    """

    devices: tuple[str, ...]
    links: frozenset[tuple[str, str]]
    causes: tuple[tuple[int, int], ...]
    _near: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        for one, other in sorted(self.links):
            self._near[one] = (*self._near.get(one, ()), other)

    def neighbours(self, device: str) -> tuple[str, ...]:
        """Devices with a link to a device."""
        return self._near.get(device, ())

    def effects(self) -> dict[int, tuple[int, ...]]:
        """Kinds of effects of each kind that is a cause, in ascending order."""
        found: dict[int, set[int]] = {}
        for cause, effect in self.causes:
            found.setdefault(cause, set()).add(effect)
        return {cause: tuple(sorted(found[cause])) for cause in sorted(found)}


def made_network(random: Random, *, devices: int = 40, kinds: int = 12, causes: int = 14) -> CarrierNetwork:
    """Network of a number of devices, and causal edges between kinds of alarms, of which each leads to a later one."""
    names = tuple(f"device-{number}" for number in range(devices))
    pairs = [(names[number], names[(number - 1) // BRANCHES]) for number in range(1, devices)]
    for _ in range(round(ACROSS * devices)):
        one, other = random.sample(names, 2)
        pairs.append((one, other))
    possible = [(cause, effect) for cause in range(kinds) for effect in range(cause + 1, kinds)]
    chosen = sorted(random.sample(possible, min(causes, len(possible))))
    return CarrierNetwork(names, _both_ways(pairs), tuple(chosen))


def read_network(causes: Path, links: Path | None, devices: Iterable[str]) -> CarrierNetwork:
    """Network of a recording: CSV files with causal edges (`cause_alarm`, `effect_alarm`) and with links (`device_a`,
    `device_b`); without links effects are looked for at the device of the cause alone.

    Raises `DistcedError` with file and row.
    """
    edges = [
        (_kind(one, causes, row), _kind(other, causes, row))
        for row, one, other in _rows(causes, "cause_alarm", "effect_alarm")
    ]
    pairs = [] if links is None else [(one, other) for _, one, other in _rows(links, "device_a", "device_b")]
    return CarrierNetwork(tuple(dict.fromkeys(devices)), _both_ways(pairs), tuple(dict.fromkeys(edges)))


def _both_ways(pairs: Iterable[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    return frozenset(each for one, other in pairs for each in ((one, other), (other, one)))


def _rows(path: Path, *columns: str) -> list[tuple[int, str, str]]:
    """Number, from 2 below the header, and both columns of each row."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            missing = [each for each in columns if each not in (reader.fieldnames or ())]
            if missing:
                raise DistcedError("a column is missing", given=", ".join(missing), where=str(path))
            return [(reader.line_num, *(row[each] or "" for each in columns)) for row in reader]  # type: ignore[misc]
    except (OSError, UnicodeDecodeError) as error:
        raise DistcedError("a file that cannot be read", given=str(path), advice=str(error)) from None


def _kind(text: str, path: Path, row: int) -> int:
    try:
        return int(text)
    except ValueError:
        raise DistcedError("not a kind of alarm", given=text, allowed="a number", where=f"{path}, row {row}") from None

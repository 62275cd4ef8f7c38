"""Upgrades of machines: the application of the CEDR article, with its queries in `upgrades.cedr`."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from distced.simulations.upgrades.machine_fleet import TYPES, MachineFleet

QUERIES: Final = "upgrades.cedr"

__all__ = ["QUERIES", "TYPES", "MachineFleet", "read_queries"]


def read_queries() -> str:
    """Text of the queries."""
    return files(__name__).joinpath(QUERIES).read_text(encoding="utf-8")

"""Threats to regions: the application of the CEDMOS report, with its transformers in `threats.cedmos`."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from distced.simulations.threats.battlefield import TYPES, Battlefield

TRANSFORMERS: Final = "threats.cedmos"

__all__ = ["TRANSFORMERS", "TYPES", "Battlefield", "read_transformers"]


def read_transformers() -> str:
    """Text of the transformers."""
    return files(__name__).joinpath(TRANSFORMERS).read_text(encoding="utf-8")

"""Mappings: foreign messages and rows become events, as a TOML file says (docs/how-to/mappings.md)."""

from distced.middleware.mapping.mapping import NO_RULE, REMARKS, Mapped, Mapping
from distced.middleware.mapping.mapping_file import load_mapping, parse_mapping
from distced.middleware.mapping.rules import Rejected
from distced.middleware.mapping.schema import FileSpec

__all__ = ["NO_RULE", "REMARKS", "FileSpec", "Mapped", "Mapping", "Rejected", "load_mapping", "parse_mapping"]

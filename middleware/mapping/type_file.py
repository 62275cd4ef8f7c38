"""Files of event types, to check patterns with where there is no mapping that declares them.

    [types.Temp]
    room = "string"
    temp = "number"

Derived types are statements of pattern files and have no place here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from distced.middleware.model.errors import TypeRegistryError
from distced.middleware.model.event_types import KINDS, EventType, event_type
from distced.middleware.model.toml_text import parse_toml, read_toml


def load_types(path: Path | str) -> tuple[EventType, ...]:
    """Event types of a file; a `TypeRegistryError` names file, type and attribute where it is wrong."""
    return _types(read_toml(path, "types", TypeRegistryError), str(path))


def parse_types(text: str, *, name: str = "types") -> tuple[EventType, ...]:
    """Event types of a TOML text, which errors call `name`."""
    return _types(parse_toml(text, name, TypeRegistryError), name)


def _types(raw: dict[str, Any], name: str) -> tuple[EventType, ...]:
    tables = raw.pop("types", None)
    if raw or not isinstance(tables, dict) or not tables:
        raise TypeRegistryError(
            "not a file of types",
            given=", ".join(raw) or None,
            allowed="a table for each type, such as [types.Temp]",
            where=name,
        )
    return tuple(_type(type_name, attributes, f"{name}, types.{type_name}") for type_name, attributes in tables.items())


def _type(type_name: str, attributes: object, where: str) -> EventType:
    if not isinstance(attributes, dict):
        raise TypeRegistryError("not the attributes of a type", given=attributes, allowed="name = kind", where=where)
    for attribute, kind in attributes.items():
        if kind not in KINDS:
            raise TypeRegistryError(
                f"not a kind for the attribute {attribute!r}", given=kind, allowed=", ".join(KINDS), where=where
            )
    try:
        return event_type(type_name, attributes)
    except TypeRegistryError as error:
        raise TypeRegistryError(error.problem, given=error.given, allowed=error.allowed, where=where) from None

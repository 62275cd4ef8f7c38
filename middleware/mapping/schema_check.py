"""Check of the shape of a mapping file: TOML tables into structs, with errors that name the key and what is allowed.

msgspec does the checking; its messages name the place but not the alternatives, which are looked up in the structs.
"""

from __future__ import annotations

import re
from types import UnionType
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from distced.middleware.model.errors import MappingError

_T = TypeVar("_T", bound=msgspec.Struct)
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d*|\.\.\.)\]")
_WORDS: Final = {"object": "table", "str": "text", "int": "whole number", "float": "number", "bool": "true or false"}


def shape(raw: object, wanted: type[_T], where: str) -> _T:
    """TOML table as a struct."""
    try:
        return msgspec.convert(raw, wanted)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$")
        steps = [name or index for name, index in _STEP.findall(path.rstrip("`"))]
        found = _at(wanted, steps)
        place = ", ".join([where, ".".join(_counted(steps))]) if steps else where
        unknown = re.search(r"unknown field `(.*)`", problem)
        if unknown is not None:
            raise MappingError("unknown key", given=unknown[1], allowed=_keys(found), where=place) from None
        missing = re.search(r"missing required field `(.*)`", problem)
        if missing is not None:
            raise MappingError("a key is missing", given=missing[1], allowed=_keys(found), where=place) from None
        raise MappingError(
            "not a value for this key", given=_given(raw, steps), allowed=_allowed(found, problem), where=place
        ) from None


def _at(wanted: Any, steps: list[str]) -> Any:
    """Annotation at the end of a path through structs and lists."""
    for step in steps:
        for option in _options(wanted):
            if isinstance(option, type) and issubclass(option, msgspec.Struct):
                hints = get_type_hints(option)
                if step in hints:
                    wanted = hints[step]
                    break
            elif get_origin(option) is list and step.isdecimal():
                wanted = get_args(option)[0]
                break
        else:
            return None
    return wanted


def _options(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


def _keys(found: Any) -> str | None:
    for option in _options(found):
        if isinstance(option, type) and issubclass(option, msgspec.Struct):
            return ", ".join(option.__struct_fields__)
    return None


def _allowed(found: Any, problem: str) -> str:
    """Alternatives where there is a list of them, else the kinds msgspec expected."""
    for option in _options(found):
        if get_origin(option) is Literal:
            return ", ".join(get_args(option))
    expected = re.search(r"Expected `([^`]*)`", problem)
    if expected is None:
        return problem
    kinds = [_WORDS.get(kind, kind) for kind in expected[1].split(" | ") if kind != "null"]
    return " or ".join(dict.fromkeys(kinds))


def _given(raw: Any, steps: list[str]) -> object:
    for step in steps:
        if isinstance(raw, dict) and step in raw:
            raw = raw[step]
        elif isinstance(raw, list) and step.isdecimal():
            raw = raw[int(step)]
        else:
            return None
    return raw


def _counted(steps: list[str]) -> list[str]:
    """Steps with places counted from 1, as people do."""
    return [str(int(step) + 1) if step.isdecimal() else step for step in steps]

"""Conversion of a message's values to attributes: a number, a string, a boolean or null."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from distced.middleware.mapping.extraction import DeviceMessage, compile_path, compile_value, text_of
from distced.middleware.mapping.lookup_file import read_lookup
from distced.middleware.mapping.schema import AttributeSpec, Scalar
from distced.middleware.model.errors import MappingError
from distced.middleware.model.events import Attribute
from distced.middleware.model.timestamps import INSTANT_MAX, INSTANT_MIN

Convert: TypeAlias = Callable[[object], Attribute]
"""Gives the attribute's value for one that is not null, or raises `MappingError`."""

NULL_TEXTS: Final = frozenset({""})
NULL_NUMBERS: Final = frozenset({"", "nan", "NaN", "NAN"})
KEYS_SHOWN: Final = 20
TRUE_TEXTS: Final = frozenset({"true", "on", "yes", "1"})
FALSE_TEXTS: Final = frozenset({"false", "off", "no", "0"})

_EXACT: Final = 2**53
_SIGNS: Final = frozenset({"+", "-"})
_ONLY: Final = {
    "number": ("scale", "offset", "range"),
    "string": (),
    "boolean": ("true", "false", "above", "below"),
}


class PlainNumber(NamedTuple):
    """Number read as it stands: the texts that mean null, and its range, None for any."""

    nulls: frozenset[str | None]
    range: tuple[float, float] | None


class AttributeReader(NamedTuple):
    """Reader of an attribute.

    Attributes:
        read: gives the value, or raises `MappingError`.
        forgiving: whether a wrong value is read as `default` and does not cost the event.
        default: the value in place of null.
        plain: of a number that is no more than looked at; many are read at once.
    """

    read: Callable[[DeviceMessage], Attribute]
    forgiving: bool
    default: Attribute
    plain: PlainNumber | None = None


def compile_attribute(
    name: str, spec: AttributeSpec, nulls: Sequence[Scalar], outside: Callable[[str], bool], folder: Path
) -> AttributeReader:
    """Reader of an attribute in messages; `nulls` are the rule's values that mean null, `folder` that of the file."""
    _check(name, spec)
    pick = compile_value(spec.path, spec.text, outside) or compile_path([name], outside)
    texts = frozenset(text_of(value) for value in (*nulls, *spec.null))
    texts |= NULL_TEXTS if spec.kind == "string" else NULL_NUMBERS
    converts = {"number": _number, "string": lambda spec: _string, "boolean": _boolean}
    convert = converts[spec.kind](spec) if spec.lookup is None else _looked_up(_lookup(name, spec, folder))
    default = spec.default

    def read(message: DeviceMessage) -> Attribute:
        value = pick(message)
        # A text is compared as it stands, which is the common case; other values by their text.
        if value is None or (value if type(value) is str else text_of(value)) in texts or value != value:
            return default
        try:
            found = convert(value)
        except MappingError as error:
            raise MappingError(
                f"the attribute {name!r}: {error.problem}", given=error.given, allowed=error.allowed
            ) from None
        return default if found is None else found

    return AttributeReader(read, spec.wrong == "null", default, _plain_number(spec, texts))


def _plain_number(spec: AttributeSpec, nulls: frozenset[str | None]) -> PlainNumber | None:
    converted = (spec.text, spec.lookup, spec.scale, spec.offset)
    if spec.kind != "number" or any(each is not None for each in converted):
        return None
    # Bounds that integers and floats are compared with alike.
    if spec.range is not None and not all(-_EXACT <= each <= _EXACT for each in spec.range):
        return None
    return PlainNumber(nulls, spec.range)


def _check(name: str, spec: AttributeSpec) -> None:
    given = [key for keys in _ONLY.values() for key in keys if getattr(spec, key) is not None]
    for key in given:
        if spec.lookup is not None or key not in _ONLY[spec.kind]:
            kind = f"a {spec.kind}" + (" with a lookup" if spec.lookup is not None else "")
            raise MappingError(
                f"{key} means nothing for {kind}",
                given=key,
                allowed=", ".join(_ONLY[spec.kind]) if spec.lookup is None and _ONLY[spec.kind] else "no such key",
            )
    if spec.kind == "boolean" and len({"lists" if key in ("true", "false") else key for key in given}) > 1:
        raise MappingError(
            "several tests for a boolean", given=", ".join(given), allowed="true and false, above or below"
        )
    if spec.range is not None and spec.range[0] > spec.range[1]:
        raise MappingError("a range upside down", given=spec.range, allowed="[least, greatest]")
    values = [("default", spec.default)] if spec.default is not None else []
    if isinstance(spec.lookup, dict):
        values += [(f"lookup.{key}", value) for key, value in spec.lookup.items()]
    if spec.columns is not None and not isinstance(spec.lookup, str):
        raise MappingError("columns of no file", given=spec.columns, allowed="lookup = 'FILE.csv'")
    kinds = {"number": (int, float), "string": (str,), "boolean": (bool,)}[spec.kind]
    for key, value in values:
        whole = type(value) is not int or INSTANT_MIN <= value <= INSTANT_MAX
        if type(value) not in kinds or value != value or not whole:
            raise MappingError(f"{key} of {name!r} is no {spec.kind}", given=value, allowed=f"a {spec.kind}")


def _lookup(name: str, spec: AttributeSpec, folder: Path) -> dict[str, Attribute]:
    """Lookup of an attribute; an empty cell of a file is null."""
    if not isinstance(spec.lookup, str):
        return {**(spec.lookup or {})}
    convert = {"number": to_number, "string": _string, "boolean": _plain_boolean}[spec.kind]
    found: dict[str, Attribute] = {}
    for key, cell in read_lookup(folder / spec.lookup, spec.columns, name).items():
        try:
            found[key] = convert(cell) if cell else None
        except MappingError as error:
            raise MappingError(
                f"the lookup of {key!r} is no {spec.kind}", given=cell, allowed=error.allowed, where=spec.lookup
            ) from None
    return found


def _looked_up(lookup: dict[str, Attribute]) -> Convert:
    allowed = keys_text(lookup)

    def convert(value: object) -> Attribute:
        text = text_of(value)
        if text not in lookup:
            raise MappingError("not in the lookup", given=value, allowed=allowed)
        return lookup[text]

    return convert


def keys_text(lookup: Iterable[str]) -> str:
    """Keys of a lookup for an error, of many the first."""
    keys = list(lookup)
    more = len(keys) - KEYS_SHOWN
    return ", ".join(keys[:KEYS_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def to_number(value: object) -> int | float:
    """Number, or number in a text; an integer of 64 bits stays one."""
    number: int | float
    if type(value) is int or type(value) is float:
        number = value
    elif type(value) is str:
        try:
            if value.isdecimal() or (value[:1] in _SIGNS and value[1:].isdecimal()):
                number = int(value)
            else:
                # Python's own spelling 1_000 is nobody else's.
                number = float("_" if "_" in value else value)
        except ValueError:
            raise _not_a_number(value) from None
    else:
        raise _not_a_number(value)
    if type(number) is int and not INSTANT_MIN <= number <= INSTANT_MAX:
        try:
            return float(number)
        except OverflowError:
            raise _not_a_number(value) from None
    if number != number:
        raise _not_a_number(value)
    return number


def _not_a_number(value: object) -> MappingError:
    return MappingError("not a number", given=value, allowed="a number such as 21 or 21.5, or a text that is one")


def _number(spec: AttributeSpec) -> Convert:
    scale, offset, believed = spec.scale, spec.offset, spec.range
    check = to_number if believed is None else _ranged(*believed)
    if scale is None and offset is None:
        return check

    def convert(value: object) -> Attribute:
        number = to_number(value)
        if scale is not None:
            number = number * scale
        if offset is not None:
            number = number + offset
        return check(number)

    return convert


def _ranged(least: float, greatest: float) -> Convert:
    def convert(value: object) -> Attribute:
        number = to_number(value)
        if not least <= number <= greatest:
            raise MappingError("out of range", given=number, allowed=f"{least} to {greatest}")
        return number

    return convert


def _string(value: object) -> Attribute:
    text = text_of(value)
    if text is None:
        raise MappingError("not a string", given=value, allowed="a text, a number or a boolean")
    return text


def _boolean(spec: AttributeSpec) -> Convert:
    if spec.above is not None or spec.below is not None:
        return _bounded(spec.above, spec.below)
    if spec.true is None and spec.false is None:
        return _plain_boolean
    true = None if spec.true is None else frozenset(text_of(value) for value in spec.true)
    false = None if spec.false is None else frozenset(text_of(value) for value in spec.false)
    known = ", ".join(sorted(text for text in (true or frozenset()) | (false or frozenset()) if text is not None))

    def convert(value: object) -> Attribute:
        text = text_of(value)
        if true is not None and text in true:
            return True
        if false is not None and text in false:
            return False
        if text is None or (true is not None and false is not None):
            raise MappingError("neither true nor false", given=value, allowed=known)
        return true is None

    return convert


def _bounded(above: float | None, below: float | None) -> Convert:
    def convert(value: object) -> Attribute:
        number = to_number(value)
        return number > above if above is not None else number < below  # type: ignore[operator]

    return convert


def _plain_boolean(value: object) -> Attribute:
    if type(value) is bool:
        return value
    text = (text_of(value) or "").strip().lower()
    if text in TRUE_TEXTS:
        return True
    if text in FALSE_TEXTS:
        return False
    raise MappingError("neither true nor false", given=value, allowed="true, on, yes, 1 and false, off, no, 0")

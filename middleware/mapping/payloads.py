"""Fields of a payload by name, read from its bytes."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from typing import cast

import msgspec

from distced.middleware.mapping.schema import PayloadFormat
from distced.middleware.model.errors import MappingError


def decode_payload(
    payload: bytes, form: PayloadFormat, columns: Sequence[str] = (), separator: str = ","
) -> dict[str, object]:
    """Fields of a payload. One that is no table (a number, a text, an array) is one field, `value`."""
    if form == "json":
        return as_fields(decode_json(payload))
    try:
        text = payload.decode()
    except UnicodeDecodeError as error:
        raise MappingError("a payload that is no UTF-8 text", given=payload, advice=str(error)) from None
    if form == "text":
        return {"value": text}
    return split_columns(text, columns, separator)


def decode_json(payload: bytes | str) -> object:
    """Any JSON value; NaN and Infinity, which JSON has not and devices send, included."""
    try:
        return msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeError) as error:
        try:
            found = json.loads(payload)
            # Half of a pair of surrogates is no text, which Python does not mind.
            json.dumps(found, ensure_ascii=False).encode()
            return found
        except (ValueError, RecursionError):
            raise MappingError(
                "not JSON", given=payload, allowed="a JSON value in UTF-8", advice=f"{error}; is it format = 'text'?"
            ) from None
    except RecursionError:
        raise MappingError("JSON nested too deeply", given=payload) from None


def as_fields(value: object) -> dict[str, object]:
    """Fields of a JSON value by name."""
    return cast("dict[str, object]", value) if isinstance(value, dict) else {"value": value}


def split_columns(text: str, columns: Sequence[str], separator: str) -> dict[str, object]:
    """Columns of one line by name; a blank as separator stands for any run of blanks and tabs."""
    cells = text.split() if separator == " " else next(csv.reader([text], delimiter=separator), [])
    if len(cells) != len(columns):
        raise MappingError(
            f"{len(cells)} columns in place of {len(columns)}", given=text, allowed=separator.join(columns)
        )
    return dict(zip(columns, cells, strict=True))

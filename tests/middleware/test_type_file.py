"""Files of event types."""

from __future__ import annotations

from pathlib import Path

import pytest

from distced.middleware.mapping.type_file import load_types, parse_types
from distced.middleware.model.errors import TypeRegistryError
from distced.middleware.model.event_types import event_type
from distced.middleware.model.toml_text import MOST_BYTES


def test_file_gives_types_with_their_attributes() -> None:
    text = '[types.Temp]\nroom = "string"\ntemp = "number"\n[types.Tick]\n'
    assert parse_types(text) == (event_type("Temp", {"room": "string", "temp": "number"}), event_type("Tick"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("types = 3", "not a file of types"),
        ("", "not a file of types"),
        ("[Temp]\nroom = 'string'", "not a file of types: Temp"),
        ("[types]\nTemp = 'string'", "not the attributes of a type: string"),
        (
            "[types.Temp]\nroom = 'text'",
            "not a kind for the attribute 'room': text .*number, string, boolean.*types.Temp",
        ),
        ("[types.Temp]\nroom = ['string']", "not a kind"),
        ("[types.'a b']\n", "not a name .*types.a b"),
        ("[types.Temp", "not TOML"),
    ],
)
def test_error_names_what_is_wrong_in_a_file_of_types(text: str, message: str) -> None:
    with pytest.raises(TypeRegistryError, match=message):
        parse_types(text, name="types.toml")


def test_missing_file_of_types_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TypeRegistryError, match="cannot read the types"):
        load_types(tmp_path / "types.toml")


def test_file_of_types_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "types.toml"
    path.write_text("\ufeff[types.Tick]\n", encoding="utf-8")
    assert load_types(path) == (event_type("Tick"),)


@pytest.mark.parametrize(
    ("encoding", "advice"),
    [("utf-16", "it is in UTF-16, .*save the file as UTF-8"), ("latin-1", "line 2 is not UTF-8")],
)
def test_file_of_types_in_another_encoding_is_refused_with_advice(tmp_path: Path, encoding: str, advice: str) -> None:
    path = tmp_path / "types.toml"
    path.write_text("[types.Tick]\n# für", encoding=encoding)
    with pytest.raises(TypeRegistryError, match=f"cannot read the types: .*types.toml; {advice}"):
        load_types(path)


def test_file_of_types_that_ends_within_a_character_at_the_limit_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "types.toml"
    path.write_text("#" + "ü" * MOST_BYTES, encoding="utf-8")
    with pytest.raises(TypeRegistryError, match="a TOML file that is too large"):
        load_types(path)

"""Files of event types."""

from __future__ import annotations

from pathlib import Path

import pytest

from distced.middleware.mapping.type_file import load_types, parse_types
from distced.middleware.model.errors import TypeRegistryError
from distced.middleware.model.event_types import event_type


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

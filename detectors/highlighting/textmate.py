"""TextMate grammars for patterns, with the manifest of an extension of Visual Studio Code.

    python -m distced.detectors.highlighting.textmate FOLDER

writes them; `make grammars` those that are kept with the documentation. A grammar is tried line by line, so a comment
that may go on over several has a begin and an end.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from distced.detectors.frontends.lexicon import SLASHES
from distced.detectors.highlighting.word_rules import HIGHLIGHTED, Highlighting, Kind
from distced.middleware.cli.command import WRONG
from distced.middleware.cli.output import show_error
from distced.middleware.model.errors import DistcedError

SCOPES: Final = {
    Kind.COMMENT: "comment.line",
    Kind.STRING: "string.quoted",
    Kind.NUMBER: "constant.numeric",
    Kind.KEYWORD: "keyword.control",
    Kind.FUNCTION: "support.function",
    Kind.NAME: "variable.other",
    Kind.SIGN: "keyword.operator",
}
"""Scopes that themes of editors have colours for."""

_BLOCK: Final = ("/\\*", "\\*/")


def grammar(highlighting: Highlighting) -> dict[str, Any]:
    """Grammar of a language."""
    return {
        "name": highlighting.title,
        "scopeName": f"source.{_id(highlighting)}",
        "fileTypes": [highlighting.ending.lstrip(".")],
        "patterns": [_pattern(kind, expression, highlighting) for kind, expression in highlighting.rules],
    }


def _pattern(kind: Kind, expression: str, highlighting: Highlighting) -> dict[str, str]:
    if expression == SLASHES:
        begin, end = _BLOCK
        return {"name": f"comment.block.{_id(highlighting)}", "begin": begin, "end": end}
    return {"name": f"{SCOPES[kind]}.{_id(highlighting)}", "match": expression}


def extension() -> dict[str, Any]:
    """Manifest of an extension with all grammars."""
    languages = HIGHLIGHTED.values()
    return {
        "name": "distced",
        "displayName": "distced",
        "description": "Patterns of composite events, in the language of distced and in those that it translates",
        "version": "1.0.0",
        "publisher": "distced",
        "engines": {"vscode": "^1.60.0"},
        "categories": ["Programming Languages"],
        "contributes": {
            "languages": [
                {
                    "id": _id(each),
                    "aliases": [each.title],
                    "extensions": [each.ending],
                    "configuration": "./language-configuration.json",
                }
                for each in languages
            ],
            "grammars": [
                {"language": _id(each), "scopeName": f"source.{_id(each)}", "path": f"./{_path(each)}"}
                for each in languages
            ],
        },
    }


def configuration() -> dict[str, Any]:
    """Comments and brackets, the same in all languages."""
    pairs = [["(", ")"], ["[", "]"], ["{", "}"]]
    return {"comments": {"lineComment": "#"}, "brackets": pairs, "autoClosingPairs": [*pairs, ["'", "'"], ['"', '"']]}


def files() -> Iterator[tuple[str, str]]:
    """Paths and texts of the files of the extension."""
    documents = {"package.json": extension(), "language-configuration.json": configuration()}
    documents |= {_path(each): grammar(each) for each in HIGHLIGHTED.values()}
    for path, document in documents.items():
        yield path, json.dumps(document, ensure_ascii=False, indent=2) + "\n"


def _id(highlighting: Highlighting) -> str:
    """Name of a language among those of an editor, which has a `cel` of its own, perhaps."""
    return f"distced-{highlighting.name}"


def _path(highlighting: Highlighting) -> str:
    return f"syntaxes/{_id(highlighting)}.tmLanguage.json"


def write(folder: Path) -> None:
    """Write the files of the extension into a folder."""
    for path, text in files():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Write the files into the folder that is given; the exit code."""
    try:
        if len(arguments) != 1 or arguments[0].startswith("-"):
            raise DistcedError(
                "grammars are written into a folder", given=" ".join(arguments) or None, allowed="one folder",
                advice="python -m distced.detectors.highlighting.textmate ~/.vscode/extensions/distced",
            )  # fmt: skip
        try:
            write(Path(arguments[0]))
        except OSError as error:
            advice = f"name a folder that can be written to: {error.strerror}"
            raise DistcedError("cannot write the grammars", given=error.filename, advice=advice) from None
    except DistcedError as error:
        show_error(error)
        return WRONG
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

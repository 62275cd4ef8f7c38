"""Lexers of Pygments for patterns, which it finds by the entry points `pygments.lexers`.

Fences of documents are coloured by them, and so is what `pygmentize` prints. `cel` is a language of Google's in
Pygments; Cayuga's is called `cayuga` there.
"""

from __future__ import annotations

from typing import Final

from pygments.lexer import RegexLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String, Text, Whitespace

from distced.detectors.frontends.languages import CORE
from distced.detectors.highlighting.word_rules import HIGHLIGHTED, Kind

TOKENS: Final[dict[Kind, object]] = {
    Kind.COMMENT: Comment,
    Kind.STRING: String,
    Kind.NUMBER: Number,
    Kind.KEYWORD: Keyword,
    Kind.FUNCTION: Name.Function,
    Kind.NAME: Name,
    Kind.SIGN: Operator,
}


def _lexer(language: str, *aliases: str) -> type[RegexLexer]:
    """Lexer of a language; a character that is none of its words is text, no error: documents have other lines, too."""
    highlighting = HIGHLIGHTED[language]
    rules = [(r"\s+", Whitespace), *((pattern, TOKENS[kind]) for kind, pattern in highlighting.rules), (".", Text)]
    attributes = {
        "name": highlighting.title,
        "aliases": list(aliases),
        "filenames": [f"*{highlighting.ending}"],
        "tokens": {"root": rules},
    }
    return type(f"{language.capitalize()}Lexer", (RegexLexer,), {"__module__": __name__, **attributes})


CoreLexer: Final = _lexer(CORE, "distced", "pattern", "detect")
CelLexer: Final = _lexer("cel", "cayuga")
AlgebraLexer: Final = _lexer("algebra", "algebra")
CedmosLexer: Final = _lexer("cedmos", "cedmos")
CedrLexer: Final = _lexer("cedr", "cedr")
PrettyLexer: Final = _lexer("pretty", "pretty")

"""Words of the core language that count in one place alone, and are names elsewhere.

Reserved words, which are no names, are `sets.expressions.RESERVED`; a parser compares with these by itself. The table
is for highlighting; a test has the literals of the parsers and the table agree. Rejected: parsers that read the
table, since what matters to them is the one word that may come.
"""

from __future__ import annotations

from typing import Final

EXPRESSION_WORDS: Final = frozenset(("in", "over"))
"""Those of expressions, which front ends read by the same parser."""

PATTERN_WORDS: Final = frozenset(
    (
        *("type", "with", "every", "last", "clock", "at", "most", "per", "day", "private", "once"),
        *("take", "first", "each", "consuming", "all", "settled", "consumed", "consumption", "ordered", "epoch"),
        "publish_json",
    )
)
"""Those of patterns and pattern files."""

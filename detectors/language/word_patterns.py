"""Regular expressions of the words of a language, by kind: for its scanner and for highlighting.

They are common to Python and Oniguruma, the engine of editors.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

NUMBER: Final = r"(?:\d+\.\d+|\d+)(?:[eE][+-]?\d+)?(?!\w|\.\d)"
NAME: Final = r"[^\W\d]\w*"
QUOTED: Final = r"`[^`\n]+`"
STRING: Final = r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*\""""

HASH: Final = r"\#[^\n]*"
"""Comment of all languages."""


@dataclass(frozen=True)
class WordPatterns:
    """Regular expressions of the words of a language."""

    duration: str
    sign: str
    string: str = STRING
    comments: tuple[str, ...] = (HASH,)

    @cached_property
    def blank(self) -> re.Pattern[str]:
        """Blanks and comments."""
        return re.compile(rf"(?:\s+|{'|'.join(self.comments)})*")

    @cached_property
    def word(self) -> re.Pattern[str]:
        """A word, by kind as the name of its group."""
        name = f"{NAME}|{QUOTED}"
        kinds = {"duration": self.duration, "number": NUMBER, "string": self.string, "name": name, "sign": self.sign}
        return re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in kinds.items()))

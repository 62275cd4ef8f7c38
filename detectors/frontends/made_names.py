"""Names that a front end makes up: variables, registers, time events, private publications.

With types that are not declared the core takes a bare name for the register where there is one, so a name that is made
up may be that of no attribute and no type that the text reads. They begin with `_`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable


class MadeNames:
    """Names that are made up beside others that are taken."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)

    def make(self, wish: str) -> str:
        """A name that is not taken, `_wish` or that with a number behind it; it is taken from now on."""
        base = "_" + re.sub(r"\W", "_", wish)
        name, number = base, 1
        while name in self._taken:
            number += 1
            name = f"{base}{number}"
        self._taken.add(name)
        return name

"""Texts in other languages, checked for all of their queries at once.

Each query of a text is a subscription, and the queries of a text may read each other's composite events, so that a
query alone is not checked. Rejected: the whole text compiled with automata at its first subscription, as these take far
longer, and only some of the queries may be subscribed to.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from distced.detectors.compiler import CheckedText, Consumption, check_text
from distced.detectors.language.consulted_types import ConsultedTypes
from distced.middleware.model.event_types import TypeRegistry

MOST: Final = 20
"""Number of texts kept; the least recently used is dropped first."""

_Key: TypeAlias = tuple[str, str, Consumption]


class CheckedTexts:
    """Texts that were checked last; `checked` counts them. One is valid while the event types looked up by its check
    are unchanged."""

    def __init__(self) -> None:
        self.checked = 0
        self._known: dict[_Key, tuple[CheckedText, ConsultedTypes]] = {}

    def find(
        self, text: str, language: str, registry: TypeRegistry, *, consumption: Consumption = "ordered"
    ) -> tuple[CheckedText, ConsultedTypes]:
        """A text, faulty or not, and the types that its check has looked up."""
        key = text, language, consumption
        known = self._known.pop(key, None)
        if known is None or not known[1].unchanged(registry):
            consulted = ConsultedTypes(registry)
            self.checked += 1
            known = check_text(text, language, consulted, consumption=consumption), consulted
            consulted.published = known[0].published
        # Ordered by last use.
        self._keep({key: known})
        return known

    def only(self, text: str, language: str, consumption: Consumption) -> CheckedTexts:
        """A text by itself, where it is known, for another thread."""
        found = CheckedTexts()
        key = text, language, consumption
        if key in self._known:
            found._known[key] = self._known[key]
        return found

    def absorb(self, other: CheckedTexts) -> None:
        """Take the texts of another one."""
        self.checked += other.checked
        self._keep(other._known)

    def _keep(self, texts: dict[_Key, tuple[CheckedText, ConsultedTypes]]) -> None:
        for key in texts:
            self._known.pop(key, None)
        self._known |= texts
        while len(self._known) > MOST:
            del self._known[next(iter(self._known))]

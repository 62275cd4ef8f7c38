"""Subscriptions that a node coordinates and that are served, by node and by detector."""

from __future__ import annotations


class CoordinatedSubscriptions:
    """Subscriptions that are served, with node and detector of each; found by their detector, too."""

    def __init__(self) -> None:
        # Detectors by name, for each node.
        self._on: dict[str, dict[str, str]] = {}
        # Names by detector: the only one, as of most, or several by their node.
        self._of: dict[str, str | dict[str, dict[str, None]]] = {}

    def __contains__(self, name: str) -> bool:
        return self._node(name) is not None

    def __len__(self) -> int:
        return sum(map(len, self._on.values()))

    def put(self, name: str, node: str, detector: str) -> None:
        """Note that a node serves a subscription; an empty detector for a refused one."""
        self.remove(name)
        there = self._of.get(detector)
        if there is None:
            self._of[detector] = name
        else:
            if isinstance(there, str):
                there = self._of[detector] = {self._node(there) or "": {there: None}}
            there.setdefault(node, {})[name] = None
        self._on.setdefault(node, {})[name] = detector

    def remove(self, name: str) -> None:
        """Remove a subscription, if it is served."""
        node = self._node(name)
        if node is None:
            return
        detector = self._on[node].pop(name)
        if not self._on[node]:
            del self._on[node]
        there = self._of[detector]
        if isinstance(there, dict):
            del there[node][name]
            if not there[node]:
                del there[node]
            if there:
                return
        del self._of[detector]

    def by(self, detector: str, *, but: str = "") -> list[str]:
        """Subscriptions to a detector that other nodes than this one serve."""
        there = self._of.get(detector, {})
        if isinstance(there, str):
            return [] if self._node(there) == but else [there]
        return [name for node, names in there.items() if node != but for name in names]

    def on(self, node: str) -> list[str]:
        """Subscriptions that a node serves."""
        return list(self._on.get(node, ()))

    def _node(self, name: str) -> str | None:
        return next((node for node, names in self._on.items() if name in names), None)

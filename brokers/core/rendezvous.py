"""Rendezvous hashing: the node of a detector, computed alike by every node without messages.

composite-event-framework-2004, "Implementation using JMS", has a simple choice function of the hash of the type's name.
With rendezvous hashing over the live nodes the loss of a node moves only what it hosted.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b


def chosen(name: str, nodes: Iterable[str]) -> str | None:
    """Node chosen for a name; None without nodes."""
    nodes = tuple(nodes)
    if len(nodes) == 1:
        return nodes[0]
    return max(nodes, key=lambda node: (_weight(name, node), node), default=None)


def _weight(name: str, node: str) -> bytes:
    return blake2b(f"{name}\0{node}".encode(), digest_size=8).digest()

"""What decides between nodes that are equally good: a weight that is as good as drawn by lot, and the same everywhere.

Rendezvous hashing, as where no policy has a say. The node that is first by name would get everything.
"""

from __future__ import annotations

from hashlib import blake2b


def lot(name: str, node: str) -> int:
    """The lot of a node for what has this name; the least wins."""
    return int.from_bytes(blake2b(f"{name}\0{node}".encode(), digest_size=8).digest(), "big")

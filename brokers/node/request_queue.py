"""Queue of requests by client, served in turn: one request of each client, in the order of its own.

Nagle's fair queueing (RFC 970): a client with thousands of requests delays another by one of them for each of the
other's. Weights by the cost of a request were rejected: it is known afterwards only, and differs little.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

_K = TypeVar("_K")
_R = TypeVar("_R")


class RequestQueue(Generic[_K, _R]):
    """Requests by client and key: a second one with the key of a waiting one replaces it, in its place."""

    def __init__(self) -> None:
        # Ordered by the next turn; a client without a request is not in it. An ordered dictionary, as a plain one takes
        # longer for its first key the more were removed before it.
        self._waiting: OrderedDict[str, OrderedDict[_K, _R]] = OrderedDict()
        # Of clients that are held.
        self._held: dict[str, OrderedDict[_K, _R]] = {}
        self._length = 0

    def __len__(self) -> int:
        """Number of requests that may be taken."""
        return self._length

    def clients(self) -> frozenset[str]:
        """Clients with a waiting request."""
        return frozenset(self._waiting) | self._held.keys()

    def hold(self, client: str) -> None:
        """Let no request of a client be taken, until `release`."""
        requests = self._waiting.pop(client, None)
        self._length -= 0 if requests is None else len(requests)
        if client not in self._held:
            self._held[client] = OrderedDict() if requests is None else requests

    def release(self, client: str) -> None:
        """Let requests of a client be taken again."""
        requests = self._held.pop(client, None)
        if requests:
            self._waiting[client] = requests
            self._length += len(requests)

    def get(self, client: str, key: _K) -> _R | None:
        """The waiting request with this key."""
        requests = self._held.get(client, self._waiting.get(client))
        return None if requests is None else requests.get(key)

    def put(self, client: str, key: _K, request: _R, *, first: bool = False) -> None:
        """Have a request wait behind the others of its client, or as its `first`."""
        requests = self._held.get(client)
        held = requests is not None
        if requests is None:
            requests = self._waiting.get(client)
        if requests is None:
            requests = self._waiting[client] = OrderedDict()
        new = key not in requests
        self._length += new and not held
        requests[key] = request
        if first and new:
            requests.move_to_end(key, last=False)

    def discard(self, client: str, key: _K) -> None:
        """Remove the request with this key, if it waits."""
        if client in self._held:
            self._held[client].pop(key, None)
            return
        requests = self._waiting.get(client)
        if requests is not None and requests.pop(key, None) is not None:
            self._length -= 1
            if not requests:
                del self._waiting[client]

    def take(self) -> _R:
        """Remove the first request of the client whose turn it is. Raises `LookupError` where none waits."""
        client = next(iter(self._waiting), None)
        if client is None:
            raise LookupError("no request waits")
        requests = self._waiting[client]
        _, request = requests.popitem(last=False)
        self._length -= 1
        if requests:
            self._waiting.move_to_end(client)
        else:
            del self._waiting[client]
        return request

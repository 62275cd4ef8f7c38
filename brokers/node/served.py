"""Subscriptions that a detector serves, with figures over all of them that are kept up to date.

Most detectors of a crowd serve a single subscription, which takes no table. One that serves ten thousand counts them by
their terms, few of which differ, and the connections of their clients, so that one more costs the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

import msgspec
from msgspec.structs import replace

from distced.middleware.wire.directory_entries import SubscriptionEntry

FEW: Final = 8
"""Number of subscriptions that are gone over; more are counted."""

HomeOf = Callable[[str], str]
"""Home server of a client's site, by the client's name."""


class Terms(msgspec.Struct, frozen=True, gc=False):
    """Terms of a subscription; equal ones are mostly one object.

    Attributes:
        ready: whether its client is subscribed to the topic.
        near: node of the replica it reads; empty for the primary, or all, by its policy.
        awaits: node that needs a replica before the topic is offered; empty for none. Never beside `near`.
        constituents, derivations, distribution: as in its entry.
        json: whether its composite events leave as JSON, as its entry or its pattern says.
        quiet: as in its entry.
    """

    ready: bool = False
    near: str = ""
    awaits: str = ""
    constituents: bool = False
    derivations: bool = False
    distribution: str = ""
    json: bool = False
    quiet: int = 0

    @property
    def settled(self) -> bool:
        """Whether its client listens to the primary, and nothing else is to come."""
        return self.ready and not self.near and not self.awaits


class ServedSubscription(msgspec.Struct, frozen=True, gc=False):
    """Subscription that a detector serves: its client, and its terms."""

    client: str
    terms: Terms


@lru_cache(maxsize=4_096)
def _terms(terms: Terms) -> Terms:
    return terms


@lru_cache(maxsize=4_096)
def _served(client: str, terms: Terms) -> ServedSubscription:
    return ServedSubscription(client, terms)


class _Crowd:
    """Figures over many subscriptions: number by terms; number and home of each client, and of clients by home."""

    def __init__(self, served: Iterable[ServedSubscription]) -> None:
        self.terms = Counter[Terms]()
        self.clients: dict[str, tuple[int, str]] = {}
        self.homes = Counter[str]()
        self.home_of: HomeOf | None = None
        for each in served:
            self.add(each)

    def add(self, served: ServedSubscription) -> None:
        self.terms[served.terms] += 1
        number, home = self.clients.get(served.client, (0, ""))
        if not number and self.home_of is not None:
            home = self.home_of(served.client)
            self.homes[home] += 1
        self.clients[served.client] = number + 1, home

    def remove(self, served: ServedSubscription) -> None:
        self.terms[served.terms] -= 1
        if not self.terms[served.terms]:
            del self.terms[served.terms]
        number, home = self.clients.pop(served.client)
        if number > 1:
            self.clients[served.client] = number - 1, home
        elif self.home_of is not None:
            self.homes[home] -= 1

    def locate(self, home_of: HomeOf) -> None:
        """Note the home of each client, from now on at its first subscription."""
        self.home_of = home_of
        self.clients = {client: (number, home_of(client)) for client, (number, _) in self.clients.items()}
        self.homes = Counter(home for _, home in self.clients.values())


class ServedSubscriptions:
    """Subscriptions of one detector, by name."""

    __slots__ = ("_crowd", "_many", "_name", "_only")

    def __init__(self, served: Mapping[str, ServedSubscription] | None = None) -> None:
        # The only one; or several.
        self._name = ""
        self._only: ServedSubscription | None = None
        self._many: dict[str, ServedSubscription] | None = None
        self._crowd: _Crowd | None = None
        for name, each in (served or {}).items():
            self._put(name, each)

    def __len__(self) -> int:
        return (self._only is not None) if self._many is None else len(self._many)

    @property
    def mark(self) -> tuple[int, str]:
        """Number of them, and the last one by name: differs after subscriptions have come or gone."""
        if self._many is None:
            return len(self), self._name
        return len(self._many), next(reversed(self._many), "")

    def __contains__(self, name: object) -> bool:
        return self.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._table())

    def __getitem__(self, name: str) -> ServedSubscription:
        return self._table()[name]

    def get(self, name: object) -> ServedSubscription | None:
        """Subscription by its name; None for another."""
        if self._many is None:
            return self._only if self._only is not None and name == self._name else None
        return self._many.get(name)  # type: ignore[call-overload, no-any-return]

    def items(self) -> ItemsView[str, ServedSubscription]:
        """Names and subscriptions."""
        return self._table().items()

    def terms(self) -> Iterable[Terms]:
        """Terms of all, each at least once."""
        return [each.terms for each in self._table().values()] if self._crowd is None else self._crowd.terms

    @property
    def quiet(self) -> int:
        """Interval of watermarks that is enough for all of them, ns."""
        return min((each.quiet for each in self.terms()), default=0)

    @property
    def settled_by_name(self) -> bool:
        """Whether all are settled, and have names that begin with their client's; for few."""
        if self._only is not None:
            return self._only.terms.settled and self._name.startswith(f"{self._only.client}.")
        served = self._table().items()
        return all(each.terms.settled and name.startswith(f"{each.client}.") for name, each in served)

    def readers(self, home_of: HomeOf) -> dict[str, int]:
        """Number of subscribed clients, by home. A client with several subscriptions has one connection."""
        if self._crowd is None:
            return dict(Counter(map(home_of, dict.fromkeys(each.client for each in self._table().values()))))
        if self._crowd.home_of is None:
            self._crowd.locate(home_of)
        return {home: number for home, number in self._crowd.homes.items() if number}

    # Changes.

    def serve(self, name: str, entry: SubscriptionEntry, near: str = "", awaits: str = "") -> None:
        """Add a subscription by its entry, or begin it again; one there keeps its replica where none is named."""
        there = self.get(name)
        if there is not None and not near and not awaits:
            near, awaits = there.terms.near, there.terms.awaits
        self._put(name, served(entry, near=near, awaits=awaits))

    def change(
        self, name: str, *, ready: bool | None = None, near: str | None = None, awaits: str | None = None
    ) -> None:
        """Change terms of a subscription, those that are named. Raises `KeyError` for another."""
        there = self[name]
        named = {"ready": ready, "near": near, "awaits": awaits}
        terms = replace(there.terms, **{key: value for key, value in named.items() if value is not None})
        self._put(name, _served(there.client, _terms(terms)))

    def remove(self, name: str) -> None:
        """Remove a subscription. Raises `KeyError` for another."""
        there = self[name]
        if self._many is None:
            self._name, self._only = "", None
        else:
            del self._many[name]
        if self._crowd is not None:
            self._crowd.remove(there)

    def _put(self, name: str, served: ServedSubscription) -> None:
        there = self.get(name)
        if there is not None and self._crowd is not None:
            self._crowd.remove(there)
        if self._many is not None:
            self._many[name] = served
        elif there is not None:
            # The name as it was first, one object with that in the directory: each message brings another.
            self._only = served
        elif self._only is None:
            self._name, self._only = name, served
        else:
            self._many = {self._name: self._only, name: served}
            self._name, self._only = "", None
        if self._crowd is not None:
            self._crowd.add(served)
        elif len(self) > FEW:
            self._crowd = _Crowd(self._table().values())

    def _table(self) -> dict[str, ServedSubscription]:
        if self._many is not None:
            return self._many
        return {} if self._only is None else {self._name: self._only}

    def validate(self) -> None:
        """Raise `AssertionError` where a figure is wrong."""
        served = self._table().values()
        if self._crowd is not None:
            assert self._crowd.terms == Counter(each.terms for each in served)
            numbers = Counter(each.client for each in served)
            assert {client: number for client, (number, _) in self._crowd.clients.items()} == numbers
            located = Counter(home for _, home in self._crowd.clients.values())
            assert self._crowd.home_of is None or +self._crowd.homes == located


def served(entry: SubscriptionEntry, *, ready: bool = False, near: str = "", awaits: str = "") -> ServedSubscription:
    """Subscription that is served, by its entry."""
    json = bool(entry.publish_json) or "publish_json" in entry.pattern
    terms = Terms(ready, near, awaits, entry.constituents, entry.derivations, entry.distribution, json, entry.quiet)
    return _served(entry.client, _terms(terms))

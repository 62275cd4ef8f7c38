"""Quarantine of clients that flood the directory: nodes do not read their entries for a time.

What is beyond the limits is refused (`brokers.node.refusals`), but it has to be read first, and what others ask for
comes behind it, at the server and at the node. A client that heeds refusals asks for few at a time. Where one publishes
`EXCESS` entries more than its limit without waiting for answers, the node has the server send none of them.

MQTT has no filter with an exception. So the node reads the directory by one filter for each kind and, of subscriptions,
one for each other client meanwhile, and by one filter for all again afterwards. The filters that are added come before
the one that is removed, and without retained messages, which are known: no entry is missed, and none is read again. A
client that arrives meanwhile is read from its own entry on, which it publishes before its subscriptions; the filter of
one that ends goes a little later. Subscriptions whose names have no client are read in any case. Filters by client at
all times were rejected: a node would learn of a new client's subscription later than of what other nodes make of it.

A quarantine ends after a time, which is doubled with each further one, and early where the client ends or begins
again; what the client has published, changed and cleared meanwhile is then read. Its served subscriptions go on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from distced.brokers.core.directory import KINDS, Change
from distced.brokers.core.effects import Effect, Subscribe, Unsubscribe, info, warning
from distced.brokers.core.node_location import SubscriptionLimits
from distced.brokers.node.shared import NodePart, Shared
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import Answer
from distced.middleware.wire.topics import (
    ANY,
    Area,
    TopicError,
    area_filter,
    client_of,
    directory_filter,
    directory_topic,
)

EXCESS: Final = 1_000
"""Entries of a client beyond its limit that wait before it is quarantined."""

SHORTEST: Final = 60 * SECOND
LONGEST: Final = 3600 * SECOND
"""Length of a first quarantine, and of any, ns."""

EARLIEST: Final = 10 * SECOND
"""Least length of a quarantine, also of a client that ends or begins again, ns."""

LINGERING: Final = 10 * SECOND
"""Time for which the filter of a client that ends meanwhile stays: it may return in a moment, and what it has published
last may come behind its end, ns."""


@dataclass(slots=True)
class _Term:
    """Quarantine of a client: its begin, its end, and its length unless it ends early, ns."""

    begin: int
    end: int
    length: int


class Quarantine(NodePart):
    """Quarantine of clients at a node.

    Attributes:
        most: entries of subscriptions that a client may have waiting.
    """

    def __init__(self, shared: Shared, limits: SubscriptionLimits) -> None:
        super().__init__(shared)
        self.most = limits.of_client + EXCESS
        self._terms: dict[str, _Term] = {}
        # Lengths of earlier ones, and when they are forgotten, ns.
        self._earlier: dict[str, tuple[int, int]] = {}
        self._all = area_filter(Area.DIRECTORY, root=self.root)
        # Filters in place of that of all entries; empty while there is no quarantine.
        self._filters: dict[str, None] = {}
        # Clients that have ended meanwhile, and when their filters are removed, ns.
        self._ended: dict[str, int] = {}

    def __contains__(self, client: object) -> bool:
        return client in self._terms

    def started(self) -> list[Effect]:
        """Effects of a connection, perhaps a repeated one, over which the whole directory is read: no quarantine."""
        for client, term in self._terms.items():
            self._earlier[client] = term.length, term.end + LONGEST
        self._terms = {}
        return [Subscribe(self._all), *self._unsubscribe_apart()]

    def begin(self, client: str, now: int) -> list[Effect]:
        """Quarantine a client, unless it is."""
        if client in self._terms or not self._of(client):
            return []
        before, _ = self._earlier.pop(client, (0, 0))
        length = min(2 * before, LONGEST) or SHORTEST
        self._terms[client] = _Term(now, now + length, length)
        # What was to be delivered again is known no better for a while.
        self.directory.confirm(self._known(client))
        counts = self.event_path.counts
        counts["clients quarantined"] = counts.get("clients quarantined", 0) + 1
        error = DistcedError(
            "more subscriptions than nodes read of one client",
            given=client,
            allowed=f"{self.most:,} waiting for an answer",
            advice=f"it is read again in {length // SECOND:,} s; await answers, and end some subscriptions until then",
        )
        answer = Answer("", "refused", node=self.name, error=error.as_dict(), message=str(error), limited=True)
        reason = f"{error.problem} (allowed: {error.allowed})"
        return [
            warning("client quarantined", client=client, reason=reason, seconds=length // SECOND),
            self.reply(client, answer),
            *self._narrow(client),
        ]

    def tick(self, now: int) -> list[Effect]:
        """End what is due."""
        self._earlier = {client: each for client, each in self._earlier.items() if each[1] > now}
        due = [client for client, term in self._terms.items() if term.end <= now]
        effects: list[Effect] = []
        for client in due:
            effects += self._end(client, now)
        if due and not self._terms:
            effects += [Subscribe(self._all, retained=False), *self._unsubscribe_apart()]
        return [*effects, *self._remove_ended(now)]

    def client_changed(self, change: Change, now: int) -> list[Effect]:
        """Take the entry of a client that has begun, begun again, or ended."""
        client = change.name
        self._ended.pop(client, None)
        if (term := self._terms.get(client)) is not None:
            term.end = min(term.end, term.begin + EARLIEST)
            return []
        topic_filter = self._of(client)
        if not (self._filters and topic_filter):
            return []
        if change.entry is None:
            self._ended[client] = now + LINGERING
            return []
        return self._add(topic_filter)

    def _add(self, topic_filter: str) -> list[Effect]:
        if topic_filter in self._filters:
            return []
        self._filters[topic_filter] = None
        return [Subscribe(topic_filter)]

    def _remove_ended(self, now: int) -> list[Effect]:
        """Remove the filters of clients that ended a while ago, without subscriptions left."""
        effects: list[Effect] = []
        for client in [client for client, at in self._ended.items() if at <= now]:
            del self._ended[client]
            topic_filter = self._of(client)
            if topic_filter in self._filters and client not in self.directory.by_client:
                del self._filters[topic_filter]
                effects.append(Unsubscribe(topic_filter))
        return effects

    def _end(self, client: str, now: int) -> list[Effect]:
        """Read the entries of a client again, those that the server has retained included."""
        term = self._terms.pop(client)
        self._earlier[client] = term.length, now + LONGEST
        self.directory.expect(self._known(client), now)
        return [info("client readmitted", client=client), *self._add(self._of(client))]

    def _narrow(self, client: str) -> list[Effect]:
        """Have all entries sent but those of a client."""
        left_out = self._of(client)
        if self._filters:
            if left_out not in self._filters:
                return []
            del self._filters[left_out]
            return [Unsubscribe(left_out)]
        subscriptions = directory_topic("subscription", "-", root=self.root)[:-1]
        levels = set(map(client_of, self.directory.subscriptions))
        clients = sorted({*levels, *self.directory.by_client, *self.directory.clients} - {"", client})
        self._filters = dict.fromkeys(
            [
                *(directory_filter(kind, root=self.root) for kind in KINDS if kind != "subscription"),
                # Those whose names have no client, as of nodes.
                f"{subscriptions}{ANY}",
                *filter(None, map(self._of, clients)),
            ]
        )
        return [*(Subscribe(each, retained=False) for each in self._filters), Unsubscribe(self._all)]

    def _unsubscribe_apart(self) -> list[Effect]:
        filters, self._filters, self._ended = self._filters, {}, {}
        return [Unsubscribe(each) for each in filters]

    def _known(self, client: str) -> list[tuple[str, str]]:
        """Entries known that the filter of a client is for: by their names, which may differ from what they contain."""
        return [("subscription", name) for name in self.directory.subscriptions if client_of(name) == client]

    def _of(self, client: str) -> str:
        """Filter for the entries of a client; empty where its name leaves no room for them in a topic."""
        try:
            return directory_filter("subscription", client, root=self.root)
        except TopicError:
            return ""

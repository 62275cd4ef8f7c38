"""Refusals of subscriptions beyond the limits: on arrival, without an entry, a plan or a story.

The length of a pattern is limited, too: it is the one cost of a request that is known before its work is done.

The coordinator of a subscription refuses it. Other nodes keep its entry until that is cleared: for a moment their
counts may differ. What one batch of messages brings is refused in one answer for each client.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final

from distced.brokers.core.effects import Effect, Publish, warning
from distced.brokers.core.metrics import REFUSALS
from distced.brokers.core.node_location import SubscriptionLimits
from distced.brokers.core.rendezvous import chosen
from distced.brokers.node.planning import is_there
from distced.brokers.node.shared import NodePart, Shared
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.administration import Answer
from distced.middleware.wire.codec import decode
from distced.middleware.wire.directory import check_client
from distced.middleware.wire.directory_entries import NODE_CLIENT, SubscriptionEntry, SubscriptionHead
from distced.middleware.wire.topics import directory_topic

LOGGED_EVERY: Final = 10 * SECOND
"""Least interval between log events on the refusals of one client, ns."""

CLIENTS_LOGGED: Final = 10
"""Clients with a log event of their own within this interval; the refusals of further ones are logged together."""

CLEARED: Final = 100
"""Entries of refused subscriptions cleared with each tick: nobody waits for that, and the server has each message to
take and to send again, before the events that come meanwhile."""

OTHERS: Final = ""
"""Key of the clients that are logged together."""


OF_CLIENT: Final = "too many subscriptions of one client"
OF_ALL: Final = "too many subscriptions of all clients together"
TOO_LONG: Final = "a pattern longer than nodes accept"

REASONS: Final = {OF_CLIENT: "of_client", OF_ALL: "of_all", TOO_LONG: "pattern_length"}
"""Reasons in metrics, by problem."""


class Refusals(NodePart):
    """Refusals of a node, by its limits.

    Attributes:
        topics: topics of refused entries that are still to be cleared, at most those the server retains.
    """

    def __init__(self, shared: Shared, limits: SubscriptionLimits) -> None:
        super().__init__(shared)
        self.limits = limits
        self.topics: dict[str, None] = {}
        # Names refused since the last answers, by client and problem.
        self._names: dict[tuple[str, str], list[str]] = {}
        # By client: number not logged yet, and the last reason; the time of the last log event, ns.
        self._unlogged: dict[str, tuple[int, str]] = {}
        self._logged: dict[str, int] = {}

    def arrived(self, name: str, payload: bytes, topic: str) -> bool:
        """Whether an entry that has arrived is refused. Raises `FrameError` for a malformed one."""
        self.topics.pop(topic, None)
        known = name in self.directory.subscriptions
        # An entry is longer than its pattern, so most need no look.
        if not payload or (known and len(payload) <= self.limits.pattern_length):
            return False
        head = decode(payload, SubscriptionHead, where=topic)
        problem = TOO_LONG if self._too_long(head) else "" if known else self._problem(head.client)
        if not problem or chosen(head.pattern, self.directory.common_nodes) != self.name:
            return False
        check_client(head.client, topic)
        self._refuse(name, head.client, topic, problem)
        return True

    def refuse_excess(self, served: Callable[[str], bool]) -> None:
        """Refuse entries in excess among those not `served`: they came while no node was there.

        Of each client the last ones by length and order of their names, which all nodes know alike.
        """
        known, limits = self.directory.subscriptions, self.limits
        for name in [name for name, each in known.items() if self._too_long(each)]:
            self._refuse_known(name, TOO_LONG, served)
        beyond = len(known) - limits.of_all
        clients = [each for each in self.directory.by_client if not self._is_node(each)]
        if beyond <= 0 and all(len(self.directory.by_client[each]) <= limits.of_client for each in clients):
            return
        ranks: list[tuple[int, str]] = []
        for client in clients:
            names = sorted(self.directory.by_client[client], key=lambda name: (not served(name), len(name), name))
            ranks += [(rank, name) for rank, name in enumerate(names, 1) if not served(name)]
        # A client with more loses more.
        ranks.sort(reverse=True)
        for place, (rank, name) in enumerate(ranks):
            if rank <= limits.of_client and place >= beyond:
                break
            self._refuse_known(name, OF_CLIENT if rank > limits.of_client else OF_ALL, served)

    def effects(self, now: int) -> list[Effect]:
        """Answers and log events of the refusals since the last call."""
        if not self._names:
            return []
        effects: list[Effect] = []
        for (client, problem), (name, *others) in self._names.items():
            error = self._error(client, problem)
            answer = Answer(
                name,
                "refused",
                "",
                self.name,
                "",
                error.as_dict(),
                str(error),
                limited=problem != TOO_LONG,
                others=tuple(others),
            )
            effects.append(self.reply(client, answer))
            self._note(client, 1 + len(others), str(error))
        self._names = {}
        return [*effects, *self.tick(now)]

    def clear_some(self) -> list[Effect]:
        """Clear some of the refused entries.

        Behind the answers, as a client takes a cleared entry for the end, and few at a time, as each comes back: as
        fast as they are refused was rejected, since that doubled the messages of a flood. One that is lost with the
        connection is refused again when the directory is read.
        """
        some = list(islice(self.topics, CLEARED))
        for topic in some:
            del self.topics[topic]
        return [Publish(topic, b"", qos=0, retain=True) for topic in some]

    def tick(self, now: int) -> list[Effect]:
        """Log events that are due."""
        self._logged = {client: at for client, at in self._logged.items() if now - at < LOGGED_EVERY}
        effects: list[Effect] = []
        for client in [each for each in self._unlogged if each not in self._logged]:
            if client != OTHERS and len(self._logged.keys() - {OTHERS}) >= CLIENTS_LOGGED:
                number, reason = self._unlogged.pop(client)
                self._note(OTHERS, number, reason)
                continue
            effects += self._log(client, now)
        if OTHERS in self._unlogged and OTHERS not in self._logged:
            effects += self._log(OTHERS, now)
        return effects

    def _log(self, client: str, now: int) -> list[Effect]:
        number, reason = self._unlogged.pop(client)
        self._logged[client] = now
        return [warning("subscriptions refused", client=client or "several others", number=number, reason=reason)]

    def _note(self, client: str, number: int, reason: str) -> None:
        self._unlogged[client] = self._unlogged.get(client, (0, ""))[0] + number, reason

    def _refuse(self, name: str, client: str, topic: str, problem: str) -> None:
        counts = self.event_path.counts
        counts["subscriptions refused"] = counts.get("subscriptions refused", 0) + 1
        self.event_path.tallies[REFUSALS, REASONS[problem]] += 1
        self.topics[topic] = None
        self._names.setdefault((client, problem), []).append(name)

    def _refuse_known(self, name: str, problem: str, served: Callable[[str], bool]) -> None:
        """Refuse an entry of the directory that is not `served`, as its coordinator."""
        entry = self.directory.subscriptions[name]
        if not served(name) and chosen(entry.pattern, self.directory.common_nodes) == self.name:
            self.directory.put("subscription", name, None)
            self._refuse(name, entry.client, directory_topic("subscription", name, root=self.root), problem)

    def _too_long(self, entry: SubscriptionHead | SubscriptionEntry) -> bool:
        """Whether a pattern is too long with its definitions, which are compiled with it, and the names of its language
        and query."""
        length = sum(map(len, (entry.pattern, entry.language, entry.query, *entry.definitions.values())))
        return length > self.limits.pattern_length and not self._is_node(entry.client)

    def _problem(self, client: str) -> str:
        """Problem where there is no room for one more subscription of a client, else empty."""
        if self._is_node(client):
            return ""
        if len(self.directory.by_client.get(client, ())) >= self.limits.of_client:
            return OF_CLIENT
        return OF_ALL if len(self.directory.subscriptions) >= self.limits.of_all else ""

    def _is_node(self, client: str) -> bool:
        """Whether a client is a node that is there, which subscribes to parts."""
        return client.startswith(NODE_CLIENT) and is_there(client, self.directory)

    def _error(self, client: str, problem: str) -> DistcedError:
        if problem == TOO_LONG:
            advice = "name its parts by patterns of their own, or start nodes with --max-pattern-length"
            allowed = f"{self.limits.pattern_length:,} characters"
            return DistcedError(problem, given=f"one of {client}", allowed=allowed, advice=advice)
        if problem == OF_ALL:
            advice = "end some, or start nodes with --max-subscriptions-in-all"
            return DistcedError(
                problem, given=f"one more of {client}", allowed=f"{self.limits.of_all:,}", advice=advice
            )
        advice = "end some, subscribe to patterns that find what several do, or start nodes with --max-subscriptions"
        return DistcedError(problem, given=client, allowed=f"{self.limits.of_client:,}", advice=advice)

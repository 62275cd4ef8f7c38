"""Renewals of participants: a node, client or recorder without a sign of life leaves the directory without a last will.

A server publishes the wills of participants that it loses. A power cut ends a server and participants together: the
server comes back with their entries, and without their wills. So participants publish renewals, which only nodes read.

A node measures the silence of others in its own renewals that have come back to it over the same connection: the clocks
of two participants are never compared, and what delays the renewals of others, as a lost connection, a backlog, a
stopped process or a clock that is set, delays its own. After a connection the silence begins again, as the server
delivers entries that it has retained. A participant that was silent for `MISSED` rounds is dead, and one of the nodes
clears its entry, as the server would have by the will; so all that follows is the same as after a will. One that was
silent and is there publishes its entry again. `MISSED` rounds are longer than a server waits before it publishes a will
(1.5 times the keepalive, 45 s), so where there is a will, that comes first. A client over a metered link
renews eight times as rarely, with a keepalive eight times as long, and is dead after eight times as many rounds.

Rejected: instants in entries, as clocks differ; retained renewals, as all clients would read those of all others;
renewals on request after each connection, which save messages, but see nothing of a server that has lost a will.
"""

from __future__ import annotations

from typing import Final

from distced.brokers.core.effects import Effect, warning
from distced.brokers.core.rendezvous import chosen
from distced.brokers.node.shared import NodePart, Shared
from distced.middleware.wire.administration import METERED_EVERY, RENEW_EVERY, renewal

MISSED: Final = 3
"""Rounds of silence after which a participant is dead; few and long ones, as every renewal goes to every node."""

RENEWED: Final = ("node", "client", "recorder")
"""Kinds of entries of participants."""


class Renewals(NodePart):
    """Renewals of this node, and silence of the other participants.

    Attributes:
        round: number of own renewals that have come back.
    """

    def __init__(self, shared: Shared, now: int) -> None:
        super().__init__(shared)
        self.round = 0
        # Round of the last sign of life, by kind and name; of participants without one the first round that sees them.
        self._seen: dict[tuple[str, str], int] = {}
        # Time of the last own renewal, ns, and whether it has come back.
        self._sent_at = now - RENEW_EVERY
        self._came_back = True

    def connected(self) -> None:
        """A connection is established, perhaps again, and the server delivers what it has retained."""
        self._seen = {}
        self._came_back = False

    def seen(self, kind: str, name: str) -> None:
        """Take a sign of life: a renewal, or an entry."""
        if (kind, name) != ("node", self.name):
            self._seen[kind, name] = self.round

    def renewed(self, kind: str, name: str) -> None:
        """Take a renewal, perhaps an own one."""
        self.seen(kind, name)
        if (kind, name) == ("node", self.name) and not self._came_back:
            # Repetitions that come together count once.
            self._came_back = True
            self.round += 1

    def _rounds(self, kind: str, name: str) -> int:
        """Rounds between two renewals of a participant."""
        entry = self.directory.clients.get(name) if kind == "client" else None
        return 1 if entry is None else max(-(-min(entry.renews, METERED_EVERY) // RENEW_EVERY), 1)

    def tick(self, now: int) -> list[Effect]:
        """Effects of the time: the renewal of this node, and the end of participants that are silent."""
        effects: list[Effect] = []
        if now - self._sent_at >= RENEW_EVERY:
            self._sent_at, self._came_back = now, False
            effects.append(renewal("node", self.name, root=self.root))
        there = [(kind, name) for kind in RENEWED for name in self.directory.table(kind)]
        self._seen = {each: self._seen.get(each, self.round) for each in there if each != ("node", self.name)}
        late = [(each, self.round - seen) for each, seen in self._seen.items() if self.round - seen > MISSED]
        dead = [each for each, missed in late if missed > MISSED * self._rounds(*each)]
        if not dead:
            return effects
        alive = [each for each in self.directory.common_nodes if ("node", each) not in dead]
        for kind, name in dead:
            # Again after as many rounds, where that has no effect.
            self._seen[kind, name] = self.round
            if chosen(name, alive) == self.name:
                effects.append(self.clear(kind, name))
                effects.append(warning("participant dead", kind=kind, name=name, reason="it has sent no renewals"))
        return effects

"""Whose a name is: of two nodes of one name the later one goes on, and the earlier one ends.

Ray may start a node again elsewhere while the one before still runs, cut off from Ray but not from MQTT. A server lets
in one client of a name and sends the other away, which comes back and has the first sent away, and so on. So a node
leaves word, retained, of since when it is up, and one that comes back and finds a later one than itself gives up. The
directory cannot say so, because the last will of each clears the entry of the other.

A node that starts is later than whatever it finds, also where its clock is behind: it says that it is up since a moment
after.
"""

from __future__ import annotations

import msgspec

from distced.brokers.core.effects import Effect, Note, Publish
from distced.middleware.wire.directory_entries import decode, encode
from distced.middleware.wire.topics import administration_topic


class Claimed(msgspec.Struct, frozen=True):
    """A node of this name came up.

    Attributes:
        since: when, ns.
    """

    since: int


class Claim:
    """The claim of a node to its name.

    Attributes:
        since: when it came up, ns; may be put off until it is made.
        made: whether it was made.
        lost: whether a later node has made one; then the node is to do nothing any more.
    """

    def __init__(self, name: str, root: str, since: int) -> None:
        self.topic = administration_topic("node", name, "since", root=root)
        self.since = since
        self.made = False
        self.lost = False
        # What the server has retained, as far as is known.
        self._found: int | None = None

    def connected(self) -> None:
        """The connection stands, perhaps again: what is retained will come."""
        self._found = None

    def found(self, payload: bytes) -> list[Effect]:
        """What is retained, or what another node has just said."""
        self._found = decode(payload, Claimed, where=self.topic).since if payload else None
        if self._found is None:
            return []
        if not self.made:
            self.since = max(self.since, self._found + 1)
            return []
        if self._found == self.since:
            return []
        if self._found > self.since:
            self.lost = True
            fields: dict[str, object] = {"since": self.since, "later": self._found}
            return [Note("warning", "another node of this name came up later: this one has ended", fields)]
        return self.make()

    def make(self) -> list[Effect]:
        """Everything retained has come: make the claim, unless it stands."""
        self.made = True
        if self._found == self.since:
            return []
        self._found = self.since
        return [Publish(self.topic, encode(Claimed(self.since)), retain=True)]

    def give_up(self) -> Publish:
        """The node ends."""
        return Publish(self.topic, b"", retain=True)

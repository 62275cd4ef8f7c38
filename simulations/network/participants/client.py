"""What clients have in common in the simulation: they know the directory, and stand behind their entries in it.

The protocol of `middleware.client.directory_session`, without threads: entries are retained, so they outlive a
connection; after each connection, once the directory was read, a client publishes anew what it stands behind and does
not find there.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from distced.brokers.core.effects import Publish, Subscribe
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.directory_entries import ClientEntry, encode
from distced.middleware.wire.topics import Area, administration_topic, area_filter, directory_topic, parse_topic
from distced.policies.topology.model import Place
from distced.simulations.network.participants.participant import Participant

if TYPE_CHECKING:
    from distced.simulations.network.network import Network

ASK_EVERY: Final = SECOND // 2
"""How often a client asks whether it has read the directory, until it has, ns."""

KINDS: Final = ("node", "detector")
"""The kinds of entries that a client takes note of, beside its own."""

_parse = lru_cache(maxsize=65_536)(parse_topic)


class SimulatedClient(Participant):
    """A client.

    Attributes:
        client: its name in the directory.
        entries: what the directory says, undecoded, by kind and name.
        known: whether the directory was read, once.
    """

    def __init__(self, network: Network, place: Place) -> None:
        super().__init__(network, place)
        # Names are told apart by kind in a topology, and not on the wire.
        self.client = f"{place.kind}-{place.name}"
        self.entries: dict[str, dict[str, bytes]] = {kind: {} for kind in KINDS}
        self.known = False
        self._own: dict[tuple[str, str], bytes] = {}
        self._seen: set[tuple[str, str]] = set()
        self._reading = False
        self._directory = area_filter(Area.DIRECTORY).removesuffix("#")
        self._known_topic = administration_topic("known", self.client)

    def put(self, kind: str, name: str, entry: msgspec.Struct) -> None:
        """Publish an entry, and stand behind it from now on."""
        payload = self._own[kind, name] = encode(entry)
        self.do([Publish(directory_topic(kind, name), payload, retain=True)])

    def clear(self, kind: str, name: str) -> None:
        """Take an entry out of the directory."""
        self._own.pop((kind, name), None)
        self.do([Publish(directory_topic(kind, name), b"", retain=True)])

    def stop(self) -> None:
        """The client ends, properly: it takes back what it stands behind, types aside."""
        for kind, name in [each for each in self._own if each[0] != "type"]:
            self.clear(kind, name)
        self.end()

    def heard(self, levels: tuple[str, ...], payload: bytes, topic: str, home: str) -> None:
        """A message of administration, beside those a client needs for itself."""

    def changed(self, kind: str, name: str, payload: bytes) -> None:
        """An entry of the directory has come, or was cleared; or, without a kind, all of it was read."""

    def told(self, topic: str, payload: bytes, home: str) -> None:
        """A message that is neither of the directory nor of administration."""

    # What happens to it.

    def will_for(self, home: str) -> Publish | None:
        return None if home else Publish(directory_topic("client", self.client), b"", retain=True)

    def connected(self, home: str) -> None:
        if home:
            return
        self._seen = set()
        self._reading = True
        self.do([Subscribe(area_filter(Area.DIRECTORY)), Subscribe(self._known_topic)])
        self._announce()
        self._ask()

    def arrived(self, topic: str, payload: bytes, home: str) -> None:
        if topic.startswith(self._directory):
            kind, name = _parse(topic).levels
            self._entry(kind, name, payload)
        elif topic == self._known_topic:
            self._read()
        else:
            self._other(topic, payload, home)

    def _other(self, topic: str, payload: bytes, home: str) -> None:
        area, levels = _parse(topic)
        if area is Area.ADMINISTRATION:
            self.heard(levels, payload, topic, home)
        else:
            self.told(topic, payload, home)

    def _announce(self) -> None:
        self.put("client", self.client, ClientEntry(self.network.engine.instant, self.home))

    def _ask(self) -> None:
        if self._reading and self.alive:
            if self.connection("").on:
                self.do([Publish(self._known_topic, b"")])
            self.network.engine.after(ASK_EVERY, self._ask)

    def _entry(self, kind: str, name: str, payload: bytes) -> None:
        self._seen.add((kind, name))
        if kind in KINDS:
            if payload:
                self.entries[kind][name] = payload
            else:
                self.entries[kind].pop(name, None)
        if not payload and kind in ("type", "source"):
            # Somebody else has cleared it, which holds.
            self._own.pop((kind, name), None)
        if not payload and (kind, name) == ("client", self.client) and self.alive:
            # The last will of a connection that was lost before this one.
            self._announce()
        self.changed(kind, name, payload)

    def _read(self) -> None:
        """The directory was read: forget what is there no more, and put back what is missing."""
        if not self._reading:
            return
        self._reading = False
        self.known = True
        for kind, entries in self.entries.items():
            for name in [each for each in entries if (kind, each) not in self._seen]:
                del entries[name]
        for (kind, name), payload in list(self._own.items()):
            if (kind, name) not in self._seen:
                self.do([Publish(directory_topic(kind, name), payload, retain=True)])
        self.changed("", "", b"")

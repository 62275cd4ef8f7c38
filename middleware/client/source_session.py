"""How the sources of a client come about, and how they end.

A source is an entry of the directory. Each broker node, and each recorder, acknowledges it when it counts with it and
hears the server where it publishes, and says how far it is; only then does the source publish. Its end is told in the
directory, too, and where that is another server than the one of its events, only when its events are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from distced.middleware.bus.pool import Connections
from distced.middleware.client.directory_session import Presence
from distced.middleware.client.source import Source
from distced.middleware.model.errors import BusError, DistcedError, SubscriptionError
from distced.middleware.wire.directory_entries import RECORDER, Acknowledgement, Heartbeat, SourceEntry, decode, encode
from distced.middleware.wire.topics import Area, administration_topic, area_filter, parse_topic

if TYPE_CHECKING:
    from distced.middleware.client.client import Client


class Announcing:
    """The sources of a client.

    Attributes:
        sources: those that are open, by name.
    """

    def __init__(self, client: Client, presence: Presence, connections: Connections) -> None:
        self.sources: dict[str, Source] = {}
        self._client = client
        self._presence = presence
        self._connections = connections
        self._root = client.root
        # By source that is being announced: how far the nodes and recorders are that have acknowledged it, ns.
        self._acknowledged: dict[str, dict[str, int]] = {}

    def listen(self) -> None:
        """Subscribe to what it hears; before the bus starts."""
        topics = area_filter(Area.ADMINISTRATION, "ack", root=self._root)
        self._connections.main.subscribe(topics, self._acknowledgement, qos=1)

    def open(self, named: Mapping[str, Iterable[str]], floor: int, lease: int, qos: int) -> list[Source]:
        """Become sources; raises as `Client.sources`, and then none of them is there."""
        client = self._client
        made: list[Source] = []
        for name, types in named.items():
            self._check_free(name)
            made.append(Source(client, name, {each: client.published_type(each) for each in types}, floor, qos))
        for source in made:
            self._acknowledged[source.name] = {}
            entry = SourceEntry(tuple(source.types), floor, lease, client.name, client.home)
            self._presence.put("source", source.name, entry)
        try:
            for source in made:
                self._await_acknowledgements(source)
                self.sources[source.name] = source
        except SubscriptionError:
            for source in made:
                self.sources.pop(source.name, None)
                self._presence.clear("source", source.name)
            raise
        finally:
            for source in made:
                del self._acknowledged[source.name]
        return made

    def close(self, source: Source) -> None:
        """Say that a source is done."""
        client = self._client
        if client.home and source.name in self.sources:
            # One word at QoS 1 is acknowledged when all before it was taken.
            beat = encode(Heartbeat((source.name,), source.watermark))
            topic = administration_topic("heartbeat", client.name, root=self._root)
            # Where its server is away, its end is told all the same.
            with suppress(BusError):
                client.home_bus.publish(topic, beat, qos=1)
                client.home_bus.flush(client.patience)
        self.sources.pop(source.name, None)
        self._presence.clear("source", source.name)

    def _await_acknowledgements(self, source: Source) -> None:
        client, acknowledged = self._client, self._acknowledged[source.name]
        if not self._presence.wait(lambda: self._awaited() <= acknowledged.keys(), client.patience):
            raise SubscriptionError(
                f"broker nodes have not acknowledged the source {source.name!r}",
                given=", ".join(sorted(self._awaited() - acknowledged.keys())),
                where=client.home or str(client.bus.address),
                advice="look whether they run and reach this server; a dead one leaves the directory after a while",
            )
        source.watermark = max([source.watermark, *acknowledged.values()])

    def _awaited(self) -> set[str]:
        """Who has to count with a source before it publishes."""
        with self._presence.changed:
            directory = self._presence.directory
            return directory.nodes.keys() | {f"{RECORDER}{name}" for name in directory.recorders}

    def _check_free(self, name: str) -> None:
        if name in self.sources:
            raise DistcedError("a source of this name is open already", given=name, advice="close it, or share it")
        with self._presence.changed:
            directory = self._presence.directory
            known = directory.sources.get(name)
            others = directory.clients.keys() - {self._client.name}
        if known is not None and known.publisher in others:
            raise DistcedError(
                "a source of this name is open already", given=name, where=f"client {known.publisher}",
                advice="choose another name: events are told apart by it",
            )  # fmt: skip

    # On the thread of a bus.

    def _acknowledgement(self, topic: str, payload: bytes, retain: bool) -> None:
        levels = parse_topic(topic, root=self._root).levels
        acknowledged = self._acknowledged.get(levels[1]) if len(levels) == 3 else None
        if acknowledged is not None:
            watermark = decode(payload, Acknowledgement, where=topic).watermark
            with self._presence.changed:
                acknowledged[levels[2]] = watermark
                self._presence.changed.notify_all()

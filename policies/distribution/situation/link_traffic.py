"""Traffic of links: number of links that each stream crosses to all its readers.

Rates change all the time, paths only with detectors, nodes and sources: link counts are cached by stream, bytes summed
over streams. Summing the inputs of each node was rejected: ten times as slow with a hundred nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from math import fsum

from distced.middleware.wire.directory_entries import DetectorEntry
from distced.policies.distribution.situation.locations import Locations
from distced.policies.distribution.situation.rates import StreamRates
from distced.policies.distribution.situation.readers import Stream, StreamReaders


class LinkTraffic:
    """Paths of streams through the network, and bytes per second on links, computed on demand."""

    def __init__(self, locations: Locations, reading: StreamReaders, measures: StreamRates) -> None:
        self._locations = locations
        self._reading = reading
        self._measures = measures
        self.forget()

    def forget(self) -> None:
        """Drop all paths: nodes or sources have come, gone or moved."""
        # By stream the links crossed, those that cross none left out; None for all that are yet to be looked at.
        self._crossed: dict[Stream, int] | None = None
        self._stale: set[Stream] = set()

    def change(self, name: str, before: DetectorEntry | None, after: DetectorEntry | None) -> None:
        """Note a changed entry of a detector; None for none."""
        self._stale.add(Stream("composite", "", name))
        for entry in (before, after):
            if entry is not None:
                self._stale.update(Stream("composite", "", part) for part in entry.parts)

    @property
    def bytes_over_links(self) -> float:
        flow = self._measures.flow
        return fsum([times * flow(stream) for stream, times in self._all().items()])

    @property
    def bytes_by_link(self) -> dict[tuple[str, str], float]:
        found: dict[tuple[str, str], float] = {}
        for ends, amount in self._sent():
            for link in self._locations.network.path(*ends).links:
                found[link] = found.get(link, 0.0) + amount
        return found

    @property
    def bytes_by_ends(self) -> dict[tuple[str, str], float]:
        found: dict[tuple[str, str], float] = {}
        for ends, amount in self._sent():
            if ends[0] != ends[1] and amount:
                found[ends] = found.get(ends, 0.0) + amount
        return found

    def _sent(self) -> Iterator[tuple[tuple[str, str], float]]:
        """Bytes per second between sites, for each stream."""
        for stream in self._all():
            amount = self._measures.flow(stream)
            for ends, times in self._sendings(stream).items():
                yield ends, amount * times

    def _all(self) -> dict[Stream, int]:
        """Number of links by stream that crosses any."""
        reading = self._reading
        readers = reading.readers()
        stale: Iterable[Stream]
        if self._crossed is None:
            self._crossed = {}
            own = (Stream("composite", "", name) for name in self._locations.detectors)
            stale = dict.fromkeys((*readers, *own))
        else:
            stale = self._stale | reading.changed
        for stream in stale:
            crossed = self._links(stream)
            if crossed:
                self._crossed[stream] = crossed
            else:
                self._crossed.pop(stream, None)
        self._stale = set()
        reading.changed.clear()
        return self._crossed

    def _links(self, stream: Stream) -> int:
        path = self._locations.network.path
        return sum([times * path(*ends).hops for ends, times in self._sendings(stream).items()])

    def _sendings(self, stream: Stream) -> Counter[tuple[str, str]]:
        """Number of times a stream is sent between sites, by (from, to)."""
        locations = self._locations
        found: Counter[tuple[str, str]] = Counter()
        site_of_node, site_of_home = locations.site_of_node, locations.site_of_home
        sites = Counter(
            site_of_node(each) for each in self._reading.readers().get(stream, ()) if each in locations.nodes
        )
        for site, times in sites.items():
            for home in locations.homes_of(stream, site):
                found[site_of_home(home), site] += times
        if stream.kind == "composite" and stream.name in locations.detectors:
            self._add_own(stream.name, found)
        return found

    def _add_own(self, name: str, found: Counter[tuple[str, str]]) -> None:
        """Add paths from the hosts of a detector to its home servers, and from there to clients."""
        locations = self._locations
        hosts = locations.hosts(name)
        for node, home in hosts.items():
            found[locations.site_of_node(node), locations.site_of_home(home)] += 1
        if not hosts:
            return
        # Nodes that read it as a part were counted with what they read.
        nodes = Counter(map(locations.home_of_node, self._reading.reading_part(name)))
        for listener, count in locations.detectors[name].readers.items():
            clients = max(count - nodes[listener], 0)
            if clients:
                site = locations.site_of_home(listener)
                for home in locations.homes_heard(name, site):
                    if home != listener:
                        found[locations.site_of_home(home), site] += clients

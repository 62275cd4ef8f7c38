"""Sites of home servers, by the topology of the directory: entries name servers, people name sites."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from distced.brokers.core.directory import Directory
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.server_address import parse_address
from distced.policies.topology.topology import Topology
from distced.policies.topology.topology_file import parse_topology


class At(msgspec.Struct, frozen=True):
    """Place of a participant.

    Attributes:
        home: server of its site; empty for that of the directory.
        site: name of the site; None without a topology.
    """

    home: str
    site: str | None

    def __str__(self) -> str:
        """Name of the site, else of its server."""
        if self.site is not None:
            return self.site
        with suppress(DistcedError):
            return str(parse_address(self.home)) if self.home else "directory"
        return self.home


class Sites:
    """Sites of a directory, by its topology; None for none, or an unreadable one."""

    def __init__(self, directory: Directory) -> None:
        self.topology: Topology | None = None
        # As nodes take it: the first by name.
        for name in sorted(directory.topologies)[:1]:
            with suppress(DistcedError):
                self.topology = parse_topology(directory.topologies[name].text, name=f"topology {name}")

    def at(self, home: str) -> At:
        """The place of a home server."""
        if self.topology is not None:
            with suppress(DistcedError):
                return At(home, self.topology.site_of_home(home).name)
        return At(home, None)

"""Several sites on one machine: an MQTT server for each, and a Ray cluster with a Ray node for each, on loopback.

For demos, benchmarks and tests; in production each site has its own machines (`docker/`). The cluster is that of
`ray.cluster_utils`, whose Ray nodes are processes, so that one can be lost and come back. The directory, and the Ray
node of the starting process, are at the first site.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

from distced.brokers.core.node_location import NodeLocation
from distced.brokers.live.mqtt_server import Kind, Server, start_server
from distced.brokers.live.watchdog import remove_folder, watched_folder
from distced.brokers.ray.runtime import check_loopback, import_ray, resources
from distced.middleware.model.errors import DistcedError

_STORE: Final = 80 * 1024 * 1024
"""Size of the object store of each Ray node, bytes; broker nodes do not use it."""


class LocalSites:
    """Sites on this machine; a context manager, or `start` and `stop`.

    Attributes:
        names: of the sites; the directory is at the first.
        servers: the MQTT server of each.
        address: of the Ray cluster; empty where there is none.
    """

    def __init__(self, names: Sequence[str], *, ray: bool = True, kind: Kind = "auto") -> None:
        """Describe sites; nothing happens before `start`.

        Args:
            ray: whether to start a Ray cluster.
            kind: of the MQTT servers.
        """
        if len(set(names)) != len(names) or not all(names) or not names:
            raise DistcedError("not the names of sites", given=", ".join(names), allowed="one or more, each once")
        self.names = tuple(names)
        self.servers: dict[str, Server] = {}
        self.address = ""
        self._ray = ray
        self._kind = kind
        self._cluster: Any = None
        self._nodes: dict[str, Any] = {}
        self._folder = Path()
        self._stack = ExitStack()

    @property
    def url(self) -> str:
        """MQTT server of the directory."""
        return self.servers[self.names[0]].url

    def location(self, site: str, capacity: float = 0.0) -> NodeLocation:
        """Location of a node at a site."""
        return NodeLocation(self.servers[site].url, capacity, site)

    def start(self) -> Self:
        """Start the servers and the cluster, and wait until all are up."""
        try:
            for name in self.names:
                self.servers[name] = self._stack.enter_context(start_server(self._kind))
            if self._ray:
                self._start_cluster()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End all. Drivers that have joined the cluster must have left it before."""
        self._stack.close()

    def lose(self, site: str) -> None:
        """Kill the Ray node of a site, not the first, with everything that runs on it, as when its machine fails."""
        self._cluster.remove_node(self._nodes.pop(site), allow_graceful=False)

    def bring_back(self, site: str) -> None:
        """Start a Ray node at a site again."""
        self._nodes[site] = self._add(site)
        self._cluster.wait_for_nodes()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start_cluster(self) -> None:
        import_ray(loopback=True)
        from ray.cluster_utils import Cluster

        self._folder = watched_folder("ced-ray-")
        self._stack.callback(remove_folder, self._folder)
        # By default all clusters of a machine leave their addresses in one folder.
        before = os.environ.get("RAY_TMPDIR")
        os.environ["RAY_TMPDIR"] = str(self._folder)
        try:
            (self._folder / "ray").mkdir()
            # The Ray nodes end with this process, also where it is killed.
            self._cluster = Cluster(shutdown_at_exit=True)
            self._stack.callback(self._shut_down)
            self._nodes = {name: self._add(name) for name in self.names}
            self._cluster.wait_for_nodes()
        finally:
            if before is None:
                del os.environ["RAY_TMPDIR"]
            else:
                os.environ["RAY_TMPDIR"] = before
        self.address = self._cluster.address
        check_loopback(self.address.rpartition(":")[0])

    def _add(self, site: str) -> Any:
        return self._cluster.add_node(
            wait=False,
            node_ip_address="127.0.0.1",
            temp_dir=str(self._folder / "ray"),
            include_dashboard=False,
            object_store_memory=_STORE,
            num_cpus=1,
            resources=resources([site]),
        )

    def _shut_down(self) -> None:
        self._nodes = {}
        self._cluster.shutdown()

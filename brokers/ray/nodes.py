"""Broker nodes as Ray actors: Ray places, starts, supervises and restarts the hosts; MQTT carries events.

No Ray call is on the path of an event (design, section 4). Each host is one actor with one node on a thread of its own
(`brokers.ray.actor`), pinned to its site (`brokers.ray.runtime`); when its process dies Ray starts it again there. Ray
is imported when nodes are started.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from distced.brokers.core.node_location import NodeLocation
from distced.brokers.live.metrics_board import MetricsBoard
from distced.brokers.ray.runtime import Runtime, host_options, last_line
from distced.detectors.runtime.engines import EngineName
from distced.middleware.model.errors import DistcedError

if TYPE_CHECKING:
    from distced.middleware.bus.traces import Traces

Names: TypeAlias = Sequence[str] | Mapping[str, NodeLocation]
"""Names of nodes, all at home at the server of the directory; or the location of each."""


class _Nodes:
    """Broker nodes; a context manager, or `start` and `stop`.

    Attributes:
        locations: site, home and capacity of each node.
        url: the MQTT server of the directory.
    """

    def __init__(self, url: str, nodes: Names) -> None:
        if len(set(nodes)) != len(nodes) or not nodes:
            given = ", ".join(nodes)
            raise DistcedError("not the names of broker nodes", given=given, allowed="one or more, each once")
        self.url = url
        self.locations = dict(nodes) if isinstance(nodes, Mapping) else {name: NodeLocation() for name in nodes}
        self.names = tuple(self.locations)

    def start(self) -> Self:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


class RayNodes(_Nodes):
    """Broker nodes on a Ray cluster."""

    def __init__(
        self, url: str, nodes: Names, *, address: str = "", token: str = "", engine: EngineName = "auto"
    ) -> None:
        """Describe nodes; nothing happens before `start`.

        Args:
            address: of a running Ray cluster, `host:port` or `auto`; empty for one of its own on this machine.
            token: file with the token of the cluster; empty for none.
            engine: engine of the detectors; `auto` for the cheaper one of each.
        """
        super().__init__(url, nodes)
        self._runtime = Runtime(address, token)
        self._engine = engine
        self._actors: dict[str, Any] = {}

    def start(self, timeout: float = 60.0) -> Self:
        """Start or join Ray, start the hosts, and wait until every node is connected.

        Raises:
            DistcedError: where that takes longer than `timeout` seconds; at once for a site that no Ray node offers.
        """
        from distced.brokers.ray.actor import NodeActor

        try:
            sites = {location.site for location in self.locations.values() if location.site}
            ray = self._runtime.start(len(self.names), sites)
            for name, location in self.locations.items():
                actor = ray.remote(NodeActor).options(**host_options(name, location.site))
                self._actors[name] = actor.remote(self.url, name, location, engine=self._engine)
            ray.get([each.process.remote() for each in self._actors.values()], timeout=timeout)
        except DistcedError:
            self.stop()
            raise
        except Exception as error:
            self.stop()
            raise DistcedError(
                "the broker nodes have not come up as Ray actors",
                given=last_line(error),
                where=self.url,
                advice="run them in this process instead, without Ray",
            ) from error
        return self

    def stop(self) -> None:
        """End the nodes, then Ray, or the connection of this process to it."""
        if self._runtime.started and self._actors:
            import ray

            if ray.is_initialized():
                with contextlib.suppress(Exception):
                    ray.get([each.stop.remote() for each in self._actors.values()], timeout=15)
                for each in self._actors.values():
                    with contextlib.suppress(Exception):
                        ray.kill(each)
        self._actors = {}
        self._runtime.stop()

    def statistics(self) -> dict[str, dict[str, int]]:
        """Counters of each node."""
        return self._ask("statistics")

    def processes(self) -> dict[str, int]:
        """Process id of each host."""
        return self._ask("process")

    def metrics_urls(self) -> dict[str, str]:
        """URL of the metrics of each node; empty for none."""
        return self._ask("metrics_url")

    def isolated_processes(self) -> dict[str, int]:
        """Process id of each node started for an isolated detector, by node name."""
        return {name: process for each in self._ask("isolated_processes").values() for name, process in each.items()}

    def _ask(self, what: str) -> dict[str, Any]:
        import ray

        answers = ray.get([getattr(each, what).remote() for each in self._actors.values()], timeout=30)
        return dict(zip(self._actors, answers, strict=True))


class LocalNodes(_Nodes):
    """Broker nodes in this process, without Ray and without isolated detectors: for small machines and debuggers."""

    def __init__(
        self,
        url: str,
        nodes: Names,
        *,
        engine: EngineName = "auto",
        board: MetricsBoard | None = None,
        traces: Traces | None = None,
    ) -> None:
        """Describe nodes; nothing happens before `start`.

        Args:
            engine: engine of the detectors; `auto` for the cheaper one of each.
            board: takes their metrics; None for none.
            traces: takes the spans of events; None for none.
        """
        from distced.brokers.live.node import LiveNode

        super().__init__(url, nodes)
        self._nodes = [
            LiveNode(
                url,
                name,
                home=location.home,
                capacity=location.capacity,
                engine=engine,
                limits=location.limits,
                detector_limits=location.detector_limits,
                checkpoints=location.checkpoints,
                history=location.history,
                max_ahead=location.max_ahead,
                message_limits=location.message_limits,
                board=board,
                traces=traces,
            )
            for name, location in self.locations.items()
        ]

    def start(self) -> Self:
        """Connect every node."""
        try:
            for node in self._nodes:
                node.start()
        except Exception:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End the nodes."""
        for node in self._nodes:
            node.stop()

    def statistics(self) -> dict[str, dict[str, int]]:
        """Counters of each node."""
        return {each.node.name: each.statistics() for each in self._nodes}

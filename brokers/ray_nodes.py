"""Broker nodes as Ray actors: Ray places, starts, supervises and restarts the hosts; MQTT carries events.

No Ray call stands on the path of an event (design, section 4). Each host is one actor with one node on a thread of its
own; when its process dies Ray starts it again, and the node comes back under its name. Ray is imported when nodes are
started, and not before.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, Self

from brokers.seats import Seat
from middleware.errors import DistcedError

RESTARTS = 100

_ANYWHERE = Seat()


class Host:
    """What an actor is: a node and its connection, for as long as the actor lives."""

    def __init__(self, url: str, name: str, seat: Seat = _ANYWHERE) -> None:
        from brokers.live import LiveNode

        self.live = LiveNode(url, name, home=seat.home, capacity=seat.capacity)
        self.live.start()

    def statistics(self) -> dict[str, int]:
        """The node's counters."""
        return self.live.statistics()

    def process(self) -> int:
        """The id of the actor's process."""
        return os.getpid()

    def stop(self) -> None:
        """End the node."""
        self.live.stop()


class RayNodes:
    """Broker nodes on a Ray cluster of this machine; a context manager, or `start` and `stop`.

    Attributes:
        names: the nodes.
        url: the MQTT server of the directory, where they meet.
        seats: where each is, of those that are not just there.
    """

    def __init__(self, url: str, names: Sequence[str], seats: Mapping[str, Seat] | None = None) -> None:
        if len(set(names)) != len(names) or not names:
            raise DistcedError(
                "not the names of broker nodes", given=", ".join(names), allowed="one or more, each once"
            )
        self.url = url
        self.names = tuple(names)
        self.seats = dict(seats or {})
        self._actors: dict[str, Any] = {}
        self._folder = ""
        self._started = False

    def start(self, timeout: float = 60.0) -> Self:
        """Start Ray and the hosts, and wait until every node is connected."""
        ray = _ray()
        if ray.is_initialized():
            raise DistcedError(
                "this process runs Ray already", advice="shut it down first, or run the nodes in a process of their own"
            )
        self._started = True
        # A folder of its own: an address left by another cluster makes a plain start fail.
        self._folder = tempfile.mkdtemp(prefix="ced-ray-")
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # Only this machine reaches the cluster, which binds to loopback; so it asks nobody who they are.
        os.environ.setdefault("RAY_AUTH_MODE", "disabled")
        try:
            ray.init(
                address="local",
                num_cpus=max(len(self.names), os.cpu_count() or 1),
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
                _node_ip_address="127.0.0.1",
                _temp_dir=self._folder,
            )
            _check_loopback(ray.util.get_node_ip_address())
            actor = ray.remote(num_cpus=0, max_restarts=RESTARTS, max_task_retries=-1)(Host)
            self._actors = {
                name: actor.options(name=f"distced-{name}").remote(self.url, name, self.seats.get(name, _ANYWHERE))
                for name in self.names
            }
            ray.get([each.process.remote() for each in self._actors.values()], timeout=timeout)
        except Exception as error:
            self.stop()
            raise DistcedError(
                "the broker nodes have not come up as Ray actors",
                given=(str(error).strip().splitlines() or [type(error).__name__])[-1],
                where=self.url,
                advice="run them in this process instead, without Ray",
            ) from error
        return self

    def stop(self) -> None:
        """End the nodes, then Ray."""
        if not self._started:
            return
        self._started = False
        ray = _ray()
        if ray.is_initialized():
            with contextlib.suppress(Exception):
                ray.get([each.stop.remote() for each in self._actors.values()], timeout=10)
            ray.shutdown()
        shutil.rmtree(self._folder, ignore_errors=True)

    def statistics(self) -> dict[str, dict[str, int]]:
        """The counters of each node."""
        names = list(self._actors)
        told = _ray().get([self._actors[name].statistics.remote() for name in names], timeout=30)
        return dict(zip(names, told, strict=True))

    def processes(self) -> dict[str, int]:
        """The process id of each host."""
        names = list(self._actors)
        told = _ray().get([self._actors[name].process.remote() for name in names], timeout=30)
        return dict(zip(names, told, strict=True))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


class LocalNodes:
    """The same nodes in this process, without Ray: for tests, small machines and debuggers.

    Attributes:
        names, url, seats: as in `RayNodes`.
    """

    def __init__(self, url: str, names: Sequence[str], seats: Mapping[str, Seat] | None = None) -> None:
        from brokers.live import LiveNode

        self.url = url
        self.names = tuple(names)
        self.seats = dict(seats or {})
        sitting = [(name, self.seats.get(name, _ANYWHERE)) for name in names]
        self._nodes = [LiveNode(url, name, home=seat.home, capacity=seat.capacity) for name, seat in sitting]

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
        """The counters of each node."""
        return {each.node.name: each.statistics() for each in self._nodes}

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def _ray() -> Any:
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # Without it Ray takes an address of the machine in place of the loopback one, and listens on all of them. It is
    # read when Ray is imported.
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        import ray
    except ImportError:
        raise DistcedError(
            "Ray is not installed", advice="pip install 'distced[broker]', or run the nodes without Ray"
        ) from None
    return ray


def _check_loopback(host: str) -> None:
    if not ipaddress.ip_address(host).is_loopback:
        raise DistcedError(
            "Ray listens beyond loopback, and lets everybody in",
            given=host,
            advice="set RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0 before anything imports Ray",
        )

"""What a Ray actor is: a broker node with its connections, and the nodes it has started for detectors of their own.

When the process of an actor dies Ray starts it again, and the node comes back under its name. Then, and where it is
started for a detector, it waits as long as it takes for the MQTT server: Ray does not start again what fails on its way
up. A node that is started for the first time by a person fails, so that the person is told.

Nodes for detectors (`brokers.node.isolation`) are actors at the same site, which end with the one that has started
them. Nobody waits for Ray on the thread of a bus: what is to be started and ended is handed to another thread.
"""

from __future__ import annotations

import contextlib
import gc
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import structlog

from distced.brokers.cli.node_locations import Seat
from distced.brokers.live.node import LiveNode
from distced.brokers.ray.runtime import actor_name, host_options, last_line
from distced.detectors.runtime.engines import EngineName
from distced.middleware.model.errors import BusError

PATIENCE: Final = 20.0
"""Seconds for an actor of the same name to be gone, of an earlier life of the one that starts it."""

_log = structlog.get_logger("distced.node")


class Host:
    """A node, for as long as the actor lives."""

    def __init__(self, url: str, name: str, seat: Seat, reserved: str = "", engine: EngineName = "auto") -> None:
        """
        Args:
            url: the MQTT server of the directory.
            seat: where the node is.
            reserved: the detector it is started for; empty for any.
            engine: which one runs the detectors.
        """
        import ray

        again = ray.get_runtime_context().was_current_actor_reconstructed
        self.isolated = None if reserved else IsolatedNodes(url, seat, engine)
        isolate = None if self.isolated is None else self.isolated.start
        release = None if self.isolated is None else self.isolated.end

        def make() -> LiveNode:
            return LiveNode(
                url,
                name,
                home=seat.home,
                capacity=seat.capacity,
                inspects=not reserved,
                reserved=reserved,
                isolate=isolate,
                release=release,
                engine=engine,
            )

        self.live = _started(make, patient=again or bool(reserved))
        # What is there now stays: looked through by the garbage collector it holds up a detector that is on its way.
        gc.collect()
        gc.freeze()

    def statistics(self) -> dict[str, int]:
        """The node's counters."""
        return self.live.statistics()

    def process(self) -> int:
        """The id of the actor's process."""
        return os.getpid()

    def isolated_processes(self) -> dict[str, int]:
        """The ids of the processes of the nodes that were started for detectors, by the names of the nodes."""
        return {} if self.isolated is None else self.isolated.processes()

    def stop(self) -> None:
        """End the node, and those that it has started."""
        self.live.stop()
        if self.isolated is not None:
            self.isolated.stop()


class IsolatedNodes:
    """The nodes that one node has started for detectors, each an actor at its site."""

    def __init__(self, url: str, seat: Seat, engine: EngineName = "auto") -> None:
        self._url = url
        self._seat = seat
        self._engine = engine
        # While a handle is kept the actor lives.
        self._actors: dict[str, Any] = {}
        # One thread, so that a node is started before it is ended.
        self._thread = ThreadPoolExecutor(1, "isolated")
        self._lock = threading.Lock()

    def start(self, node: str, detector: str) -> None:
        """Have a node started, and go on."""
        self._hand_over(lambda: self._start(node, detector), node)

    def end(self, node: str) -> None:
        """Have a node ended, and go on."""
        self._hand_over(lambda: self._end(node), node)

    def processes(self) -> dict[str, int]:
        """The process id of each node that is there."""
        import ray

        with self._lock:
            actors = dict(self._actors)
        told = ray.get([each.process.remote() for each in actors.values()], timeout=30)
        return dict(zip(actors, told, strict=True))

    def stop(self) -> None:
        """End all."""
        for node in list(self._actors):
            self.end(node)
        self._thread.shutdown()

    def _hand_over(self, do: Callable[[], None], node: str) -> None:
        # After `stop` nothing is begun any more.
        with contextlib.suppress(RuntimeError):
            self._thread.submit(do).add_done_callback(lambda done: _tell_failure(done, node))

    # On the thread.

    def _start(self, node: str, detector: str) -> None:
        import ray

        actor = ray.remote(Host).options(**host_options(node, self._seat.site))
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                started: Any = actor.remote(self._url, node, self._seat, detector, self._engine)
                break
            except ValueError:
                # The name is taken.
                if time.monotonic() > deadline:
                    raise
                with contextlib.suppress(ValueError):
                    ray.kill(ray.get_actor(actor_name(node)))
                time.sleep(0.1)
        with self._lock:
            self._actors[node] = started
        started.process.remote().future().add_done_callback(lambda done: _tell_failure(done, node))

    def _end(self, node: str) -> None:
        import ray

        with self._lock:
            actor = self._actors.pop(node, None)
        if actor is not None:
            with contextlib.suppress(Exception):
                ray.get(actor.stop.remote(), timeout=10)
            ray.kill(actor)


def _started(make: Callable[[], LiveNode], *, patient: bool) -> LiveNode:
    """A node that is connected to the server of the directory."""
    while True:
        live = make()
        try:
            live.start()
        except BusError as error:
            if not patient:
                raise
            _log.warning("no server to speak to", node=live.node.name, reason=str(error))
        else:
            return live


def _tell_failure(done: Future[Any], node: str) -> None:
    error = done.exception()
    if error is not None:
        reason = last_line(error) if isinstance(error, Exception) else repr(error)
        _log.warning("a node for one detector has failed", other_node=node, reason=reason)

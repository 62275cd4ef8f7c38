"""Ray actor of a broker node, with its connections and the nodes it has started for isolated detectors.

Started again by Ray, or for an isolated detector, it waits without limit for the MQTT server, because Ray does not
restart an actor that fails in its constructor. Started for the first time by a user it fails, with an error.

Nodes for isolated detectors (`brokers.node.isolation`) are actors at the same site, and end with the one that has
started them. The thread of a bus never waits for Ray: starts and ends run on another thread.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final

from distced.brokers.core.node_location import NodeLocation
from distced.brokers.live.garbage_collection import adapt_garbage_collection
from distced.brokers.live.metrics_board import MetricsBoard
from distced.brokers.live.metrics_server import MetricsServer, parse_metrics_address, with_free_port
from distced.brokers.live.node import LiveNode
from distced.brokers.ray.runtime import actor_name, host_options, last_line
from distced.detectors.runtime.engines import EngineName
from distced.middleware.bus.logger import get_logger
from distced.middleware.cli.logs import configure_logging
from distced.middleware.cli.traces_option import open_traces, take_variables
from distced.middleware.model.errors import BusError, DistcedError

PATIENCE: Final = 20.0
"""Time for an actor of the same name, of an earlier life of the one that starts it, to end, s."""

_log = get_logger("distced.node")


class NodeActor:
    """Node with the lifetime of its actor."""

    def __init__(
        self, url: str, name: str, location: NodeLocation, reserved: str = "", engine: EngineName = "auto"
    ) -> None:
        """Connect a node, as of `LiveNode`."""
        import ray

        again = ray.get_runtime_context().was_current_actor_reconstructed
        if location.json_log:
            configure_logging(as_json=True, level="info")
        self.isolated = None if reserved else IsolatedNodes(url, location, engine)
        self._metrics = _metrics(location.metrics, name, patient=again or bool(reserved)) if location.metrics else None
        board = None if self._metrics is None else self._metrics.board
        self._traces = None
        if location.traces is not None:
            take_variables(location.traces)
            self._traces = open_traces()

        def make() -> LiveNode:
            return LiveNode(
                url,
                name,
                home=location.home,
                capacity=location.capacity,
                inspects=not reserved,
                reserved=reserved,
                isolate=None if self.isolated is None else self.isolated.start,
                release=None if self.isolated is None else self.isolated.end,
                engine=engine,
                limits=location.limits,
                detector_limits=location.detector_limits,
                checkpoints=location.checkpoints,
                history=location.history,
                max_ahead=location.max_ahead,
                message_limits=location.message_limits,
                board=board,
                traces=self._traces,
            )

        self.live = _started(make, patient=again or bool(reserved))
        # A garbage collection over all that is there would delay a detector that moves.
        adapt_garbage_collection()

    def statistics(self) -> dict[str, int]:
        """Counters of the node."""
        return self.live.statistics()

    def metrics_url(self) -> str:
        """URL of the metrics; empty for none."""
        return "" if self._metrics is None else self._metrics.url

    def process(self) -> int:
        """Process id of the actor."""
        return os.getpid()

    def isolated_processes(self) -> dict[str, int]:
        """Process ids of the nodes started for detectors, by node name."""
        return {} if self.isolated is None else self.isolated.processes()

    def stop(self) -> None:
        """End the node, and those that it has started."""
        self.live.stop()
        if self.isolated is not None:
            self.isolated.stop()
        if self._metrics is not None:
            self._metrics.stop()
        if self._traces is not None:
            self._traces.stop()


class IsolatedNodes:
    """Nodes started for detectors by one node, each an actor at its site."""

    def __init__(self, url: str, location: NodeLocation, engine: EngineName = "auto") -> None:
        self._url = url
        # Their ports are free ones, as nobody knows how many there will be.
        self._location = replace(location, metrics=with_free_port(location.metrics))
        self._engine = engine
        # An actor lives as long as its handle.
        self._actors: dict[str, Any] = {}
        # One thread, so that a node is started before it is ended.
        self._thread = ThreadPoolExecutor(1, "isolated")
        self._lock = threading.Lock()

    def start(self, node: str, detector: str) -> None:
        """Have a node started, without waiting."""
        self._hand_over(lambda: self._start(node, detector), node)

    def end(self, node: str) -> None:
        """Have a node ended, without waiting."""
        self._hand_over(lambda: self._end(node), node)

    def processes(self) -> dict[str, int]:
        """Process id of each node that runs."""
        import ray

        with self._lock:
            actors = dict(self._actors)
        answers = ray.get([each.process.remote() for each in actors.values()], timeout=30)
        return dict(zip(actors, answers, strict=True))

    def stop(self) -> None:
        """End all nodes."""
        for node in list(self._actors):
            self.end(node)
        self._thread.shutdown()

    def _hand_over(self, do: Callable[[], None], node: str) -> None:
        # After `stop` nothing is begun any more.
        with contextlib.suppress(RuntimeError):
            self._thread.submit(do).add_done_callback(lambda done: _report_failure(done, node))

    # On the thread.

    def _start(self, node: str, detector: str) -> None:
        import ray

        actor = ray.remote(NodeActor).options(**host_options(node, self._location.site))
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                started: Any = actor.remote(self._url, node, self._location, detector, self._engine)
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
        started.process.remote().future().add_done_callback(lambda done: _report_failure(done, node))

    def _end(self, node: str) -> None:
        import ray

        with self._lock:
            actor = self._actors.pop(node, None)
        if actor is not None:
            with contextlib.suppress(Exception):
                ray.get(actor.stop.remote(), timeout=10)
            ray.kill(actor)


def _metrics(address: str, name: str, *, patient: bool) -> MetricsServer | None:
    """Server of the metrics of an actor; None where a `patient` one goes on without."""
    try:
        server = MetricsServer(parse_metrics_address(address), MetricsBoard()).start()
    except DistcedError as error:
        if not patient:
            raise
        _log.warning("metrics not served", node=name, reason=str(error))
        return None
    _log.info("metrics served", node=name, url=server.url)
    return server


def _started(make: Callable[[], LiveNode], *, patient: bool) -> LiveNode:
    """Node connected to the server of the directory."""
    while True:
        live = make()
        try:
            live.start()
        except BusError as error:
            if not patient:
                raise
            _log.warning("server unreachable", node=live.node.name, reason=str(error))
        else:
            return live


def _report_failure(done: Future[Any], node: str) -> None:
    error = done.exception()
    if error is not None:
        reason = last_line(error) if isinstance(error, Exception) else repr(error)
        _log.warning("isolated node failed", other_node=node, reason=reason)

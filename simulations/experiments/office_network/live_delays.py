"""Delays of notifications on a real server: nodes and the building in processes of their own, PDAs over shaped links.

The office runs faster than the time, with its readings and the article's five minutes divided alike; delays are not.
One MQTT server has the directory and all topics: a link of its own leads each PDA there. Instants are those of the
machine, on which all participants are.
"""

from __future__ import annotations

import multiprocessing as mp
import threading
import time
from contextlib import ExitStack
from typing import Any, Final

from distced.brokers.live.mqtt_server import start_server
from distced.brokers.live.node import LiveNode
from distced.middleware.client.client import Client
from distced.middleware.client.quality import QualityOfService
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import SECOND, parse_duration
from distced.policies.topology.quantities import parse_bandwidth
from distced.simulations.benchmarks.live import quieten
from distced.simulations.chaos.proxy import Proxies
from distced.simulations.experiments.office_network.office_events import OfficeEvents, office_events
from distced.simulations.experiments.office_network.setting import (
    BROKERS,
    BUILDING,
    PDA,
    RESIDENTS,
    T1,
    NetworkSpec,
    Notified,
    SettingSpec,
    patterns_for,
)
from distced.simulations.experiments.office_network.shaped_link import ShapedLink

PATIENCE: Final = 60.0
"""Longest wait for a start or an end, s."""


def live_delays(
    network: NetworkSpec, setting: SettingSpec, pdas: int, duration: int, seed: int, policy: str, speed: float
) -> list[Notified]:
    """Run the office on a server of its own; notifications of all PDAs about all residents, in order of arrival."""
    context = mp.get_context("spawn")
    found: list[Notified] = []
    lock = threading.Lock()
    stop = context.Event()
    ready, begin, done = context.Event(), context.Event(), context.Event()
    with ExitStack() as stack:
        server = stack.enter_context(start_server("mosquitto"))
        processes = [context.Process(target=_host, args=(server.url, name, stop)) for name in BROKERS]
        arguments = (server.url, setting, duration, seed, speed, ready, begin, done, stop)
        processes.append(context.Process(target=_publish, args=arguments))
        stack.callback(_end, processes, stop)
        for each in processes:
            each.start()
        if not ready.wait(PATIENCE):
            raise TimeoutError("the sensors of the building have not come up")
        proxies = stack.enter_context(Proxies())
        quality = QualityOfService(detection=setting.detection, distribution=policy)
        for number in range(pdas):
            link = ShapedLink(
                proxies, server.port, parse_duration(network.wireless_latency), parse_duration(network.wireless_jitter),
                parse_bandwidth(network.wireless_bandwidth), seed * 1_000 + number,
            )  # fmt: skip
            proxies.run(link.listen())
            client = stack.enter_context(Client(link.url, name=f"{PDA}{number + 1}", metered=network.metered))
            for person in RESIDENTS:
                for notification, (pattern, definitions) in patterns_for(person, round(T1 / speed)).items():

                    def notified(event: Event, pda: int = number, notification: str = notification) -> None:
                        now = time.time_ns()
                        with lock:
                            found.append(Notified(notification, pda, now - event.hi))

                    client.subscribe(pattern, notified, quality=quality, definitions=definitions)
        begin.set()
        if not done.wait(duration / speed / SECOND + PATIENCE):
            raise TimeoutError("the sensors of the building have not come to their end")
        # The last timers, and the way to the PDAs.
        time.sleep(T1 / speed / SECOND + 2.0)
        with lock:
            return list(found)


def _end(processes: list[Any], stop: Any) -> None:
    stop.set()
    for each in processes:
        each.join(10)
        if each.is_alive():
            each.terminate()
            each.join(10)


def _host(url: str, name: str, stop: Any) -> None:
    quieten()
    with LiveNode(url, name):
        stop.wait()


def _publish(
    url: str, setting: SettingSpec, duration: int, seed: int, speed: float, ready: Any, begin: Any, done: Any, stop: Any
) -> None:
    """The building: all sensors over one client."""
    quieten()
    office = office_events(seed, setting, duration)
    with Client(url, name=BUILDING) as client:
        client.wait_for_nodes(len(BROKERS), PATIENCE)
        client.register(*office.types)
        sources = {each.name: each for each in client.sources(office.sources)}
        ready.set()
        clock = _Clock(client, setting.heartbeat_ns)
        while not begin.is_set():
            clock.wait_until(time.time_ns() + SECOND // 10)
        _publish_all(office, sources, speed, clock)
        done.set()
        while not stop.is_set():
            clock.wait_until(time.time_ns() + SECOND // 10)


class _Clock:
    """Waits of the building, amid which it promises for all its sensors; never where there is no interval, ns."""

    def __init__(self, client: Client, every: int) -> None:
        self._client = client
        self._every = every
        self._next = time.time_ns() + every

    def wait_until(self, instant: int) -> None:
        """Wait until an instant of the machine, ns."""
        while (now := time.time_ns()) < instant:
            if self._every and now >= self._next:
                self._next = now + self._every
                # Whatever is published from now on is later.
                self._client.heartbeat(now)
            due = min(instant, self._next) if self._every else instant
            time.sleep(max(due - time.time_ns(), 0) / SECOND)


def _publish_all(office: OfficeEvents, sources: dict[str, Any], speed: float, clock: _Clock) -> None:
    began = time.time_ns()
    last: dict[str, int] = {}
    for at, events in office.messages:
        clock.wait_until(began + round(at / speed))
        source = sources[events[0].source]
        made = []
        for event in events:
            # Instants of a source increase.
            now = last[source.name] = max(time.time_ns() + 1, last.get(source.name, 0) + 1)
            made.append(source.create(event.type, now, **event.attributes))
        source.publish(*made)

"""Broker nodes as Ray actors, from one end to the other; one test, because Ray takes its time."""

from __future__ import annotations

import importlib.util
import ipaddress
import itertools
import os
import signal
import socket
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from distced.brokers.live.mqtt_server import Server
from distced.brokers.ray.nodes import LocalNodes, RayNodes
from distced.middleware.client.client import Client
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import event_type

pytestmark = [pytest.mark.ray, pytest.mark.mqtt, pytest.mark.spawn]


def descendants(process: int) -> list[int]:
    """The processes that a process has started, directly or not."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            parents.setdefault(parent, []).append(int(folder.name))
    found = parents.get(process, [])
    return found + [each for child in found for each in descendants(child)]


def listening(processes: Iterable[int]) -> set[str]:
    """The addresses that processes listen at."""
    sockets: set[str] = set()
    for process in processes:
        try:
            for link in Path(f"/proc/{process}/fd").iterdir():
                sockets.add(str(link.readlink()))
        except OSError:
            continue
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            columns = line.split()
            if columns[3] == "0A" and f"socket:[{columns[9]}]" in sockets:
                words = columns[1].split(":")[0]
                packed = b"".join(bytes.fromhex(words[at : at + 8])[::-1] for at in range(0, len(words), 8))
                found.add(socket.inet_ntop(socket.AF_INET if table == "tcp" else socket.AF_INET6, packed))
    return found


def is_loopback(address: str) -> bool:
    given = ipaddress.ip_address(address)
    mapped = given.ipv4_mapped if isinstance(given, ipaddress.IPv6Address) else None
    return (mapped or given).is_loopback


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed (extra: broker)")
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="processes are looked at in /proc")
def test_nodes_run_as_actors_and_come_back_when_they_are_killed(
    start_mosquitto: Callable[..., Server], eventually: Callable[[Callable[[], bool]], None]
) -> None:
    server = start_mosquitto()
    before = set(descendants(os.getpid()))
    nodes = RayNodes(server.url, ["n1", "n2", "n3"])
    with nodes, Client(server.url) as client:
        client.wait_for_nodes(3)
        started = set(descendants(os.getpid())) - before
        addresses = listening(started)
        assert addresses
        assert all(map(is_loopback, addresses)), addresses

        client.register(event_type("A"), event_type("B"))
        source = client.source("s", ["A", "B"], watermark=0)
        subscription = client.subscribe("[A] ; [B]")
        others = [client.subscribe(f"[A] ; [B] within {number}s") for number in range(1, 7)]
        assert {each.node for each in (subscription, *others)} == {"n1", "n2", "n3"}
        everybody = (subscription, *others)
        instants = itertools.count(1)

        def detected() -> bool:
            for each in everybody:
                while each.get(0) is not None:
                    pass
            first, second = next(instants), next(instants)
            source.publish(source.create("A", first), source.create("B", second), watermark=second)
            # Each is asked, also after one that has nothing.
            heard = [each.get(1) is not None for each in everybody]
            return all(heard)

        eventually(detected)
        processes = nodes.processes()
        assert set(processes.values()) <= started

        # It comes back as an empty node. What it hosted is taken over by the others, or made again where it was if
        # it is back within a moment.
        killed = subscription.node
        since = client.nodes[killed].since
        os.kill(processes[killed], signal.SIGKILL)
        eventually(lambda: killed in client.nodes and client.nodes[killed].since > since)
        eventually(detected)
        again = nodes.processes()
        assert again[killed] != processes[killed]
        assert {name for name in again if again[name] == processes[name]} == set(again) - {killed}
        eventually(lambda: sum(each["detectors"] for each in nodes.statistics().values()) == 7)

        # When nobody is left they take up what was their own.
        for process in again.values():
            os.kill(process, signal.SIGKILL)
        eventually(lambda: len(client.nodes) < 3)
        eventually(lambda: len(client.nodes) == 3 and len(client.detectors) == 7)
        eventually(lambda: all(client.detectors[each.detector].node in client.nodes for each in everybody))
        eventually(lambda: sum(each["detectors"] for each in nodes.statistics().values()) == 7)
        eventually(detected)
    import ray

    assert not ray.is_initialized()
    eventually(lambda: not [each for each in started & set(descendants(os.getpid())) if not _is_zombie(each)])
    assert not any(Path(f"/proc/{each}").exists() and not _is_zombie(each) for each in started)
    nodes.stop()


def _is_zombie(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize("names", [[], ["n", "n"]])
def test_names_of_nodes_are_made_distinct(names: list[str]) -> None:
    with pytest.raises(DistcedError, match="each once"):
        RayNodes("mqtt://127.0.0.1:1", names)


def test_local_nodes_are_the_same_without_ray(mosquitto: Server, root: str) -> None:
    with LocalNodes(mosquitto.url, [f"{root}-a", f"{root}-b"]) as nodes:
        assert set(nodes.statistics()) == {f"{root}-a", f"{root}-b"}
        assert all(each["detectors"] == 0 for each in nodes.statistics().values())


def test_local_nodes_that_cannot_connect_leave_none_running() -> None:
    nodes = LocalNodes("mqtt://127.0.0.1:1", ["a", "b"])
    for each in nodes._nodes:
        each.start = lambda start=each.start: start(0.2)  # type: ignore[method-assign, misc]
    with pytest.raises(DistcedError, match=r"127.0.0.1:1"):
        nodes.start()
    assert not any(each.bus.connected for each in nodes._nodes)

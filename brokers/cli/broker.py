"""The driver of `distced broker`: a server where none is named, broker nodes, a bridge, until it is told to end."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, Final

from rich.text import Text

from distced.brokers.cli.hints import publish_hints
from distced.brokers.cli.node_locations import Described, Seat, publish, published, read_described, seats
from distced.brokers.core.effects import Note
from distced.brokers.inspect.activity import Watch
from distced.brokers.live.bridge import LiveBridge
from distced.brokers.live.mqtt_server import Server, start_server
from distced.brokers.ray.nodes import LocalNodes, RayNodes
from distced.detectors.runtime.engines import EngineName, chosen
from distced.middleware.bus import Bus
from distced.middleware.bus.pool import home_name, server_name
from distced.middleware.cli.options import DEFAULT, PATIENCE, connected
from distced.middleware.cli.output import output, show_notes
from distced.middleware.cli.signals import ending
from distced.middleware.mapping import Mapping, load_mapping
from distced.middleware.model.clock import SystemClock
from distced.middleware.model.errors import BusError, DistcedError
from distced.middleware.model.timestamps import format_duration
from distced.middleware.wire.topics import directory_topic
from distced.policies.distribution.hint_files import read_hint_file
from distced.policies.topology.notes import notes_on

STARTED: Final = ("auto", "mosquitto", "amqtt")
"""What `--server` may be besides a URL: a server is started."""

USUAL_PORT: Final = 1883

# Mappings count the events of a source each in a range of its own, for two may give events of one source.
_RANGE: Final = 2**54


@dataclass(frozen=True, slots=True)
class Wanted:
    """What `distced broker` was asked for; the names are those of its options.

    Attributes:
        lateness, lease: ns.
        home, site: where the nodes are; at most one is not empty.
        topology: the file; None for none.
        capacity: of each node; None where it is not said.
        ray_address: of the Ray cluster that is joined; empty for one of its own.
        engine: which one runs the detectors.
        hints: a file of them; None for none.
    """

    server: str
    port: int | None
    name: str
    nodes: int
    ray: bool
    mappings: tuple[Path, ...]
    lateness: int
    lease: int
    retained: bool
    as_json: bool
    home: str = ""
    site: str = ""
    topology: Path | None = None
    capacity: float | None = None
    ray_address: str = ""
    engine: EngineName = "auto"
    hints: Path | None = None

    @property
    def node_names(self) -> list[str]:
        """What the nodes are called."""
        return [self.name] if self.nodes == 1 else [f"{self.name}-{number + 1}" for number in range(self.nodes)]

    @property
    def bridge_name(self) -> str:
        """What the bridge is called."""
        return f"{self.name}-bridge"


def host(wanted: Wanted, log: Any) -> int:
    """Run until interrupted; the exit code.

    Args:
        log: a structlog logger.
    """
    # An engine that cannot be had is refused before anything is started.
    chosen(wanted.engine, 0)
    mappings = load_mappings(wanted.mappings)
    described = None if wanted.topology is None else read_described(wanted.topology)
    hints = {} if wanted.hints is None else read_hint_file(wanted.hints)
    if wanted.port is not None and wanted.server not in STARTED:
        raise BusError(
            "a port for a server that is not started here", given=wanted.port, advice=f"put it into the URL: {DEFAULT}"
        )
    if wanted.ray_address and not wanted.ray:
        raise DistcedError("a Ray cluster for nodes without Ray", given=wanted.ray_address, advice="leave out --no-ray")
    with ending() as set_up_again, ExitStack() as stack:
        server = _server(wanted, stack, log)
        url = wanted.server if server is None else server.url
        placed = _seats(wanted, url, described)
        if described is not None:
            show_notes(notes_on(described.topology))
            publish(url, described)
        if hints:
            publish_hints(url, hints)
        watch = stack.enter_context(_watching(wanted, url, log))
        _start_nodes(wanted, url, placed, stack)
        bridge = None
        if mappings:
            bridge = LiveBridge(
                url,
                wanted.bridge_name,
                mappings,
                lateness=wanted.lateness,
                lease=wanted.lease,
                retained=wanted.retained,
            )
            stack.enter_context(bridge)
        # Ray sets handlers of its own.
        set_up_again()
        _tell(wanted, url, server, placed, mappings, log)
        code = _wait(server, log)
        for name in wanted.node_names:
            entry = watch.directory.nodes.get(name)
            log.info("ending", node=name, **({} if entry is None else entry.counts))
        if bridge is not None:
            log.info("ending", bridge=wanted.bridge_name, **bridge.statistics())
    log.info("ended")
    return code


def load_mappings(paths: tuple[Path, ...]) -> list[Mapping]:
    """Mappings for a live bridge, whose ids do not come again after a restart."""
    microseconds = SystemClock().now() // 1_000
    return [load_mapping(path, first_seq=place * _RANGE + microseconds) for place, path in enumerate(paths)]


def _server(wanted: Wanted, stack: ExitStack, log: Any) -> Server | None:
    """The server that is started; None where one is named that runs."""
    if wanted.server not in STARTED:
        return None
    try:
        server = start_server(wanted.server, port=USUAL_PORT if wanted.port is None else wanted.port)  # type: ignore[arg-type]
    except BusError:
        if wanted.port is not None or _is_free(USUAL_PORT):
            raise
        log.warning(f"port {USUAL_PORT} is taken: if an MQTT server runs there, use it with --server {DEFAULT}")
        server = start_server(wanted.server)  # type: ignore[arg-type]
    return stack.enter_context(server)


def _is_free(port: int) -> bool:
    with contextlib.suppress(OSError), socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
        return True
    return False


def _seats(wanted: Wanted, url: str, described: Described | None) -> dict[str, Seat]:
    """Where each node is, and what it can do."""
    if described is None and wanted.site and not wanted.home:
        described = published(url)
    return seats(wanted.node_names, described, home=wanted.home, site=wanted.site, capacity=wanted.capacity)


def _start_nodes(wanted: Wanted, url: str, placed: dict[str, Seat], stack: ExitStack) -> None:
    """Start the nodes, and wait until everybody can see them."""
    names = wanted.node_names
    # This is where the directory is to be, whatever else was said here before.
    with connected(url, home="") as client:
        taken = [name for name in names if name in client.nodes]
        if taken:
            raise DistcedError(
                "a broker node of this name is there already", given=", ".join(taken), where=str(client.bus.address),
                advice="choose another with --name; or if it has died unnoticed, clear its entry: "
                f"mosquitto_pub -r -n -t {directory_topic('node', taken[0])}",
            )  # fmt: skip
        if wanted.ray:
            stack.enter_context(RayNodes(url, placed, address=wanted.ray_address, engine=wanted.engine))
        else:
            stack.enter_context(LocalNodes(url, placed, engine=wanted.engine))
        deadline = time.monotonic() + PATIENCE
        while not set(names) <= client.nodes.keys() and time.monotonic() < deadline:
            time.sleep(0.01)


@contextmanager
def _watching(wanted: Wanted, url: str, log: Any) -> Iterator[Watch]:
    """Log what a watch tells, while it lasts; at its end clear entries that nodes have left, for they may be killed.

    The watch belongs to the thread of its bus.
    """
    clock = SystemClock()
    watch = Watch(clock.now())

    def tell(notes: list[Note]) -> None:
        for note in notes:
            getattr(log, note.level)(note.event, **note.fields)

    bus = Bus(url, clock=clock)
    for each in watch.filters:
        bus.subscribe(each, lambda topic, payload, _: tell(watch.receive(topic, payload)), qos=1)
    bus.every(1.0, lambda: tell(watch.tick(clock.now())))
    with bus:
        bus.wait_connected(PATIENCE)
        try:
            yield watch
        finally:
            swept = Event()
            bus.call_soon(lambda: _sweep(watch, wanted.node_names, bus, swept))
            swept.wait(1.0)


def _sweep(watch: Watch, names: list[str], bus: Bus, swept: Event) -> None:
    directory = watch.directory
    left = [directory_topic("node", name) for name in names if name in directory.nodes]
    left += [directory_topic("load", name) for name in names if name in directory.loads]
    left += [directory_topic("detector", name) for name, entry in directory.detectors.items() if entry.node in names]
    for topic in left:
        bus.publish(topic, b"", qos=1, retain=True)
    swept.set()


def _wait(server: Server | None, log: Any) -> int:
    """Wait until the server started here ends, or somebody wants an end; the exit code."""
    try:
        while server is None or server.alive:
            time.sleep(0.2)
    except KeyboardInterrupt:
        return 0
    log.error("the MQTT server has ended", server=server.url, said=server.log())
    return 1


def _tell(
    wanted: Wanted, url: str, server: Server | None, placed: dict[str, Seat], mappings: list[Mapping], log: Any
) -> None:
    """Where to connect, and what runs."""
    # Without the password that the URL may hold.
    shown = server_name(url)
    homes = {name: home_name(seat.home, url) for name, seat in placed.items()}
    if wanted.as_json:
        log.info(
            "ready",
            server=shown,
            nodes=wanted.node_names,
            homes=homes,
            ray=wanted.ray,
            bridge=wanted.bridge_name if mappings else None,
            topics=[each for mapping in mappings for each in mapping.topics],
            types=[each.name for mapping in mappings for each in mapping.types],
        )
        return
    lines = [
        ("MQTT server", f"{shown}{'' if server is None else f', {server.kind}, started here'}"),
        ("broker nodes", f"{', '.join(wanted.node_names)}, {'Ray actors' if wanted.ray else 'in this process'}"),
    ]
    lines += [("", f"{name} at home at {home}") for name, home in homes.items() if home]
    for mapping in mappings:
        types = ", ".join(each.name for each in mapping.types)
        lines.append(("bridge", f"{mapping.name}: {', '.join(mapping.topics)} → {types}"))
    if mappings:
        lines.append(("", f"events may be {format_duration(wanted.lateness)} late"))
    console = output()
    for label, text in lines:
        console.print(Text.assemble((f"{label:<14}", "dim"), (text, "bold" if label == "MQTT server" else "")))
    hint = "" if shown == DEFAULT else f" --server {shown}"
    console.print(Text(f"\ndistced subscribe '[A] ; [B]'{hint}\nCtrl-C ends it.\n", "dim"))

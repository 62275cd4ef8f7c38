"""The verb `broker`: broker nodes, a bridge, and an MQTT server where none is named, until an interrupt."""

from __future__ import annotations

import contextlib
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from rich.text import Text
from typer import Option

from distced.brokers.cli import node_locations
from distced.brokers.cli.metrics_option import MetricsOption, metrics_address, of_processes, serve_metrics
from distced.brokers.cli.node_locations import Described
from distced.brokers.cli.port_in_use import PortInUse
from distced.brokers.cli.story import ask_nodes
from distced.brokers.core.message_limits import LIMITS as MESSAGE_LIMITS
from distced.brokers.core.message_limits import MessageLimits
from distced.brokers.core.node_location import LIMITS, NodeLocation, SubscriptionLimits
from distced.brokers.inspect.missing_nodes import MissingNodes
from distced.brokers.live.bridge import LiveBridge
from distced.brokers.live.checkpoint_store import default_folder
from distced.brokers.live.garbage_collection import adapt_garbage_collection
from distced.brokers.live.metrics_board import MetricsBoard
from distced.brokers.live.mqtt_server import Server, start_server
from distced.brokers.live.observers import LiveWatch
from distced.brokers.ray.nodes import LocalNodes, RayNodes
from distced.brokers.ray.runtime import use_ray
from distced.detectors.limits import LIMITS as DETECTOR_LIMITS
from distced.detectors.limits import Limits
from distced.detectors.runtime.engines import EngineName, chosen
from distced.middleware.bus.access import participant_name, ray_token
from distced.middleware.bus.logger import Logger
from distced.middleware.bus.pool import home_name
from distced.middleware.cli.logs import LogFormatOption, LogLevelOption, configure_logging
from distced.middleware.cli.options import (
    DEFAULT,
    PATIENCE,
    VARIABLE,
    Duration,
    HomeOption,
    connected,
    duration_option,
    verb,
)
from distced.middleware.cli.output import AsJson, discard_unwritable, dispensable_output, output, show_notes
from distced.middleware.cli.signals import ending
from distced.middleware.cli.traces_option import TracesOption, opened_traces, variables
from distced.middleware.mapping import Mapping, load_mapping
from distced.middleware.model.clock import SystemClock
from distced.middleware.model.errors import BusError, DistcedError
from distced.middleware.model.server_address import server_name
from distced.middleware.model.timestamps import format_duration
from distced.middleware.wire.event_encoding import MOST_ATTRIBUTES
from distced.policies.distribution.hint_files import read_hint_file
from distced.policies.topology.notes import notes_on

if TYPE_CHECKING:
    from distced.middleware.bus.traces import Traces

STARTED: Final = ("auto", "mosquitto", "amqtt")
"""Values of `--server` besides a URL, with which a server is started."""

USUAL_PORT: Final = 1883

ANSWER: Final = 5.0
"""Time for a node of the same name to answer, s."""

# Mappings number the events of a source each in a range of its own, for two may give events of one source.
_RANGE: Final = 2**54


@dataclass(frozen=True)
class BrokerOptions:
    """Options of `distced broker`; durations in ns."""

    server: Annotated[
        str,
        Option(
            "--server",
            envvar=VARIABLE,
            metavar="URL|KIND",
            help="The MQTT server, mqtt://host:port; or the kind to start: mosquitto, amqtt, or auto for either.",
        ),
    ] = "auto"
    port: Annotated[
        int | None, Option(help="TCP port of a started server: 1883, or a free one where that is in use.", min=0)
    ] = None
    name: Annotated[str, Option(help="Name of the node, unique; this machine's if left out.")] = ""
    nodes: Annotated[int, Option(help="Number of broker nodes; several are called NAME-1, NAME-2.", min=1)] = 1
    ray: Annotated[
        bool | None,
        Option(
            "--ray/--no-ray",
            help="Run the nodes as Ray actors, or in this process; actors if left out and Ray is installed.",
            show_default=False,
        ),
    ] = None
    ray_address: Annotated[
        str, Option("--ray-address", metavar="HOST:PORT|auto", help="Join this Ray cluster; its own if left out.")
    ] = ""
    home: HomeOption = None
    site: Annotated[
        str | None, Option(metavar="NAME", help="Site of the nodes in the topology, in place of --home.")
    ] = None
    topology: Annotated[
        Path | None, Option(metavar="FILE", help="Publish this topology of the network in the directory.")
    ] = None
    hints: Annotated[
        Path | None, Option(metavar="FILE", help="Publish these hints of distced place in the directory.")
    ] = None
    capacity: Annotated[
        float | None,
        Option(help="Instances a node can touch per second; the topology's, or unknown, if left out.", min=0),
    ] = None
    max_subscriptions: Annotated[
        int, Option(metavar="N", help="Subscriptions of one client at most; more are refused.", min=1)
    ] = LIMITS.of_client
    max_subscriptions_in_all: Annotated[
        int, Option(metavar="N", help="Subscriptions of all clients together at most; more are refused.", min=1)
    ] = LIMITS.of_all
    max_pattern_length: Annotated[
        int,
        Option(metavar="N", help="Characters of a pattern at most; subscriptions to longer ones are refused.", min=1),
    ] = LIMITS.pattern_length
    max_states: Annotated[
        int, Option(metavar="N", help="States of a pattern at most; subscriptions to larger ones are refused.", min=1)
    ] = LIMITS.states
    max_registers: Annotated[
        int, Option(metavar="N", help="Registers of a pattern at most; subscriptions to more are refused.", min=1)
    ] = LIMITS.registers
    max_guard: Annotated[
        int, Option(metavar="N", help="Operators in the conditions for one event and instance at most.", min=1)
    ] = LIMITS.guard
    max_nesting: Annotated[
        int, Option(metavar="N", help="Depth of a pattern at most; that of the language is 45.", min=1)
    ] = LIMITS.nesting
    max_kept_bytes: Annotated[
        int,
        Option(metavar="N", help="Bytes kept for all durable subscriptions of a node; the oldest are dropped.", min=1),
    ] = LIMITS.kept_bytes
    max_instances: Annotated[
        int, Option(metavar="N", help="Instances of a detector at most; one with more is excluded.", min=1)
    ] = DETECTOR_LIMITS.instances
    max_work: Annotated[
        int,
        Option(metavar="N", help="Instances one event may concern; a detector with more is excluded.", min=1),
    ] = DETECTOR_LIMITS.work
    max_memory: Annotated[
        int, Option(metavar="BYTES", help="Memory of a detector at most; one with more is excluded.", min=1)
    ] = DETECTOR_LIMITS.memory
    max_text: Annotated[
        int,
        Option(metavar="N", help="Characters of a text in a register; a detector with more is excluded.", min=1),
    ] = DETECTOR_LIMITS.text
    max_losses: Annotated[
        int,
        Option(metavar="N", help="Nodes lost with a detector within ten minutes; one with more is excluded.", min=1),
    ] = DETECTOR_LIMITS.losses
    max_composites: Annotated[
        int,
        Option(metavar="N", help="Composite events one event may complete; a detector with more is excluded.", min=1),
    ] = DETECTOR_LIMITS.composites
    max_client_memory: Annotated[
        int,
        Option(metavar="BYTES", help="Memory of all detectors of a client; of more the largest is excluded.", min=1),
    ] = DETECTOR_LIMITS.client_memory
    max_client_work: Annotated[
        int,
        Option(
            metavar="N",
            help="Work of all detectors of a client in a second, as of --max-work; beyond it they take turns.",
            min=1,
        ),
    ] = DETECTOR_LIMITS.client_work
    max_waiting: Annotated[
        int,
        Option(
            metavar="N",
            help="Events that wait for a silent source, or for the turns of a client's detectors; behind more it is "
            "fenced off, or the detector with most excluded.",
            min=1,
        ),
    ] = DETECTOR_LIMITS.waiting
    max_waiting_bytes: Annotated[
        int,
        Option(metavar="BYTES", help="Bytes of these events, as of --max-waiting.", min=1),
    ] = DETECTOR_LIMITS.waiting_bytes
    max_ahead: Annotated[
        int, duration_option(help="Events and promises further beyond the clock of the nodes are rejected.")
    ] = Duration("1h")
    max_message: Annotated[
        int, Option(metavar="BYTES", help="Bytes of a client's message at most; larger ones are rejected.", min=1)
    ] = MESSAGE_LIMITS.size
    max_events: Annotated[
        int, Option(metavar="N", help="Events of a message at most; those of larger ones are rejected.", min=1)
    ] = MESSAGE_LIMITS.events
    max_rate: Annotated[
        int, Option(metavar="N", help="Events a second of one publisher that are consumed at once; more wait.", min=1)
    ] = MESSAGE_LIMITS.rate
    max_dead_letters: Annotated[
        int, Option(metavar="N", help="Dead letters published a second; more are counted only.", min=1)
    ] = MESSAGE_LIMITS.letters
    max_types: Annotated[int, Option(metavar="N", help="Event types at most; more are refused.", min=1)] = (
        MESSAGE_LIMITS.types
    )
    max_attributes: Annotated[
        int,
        Option(
            metavar="N",
            help="Attributes of an event type at most; types with more are refused.",
            min=1,
            max=MOST_ATTRIBUTES,
        ),
    ] = MESSAGE_LIMITS.attributes
    max_entries: Annotated[
        int, Option(metavar="N", help="Sources, clients, and so on in the directory at most, of each.", min=1)
    ] = MESSAGE_LIMITS.entries
    max_homes: Annotated[
        int, Option(metavar="N", help="Servers that sources are at home at, at most; more are refused.", min=1)
    ] = MESSAGE_LIMITS.homes
    max_unannounced: Annotated[
        int, Option(metavar="N", help="Sources without an entry whose events are read, at most.", min=1)
    ] = MESSAGE_LIMITS.unannounced
    sampled_types: Annotated[
        int,
        Option(metavar="N", help="Types with a distribution of attribute values for placement; 0 for none.", min=0),
    ] = MESSAGE_LIMITS.sampled_types
    checkpoints: Annotated[
        str,
        Option(
            metavar="FOLDER|URL|none",
            help="Store of checkpoints, shared by the nodes that take over from each other; none for no checkpoints. "
            "A folder of this user if left out.",
            show_default=False,
        ),
    ] = ""
    history: Annotated[
        Path | None,
        Option(
            metavar="FOLDER",
            help="History that a recorder writes, for subscriptions that begin with recorded events (--since).",
            show_default=False,
        ),
    ] = None
    engine: Annotated[EngineName, Option("--engine", help="Engine of the detectors; auto: the faster for each.")] = (
        "auto"
    )
    mapping: Annotated[
        list[Path], Option(metavar="FILE", help="Bridge the messages of devices by this mapping; repeatable.")
    ] = field(default_factory=list)
    lateness: Annotated[int, duration_option(help="Lateness allowed of events of the bridge.")] = Duration("2s")
    lease: Annotated[
        int, duration_option(help="Silence of the bridge after which detectors drop its sources; 0s for never.")
    ] = Duration("1min")
    retained: Annotated[bool, Option("--retained", help="Bridge messages retained before the start, too.")] = False
    filters: Annotated[
        bool,
        Option("--filter", help="The bridge does not send events that no participant has declared to read."),
    ] = False
    metrics: MetricsOption = ""
    traces: TracesOption = False
    log_format: LogFormatOption = "text"
    log_level: LogLevelOption = "warning"
    as_json: AsJson = False

    @property
    def json_log(self) -> bool:
        """Whether the log is JSON lines."""
        return self.as_json or self.log_format == "json"

    @property
    def own_name(self) -> str:
        return self.name or self._configured or socket.gethostname().split(".")[0] or "broker"

    @cached_property
    def _configured(self) -> str:
        return "" if self.server in STARTED else participant_name(self.server)

    @property
    def node_names(self) -> list[str]:
        """Names of the nodes."""
        name = self.own_name
        return [name] if self.nodes == 1 else [f"{name}-{number + 1}" for number in range(self.nodes)]

    @property
    def bridge_name(self) -> str:
        """Name of the bridge."""
        return f"{self.own_name}-bridge"


@verb
def broker(options: BrokerOptions) -> int:
    """Run broker nodes and a bridge to devices.

    Nodes detect patterns, and a bridge converts messages of devices to events, until an interrupt (Ctrl-C) or a request
    to terminate, which clears their entries of the directory. Without --server an MQTT server is started on loopback.
    It ends with this process, however that ends; where the port is in use, what listens there is named and offered.
    Types, sources, subscriptions and detectors are logged as they come and go, and so are dead letters. With several
    sites, --server names the server of the directory, --home or --site that of the nodes. See docs/how-to/broker.md.

    \b
    Examples:
      distced broker --no-ray
      distced broker --nodes 3 --port 1884
      distced broker --server mqtt://192.168.1.10 --mapping home.toml --lateness 5s
      distced broker --server mqtt://10.0.1.10 --site floor-2 --topology building.toml
      distced broker --server mqtt://10.0.1.10 --site floor-2 --ray-address auto
    """
    log = configure_logging(
        stream=sys.stdout if options.as_json else sys.stderr,
        as_json=options.json_log,
        level=options.log_level,
    )
    try:
        return host(options, log)
    finally:
        discard_unwritable()


def host(options: BrokerOptions, log: Logger) -> int:
    """Run until an interrupt; the exit code."""
    # An unavailable engine is refused before anything is started.
    chosen(options.engine, 0)
    mappings = load_mappings(options.mapping)
    described = None if options.topology is None else node_locations.read_described(options.topology)
    hints = {} if options.hints is None else read_hint_file(options.hints)
    if options.port is not None and options.server not in STARTED:
        advice = f"put it into the URL: {DEFAULT}"
        raise BusError("a port for a server that is not started here", given=options.port, advice=advice)
    if options.ray_address and options.ray is False:
        problem = "a Ray cluster for nodes without Ray"
        raise DistcedError(problem, given=options.ray_address, advice="leave out --no-ray")
    wanted, options = options.ray, replace(options, ray=use_ray(options.ray, joins=bool(options.ray_address)))
    metrics, of_actors = metrics_address(options.metrics), dict[str, str]()
    if metrics is not None and options.ray:
        of_actors, own = of_processes(metrics, options.node_names)
        metrics = own if mappings else None
    with ending() as set_up_again, ExitStack() as stack:
        board = serve_metrics(metrics, stack, log)
        # Of the nodes in this process, and of the bridge.
        traces = stack.enter_context(opened_traces(options.traces))
        of_others = variables() if options.traces and options.ray else None
        url, server = _server(options, stack, log)
        placed = {
            name: replace(each, metrics=of_actors.get(name, ""), json_log=options.json_log, traces=of_others)
            for name, each in _locations(options, url, described).items()
        }
        if described is not None:
            with dispensable_output():
                show_notes(notes_on(described.topology))
            node_locations.publish_topology(url, described)
        if hints:
            node_locations.publish_hints(url, hints)
        # Nodes in this process log into the same stream.
        heard = options.node_names if options.log_level == "info" and not options.ray else ()
        observer = stack.enter_context(LiveWatch(url, options.node_names, log, heard))
        watch = observer.watch
        _start_nodes(options, url, placed, stack, log, board, traces)
        adapt_garbage_collection()
        bridge = None
        if mappings:
            bridge = LiveBridge(
                url,
                options.bridge_name,
                mappings,
                lateness=options.lateness,
                lease=options.lease,
                retained=options.retained,
                filters=options.filters,
                board=board,
                traces=traces,
            )
            stack.enter_context(bridge)
        # Ray sets handlers of its own.
        set_up_again()

        def announce() -> None:
            with dispensable_output():
                _announce(options, url, server, placed, mappings, log, without_ray=wanted is None and not options.ray)

        missing = MissingNodes(options.node_names)

        def lost() -> list[str]:
            present = watch.directory.nodes if observer.bus.connected else None
            return missing.look(present, time.monotonic())

        code = _run(announce, server, lost, log)
        for name in options.node_names:
            entry = watch.directory.nodes.get(name)
            log.info("node stopped", node=name, **({} if entry is None else entry.counts))
        if bridge is not None:
            log.info("bridge stopped", bridge=options.bridge_name, **bridge.statistics())
    log.info("broker stopped")
    return code


def load_mappings(paths: Sequence[Path]) -> list[Mapping]:
    """Mappings for a live bridge, whose event ids do not repeat after a restart."""
    microseconds = SystemClock().now() // 1_000
    return [load_mapping(path, first_seq=place * _RANGE + microseconds) for place, path in enumerate(paths)]


def _server(options: BrokerOptions, stack: ExitStack, log: Logger) -> tuple[str, Server | None]:
    """URL of the MQTT server, and the server started here; None where one that runs is used."""
    if options.server not in STARTED:
        return options.server, None
    port = USUAL_PORT if options.port is None else options.port
    try:
        server = start_server(options.server, port=port)  # type: ignore[arg-type]
    except BusError:
        if port == 0 or _is_free(port):
            raise
        found = PortInUse(f"mqtt://127.0.0.1:{port}")
        if found.offers(options.node_names, ask=not options.as_json):
            return found.url, None
        if options.port is not None:
            raise found.error(options.node_names) from None
        found.warn(options.node_names, log)
        server = start_server(options.server)  # type: ignore[arg-type]
    return server.url, stack.enter_context(server)


def _is_free(port: int) -> bool:
    with contextlib.suppress(OSError), socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
        return True
    return False


def _locations(options: BrokerOptions, url: str, described: Described | None) -> dict[str, NodeLocation]:
    """Site and capacity of each node."""
    if described is None and options.site and not options.home:
        described = node_locations.published(url)
    placed = node_locations.node_locations(
        options.node_names, described, home=options.home or "", site=options.site or "", capacity=options.capacity
    )
    limits = SubscriptionLimits(
        options.max_subscriptions,
        options.max_subscriptions_in_all,
        options.max_pattern_length,
        options.max_kept_bytes,
        options.max_states,
        options.max_registers,
        options.max_guard,
        options.max_nesting,
    )
    detectors = Limits(
        options.max_instances,
        options.max_work,
        options.max_memory,
        options.max_text,
        options.max_losses,
        options.max_composites,
        options.max_client_memory,
        options.max_client_work,
        options.max_waiting,
        options.max_waiting_bytes,
    )
    messages = MessageLimits(
        options.max_message,
        options.max_events,
        options.max_rate,
        options.max_dead_letters,
        options.max_types,
        options.max_attributes,
        options.max_entries,
        options.max_homes,
        options.max_unannounced,
        options.sampled_types,
    )
    store = options.checkpoints or default_folder(server_name(url))
    return {
        name: replace(
            each,
            limits=limits,
            detector_limits=detectors,
            checkpoints=store,
            history="" if options.history is None else str(options.history),
            max_ahead=options.max_ahead,
            message_limits=messages,
        )
        for name, each in placed.items()
    }


def _start_nodes(
    options: BrokerOptions,
    url: str,
    placed: dict[str, NodeLocation],
    stack: ExitStack,
    log: Logger,
    board: MetricsBoard | None,
    traces: Traces | None,
) -> None:
    """Start the nodes, and wait until they are in the directory."""
    names = options.node_names
    # This is where the directory is to be, whatever else was said here before.
    with connected(url, home="") as client:
        taken = [name for name in names if name in client.nodes]
        # An entry may be left over from a power cut; where the node is only slow, the later one of a name goes on.
        answering = ask_nodes(url, taken, "-", timeout=ANSWER) if taken else {}
        there = [name for name in taken if name in answering]
        if there:
            raise DistcedError(
                "a broker node of this name is there already", given=", ".join(there), where=str(client.bus.address),
                advice="choose another with --name",
            )  # fmt: skip
        before = {name: client.nodes[name] for name in taken}
        for name in taken:
            log.warning("node replaced", node=name, reason="there is an entry of this name, and no answer")
        if options.ray:
            token = ray_token(url)
            actors = RayNodes(url, placed, address=options.ray_address, token=token, engine=options.engine)
            stack.enter_context(actors)
            for name, served in actors.metrics_urls().items() if options.metrics else ():
                log.info("metrics served", node=name, url=served)
        else:
            stack.enter_context(LocalNodes(url, placed, engine=options.engine, board=board, traces=traces))
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and any(client.nodes.get(each) == before.get(each) for each in names):
            time.sleep(0.01)


def _run(announce: Callable[[], None], server: Server | None, lost: Callable[[], Sequence[str]], log: Logger) -> int:
    """Announce, and wait for an interrupt, the end of a server started here, or lost nodes; the exit code."""
    try:
        announce()
        return _wait(server, lost, log)
    except KeyboardInterrupt:
        return 0


def _wait(server: Server | None, lost: Callable[[], Sequence[str]], log: Logger) -> int:
    """Wait for the end of a server started here, or lost nodes; the exit code."""
    while server is None or server.alive:
        if names := lost():
            advice = "start the broker again; with Ray, look whether its node on this machine runs: ray status"
            log.error("nodes lost", nodes=list(names), reason="they are not in the directory", advice=advice)
            return 1
        time.sleep(0.2)
    assert server is not None
    log.error("server lost", server=server.url, log=server.log())
    return 1


def _announce(
    options: BrokerOptions,
    url: str,
    server: Server | None,
    placed: dict[str, NodeLocation],
    mappings: list[Mapping],
    log: Logger,
    *,
    without_ray: bool,
) -> None:
    """Print the server to connect to, and the nodes and mappings that run."""
    # Without the password that the URL may hold.
    shown, names = server_name(url), options.node_names
    homes = {name: home_name(location.home, url) for name, location in placed.items()}
    if options.as_json:
        bridge = options.bridge_name if mappings else None
        topics = [each for mapping in mappings for each in mapping.topics]
        types = [each.name for mapping in mappings for each in mapping.types]
        log.info(
            "ready", server=shown, nodes=names, homes=homes, ray=options.ray, bridge=bridge, topics=topics, types=types
        )
        return
    where = "Ray actors" if options.ray else "in this process" + ", for Ray is not installed" * without_ray
    lines = [
        ("MQTT server", f"{shown}{'' if server is None else f', {server.kind}, started here'}"),
        ("broker nodes", f"{', '.join(names)}, {where}"),
        *(("", f"{name} at home at {home}") for name, home in homes.items() if home),
    ]
    for mapping in mappings:
        types_shown = ", ".join(each.name for each in mapping.types)
        lines.append(("bridge", f"{mapping.name}: {', '.join(mapping.topics)} → {types_shown}"))
    if mappings:
        lines.append(("", f"events may be {format_duration(options.lateness)} late"))
    for label, text in lines:
        style = "bold" if label == "MQTT server" else ""
        output().print(Text.assemble((f"{label:<14}", "dim"), (text, style)))
    hint = "" if shown == DEFAULT else f" --server {shown}"
    output().print(Text(f"\ndistced subscribe '[A] ; [B]'{hint}\nCtrl-C ends it.\n", "dim"))

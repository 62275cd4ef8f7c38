"""The verbs of brokers: `broker`, `subscribe`, `nodes`, `detectors` and `move`.

What takes time to import is imported inside the verb that needs it.
"""

from __future__ import annotations

import socket
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from distced.detectors.cli.verbs import EngineOption
from distced.middleware.cli.options import DEFAULT, VARIABLE, HomeOption, ServerOption
from distced.middleware.cli.output import AsJson


def broker(
    server: Annotated[
        str,
        typer.Option(
            "--server",
            envvar=VARIABLE,
            metavar="URL|KIND",
            help="The MQTT server, mqtt://host:port; or one is started: mosquitto, amqtt, or auto for either.",
        ),
    ] = "auto",
    port: Annotated[
        int | None,
        typer.Option(help="Where a server that is started listens; 1883, or a free port where that is taken.", min=0),
    ] = None,
    name: Annotated[str, typer.Option(help="The node's name, unlike all others; this machine's if left out.")] = "",
    nodes: Annotated[int, typer.Option(help="How many broker nodes.", min=1)] = 1,
    ray: Annotated[bool, typer.Option(help="Run the nodes as Ray actors, or in this process.")] = True,
    ray_address: Annotated[
        str,
        typer.Option("--ray-address", metavar="HOST:PORT|auto", help="The Ray cluster to join, in place of its own."),
    ] = "",
    home: HomeOption = None,
    site: Annotated[
        str | None, typer.Option(metavar="NAME", help="The same by the name of the site in the topology.")
    ] = None,
    topology: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The network: put into the directory, for everybody.")
    ] = None,
    hints: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What distced place has found out, put into the directory, for everybody."),
    ] = None,
    capacity: Annotated[
        float | None, typer.Option(help="How many instances a node can touch a second.", min=0, show_default=False)
    ] = None,
    engine: Annotated[
        EngineOption, typer.Option("--engine", help="What detects; by itself, for each detector, what costs less.")
    ] = EngineOption.AUTO,
    mapping: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Bridge what devices publish, as this mapping says; repeatable."),
    ] = None,
    lateness: Annotated[str, typer.Option(help="How late an event of the bridge may arrive.")] = "2s",
    lease: Annotated[
        str, typer.Option(help="After so long without the bridge detectors go on without its sources; 0s for never.")
    ] = "1min",
    retained: Annotated[
        bool, typer.Option("--retained", help="Take what devices had retained before the start as events, too.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Run broker nodes and a bridge to devices.

    Nodes detect patterns, a bridge makes events of what devices publish, until they are interrupted. Without --server
    an MQTT server is started here, on loopback. What happens is logged: types, sources, subscriptions and detectors as
    they come and go, and dead letters. An interrupt (Ctrl-C) or a request to terminate takes the entries of nodes and
    bridge out of the directory. Where there are several sites, --server is the server of the directory, and --home or
    --site says where the nodes are. docs/how-to/broker.md tells more.

    \b
    Examples:
      distced broker --no-ray
      distced broker --nodes 3 --port 1884
      distced broker --server mqtt://192.168.1.10 --mapping home.toml --lateness 5s
      distced broker --server mqtt://10.0.1.10 --site floor-2 --topology building.toml
      distced broker --server mqtt://10.0.1.10 --site floor-2 --ray-address auto
    """
    from distced.brokers.cli.broker import Wanted, host
    from distced.middleware.cli.logs import configure_logging
    from distced.middleware.model.timestamps import parse_duration

    wanted = Wanted(
        server=server,
        port=port,
        name=name or socket.gethostname().split(".")[0] or "broker",
        nodes=nodes,
        ray=ray,
        mappings=tuple(mapping or ()),
        lateness=parse_duration(lateness),
        lease=parse_duration(lease),
        retained=retained,
        as_json=as_json,
        home=home or "",
        site=site or "",
        topology=topology,
        capacity=capacity,
        ray_address=ray_address,
        engine=engine.value,
        hints=hints,
    )
    return host(wanted, configure_logging(stream=sys.stdout if as_json else sys.stderr, as_json=as_json))


class Decompositions(StrEnum):
    """What of a pattern may become detectors of its own."""

    NONE = "none"
    FULL = "full"
    FOR_REUSE = "for-reuse"


def subscribe(
    pattern: Annotated[
        str,
        typer.Argument(metavar="PATTERN|TYPE|FILE", help="A pattern, an event type, a pattern file, or - for a file."),
    ],
    server: ServerOption = DEFAULT,
    best_effort: Annotated[
        bool, typer.Option("--best-effort", help="Consume events as they come: sooner, and wrong where some are late.")
    ] = False,
    constituents: Annotated[
        bool, typer.Option("--constituents", help="Show the events a composite event is made of, too.")
    ] = False,
    decomposition: Annotated[
        Decompositions | None,
        typer.Option(
            "--decomposition",
            help="What of a pattern is to be detected elsewhere; what the policy thinks best if left out.",
            show_default=False,
        ),
    ] = None,
    policy: Annotated[
        str,
        typer.Option(
            "--policy", help="The distribution policy: its name, or three words in quotes.", show_default=False
        ),
    ] = "",
    on: Annotated[
        list[str] | None, typer.Option("--on", metavar="NODE", help="A node that detectors may stand on; repeatable.")
    ] = None,
    avoid: Annotated[
        list[str] | None, typer.Option("--avoid", metavar="NODE", help="A node they may not stand on; repeatable.")
    ] = None,
    rate: Annotated[
        list[str] | None,
        typer.Option("--rate", metavar="TYPE=NUMBER", help="Events a second to be expected; repeatable."),
    ] = None,
    selectivity: Annotated[
        float | None,
        typer.Option("--selectivity", help="Composite events to be expected for each event.", show_default=False),
    ] = None,
    isolated: Annotated[bool, typer.Option("--isolated", help="A process of its own for the detector.")] = False,
    home: HomeOption = None,
    near: Annotated[
        str | None, typer.Option("--near", metavar="NODE", help="Your site is that of this node, in place of --home.")
    ] = None,
    first: Annotated[
        bool, typer.Option("--first", help="End with the first event; of a file, of each pattern.")
    ] = False,
    count: Annotated[int | None, typer.Option(help="End after so many events.", min=1)] = None,
    timeout: Annotated[str | None, typer.Option(metavar="DURATION", help="End after so long.")] = None,
    as_json: AsJson = False,
) -> int:
    """Subscribe, and print events as they come.

    To a pattern, an event type, or a pattern file: the patterns of a file are all subscribed to, and its derived types
    registered. A summary goes to standard error. The exit code is 1 where the time was up before all events asked for
    had come, or any.

    \b
    Examples:
      distced subscribe '[Motion as m] ; [Door where room == m.room] within 1min'
      distced subscribe Motion --count 10
      distced subscribe office.pattern --constituents --json > found.jsonl
      distced subscribe '[Motion] ; [Door]' --policy min-bandwidth --rate Motion=20 --avoid cellar
    """
    from distced.brokers.cli.subscribe import Wanted, listen
    from distced.middleware.cli.logs import configure_logging
    from distced.middleware.model.timestamps import parse_duration
    from distced.policies.distribution.choose.hints import read_hints

    # That the connection was lost, and is back.
    configure_logging(level="info")
    wanted = Wanted(
        pattern=pattern,
        server=server,
        best_effort=best_effort,
        constituents=constituents,
        decomposition=None if decomposition is None else decomposition.value,
        distribution=policy,
        hints=read_hints(on or (), avoid or (), rate or (), selectivity, isolated=isolated),
        home=home,
        near=near,
        first=first,
        count=count,
        timeout=None if timeout is None else parse_duration(timeout),
        as_json=as_json,
    )
    return listen(wanted)


Watched: TypeAlias = Annotated[
    bool, typer.Option("--watch", help="Go on, and show it anew when something changes, until interrupted.")
]


def nodes(server: ServerOption = DEFAULT, watch: Watched = False, as_json: AsJson = False) -> int:
    """Show the broker nodes: since when they are up, what they host, what they have counted; and the recorders.

    What the directory says is shown; nodes say anew every two seconds what they have counted. The exit code is 1 where
    there is no node.

    \b
    Examples:
      distced nodes
      distced nodes --watch --server mqtt://192.168.1.10
      distced nodes --json
    """
    from distced.brokers.cli.inspect import show_nodes

    return show_nodes(server, watch=watch, as_json=as_json)


def detectors(
    detector: Annotated[
        str | None,
        typer.Argument(metavar="DETECTOR-PREFIX", help="How the id of one detector begins.", show_default=False),
    ] = None,
    server: ServerOption = DEFAULT,
    node: Annotated[
        str | None, typer.Option(metavar="NODE", help="Those on this node only.", show_default=False)
    ] = None,
    watch: Watched = False,
    as_json: AsJson = False,
) -> int:
    """Show the detectors: where they are, what they detect, whom they serve, which of them read which.

    Those that serve clients are at the top, and below each the detectors that it reads as parts of its pattern. Of one
    detector everything is shown: what it reads and what reads it. The exit code is 1 where there is no detector.

    \b
    Examples:
      distced detectors
      distced detectors --node cellar --watch
      distced detectors c52925
    """
    from distced.brokers.cli.inspect import show_detectors

    return show_detectors(server, detector, node, watch=watch, as_json=as_json)


def move(
    detector: Annotated[
        str, typer.Argument(metavar="DETECTOR-PREFIX", help="How the id of the detector begins.", show_default=False)
    ],
    node: Annotated[str, typer.Argument(metavar="NODE", help="Where it is to go.", show_default=False)],
    server: ServerOption = DEFAULT,
    timeout: Annotated[str, typer.Option(metavar="DURATION", help="How long it may take.")] = "15s",
    as_json: AsJson = False,
) -> int:
    """Move a detector to another node, with its state.

    Nothing is lost on the way and nothing found twice, and who subscribes notices nothing. The exit code is 2 where the
    detector or the node is not there, or the detector has not moved in time; it then stays where it is.

    \b
    Examples:
      distced move c52925 cellar
      distced detectors --watch
    """
    from distced.brokers.cli.move import move_detector
    from distced.middleware.model.timestamps import SECOND, parse_duration

    return move_detector(server, detector, node, timeout=parse_duration(timeout) / SECOND, as_json=as_json)

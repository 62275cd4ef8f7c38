"""The verbs of simulations: `distced demo`, `distced simulate` and `distced place`."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from distced.middleware.cli.output import AsJson, messages, output, print_json


def demo(
    speed: Annotated[float, typer.Option(help="Virtual seconds for each second.", min=0.1)] = 60.0,
    minutes: Annotated[float, typer.Option(help="Virtual minutes to run.", min=0.1)] = 60.0,
    seed: Annotated[int, typer.Option(help="The seed of the Active Office.")] = 41,
    input_: Annotated[
        Path | None, typer.Option("--input", help="Replay recorded events instead of the Active Office.")
    ] = None,
    mapping: Annotated[Path | None, typer.Option(help="How to read the recording.")] = None,
    patterns: Annotated[
        list[Path] | None, typer.Option("--pattern", help="A pattern file, in place of both scenarios; repeatable.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="A folder for events, figures and plots.")] = None,
    nodes: Annotated[int, typer.Option(help="How many broker nodes.", min=1)] = 3,
    ray: Annotated[bool, typer.Option(help="Run the nodes as Ray actors, or in this process.")] = True,
    server: Annotated[
        str, typer.Option(help="auto, mosquitto, amqtt, or the URL of an MQTT server that runs.")
    ] = "auto",
    as_json: AsJson = False,
) -> int:
    """Watch composite events being detected: a server, broker nodes, the Active Office, both scenarios.

    Afterwards the same patterns are run over the recorded events in one piece. The exit code is 0 only if what was
    detected live is the same.

    Examples:

      distced demo

      distced demo --speed 600 --minutes 240 --report reports/demo

      distced demo --input reports/demo/events.jsonl.gz --no-ray
    """
    from contextlib import ExitStack

    from distced.brokers.live.mqtt_server import start_server
    from distced.brokers.ray.nodes import LocalNodes, RayNodes
    from distced.middleware.client.client import Client
    from distced.simulations.benchmarks.live import quieten
    from distced.simulations.demo import demo_report as reports
    from distced.simulations.demo.display import Display
    from distced.simulations.demo.feed import Feed, OfficeFeed, RecordedFeed
    from distced.simulations.demo.patterns import questions
    from distced.simulations.demo.session import Session

    console = messages() if as_json else output()
    feed: Feed = OfficeFeed(seed, minutes) if input_ is None else RecordedFeed(input_, mapping)
    asked, derived = questions(feed.types, patterns or [])
    quieten()
    with ExitStack() as stack:
        began = time.perf_counter()
        with console.status("starting the MQTT server and the broker nodes"):
            url = server
            if server in ("auto", "mosquitto", "amqtt"):
                started = stack.enter_context(start_server(server))  # type: ignore[arg-type]
                url = started.url
                console.print(f"MQTT server: {started.kind} at {url}")
            names = [f"node-{number + 1}" for number in range(nodes)]
            stack.enter_context(RayNodes(url, names) if ray else LocalNodes(url, names))
            kind = "Ray actors" if ray else "in this process"
            client = stack.enter_context(Client(url, name="demo"))
            client.wait_for_nodes(nodes)
            session = Session(client, feed, asked, derived, speed)
            session.prepare()
        for question, subscription in zip(asked, session.subscriptions, strict=True):
            console.print(f"{question.name}: detector {subscription.detector} on {subscription.node}")
        console.print(f"{nodes} broker nodes ({kind}) up after {time.perf_counter() - began:.1f} s\n")
        began = time.perf_counter()
        with Display(console, feed, asked, quiet=as_json) as display:
            try:
                session.run(display.show)
            except KeyboardInterrupt:
                console.print("interrupted: taking stock of what there is")
            verdict = session.finish()
            display.show(session.progress)
        seconds = time.perf_counter() - began
    if report is not None:
        reports.write(report, session, verdict, seconds)
        console.print(f"report in {report}")
    if as_json:
        print_json(reports.summary(session, verdict, seconds))
    else:
        reports.show(console, session, verdict, seconds)
    return 0 if verdict.holds else 1


def simulate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A scenario.")],
    seed: Annotated[int | None, typer.Option(help="In place of the seed in the file.", show_default=False)] = None,
    log: Annotated[Path | None, typer.Option(help="Write every message that is delivered to this file.")] = None,
    check: Annotated[bool, typer.Option(help="Compare with what one engine finds in the same events.")] = True,
    as_json: AsJson = False,
) -> int:
    """Run a scenario in virtual time: broker nodes, publishers and subscribers on the links of a topology.

    The nodes are those that run live. Shown is what was found and how long it took to arrive, bytes by link, what nodes
    had to do, what they decided and why. The same seed is the same run, to the byte; its digest tells.

    The exit code is 0 only if everything has arrived, and is what one engine finds in the events.

    Examples:

      distced simulate cold-rooms.toml

      distced simulate cold-rooms.toml --seed 7 --json

      distced simulate cold-rooms.toml --log messages.jsonl
    """
    from distced.simulations.network.cli import simulate_file

    return simulate_file(file, seed=seed, log=log, check=check, as_json=as_json)


class Metric(StrEnum):
    """What a placement is to be best at."""

    BANDWIDTH = "bandwidth"
    LATENCY = "latency"
    LOAD = "load"
    RELIABILITY = "reliability"


def place(
    history: Annotated[Path, typer.Option(metavar="PATH", help="The history.")],
    topology: Annotated[Path, typer.Option(metavar="FILE", help="The network.")],
    patterns: Annotated[str, typer.Option(metavar="FILE", help="The patterns: a file, or a pattern.")],
    metric: Annotated[Metric, typer.Option(help="What the placement is to be best at.")] = Metric.BANDWIDTH,
    subscriber: Annotated[
        list[str] | None,
        typer.Option(metavar="[PATTERN=]NAME", help="Who subscribes, to all patterns or to one; repeatable."),
    ] = None,
    near: Annotated[
        list[str] | None,
        typer.Option(metavar="[PATTERN=]SITE", help="Somebody at this site does; repeatable."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the best placement as hints for distced broker --hints.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the best placement on the topology, as SVG.")
    ] = None,
    what_if: Annotated[
        bool,
        typer.Option("--what-if", help="Replay the beginning of the history in the simulator, and compare the links."),
    ] = False,
    candidate: Annotated[
        list[str] | None,
        typer.Option(metavar="POLICY", help="Replay it through this policy as well, whether named or not; repeatable."),
    ] = None,
    seed: Annotated[int, typer.Option(help="With --what-if: what chance begins with.")] = 0,
    solver: Annotated[float, typer.Option(help="Seconds that the solver may take.", min=0.1)] = 60.0,
    spark: Annotated[
        str, typer.Option(metavar="MASTER", help="Count days as tasks of Spark, local[*] or a cluster.")
    ] = "",
    figures: Annotated[
        bool, typer.Option("--figures", help="Show sources, sub-patterns, and what sites send to one another, too.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Where the detectors of patterns had best stand, by what a history says of them.

    The history is gone through with the patterns and all sub-patterns they may be cut into; then each named policy
    places their detectors, and a solver finds the best placement there is. With --what-if the simulator runs the policy
    of the metric and the optimum, with --candidate other policies, and the exit code is 1 where what was predicted is
    off by more than a tenth on a link, or detectors have moved.

    \b
    Examples:
      distced place --history history --topology building.toml --patterns office.pattern --near street
      distced place --history history --topology building.toml --patterns office.pattern --subscriber facility \\
        --metric load --out hints.json --picture load.svg
    """
    from distced.simulations.placement.cli import Wanted
    from distced.simulations.placement.cli import place as analyse

    wanted = Wanted(
        history,
        topology,
        patterns,
        metric.value,
        tuple(subscriber or ()),
        tuple(near or ()),
        out,
        picture,
        what_if,
        tuple(candidate or ()),
        seed,
        solver=solver,
        spark=spark,
        figures=figures,
        as_json=as_json,
    )
    return analyse(wanted)

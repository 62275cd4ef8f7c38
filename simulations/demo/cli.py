"""`distced demo`: composite events of the Active Office and of other applications, detected live."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Literal

import typer

from distced.middleware.cli.output import AsJson, messages, output, print_json
from distced.middleware.cli.output_files import ForceOption, check_report
from distced.middleware.model.errors import BusError, DistcedError
from distced.simulations.options import MappingOption, RayOption, SeedOption


def demo(
    speed: Annotated[float, typer.Option(metavar="FACTOR", help="Virtual seconds for each second.", min=0.1)] = 60.0,
    minutes: Annotated[
        float, typer.Option(metavar="MINUTES", help="Duration in virtual time, minutes.", min=0.1)
    ] = 60.0,
    seed: SeedOption = 41,
    scenario: Annotated[
        Literal["office", "alarms", "upgrades", "threats"],
        typer.Option(
            help="The Active Office, fault monitoring of a carrier's network, upgrades of machines, in CEDR, or "
            "threats to regions, in CEDMOS.",
            show_choices=True,
        ),
    ] = "office",
    input_: Annotated[
        Path | None,
        typer.Option("--input", metavar="FILE", help="Recorded events to replay in place of the Active Office."),
    ] = None,
    mapping: MappingOption = None,
    causes: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Causal edges of recorded alarms, CSV: cause_alarm, effect_alarm."),
    ] = None,
    links: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Links of recorded alarms, CSV: device_a, device_b.")
    ] = None,
    patterns: Annotated[
        list[Path] | None,
        typer.Option("--pattern", metavar="FILE", help="Pattern file in place of both scenarios; repeatable."),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write events, figures and plots into this folder.", show_default=False),
    ] = None,
    force: ForceOption = False,
    nodes: Annotated[
        int, typer.Option(metavar="N", help="Number of broker nodes to start; 0 to use those of the server.", min=0)
    ] = 3,
    ray: RayOption = None,
    server: Annotated[
        str, typer.Option(metavar="KIND|URL", help="MQTT server: auto, mosquitto, amqtt, or the URL of one that runs.")
    ] = "auto",
    homes: Annotated[
        list[str] | None,
        typer.Option(
            "--home", metavar="URL", help="MQTT server of a site, for sources and subscriptions in turn; repeatable."
        ),
    ] = None,
    configurations: Annotated[
        list[Path] | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="Configuration of a participant, for sources and subscriptions in turn, in place of --server and "
            "--home; repeatable.",
        ),
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="TCP port of the started server; a free one if left out.", min=0)
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Watch composite events being detected: a server, broker nodes, the Active Office, both scenarios.

    Afterwards the same patterns are run over the recorded events in one piece. The exit code is 1 where live detections
    differ from these.

    Examples:

      distced demo

      distced demo --speed 600 --minutes 240 --report reports/demo

      distced demo --scenario alarms --speed 120

      distced demo --scenario upgrades --minutes 240 --speed 600

      distced demo --scenario threats --minutes 240 --speed 600

      distced demo --port 1884

      distced demo --input reports/demo/events.jsonl.gz --no-ray

      distced demo --server mqtt://10.0.1.10 --nodes 0 --home mqtt://10.0.1.10 --home mqtt://10.0.2.10

      distced demo --nodes 0 --config badges/distced.toml --config doors/distced.toml
    """
    from distced.brokers.live.mqtt_server import start_server
    from distced.brokers.ray.nodes import LocalNodes, RayNodes
    from distced.brokers.ray.runtime import use_ray
    from distced.middleware.client.client import Client
    from distced.simulations.benchmarks.live import quieten
    from distced.simulations.demo import display as shown
    from distced.simulations.demo.feed import (
        alarm_feed,
        office_feed,
        recorded_alarm_feed,
        recorded_feed,
        threat_feed,
        upgrade_feed,
    )
    from distced.simulations.demo.node_counters import NodeCounters
    from distced.simulations.demo.session import DemoSession, questions

    console = messages() if as_json else output()
    participants: dict[str, tuple[str, str | None]] = {}
    if configurations:
        if server != "auto" or homes:
            advice = "the configurations name the servers"
            raise BusError("--config beside --server or --home", given=str(configurations[0]), advice=advice)
        if nodes:
            advice = "use those of the server: --nodes 0"
            raise BusError("broker nodes to start for participants of a deployment", given=nodes, advice=advice)
        participants = _participants(configurations)
        server = next(iter(participants.values()))[0]
    starts = server in ("auto", "mosquitto", "amqtt")
    if port is not None and not starts:
        raise BusError("a port for a server that is not started here", given=port, advice="put it into the URL")
    if not nodes and starts:
        raise BusError("no broker nodes at a server that is started here", advice="name their server with --server")
    check_report(report, shown.REPORT_FILES, force=force, inputs=[input_, mapping, causes, links, *(patterns or ())])
    actors = bool(nodes) and use_ray(ray)
    if scenario != "alarms":
        if causes is not None or links is not None:
            raise DistcedError("causal edges or links without alarms", advice="add --scenario alarms")
        made = {"office": office_feed, "upgrades": upgrade_feed, "threats": threat_feed}[scenario]
        feed = made(seed, minutes) if input_ is None else recorded_feed(input_, mapping)
    elif input_ is None:
        if causes is not None or links is not None:
            raise DistcedError("causal edges or links without a recording", advice="name it with --input")
        feed = alarm_feed(seed, minutes)
    elif mapping is None or causes is None:
        advice = "its --mapping, as simulations/recordings/alarms.toml, and --causes, the causal edges of its experts"
        raise DistcedError("recorded alarms without what they mean", given=str(input_), advice=advice)
    else:
        feed = recorded_alarm_feed(input_, mapping, causes, links)
    asked, derived = questions(feed.types, patterns or [], feed.patterns)
    quieten()
    with ExitStack() as stack:
        began = time.perf_counter()
        with console.status("starting the MQTT server and the broker nodes"):
            url = server
            if starts:
                started = stack.enter_context(start_server(server, port=port or 0))  # type: ignore[arg-type]
                url = started.url
                console.print(f"MQTT server: {started.kind} at {url}")
            if nodes:
                names = [f"node-{number + 1}" for number in range(nodes)]
                stack.enter_context(RayNodes(url, names) if actors else LocalNodes(url, names))
            if not configurations:
                participants = {f"demo-{place + 1}": (url, home) for place, home in enumerate(homes or [])}
            clients = [
                stack.enter_context(Client(at, home=home, name=name))
                for name, (at, home) in (participants or {"demo": (url, None)}).items()
            ]
            clients[0].wait_for_nodes(max(nodes, 1))
            counters = stack.enter_context(NodeCounters(next(iter((participants or {"": (url, None)}).values()))[0]))
            session = DemoSession(clients, feed, asked, derived, speed, counters.now)
            session.prepare()
            kind = ("Ray actors" if actors else "in this process") if nodes else "of the server"
        for question, subscription in zip(asked, session.subscriptions, strict=True):
            console.print(f"{question.name}: detector {subscription.detector} on {subscription.node}")
        console.print(f"{len(clients[0].nodes)} broker nodes ({kind}) up after {time.perf_counter() - began:.1f} s\n")
        began = time.perf_counter()
        with shown.Display(console, feed, asked, quiet=as_json) as display:
            try:
                session.run(display.show)
            except KeyboardInterrupt:
                console.print("interrupted: the figures are those so far")
            verdict = session.finish()
            display.show(session.progress, last=True)
        seconds = time.perf_counter() - began
    if report is not None:
        shown.write(report, session, verdict, seconds)
        console.print(f"report in {report}")
    if as_json:
        print_json(shown.summary(session, verdict, seconds))
    else:
        shown.show_figures(console, session, verdict, seconds)
    return 0 if verdict.holds else 1


def _participants(configurations: list[Path]) -> dict[str, tuple[str, str | None]]:
    """URL of the directory and of the home of each participant, by name."""
    from distced.middleware.bus.access import configured, participant_name

    found: dict[str, tuple[str, str | None]] = {}
    for path in configurations:
        url, home = configured(path)
        name = participant_name(url)
        if not name or name in found:
            problem = "a configuration without a name" if not name else "two configurations of one name"
            raise BusError(problem, given=name or str(path), where=str(path), advice='write name = "NAME"')
        found[name] = url, home
    return found

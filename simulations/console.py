"""The verbs of simulations: `distced demo`, `distced simulate` and `distced bench`."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from middleware.console_output import AsJson, messages, output, print_json


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

    from brokers.ray_nodes import LocalNodes, RayNodes
    from brokers.server import start_server
    from middleware.client import Client
    from simulations.benchmarks.live import quieten
    from simulations.demo import report as reports
    from simulations.demo.display import Display
    from simulations.demo.feed import Feed, OfficeFeed, RecordedFeed
    from simulations.demo.patterns import questions
    from simulations.demo.session import Session

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
    from simulations.network.simulate_verb import simulate_file

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
    from simulations.placement.place_verb import Wanted
    from simulations.placement.place_verb import place as analyse

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


bench = typer.Typer(
    add_completion=False, rich_markup_mode=None, no_args_is_help=True, help="Measure distced against baselines."
)


@bench.command("seq3")
def bench_seq3(
    events: Annotated[int, typer.Option(help="How many events.", min=1)] = 200_000,
    rounds: Annotated[int, typer.Option(help="How many rounds; the best of each counts.", min=1)] = 3,
    report: Annotated[Path | None, typer.Option(help="A folder for a plot.")] = None,
    as_json: AsJson = False,
) -> int:
    """A, then B, then C with one key within 5 s: both engines against what is written for it by hand, and DuckDB.

    What runs in Python is given a million events at most. Ten million events are some 10 s of making them up.
    """
    from dataclasses import asdict

    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.table import Table

    from simulations.benchmarks.seq3 import measure
    from simulations.plots import bars

    console = messages()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("seq3", total=None)
        results = measure(events, rounds, lambda step: progress.update(task, description=step))
    if report is not None:
        report.mkdir(parents=True, exist_ok=True)
        figures = [(f"{each.question}, {each.by}", each.rate) for each in results]
        (report / "seq3.svg").write_text(bars(figures, title=f"seq3, {events:,} events", unit="events/s"))
    if as_json:
        print_json([asdict(each) for each in results])
    else:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        for name in ("question", "by", "events", "matches", "expected", "events/s", "of by hand", "to start"):
            table.add_column(name, justify="left" if name in ("question", "by") else "right")
        for each in results:
            matches, expected = ("" if count is None else f"{count:,}" for count in (each.matches, each.expected))
            starting = "" if each.starting is None else f"{each.starting:.2f} s"
            row = (f"{each.events:,}", matches, expected, f"{each.rate:,.0f}", f"{each.ratio:,.1%}", starting)
            table.add_row(each.question, each.by, *row)
        output().print(table)
    return 0 if all(each.expected in (None, each.matches) for each in results) else 1


@bench.command("plan")
def bench_plan(
    atoms: Annotated[int, typer.Option(help="Atoms of each pattern.", min=10)] = 100,
    catalogue: Annotated[int, typer.Option(help="Sub-patterns in the catalogue.", min=10)] = 10_000,
    rounds: Annotated[int, typer.Option(help="Rounds of each plan.", min=1)] = 20,
    seed: Annotated[int, typer.Option(help="The seed of the patterns.")] = 1,
    report: Annotated[Path | None, typer.Option(help="A folder for plots.")] = None,
    as_json: AsJson = False,
) -> int:
    """Plan a large pattern against a catalogue of detectors, three shapes of pattern, none to many reused.

    The baselines are compiling the same pattern, and naming each of its sub-patterns to look it up. The exit code is 1
    where a detector is reused that detects something else.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

    from simulations.benchmarks.plan import measure
    from simulations.benchmarks.plan_report import as_dict, plots, show

    console = messages()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=catalogue)

        def tell(what: str, done: int, total: int) -> None:
            progress.update(task, description=what, completed=done, total=total)

        figures = measure(atoms, catalogue, rounds, seed, tell)
    if report is not None:
        report.mkdir(parents=True, exist_ok=True)
        for name, content in plots(figures).items():
            (report / name).write_text(content)
    if as_json:
        print_json(as_dict(figures))
    else:
        show(output(), figures)
    return 0 if figures.sound else 1


@bench.command("place")
def bench_place(
    detectors: Annotated[int, typer.Option(help="How many detectors run.", min=1)] = 1_000,
    nodes: Annotated[int, typer.Option(help="On how many broker nodes.", min=2)] = 100,
    rounds: Annotated[int, typer.Option(help="Rounds of each policy.", min=1)] = 20,
    seed: Annotated[int, typer.Option(help="The seed of the deployment and the patterns.")] = 1,
    report: Annotated[Path | None, typer.Option(help="A folder for plots.")] = None,
    as_json: AsJson = False,
) -> int:
    """Place one more detector where a thousand run, under each named policy; and what a whole node pays to decide.

    The baseline is a situation that is made anew from the directory each time.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

    from simulations.benchmarks.place import measure
    from simulations.benchmarks.place_report import as_dict, plots, show

    console = messages()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=detectors)

        def tell(what: str, done: int, total: int) -> None:
            progress.update(task, description=what, completed=done, total=total)

        figures = measure(detectors, nodes, rounds, seed, tell)
    if report is not None:
        report.mkdir(parents=True, exist_ok=True)
        for name, content in plots(figures).items():
            (report / name).write_text(content)
    if as_json:
        print_json(as_dict(figures))
    else:
        show(output(), figures)
    return 0


@bench.command("placement")
def bench_placement(
    instances: Annotated[int, typer.Option(help="How many instances.", min=1)] = 50,
    nodes: Annotated[int, typer.Option(help="How many nodes they have at the most.", min=5)] = 200,
    seed: Annotated[int, typer.Option(help="The seed of the first instance; each further one has the next.")] = 0,
    metrics: Annotated[
        str, typer.Option(help="bandwidth, latency, load, reliability: some, apart by commas; all if empty.")
    ] = "",
    solver: Annotated[float, typer.Option(help="Seconds that the solver may take for each optimum.", min=0.1)] = 10.0,
    report: Annotated[Path | None, typer.Option(help="A folder for plots.")] = None,
    as_json: AsJson = False,
) -> int:
    """How far the placements of the named policies are from the optimum, on networks by chance.

    The optimum is that of a mixed-integer programme. The exit code is 1 where the best heuristic is more than 2 % from
    it at the median.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    from simulations.benchmarks.placement import measure
    from simulations.benchmarks.placement_report import as_dict, plots, show
    from simulations.placement.evaluating import parse_metrics

    wanted = parse_metrics(metrics)
    console = messages()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
               TimeRemainingColumn())  # fmt: skip
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=instances)

        def tell(what: str, done: int, total: int) -> None:
            progress.update(task, description=what, completed=done, total=total)

        figures = measure(instances, nodes, seed, wanted, solver, tell)
    if report is not None:
        report.mkdir(parents=True, exist_ok=True)
        for name, content in plots(figures).items():
            (report / name).write_text(content)
    if as_json:
        print_json(as_dict(figures))
    else:
        show(output(), figures)
    return 0 if figures.holds else 1


@bench.command("patterns")
def bench_patterns(
    templates: Annotated[
        str, typer.Option(help="LinearStat, LinearDyn, Filter, NonDeterministic, NonDeterministicAgg: some, or all.")
    ] = "Filter",
    patterns: Annotated[
        str, typer.Option(help="How many patterns, several numbers apart by commas.")
    ] = "10000,20000,50000,100000",
    events: Annotated[int, typer.Option(help="How many events.", min=1)] = 100_000,
    vary: Annotated[
        str, typer.Option(help="With the largest number of patterns: zipf (0.8 to 1.4) or selectivity (0.5 to 0.9).")
    ] = "",
    merging: Annotated[
        bool, typer.Option("--without-merging/--no-without-merging", help="Measure without shared states, too.")
    ] = True,
    without: Annotated[
        int, typer.Option(help="Up to so many patterns measure without any indexes, too; 0 for never.", min=0)
    ] = 20_000,
    report: Annotated[Path | None, typer.Option(help="A folder for plots.")] = None,
    as_json: AsJson = False,
) -> int:
    """Cayuga's technical benchmark: many patterns of three steps over one stream, in one pass of the columnar engine.

    In three variants: with indexes, without merging (patterns that begin alike share no states), and without any (every
    event is held to every pattern). The baseline, predicates alone, only tells which first steps an event satisfies.

    100,000 patterns are added in a minute, and take two gigabytes; half of it with --no-without-merging. The exit code
    is 1 where variants differ in what they find.

    Examples:

      distced bench patterns --patterns 100000,200000,300000,400000

      distced bench patterns --templates all --patterns 100000

      distced bench patterns --vary zipf --patterns 100000 --report reports
    """
    from simulations.benchmarks.patterns_verb import bench_patterns

    return bench_patterns(
        templates, patterns, events, vary=vary, merging=merging, without=without, report=report, as_json=as_json
    )


@bench.command("instances")
def bench_instances(
    instances: Annotated[str, typer.Option(help="How many, several numbers apart by commas.")] = (
        "100,1000,10000,100000,1000000"
    ),
    events: Annotated[int, typer.Option(help="How many events.", min=1)] = 500_000,
    report: Annotated[Path | None, typer.Option(help="A folder for a plot.")] = None,
    as_json: AsJson = False,
) -> int:
    """What a live instance takes in memory, and how fast events are with so many of them, on both engines."""
    from simulations.benchmarks.instances_verb import bench_instances

    return bench_instances(instances, events, report=report, as_json=as_json)


@bench.command("replay")
def bench_replay(
    events: Annotated[int, typer.Option(help="How many events.", min=1000)] = 10_000_000,
    cores: Annotated[int, typer.Option(help="How many cores.", min=1)] = 2,
    seed: Annotated[int, typer.Option(help="Of the events.")] = 1,
    report: Annotated[Path | None, typer.Option(help="A folder for plots.")] = None,
    as_json: AsJson = False,
) -> int:
    """Replay of a history on Spark, beside Spark's own passes over the same events.

    Held to what Spark needs by itself to read, repartition and sort them, and to its mapInArrow; each pass in processes
    of its own, which are held to their cores, and once before that is not counted.

    Example:

      distced bench replay --events 1000000
    """
    from simulations.benchmarks.replay_report import bench_replay

    return bench_replay(events, cores, seed, report=report, as_json=as_json)


@bench.command("policies")
def bench_policies(
    scenarios: Annotated[int, typer.Option(help="How many scenarios.", min=1)] = 200,
    seed: Annotated[int, typer.Option(help="The seed of the first scenario; each further one has the next.")] = 0,
    metrics: Annotated[
        str, typer.Option(help="latency, bandwidth, impact, load, reliability: some, apart by commas; all if empty.")
    ] = "",
    processes: Annotated[int, typer.Option(help="How many scenarios run at once.", min=1)] = 1,
    report: Annotated[Path | None, typer.Option(help="A folder for plots.")] = None,
    as_json: AsJson = False,
) -> int:
    """The named distribution policies against one another, on the simulated network: each at what it is called after.

    All scenarios are made by chance, and each runs under every policy. The exit code is 1 where a policy is best at its
    own metric in fewer than 95 % of them.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    from simulations.experiments.comparing import compare_many
    from simulations.experiments.report import as_dict, parse_metrics, plots, show, standings

    wanted = parse_metrics(metrics)
    console = messages()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
               TimeRemainingColumn())  # fmt: skip
    compared = []
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("scenarios", total=scenarios)
        for each in compare_many(range(seed, seed + scenarios), wanted, processes):
            compared.append(each)
            progress.advance(task)
    found = standings(compared)
    if report is not None:
        report.mkdir(parents=True, exist_ok=True)
        for name, content in plots(found).items():
            (report / name).write_text(content)
    if as_json:
        print_json(as_dict(found))
    else:
        show(output(), found)
    return 0 if found.holds else 1


@bench.command("live")
def bench_live(
    events: Annotated[int, typer.Option(help="Events a round.", min=1_000)] = 60_000,
    rounds: Annotated[int, typer.Option(help="Rounds of each receiver.", min=1)] = 3,
    seconds: Annotated[float, typer.Option(help="Seconds at 1,000 events/s, for the delays.", min=1.0)] = 5.0,
    report: Annotated[Path | None, typer.Option(help="A folder for plots.")] = None,
    as_json: AsJson = False,
) -> int:
    """A broker node against a bare paho subscriber to the same topic: rate, delay, larger frames, profile."""
    from simulations.benchmarks.live import measure
    from simulations.benchmarks.live_report import as_dict, plots, show

    with messages().status("measuring, for a minute or two"):
        figures = measure(events, rounds, seconds=seconds)
    if report is not None:
        report.mkdir(parents=True, exist_ok=True)
        for name, content in plots(figures).items():
            (report / name).write_text(content)
    if as_json:
        print_json(as_dict(figures))
    else:
        show(output(), figures)
    return 0


@bench.command("migrate")
def bench_migrate(
    moves: Annotated[int, typer.Option(help="How many moves.", min=1)] = 20,
    nodes: Annotated[int, typer.Option(help="How many broker nodes.", min=2)] = 3,
    sites: Annotated[int, typer.Option(help="At how many sites, each with a server of its own.", min=1)] = 1,
    pace: Annotated[int, typer.Option(help="Events a second.", min=10)] = 1_000,
    waiting: Annotated[int, typer.Option(help="Instances that the detector carries.", min=0)] = 1_000,
    ray: Annotated[bool, typer.Option(help="Run the nodes as Ray actors, or in this process.")] = True,
    seed: Annotated[int, typer.Option(help="The seed of the time between moves.")] = 1,
    report: Annotated[Path | None, typer.Option(help="A folder for plots.")] = None,
    as_json: AsJson = False,
) -> int:
    """Move a detector between nodes while it detects: how long the subscriber waits, and whether it gets everything.

    The baseline is the same run between the moves. The exit code is 1 where a move does not come about, or a
    notification is lost, doubled or wrong.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

    from middleware.console_logging import configure_logging
    from simulations.benchmarks.migrate import measure
    from simulations.benchmarks.migrate_report import as_dict, plots, show

    configure_logging()
    console = messages()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("moving", total=moves)
        figures = measure(
            moves,
            ray=ray,
            nodes=nodes,
            sites=sites,
            pace=pace,
            waiting=waiting,
            seed=seed,
            tell=lambda done: progress.update(task, completed=done),
        )
    if report is not None:
        report.mkdir(parents=True, exist_ok=True)
        for name, content in plots(figures).items():
            (report / name).write_text(content)
    if as_json:
        print_json(as_dict(figures))
    else:
        show(output(), figures)
    return 0 if figures.sound else 1

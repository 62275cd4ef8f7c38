"""`distced bench`: the benchmarks as verbs."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from distced.middleware.cli.output import AsJson
from distced.middleware.model.errors import DistcedError
from distced.simulations.benchmarks.report import present, progress_bar
from distced.simulations.options import NodesOption, RayOption, ReportOption, SeedOption, SolverOption

bench = typer.Typer(
    add_completion=False, rich_markup_mode=None, no_args_is_help=True, help="Measure distced against baselines."
)


def _number(text: str, least: int = 1) -> Any:
    """An option that is a whole number."""
    return typer.Option(metavar="N", help=text, min=least)


EventsOption: TypeAlias = Annotated[int, _number("Number of events.")]
RoundsOption: TypeAlias = Annotated[int, _number("Rounds of each measurement.")]
MetricsOption: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="NAME,...",
        help="Some of latency, bandwidth, load, reliability and, for policies, impact; all if empty.",
    ),
]


@bench.command("seq3")
def bench_seq3(
    events: EventsOption = 200_000, rounds: RoundsOption = 3, report: ReportOption = None, as_json: AsJson = False
) -> int:
    """A, then B, then C with one key within 5 s: both engines, programs written for it by hand, and DuckDB.

    The best round of each counts. Implementations in Python get a million events at most. Ten million events are
    generated in some 10 s.
    """
    return _run("seq3", report, as_json, events, rounds)


@bench.command("plan")
def bench_plan(
    atoms: Annotated[int, _number("Atoms of each pattern.", 10)] = 100,
    catalogue: Annotated[int, _number("Sub-patterns in the catalogue.", 10)] = 10_000,
    rounds: RoundsOption = 20,
    seed: SeedOption = 1,
    report: ReportOption = None,
    as_json: AsJson = False,
) -> int:
    """Plan a large pattern against a catalogue of detectors, three shapes of pattern, none to many reused.

    The baselines are compiling the same pattern, and the canonical id of each of its sub-patterns as a lookup. The exit
    code is 1 where a detector is reused that detects something else.
    """
    return _run("plan", report, as_json, atoms, catalogue, rounds, seed, total=catalogue)


@bench.command("place")
def bench_place(
    detectors: Annotated[int, _number("Number of running detectors.")] = 1_000,
    nodes: NodesOption = 100,
    rounds: RoundsOption = 20,
    seed: SeedOption = 1,
    report: ReportOption = None,
    as_json: AsJson = False,
) -> int:
    """Place one more detector where a thousand run, under each named policy; and the cost of a node's decision.

    The baseline is a situation that is made again from the directory each time.
    """
    return _run("place", report, as_json, detectors, _at_least(2, nodes), rounds, seed, total=detectors)


@bench.command("placement")
def bench_placement(
    instances: Annotated[int, _number("Number of random instances.")] = 50,
    nodes: NodesOption = 200,
    seed: SeedOption = 0,
    metrics: MetricsOption = "",
    solver: SolverOption = 10.0,
    report: ReportOption = None,
    as_json: AsJson = False,
) -> int:
    """Distance of the placements of the named policies from the optimum, on random networks.

    The optimum is that of a mixed-integer programme. --nodes is the greatest number an instance has; the seed counts up
    from instance to instance. The exit code is 1 where the best heuristic is more than 2 % from the optimum at the
    median.
    """
    from distced.simulations.placement.evaluation import parse_metrics

    given = (instances, _at_least(5, nodes), seed, parse_metrics(metrics), solver)
    return _run("placement", report, as_json, *given, total=instances, remaining=True)


@bench.command("prediction")
def bench_prediction(
    networks: Annotated[int, _number("Number of random networks.")] = 10,
    seed: SeedOption = 0,
    report: ReportOption = None,
    as_json: AsJson = False,
) -> int:
    """Traffic of links as placement analysis predicts it and as the simulator measures it, on random networks.

    On each network detectors are placed by three policies and by the solver, from counts of the published events. The
    seed counts up from network to network. The exit code is 1 where a link carries more or less than predicted by a
    tenth.
    """
    return _run("prediction", report, as_json, networks, seed, total=networks, remaining=True)


@bench.command("patterns")
def bench_patterns(
    templates: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help="Some of LinearStat, LinearDyn, Filter, NonDeterministic, NonDeterministicAgg, or all.",
        ),
    ] = "Filter",
    patterns: Annotated[str, typer.Option(metavar="N,...", help="Numbers of patterns.")] = "10000,20000,50000,100000",
    events: EventsOption = 100_000,
    vary: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Vary zipf (0.8 to 1.4) or selectivity (0.5 to 0.9) with the greatest number of patterns.",
            show_default=False,
        ),
    ] = "",
    merging: Annotated[
        bool, typer.Option("--without-merging/--no-without-merging", help="Measure without shared states, too.")
    ] = True,
    without: Annotated[int, _number("Greatest number of patterns measured without indexes; 0 for none.", 0)] = 20_000,
    report: ReportOption = None,
    as_json: AsJson = False,
) -> int:
    """Cayuga's technical benchmark: many patterns of three steps over one stream, in one pass of the columnar engine.

    In three variants: with indexes, without merging (patterns that begin alike share no states), and without any (every
    event is checked against every pattern). The baseline, predicates alone, only determines the first steps an event
    satisfies.

    100,000 patterns are added in a minute, and take two gigabytes; half of it with --no-without-merging. The exit code
    is 1 where numbers of matches differ between variants.

    Examples:

      distced bench patterns --patterns 100000,200000,300000,400000

      distced bench patterns --templates all --patterns 100000

      distced bench patterns --vary zipf --patterns 100000 --report reports
    """
    _need_columnar()
    from distced.simulations.benchmarks.cayuga_queries import parse_templates
    from distced.simulations.benchmarks.patterns import VARIED

    counts = _numbers(patterns, "--patterns")
    if vary not in VARIED:
        raise DistcedError("nothing to vary", given=vary, allowed=", ".join(VARIED[1:]), where="--vary")
    given = (parse_templates(templates), counts, events, vary, merging, without)
    return _run("patterns", report, as_json, *given, total=counts[-1])


@bench.command("instances")
def bench_instances(
    instances: Annotated[str, typer.Option(metavar="N,...", help="Numbers of live instances.")] = (
        "100,1000,10000,100000,1000000"
    ),
    events: EventsOption = 500_000,
    report: ReportOption = None,
    as_json: AsJson = False,
) -> int:
    """Memory of a live instance, and the rate of events with many of them, on both engines."""
    _need_columnar()
    return _run("instances", report, as_json, _numbers(instances, "--instances"), events)


@bench.command("replay")
def bench_replay(
    events: EventsOption = 10_000_000,
    cores: Annotated[int, _number("Number of processor cores.")] = 2,
    seed: SeedOption = 1,
    report: ReportOption = None,
    as_json: AsJson = False,
) -> int:
    """Replay of a history on Spark, beside Spark's own passes over the same events.

    Compared with the time Spark needs to read, repartition and sort them, and with its mapInArrow. Each pass has
    processes of its own, bound to their cores, and runs once before without being counted. At least 1000 events.

    Example:

      distced bench replay --events 1000000
    """
    return _run("replay", report, as_json, _at_least(1_000, events), cores, seed)


@bench.command("policies")
def bench_policies(
    scenarios: Annotated[int, _number("Number of random scenarios.")] = 200,
    seed: SeedOption = 0,
    metrics: MetricsOption = "",
    processes: Annotated[int, _number("Number of scenarios that run at once.")] = 1,
    report: ReportOption = None,
    as_json: AsJson = False,
) -> int:
    """The named distribution policies against one another, on the simulated network: each at its own metric.

    All scenarios are random, and each runs under every policy; the seed counts up from scenario to scenario. The exit
    code is 1 where a policy is best at its own metric in fewer than 95 % of them.
    """
    given = (scenarios, seed, metrics, processes)
    return _run("policies", report, as_json, *given, total=scenarios, remaining=True)


@bench.command("live")
def bench_live(
    events: EventsOption = 60_000,
    rounds: RoundsOption = 3,
    seconds: Annotated[
        float, typer.Option(metavar="SECONDS", help="Duration of the delay measurement at 1,000 events/s, s.", min=1.0)
    ] = 5.0,
    report: ReportOption = None,
    as_json: AsJson = False,
) -> int:
    """A broker node against a bare paho subscriber to the same topic: rate, delay, larger frames, profile.

    The events are those of a round, at least 1000.
    """
    return _run("live", report, as_json, _at_least(1_000, events), rounds, seconds)


@bench.command("migrate")
def bench_migrate(
    moves: Annotated[int, _number("Number of moves.")] = 20,
    nodes: NodesOption = 3,
    sites: Annotated[int, _number("Number of sites, each with a server.")] = 1,
    pace: Annotated[int, typer.Option(metavar="RATE", help="Rate of events, events/s.", min=10)] = 1_000,
    waiting: Annotated[int, _number("Live instances of the detector.", 0)] = 1_000,
    ray: RayOption = True,
    seed: SeedOption = 1,
    report: ReportOption = None,
    as_json: AsJson = False,
) -> int:
    """Move a detector between nodes while it detects: delays at the subscriber, and completeness of its notifications.

    The baseline is the same run between the moves. The exit code is 1 where a move fails, or a notification is lost,
    doubled or wrong.
    """
    return _run("migrate", report, as_json, moves, _at_least(2, nodes), sites, pace, waiting, ray, seed, total=moves)


def _run(
    name: str, folder: Path | None, as_json: bool, *given: Any, total: int | None = None, remaining: bool = False
) -> int:
    """Measure with the benchmark's module, and present the report; returns the exit code."""
    benchmark = import_module(f"distced.simulations.benchmarks.{name}")
    with progress_bar(total, remaining=remaining) as on_progress:
        figures = benchmark.measure(*given, on_progress)
    return present(benchmark.report(figures), folder, as_json=as_json)


def _numbers(text: str, option: str) -> list[int]:
    """Whole numbers from 1 with commas between them, in order."""
    try:
        counts = [int(each) for each in text.split(",")]
    except ValueError:
        counts = []
    if not counts or min(counts) < 1:
        raise DistcedError("not whole numbers", given=text, allowed="numbers from 1, commas between", where=option)
    return sorted(set(counts))


def _at_least(least: int, given: int) -> int:
    """Check that a benchmark has the number of nodes or events it needs."""
    if given < least:
        raise DistcedError("too few for this benchmark", given=given, allowed=f"from {least:,}")
    return given


def _need_columnar() -> None:
    """Refuse to run without the columnar engine, and announce its compilation where it is compiled first."""
    from distced.detectors.runtime.engines import notice
    from distced.middleware.cli.output import messages

    note = notice("columnar")
    if note is not None:
        messages().print(note)

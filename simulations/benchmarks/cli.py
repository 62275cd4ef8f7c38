"""`distced bench`: what there is to measure, and what one may ask of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from distced.middleware.cli.output import AsJson

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
    from distced.simulations.benchmarks import seq3_report
    from distced.simulations.benchmarks.report import measuring, present
    from distced.simulations.benchmarks.seq3 import measure

    with measuring() as tell:
        figures = measure(events, rounds, tell)
    present(seq3_report, figures, folder=report, as_json=as_json)
    return 0 if seq3_report.sound(figures) else 1


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
    from distced.simulations.benchmarks import plan_report
    from distced.simulations.benchmarks.plan import measure
    from distced.simulations.benchmarks.report import measuring, present

    with measuring(catalogue) as tell:
        figures = measure(atoms, catalogue, rounds, seed, tell)
    present(plan_report, figures, folder=report, as_json=as_json)
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
    from distced.simulations.benchmarks import place_report
    from distced.simulations.benchmarks.place import measure
    from distced.simulations.benchmarks.report import measuring, present

    with measuring(detectors) as tell:
        figures = measure(detectors, nodes, rounds, seed, tell)
    present(place_report, figures, folder=report, as_json=as_json)
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
    from distced.simulations.benchmarks import placement_report
    from distced.simulations.benchmarks.placement import measure
    from distced.simulations.benchmarks.report import measuring, present
    from distced.simulations.placement.evaluation import parse_metrics

    wanted = parse_metrics(metrics)
    with measuring(instances, remaining=True) as tell:
        figures = measure(instances, nodes, seed, wanted, solver, tell)
    present(placement_report, figures, folder=report, as_json=as_json)
    return 0 if figures.holds else 1


@bench.command("prediction")
def bench_prediction(
    networks: Annotated[int, typer.Option(help="How many networks.", min=1)] = 10,
    seed: Annotated[int, typer.Option(help="The seed of the first network; each further one has the next.")] = 0,
    report: Annotated[Path | None, typer.Option(help="A folder for a plot.")] = None,
    as_json: AsJson = False,
) -> int:
    """What placement analysis predicts of links, beside what the simulator measures, on networks by chance.

    On each network detectors are placed by three policies and as the solver says, by what is counted of what is
    published. The exit code is 1 where a link carries more or less than predicted by a tenth.
    """
    from distced.simulations.benchmarks import prediction_report
    from distced.simulations.benchmarks.prediction import OPTIMUM, POLICIES, measure
    from distced.simulations.benchmarks.report import measuring, present

    with measuring(networks * len((*POLICIES, OPTIMUM)), remaining=True) as tell:
        figures = measure(networks, seed, tell)
    present(prediction_report, figures, folder=report, as_json=as_json)
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
    from distced.detectors.runtime.engines import chosen

    chosen("columnar", 0)
    from distced.simulations.benchmarks import patterns_report
    from distced.simulations.benchmarks.options import numbers, parse_templates, parse_vary
    from distced.simulations.benchmarks.patterns import measure_all
    from distced.simulations.benchmarks.report import measuring, present

    asked, counts = parse_templates(templates), numbers(patterns, "--patterns")
    with measuring(counts[-1]) as tell:
        figures = list(
            measure_all(asked, counts, events, vary=parse_vary(vary), merging=merging, without=without, watch=tell)
        )
    present(patterns_report, figures, folder=report, as_json=as_json)
    return 0 if patterns_report.sound(figures) else 1


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
    from distced.detectors.runtime.engines import chosen

    chosen("columnar", 0)
    from distced.simulations.benchmarks import instances_report
    from distced.simulations.benchmarks.instances import measure
    from distced.simulations.benchmarks.options import numbers
    from distced.simulations.benchmarks.report import measuring, present

    with measuring() as tell:
        figures = list(measure(numbers(instances, "--instances"), events, tell))
    present(instances_report, figures, folder=report, as_json=as_json)
    return 0


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
    from distced.simulations.benchmarks import replay_report
    from distced.simulations.benchmarks.replay import measure
    from distced.simulations.benchmarks.report import measuring, present

    with measuring() as tell:
        figures = measure(events, cores, seed, tell)
    present(replay_report, figures, folder=report, as_json=as_json)
    return 0


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
    from distced.simulations.benchmarks.report import measuring, present
    from distced.simulations.experiments import comparison_report as policies_report
    from distced.simulations.experiments.comparison import compare_many

    wanted = policies_report.parse_metrics(metrics)
    compared = []
    with measuring(scenarios, remaining=True) as tell:
        for done, each in enumerate(compare_many(range(seed, seed + scenarios), wanted, processes), 1):
            compared.append(each)
            tell("scenarios", done)
    found = policies_report.standings(compared)
    present(policies_report, found, folder=report, as_json=as_json)
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
    from distced.middleware.cli.output import messages
    from distced.simulations.benchmarks import live_report
    from distced.simulations.benchmarks.live import measure
    from distced.simulations.benchmarks.report import present

    with messages().status("measuring, for a minute or two"):
        figures = measure(events, rounds, seconds=seconds)
    present(live_report, figures, folder=report, as_json=as_json)
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
    from distced.middleware.cli.logs import configure_logging
    from distced.simulations.benchmarks import migrate_report
    from distced.simulations.benchmarks.migrate import measure
    from distced.simulations.benchmarks.report import measuring, present

    configure_logging()
    with measuring(moves) as tell:
        figures = measure(
            moves,
            ray=ray,
            nodes=nodes,
            sites=sites,
            pace=pace,
            waiting=waiting,
            seed=seed,
            tell=lambda done: tell("moving", done),
        )
    present(migrate_report, figures, folder=report, as_json=as_json)
    return 0 if figures.sound else 1

"""`distced bench`: the benchmarks as verbs."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from inspect import signature
from typing import Annotated, Any, TypeAlias

import typer

from distced.middleware.cli.output import AsJson
from distced.middleware.cli.output_files import ForceOption, check_report
from distced.middleware.model.errors import DistcedError
from distced.simulations.options import RayOption, ReportOption, SeedOption, SolverOption
from distced.simulations.report import present, progress_bar

bench = typer.Typer(
    add_completion=False, rich_markup_mode=None, no_args_is_help=True, help="Measure distced against baselines."
)


def _benchmark(
    *, steps: bool = False, remaining: bool = False, module: str = ""
) -> Callable[[Callable[..., Any]], Callable[..., int]]:
    """The verb of a benchmark: the options of a function, `--report`, `--force` and `--json`.

    The module named like the verb measures with the values of the options, or with those that the function returns.

    Args:
        steps, remaining: of `progress_bar`.
        module: name of the module, where it differs from that of the verb.
    """

    def decorate(options: Callable[..., Any]) -> Callable[..., int]:
        name = options.__name__.removeprefix("bench_").replace("_", "-")
        declared = signature(options, eval_str=True)

        def verb(report: ReportOption = None, force: ForceOption = False, as_json: AsJson = False, **given: Any) -> int:
            check_report(report, [f"{name}.md", f"{name}.csv"], force=force)
            values = options(**given) or [given[each] for each in declared.parameters]
            benchmark = import_module(f"distced.simulations.benchmarks.{module or name.replace('-', '_')}")
            with progress_bar(steps=steps, remaining=remaining) as on_progress:
                figures = benchmark.measure(*values, on_progress)
            return present(benchmark.report(figures), report, as_json=as_json)

        own = [each for each in signature(verb, eval_str=True).parameters.values() if each.name != "given"]
        verb.__signature__ = declared.replace(parameters=[*declared.parameters.values(), *own])  # type: ignore[attr-defined]
        verb.__annotations__ |= options.__annotations__
        verb.__doc__ = options.__doc__
        return bench.command(name)(verb)

    return decorate


def _number(text: str, least: int = 1) -> Any:
    """An option that is a whole number."""
    return typer.Option(metavar="N", help=text, min=least)


EventsOption: TypeAlias = Annotated[int, _number("Number of events.")]
SeveralNodesOption: TypeAlias = Annotated[int, _number("Number of broker nodes.", 2)]
RoundsOption: TypeAlias = Annotated[int, _number("Rounds of each measurement.")]
MetricsOption: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="NAME,...",
        help="Some of latency, bandwidth, load, reliability and, for policies, impact; all if empty.",
    ),
]


@_benchmark()
def bench_seq3(events: EventsOption = 200_000, rounds: RoundsOption = 3) -> None:
    """A, then B, then C with one key within 5 s: both engines, programs written for it by hand, and DuckDB.

    The best round of each counts. Implementations in Python get a million events at most. Ten million events are
    generated in some 10 s.
    """


@_benchmark()
def bench_sliding(events: EventsOption = 200_000, rounds: RoundsOption = 3) -> None:
    """Aggregates over sliding windows, and throttled types: both engines, and Python written by hand.

    The best round of each counts, in processor time; the cost of the pattern without the aggregate is subtracted. The
    exit code is 1 where the engines give different values.
    """


@_benchmark(steps=True)
def bench_plan(
    atoms: Annotated[int, _number("Atoms of each pattern.", 10)] = 100,
    catalogue: Annotated[int, _number("Sub-patterns in the catalogue.", 10)] = 10_000,
    rounds: RoundsOption = 20,
    seed: SeedOption = 1,
) -> None:
    """Plan a large pattern against a catalogue of detectors, three shapes of pattern, none to many reused.

    The baselines are compiling the same pattern, and the canonical id of each of its sub-patterns as a lookup. The exit
    code is 1 where a detector is reused that detects something else.
    """


@_benchmark(steps=True)
def bench_place(
    detectors: Annotated[int, _number("Number of running detectors.")] = 1_000,
    nodes: SeveralNodesOption = 100,
    rounds: RoundsOption = 20,
    seed: SeedOption = 1,
) -> None:
    """Place one more detector where a thousand run, under each named policy; and the cost of a node's decision.

    The baseline is a situation that is built again from the directory each time.
    """


@_benchmark(steps=True, remaining=True)
def bench_placement(
    instances: Annotated[int, _number("Number of random instances.")] = 50,
    nodes: Annotated[int, _number("Greatest number of broker nodes.", 5)] = 200,
    seed: SeedOption = 0,
    metrics: MetricsOption = "",
    solver: SolverOption = 10.0,
) -> tuple[Any, ...]:
    """Distance of the placements of the named policies from the optimum, on random networks.

    The optimum is that of a mixed-integer programme. The seed counts up from instance to instance. The exit code is 1
    where the best heuristic is more than 2 % from the optimum at the median.
    """
    from distced.simulations.placement.evaluation import parse_metrics

    return instances, nodes, seed, parse_metrics(metrics), solver


@_benchmark(steps=True, remaining=True)
def bench_prediction(
    networks: Annotated[int, _number("Number of random networks.")] = 10,
    seed: SeedOption = 0,
) -> None:
    """Traffic of links as placement analysis predicts it and as the simulator measures it, on random networks.

    On each network detectors are placed by three policies and by the solver, from counts of the published events. The
    seed counts up from network to network. The exit code is 1 where a link carries more or less than predicted by a
    tenth.
    """


@_benchmark(steps=True)
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
    language: Annotated[
        str, typer.Option(metavar="NAME", help="Language of the templates: core, or cel, Cayuga's own.")
    ] = "core",
) -> tuple[Any, ...]:
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

      distced bench patterns --templates all --language cel --patterns 10000
    """
    _need_columnar()
    from distced.simulations.benchmarks.cayuga_queries import LANGUAGES, parse_templates
    from distced.simulations.benchmarks.patterns import VARIED

    counts = _numbers(patterns, "--patterns")
    if vary not in VARIED:
        raise DistcedError("nothing to vary", given=vary, allowed=", ".join(VARIED[1:]), where="--vary")
    if language not in LANGUAGES:
        raise DistcedError("no such language", given=language, allowed=", ".join(LANGUAGES), where="--language")
    return parse_templates(templates), counts, events, vary, merging, without, language


@_benchmark()
def bench_instances(
    instances: Annotated[str, typer.Option(metavar="N,...", help="Numbers of live instances.")] = (
        "100,1000,10000,100000,1000000"
    ),
    events: EventsOption = 500_000,
) -> tuple[Any, ...]:
    """Memory of a live instance, and the rate of events with many of them, on both engines."""
    _need_columnar()
    return _numbers(instances, "--instances"), events


@_benchmark()
def bench_double_top(
    events: EventsOption = 100_000,
    averages: Annotated[
        str, typer.Option(metavar="N,...", help="Days of the average that smooths prices.")
    ] = "1,2,5,10",
    seed: SeedOption = 1,
) -> tuple[Any, ...]:
    """Cayuga's double tops in quotes of 24 companies, by µ and by resubscription: rate and memory of both engines.

    The exit code is 1 where the formulations find different numbers of double tops.
    """
    _need_columnar()
    return events, _numbers(averages, "--averages"), seed


@_benchmark()
def bench_replay(
    events: Annotated[int, _number("Number of events.", 1_000)] = 10_000_000,
    cores: Annotated[int, _number("Number of processor cores.")] = 2,
    seed: SeedOption = 1,
) -> None:
    """Replay of a history on Spark, beside Spark's own passes over the same events.

    Compared with the time Spark needs to read, repartition and sort them, and with its mapInArrow. Each pass has
    processes of its own, bound to their cores, and runs once before without being counted.

    Example:

      distced bench replay --events 1000000
    """


@_benchmark(steps=True, remaining=True)
def bench_policies(
    scenarios: Annotated[int, _number("Number of random scenarios.")] = 200,
    seed: SeedOption = 0,
    metrics: MetricsOption = "",
    processes: Annotated[int, _number("Number of scenarios that run at once.")] = 1,
) -> None:
    """The named distribution policies against one another, on the simulated network: each at its own metric.

    All scenarios are random, and each runs under every policy; the seed counts up from scenario to scenario. The exit
    code is 1 where a policy is best at its own metric in fewer than 97 % of them.
    """


@_benchmark()
def bench_live(
    events: Annotated[int, _number("Number of events.", 1_000)] = 60_000,
    rounds: RoundsOption = 3,
    seconds: Annotated[
        float, typer.Option(metavar="SECONDS", help="Duration of the delay measurement at 1,000 events/s, s.", min=1.0)
    ] = 5.0,
) -> None:
    """A broker node against a bare paho subscriber to the same topic: rate, delay, larger frames, profile.

    The events are those of a round.
    """


@_benchmark(steps=True, remaining=True, module="many_subscriptions")
def bench_node(
    subscriptions: Annotated[str, typer.Option(metavar="N,...", help="Numbers of subscriptions.")] = "1,100,1000,10000",
    frames: Annotated[str, typer.Option(metavar="N,...", help="Numbers of events a message.")] = "1,50",
    kinds: Annotated[
        str,
        typer.Option(metavar="KIND,...", help="Kinds of patterns: device, keyed, filter, absence, prefix."),
    ] = "device",
    events: Annotated[int, _number("Number of events of a round, ten times as many in larger frames.", 100)] = 30_000,
    rounds: RoundsOption = 3,
    seconds: Annotated[
        float, typer.Option(metavar="SECONDS", help="Duration of the delay measurement, s.", min=0.1)
    ] = 5.0,
    pace: Annotated[int, typer.Option(metavar="RATE", help="Rate of events for delays, events/s.", min=10)] = 1_000,
) -> tuple[object, ...]:
    """A broker node with many subscriptions: rate, delay, memory, time to subscribe; best effort and guaranteed.

    Beside it a bare paho subscriber, and the node's engines fed without a server.
    """
    from distced.simulations.benchmarks.many_subscriptions import KINDS

    chosen = _several(kinds, "kinds")
    for each in chosen:
        if each not in KINDS:
            raise DistcedError("unknown kind of pattern", given=each, allowed=", ".join(KINDS), where="--kinds")
    numbers = (tuple(_count(each, where) for each in _several(text, where)) for text, where in
               ((subscriptions, "subscriptions"), (frames, "frames")))  # fmt: skip
    return (*numbers, chosen, events, rounds, seconds, pace)


@_benchmark(steps=True)
def bench_recovery(
    detectors: Annotated[int, _number("Number of detectors.")] = 10_000,
    instances: Annotated[int, _number("Number of their instances.")] = 1_000_000,
    events: Annotated[int, _number("Tenth of the number of events of a round.", 100)] = 30_000,
    rounds: RoundsOption = 3,
) -> None:
    """What checkpoints cost a broker node: processor time, the longest pause, and the rate with and without them."""


@_benchmark(steps=True)
def bench_detection(
    seconds: Annotated[
        float, typer.Option(metavar="SECONDS", help="Virtual time of each network, s.", min=1.0)
    ] = 600.0,
    seed: SeedOption = 1,
) -> None:
    """Delay and errors of the detection policies, on networks with several distributions of delays, in virtual time.

    The exit code is 1 where guaranteed detection is wrong, or waits for more than a heartbeat on the steady network;
    where more events turn out unstable than a probabilistic policy allows; or where probabilistic(0.99) does not halve
    the delay beside a source with a heavy tail.
    """


@_benchmark(steps=True, remaining=True)
def bench_soak(
    hours: Annotated[float, typer.Option(metavar="HOURS", help="Time in the office.", min=0.1)] = 24.0,
    seed: SeedOption = 1,
) -> None:
    """A day of the Active Office through a live node with checkpoints, at speed, and the memory of the node.

    The exit code is 1 where the last quarter takes more memory than the second by a tenth, or a composite event is not
    that of one engine.
    """


@_benchmark(steps=True)
def bench_disturbance(
    subscriptions: Annotated[int, _number("Number of subscriptions.")] = 10_000,
    hostile: Annotated[int, _number("Number of subscriptions of a hostile client.")] = 100_000,
    pace: Annotated[int, typer.Option(metavar="RATE", help="Rate of events, events/s.", min=10)] = 500,
    seconds: Annotated[
        float, typer.Option(metavar="SECONDS", help="Duration of a delay measurement, s.", min=0.1)
    ] = 10.0,
    soak: Annotated[
        float, typer.Option(metavar="SECONDS", help="Duration of the memory measurement, s; 0 for none.", min=0.0)
    ] = 60.0,
    rounds: Annotated[int, _number("Number of rounds of the baseline and the hostile client, in turns.")] = 1,
) -> None:
    """Many subscriptions under disturbance: hostile client, long run, loss and return of the node.

    A node takes over the subscriptions of one that is killed; then it is killed, too, and started again.
    """


@_benchmark(steps=True)
def bench_hostile(
    pace: Annotated[int, typer.Option(metavar="RATE", help="Rate of honest events, events/s.", min=10)] = 200,
    seconds: Annotated[
        float, typer.Option(metavar="SECONDS", help="Duration of each delay measurement, s.", min=0.1)
    ] = 3.0,
    size: Annotated[int, _number("Number of hostile subscriptions, and measure of the other attacks.")] = 100_000,
    attacks: Annotated[str, typer.Option(metavar="NAME,...", help="These attacks; all of them if left out.")] = "",
    rounds: RoundsOption = 3,
) -> tuple[int, float, int, tuple[str, ...], int]:
    """Honest detections beside a client with valid rights and the worst intentions: delays of each attack."""
    return pace, seconds, size, _several(attacks, "attacks") if attacks else (), rounds


def _several(text: str, option: str) -> tuple[str, ...]:
    """Values of an option that are separated by commas."""
    found = tuple(each.strip() for each in text.split(",") if each.strip())
    if not found:
        raise DistcedError("no value", given=text, allowed="values separated by commas", where=f"--{option}")
    return found


def _count(text: str, option: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise DistcedError("not a number", given=text, allowed="1 or more", where=f"--{option}")
    return int(text)


@_benchmark(steps=True)
def bench_migrate(
    moves: Annotated[int, _number("Number of moves.")] = 20,
    nodes: SeveralNodesOption = 3,
    sites: Annotated[int, _number("Number of sites, each with a server.")] = 1,
    pace: Annotated[int, typer.Option(metavar="RATE", help="Rate of events, events/s.", min=10)] = 1_000,
    waiting: Annotated[int, _number("Live instances of the detector.", 0)] = 1_000,
    others: Annotated[int, _number("Number of other detectors of the same events.", 0)] = 0,
    ray: RayOption = None,
    seed: SeedOption = 1,
) -> None:
    """Move a detector between nodes while it detects: delays at the subscriber, and completeness of its notifications.

    The baseline is the same run between the moves. The exit code is 1 where a move fails, or a notification is lost,
    doubled or wrong.
    """


def _numbers(text: str, option: str) -> list[int]:
    """Whole numbers from 1 with commas between them, in order."""
    try:
        counts = [int(each) for each in text.split(",")]
    except ValueError:
        counts = []
    if not counts or min(counts) < 1:
        raise DistcedError("not whole numbers", given=text, allowed="numbers from 1, commas between", where=option)
    return sorted(set(counts))


def _need_columnar() -> None:
    """Refuse to run without the columnar engine, and announce its compilation where it is compiled first."""
    from distced.detectors.runtime.engines import notice
    from distced.middleware.cli.output import messages

    note = notice("columnar")
    if note is not None:
        messages().print(note)

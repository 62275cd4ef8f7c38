"""`distced place`: best placement of the detectors of patterns, from a history."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from distced.detectors.cli.pattern_options import LanguageOption
from distced.middleware.cli.output import AsJson, messages, output, print_json, show_notes
from distced.middleware.cli.output_files import ForceOption, check_output
from distced.middleware.model.errors import DistcedError
from distced.simulations.options import HistoryOption, SeedOption, SolverOption
from distced.simulations.replay.runners import INLINE

if TYPE_CHECKING:
    from distced.policies.topology.model import Place
    from distced.policies.topology.topology import Topology

WITHIN: Final = 0.1
"""Greatest relative difference between prediction and measurement on a link."""


def place(
    history: HistoryOption,
    topology: Annotated[Path, typer.Option(metavar="FILE", help="Topology of the network, TOML.")],
    patterns: Annotated[str, typer.Option(metavar="PATTERN|FILE", help="Pattern file, or a pattern.")],
    language: LanguageOption = "",
    metric: Annotated[
        Literal["bandwidth", "latency", "load", "reliability"], typer.Option(help="Metric of the best placement.")
    ] = "bandwidth",
    subscriber: Annotated[
        list[str] | None,
        typer.Option(metavar="[PATTERN=]NAME", help="Subscriber of the topology, to all patterns or one; repeatable."),
    ] = None,
    near: Annotated[
        list[str] | None,
        typer.Option(metavar="[PATTERN=]SITE", help="Site with a subscriber to all patterns or one; repeatable."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the best placement as hints for distced broker --hints.")
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the best placement on the topology: .svg, .png, .dot, .mmd."),
    ] = None,
    force: ForceOption = False,
    what_if: Annotated[
        bool,
        typer.Option("--what-if", help="Replay the beginning of the history in the simulator, and compare links."),
    ] = False,
    candidate: Annotated[
        list[str] | None,
        typer.Option(metavar="POLICY", help="With --what-if: another policy to replay; repeatable."),
    ] = None,
    seed: SeedOption = 0,
    solver: SolverOption = 60.0,
    master: Annotated[
        str, typer.Option(metavar="URL", help="Spark master for the count of days, or inline to count without Spark.")
    ] = INLINE,
    figures: Annotated[
        bool, typer.Option("--figures", help="Show sources, sub-patterns, and the traffic between sites, too.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Compute the best placement of the detectors of patterns, given a history.

    The patterns and all sub-patterns they may be cut into are counted in the history; each named policy places their
    detectors, and a solver finds the optimum. With --what-if the simulator runs the policy of the metric and the
    optimum, with --candidate other policies, and the exit code is 1 where a prediction is off by more than a tenth on a
    link, or detectors have moved.

    \b
    Examples:
      distced place --history history --topology building.toml --patterns office.pattern --near street
      distced place --history history --topology building.toml --patterns office.pattern --subscriber facility \\
        --metric load --out hints.json --picture load.svg
    """
    from distced.detectors.pattern_files import compile_source, read_source
    from distced.policies.distribution.hint_files import write_hints
    from distced.policies.distribution.policy import parse_policy
    from distced.policies.topology.topology_file import load_topology
    from distced.simulations.placement.analysis import OPTIMUM, REPLANNED, analyse
    from distced.simulations.placement.analysis_report import as_dict, overlay_of, show
    from distced.simulations.placement.evaluation import OWN
    from distced.simulations.placement.history_figures.measuring import (
        counts_of,
        instance_of,
        located,
        opened,
        registry_of,
        sources_of,
        wanted_types,
    )
    from distced.simulations.placement.optimum.search_space import PatternRequest, space_of
    from distced.simulations.placement.what_if import recorded_of, replay_option

    check_output("--out", out, force=force, inputs=[topology, patterns, picture])
    check_output("--picture", picture, force=force, inputs=[topology, patterns])
    planned = (REPLANNED, OPTIMUM)
    recorded, network = opened(history), load_topology(topology)
    policies = [parse_policy(each, where="--candidate") for each in candidate or () if each not in planned]
    compiled = compile_source(read_source(patterns, language), registry_of(recorded))
    names = [
        each.publishes.name if each.publication.output is not None else f"pattern {number}"
        for number, each in enumerate(compiled.compiled, 1)
    ]
    space = space_of(
        [
            PatternRequest(name, each, _subscribers(subscriber or (), near or (), network, topology, name, names))
            for name, each in zip(names, compiled.compiled, strict=True)
        ]
    )
    sources = located(sources_of(recorded, wanted_types(space)), network)
    console = messages()
    with console.status("counting") as status:
        counts = counts_of(recorded, history, compiled.source, space, sources, master, status.update)
        instance = instance_of(counts, space, network, sources)
        found = analyse(instance, metric, further=policies, seconds=solver, on_progress=status.update)
        simulated = [OWN[metric], OPTIMUM] if what_if else []
        simulated += [each.text for each in policies] + [each for each in planned if each in (candidate or ())]
        replayed = []
        if simulated:
            beginning = recorded_of(recorded, space, sources)
            for name in dict.fromkeys(simulated):
                status.update(f"simulating {name}")
                replayed += replay_option(found, beginning, name, seed)
    if as_json:
        print_json(as_dict(found, counts, replayed))
    else:
        show(output(), found, counts, replayed, figures=figures)
    if out is not None:
        texts = {name: entry.pattern for name, entry in found.best.detectors.items()}
        write_hints(out, metric, texts, found.hints())
    if picture is not None:
        from distced.detectors.cli.explain import write
        from distced.detectors.drawing.diagram import drawn, form_of
        from distced.policies.topology.topology_drawing import topology_diagram

        write(drawn(topology_diagram(network, overlay_of(found)), form_of(picture)), picture)
    show_notes([*compiled.notes, *(f"{each.where}: {each.error}" for each in recorded.problems)])
    return 0 if all(each.settled and each.worst <= WITHIN for each in replayed) else 1


def _subscribers(
    subscribers: Sequence[str], near: Sequence[str], network: Topology, file: Path, name: str, names: Sequence[str]
) -> tuple[Place, ...]:
    """Places of the subscribers of a pattern: those named for it, else those named for all."""
    from distced.policies.explaining.deployment import subscribers_of

    own, sites = ([each for each in (_of(one, name, names) for one in given) if each] for given in (subscribers, near))
    return subscribers_of(network, own, sites, str(file))


def _of(given: str, name: str, names: Sequence[str]) -> str:
    """The name in `PATTERN=NAME`, where it is for this pattern, or in `NAME`; empty where it is for another."""
    pattern, sign, subscriber = given.rpartition("=")
    if not sign:
        return given
    if pattern not in names:
        raise DistcedError("there is no pattern of this name", given=pattern, allowed=", ".join(names),
                           where="--subscriber, --near")  # fmt: skip
    return subscriber if pattern == name else ""

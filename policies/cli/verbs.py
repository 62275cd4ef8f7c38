"""The verbs of policies.

`test` runs conformance cases, also on cut patterns under guaranteed detection; `explain` shows patterns, how they are
cut, and where a policy would have their detectors; `topology` shows a deployment, or makes one up.

What takes time to import is imported inside the verb that needs it.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from distced.detectors.cli.verbs import (
    Consumption,
    ConsumptionOption,
    MappingOption,
    PatternArgument,
    TypesOption,
    registry_of,
)
from distced.middleware.cli.output import AsJson
from distced.middleware.model.errors import DistcedError


class Cut(StrEnum):
    """How patterns are cut."""

    NONE = "none"
    FULL = "full"
    RANDOM = "random"


class Shown(StrEnum):
    """What `explain` writes."""

    TEXT = "text"
    SVG = "svg"
    DOT = "dot"
    JSON = "json"


class Decomposition(StrEnum):
    """How patterns are cut into detectors."""

    NONE = "none"
    FULL = "full"
    FOR_REUSE = "for-reuse"


class Format(StrEnum):
    """What `topology` writes."""

    TEXT = "text"
    SVG = "svg"
    DOT = "dot"
    JSON = "json"
    TOML = "toml"


class RandomKind(StrEnum):
    """How the sites of a topology made by chance are linked."""

    STAR = "star"
    RING = "ring"
    TREE = "tree"
    GEOMETRIC = "geometric"
    METRO = "metro"


def test(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files of cases, or folders of them.")],
    engine: Annotated[str, typer.Option("--engine", help="The engine to run them on.")] = "stepwise",
    cut: Annotated[
        Cut | None,
        typer.Option("--cut", help="Run each pattern as a graph of detectors, with any delays between them."),
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="With --cut: what chance begins with.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every failure in full.")] = False,
    as_json: AsJson = False,
) -> int:
    """Run conformance cases: patterns, events, what must be found.

    With --cut the patterns are cut into sub-patterns, wherever that is allowed (full) or somewhere (random), or not at
    all (none), and run as a graph of detectors under guaranteed detection: messages between them are delayed at random,
    and arrive in an order that depends on the seed. What is found must be the same.

    The exit code is 1 if any case fails. How cases are written: docs/reference/command-line.md.

    \b
    Examples:
      distced test tests/conformance
      distced test my-cases.toml --verbose
      distced test tests/conformance --cut random --seed 7
    """
    from distced.detectors.cli.test import run_cases, show_results

    if cut is None:
        if seed is not None:
            raise DistcedError("--seed without --cut", given=seed, advice="nothing is left to chance without --cut")
        results = run_cases(files, engine)
    else:
        from distced.policies.cut_cases import cut_run

        how = cut.value if cut is Cut.NONE else f"{cut.value}, seed {seed or 0}"
        results = run_cases(files, engine, cut_run(cut.value, seed or 0), cut=how)
    show_results(results, in_full=verbose, as_json=as_json)
    return results.exit_code


def explain(
    pattern: PatternArgument,
    form: Annotated[Shown, typer.Option("--format", help="How it is shown.")] = Shown.TEXT,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write to this file.")] = None,
    types: TypesOption = None,
    mapping: MappingOption = None,
    consumption: ConsumptionOption = Consumption.ORDERED,
    cuts: Annotated[
        bool, typer.Option("--cuts", help="Show which sub-patterns may become detectors of their own.")
    ] = False,
    decomposition: Annotated[
        Decomposition | None, typer.Option("--decomposition", help="Show the detectors that detect it together.")
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option("--policy", help="Show where a distribution policy would have them: its name, words, or all."),
    ] = None,
    topology: Annotated[
        Path | None, typer.Option("--topology", metavar="FILE", help="With --policy: the network, or - for one.")
    ] = None,
    subscriber: Annotated[
        list[str] | None,
        typer.Option("--subscriber", metavar="NAME", help="With --policy: who subscribes; repeatable."),
    ] = None,
    near: Annotated[
        list[str] | None,
        typer.Option("--near", metavar="SITE", help="With --policy: somebody at this site does; repeatable."),
    ] = None,
    running: Annotated[
        Path | None,
        typer.Option(
            "--running",
            metavar="FILE",
            help="With for-reuse or --policy: a pattern file of what is detected already.",
        ),
    ] = None,
    on: Annotated[
        list[str] | None, typer.Option("--on", metavar="NODE", help="Hint: a node that may be taken; repeatable.")
    ] = None,
    avoid: Annotated[
        list[str] | None, typer.Option("--avoid", metavar="NODE", help="Hint: one that may not; repeatable.")
    ] = None,
    rate: Annotated[
        list[str] | None,
        typer.Option("--rate", metavar="TYPE=NUMBER", help="Hint: events a second, in place of the topology's."),
    ] = None,
    selectivity: Annotated[
        float | None,
        typer.Option("--selectivity", help="Hint: composite events for each event.", show_default=False),
    ] = None,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="With --cuts: list single atoms. With --policy all: show each in full."),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Show a pattern and its automaton; how it is cut into detectors; where these would stand.

    The automaton has a circle for each state and an arrow for each way on. A state looks at the events of its domain
    and at no others; an instance there takes every way on that fits, or fails by an event of the domain that fits none.
    Generative states (double circles) emit a composite event or set off a time event.

    With --cuts it shows which sub-patterns may become detectors of their own, and why the others may not; with
    --decomposition the graph of detectors for all patterns of a file together. With for-reuse these read what the
    patterns of another file, which run already, have detectors for.

    With --policy it shows what a distribution policy would do in the network of a topology: which detectors would be
    created and which reused, on which nodes, what that means for links, nodes and delays, why, and what came next.

    \b
    Examples:
      distced explain '[A] ; ~[B]* [B]'
      distced explain '([A], [T <= {T, B}]) @ T = 5min' --format svg --out pattern.svg
      distced explain office.pattern --format dot | dot -Tpdf > office.pdf
      distced explain '[A] ; [B]* ; [C]' --cuts
      distced explain office.pattern --decomposition full --format svg --out detectors.svg
      distced explain '[A] ; [B] ; [C]' --decomposition for-reuse --running office.pattern
      distced explain '[A] ; [B]' --policy min-bandwidth --topology building.toml --subscriber facility
      distced explain '[A] ; [B]' --policy all --topology building.toml --near street
    """
    registry = registry_of(types, mapping)
    shown: Literal["text", "svg", "dot", "json"] = (Shown.JSON if as_json else form).value
    consumed: Literal["ordered", "epoch"] = "epoch" if consumption == Consumption.EPOCH else "ordered"
    if policy is None:
        from distced.detectors.cli.explain import Explain, explain_patterns

        _only_with_policy(
            topology=topology, subscriber=subscriber, near=near, on=on, avoid=avoid, rate=rate, selectivity=selectivity
        )
        cut_as: Literal["none", "full", "for-reuse"] | None = None if decomposition is None else decomposition.value
        wanted = Explain(pattern, shown, out, registry, consumed, cuts, cut_as, running, verbose)
        explain_patterns(wanted)
        return 0
    from distced.policies.cli.explain import ALL, Wanted, explain_placement
    from distced.policies.distribution.choose.hints import read_hints

    if cuts or decomposition is not None or (verbose and policy != ALL):
        raise DistcedError(
            "options that do not go with --policy",
            given="--cuts" if cuts else "--decomposition" if decomposition is not None else "--verbose",
            advice="a policy says itself what is cut; --verbose goes with --policy all, or with --cuts",
        )
    hints = read_hints(on or (), avoid or (), rate or (), selectivity)
    explain_placement(
        Wanted(
            pattern, policy, topology, tuple(subscriber or ()), tuple(near or ()), running, hints, shown, out, registry,
            consumed, verbose,
        )
    )  # fmt: skip
    return 0


def _only_with_policy(**given: object) -> None:
    """Refuse options that say nothing without a policy."""
    said = [f"--{name}" for name, value in given.items() if value not in (None, [])]
    if said:
        raise DistcedError(
            "options for --policy, and none is named",
            given=", ".join(said),
            advice="--policy min-latency, or another one; --policy all shows them side by side",
        )


def topology(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A topology, or - for one on standard input.")
    ] = None,
    form: Annotated[
        Format | None,
        typer.Option("--format", help="How it is shown: text, or toml for one that is made up.", show_default=False),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write to this file.")] = None,
    random: Annotated[
        RandomKind | None, typer.Option("--random", help="Make one up, with sites linked in this way.")
    ] = None,
    sites: Annotated[int | None, typer.Option("--sites", help="With --random: how many; 6 unless said.")] = None,
    nodes: Annotated[int | None, typer.Option("--nodes", help="With --random: broker nodes; 6 unless said.")] = None,
    publishers: Annotated[int | None, typer.Option("--publishers", help="With --random: 8 unless said.")] = None,
    subscribers: Annotated[int | None, typer.Option("--subscribers", help="With --random: 3 unless said.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="With --random: what chance begins with; 0.")] = None,
    as_json: AsJson = False,
) -> int:
    """Show a topology: sites, who is there, links; or make one up.

    A topology is a TOML file of sites (MQTT servers), broker nodes, publishers, subscribers and links with latency,
    bandwidth and cost. It is checked; what is no error and yet worth saying goes to standard error.

    With --random a topology of so many parts is made, the same for the same seed.

    \b
    Examples:
      distced topology office.toml
      distced topology office.toml --format svg --out office.svg
      distced topology --random metro --sites 12 --seed 7 > metro.toml
      distced topology --random star | distced topology - --format svg --out star.svg
    """
    from distced.policies.cli.topology import Wanted, show_topology

    counts = {"sites": sites, "nodes": nodes, "publishers": publishers, "subscribers": subscribers}
    given = {name: count for name, count in counts.items() if count is not None}
    if as_json:
        form = Format.JSON
    elif form is None:
        form = Format.TEXT if random is None else Format.TOML
    show_topology(Wanted(file, None if random is None else random.value, given, seed), form.value, out)
    return 0

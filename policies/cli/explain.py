"""The verb `explain`: a pattern and its automaton, its cuts, and the placement of its detectors by a policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer
from rich.console import RenderableType

from distced.detectors.cli.explain import (
    ExplainOptions,
    explain_patterns,
    running_patterns,
    with_published,
    write,
    write_json,
    write_text,
)
from distced.detectors.cli.pattern_options import registry_of
from distced.detectors.drawing.diagram import drawn
from distced.detectors.pattern_files import compile_source, read_source
from distced.middleware.cli.options import verb
from distced.middleware.cli.output import show_notes
from distced.middleware.model.errors import DistcedError
from distced.policies.cli.hint_options import AllowedNodes, EventRates, ExcludedNodes, Selectivity
from distced.policies.distribution.choose.hints import read_hints
from distced.policies.distribution.policy import NAMED, Policy, parse_policy
from distced.policies.distribution.situation.situation import Situation
from distced.policies.explaining.deployment import entries_of, subscribers_of, unpublished
from distced.policies.explaining.explained import Explained, ExplainRequest, explained_by
from distced.policies.explaining.placement_text import comparison_as_text, explained_as_text, overlay_of
from distced.policies.topology.topology import Topology
from distced.policies.topology.topology_file import load_topology

ALL: Final = "all"
"""Value of --policy for the named policies side by side."""


_Names: TypeAlias = list[str] | None


def _named(option: str, metavar: str, text: str) -> Any:
    return typer.Option(option, metavar=metavar, help=f"{text}; repeatable.")


@dataclass(frozen=True)
class PlacementOptions(ExplainOptions):
    """Options of `distced explain`: those of a placement beside those of a pattern."""

    policy: Annotated[
        str | None,
        typer.Option("--policy", metavar="POLICY", help="Placement by this policy: a name, three words, or all."),
    ] = None
    topology: Annotated[
        Path | None, typer.Option("--topology", metavar="FILE", help="With --policy: topology, - for standard input.")
    ] = None
    subscriber: Annotated[_Names, _named("--subscriber", "NAME", "With --policy: subscriber of the topology")] = None
    near: Annotated[_Names, _named("--near", "SITE", "With --policy: site with a subscriber")] = None
    on: AllowedNodes = None
    avoid: ExcludedNodes = None
    rate: EventRates = None
    selectivity: Selectivity = None


@verb
def explain(options: PlacementOptions) -> int:
    """Show a pattern and its automaton, the detectors of its cut, and their placement by a policy.

    The automaton has a box for each state and an arrow for each move. A state looks at the events of its domain and at
    no others; an instance there takes every move that fits, or fails by an event of the domain that fits none.
    Generative states (yellow) emit a composite event (double frame) or set off a time event.

    Graphviz draws svg and png; dot and mermaid are the same drawing as text and need nothing installed.

    With --cuts it shows which sub-patterns may become detectors of their own, and why the others may not; with
    --decomposition the graph of detectors for all patterns of a file together. With for-reuse these read what the
    patterns of another file, which run already, have detectors for.

    With --policy it places the detectors in the network of a topology: new and reused ones with their nodes, traffic of
    links, load of nodes, delays, the reason, and the next best candidates.

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
    if options.policy is None:
        _check_without_policy(options)
        explain_patterns(options)
    else:
        _check_with_policy(options)
        explain_placement(options, options.policy)
    return 0


def explain_placement(options: PlacementOptions, policy: str) -> None:
    """Show what a policy would do, or all of them."""
    options.check_out(options.topology)
    policies = _policies(options)
    topology = _topology(options)
    asked, notes = _asked(options, topology)
    situation = Situation.of(entries_of(topology), topology)
    tried = {each.text: explained_by(each, asked, situation) for each in policies}
    done = [each for each in tried.values() if isinstance(each, Explained)]
    if not done:
        raise next(each for each in tried.values() if isinstance(each, DistcedError))
    match options.form:
        case "json":
            write_json({"policies": _documents(tried), "notes": notes}, options.out)
            return
        case "text":
            write_text(_texts(options, tried), options.out, soft_wrap=False)
        case form:
            from distced.policies.topology.topology_drawing import topology_diagram

            write(drawn(topology_diagram(topology, overlay_of(done[0])), form), options.out)
    show_notes(notes)


# What is given.


def _check_without_policy(options: PlacementOptions) -> None:
    """Refuse options that say nothing without a policy."""
    names = ("topology", "subscriber", "near", "on", "avoid", "rate", "selectivity")
    said = [f"--{name}" for name in names if getattr(options, name) not in (None, [])]
    if said:
        raise DistcedError(
            "options for --policy, and none is named",
            given=", ".join(said),
            advice="--policy min-latency, or another one; --policy all shows them side by side",
        )


def _check_with_policy(options: PlacementOptions) -> None:
    if options.cuts or options.decomposition is not None or (options.verbose and options.policy != ALL):
        raise DistcedError(
            "options that do not go with --policy",
            given="--cuts" if options.cuts else "--decomposition" if options.decomposition is not None else "--verbose",
            advice="a policy says itself what is cut; --verbose goes with --policy all, or with --cuts",
        )


def _policies(options: PlacementOptions) -> Sequence[Policy]:
    if options.policy != ALL:
        try:
            return (parse_policy(options.policy),)
        except DistcedError as error:
            # What else would do here, and only here.
            if error.problem.startswith("no distribution policy"):
                error.allowed = f"{error.allowed}, {ALL}"
            raise
    if options.form not in ("text", "json"):
        raise DistcedError(
            "several policies are not drawn in one picture",
            given=f"--policy {ALL} --format {options.form}",
            allowed="text, json",
            advice="name one policy to have its placement drawn",
        )
    return tuple(NAMED.values())


def _topology(options: PlacementOptions) -> Topology:
    if options.topology is None:
        raise DistcedError(
            "--policy goes with --topology FILE",
            given=options.policy,
            advice="a policy places detectors in a network: distced topology --random star > star.toml makes one up",
        )
    if str(options.topology) == options.pattern == "-":
        raise DistcedError("standard input is asked for twice", given="the pattern and --topology", allowed="once")
    return load_topology(options.topology)


def _asked(options: PlacementOptions, topology: Topology) -> tuple[ExplainRequest, list[str]]:
    hints = read_hints(options.on or (), options.avoid or (), options.rate or (), options.selectivity)
    where = str(options.topology)
    subscribers = subscribers_of(topology, tuple(options.subscriber or ()), tuple(options.near or ()), where)
    given = registry_of(options.types, options.mapping)
    there = None if options.running is None else running_patterns(options.running, given, options.consumption)
    known = given if there is None else with_published(there, given)
    patterns = compile_source(read_source(options.pattern, options.language), known, consumption=options.consumption)
    running = () if there is None else there.compiled
    every = (*running, *patterns.compiled)
    published = {each.publishes.name for each in every if each.publication.output is not None}
    read = {name for each in every for name in each.automaton.type_names() or ()}
    notes = [*(() if there is None else (f"{options.running}: {note}" for note in there.notes)), *patterns.notes]
    notes += unpublished(topology, read - published)
    return ExplainRequest(patterns.compiled, subscribers, hints, running, with_published(patterns, known)), notes


# What is written.


def _documents(tried: dict[str, Explained | DistcedError]) -> list[object]:
    from distced.policies.explaining.placement_json import explained_as_dict

    return [explained_as_dict(name, each) for name, each in tried.items()]


def _texts(options: PlacementOptions, tried: dict[str, Explained | DistcedError]) -> Iterator[RenderableType]:
    if options.policy == ALL:
        yield from comparison_as_text(tried)
    if options.policy != ALL or options.verbose:
        for each in tried.values():
            if isinstance(each, Explained):
                if options.policy == ALL:
                    yield ""
                yield from explained_as_text(each)

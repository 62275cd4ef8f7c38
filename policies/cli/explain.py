"""The driver of `distced explain --policy`: reads what is given, has patterns placed, and writes what is to be seen."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Final, Literal, TypeAlias

from rich.console import Console, RenderableType

from distced.detectors.cli.explain import running_patterns, with_published, write, write_json
from distced.detectors.compiler import Consumption
from distced.detectors.pattern_files import compile_source, read_source
from distced.middleware.cli.output import PIPE_WIDTH, output, show_notes
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.wire.directory_entries import Hints
from distced.policies.distribution.policy import NAMED, Policy, parse_policy
from distced.policies.distribution.situation.situation import Situation
from distced.policies.explaining.deployment import entries_of, subscribers_of, unpublished
from distced.policies.explaining.explained import Asked, Explained, explain
from distced.policies.explaining.placement_text import comparison_as_text, explained_as_text
from distced.policies.topology.topology import Topology
from distced.policies.topology.topology_file import load_topology, parse_topology

Format: TypeAlias = Literal["text", "svg", "dot", "json"]

ALL: Final = "all"
"""In place of a policy: the named ones side by side."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for; the names are those of the options.

    Attributes:
        registry: the event types of files of types and mappings; None where none was given.
    """

    pattern: str
    policy: str
    topology: Path | None
    subscribers: tuple[str, ...]
    near: tuple[str, ...]
    running: Path | None
    hints: Hints
    form: Format
    out: Path | None
    registry: TypeRegistry | None
    consumption: Consumption
    verbose: bool


def explain_placement(wanted: Wanted) -> None:
    """Show what a policy would do, or all of them."""
    policies = _policies(wanted)
    topology = _topology(wanted)
    asked, notes = _asked(wanted, topology)
    situation = Situation.of(entries_of(topology), topology)
    tried = {each.text: explain(each, asked, situation) for each in policies}
    done = [each for each in tried.values() if isinstance(each, Explained)]
    if not done:
        raise next(each for each in tried.values() if isinstance(each, DistcedError))
    match wanted.form:
        case "json":
            write_json({"policies": _documents(tried), "notes": notes}, wanted.out)
            return
        case "svg":
            from distced.policies.explaining.placement_overlay import overlay_of
            from distced.policies.topology.drawing.svg import topology_svg

            write(topology_svg(topology, overlay_of(done[0])), wanted.out)
        case "dot":
            from distced.policies.explaining.placement_overlay import overlay_of
            from distced.policies.topology.drawing.dot import topology_dot

            write(topology_dot(topology, overlay_of(done[0])), wanted.out)
        case "text":
            _write_text(list(_texts(wanted, tried)), wanted.out)
    show_notes(notes)


# What is given.


def _policies(wanted: Wanted) -> Sequence[Policy]:
    if wanted.policy != ALL:
        try:
            return (parse_policy(wanted.policy),)
        except DistcedError as error:
            # What else would do here, and only here.
            if error.problem.startswith("no distribution policy"):
                error.allowed = f"{error.allowed}, {ALL}"
                error.args = (error._message(),)
            raise
    if wanted.form in ("svg", "dot"):
        raise DistcedError(
            "several policies are not drawn in one picture",
            given=f"--policy {ALL} --format {wanted.form}",
            allowed="text, json",
            advice="name one policy to have its placement drawn",
        )
    return tuple(NAMED.values())


def _topology(wanted: Wanted) -> Topology:
    if wanted.topology is None:
        raise DistcedError(
            "--policy goes with --topology FILE",
            given=wanted.policy,
            advice="a policy places detectors in a network: distced topology --random star > star.toml makes one up",
        )
    if str(wanted.topology) != "-":
        return load_topology(wanted.topology)
    if wanted.pattern == "-":
        raise DistcedError("standard input is asked for twice", given="the pattern and --topology", allowed="once")
    return parse_topology(sys.stdin.read(), name="-")


def _asked(wanted: Wanted, topology: Topology) -> tuple[Asked, list[str]]:
    where = str(wanted.topology)
    subscribers = subscribers_of(topology, wanted.subscribers, wanted.near, where)
    there = None if wanted.running is None else running_patterns(wanted.running, wanted.registry, wanted.consumption)
    known = wanted.registry if there is None else with_published(there, wanted.registry)
    patterns = compile_source(read_source(wanted.pattern), known, consumption=wanted.consumption)
    running = () if there is None else there.compiled
    every = (*running, *patterns.compiled)
    published = {each.publishes.name for each in every if each.publication.output is not None}
    read = {name for each in every for name in each.automaton.type_names() or ()}
    notes = [*(() if there is None else (f"{wanted.running}: {note}" for note in there.notes)), *patterns.notes]
    notes += unpublished(topology, read - published)
    return Asked(patterns.compiled, subscribers, wanted.hints, running, with_published(patterns, known)), notes


# What is written.


def _documents(tried: dict[str, Explained | DistcedError]) -> list[object]:
    from distced.policies.explaining.placement_json import explained_as_dict

    return [explained_as_dict(name, each) for name, each in tried.items()]


def _texts(wanted: Wanted, tried: dict[str, Explained | DistcedError]) -> Iterator[RenderableType]:
    if wanted.policy == ALL:
        yield from comparison_as_text(tried)
    if wanted.policy != ALL or wanted.verbose:
        for each in tried.values():
            if isinstance(each, Explained):
                if wanted.policy == ALL:
                    yield ""
                yield from explained_as_text(each)


def _write_text(parts: Sequence[RenderableType], out: Path | None) -> None:
    console = output() if out is None else Console(file=StringIO(), width=PIPE_WIDTH, color_system=None)
    shown = Console(file=StringIO(), width=console.width, color_system=None) if not console.is_terminal else console
    for part in parts:
        shown.print(part, soft_wrap=False)
    if shown is console:
        return
    assert isinstance(shown.file, StringIO)
    # Tables are padded to their full width.
    write("".join(f"{line.rstrip()}\n" for line in shown.file.getvalue().splitlines()), out)

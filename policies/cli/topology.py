"""The verb `topology`: a topology from a file, or a random one, shown or written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Annotated, Any, Literal, TypeAlias

import typer

from distced.detectors.cli.explain import write, write_json, write_text
from distced.detectors.drawing.diagram import drawn
from distced.middleware.cli.options import verb
from distced.middleware.cli.output import AsJson, show_notes
from distced.middleware.cli.output_files import ForceOption, check_output
from distced.policies.topology.errors import TopologyError
from distced.policies.topology.notes import notes_on
from distced.policies.topology.random_topology import RandomKind, random_topology
from distced.policies.topology.topology import Topology
from distced.policies.topology.topology_drawing import topology_as_text, topology_diagram
from distced.policies.topology.topology_file import load_topology, topology_as_dict, topology_as_toml

Form: TypeAlias = Literal["text", "svg", "png", "dot", "mermaid", "json", "toml"]

_File: TypeAlias = Path | None
_Number: TypeAlias = int | None


def _counted(option: str, text: str) -> Any:
    return typer.Option(option, metavar="N", help=f"With --random: {text}.")


@dataclass(frozen=True)
class TopologyOptions:
    """Options of `distced topology`."""

    file: Annotated[_File, typer.Argument(metavar="FILE", help="Topology, - for standard input.")] = None
    shown: Annotated[
        Form | None, typer.Option("--format", help="Form of output, default text; toml for a random topology.")
    ] = None
    out: Annotated[_File, typer.Option("--out", metavar="FILE", help="Output file, default standard output.")] = None
    force: ForceOption = False
    random: Annotated[RandomKind | None, typer.Option("--random", help="Make a random topology of this shape.")] = None
    sites: Annotated[_Number, _counted("--sites", "number of sites, default 6")] = None
    nodes: Annotated[_Number, _counted("--nodes", "number of broker nodes, default 6")] = None
    publishers: Annotated[_Number, _counted("--publishers", "number of publishers, default 8")] = None
    subscribers: Annotated[_Number, _counted("--subscribers", "number of subscribers, default 3")] = None
    seed: Annotated[_Number, _counted("--seed", "random seed, default 0")] = None
    as_json: AsJson = False

    @property
    def form(self) -> Form:
        """The form to show, by --format, --json and --random."""
        return "json" if self.as_json else self.shown or ("text" if self.random is None else "toml")

    def counts(self) -> dict[str, int]:
        """The numbers of parts that were given."""
        given = {name: getattr(self, name) for name in ("sites", "nodes", "publishers", "subscribers")}
        return {name: count for name, count in given.items() if count is not None}


@verb
def topology(options: TopologyOptions) -> int:
    """Show a topology: sites, participants, links; or make a random one.

    A topology is a TOML file of sites (MQTT servers), broker nodes, publishers, subscribers and links with latency,
    bandwidth and cost. It is checked; notes go to standard error.

    With --random a topology with these numbers of parts is made, the same for the same seed.

    \b
    Examples:
      distced topology office.toml
      distced topology office.toml --format svg --out office.svg
      distced topology --random metro --sites 12 --seed 7 > metro.toml
      distced topology --random star | distced topology - --format svg --out star.svg
    """
    check_output("--out", options.out, force=options.force, inputs=[options.file])
    topology, form, out = _topology(options), options.form, options.out
    notes = notes_on(topology)
    if form == "json":
        write_json({**topology_as_dict(topology), "notes": notes}, out)
        return 0
    if form == "text":
        write_text(topology_as_text(topology), out)
    elif form == "toml":
        write(topology_as_toml(topology), out)
    else:
        write(drawn(topology_diagram(topology), form), out)
    show_notes(notes)
    return 0


def _topology(options: TopologyOptions) -> Topology:
    if options.file is not None and options.random is not None:
        raise TopologyError("both a file and --random", allowed="a file, or --random with a kind")
    if options.random is not None:
        counts: dict[str, Any] = options.counts()
        return random_topology(options.random, Random(options.seed or 0), **counts)
    if options.file is None:
        raise TopologyError(
            "no topology is named", allowed="a file, or --random with a kind", advice="try distced topology --help"
        )
    said = [f"--{name}" for name in options.counts()] + (["--seed"] if options.seed is not None else [])
    if said:
        raise TopologyError("options for --random, and none is to be made", given=", ".join(said))
    return load_topology(options.file)

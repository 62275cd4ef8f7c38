"""`distced topology`: a topology from a file or made by chance, shown or written."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any, Literal, TypeAlias

from rich.console import Console

from distced.middleware.cli.output import PIPE_WIDTH, output, print_json, show_notes
from distced.middleware.model.errors import DistcedError
from distced.policies.topology.errors import TopologyError
from distced.policies.topology.notes import notes_on
from distced.policies.topology.random_topology import RandomKind, random_topology
from distced.policies.topology.topology import Topology
from distced.policies.topology.topology_file import load_topology, parse_topology

Form: TypeAlias = Literal["text", "svg", "dot", "json", "toml"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which topology is asked for.

    Attributes:
        file: where it stands, `-` for standard input; None for one made by chance.
        kind: of one made by chance; None for one of a file.
        counts: how many sites, nodes, publishers and subscribers are to be made, of those that were said.
        seed: what chance begins with; None where it was not said.
    """

    file: Path | None
    kind: RandomKind | None
    counts: Mapping[str, int]
    seed: int | None


def show_topology(wanted: Wanted, form: Form, out: Path | None) -> None:
    """Show or write a topology; notes on it go to standard error."""
    topology = _topology(wanted)
    notes = notes_on(topology)
    if form == "json":
        from distced.policies.topology.drawing.topology_json import topology_as_dict

        document = {**topology_as_dict(topology), "notes": notes}
        if out is None:
            print_json(document)
        else:
            _write(json.dumps(document, ensure_ascii=False, indent=2) + "\n", out)
        return
    if form == "text":
        _show_text(topology, out)
    else:
        _write(_written(topology, form), out)
    show_notes(notes)


def _topology(wanted: Wanted) -> Topology:
    if (wanted.file is None) == (wanted.kind is None):
        raise TopologyError(
            "no topology is named" if wanted.file is None else "both a file and --random",
            allowed="a file, or --random with a kind",
            advice="try distced topology --help",
        )
    if wanted.file is not None:
        said = [f"--{name}" for name in wanted.counts] + (["--seed"] if wanted.seed is not None else [])
        if said:
            raise TopologyError("options for --random, and none is to be made", given=", ".join(said))
        return parse_topology(sys.stdin.read(), name="-") if str(wanted.file) == "-" else load_topology(wanted.file)
    assert wanted.kind is not None
    counts: dict[str, Any] = dict(wanted.counts)
    return random_topology(wanted.kind, Random(wanted.seed or 0), **counts)


def _written(topology: Topology, form: Form) -> str:
    match form:
        case "svg":
            from distced.policies.topology.drawing.svg import topology_svg

            return topology_svg(topology)
        case "dot":
            from distced.policies.topology.drawing.dot import topology_dot

            return topology_dot(topology)
        case _:
            from distced.policies.topology.topology_writer import topology_as_toml

            return topology_as_toml(topology)


def _show_text(topology: Topology, out: Path | None) -> None:
    from distced.policies.topology.drawing.topology_text import topology_as_text

    console = output() if out is None else Console(file=StringIO(), width=PIPE_WIDTH, color_system=None)
    for part in topology_as_text(topology):
        console.print(part)
    if out is not None:
        assert isinstance(console.file, StringIO)
        # Tables are padded to their full width.
        _write("".join(f"{line.rstrip()}\n" for line in console.file.getvalue().splitlines()), out)


def _write(text: str, out: Path | None) -> None:
    if out is None:
        sys.stdout.write(text)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DistcedError("cannot write the file", given=str(out), advice=str(error)) from None

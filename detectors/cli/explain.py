"""The driver of `distced explain`: compiles, cuts where that is asked for, and writes what is to be seen."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import typer
from rich.text import Text

from distced.detectors.compiler import Consumption
from distced.detectors.cutting.candidates import CONDITIONS
from distced.detectors.cutting.cut_report import cuts_of
from distced.detectors.cutting.decomposition import full, none
from distced.detectors.cutting.graph import cut
from distced.detectors.cutting.reuse import catalogue_of, plan_for_reuse
from distced.detectors.drawing.automaton_text import pattern_as_text
from distced.detectors.drawing.automaton_view import view_of
from distced.detectors.drawing.cuts_text import cuts_as_text
from distced.detectors.drawing.dot import dot
from distced.detectors.drawing.graph_document import graph_as_dict
from distced.detectors.drawing.graph_dot import graph_dot
from distced.detectors.drawing.graph_svg import graph_svg
from distced.detectors.drawing.graph_text import graph_as_text
from distced.detectors.drawing.graph_view import GraphView, graph_view
from distced.detectors.drawing.json_documents import pattern_as_dict
from distced.detectors.drawing.svg import svg
from distced.detectors.drawing.wording import thinned_names
from distced.detectors.pattern_files import Patterns, compile_source, read_source
from distced.middleware.cli.output import PIPE_WIDTH, output, print_json, show_notes
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import TypeRegistry

Format: TypeAlias = Literal["text", "svg", "dot", "json"]
Decomposition: TypeAlias = Literal["none", "full", "for-reuse"]


@dataclass(frozen=True, slots=True)
class Explain:
    """What `distced explain` was asked for; the names are those of its options.

    Attributes:
        form: `--format`.
        registry: the event types of files of types and mappings; None where none was given.
    """

    pattern: str
    form: Format
    out: Path | None
    registry: TypeRegistry | None
    consumption: Consumption
    cuts: bool
    decomposition: Decomposition | None
    running: Path | None
    verbose: bool


def explain_patterns(wanted: Explain) -> None:
    """Show patterns, what may be cut out of them, or the detectors they are cut into."""
    _check(wanted)
    there = None if wanted.running is None else running_patterns(wanted.running, wanted.registry, wanted.consumption)
    registry = wanted.registry if there is None else with_published(there, wanted.registry)
    patterns = compile_source(read_source(wanted.pattern), registry, consumption=wanted.consumption)
    show_notes((*(() if there is None else (f"{wanted.running}: {note}" for note in there.notes)), *patterns.notes))
    if wanted.cuts:
        _show_cuts(patterns, wanted)
    elif wanted.decomposition is not None:
        _show_graph(_graph_view(patterns, there, wanted.decomposition), wanted)
    else:
        _show_automata(patterns, wanted)


def _check(wanted: Explain) -> None:
    """Refuse options that do not go together."""
    if wanted.cuts and wanted.decomposition is not None:
        raise DistcedError(
            "--cuts and --decomposition ask for different things",
            allowed="one of them",
            advice="--cuts tells what may be cut out of each pattern, --decomposition what comes of it for all of them",
        )
    if wanted.verbose and not wanted.cuts:
        raise DistcedError("--verbose goes with --cuts", advice="it lists single atoms, too")
    if wanted.cuts and wanted.form not in ("text", "json"):
        raise DistcedError(
            "cuts are not drawn",
            given=f"--format {wanted.form}",
            allowed="text, json",
            advice="--decomposition full draws the detectors that come of them",
        )
    if wanted.running is not None and wanted.decomposition != "for-reuse":
        raise DistcedError(
            "--running goes with --decomposition for-reuse",
            given=None if wanted.decomposition is None else f"--decomposition {wanted.decomposition}",
            advice="it says what is detected already, and for-reuse cuts new patterns where they can read that",
        )
    if wanted.running is None and wanted.decomposition == "for-reuse":
        raise DistcedError(
            "--decomposition for-reuse goes with --running FILE",
            advice="where nothing is detected already there is nothing to reuse: name a pattern file whose patterns "
            "are taken as running",
        )


def running_patterns(file: Path, registry: TypeRegistry | None, consumption: Consumption) -> Patterns:
    """The patterns of a file, which are taken as running."""
    # Path.exists raises where a name is too long to be one.
    if not os.path.exists(file):  # noqa: PTH110
        raise DistcedError(
            "no such pattern file",
            given=str(file),
            advice="--running takes a pattern file, with the patterns that are detected already",
        )
    return compile_source(read_source(file), registry, consumption=consumption)


def with_published(patterns: Patterns, registry: TypeRegistry | None) -> TypeRegistry:
    """The event types, None for any, and those that patterns publish."""
    known = TypeRegistry(registry or (), open=registry is None or registry.open)
    for each in patterns.compiled:
        if each.publication.output is not None:
            known.register(each.publishes)
    return known


def _graph_view(patterns: Patterns, running: Patterns | None, decomposition: Decomposition) -> GraphView:
    derived = dict(patterns.derived)
    if running is not None:
        graph = plan_for_reuse(patterns.compiled, catalogue_of(running.compiled))
        derived = {**running.derived, **derived}
    else:
        graph = cut(patterns.compiled, full if decomposition == "full" else none)
    return graph_view(patterns.compiled, graph, decomposition, derived)


def _show_automata(patterns: Patterns, wanted: Explain) -> None:
    views = [(compiled, view_of(compiled, patterns.derived)) for compiled in patterns.compiled]
    drawings = [(compiled.text, view) for compiled, view in views]
    match wanted.form:
        case "json":
            write_json({"patterns": [pattern_as_dict(compiled, view) for compiled, view in views]}, wanted.out)
        case "svg":
            write(svg(drawings), wanted.out)
        case "dot":
            write(dot(drawings), wanted.out)
        case "text":
            _write_text([list(pattern_as_text(compiled, view)) for compiled, view in views], wanted.out)


def _show_cuts(patterns: Patterns, wanted: Explain) -> None:
    found = [cuts_of(each, thinned_names(each.thinnings, patterns.derived)) for each in patterns.compiled]
    if wanted.form == "json":
        write_json({"patterns": [each.as_dict() for each in found], "conditions": CONDITIONS}, wanted.out)
    else:
        width = _width(wanted.out)
        _write_text([list(cuts_as_text(each, width, atoms=wanted.verbose)) for each in found], wanted.out)


def _show_graph(view: GraphView, wanted: Explain) -> None:
    match wanted.form:
        case "json":
            write_json(graph_as_dict(view), wanted.out)
        case "svg":
            write(graph_svg(view), wanted.out)
        case "dot":
            write(graph_dot(view), wanted.out)
        case "text":
            _write_text([list(graph_as_text(view, _width(wanted.out)))], wanted.out)


def _write_text(blocks: list[list[Text]], out: Path | None) -> None:
    """Lines of text, a block for each pattern, on the terminal or in a file."""
    lines: list[Text] = []
    for block in blocks:
        lines += [Text(), Text("─" * 72, "dim"), Text()] if lines else []
        lines += block
    if out is not None:
        write("".join(f"{line.plain}\n" for line in lines), out)
        return
    console = output()
    for line in lines:
        console.print(line)


def _width(out: Path | None) -> int:
    return PIPE_WIDTH if out is not None else output().width


def write(text: str, out: Path | None) -> None:
    """Write to a file, or to standard output."""
    if out is None:
        typer.echo(text, nl=False)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DistcedError("cannot write the file", given=str(out), advice=str(error)) from None


def write_json(value: object, out: Path | None) -> None:
    """The same for JSON."""
    if out is None:
        print_json(value)
    else:
        write(json.dumps(value, ensure_ascii=False, indent=2) + "\n", out)

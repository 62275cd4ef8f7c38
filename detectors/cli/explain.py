"""Patterns shown: their automata, candidate cuts, and the detectors of a cut.

The part of the verb `explain` that needs no policy; the verb itself is in `policies.cli.explain`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import msgspec
import typer
from rich.console import RenderableType
from rich.text import Text

from distced.detectors.cli.pattern_options import (
    ConsumptionOption,
    LanguageOption,
    MappingOption,
    PatternArgument,
    TypesOption,
    registry_of,
)
from distced.detectors.compiler import Consumption, register_published
from distced.detectors.cutting.candidates import CONDITIONS
from distced.detectors.cutting.cut import cut, full, none
from distced.detectors.cutting.cut_report import cuts_of
from distced.detectors.cutting.reuse import catalogue_of, plan_for_reuse
from distced.detectors.drawing.automaton_drawing import automata_diagram, pattern_as_text
from distced.detectors.drawing.diagram import drawn
from distced.detectors.drawing.graph_drawing import cuts_as_text, graph_as_text, graph_diagram
from distced.detectors.explain.automaton_view import names_in, outline, view_of
from distced.detectors.explain.graph_view import GraphView, graph_view
from distced.detectors.pattern_files import Patterns, compile_source, read_source
from distced.middleware.cli.output import PIPE_WIDTH, AsJson, output, plain, print_json, show_notes
from distced.middleware.cli.output_files import ForceOption, check_output
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import TypeRegistry

Format: TypeAlias = Literal["text", "svg", "png", "dot", "mermaid", "json"]
Decomposition: TypeAlias = Literal["none", "full", "for-reuse"]


@dataclass(frozen=True)
class ExplainOptions:
    """Options of `distced explain` without a distribution policy."""

    pattern: PatternArgument
    shown: Annotated[Format, typer.Option("--format", help="Output form; svg and png need Graphviz.")] = "text"
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Output file; default: standard output.")
    ] = None
    force: ForceOption = False
    types: TypesOption = None
    mapping: MappingOption = None
    consumption: ConsumptionOption = "ordered"
    language: LanguageOption = ""
    cuts: Annotated[
        bool,
        typer.Option("--cuts", help="List sub-patterns, with the reasons against a detector of their own."),
    ] = False
    decomposition: Annotated[
        Decomposition | None,
        typer.Option(
            "--decomposition", help="Show the graph of detectors: uncut, fully cut, or cut to reuse those of --running."
        ),
    ] = None
    running: Annotated[
        Path | None,
        typer.Option(
            "--running",
            metavar="FILE",
            help="Pattern file of running patterns, for --decomposition for-reuse or --policy.",
        ),
    ] = None
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", "-v", help="With --cuts: list single atoms, too. With --policy all: show each policy in full."
        ),
    ] = False
    as_json: AsJson = False

    def check_out(self, *inputs: Path | None) -> None:
        """Check that the output file can be written to."""
        given = [self.pattern, self.types, self.mapping, self.running, *inputs]
        check_output("--out", self.out, force=self.force, inputs=given)

    @property
    def form(self) -> Format:
        """The output form, by --format and --json."""
        return "json" if self.as_json else self.shown


def explain_patterns(options: ExplainOptions) -> None:
    """Show patterns, their candidate cuts, or the detectors of a cut."""
    _check(options)
    options.check_out()
    given = registry_of(options.types, options.mapping)
    there = None if options.running is None else running_patterns(options.running, given, options.consumption)
    registry = given if there is None else with_published(there, given)
    patterns = compile_source(read_source(options.pattern, options.language), registry, consumption=options.consumption)
    show_notes((*(() if there is None else (f"{options.running}: {note}" for note in there.notes)), *patterns.notes))
    if options.cuts:
        _show_cuts(patterns, options)
    elif options.decomposition is not None:
        _show_graph(_graph_view(patterns, there, options.decomposition), options)
    else:
        _show_automata(patterns, options)


def _check(options: ExplainOptions) -> None:
    """Refuse incompatible options."""
    if options.cuts and options.decomposition is not None:
        raise DistcedError(
            "--cuts and --decomposition ask for different things",
            allowed="one of them",
            advice="--cuts lists the cuts of each pattern, --decomposition shows the detectors of all of them",
        )
    if options.verbose and not options.cuts:
        raise DistcedError("--verbose goes with --cuts", advice="it lists single atoms, too")
    if options.cuts and options.form not in ("text", "json"):
        raise DistcedError(
            "cuts are not drawn",
            given=f"--format {options.form}",
            allowed="text, json",
            advice="--decomposition full draws the detectors that come of them",
        )
    if options.running is not None and options.decomposition != "for-reuse":
        raise DistcedError(
            "--running goes with --decomposition for-reuse",
            given=None if options.decomposition is None else f"--decomposition {options.decomposition}",
            advice="it says what is detected already, and for-reuse cuts new patterns where they can read that",
        )
    if options.running is None and options.decomposition == "for-reuse":
        raise DistcedError(
            "--decomposition for-reuse goes with --running FILE",
            advice="where nothing is detected already there is nothing to reuse: name a pattern file whose patterns "
            "are taken as running",
        )


def running_patterns(file: Path, registry: TypeRegistry | None, consumption: Consumption) -> Patterns:
    """The patterns of a file, taken as running."""
    # Path.exists raises where a name is too long to be one.
    if not os.path.exists(file):  # noqa: PTH110
        raise DistcedError(
            "no such pattern file",
            given=str(file),
            advice="--running takes a pattern file, with the patterns that are detected already",
        )
    return compile_source(read_source(file), registry, consumption=consumption)


def with_published(patterns: Patterns, registry: TypeRegistry | None) -> TypeRegistry:
    """The event types, None for any, together with those that patterns publish."""
    known = TypeRegistry(registry or (), open=registry is None or registry.open)
    for each in patterns.compiled:
        register_published(each, known)
    return known


def _graph_view(patterns: Patterns, running: Patterns | None, decomposition: Decomposition) -> GraphView:
    derived = dict(patterns.derived)
    if running is not None:
        graph = plan_for_reuse(patterns.compiled, catalogue_of(running.compiled))
        derived = {**running.derived, **derived}
    else:
        graph = cut(patterns.compiled, full if decomposition == "full" else none)
    return graph_view(patterns.compiled, graph, decomposition, derived)


def _show_automata(patterns: Patterns, options: ExplainOptions) -> None:
    views = [(compiled, view_of(compiled, patterns.derived)) for compiled in patterns.compiled]
    written = patterns.source.text if patterns.source.language else ""
    match options.form:
        case "json":
            documents = [
                {
                    "text": compiled.text,
                    "tree": msgspec.to_builtins(outline(compiled.publication.pattern, source=written)),
                    "automaton": msgspec.to_builtins(view),
                }
                for compiled, view in views
            ]
            write_json({"patterns": documents}, options.out)
        case "text":
            language = patterns.source.language
            blocks = (pattern_as_text(compiled, view, written, language) for compiled, view in views)
            _write_blocks(blocks, options.out)
        case form:
            write(drawn(automata_diagram([(compiled.text, view) for compiled, view in views]), form), options.out)


def _show_cuts(patterns: Patterns, options: ExplainOptions) -> None:
    found = [cuts_of(each, names_in(each, patterns.derived)) for each in patterns.compiled]
    if options.form == "json":
        write_json({"patterns": [each.as_dict() for each in found], "conditions": CONDITIONS}, options.out)
    else:
        width = _width(options.out)
        _write_blocks((cuts_as_text(each, width, atoms=options.verbose) for each in found), options.out)


def _show_graph(view: GraphView, options: ExplainOptions) -> None:
    match options.form:
        case "json":
            write_json(view.as_dict(), options.out)
        case "text":
            write_text(graph_as_text(view, _width(options.out)), options.out)
        case form:
            write(drawn(graph_diagram(view), form), options.out)


def _write_blocks(blocks: Iterable[Iterable[RenderableType]], out: Path | None) -> None:
    parts: list[RenderableType] = []
    for block in blocks:
        parts += [Text(), Text("─" * 72, "dim"), Text()] if parts else []
        parts += block
    write_text(parts, out)


def write_text(parts: Iterable[RenderableType], out: Path | None, *, soft_wrap: bool = True) -> None:
    """Write parts one below another, to the terminal or a file."""
    console = output()
    if out is not None or not console.is_terminal:
        write(plain(parts, soft_wrap=soft_wrap), out)
        return
    for part in parts:
        console.print(part, soft_wrap=soft_wrap)


def _width(out: Path | None) -> int:
    return PIPE_WIDTH if out is not None else output().width


def write(content: str | bytes, out: Path | None) -> None:
    """Write to a file, or to standard output; an image is not written to a terminal."""
    if out is None:
        if isinstance(content, bytes) and sys.stdout.isatty():
            raise DistcedError("an image is not shown on a terminal", advice="--out FILE, or a pipe")
        typer.echo(content, nl=False)
        return
    try:
        out.write_bytes(content if isinstance(content, bytes) else content.encode())
    except OSError as error:
        raise DistcedError("cannot write the file", given=str(out), advice=str(error)) from None


def write_json(value: object, out: Path | None) -> None:
    """Write JSON to a file or to standard output."""
    if out is None:
        print_json(value)
    else:
        write(json.dumps(value, ensure_ascii=False, indent=2) + "\n", out)

"""The verbs of detectors: `check`, `explain` and `run`.

What takes time to import is imported inside the verb that needs it.
"""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer
from rich.text import Text

from middleware.console_output import PIPE_WIDTH, AsJson, output, print_json, show_notes
from middleware.errors import DistcedError

if TYPE_CHECKING:
    from detectors.drawing.graph_view import GraphView
    from detectors.explain import Facts
    from detectors.pattern_source import Patterns
    from middleware.eventtypes import TypeRegistry

PatternArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="PATTERN|FILE", help="A pattern, a pattern file, or - for a file on standard input.")
]
TypesOption: TypeAlias = Annotated[
    Path | None, typer.Option("--types", metavar="FILE", help="A TOML file of event types: [types.Temp] temp = ...")
]
MappingOption: TypeAlias = Annotated[
    Path | None, typer.Option("--mapping", metavar="FILE", help="A mapping, whose event types are taken.")
]


class Consumption(StrEnum):
    """How events are consumed."""

    ORDERED = "ordered"
    EPOCH = "epoch"


class Format(StrEnum):
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


ConsumptionOption: TypeAlias = Annotated[
    Consumption, typer.Option("--consumption", help="Events one by one, or all of one instant together.")
]


def check(
    pattern: PatternArgument,
    types: TypesOption = None,
    mapping: MappingOption = None,
    consumption: ConsumptionOption = Consumption.ORDERED,
    as_json: AsJson = False,
) -> int:
    """Check that a pattern makes sense, and say what it reads.

    With event types (from a file of them, or from a mapping) it is checked against these: every type and attribute
    has to be known and the kinds have to fit. Without, types and attributes are taken as they stand.

    \b
    Examples:
      distced check '[Motion as m] ; [Door where room == m.room] within 1min'
      distced check office.pattern --mapping office.toml
      distced check office.pattern --types types.toml --json
    """
    from detectors.explain import facts_of

    registry = _registry(types, mapping)
    patterns = _compiled(pattern, registry, consumption)
    facts = [facts_of(each, patterns.derived) for each in patterns.compiled]
    checked = "declared" if registry is not None else "taken as known"
    if as_json:
        shown = {"ok": True, "types": checked, "patterns": [each.as_dict() for each in facts]}
        print_json({**shown, "notes": list(patterns.notes)})
        return 0
    show_notes(patterns.notes)
    console = output()
    for each in facts:
        for line in _facts_lines(each):
            console.print(line)
    count = f"{len(facts)} pattern{'s' * (len(facts) != 1)}"
    against = (
        "types are taken as known; --types or --mapping has them checked"
        if registry is None
        else f"checked against {len(registry)} event type{'s' * (len(registry) != 1)}"
    )
    console.print(Text.assemble(("OK", "bold green"), f"  {count}, {against}"))
    return 0


def _facts_lines(facts: Facts) -> list[Text]:
    from middleware.timestamps import format_duration

    lines = [Text.assemble((facts.signature(), "bold"), ("   " + facts.canonical_id, "dim"))]
    said = {
        "reads": "every event" if facts.reads is None else ", ".join(facts.reads),
        "thinned": "; ".join(facts.thinned),
        "by": ", ".join(facts.key),
        "within": "" if facts.within is None else format_duration(facts.within),
        "timers": ", ".join(f"{name} = {when}" for name, when in facts.timers.items()),
        "consumes": "by epochs" if facts.epochs else "",
    }
    lines += [Text.assemble((f"  {name:<10}", "dim"), text) for name, text in said.items() if text]
    return lines


def explain(
    pattern: PatternArgument,
    form: Annotated[Format, typer.Option("--format", help="How it is shown.")] = Format.TEXT,
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
    running: Annotated[
        Path | None,
        typer.Option("--running", metavar="FILE", help="With for-reuse: a pattern file of what is detected already."),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="With --cuts: list single atoms, too.")] = False,
    as_json: AsJson = False,
) -> int:
    """Show the tree of a pattern, and the automaton that detects it; or how it is cut into detectors.

    The automaton has a circle for each state and an arrow for each way on. A state looks at the events of its domain
    and at no others; an instance there takes every way on that fits, or fails by an event of the domain that fits none.
    Generative states (double circles) emit a composite event or set off a time event.

    With --cuts it shows which sub-patterns may become detectors of their own, and why the others may not; with
    --decomposition the graph of detectors for all patterns of a file together. With for-reuse these read what the
    patterns of another file, which run already, have detectors for.

    \b
    Examples:
      distced explain '[A] ; ~[B]* [B]'
      distced explain '([A], [T <= {T, B}]) @ T = 5min' --format svg --out pattern.svg
      distced explain office.pattern --format dot | dot -Tpdf > office.pdf
      distced explain '[A] ; [B]* ; [C]' --cuts
      distced explain office.pattern --decomposition full --format svg --out detectors.svg
      distced explain '[A] ; [B] ; [C]' --decomposition for-reuse --running office.pattern
    """
    form = Format.JSON if as_json else form
    _check_explain(form, decomposition, running, cuts=cuts, verbose=verbose)
    registry = _registry(types, mapping)
    if running is not None:
        _explain_reuse(pattern, running, registry, consumption, form, out)
        return 0
    patterns = _compiled(pattern, registry, consumption)
    show_notes(patterns.notes)
    if cuts:
        _explain_cuts(patterns, form, out, verbose=verbose)
    elif decomposition is not None:
        _explain_graph(patterns, decomposition, form, out)
    else:
        _explain_automata(patterns, form, out)
    return 0


def _check_explain(
    form: Format, decomposition: Decomposition | None, running: Path | None, *, cuts: bool, verbose: bool
) -> None:
    """Refuse options that do not go together."""
    if cuts and decomposition is not None:
        raise DistcedError(
            "--cuts and --decomposition ask for different things",
            allowed="one of them",
            advice="--cuts tells what may be cut out of each pattern, --decomposition what comes of it for all of them",
        )
    if verbose and not cuts:
        raise DistcedError("--verbose goes with --cuts", advice="it lists single atoms, too")
    if cuts and form not in (Format.TEXT, Format.JSON):
        raise DistcedError(
            "cuts are not drawn",
            given=f"--format {form}",
            allowed="text, json",
            advice="--decomposition full draws the detectors that come of them",
        )
    if running is not None and decomposition != Decomposition.FOR_REUSE:
        raise DistcedError(
            "--running goes with --decomposition for-reuse",
            given=f"--decomposition {decomposition}" if decomposition is not None else None,
            advice="it says what is detected already, and for-reuse cuts new patterns where they can read that",
        )
    if running is None and decomposition == Decomposition.FOR_REUSE:
        raise DistcedError(
            "--decomposition for-reuse goes with --running FILE",
            advice="where nothing is detected already there is nothing to reuse: name a pattern file whose patterns "
            "are taken as running",
        )


def _explain_automata(patterns: Patterns, form: Format, out: Path | None) -> None:
    from detectors.drawing.document import pattern_as_dict
    from detectors.drawing.dot import dot
    from detectors.drawing.svg import svg
    from detectors.drawing.text import pattern_as_text
    from detectors.drawing.view import view_of

    views = [(compiled, view_of(compiled, patterns.derived)) for compiled in patterns.compiled]
    drawings = [(compiled.text, view) for compiled, view in views]
    match form:
        case Format.JSON:
            _write_json({"patterns": [pattern_as_dict(compiled, view) for compiled, view in views]}, out)
        case Format.SVG:
            _write(svg(drawings), out)
        case Format.DOT:
            _write(dot(drawings), out)
        case Format.TEXT:
            _show([list(pattern_as_text(compiled, view)) for compiled, view in views], out)


def _explain_cuts(patterns: Patterns, form: Format, out: Path | None, *, verbose: bool) -> None:
    from detectors.cutting.candidates import CONDITIONS
    from detectors.cutting.wording import cuts_of
    from detectors.drawing.cuts_text import cuts_as_text
    from detectors.drawing.wording import thinned_names

    found = [cuts_of(each, thinned_names(each.thinnings, patterns.derived)) for each in patterns.compiled]
    if form == Format.JSON:
        _write_json({"patterns": [each.as_dict() for each in found], "conditions": CONDITIONS}, out)
    else:
        _show([list(cuts_as_text(each, _width(out), atoms=verbose)) for each in found], out)


def _explain_graph(patterns: Patterns, decomposition: Decomposition, form: Format, out: Path | None) -> None:
    from detectors.cutting import decomposition as decompositions
    from detectors.cutting.graph import cut
    from detectors.drawing.graph_view import graph_view

    choose = decompositions.full if decomposition == Decomposition.FULL else decompositions.none
    graph = cut(patterns.compiled, choose)
    _show_graph(graph_view(patterns.compiled, graph, decomposition, patterns.derived), form, out)


def _explain_reuse(
    pattern: str,
    running: Path,
    registry: TypeRegistry | None,
    consumption: Consumption,
    form: Format,
    out: Path | None,
) -> None:
    from detectors.cutting.reuse import catalogue_of, plan_for_reuse
    from detectors.drawing.graph_view import graph_view

    if not os.path.exists(running):  # False, too, for what cannot be a path
        advice = "--running takes a pattern file, with the patterns that are detected already"
        raise DistcedError("no such pattern file", given=str(running), advice=advice)
    there = _compiled(running, registry, consumption)
    new = _compiled(pattern, _with_published(there, registry), consumption)
    show_notes((*(f"{running}: {note}" for note in there.notes), *new.notes))
    graph = plan_for_reuse(new.compiled, catalogue_of(there.compiled))
    view = graph_view(new.compiled, graph, Decomposition.FOR_REUSE, {**there.derived, **new.derived})
    _show_graph(view, form, out)


def _with_published(running: Patterns, registry: TypeRegistry | None) -> TypeRegistry:
    """The event types, and those that running patterns publish."""
    from middleware.eventtypes import TypeRegistry

    known = TypeRegistry(registry or (), open=registry is None)
    for each in running.compiled:
        if each.publication.output is not None:
            known.register(each.publishes)
    return known


def _show_graph(view: GraphView, form: Format, out: Path | None) -> None:
    from detectors.drawing.graph_document import graph_as_dict
    from detectors.drawing.graph_dot import graph_dot
    from detectors.drawing.graph_svg import graph_svg
    from detectors.drawing.graph_text import graph_as_text

    match form:
        case Format.JSON:
            _write_json(graph_as_dict(view), out)
        case Format.SVG:
            _write(graph_svg(view), out)
        case Format.DOT:
            _write(graph_dot(view), out)
        case Format.TEXT:
            _show([list(graph_as_text(view, _width(out)))], out)


def _show(blocks: list[list[Text]], out: Path | None) -> None:
    """Lines of text, a block for each pattern, on the terminal or in a file."""
    lines: list[Text] = []
    for block in blocks:
        lines += [Text(), Text("─" * 72, "dim"), Text()] if lines else []
        lines += block
    if out is not None:
        _write("".join(f"{line.plain}\n" for line in lines), out)
        return
    console = output()
    for line in lines:
        console.print(line)


def _width(out: Path | None) -> int:
    return PIPE_WIDTH if out is not None else output().width


def run(
    pattern: PatternArgument,
    recording: Annotated[
        Path,
        typer.Option(
            "--input", metavar="FILE", help="Recorded events: .csv, .jsonl, .parquet, .log, .txt, .dat, each with .gz."
        ),
    ],
    mapping: Annotated[
        Path | None, typer.Option("--mapping", metavar="FILE", help="How rows become events; needed for log files.")
    ] = None,
    types: TypesOption = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write composite events here.")] = None,
    with_events: Annotated[
        bool, typer.Option("--events", help="Give the constituents too, not only their ids.")
    ] = False,
    native: Annotated[
        bool, typer.Option("--native", help="Write lines that --input reads again; .csv and .parquet always are.")
    ] = False,
    finish: Annotated[
        bool, typer.Option("--finish", help="Let time go on after the last event until every time event has fired.")
    ] = False,
    rejected: Annotated[
        Path | None, typer.Option("--rejected", metavar="FILE", help="Write the rows that gave no event, and why.")
    ] = None,
    consumption: ConsumptionOption = Consumption.ORDERED,
    as_json: AsJson = False,
) -> int:
    """Run patterns over recorded events; print what they find.

    What is found goes to standard output as JSON lines, or to a file.

    The patterns of a file run together, so one may read what another publishes. Events are sorted into the order in
    which they are consumed, so all that the patterns read have to fit into memory. A summary goes to standard error;
    with --json it is the last line of standard output.

    \b
    Examples:
      distced run '[Motion] ; [Door] within 1min' --input events.jsonl.gz
      distced run office.pattern --input office.csv.gz --mapping office.toml --out found.jsonl
      distced run '[A] ; [B] -> Pair()' --input a.csv --native --out pairs.jsonl
      distced run '[Pair] ; [Pair] within 1h' --input pairs.jsonl
    """
    from detectors.run_verb import Run, run_patterns

    wanted = Run(
        pattern=pattern,
        recording=recording,
        mapping=mapping,
        registry=_registry(types, None),
        out=out,
        with_events=with_events,
        native=native,
        finish=finish,
        rejected=rejected,
        consumption="epoch" if consumption == Consumption.EPOCH else "ordered",
        as_json=as_json,
    )
    run_patterns(wanted)
    return 0


# What verbs share.


def _registry(types: Path | None, mapping: Path | None) -> TypeRegistry | None:
    """The event types of a file of types and of a mapping; None where neither is given."""
    from middleware.eventtypes import TypeRegistry
    from middleware.mapping import load_mapping
    from middleware.type_file import load_types

    if types is None and mapping is None:
        return None
    registry = TypeRegistry(() if types is None else load_types(types))
    for each in () if mapping is None else load_mapping(mapping).types:
        registry.register(each)
    return registry


def _compiled(pattern: str | Path, registry: TypeRegistry | None, consumption: Consumption) -> Patterns:
    from detectors.pattern_source import compile_source, read_source

    return compile_source(
        read_source(pattern), registry, consumption="epoch" if consumption == Consumption.EPOCH else "ordered"
    )


def _write(text: str, out: Path | None) -> None:
    if out is None:
        typer.echo(text, nl=False)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DistcedError("cannot write the file", given=str(out), advice=str(error)) from None


def _write_json(value: object, out: Path | None) -> None:
    import json

    if out is None:
        print_json(value)
    else:
        _write(json.dumps(value, ensure_ascii=False, indent=2) + "\n", out)

"""View of a graph of detectors, in words and independent of the form of drawing.

Text, diagrams and JSON are made from this view, so they show the same. The graph is that of `detectors.cutting.graph`;
here come to it what flows into it and out of it: primitive events on the left, published composite events on the right,
and which of these the patterns of the file read again by their names. Of a decomposition for reuse it is the graph of
the new patterns, with the detectors that run already and are used by them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from distced.detectors.automata.automaton import PART_PREFIX, TIMER_PREFIX, Automaton
from distced.detectors.compiler import Compiled
from distced.detectors.cutting.catalogue import core_of
from distced.detectors.cutting.cut_report import with_throttled_names
from distced.detectors.cutting.graph import DetectorGraph, DetectorPlan
from distced.detectors.drawing.wording import throttled_names
from distced.middleware.model.timestamps import format_duration
from distced.middleware.patterns.printer import format_output, format_pattern, format_publication
from distced.middleware.sets.expressions import FALSE, names, quote_name

FlowKind: TypeAlias = Literal["events", "records", "published", "read"]
"""Primitive events; composite events with their records, into the detector they are part of; composite events out of
the graph; composite events into a pattern that reads them by their name."""

FOR_REUSE: Final = "for-reuse"
"""The decomposition that distinguishes running detectors from new ones."""

RUNS_ALREADY: Final = "runs already"
"""Remark on a running detector."""

ANY: Final = "any event"
"""The input of a detector that reads `any`."""

_LEAST_SHORT: Final = 7


@dataclass(frozen=True, slots=True)
class DetectorView:
    """A detector.

    Attributes:
        id: its name.
        short: the beginning of it that tells it apart.
        text: its pattern in canonical form, with its output.
        body: the pattern without its outermost keys and windows, and without its output.
        key: the attributes of the keys around the whole.
        window: the length of the shortest window around the whole, ns; None for none.
        output: its output in pattern notation; empty where that has no name or where it is part of others only.
        patterns: which patterns of the file it is the detector of, by place.
        parts: the ids of the detectors it reads.
        reads: the types of events it reads itself, by name, `any event` among them.
        exports: the variables and registers that its records hand on.
        serves: how many it serves, readers and itself as a pattern's; 0 where it is not shared.
        epochs: whether it consumes by epochs.
        running: whether it runs already.
    """

    id: str
    short: str
    text: str
    body: str
    key: tuple[str, ...]
    window: int | None
    output: str
    patterns: tuple[int, ...]
    parts: tuple[str, ...]
    reads: tuple[str, ...]
    exports: tuple[str, ...]
    serves: int
    epochs: bool
    running: bool

    @property
    def root(self) -> bool:
        """Whether this is the detector of a pattern: one of the file, or a running one that publishes."""
        return bool(self.patterns or self.output)

    def notes(self) -> tuple[str, ...]:
        """Notes beside the name."""
        return (
            *((RUNS_ALREADY,) if self.running else ()),
            *((f"shared by {self.serves}",) if self.serves else ()),
        )

    def remarks(self) -> tuple[str, ...]:
        """Remarks on the whole detector."""
        remarks = [f"by {', '.join(map(quote_name, self.key))}"] if self.key else []
        remarks += [f"within {format_duration(self.window)}"] if self.window is not None else []
        return (*remarks, *(["by epochs: not cut"] if self.epochs else []))


@dataclass(frozen=True, slots=True)
class PublicationView:
    """Composite events that leave the graph.

    Attributes:
        id: its name in flows.
        type_name: their type; empty for composite events without a name.
    """

    id: str
    type_name: str

    @property
    def text(self) -> str:
        """The text of the publication."""
        return quote_name(self.type_name) if self.type_name else "composite events"


@dataclass(frozen=True, slots=True)
class Flow:
    """A flow between two nodes.

    Attributes:
        source, target: an input, by its type; a detector, by its id; or a publication, by its id.
        label: the events, in one or two lines.
    """

    kind: FlowKind
    source: str
    target: str
    label: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GraphView:
    """A graph of detectors.

    Attributes:
        decomposition: the name of the decomposition it comes from.
        patterns: the patterns of the file as they were written.
        roots: for each of them the id of its detector.
        inputs: the types of primitive events it reads, and `any event`.
        detectors: each behind those it reads.
        publications: its outputs.
        flows: from where to where.
    """

    decomposition: str
    patterns: tuple[str, ...]
    roots: tuple[str, ...]
    inputs: tuple[str, ...]
    detectors: tuple[DetectorView, ...]
    publications: tuple[PublicationView, ...]
    flows: tuple[Flow, ...]

    @property
    def shared(self) -> int:
        """Number of detectors with several readers."""
        return sum(each.serves > 0 for each in self.detectors)

    @property
    def running(self) -> int:
        """Number of running detectors."""
        return sum(each.running for each in self.detectors)

    @property
    def for_reuse(self) -> bool:
        """Whether running detectors are distinguished from new ones."""
        return self.decomposition == FOR_REUSE

    def summary(self) -> str:
        """Summary in numbers."""
        counted = f"{_count(len(self.patterns), 'pattern')}, {_count(len(self.detectors), 'detector')}"
        if self.for_reuse:
            new = len(self.detectors) - self.running
            counted += f": {self.running} {'runs' if self.running == 1 else 'run'} already, {new} new"
        separator = ";" if self.for_reuse else ","
        return f"{counted}{separator} {self.shared} shared" if self.shared else counted

    def detector(self, id_: str) -> DetectorView:
        """The detector of this id."""
        return next(each for each in self.detectors if each.id == id_)


def graph_view(
    patterns: Sequence[Compiled],
    graph: DetectorGraph,
    decomposition: str,
    derived: Mapping[str, str] | None = None,
) -> GraphView:
    """The view of a graph.

    Args:
        patterns: those it was cut from, in their order; not those that run already.
        derived: the names of derived types by the marks of their throttlings, where they are known.
    """
    plans = graph.plans.values()
    throttled: dict[str, str] = {}
    for plan in plans:
        throttled |= throttled_names(plan.compiled.throttlings, derived or {})
    published = {name: _publication_id(name) for plan in plans if (name := _published(plan.compiled))}
    short = _short_ids(graph.plans)
    detectors: list[DetectorView] = []
    publications: dict[str, PublicationView] = {}
    flows: list[Flow] = []
    for plan in plans:
        reads = _reads(plan.compiled.automaton, published)
        detectors.append(_detector(plan, graph, short[plan.id], tuple(reads), throttled))
        for name, marks in reads.items():
            if name in published:
                flows.append(Flow("read", published[name], plan.id, (quote_name(name),)))
            else:
                seen = [throttled[mark] for mark in sorted(marks) if mark in throttled]
                label = (_input(name), *([f"throttled: {', '.join(seen)}"] if seen else []))
                flows.append(Flow("events", name, plan.id, label))
        for part in plan.parts:
            handed_on = ", ".join(map(quote_name, sorted(graph.plans[part].exports)))
            label = ("composite events", f"with records: {handed_on}" if handed_on else "with records")
            flows.append(Flow("records", part, plan.id, label))
        name = _published(plan.compiled)
        if name or plan.id in graph.roots:
            id_ = published[name] if name else _publication_id(plan.id)
            publications[id_] = PublicationView(id_, name)
            flows.append(Flow("published", plan.id, id_, ("composite events",)))
    return GraphView(
        decomposition,
        tuple(compiled.text for compiled in patterns),
        tuple(graph.roots),
        tuple(sorted({flow.source for flow in flows if flow.kind == "events"})),
        tuple(detectors),
        tuple(publications.values()),
        tuple(flows),
    )


def _detector(
    plan: DetectorPlan, graph: DetectorGraph, short: str, reads: tuple[str, ...], throttled: Mapping[str, str]
) -> DetectorView:
    publication = with_throttled_names(plan.compiled.plain, throttled)
    core = core_of(publication.pattern)
    output = publication.output
    return DetectorView(
        id=plan.id,
        short=short,
        text=format_publication(publication),
        body=format_pattern(core.pattern),
        key=core.key,
        window=core.window,
        output="" if output is None else format_output(output),
        patterns=tuple(place for place, root in enumerate(graph.roots) if root == plan.id),
        parts=plan.parts,
        reads=reads,
        exports=tuple(sorted(plan.exports)),
        serves=len(graph.readers(plan.id)) + (plan.id in graph.roots) if plan.id in graph.shared else 0,
        epochs=plan.compiled.epochs,
        running=plan.id in graph.reused,
    )


def _published(compiled: Compiled) -> str:
    output = compiled.publication.output
    return "" if output is None else output.type_name


def _publication_id(name: str) -> str:
    # No type and no detector is called like this.
    return f"-> {name}"


def _reads(automaton: Automaton, published: Iterable[str]) -> dict[str, frozenset[str]]:
    """The event types an automaton itself reads, each with the names its conditions use.

    What is delegated is read by others. `any` is every primitive event; composite ones are read by their names.
    """
    found: dict[str, set[str]] = {}
    for position in automaton.positions:
        if position.domain.others != FALSE:
            found.setdefault(ANY, set())
        for name, condition in position.domain.by_type.items():
            if name[0] in (TIMER_PREFIX, PART_PREFIX) or condition == FALSE:
                continue
            if name in published or condition != position.domain.others:
                asked = names(condition) | names(position.label.condition(name))
                found.setdefault(name, set()).update(asked)
    for part in automaton.inner:
        for name, asked_inside in _reads(part, published).items():
            found.setdefault(name, set()).update(asked_inside)
    return {name: frozenset(found[name]) for name in sorted(found)}


def _input(name: str) -> str:
    return name if name == ANY else quote_name(name)


def _short_ids(ids: Iterable[str]) -> dict[str, str]:
    """The shortest prefixes that distinguish ids, all of one length."""
    every = list(ids)
    length = _LEAST_SHORT
    while len({each[:length] for each in every}) < len(every):
        length += 1
    return {each: each[:length] for each in every}


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"

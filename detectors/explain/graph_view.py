"""Views of detector graphs: detectors, their inputs and publications, for drawings and as JSON.

Text, diagrams and JSON are made from this view, so they show the same. For reuse it is the graph of the new patterns,
with the running detectors they use.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import count
from typing import Any, Final, Literal, TypeAlias

import msgspec

from distced.detectors.automata.automaton import INSIDE, PART_PREFIX, Automaton
from distced.detectors.compiler import Compiled, private_names
from distced.detectors.cutting.catalogue import core_of
from distced.detectors.cutting.cut import DetectorGraph
from distced.detectors.cutting.cut_report import with_throttled_names
from distced.detectors.explain.manner import manner_of
from distced.detectors.language.derived import throttled_names
from distced.middleware.model.clock_rules import is_clock
from distced.middleware.model.timestamps import format_duration
from distced.middleware.patterns.printer import format_output, format_pattern, format_publication
from distced.middleware.sets.expressions import FALSE, names, quote_name

FlowKind: TypeAlias = Literal["events", "records", "published", "read"]
"""Primitive events; composite events with derivations, into the detector they are part of; composite events out of the
graph; composite events into a pattern that reads them by name."""

# The decomposition that distinguishes running detectors from new ones, and the remark on them.
FOR_REUSE: Final = "for-reuse"
RUNS_ALREADY: Final = "runs already"
# The input of a detector that reads `any`, and the output of one without a name.
ANY: Final = "any event"
UNNAMED: Final = "composite events"
# No type and no detector is called like this.
_PUBLICATION: Final = "-> "


class PatternView(msgspec.Struct, frozen=True):
    """A pattern of the file as it was written, and the id of its detector."""

    text: str
    detector: str


class DetectorView(msgspec.Struct, frozen=True):
    """A detector; its output, `publishes`, is None without a name and where it is part of others only.

    Attributes:
        text: its pattern in canonical form, with its output; `body` is without output, outermost keys and windows.
        window_ns: the length of the shortest window around the whole.
        patterns: places in the file of the patterns it is the detector of.
        parts, reads: the ids of the detectors and the types of events it reads itself.
        exports: the variables and registers that its derivations hand on.
        serves: number of readers, itself as a pattern's detector included.
        manner: how it is consumed and begins, where that is not as usual, so that it is not cut.
        short: a distinctive prefix of the id; like `body` not in JSON.
    """

    id: str
    text: str
    key: tuple[str, ...]
    window_ns: int | None
    consumption: Literal["epoch", "ordered"]
    patterns: tuple[int, ...]
    publishes: str | None
    parts: tuple[str, ...]
    reads: tuple[str, ...]
    exports: tuple[str, ...]
    serves: int
    shared: bool
    running: bool
    short: str
    body: str
    manner: tuple[str, ...] = ()

    @property
    def root(self) -> bool:
        """Whether this is the detector of a pattern: one of the file, or a running one that publishes."""
        return bool(self.patterns or self.publishes)

    def remarks(self) -> list[str]:
        """Remarks on the whole detector."""
        remarks = context(self.key, self.window_ns, self.exports)
        return [*remarks, f"{', '.join(self.manner)}: not cut"] if self.manner else remarks


def context(key: Sequence[str], window: int | None, exports: Collection[str]) -> list[str]:
    """The keys and windows around a pattern, and the variables and registers that its derivations hand on."""
    said = [f"by {', '.join(map(quote_name, key))}"] if key else []
    said += [f"within {format_duration(window)}"] if window is not None else []
    return [*said, *([f"hands on {', '.join(map(quote_name, sorted(exports)))}"] if exports else [])]


class PublicationView(msgspec.Struct, frozen=True):
    """Composite events that leave the graph, under their id in flows; without a type where they have no name."""

    id: str
    type: str | None

    @property
    def text(self) -> str:
        """The text of the publication."""
        return quote_name(self.type) if self.type else UNNAMED


class Flow(msgspec.Struct, frozen=True, rename={"source": "from", "target": "to"}):
    """A flow between an input, by its type, a detector and a publication, by their ids."""

    kind: FlowKind
    source: str
    target: str
    carries: tuple[str, ...]


class GraphView(msgspec.Struct, frozen=True):
    """A graph of detectors, each behind those it reads."""

    decomposition: str
    patterns: tuple[PatternView, ...]
    inputs: tuple[str, ...]
    detectors: tuple[DetectorView, ...]
    publications: tuple[PublicationView, ...]
    flows: tuple[Flow, ...]

    def as_dict(self) -> dict[str, Any]:
        """The JSON document of `distced explain --decomposition ... --format json`."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        for detector in document["detectors"]:
            del detector["short"], detector["body"]
        return document

    def summary(self) -> str:
        """Summary in numbers."""
        patterns, detectors = len(self.patterns), len(self.detectors)
        counted = f"{patterns} pattern{'s' * (patterns != 1)}, {detectors} detector{'s' * (detectors != 1)}"
        if self.decomposition == FOR_REUSE:
            running = sum(each.running for each in self.detectors)
            counted += f": {running} run{'s' * (running == 1)} already, {detectors - running} new"
        shared = sum(each.shared for each in self.detectors)
        return f"{counted}{';' if self.decomposition == FOR_REUSE else ','} {shared} shared" if shared else counted

    def detector(self, id_: str) -> DetectorView:
        """The detector of this id."""
        return next(each for each in self.detectors if each.id == id_)


def graph_view(
    patterns: Sequence[Compiled], graph: DetectorGraph, decomposition: str, derived: Mapping[str, str] | None = None
) -> GraphView:
    """The view of a graph cut from these patterns; `derived` are names of throttled types by mark, where known."""
    plans = graph.plans.values()
    throttled = {name: each for name, each in (derived or {}).items() if is_clock(name)}
    for plan in plans:
        throttled |= throttled_names(plan.compiled.throttlings, derived or {}, plan.compiled.computations)
        throttled |= private_names(plan.compiled)
    types = {plan.id: out.type_name for plan in plans if (out := plan.compiled.publication.output) and out.type_name}
    published = set(types.values())
    length = next(size for size in count(7) if len({each[:size] for each in graph.plans}) == len(graph.plans))
    detectors: list[DetectorView] = []
    publications: dict[str, PublicationView] = {}
    flows: list[Flow] = []
    for plan in plans:
        reads = _reads(plan.compiled.automaton, published)
        publication = with_throttled_names(plan.compiled.plain, throttled)
        core = core_of(publication.pattern)
        shared = plan.id in graph.shared
        detectors.append(DetectorView(
            id=plan.id,
            text=format_publication(publication),
            key=core.key,
            window_ns=core.window,
            consumption="epoch" if plan.compiled.epochs else "ordered",
            patterns=tuple(place for place, root in enumerate(graph.roots) if root == plan.id),
            publishes=None if (out := publication.output) is None or not out.type_name else format_output(out) or None,
            parts=plan.parts,
            reads=tuple(reads),
            exports=tuple(sorted(plan.exports)),
            serves=len(graph.readers(plan.id)) + (plan.id in graph.roots) if shared else 1,
            shared=shared,
            running=plan.id in graph.reused,
            short=plan.id[:length],
            body=format_pattern(core.pattern),
            manner=manner_of(plan.compiled.automaton),
        ))  # fmt: skip
        for name, marks in reads.items():
            if name in published:
                flows.append(Flow("read", _PUBLICATION + name, plan.id, (quote_name(name),)))
            else:
                stages = plan.compiled.throttlings
                beside = {each.mark for each in stages if each.sliding is not None or each.state is not None}
                seen = ", ".join(throttled[mark] for mark in sorted(marks - beside) if mark in throttled)
                label = name if name == ANY else quote_name(name)
                flows.append(Flow("events", name, plan.id, (label, f"throttled: {seen}") if seen else (label,)))
        for part in plan.parts:
            exports = ", ".join(map(quote_name, sorted(graph.plans[part].exports)))
            carried = (UNNAMED, f"with records: {exports}" if exports else "with records")
            if (mark := PART_PREFIX + part) in throttled and all(
                each.private for each in plan.compiled.automaton.delegated if each.detector == part
            ):
                carried = (UNNAMED, f"private {quote_name(throttled[mark])}")
            flows.append(Flow("records", part, plan.id, carried))
        if plan.id in types or plan.id in graph.roots:
            id_ = _PUBLICATION + types.get(plan.id, plan.id)
            publications[id_] = PublicationView(id_, types.get(plan.id))
            flows.append(Flow("published", plan.id, id_, (UNNAMED,)))
    return GraphView(
        decomposition,
        tuple(PatternView(compiled.text, root) for compiled, root in zip(patterns, graph.roots, strict=True)),
        tuple(sorted({flow.source for flow in flows if flow.kind == "events"})),
        tuple(detectors),
        tuple(publications.values()),
        tuple(flows),
    )


def _reads(automaton: Automaton, published: Collection[str]) -> dict[str, set[str]]:
    """The event types an automaton itself reads, each with the names its conditions use; `any` is every primitive
    event."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for position in automaton.positions:
        if position.domain.others != FALSE:
            found.setdefault(ANY, set())
        for name, condition in position.domain.by_type.items():
            if name[0] in INSIDE or condition == FALSE:
                continue
            if name in published or condition != position.domain.others:
                found[name] |= names(condition) | names(position.label.condition(name))
    for part in automaton.inner:
        for name, asked in _reads(part, published).items():
            found[name] |= asked
    return dict(sorted(found.items()))

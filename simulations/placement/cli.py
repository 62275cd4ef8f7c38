"""The driver of `distced place`: reads what is given, has it analysed, and writes what is to be seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from distced.detectors.pattern_files import PatternSource, compile_source, read_source
from distced.middleware.cli.output import messages, output, print_json, show_notes
from distced.middleware.history.history import History
from distced.middleware.history.reader import events_of_history
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import EventType
from distced.middleware.wire.directory_entries import SourceEntry
from distced.policies.distribution.hint_files import write_hints
from distced.policies.distribution.policy import parse_policy
from distced.policies.explaining.deployment import subscribers_of
from distced.policies.topology.model import Place
from distced.policies.topology.topology import Topology
from distced.policies.topology.topology_file import load_topology
from distced.simulations.placement.analysis import OPTIMUM, REPLANNED, Analysis, analyse, hints_of
from distced.simulations.placement.analysis_report import as_dict, overlay_of, show
from distced.simulations.placement.evaluation import OWN, Metric
from distced.simulations.placement.history_figures.counts import Counts
from distced.simulations.placement.history_figures.days import DayTask, count_days, on_spark
from distced.simulations.placement.history_figures.measuring import (
    instance_of,
    located,
    measured,
    opened,
    registry_of,
    sources_of,
    types_of,
    wanted_types,
)
from distced.simulations.placement.optimum.search_space import Asked, Space, space_of
from distced.simulations.placement.what_if import LOOK, SETTLE, Recorded, Replayed, replay

WITHIN: Final = 0.1
"""Within what share of what is measured on a link the prediction should be."""

PLANNED: Final = (REPLANNED, OPTIMUM)
"""Placements that are no policy's; nodes come to them by hints."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for; the names are those of the options.

    Attributes:
        candidates: what is simulated, too: policies, or other placements that are compared.
        spark: the master that days are counted on; empty for this process, one after the other.
    """

    history: Path
    topology: Path
    patterns: str
    metric: Metric
    subscribers: tuple[str, ...] = ()
    near: tuple[str, ...] = ()
    out: Path | None = None
    picture: Path | None = None
    what_if: bool = False
    candidates: tuple[str, ...] = ()
    seed: int = 0
    solver: float = 60.0
    spark: str = ""
    figures: bool = False
    as_json: bool = False


def place(wanted: Wanted) -> int:
    """Analyse; 0 unless a simulation was off by more than a tenth on some link."""
    history, topology = opened(wanted.history), load_topology(wanted.topology)
    policies = [parse_policy(each, where="--candidate") for each in wanted.candidates if each not in PLANNED]
    patterns = compile_source(read_source(wanted.patterns), registry_of(history))
    names = [
        each.publishes.name if each.publication.output is not None else f"pattern {number}"
        for number, each in enumerate(patterns.compiled, 1)
    ]
    asked = [
        Asked(name, compiled, _subscribers(wanted, topology, name, names))
        for name, compiled in zip(names, patterns.compiled, strict=True)
    ]
    space = space_of(asked)
    sources = located(sources_of(history, wanted_types(space)), topology)
    console = messages()
    with console.status("counting") as status:
        counts = _counts(wanted, patterns.source, history, space, sources, status.update)
        instance = instance_of(counts, space, topology, sources)
        found = analyse(instance, wanted.metric, further=policies, seconds=wanted.solver, tell=status.update)
        replayed = []
        candidates = [OWN[wanted.metric], OPTIMUM] if wanted.what_if else []
        candidates += [each.text for each in policies] + [each for each in PLANNED if each in wanted.candidates]
        if candidates:
            recorded = _recorded(history, space, sources)
            for name in dict.fromkeys(candidates):
                status.update(f"simulating {name}")
                replayed += _replay(found, recorded, name, wanted.seed)
    if wanted.as_json:
        print_json(as_dict(found, counts, replayed))
    else:
        show(output(), found, counts, replayed, figures=wanted.figures)
    if wanted.out is not None:
        texts = {name: entry.pattern for name, entry in found.best.detectors.items()}
        write_hints(wanted.out, wanted.metric, texts, found.hints())
    if wanted.picture is not None:
        from distced.policies.topology.drawing.svg import topology_svg

        try:
            wanted.picture.write_text(topology_svg(topology, overlay_of(found)), encoding="utf-8")
        except OSError as error:
            raise DistcedError("cannot write the picture", given=str(wanted.picture), advice=str(error)) from None
    show_notes([*patterns.notes, *(f"{each.where}: {each.error}" for each in history.problems)])
    return 0 if all(each.settled and each.worst <= WITHIN for each in replayed) else 1


def _counts(
    wanted: Wanted,
    source: PatternSource,
    history: History,
    space: Space,
    sources: dict[str, SourceEntry],
    tell: Callable[[str], None],
) -> Counts:
    if wanted.spark:
        tell("counting on Spark")
        task = DayTask(str(wanted.history.resolve()), source.text, source.name, types_of(sources))
        return count_days(task, on_spark(wanted.spark))

    def told(what: str, done: int, of: int) -> None:
        tell(f"counting {what}: {done} of {of}")

    return measured(history, space, sources, tell=told)


def _subscribers(wanted: Wanted, topology: Topology, name: str, names: Sequence[str]) -> tuple[Place, ...]:
    """Who wants a pattern: those that are named for it, else those that are named for all."""
    own = [_of(each, name, names) for each in wanted.subscribers], [_of(each, name, names) for each in wanted.near]
    subscribers, near = ([each for each in given if each] for given in own)
    return subscribers_of(topology, subscribers, near, str(wanted.topology))


def _of(given: str, name: str, names: Sequence[str]) -> str:
    """The name in `PATTERN=NAME`, where it is for this pattern, or in `NAME`; empty where it is for another."""
    pattern, sign, subscriber = given.rpartition("=")
    if not sign:
        return given
    if pattern not in names:
        raise DistcedError("there is no pattern of this name", given=pattern, allowed=", ".join(names),
                           where="--subscriber, --near")  # fmt: skip
    return subscriber if pattern == name else ""


def _recorded(history: History, space: Space, sources: dict[str, SourceEntry]) -> Recorded:
    """The beginning of the history, as long as it is simulated."""
    types = wanted_types(space)
    start = (history.first or 0) - 1
    events = list(events_of_history(history, types, start + 1, start + SETTLE + LOOK))
    every = dict(history.types)
    for each in sources.values():
        # What a publisher of the topology may publish, and has not in this history.
        for name in each.types:
            every.setdefault(name, EventType(name, {}))
    return Recorded(events, tuple(every.values()), sources, start)


def _replay(found: Analysis, recorded: Recorded, name: str, seed: int) -> list[Replayed]:
    option = next((each for each in found.options if each.name == name), None)
    if option is None:
        return []
    policy = OWN[found.metric] if name in PLANNED else name
    instance = found.instance
    run = replay(recorded, instance.space, instance.topology, policy, name=name,
                 hints=hints_of(instance, option.detectors), seed=seed)  # fmt: skip
    return [run]

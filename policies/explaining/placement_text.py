"""Explanation of policies as text for a terminal, and as drawn on a topology."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from distced.middleware.cli.output import table
from distced.middleware.model.errors import DistcedError
from distced.policies.distribution.candidate import Candidate
from distced.policies.distribution.choose.place_all import Placed, Placement
from distced.policies.distribution.choose.reasons import show_figure, show_rate, show_time, show_use, what
from distced.policies.explaining.explained import DetectorRow, Explained, LinkRow, form_of
from distced.policies.topology.model import Place
from distced.policies.topology.topology_drawing import Hosted, Overlay

ALTERNATIVES: Final = 4
"""Number of runners-up printed; JSON has them all."""

SHORT: Final = 7
"""Characters of an id that are shown."""

_RIGHT: Final = (
    "load", "finds", "sends", "now", "more", "of its bandwidth", "costs", "delay", "bytes", "new", "reused",
    "busiest node",
)  # fmt: skip


def explained_as_text(explained: Explained) -> Iterator[RenderableType]:
    """Parts to be printed, for one policy."""
    asked = explained.asked
    yield Text.assemble((explained.policy.text, "bold"), f", for {_listed(explained, asked.subscribers)}")
    for number, placement in enumerate(explained.placements, 1):
        yield Text()
        if len(explained.placements) > 1:
            yield Text(f"pattern {number}: {placement.root.pattern}", "bold")
        yield _detectors(explained, explained.rows(placement))
    yield Text()
    yield _links(explained.links) if explained.links else Text("nothing is sent over links", "dim")
    for placement in explained.placements:
        yield Text()
        yield from _about(explained, placement)


def comparison_as_text(tried: Mapping[str, Explained | DistcedError]) -> Iterator[RenderableType]:
    """Policies side by side, then the reasons of each."""
    done = [each for each in tried.values() if isinstance(each, Explained)]
    if done:
        yield Text(f"for {_listed(done[0], done[0].asked.subscribers)}")
        yield Text()
    yield _compared(tried)
    # Policies often come to the same.
    said: dict[tuple[str, ...], list[str]] = {}
    for name, each in tried.items():
        said.setdefault(_why(name, each), []).append(name)
    for reasons, names in said.items():
        yield Text()
        yield Text(", ".join(names), "bold")
        for reason in reasons:
            yield _indented(Text(reason, "yellow" if isinstance(tried[names[0]], DistcedError) else ""))


def _why(name: str, each: Explained | DistcedError) -> tuple[str, ...]:
    if isinstance(each, DistcedError):
        return (str(each),)
    return tuple(placement.root.suggestion.reason.removeprefix(f"{name}: ") for placement in each.placements)


def _compared(tried: Mapping[str, Explained | DistcedError]) -> Table:
    """A row for each policy; the best of each column stands out."""
    figures = {name: _figures(each) for name, each in tried.items() if isinstance(each, Explained)}
    best = [min((row[column] for row in figures.values()), default=0.0) for column in range(5)]
    rows: list[tuple[Text, ...]] = []
    for name, each in tried.items():
        if isinstance(each, DistcedError):
            rows.append((Text(name, "cyan"), Text("cannot", "yellow"), *([Text()] * 7)))
            continue
        shown = _shown(each, figures[name])
        marked = [
            Text(text, "bold green" if figure <= least * (1 + 1e-9) else "")
            for text, figure, least in zip(shown, figures[name], best, strict=True)
        ]
        nodes = dict.fromkeys(host for name in each.touched for host in each.after.hosts(name))
        counts = (Text(str(len(each.new))), Text(str(len(each.reused))))
        rows.append((Text(name, "cyan"), Text(", ".join(nodes)), *counts, *marked))
    return table(("policy", "on", "new", "reused", "delay", "bytes", "costs", "load", "busiest node"), rows, _RIGHT)


def _figures(each: Explained) -> tuple[float, ...]:
    delays = each.delays
    return (sum(delays) / len(delays), each.bytes_more, each.cost_more, each.load_more, each.after.busiest[1])


def _shown(each: Explained, figures: Sequence[float]) -> tuple[str, ...]:
    delay, size, cost, load, use = figures
    chosen = each.placements[-1].root.suggestion.chosen
    return show_time(delay), show_rate(size), f"{show_figure(cost)}/s", f"{show_figure(load)}/s", show_use(chosen, use)


# One policy.


def _detectors(explained: Explained, rows: Sequence[DetectorRow]) -> Table:
    cells = []
    for row in rows:
        tree = "" if not row.depth else "   " * (row.depth - 1) + ("└─ " if row.last else "├─ ")
        again = row.action == "as above"
        sites = dict.fromkeys(explained.after.site_of_node(host) for host in row.hosts)
        cells.append((
            Text.assemble((tree, "dim"), (row.id[:SHORT], "bold")),
            Text(row.action, {"create": "green", "reuse": "magenta"}.get(row.action, "yellow")),
            Text(", ".join(row.hosts), "cyan"),
            Text(", ".join(sites)),
            *(
                Text("" if again else said)
                for said in (
                    f"{show_figure(row.does.load)}/s",
                    f"{show_figure(row.does.rate)}/s",
                    show_rate(row.does.size),
                )
            ),
            Text("" if again else row.pattern),
        ))  # fmt: skip
    return table(("detector", "action", "node", "site", "load", "finds", "sends", "detects"), cells, _RIGHT)


def _links(links: Sequence[LinkRow]) -> Table:
    rows = [
        (
            Text(f"{each.origin} → {each.target}"),
            Text(show_rate(each.before)),
            Text(show_rate(each.more)),
            Text("" if each.share is None else f"{show_figure(each.share * 100)} %",
                 "bold red" if (each.share or 0.0) > 1 else ""),
            Text(f"{show_figure(each.cost)}/s"),
        )
        for each in links
    ]  # fmt: skip
    before, more, cost = (sum(getattr(each, name) for each in links) for name in ("before", "more", "cost"))
    every = ("all", show_rate(before), show_rate(more), "", f"{show_figure(cost)}/s")
    rows.append(tuple(Text(each, "bold") for each in every))  # type: ignore[arg-type]
    return table(("link", "now", "more", "of its bandwidth", "costs"), rows, _RIGHT)


def _about(explained: Explained, placement: Placement) -> Iterator[RenderableType]:
    facts = Table(box=None, pad_edge=False, show_edge=False, show_header=False)
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(overflow="fold")
    for place in explained.asked.subscribers:
        subscriber = f"a subscriber at {place.name}" if place.kind == "site" else place.name
        facts.add_row("delay", f"{show_time(explained.delay(placement, place))} to {subscriber}, mean")
    for each in placement.placed:
        facts.add_row(f"why {each.id[:SHORT]}", each.suggestion.reason)
    yield facts
    yield Text()
    yield _choices(placement.root)


def _choices(placed: Placed) -> Table:
    suggestion = placed.suggestion
    every = [suggestion.chosen, *suggestion.alternatives[:ALTERNATIVES]]
    rows = [
        (
            Text("→" if number == 0 else str(number + 1), "bold green" if number == 0 else "dim"),
            Text(what(each), "bold" if number == 0 else ""),
            Text(form_of(placed, each)),
            *map(Text, _candidate(each)),
        )
        for number, each in enumerate(every)
    ]
    left = len(suggestion.alternatives) + 1 - len(every)
    if left:
        rows.append((Text(), Text(f"and {left} more", "dim"), *([Text()] * 5)))
    return table(
        ("", f"choices for {placed.id[:SHORT]}", "detected", "delay", "bytes", "load", "busiest node"), rows, _RIGHT
    )


def _candidate(each: Candidate) -> tuple[str, ...]:
    return (
        show_time(each.delay),
        show_rate(each.bytes),
        f"{show_figure(each.load)}/s",
        show_use(each, each.peak) + (", too much" if each.overloaded else ""),
    )


def _listed(explained: Explained, places: Sequence[Place]) -> str:
    return ", ".join(
        f"a subscriber at {each.name}" if each.kind == "site" else f"{each.name} at {explained.after.site_of(each)}"
        for each in places
    )


def _indented(text: Text) -> Padding:
    text.overflow, text.no_wrap = "fold", False
    return Padding(text, (0, 0, 0, 2), expand=False)


def overlay_of(explained: Explained) -> Overlay:
    """The detectors that the patterns have to do with, and the bytes on links, with what was there before."""
    hosted: dict[str, list[Hosted]] = {}
    new = frozenset(explained.new)
    for name in explained.touched:
        text = f"{name[:SHORT]} {explained.after.detectors[name].pattern}"
        before = explained.before.hosts(name)
        for node in explained.after.hosts(name):
            hosted.setdefault(node, []).append(Hosted(text, new=name in new or node not in before))
    flowing = {
        (each.origin, each.target): show_rate(each.before + each.more)
        for each in explained.links
        if each.before + each.more
    }
    patterns = "; ".join(each.root.pattern for each in explained.placements)
    return Overlay(f"{explained.policy.text}: {patterns}", hosted, flowing)

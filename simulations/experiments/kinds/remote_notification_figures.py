"""Figures of the kind `remote-notification`: bytes against subscribers, shares of the primitive solution's, parts.

The article gives two numbers of its Fig. 12: 53 % of all bytes and 8 % of the wireless ones, at six subscribers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from distced.simulations.experiments.model import Results, Row
from distced.simulations.experiments.office_network.primitive_run import PRIMITIVE
from distced.simulations.experiments.reporting.sections import Axis, Claim, Curves, Figure, Interval, Section, Table
from distced.simulations.experiments.reporting.statistics import interval
from distced.simulations.report import Cell as TableCell
from distced.simulations.report import Column

FRAMEWORK: Final = "framework"
FILTERS: Final = "framework-filters"
BOTH: Final = (FRAMEWORK, FILTERS)
NAMES: Final[Mapping[str, str]] = {
    FRAMEWORK: "composite-event framework",
    FILTERS: "framework, filters at sensors",
    **{name: f"primitive: {each.about}" for name, each in PRIMITIVE.items()},
}

ARTICLE: Final = "article, Fig. 12 (2004)"
AT: Final = 6
"""Number of subscribers of which the article gives shares."""

_SHARES: Final[Mapping[str, tuple[str, float, float]]] = {
    "total": ("all bytes", 0.53, 0.40),
    "wireless": ("bytes on wireless links", 0.08, 0.05),
}
"""By class of links: what it is called, the article's share, and the one that is aimed at."""

_SHORT: Final = {"mqtt": "MQTT, binary frames", "jms": "JMS, XML"}
_BARS: Final = ("mqtt", "jms")
"""Variants that send all primitive events, as the article says; the aim is set against these."""

Figured = Callable[[Row], float]


def figures(results: Results) -> list[Section]:
    """Bytes, shares, parts and settings, and what they show."""
    first = results.distinct("setting")[0]
    own = results.where(setting=first)
    baselines = [name for name in results.distinct("solution") if name not in BOTH]
    sections: list[Section] = [_settings(results)]
    for part in _SHARES:
        sections += [_bytes(own, part, baselines), _share_figure(own, part, baselines)]
    counts = own.distinct("subscribers")
    count = AT if AT in counts else counts[-1]
    sections += [_parts(own, count, baselines), _by_setting(results, baselines)]
    return sections + _claims(results, own, count, baselines)


def _number(row: Row, column: str) -> float:
    value = row.get(column)
    return float(value) if isinstance(value, int | float) else 0.0


def _bytes_of(column: str) -> Figured:
    return lambda row: _number(row, column)


def _at_servers(row: Row) -> float:
    """All bytes but those between a server and the broker node beside it."""
    return _number(row, "total_bytes") - _number(row, "brokers_bytes")


def _by_seed(results: Results, figured: Figured) -> dict[int, float]:
    return {int(row["seed"] or 0): figured(row) for row in results.rows}


def _share(results: Results, count: int, baseline: str, figured: Figured, mine: str = FRAMEWORK) -> Interval | None:
    """Share of the framework's bytes in those of a variant, over seeds with the same events."""
    own = _by_seed(results.where(subscribers=count, solution=mine), figured)
    other = _by_seed(results.where(subscribers=count, solution=baseline), figured)
    return interval([own[seed] / other[seed] for seed in own if other.get(seed)])


def _settings(results: Results) -> Table:
    rows: list[Sequence[TableCell]] = [(each.name, each.about) for each in results.spec.settings]
    return Table(
        "settings",
        "Settings",
        (Column("setting"), Column("the office and the subscribers")),
        rows,
        f"The first setting is that of the figures. A run is {results.spec.duration} of the office, and the minute "
        "before, in which everybody connects and subscribes.",
    )


def _bytes(own: Results, part: str, baselines: Sequence[str]) -> Figure:
    what = _SHARES[part][0]
    series: dict[str, Mapping[float, Interval]] = {}
    for solution in (*BOTH, *baselines):
        points = {}
        for count in own.distinct("subscribers"):
            found = interval(own.where(solution=solution, subscribers=count).numbers(f"{part}_bytes"))
            if found is not None:
                points[float(count)] = found
        if points:
            series[NAMES[solution]] = points
    logarithmic = part == "wireless"
    return Figure(
        f"{part}-bytes",
        f"Fig. 12: {what} against the number of subscribers",
        Curves(Axis("subscribers"), Axis(f"{what} in {own.spec.duration}", "B", logarithmic=logarithmic), series),
        _CAPTIONS[part],
    )


_CAPTIONS: Final = {
    "total": "Bytes on all links, wired and wireless, of one working day. In the primitive solution every subscriber "
    "reads the sensors itself, so each one more costs as much again; with the framework nodes near the sensors detect "
    "once, and send the few composite events. Bars are 95 % confidence intervals over seeds.",
    "wireless": "Bytes on the wireless links of the subscribers alone; a logarithmic axis. Where the server filters by "
    "person and room (topics by attributes, message selectors), little is left to save.",
}


def _share_figure(own: Results, part: str, baselines: Sequence[str]) -> Figure:
    what, article, aim = _SHARES[part]
    series: dict[str, Mapping[float, Interval]] = {}
    for baseline in (name for name in baselines if name in _SHORT):
        for solution in BOTH:
            points = {}
            for count in own.distinct("subscribers"):
                found = _share(own, count, baseline, _bytes_of(f"{part}_bytes"), solution)
                if found is not None:
                    points[float(count)] = found
            if points:
                with_filters = ", filters at sensors" if solution == FILTERS else ""
                series[f"against {_SHORT[baseline]}{with_filters}"] = points
    series[ARTICLE] = {float(AT): Interval(article, article, article)}
    return Figure(
        f"{part}-share",
        f"Framework's share of the primitive solution's bytes: {what}",
        Curves(
            Axis("subscribers"),
            Axis(f"framework / primitive solution, {what}"),
            series,
            reference={**({"equal": 1.0} if part == "total" else {}), f"aim at {AT} subscribers: {aim:.0%}": aim},
        ),
        f"Below 1 the framework sends less. The single point is what the article reports for {AT} subscribers "
        f"({article:.0%}; composite-event-framework-2004, “Evaluation and Results”), with messages of Java over JMS on "
        "both sides; our framework sends binary frames, and the primitive solution the same ones, or JMS messages.",
    )


_PARTS: Final = (
    ("wired: sensors – server", ("sensors_bytes",)),
    ("wired: server – server", ("servers_bytes",)),
    ("wired: servers – broker nodes", ("brokers_bytes",)),
    ("wireless: events and composite events", ("wireless_events_bytes", "wireless_composite_bytes")),
    ("wireless: directory and renewals", ("wireless_directory_bytes",)),
    ("wireless: administration", ("wireless_administration_bytes",)),
    ("wireless: connections, acknowledgements, pings", ("wireless_connections_bytes",)),
    ("all", ("total_bytes",)),
)


def _parts(own: Results, count: int, baselines: Sequence[str]) -> Table:
    shown = [name for name in (*BOTH, *baselines) if name in (*BOTH, *_BARS) and own.where(solution=name).rows]
    rows: list[Sequence[TableCell]] = []
    for label, columns in _PARTS:
        cells: list[TableCell] = [label]
        for solution in shown:
            some = own.where(solution=solution, subscribers=count).rows
            sizes = [sum(_number(row, column) for column in columns) for row in some]
            cells.append(sum(sizes) / len(sizes) / 1e3 if sizes else None)
        rows.append(cells)
    return Table(
        "parts",
        f"Where the bytes are, with {count} subscribers",
        (Column("links and messages"), *(Column(NAMES[each], "kB", ",.0f") for each in shown)),
        rows,
        "Means over seeds, of the first setting. The primitive solution has no broker nodes.",
    )


def _by_setting(results: Results, baselines: Sequence[str]) -> Table:
    rows: list[Sequence[TableCell]] = []
    for setting in results.distinct("setting"):
        own = results.where(setting=setting)
        for count in [each for each in own.distinct("subscribers") if each in (1, AT)]:
            for solution in [each for each in BOTH if own.where(solution=each).rows]:
                cells: list[TableCell] = [setting, count, "yes" if solution == FILTERS else "no"]
                for baseline in baselines:
                    for part in _SHARES:
                        found = _share(own, count, baseline, _bytes_of(f"{part}_bytes"), solution)
                        cells.append(None if found is None else found.mean * 100)
                rows.append(cells)
    columns = [Column("setting"), Column("subscribers", format=","), Column("filters at sensors")]
    columns += [Column(f"{part} / {baseline}", "%", ",.1f") for baseline in baselines for part in _SHARES]
    return Table(
        "by-setting",
        "Framework's bytes as a share of each variant's, in every setting",
        tuple(columns),
        rows,
        "; ".join(f"{name}: {PRIMITIVE[name].about}" for name in baselines) + ". Above 100 % the framework sends more.",
    )


def _claims(results: Results, own: Results, count: int, baselines: Sequence[str]) -> list[Claim]:
    found: list[Claim] = []
    there = [(each, name) for each in BOTH for name in _BARS if name in baselines and own.where(solution=each).rows]
    for solution, baseline in there:
        for part, (what, _, aim) in _SHARES.items():
            share = _share(own, count, baseline, _bytes_of(f"{part}_bytes"), solution)
            if share is not None:
                text = f"At {count} subscribers the {NAMES[solution]} sends at most {aim:.0%} of {what} "
                text += f"of the primitive solution ({PRIMITIVE[baseline].about})."
                found.append(Claim(text, share.mean <= aim, _measured(share), f"{part}-share"))
    for solution in [each for each, name in there if name == "mqtt"]:
        share = _share(own, count, "mqtt", _at_servers, solution)
        if share is not None:
            text = f"The same of the {NAMES[solution]}, with equal frames, where broker nodes stand beside their "
            text += f"servers, as the article's: at most {_SHARES['total'][2]:.0%} of all bytes."
            found.append(Claim(text, share.mean <= _SHARES["total"][2], _measured(share), "parts"))
    rows = [row for each in BOTH for row in results.where(solution=each).rows]
    right = sum(row["found"] == row["expected"] for row in rows)
    due = sum(_number(row, "expected") for row in rows)
    found.append(
        Claim(
            "Every subscriber hears of each composite event that one engine finds in all events.",
            right == len(rows),
            f"{right:,} of {len(rows):,} runs, {due:,.0f} notifications",
            "settings",
        )
    )
    return found


def _measured(share: Interval) -> str:
    return f"{share.mean:.1%} ({share.low:.1%} to {share.high:.1%}, {share.count} seeds)"

"""Figures of the kind `notification-delay`: histogram, cumulative distribution, percentiles.

The article's Fig. 13: "the notification delay stays below 220 ms".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from distced.simulations.experiments.model import Results
from distced.simulations.experiments.reporting.sections import Axis, Claim, Distribution, Figure, Section, Table
from distced.simulations.plots import percentile
from distced.simulations.report import Cell as TableCell
from distced.simulations.report import Column

MOST: Final = 220.0
"""Longest delay of the article, ms."""

_ABOUT: Final = {"C": "last event a timer", "C1": "last event a whiteboard's"}
_DELAY: Final = Axis("delay from the last event to the subscriber", "ms")
_DELAYS: Final = Axis("delay from the last event to the subscriber", "ms", logarithmic=True)
_ARTICLE: Final = {"article, Fig. 13 (2004): below 220 ms": MOST}
_SHARES: Final = (0.5, 0.9, 0.99)


def figures(results: Results) -> list[Section]:
    """Distributions of the delays, by setting and pattern."""
    settings, notifications = results.distinct("setting"), sorted(results.distinct("notification"))
    delays = {
        (setting, each): sorted(results.where(setting=setting, notification=each).numbers("delay_ms"))
        for setting in settings
        for each in notifications
    }
    named = {f"{setting}: {each} ({_ABOUT[each]})": made for (setting, each), made in delays.items()}
    how = "live, over mosquitto, with nodes in processes" if results.spec.live else "simulated"
    sections: list[Section] = [_settings(results)]
    for setting in settings:
        of_c = delays.get((setting, "C"), [])
        if of_c:
            sections.append(
                Figure(
                    f"histogram-{setting.replace(' ', '-')}",
                    f"Fig. 13: delays of notifications of C, {setting} ({how})",
                    Distribution(_DELAY, {f"C, {setting}": of_c}, "frequencies", _ARTICLE),
                    "How many notifications came how long after the composite event was complete. The dashed line is "
                    "the longest delay of the article (composite-event-framework-2004, Fig. 13), in Java over JMS.",
                )
            )
    sections.append(
        Figure(
            "cumulative",
            f"Cumulative distribution of the delays ({how})",
            Distribution(_DELAYS, named, "cumulative", _ARTICLE),
            "A curve at 0.9 above 100 ms says that nine of ten notifications came within 100 ms. C ends with a timer, "
            "which goes off once events or promises of sensors are later than its time: by best effort of any sensor, "
            "guaranteed of all. C1 ends with an event of a sensor.",
        )
    )
    sections.append(_percentiles(delays))
    return sections + _claims(results, settings, how)


def _settings(results: Results) -> Table:
    rows: list[Sequence[TableCell]] = [
        (each.name, each.about, each.heartbeat or "none", each.duration) for each in results.spec.settings
    ]
    columns = (Column("setting"), Column("detection"), Column("promises of sensors"), Column("time of the office"))
    network = results.spec.network
    return Table(
        "settings",
        "Settings",
        columns,
        rows,
        f"{results.spec.subscribers} PDAs, each with C and C1 for all eight residents. Wireless links: "
        f"{network.wireless_latency} and up to {network.wireless_jitter} more, {network.wireless_bandwidth}.",
    )


def _percentiles(delays: dict[tuple[str, str], list[float]]) -> Table:
    rows: list[Sequence[TableCell]] = [
        (setting, each, len(made), *(percentile(made, share) for share in _SHARES), made[-1])
        for (setting, each), made in delays.items()
        if made
    ]
    columns = (
        Column("setting"), Column("notification"), Column("number", format=","), Column("p50", "ms", ",.1f"),
        Column("p90", "ms", ",.1f"), Column("p99", "ms", ",.1f"), Column("longest", "ms", ",.1f"),
    )  # fmt: skip
    return Table("percentiles", "Percentiles of the delays", columns, rows)


def _claims(results: Results, settings: Sequence[str], how: str) -> list[Claim]:
    found = []
    for setting in settings:
        made = sorted(results.where(setting=setting).numbers("delay_ms"))
        if made:
            p99 = percentile(made, 0.99)
            text = f"With {setting} detection 99 % of the notifications come within the article's {MOST:.0f} ms "
            text += f"({how})."
            measured = f"p99 {p99:.1f} ms, longest {made[-1]:.1f} ms, of {len(made):,} notifications"
            found.append(Claim(text, p99 < MOST, measured, "percentiles"))
    return found

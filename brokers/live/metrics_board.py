"""Board of metrics: the last reading of each participant of this process, in the text format of Prometheus.

Participants put readings on the board, one a second (`brokers.live.participant`); the thread of an HTTP server reads
them (`brokers.live.metrics_server`), and never looks at a participant.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from distced.brokers.core.metrics import BOUNDS, COMPOSITE_DELAY, METRICS, Metric, MetricsReading
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.extras import missing
from distced.middleware.model.timestamps import SECOND

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

EVERY: Final = 1.0
"""Interval of readings, s."""

RECENT: Final = 5.0
"""Age from which a reading says that its participant does not run, s."""


class MetricsBoard:
    """Readings of the participants of a process, by role and name; any thread may call it."""

    def __init__(self) -> None:
        # Replaced by a participant, as a whole, and read by others: each step is one of the dictionary.
        self._readings: dict[tuple[str, str], MetricsReading] = {}

    def is_due(self, role: str, name: str, at: float) -> bool:
        """Whether the next reading of a participant is due. `at`: monotonic clock, s."""
        before = self._readings.get((role, name))
        return before is None or at - before.at >= EVERY

    def put(self, reading: MetricsReading) -> None:
        """Replace the reading of a participant."""
        self._readings[reading.role, reading.name] = reading

    def remove(self, role: str, name: str) -> None:
        """Remove a participant that has ended."""
        self._readings.pop((role, name), None)

    def all(self) -> list[MetricsReading]:
        """Last reading of each participant."""
        return list(self._readings.values())

    def problems(self, at: float) -> list[str]:
        """Why participants are not in order; empty where all are. `at`: monotonic clock, s."""
        found = self.all()
        problems = [] if found else ["no participant runs"]
        for each in found:
            subject, age = f"{each.role} {each.name}", at - each.at
            if age > RECENT:
                problems.append(f"{subject}: it has not run for {age:.0f} s")
            elif not each.connected:
                problems.append(f"{subject}: no connection to the server of the directory")
        return problems


class Collector:
    """Collector of the library for Prometheus: the readings of a board."""

    def __init__(self, board: MetricsBoard) -> None:
        self._board = board

    def describe(self) -> list[Family]:
        """Nothing: names are not checked when it is registered."""
        return []

    def collect(self) -> Iterator[Family]:
        """Families with a sample, of the last readings."""
        return collected(self._board.all())


def collected(readings: list[MetricsReading]) -> Iterator[Family]:
    """Families with a sample, of readings."""
    for metric in METRICS:
        family = _family(metric)
        for each in readings:
            own = {each.role: each.name}
            if metric.name == COMPOSITE_DELAY:
                _add_delays(family, each, own)
                continue
            for labels, value in each.values.get(metric.name, {}).items():
                family.add_sample(metric.name, own | dict(zip(metric.labels, labels, strict=True)), value)
        if family.samples:
            yield family


def check_installed() -> None:
    """Raise `DistcedError` where the library for Prometheus is not installed."""
    try:
        import prometheus_client  # noqa: F401
    except ImportError as error:
        raise missing(error) or DistcedError("prometheus_client cannot be used", given=str(error)) from None


def _family(metric: Metric) -> Family:
    from prometheus_client.core import Metric as Family

    return Family(metric.name.removesuffix("_total"), metric.help, metric.kind, metric.unit)


def _add_delays(family: Family, reading: MetricsReading, own: dict[str, str]) -> None:
    delays = reading.delays
    if delays is None:
        return
    for bound, number in zip(BOUNDS, delays.up_to, strict=True):
        family.add_sample(f"{COMPOSITE_DELAY}_bucket", own | {"le": str(bound / SECOND)}, number)
    family.add_sample(f"{COMPOSITE_DELAY}_bucket", own | {"le": "+Inf"}, delays.number)
    family.add_sample(f"{COMPOSITE_DELAY}_count", own, delays.number)
    family.add_sample(f"{COMPOSITE_DELAY}_sum", own, delays.total)

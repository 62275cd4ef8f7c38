"""Samples of attribute values of the primitive events that a node reads, and their distribution for the directory.

Policies estimate the load of a detector that does not run yet from the share of events that pass its conditions
(`policies.distribution.estimate.selectivity`). Selinger et al., "Access Path Selection in a Relational Database
Management System" (SIGMOD 1979), section 4: statistics of relations, else constants.

Events of a type are taken at most each `EVERY`, so a node with many events pays for a comparison alone; the last
`SAMPLE` of them are kept. Distributions are published when a sample has grown by half, later where shares have changed,
and ever more rarely, as other nodes read them over links. Texts are published as digests. Rejected: a share for each
condition in use, which new patterns do not have; sketches of joint distributions, as conditions are seldom on several.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import isfinite
from typing import Final, TypeAlias

from distced.middleware.model.events import Attribute, Event
from distced.middleware.model.timestamps import HOUR, MILLISECOND, MINUTE
from distced.middleware.wire.directory_entries import AttributeValues, TypeValues, value_key

EVERY: Final = 100 * MILLISECOND
"""Least interval between events of a type that are taken, ns."""

SAMPLE: Final = 200
"""Number of events of a type that are kept."""

LEAST: Final = 16
"""Number of events of a type from which its distribution is published."""

GROWTH: Final = 1.5
"""Growth of a sample after which its distribution is published again."""

COMMON: Final = 12
"""Most values of an attribute that are published each for itself."""

MOST_ATTRIBUTES: Final = 10
"""Most attributes of a type with a distribution, the first ones of its events."""

STALE: Final = 15 * MINUTE
"""Time without an event after which a sample is dropped, ns."""

REVIEWED_EVERY: Final = 5 * MINUTE
"""Interval of comparisons with what was published, ns."""

RARER: Final = 3
"""Part of the time since the first event that passes between two publications at least."""

RAREST: Final = HOUR
"""Greatest such time, ns: a node runs for months."""

AT_ONCE: Final = 5
"""Most types whose distribution is computed at once: each takes up to two milliseconds."""

_Row: TypeAlias = Mapping[str, tuple[str, float | None]]
"""Values of an event by attribute: the key, and the number where it is one; texts may be long, and are not kept."""

CHANGE: Final = 0.1
"""Least change of a share that counts, and of a decile, as a share of the range."""


@dataclass(slots=True)
class _Sample:
    """Sample of a type.

    Attributes:
        taken_at, reviewed_at: instants of the last event, and of the last comparison with what was published, ns.
        published: size of the published sample; 0 before the first.
    """

    taken_at: int
    reviewed_at: int
    events: deque[_Row] = field(default_factory=lambda: deque(maxlen=SAMPLE))
    published: int = 0


class ValueSamples:
    """Samples of attribute values by type.

    Attributes:
        published: distributions published last, by type.
    """

    def __init__(self, most_types: int) -> None:
        """`most_types`: further types have no sample."""
        self.published: dict[str, TypeValues] = {}
        # Instants of the first event and of the last publication, ns; changes that are yet to be published.
        self._began: int | None = None
        self._published_at = 0
        self._changed = False
        self._most = most_types
        self._samples: dict[str, _Sample] = {}

    def take(self, event: Event, now: int) -> None:
        """Take an event of a frame into the sample, where it is time."""
        sample = self._samples.get(event.type)
        if sample is None:
            if len(self._samples) >= self._most:
                return
            sample = self._samples[event.type] = _Sample(now, now)
            if self._began is None:
                self._began = self._published_at = now
        elif 0 <= now - sample.taken_at < EVERY:
            return
        sample.taken_at = now
        attributes = islice(event.attributes.items(), MOST_ATTRIBUTES)
        sample.events.append({name: (value_key(value), _number(value)) for name, value in attributes})

    def tick(self, now: int) -> bool:
        """Compute distributions that are due; whether they are to be published, as one has changed."""
        gone = [name for name, each in self._samples.items() if abs(now - each.taken_at) >= STALE]
        for name in gone:
            del self._samples[name]
            self.published.pop(name, None)
            self._changed = True
        for name in [name for name, each in self._samples.items() if _is_due(each, now)][:AT_ONCE]:
            sample = self._samples[name]
            sample.reviewed_at = now
            made, before = _distribution(sample.events), self.published.get(name)
            if before is None or made.sample >= GROWTH * before.sample or _apart(before, made):
                self.published[name], sample.published = made, made.sample
                self._changed = True
        age = now - (self._began or 0)
        # Nor does it wait for a clock that was set back.
        if not self._changed or 0 <= now - self._published_at < min(age // RARER, RAREST):
            return False
        self._changed, self._published_at = False, now
        return True


def _is_due(sample: _Sample, now: int) -> bool:
    size = len(sample.events)
    if size >= max(LEAST, GROWTH * sample.published):
        return True
    # Nor does a review wait for a clock that was set back.
    return bool(sample.published) and not 0 <= now - sample.reviewed_at < REVIEWED_EVERY


def _number(value: Attribute) -> float | None:
    """The value as a number; None for another, and for an infinite one, which JSON does not have."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return None
    return float(value)


def _distribution(events: Iterable[_Row]) -> TypeValues:
    rows = list(events)
    names = islice(dict.fromkeys(name for row in rows for name in row), MOST_ATTRIBUTES)
    absent = ("null", None)
    return TypeValues(len(rows), {name: _of_attribute([row.get(name, absent) for row in rows]) for name in names})


def _of_attribute(values: Sequence[tuple[str, float | None]]) -> AttributeValues:
    counts = Counter(key for key, _ in values)
    common = {key: round(count / len(values), 4) for key, count in counts.most_common(COMMON)}
    others = len(counts) - len(common)
    numbers = sorted(number for _, number in values if number is not None)
    share = round(len(numbers) / len(values), 4)
    if not others:
        return AttributeValues(common, numbers=share)
    # A value that was seen once or twice of many is not frequent.
    common = {key: share for key, share in common.items() if share * len(values) > 2}
    others = len(counts) - len(common)
    if len(numbers) <= len(values) // 2:
        return AttributeValues(common, others, numbers=share)
    deciles = [numbers[round(tenth * (len(numbers) - 1) / 10)] for tenth in range(11)]
    return AttributeValues(common, others, tuple(float(f"{each:.6g}") for each in deciles), share)


def _apart(before: TypeValues, after: TypeValues) -> bool:
    if before.attributes.keys() != after.attributes.keys():
        return True
    for name, one in before.attributes.items():
        other = after.attributes[name]
        if any(abs(one.common.get(key, 0.0) - other.common.get(key, 0.0)) > CHANGE
               for key in one.common.keys() | other.common.keys()):  # fmt: skip
            return True
        if len(one.quantiles) != len(other.quantiles):
            return True
        width = (one.quantiles[-1] - one.quantiles[0]) * CHANGE if one.quantiles else 0.0
        if any(abs(low - high) > width for low, high in zip(one.quantiles, other.quantiles, strict=True)):
            return True
    return False

"""Telling second deliveries from events that are alike.

MQTT delivers at least once at QoS 1, and recorders often listen twice. A delivery counts as the second of an event
where rule, source and the values named by the rule (or else the whole payload) are the same within a duration.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from hashlib import blake2b
from typing import Final

import msgspec

from distced.middleware.mapping.extraction import DeviceMessage, compile_path
from distced.middleware.mapping.schema import DuplicatesSpec
from distced.middleware.model.errors import DistcedError, MappingError
from distced.middleware.model.timestamps import INSTANT_MIN, parse_duration

REMEMBERED: Final = 100_000
"""Deliveries a rule remembers at most; the oldest are forgotten first."""

_encoder = msgspec.json.Encoder(order="sorted")


class Duplicates:
    """What makes two deliveries one, as a rule says.

    Attributes:
        within: how long a delivery is remembered, in nanoseconds.
    """

    def __init__(self, spec: DuplicatesSpec, outside: Callable[[str], bool]) -> None:
        try:
            self.within = parse_duration(spec.within)
        except DistcedError as error:
            raise MappingError("within is no duration", given=spec.within, allowed=error.allowed) from None
        self._by = [compile_path(path, outside) for path in spec.by]

    def key(self, message: DeviceMessage, source: str) -> Hashable:
        """What two deliveries of one event share."""
        values = [pick(message) for pick in self._by]
        if values and None not in values:
            # As JSON, because a value may be a table, and true is not 1 there.
            return source, _encoder.encode(values)
        whole = _encoder.encode([message.outside.get("topic"), message.outside.get("key"), message.fields])
        return source, blake2b(whole, digest_size=16).digest()


class Deliveries:
    """The deliveries that are remembered for a rule.

    Attributes:
        seen: when each was seen, in nanoseconds, by its key, in the order of coming; at most `REMEMBERED`.
        latest: the latest time seen, in nanoseconds; it only grows.
    """

    def __init__(self) -> None:
        self.seen: OrderedDict[Hashable, int] = OrderedDict()
        self.latest = INSTANT_MIN

    def known(self, key: Hashable, now: int | None, within: int) -> bool:
        """Whether a delivery with this key was seen not longer ago than `within`.

        Args:
            now: its arrival, or the time of the event where nobody noted it; None where that is not known either.
        """
        seen = self.seen.get(key)
        return seen is not None and (now is None or abs(now - seen) <= within)

    def remember(self, key: Hashable, now: int, within: int) -> None:
        """Keep a delivery in mind, and forget those too old to matter."""
        self.latest = max(self.latest, now)
        self.seen.pop(key, None)
        self.seen[key] = now
        while len(self.seen) > REMEMBERED or self.latest - next(iter(self.seen.values())) > within:
            self.seen.popitem(last=False)
            if not self.seen:
                break

"""Root causes of alarms: patterns after the causal edges of a network, and their precision and recall.

A cause is followed, within a while, by an alarm of an effect's kind at its device or a neighbour; a newer alarm of the
same cause nearby takes its place, so an effect is explained by the last one. Beside them the patterns of operators:
storms, flapping, alarms that are not cleared (composite-event-framework-2004, Fig. 1).

Precision is the share of explanations that are true, recall that of true ones that were found, by what has set off an
alarm in a made network. A recording does not say so: there the kinds of alarms that follow each other nearby more often
than at random are compared with the causal edges of its experts.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from distced.middleware.model.events import CompositeEvent, Event, EventId
from distced.middleware.model.timestamps import SECOND
from distced.simulations.carrier.carrier_network import CarrierNetwork

WITHIN: Final = 30
RECORDED_WITHIN: Final = 60
"""Longest time from a cause to its effect, in a made network and in recordings, s."""

ROOT_CAUSE: Final = "RootCause"

STORM: Final = """\
# A storm: ten alarms at a site within half a minute.
[Alarm as first] ~[Alarm]{8} [Alarm as last] within 30s
by site
-> Storm(site = last.site)
"""

FLAPPING: Final = """\
# Flapping: the same alarm on the same device five times within five minutes.
[Alarm as first] ~[Alarm]{3} [Alarm as last] within 5min
by (device, alarm)
-> Flapping(device = last.device, alarm = last.alarm)
"""

NOT_CLEARED: Final = """\
# An alarm that is not cleared within five minutes, and has not come again.
([Alarm as a], [T <= {T, Cleared, Alarm}]) @ T = 5min
by (device, alarm)
-> NotCleared(device = a.device, alarm = a.alarm)
"""


def fault_patterns(network: CarrierNetwork, within: int = WITHIN) -> dict[str, str]:
    """Pattern files by name: one for each kind of cause, `within` seconds, and those of operators."""
    found = {}
    for cause, effects in network.effects().items():
        kinds = " or ".join(f"alarm == {effect}" for effect in effects)
        effect = f"Alarm where ({kinds}) and contains(near, c.tag)"
        newer = f"Alarm where alarm == {cause} and contains(near, c.tag)"
        found[f"cause-{cause}"] = (
            f"# Alarm {cause}, and what it has set off here or next door.\n"
            f"[Alarm as c where alarm == {cause}]\n"
            f"  [ ~[{effect}]* [{effect.replace('Alarm', 'Alarm as e', 1)}] <= {{{newer}}} ] within {within}s\n"
            f"-> {ROOT_CAUSE}{cause}(cause = c.alarm, at = c.device, effect = e.alarm, device = e.device)\n"
        )
    return found | {"storm": STORM, "flapping": FLAPPING, "not-cleared": NOT_CLEARED}


@dataclass(frozen=True)
class RootCauses:
    """Root causes found, compared with the truth.

    Attributes:
        found: number of explanations, or of causal edges found in a recording.
        true: number of these that are true.
        known: number of true ones there are.
        chance: precision of a guess; None where that is nothing.
    """

    found: int
    true: int
    known: int
    chance: float | None = None

    @property
    def precision(self) -> float | None:
        """Share of what was found that is true; None for nothing."""
        return self.true / self.found if self.found else None

    @property
    def recall(self) -> float | None:
        """Share of the truth that was found; None for none."""
        return self.true / self.known if self.known else None


def evaluated(composites: Iterable[CompositeEvent], truth: Iterable[tuple[EventId, EventId]]) -> RootCauses:
    """Explanations against what has set off which alarm."""
    known = set(truth)
    # In order of consumption: the cause, and what it has set off.
    pairs = {(each.constituents[0], each.constituents[-1]) for each in composites if each.type.startswith(ROOT_CAUSE)}
    return RootCauses(len(pairs), len(pairs & known), len(known))


def edges_found(events: Sequence[Event], network: CarrierNetwork, within: int = RECORDED_WITHIN) -> RootCauses:
    """Causal edges of a recording: as many pairs of kinds as the experts know, those that begin one after another at a
    device or a neighbour most often beyond chance, in standard deviations of a count."""
    kinds = sorted({_kind(event) for event in events})
    known = {edge for edge in network.causes if set(edge) <= set(kinds)}
    seconds = max((events[-1].hi - events[0].lo) / SECOND, 1.0) if events else 1.0
    of_device: dict[str, Counter[int]] = defaultdict(Counter)
    followed: Counter[tuple[int, int]] = Counter()
    last: dict[str, dict[int, int]] = defaultdict(dict)
    for event in sorted(events, key=lambda event: (event.lo, event.key)):
        device, kind = str(event.attributes["device"]), _kind(event)
        of_device[device][kind] += 1
        for near in (device, *network.neighbours(device)):
            for cause, instant in last[near].items():
                if cause != kind and 0 < event.lo - instant <= within * SECOND:
                    followed[cause, kind] += 1
        last[device][kind] = event.lo
    expected: Counter[tuple[int, int]] = Counter()
    for device, counts in of_device.items():
        around: Counter[int] = Counter()
        for near in (device, *network.neighbours(device)):
            around.update(of_device.get(near, {}))
        for kind, count in counts.items():
            for cause, number in around.items():
                expected[cause, kind] += count * (1 - math.exp(-number / seconds * within))  # type: ignore[assignment]
    score = {pair: (followed[pair] - expected[pair]) / math.sqrt(expected[pair] + 1) for pair in followed}
    best = sorted(score, key=lambda pair: (-score[pair], pair))[: len(known)]
    pairs = len(kinds) * (len(kinds) - 1)
    return RootCauses(len(best), len(known & set(best)), len(known), len(known) / pairs if pairs else None)


def _kind(event: Event) -> int:
    return int(event.attributes["alarm"])  # type: ignore[arg-type]

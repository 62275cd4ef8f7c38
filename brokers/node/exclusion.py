"""Exclusion of detectors beyond the limits of a node (`detectors.limits`), and of those lost with several nodes.

A detector beyond a limit is removed, its subscriptions are refused with the reason, and a retained entry keeps other
nodes from hosting it: what is too much for one is for all. The same for detectors that read it as a part of their
pattern, as they would wait for it for ever, and to detect the whole pattern takes no less. The entry is cleared after
an hour, or by an administrator.

A node that is killed while it consumes an event decides nothing. Its last report of its load stays behind, and the
detectors with the largest states in it, or too new to be in it, are *suspects*, with a retained entry without a reason.
They are taken over like all others; the first of them that is lost with more than `Limits.losses` nodes within
`LOST_WITHIN` is excluded: nodes are lost for other reasons, too, and after two a detector on both is most likely
innocent. One at a time, as the others of these nodes are; the next loss may exclude the next. A node that
ends in order clears its load before, and one that was only cut off clears its suspects by coming back. Rejected: a mark
in the directory before each long event (the event that kills is the first long one), a thread that publishes what is
consumed (it has no connection of its own, and no time where memory runs out), and the number of lost hosts of every
detector (a message for each of a hundred thousand, and all that two lost nodes had in common are excluded).

Rejected: to take the detector to another node (it would be the second victim), to begin it again without its state
(composite events would be missing silently), and an entry for good (limits, events and versions change).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from heapq import nlargest
from typing import Final

from msgspec import structs

from distced.brokers.core.directory import Change
from distced.brokers.core.effects import Effect, warning
from distced.brokers.core.exclusions import LOST_WITHIN, of_part, until
from distced.brokers.core.rendezvous import chosen
from distced.brokers.node.admission import Admission
from distced.brokers.node.hosted import HostedDetector
from distced.brokers.node.shared import NodePart
from distced.detectors.limits import too_much_memory_of_client
from distced.middleware.model.errors import LimitError
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.directory_entries import ExclusionEntry

SUSPECTS: Final = 3
"""Number of suspects of a lost node."""

YOUNG: Final = 10 * SECOND
"""Age up to which a node may not have reported its load yet, ns."""

LONGEST_TEXT: Final = 200
"""Characters of a pattern in the reason of its exclusion."""


class Exclusion(NodePart):
    """Excluded detectors, as a node sees them."""

    def __init__(self, admission: Admission) -> None:
        super().__init__(admission.shared)
        self.admission = admission
        self.hosting = admission.hosting

    def take(self, now: int) -> list[Effect]:
        """Exclude the detectors here that were beyond their limits since the last call."""
        effects: list[Effect] = []
        while self.event_path.excesses:
            identity, error = self.event_path.excesses.popitem()
            hosted = self.event_path.hosted.get(identity)
            if hosted is not None:
                effects += self._exclude(hosted, error, now)
        return effects

    def changed(self, change: Change, now: int) -> list[Effect]:
        """The entry of an exclusion was added or changed, perhaps by another node."""
        entry = change.entry
        if entry is None or not entry.reason:
            return []
        effects: list[Effect] = []
        hosted = self.event_path.hosted.get(change.name)
        if hosted is not None:
            effects += self._remove(hosted, entry, now)
        for reader in self.event_path.inventory.streaming():
            if change.name in reader.parts and reader.id in self.event_path.hosted:
                effects += self._exclude(reader, of_part(entry), now)
        return effects

    def measured(self) -> None:
        """Give up the largest detector of each client whose detectors together are beyond the limit of memory.

        Of one that it shares with others it has a share, and it is not given up for what else the client does.
        """
        memory, limit = self.event_path.memory, self.shared.limits.client_memory
        if sum(memory.values()) <= limit:
            return
        shares: Counter[str] = Counter()
        largest: dict[str, str] = {}
        for identity, size in sorted(memory.items(), key=lambda each: -each[1]):
            hosted = self.event_path.hosted.get(identity)
            clients = set() if hosted is None else {each.client for _, each in hosted.subscriptions.items()}
            for client in clients:
                shares[client] += size // len(clients)
                if len(clients) == 1:
                    largest.setdefault(client, identity)
        for client, identity in largest.items():
            if shares[client] > limit:
                self.event_path.hosted[identity].detector.give_up()
                error = too_much_memory_of_client(self.shared.limits, client, shares[client])
                self.event_path.excesses[identity] = error

    def tick(self, now: int) -> list[Effect]:
        """Clear the entries whose time is over."""
        known = self.directory.exclusions.items()
        over = [name for name, each in known if now >= until(each)]
        return [
            self.clear("exclusion", name) for name in over if chosen(name, self.directory.common_nodes) == self.name
        ]

    # Lost nodes.

    def suspects(self, node: str, since: int, now: int) -> list[str]:
        """Detectors that may have taken down a node that began at an instant, ns, and is lost now; none where it has
        ended in order. First those that were suspects before, then those too new for a report, then by their states.
        """
        load = self.directory.loads.get(node)
        if load is None and now - since > YOUNG:
            return []
        measured = {} if load is None else load.detectors
        all_measured = load is None or load.others == 0

        def rank(name: str) -> tuple[bool, bool, int, float, int, str]:
            earlier, found = self.directory.exclusions.get(name), measured.get(name)
            suspected = earlier is not None and now - earlier.at < LOST_WITHIN
            generation = self.directory.detectors[name].generation
            if found is None:
                return suspected, all_measured, 0, 0.0, generation, name
            return suspected, False, found.state, found.load, generation, name

        there = [name for name, each in self.directory.detectors.items() if each.node == node]
        return nlargest(SUSPECTS, there, rank)

    def lost(self, node: str, suspects: Iterable[str], now: int) -> list[Effect]:
        """A node was lost with its memory: note the suspects, and exclude the first that was lost before."""
        if chosen(node, self.directory.common_nodes) not in (self.name, None):
            return []
        effects: list[Effect] = []
        done = False
        for name in suspects:
            entry, detector = self.directory.exclusions.get(name), self.directory.detectors.get(name)
            if entry is not None and entry.reason:
                continue
            again = entry is not None and now - entry.at < LOST_WITHIN
            lost = entry.lost + 1 if entry is not None and again else 1
            made = ExclusionEntry(now, node, "" if detector is None else detector.pattern, lost=lost)
            if lost > self.shared.limits.losses and not done:
                done = True
                error = LimitError(
                    "nodes were lost while they ran a detector",
                    given=f"{lost} within {LOST_WITHIN // SECOND} s",
                    allowed=str(self.shared.limits.losses),
                    where=f"pattern {_shown(made.pattern)}",
                    advice="simplify the pattern, give it a process of its own with the hint isolated, or start nodes "
                    "with --max-losses",
                )
                made = structs.replace(made, reason=str(error), error=error.as_dict())
                effects.append(warning("detector excluded", detector=name, reason=made.reason))
                self._count()
            self.directory.put("exclusion", name, made)
            effects.append(self.put("exclusion", name, made))
        return effects

    def back(self, node: str) -> list[Effect]:
        """A node is back that was only cut off: its detectors are no suspects."""
        if chosen(node, self.directory.common_nodes) != self.name:
            return []
        known = self.directory.exclusions.items()
        return [self.clear("exclusion", name) for name, each in known if each.node == node and each.lost]

    # Effects.

    def _exclude(self, hosted: HostedDetector, error: LimitError, now: int) -> list[Effect]:
        """Exclude a detector here, at all nodes."""
        pattern = hosted.detector.compiled.text
        error = LimitError(
            error.problem,
            given=error.given,
            allowed=error.allowed,
            where=f"pattern {_shown(pattern)}",
            advice=error.advice,
        )
        entry = ExclusionEntry(now, self.name, pattern, str(error), error.as_dict())
        self.directory.put("exclusion", hosted.id, entry)
        # Before all else, as other nodes look for a host once its entry is cleared.
        return [self.put("exclusion", hosted.id, entry), *self._remove(hosted, entry, now)]

    def _remove(self, hosted: HostedDetector, entry: ExclusionEntry, now: int) -> list[Effect]:
        names = list(hosted.subscriptions)
        self._count()
        self.happened("detector", hosted.id, f"excluded: {entry.reason}")
        note = warning("detector excluded", detector=hosted.id, reason=entry.reason, subscriptions=len(names))
        effects: list[Effect] = [note, *self.hosting.exclude(hosted)]
        for name in names:
            if (subscription := self.directory.subscriptions.get(name)) is not None:
                effects += self.admission.refuse_excluded(name, subscription, entry, now)
        return effects

    def _count(self) -> None:
        counts = self.event_path.counts
        counts["detectors excluded"] = counts.get("detectors excluded", 0) + 1


def _shown(pattern: str) -> str:
    return pattern if len(pattern) <= LONGEST_TEXT else f"{pattern[: LONGEST_TEXT - 1]}…"

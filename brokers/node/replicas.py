"""The copies of a node's detectors: who has one, who listens to it, and which of them serves.

One node, the primary, serves the subscriptions of a detector and says in the directory who has copies of it. A copy
publishes what it finds, at its own site, and serves nobody; when the directory names it as the node of the detector it
is the primary from then on. So roles change by one retained message, and a node that was away finds its role there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from distced.brokers.core.effects import Effect, Note
from distced.brokers.node.event_path import Hosted
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.directory_entries import DetectorEntry, decode

if TYPE_CHECKING:
    from distced.brokers.node.hosting import Serving

UNLISTED: Final = 20 * SECOND
"""How long a copy may be there that the directory does not name, ns."""


class Copies:
    """The copies of a node's detectors, and those it has of others'."""

    def __init__(self, name: str, serving: Serving) -> None:
        self.name = name
        self.serving = serving
        self.directory = serving.directory
        self.detecting = serving.detecting

    def copied(self, identity: str, node: str) -> list[Effect]:
        """A node has a copy: whoever waits for it is offered it, and who wants several listens there, too."""
        hosted = self.detecting.hosted.get(identity)
        if hosted is None or node not in self.directory.nodes:
            return []
        hosted.copies[node] = self.directory.nodes[node].home
        waiting = [name for name, awaited in hosted.waiting.items() if awaited == node]
        for name in waiting:
            del hosted.waiting[name]
            hosted.near[name] = node
        several = [
            name for name in hosted.subscriptions if name not in hosted.near and self._replicas(name, hosted) > 1
        ]
        return [self.serving.telling.entry(hosted), *self.serving.offer_again(hosted, [*waiting, *several])]

    def not_copied(self, identity: str, node: str) -> list[Effect]:
        """There is no copy: whoever waits for it is offered what there is."""
        hosted = self.detecting.hosted.get(identity)
        if hosted is None:
            return []
        waiting = [name for name, awaited in hosted.waiting.items() if awaited == node]
        for name in waiting:
            del hosted.waiting[name]
        return self.serving.offer_again(hosted, waiting)

    def without_copies(self, hosted: Hosted, nodes: Iterable[str]) -> list[Effect]:
        """Copies are lost, or given up: whoever listened to them is offered what there is."""
        gone = [node for node in nodes if node in hosted.copies]
        if not gone:
            return []
        for node in gone:
            del hosted.copies[node]
        listened = [name for name, node in hosted.near.items() if node in gone]
        for name in listened:
            del hosted.near[name]
        note = Note("info", "copies gone", {"detector": hosted.detector.id, "nodes": ", ".join(gone)})
        return [note, self.serving.telling.entry(hosted), *self.serving.offer_again(hosted, listened)]

    def hand_over(self, hosted: Hosted, node: str) -> list[Effect]:
        """A copy serves the subscriptions from now on, and what is here becomes a copy of it, as the directory says."""
        home = hosted.copies[node]
        entry = decode(self.serving.telling.entry(hosted).payload, DetectorEntry, where="")
        copies = {**hosted.copies, self.name: hosted.home}
        del copies[node]
        note = Note("info", "detector handed over to a copy", {"detector": hosted.detector.id, "node": node})
        entry = replace(entry, node=node, home=home, copies=copies)
        return [note, self.serving.telling.publish(hosted.detector.id, entry)]

    def role(self, hosted: Hosted, entry: DetectorEntry | None) -> list[Effect] | None:
        """What the directory says of a detector that has copies, one of them here; None where that is no news."""
        identity = hosted.detector.id
        if entry is None:
            return None if hosted.primary else self.serving.drop(hosted, "the detector is destroyed")
        if entry.node == self.name:
            if hosted.primary:
                return []
            hosted.primary, hosted.copies = True, dict(entry.copies)
            return [
                Note("info", "a copy serves from now on", {"detector": identity}),
                self.serving.telling.entry(hosted),
            ]
        if self.name in entry.copies:
            if hosted.primary:
                self.serving.serve_nobody(hosted)
            hosted.primary, hosted.copies, hosted.listed = False, {}, True
            return []
        if not hosted.primary and not hosted.listed:
            # Said before the primary knew of this copy.
            return []
        if not hosted.primary or entry.node in hosted.copies:
            return self.serving.drop(hosted, f"{entry.node} has it")
        return None

    def tick(self, now: int) -> list[Effect]:
        """Time has passed: copies that no primary speaks of are given up."""
        effects: list[Effect] = []
        for hosted in list(self.detecting.hosted.values()):
            if not hosted.primary and not hosted.listed and now - hosted.since > UNLISTED:
                effects += self.serving.drop(hosted, "its primary says nothing of it")
        return effects

    def lost(self, node: str) -> list[Effect]:
        """A node is gone: copies there are lost, and for detectors there the first copy serves."""
        effects: list[Effect] = []
        for identity, hosted in list(self.detecting.hosted.items()):
            if hosted.primary:
                effects += self.without_copies(hosted, [node])
                continue
            entry = self.directory.detectors.get(identity)
            if entry is None or entry.node in self.directory.nodes:
                continue
            heirs = sorted(each for each in entry.copies if each in self.directory.nodes)
            if heirs[:1] == [self.name]:
                hosted.primary = True
                hosted.copies = {each: entry.copies[each] for each in heirs[1:]}
                note = Note("warning", "a copy serves, for its detector is lost", {"detector": identity, "lost": node})
                effects += [note, self.serving.telling.entry(hosted)]
        return effects

    def leave(self) -> list[Effect]:
        """The node ends: detectors go on where there are copies, the others leave the directory."""
        effects: list[Effect] = []
        for identity, hosted in self.detecting.hosted.items():
            if not hosted.primary:
                continue
            alive = sorted(node for node in hosted.copies if node in self.directory.nodes)
            effects += self.hand_over(hosted, alive[0]) if alive else [self.serving.telling.clear("detector", identity)]
        return effects

    def _replicas(self, name: str, hosted: Hosted) -> int:
        return self.serving.policies.replicas(self.directory.subscriptions.get(name), hosted.detector.id)

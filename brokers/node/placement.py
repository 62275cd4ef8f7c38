"""Placement of a detector and the cut of its pattern: policies suggest, a node decides and logs the reason.

composite-event-framework-2004, "Distribution Policies"; design, section 3. Combining the suggestions of several
policies was rejected: a subscription has one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple, cast

from msgspec.structs import replace as replace_hints

from distced.brokers.core.directory import Change, Directory
from distced.brokers.core.effects import Effect, info
from distced.brokers.node.hosted import HostedDetector
from distced.brokers.node.planning import Found, Planned, Planner
from distced.brokers.node.policy_settings import PolicySettings
from distced.detectors.compiler import Compiled
from distced.detectors.cutting.catalogue import Catalogue
from distced.detectors.cutting.cut import DetectorGraph, cut, none
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.model.timestamps import INSTANT_MIN
from distced.middleware.wire.codec import encode
from distced.middleware.wire.directory_entries import Hints, Measured, SubscriptionEntry
from distced.policies.distribution.choose.alternatives import alternatives
from distced.policies.distribution.choose.hints import check_hints
from distced.policies.distribution.choose.ranking import Request
from distced.policies.distribution.choose.reconsider import (
    DWELL,
    HostChange,
    Together,
    gives_way,
    may_move_together,
    reconsider,
)
from distced.policies.distribution.choose.suggest import suggest
from distced.policies.distribution.policy import Decomposition, DistributionPolicy, Policy
from distced.policies.distribution.situation.situation import Situation
from distced.policies.topology.model import Place
from distced.policies.topology.topology import Topology
from distced.policies.topology.topology_file import parse_topology

_ALIKE: Final = 1_000
"""Number of estimates kept to be shared."""

_WHOLE: Final = 256
"""Number of uncut graphs kept: of patterns with very many subscriptions."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Placement of a detector: host, home server of the topic, plan, reason (a sentence), expected measurements."""

    node: str
    home: str
    planned: Planned
    reason: str
    expected: Measured | None


class _Asked(NamedTuple):
    """Policy of a detector's subscriptions, places of their clients, and hints."""

    policy: Policy
    places: Sequence[Place]
    hints: Hints


class Placement:
    """Decisions of a node, as the coordinator of detectors and as their host, in the situation that policies see."""

    def __init__(self, directory: Directory, planner: Planner, policies: PolicySettings) -> None:
        self.directory = directory
        self.planner = planner
        self.policies = policies
        self.situation = Situation()
        self._topologies: dict[str, Topology] = {}
        # Recent estimates by their encoded form.
        self._expected: dict[bytes, Measured] = {}
        # Uncut graphs of the patterns requested last, by what is read outside, with the compiled pattern they are of.
        self._whole: dict[tuple[str, tuple[str, ...]], tuple[Compiled, DetectorGraph]] = {}
        # Detectors that stay, by what that depends on beside the situation; those of the present situation alone.
        self._stays: dict[str, tuple[_Asked, bool, dict[str, Sequence[Place]]]] = {}
        # Groups of detectors that stay in the present situation, and what was asked of detectors at one instant, ns.
        self._tried: set[Together] = set()
        self._asked_at = INSTANT_MIN
        self._all_asked: dict[str, _Asked | None] = {}

    def changed(self, change: Change) -> list[Effect]:
        """The directory has changed."""
        self._forget()
        if change.kind == "detector":
            self.planner.detector_changed(change)
        if change.kind != "topology":
            self.situation.changed(change.kind, change.name, change.entry)
            if change.kind == "detector" and change.entry is not None and change.before is None:
                # Placed by another node, which knows its pattern.
                self.situation.expect(change.name, change.entry.expected)
            return []
        if change.entry is None:
            self._topologies.pop(change.name, None)
        else:
            try:
                self._topologies[change.name] = parse_topology(change.entry.text, name=f"topology {change.name}")
            except DistcedError:
                self.directory.topologies.pop(change.name)
                raise
        # Expected measurements were those in another network.
        first = min(self._topologies, default="")
        self.situation = Situation.of(self.directory, self._topologies.get(first))
        return [info("topology changed", name=change.name, known=change.entry is not None)]

    def decide(
        self, found: Found, entry: SubscriptionEntry, registry: TypeRegistry, *, again: bool = False
    ) -> Decision:
        """Node for the detector of a subscription; `DistcedError` for none.

        With `again` (served before) as many replicas as there are nodes suffice.
        """
        policy = self._policy(entry, found.id)
        if again and isinstance(policy, DistributionPolicy):
            policy = replace(policy, replicas=max(1, min(policy.replicas, len(self.directory.common_nodes))))
        if not again:
            check_hints(entry.hints, self.directory.nodes, where="hints")
        placed = self._at_histories(entry)
        request = self._request(found, placed, self._graphs(found, placed, policy, registry), policy)
        suggestion = suggest(policy, self.situation, request)
        expected = self._alike(suggestion.expected)
        self._forget()
        self.situation.expect(found.id, expected)
        planned = self.planner.planned(found, suggestion.graph, entry)
        return Decision(suggestion.node, suggestion.home, planned, suggestion.reason, expected)

    def _at_histories(self, entry: SubscriptionEntry) -> SubscriptionEntry:
        """Subscription with the nodes that read a history, where it begins with recorded events."""
        if entry.origin is None:
            return entry
        nodes = self.directory.nodes
        able = tuple(name for name in self.directory.common_nodes if nodes[name].history)
        wanted = tuple(name for name in able if name in (entry.hints.nodes or able) and name not in entry.hints.avoid)
        if not wanted:
            raise DistcedError(
                "no node that reads a history for a subscription that begins with recorded events",
                given=", ".join(entry.hints.nodes) or "any node",
                allowed=", ".join(able) or "there is none",
                advice="start a node with distced broker --history FOLDER, that of a recorder",
            )
        return replace_hints(entry, hints=replace_hints(entry.hints, nodes=wanted, avoid=()))

    def _alike(self, expected: Measured | None) -> Measured | None:
        """One object for equal estimates: those of patterns that differ in constants alone."""
        if expected is None:
            return None
        if len(self._expected) > _ALIKE:
            self._expected.clear()
        return self._expected.setdefault(encode(expected), expected)

    def near(self, hosted: HostedDetector, found: Found, entry: SubscriptionEntry, *, again: bool = False) -> str:
        """Node with a present or future replica near a subscription, perhaps one served before; empty for none."""
        policy = self._policy(entry, hosted.detector.id)
        if not again:
            check_hints(entry.hints, self.directory.nodes, where="hints")
        if policy.replicas > 1:
            if not again and len(self.directory.common_nodes) < policy.replicas:
                # The same error as for a new detector.
                situation = self.situation.copy()
                situation.changed("detector", found.id, None)
                suggest(policy, situation, self._request_whole(found, entry, policy))
            return ""
        # A replica has the state of a running detector. The entry may be that of another node, given up in a moment.
        if found.id not in self.situation.detectors or not hosted.running or entry.hints.isolated:
            return ""
        suggestion = suggest(policy, self.situation, self._request_whole(found, entry, policy))
        # Of existing replicas it reads the one with the least delay.
        return suggestion.node if suggestion.action == "replicate" or suggestion.node in hosted.replicas else ""

    def reconsider(
        self, hosted: HostedDetector, now: int, *, replicas_only: bool = False, beside: Iterable[HostedDetector] = ()
    ) -> HostChange | None:
        """Change that its policy suggests for a detector here, or for missing replicas only; None for none. Others of
        the node, `beside`, perhaps move with it."""
        asked = self._asked(hosted)
        if asked is None:
            return None
        since = now if replicas_only else hosted.since
        movable = self._movable(asked, hosted, now, beside)
        depends = asked, now - since < DWELL, movable
        if self._stays.get(hosted.detector.id) == depends:
            return None
        try:
            change = reconsider(
                asked.policy,
                self.situation,
                hosted.detector.id,
                asked.places,
                asked.hints,
                since,
                now,
                movable,
                self._tried if isinstance(asked.policy, DistributionPolicy) else None,
            )
        except DistcedError:
            return None  # The hints leave no node any more.
        if change is None and isinstance(asked.policy, DistributionPolicy):
            # Of an installed policy nobody knows what else it depends on.
            self._stays[hosted.detector.id] = depends
        return change

    def may_give_way(self, hosted: HostedDetector, node: str, now: int) -> bool:
        """Whether a detector here may move to a node for the sake of another one: as a policy that aims at the busiest
        node alone, without replicas, and not just arrived."""
        asked = self._asked(hosted)
        if asked is None or hosted.replicas or now - hosted.since < DWELL:
            return False
        return gives_way(asked.policy, self.situation, hosted.detector.id, asked.places, asked.hints, node)

    def _asked(self, hosted: HostedDetector) -> _Asked | None:
        """What the subscriptions of a detector ask for; None without any that decides."""
        near = [name for name, each in hosted.subscriptions.items() if not each.terms.near]
        known = [entry for name in near if (entry := self.directory.subscriptions.get(name)) is not None]
        if not known:
            return None
        places = [self.situation.place_of(each.client) for each in known]
        try:
            policy = max((self._policy(each, hosted.detector.id) for each in known), key=lambda each: each.replicas)
            return _Asked(policy, places, self._hints(known[0].hints, hosted.detector.id, policy))
        except DistcedError:
            return None  # There is no such policy any more.

    def _asked_once(self, hosted: HostedDetector, now: int) -> _Asked | None:
        """The same, once for all detectors that are reconsidered at an instant."""
        if now != self._asked_at:
            self._asked_at = now
            self._all_asked.clear()
        if hosted.detector.id not in self._all_asked:
            self._all_asked[hosted.detector.id] = self._asked(hosted)
        return self._all_asked[hosted.detector.id]

    def _forget(self) -> None:
        """Drop what was found in the situation before."""
        self._stays.clear()
        self._tried.clear()
        self._all_asked.clear()

    def _movable(
        self, asked: _Asked, hosted: HostedDetector, now: int, beside: Iterable[HostedDetector]
    ) -> dict[str, Sequence[Place]]:
        """Listeners of the others that may move wherever a detector does."""
        found: dict[str, Sequence[Place]] = {}
        if hosted.replicas or not may_move_together(self.situation, hosted.detector.id):
            return found
        for each in beside:
            if each is hosted or each.replicas or now - each.since < DWELL:
                continue
            other = self._asked_once(each, now)
            if other is not None and other.policy == asked.policy and not (other.hints.nodes or other.hints.avoid):
                found[each.detector.id] = other.places
        return found

    def _policy(self, entry: SubscriptionEntry, detector: str) -> Policy:
        policy = self.policies.of(entry, detector)
        if entry.decomposition and isinstance(policy, DistributionPolicy):
            return replace(policy, decomposition=cast("Decomposition", entry.decomposition))
        return policy

    def _graphs(
        self, found: Found, entry: SubscriptionEntry, policy: Policy, registry: TypeRegistry
    ) -> tuple[DetectorGraph, ...]:
        # Composite events of best effort are never complete, so no detector reads them as parts.
        whole = found.policy != "guaranteed" or found.id in self.planner.whole or entry.origin is not None
        catalogue = Catalogue() if whole or policy.reuse == "none" else self.planner.catalogue(found, registry)
        subscribers = (self.situation.place_of(entry.client),)
        cut_by = partial(
            alternatives,
            catalogue=catalogue,
            exports=frozenset(entry.exports),
            situation=self.situation,
            subscribers=subscribers,
        )
        graphs = cut_by(found.compiled, policy, hints=self._hints(entry.hints, found.id, policy), whole=whole)
        if entry.decomposition:
            return tuple(graphs[-1:])
        hint = self.situation.hints.get(found.id)
        if hint is None or hint.parts is None or whole:
            return tuple(graphs)
        # All decompositions of the policy where none reads the hinted parts, for these may be yet to come.
        more = cut_by(found.compiled, DistributionPolicy("hinted", "full", "maximum", "none"))
        hinted = [each for each in (*graphs, *more) if set(each.plans[each.roots[0]].parts) == set(hint.parts)]
        return tuple(hinted[:1] or graphs)

    def _request_whole(self, found: Found, entry: SubscriptionEntry, policy: Policy) -> Request:
        return self._request(found, entry, (self._whole_graph(found.compiled, entry.exports),), policy)

    def _whole_graph(self, compiled: Compiled, exports: tuple[str, ...]) -> DetectorGraph:
        """Graph of a pattern that is not cut, the same for each further subscription."""
        key = compiled.canonical_id, exports
        kept = self._whole.pop(key, None)
        if kept is None or kept[0] is not compiled:
            kept = compiled, cut([compiled], none, exports=frozenset(exports))
        # Ordered by last use.
        self._whole[key] = kept
        if len(self._whole) > _WHOLE:
            del self._whole[next(iter(self._whole))]
        return kept[1]

    def _request(
        self, found: Found, entry: SubscriptionEntry, graphs: tuple[DetectorGraph, ...], policy: Policy
    ) -> Request:
        places = (self.situation.place_of(entry.client),)
        hints = self._hints(entry.hints, found.id, policy)
        return Request(found.id, graphs, places, hints, found.policy, entry.derivations, entry.constituents)

    def _hints(self, hints: Hints, detector: str, policy: Policy) -> Hints:
        """Hints, with the nodes of placement analysis where the application names none and all of them exist; for a
        detector to be isolated, with the nodes that can isolate it.
        """
        common = self.directory.common_nodes
        known = self.situation.hints.get(detector)
        found = () if known is None or hints.nodes else known.nodes
        if len(found) >= policy.replicas and all(each in common and each not in hints.avoid for each in found):
            hints = replace_hints(hints, nodes=found)
        if not hints.isolated:
            return hints
        wanted = sorted(set(hints.nodes or common))
        able = [name for name in wanted if name in common and self.directory.nodes[name].isolates]
        if not able and common:
            raise DistcedError(
                "no node can give a detector a process of its own",
                given=", ".join(wanted),
                allowed="nodes that run as Ray actors",
                where="hints, isolated",
                advice="start nodes with Ray, or take the hint back",
            )
        return replace_hints(hints, nodes=tuple(able))

"""Control: detectors move where that pays, and otherwise stay."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import event, given, settings
from msgspec.structs import replace as replace_entry

from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.directory_entries import DetectorEntry, Hints, LoadEntry, Measured, NodeEntry
from distced.policies.distribution.candidate import least_impact
from distced.policies.distribution.choose.reconsider import (
    DWELL,
    IMPACT_MARGIN,
    MARGIN,
    HostChange,
    Together,
    is_better,
    pays,
    reconsider,
)
from distced.policies.distribution.policy import NAMED, Policy, parse_policy
from distced.policies.distribution.situation.situation import Situation
from distced.policies.topology.model import Place
from distced.policies.topology.topology_file import parse_topology
from tests.policies.test_suggest import EAST, LINE, WEST
from tests.support.deployments import policies, random_situation, seeds, situation_of

BANDWIDTH = NAMED["min-bandwidth"]


def on(node: str, **more: object) -> Situation:
    """A detector of A and B, both in the west, and what it does."""
    situation = situation_of(LINE)
    fields: dict[str, object] = {"home": situation.home_of_node(node), "readers": {"east": 1}, **more}
    entry = DetectorEntry(node, "[A] ; [B]", "guaranteed", ("A", "B"), **fields)  # type: ignore[arg-type]
    situation.changed("detector", "d", entry)
    situation.expect("d", Measured(load=20.0, rate=1.0, size=400.0, events=15.0, state=10_000))
    return situation


def asked(
    situation: Situation, policy: Policy = BANDWIDTH, after: int = DWELL, **hints: tuple[str, ...]
) -> HostChange | None:
    return reconsider(policy, situation, "d", EAST, Hints(**hints), 0, after)  # type: ignore[arg-type]


def test_detector_moves_to_better_node() -> None:
    found = asked(on("e"))
    assert found is not None
    assert (found.kind, found.node) == ("move", "w")
    assert found.after.bytes < found.before.bytes
    assert "w instead of e" in found.reason
    assert "10,000 bytes of state" in found.reason
    assert asked(on("w")) is None


def test_move_counts_bytes_to_readers() -> None:
    """The reader in the east gets more than the sources send."""
    situation = on("e")
    situation.expect("d", Measured(load=20.0, size=1e6))
    assert asked(situation) is None


def test_detector_stays_for_dwell_time() -> None:
    assert asked(on("e"), after=DWELL - 1) is None
    assert asked(on("e"), after=DWELL) is not None


def test_move_has_to_pay_its_price() -> None:
    situation = on("e")
    found = asked(situation)
    assert found is not None
    gain = found.before.bytes - found.after.bytes
    # Two links, a minute.
    heavy = int(gain * 60 / 2)
    for state, moves in ((heavy // 2, True), (heavy * 2, False)):
        situation.expect("d", Measured(load=20.0, rate=1.0, size=400.0, events=15.0, state=state))
        assert (asked(situation) is not None) == moves


def test_stream_heard_already_costs_nothing() -> None:
    """Another detector on the node in the east reads the same, so this one adds nothing there."""
    situation = on("e")
    situation.changed("detector", "other", DetectorEntry("e", "[A]", "guaranteed", ("A", "B"), home="east"))
    assert asked(situation) is None


def test_change_below_margin_is_not_better() -> None:
    assert is_better((89.0,), (100.0,))
    assert not is_better((91.0,), (100.0,))
    assert not is_better((100.0,), (100.0,))
    assert not is_better((0.0,), (0.0,))
    # What counts less decides only where what counts more is as good.
    assert is_better((5.0, 10.0), (5.0, 20.0))
    assert not is_better((5.1, 10.0), (5.0, 20.0))
    assert is_better((4.9, 10.0), (5.0, 20.0))
    assert is_better((-2.0, 9.0), (-1.0, 1.0))
    assert MARGIN == 0.1


def test_price_of_move_is_delay_under_min_latency() -> None:
    """It is in the east and has its home in the west, as no move leaves it: every event crosses both links twice."""
    found = asked(on("e", home="west"), NAMED["min-latency"])
    assert found is not None
    assert found.node in ("w", "m")
    assert found.after.delay < found.before.delay - 50_000_000


def test_min_load_relieves_busiest_node() -> None:
    situation = on("w")
    situation.changed("load", "w", LoadEntry(100.0, {"d": Measured(load=20.0)}))
    found = asked(situation, NAMED["min-load"])
    assert found is not None
    assert found.node in ("m", "e")
    situation.changed("load", "w", LoadEntry(20.0, {"d": Measured(load=20.0)}))
    assert asked(situation, NAMED["min-load"]) is None


def test_min_impact_exchanges_bytes_for_load_by_a_large_margin_only() -> None:
    """Another detector sends much to the east, so that what this one would read from afar is a small share."""

    def moves(load: float, beside: float) -> HostChange | None:
        situation = on("w")
        other = DetectorEntry("w", "[A]", "guaranteed", ("A",), home="west", readers={"east": 1})
        situation.changed("detector", "other", other)
        does = Measured(load=beside, rate=100.0, size=100_000.0, events=10.0)
        own = Measured(load=load, rate=1.0, size=400.0, events=15.0)
        situation.changed("load", "w", LoadEntry(load + beside, {"d": own, "other": does}))
        return asked(situation, NAMED["min-impact"])

    found = moves(40, 60)
    assert found is not None
    assert found.after.bytes > found.before.bytes
    # Others are not held up by it, not even where there is hardly an impact.
    before, after = (replace_entry(each, bytes=0.0, rise=0.0) for each in (found.before, found.after))
    after = replace_entry(after, bytes=1e-6 * after.bytes_before, sites=2)
    assert least_impact(before)[0] == least_impact(after)[0] == NAMED["max-reliability"].rank(after)[0] == 0
    assert pays(NAMED["max-reliability"], after, before) and not pays(NAMED["min-impact"], after, before)
    assert found.before.impact - found.after.impact > IMPACT_MARGIN
    assert moves(20, 80) is None


def test_detector_leaves_overloaded_node_under_any_policy() -> None:
    situation = on("w")
    for node, capacity in (("w", 10.0), ("m", 100.0), ("e", 100.0)):
        situation.changed("node", node, NodeEntry(0, home=situation.home_of_node(node), capacity=capacity))
    found = asked(situation)
    assert found is not None
    assert found.node == "m"
    for node in ("m", "e"):
        situation.changed("node", node, NodeEntry(0, home=situation.home_of_node(node), capacity=10.0))
    assert asked(situation) is None


def test_detector_leaves_node_that_hints_rule_out() -> None:
    found = asked(on("w"), avoid=("w",))
    assert found is not None
    assert found.node == "m"
    assert "hints" in found.reason
    assert asked(on("w"), nodes=("w",)) is None


def test_unknown_detector_is_left_alone() -> None:
    situation = on("e")
    assert reconsider(BANDWIDTH, situation, "unknown", EAST, Hints(), 0, DWELL) is None
    assert reconsider(BANDWIDTH, situation, "d", (), Hints(), 0, DWELL) is None
    situation.changed("node", "e", None)
    assert asked(situation) is None


# Replicas.


def test_missing_replica_is_made_without_dwell_time() -> None:
    found = asked(on("w"), NAMED["max-reliability"], after=1)
    assert found is not None
    assert found.kind == "replicate"
    assert found.node in ("m", "e")
    assert "wants 2 replicas, and there is 1" in found.reason
    lost = on("w", replicas={"gone": "east"}, distribution="max-reliability")
    again = asked(lost, NAMED["max-reliability"], after=1)
    assert again is not None
    assert again.kind == "replicate"
    # With one node there is nobody to have it.
    assert asked(on("w"), NAMED["max-reliability"], after=1, nodes=("w",)) is None


def test_replica_reaches_sources_and_subscribers() -> None:
    """A node that nothing comes to adds no bytes, and is no replica."""
    text = """
        allow_partitions = true
        [sites]
        west = {}
        island = {}
        [nodes]
        w = { site = "west" }
        i = { site = "island" }
        [publishers]
        p = { site = "west", types = ["A", "B"] }
        [subscribers]
        s = { site = "west" }
    """
    situation = situation_of(parse_topology(text))
    entry = DetectorEntry("w", "[A] ; [B]", "guaranteed", ("A", "B"), readers={"": 1})
    situation.changed("detector", "d", entry)
    listeners = [Place("subscriber", "s")]
    assert reconsider(NAMED["max-reliability"], situation, "d", listeners, Hints(), 0, DWELL) is None


def test_surplus_replica_is_dropped() -> None:
    situation = on("w", replicas={"m": "", "e": "east"}, distribution="max-reliability")
    found = asked(situation, NAMED["max-reliability"], after=1)
    assert found is not None
    assert found.kind == "drop"
    assert found.node in ("m", "e")
    assert asked(on("w", replicas={"e": "east"}, distribution="max-reliability"), NAMED["max-reliability"]) is None


def test_replica_without_near_subscriber_is_dropped() -> None:
    situation = on("w", replicas={"e": "east", "m": ""})
    policy = NAMED["min-latency"]
    both = (*EAST, *WEST)
    found = reconsider(policy, situation, "d", both, Hints(), 0, 1)
    assert found is not None
    assert (found.kind, found.node) == ("drop", "m")
    kept = on("w", replicas={"e": "east"})
    assert reconsider(policy, kept, "d", both, Hints(), 0, 1) is None
    alone = reconsider(policy, kept, "d", WEST, Hints(), 0, 1)
    assert alone is not None
    assert (alone.kind, alone.node) == ("drop", "e")


def test_second_replica_at_one_server_is_dropped() -> None:
    situation = on("w", replicas={"e": "west"})
    found = reconsider(NAMED["min-latency"], situation, "d", WEST, Hints(), 0, 1)
    assert found is not None
    assert (found.kind, found.node) == ("drop", "e")
    # Who wants no reuse wants them all.
    assert reconsider(parse_policy("none none subscribers"), situation, "d", WEST, Hints(), 0, 1) is None


# Together.


def both_on(node: str, **more: object) -> Situation:
    """The detector, and another one that reads the same, at one node; their homes are there."""
    situation = on(node)
    fields: dict[str, object] = {"home": situation.home_of_node(node), "readers": {"east": 1}, **more}
    situation.changed("detector", "other", DetectorEntry(node, "[A] & [B]", "guaranteed", ("A", "B"), **fields))  # type: ignore[arg-type]
    situation.expect("other", Measured(load=10.0, rate=1.0, size=400.0, events=15.0, state=10_000))
    return situation


def test_detectors_that_read_the_same_move_together_where_none_moves_alone() -> None:
    situation = both_on("e")
    assert asked(situation) is None
    found = reconsider(BANDWIDTH, situation, "d", EAST, Hints(), 0, DWELL, {"other": EAST})
    assert found is not None
    assert (found.kind, found.node, found.together) == ("move", "w", (("other", "w"),))
    assert "together with other" in found.reason
    moved_to(situation, found)
    for name, other in (("d", "other"), ("other", "d")):
        assert reconsider(BANDWIDTH, situation, name, EAST, Hints(), 0, DWELL, {other: EAST}) is None


def test_group_that_stays_is_tried_once_for_all_its_detectors() -> None:
    """In one situation: what one of them has found holds for the others."""
    tried: set[Together] = set()
    stays = both_on("w")
    for detector, other in (("d", "other"), ("other", "d")):
        assert reconsider(BANDWIDTH, stays, detector, EAST, Hints(), 0, DWELL, {other: EAST}, tried) is None
    [(policy, detectors, nodes)] = tried
    heard = frozenset({("d", tuple(EAST)), ("other", tuple(EAST))})
    assert (policy, detectors) == (BANDWIDTH.text, heard) and "w" not in nodes
    # It moves from the east, but not where it was tried before.
    found = reconsider(BANDWIDTH, both_on("e"), "d", EAST, Hints(), 0, DWELL, {"other": EAST}, set())
    assert found is not None and found.together
    tried = {(BANDWIDTH.text, heard, frozenset({"w", "m"}))}
    assert reconsider(BANDWIDTH, both_on("e"), "d", EAST, Hints(), 0, DWELL, {"other": EAST}, tried) is None


def test_detectors_move_together_only_where_it_pays() -> None:
    def together(situation: Situation, policy: Policy = BANDWIDTH, after: int = DWELL) -> HostChange | None:
        return reconsider(policy, situation, "d", EAST, Hints(), 0, after, {"other": EAST})

    assert together(both_on("e"), after=DWELL - 1) is None
    # A third reads the same, and stays.
    situation = both_on("e")
    situation.changed("detector", "third", DetectorEntry("e", "[B]", "guaranteed", ("A", "B"), home="east"))
    assert together(situation) is None
    # States that cost more than a minute saves; then half of that.
    found = together(both_on("e"))
    assert found is not None
    gain = found.before.bytes - found.after.bytes
    for state, moves in ((gain * 60, False), (gain * 60 / 8, True)):
        situation = both_on("e")
        for name in ("d", "other"):
            situation.expect(name, Measured(load=1.0, rate=1.0, size=400.0, events=15.0, state=round(state / 2)))
        assert (together(situation) is not None) == moves
    # Delay and load are what they are alone.
    for policy in ("min-latency", "min-load"):
        found = together(both_on("e"), NAMED[policy])
        assert found is None or not found.together


def moved_to(situation: Situation, found: HostChange, detector: str = "d") -> None:
    for name, node in ((detector, found.node), *found.together):
        home = situation.home_of_node(node)
        situation.changed("detector", name, replace_entry(situation.detectors[name], node=node, home=home))


@settings(max_examples=60, deadline=None)
@given(seeds)
def test_moving_together_saves_what_it_says(seed: int) -> None:
    """The traffic of the whole network before and after is the oracle."""
    situation = random_situation(seed, running=8).copy()
    crowded = max(sorted(situation.nodes), key=lambda node: sum(e.node == node for e in situation.detectors.values()))
    for name in sorted(situation.detectors)[::2]:
        home = situation.home_of_node(crowded)
        moved = replace_entry(situation.detectors[name], node=crowded, home=home, replicas={})
        situation.changed("detector", name, moved)
    for name in sorted(situation.detectors):
        found = reconsider(
            BANDWIDTH, situation, name, listeners(situation, name), Hints(), 0, DWELL, beside(situation, name)
        )
        if found is None or found.kind != "move" or not found.together:
            continue
        before = situation.bytes_over_links
        applied(situation, name, found)
        event("moved together")
        saved = found.before.bytes - found.after.bytes
        assert saved > 0 and abs(before - situation.bytes_over_links - saved) <= 1e-6 * before


def beside(situation: Situation, detector: str) -> dict[str, list[Place]]:
    """All others of its node that have no replicas."""
    node = situation.detectors[detector].node
    there = [name for name, each in situation.detectors.items() if each.node == node and not each.replicas]
    return {name: listeners(situation, name) for name in there if name != detector}


# It comes to rest.


def applied(situation: Situation, detector: str, found: HostChange) -> None:
    """The change, with the moves of others, and the readers of their parts, as their hosts tell them."""
    for name, node in found.together:
        applied(situation, name, replace(found, node=node, together=()))
    entry = situation.detectors[detector]
    homes = {part: Counter(map(situation.home_of_node, situation.reading.reading_part(part))) for part in entry.parts}
    match found.kind:
        case "move":
            changed = replace_entry(entry, node=found.node, home=situation.home_of_node(found.node))
        case "replicate":
            changed = replace_entry(entry, replicas={**entry.replicas, found.node: situation.home_of_node(found.node)})
        case _:
            left = {node: home for node, home in entry.replicas.items() if node != found.node}
            changed = replace_entry(entry, replicas=left)
    situation.changed("detector", detector, changed)
    for part, before in homes.items():
        if part in situation.detectors:
            readers = Counter(situation.detectors[part].readers)
            readers.update(map(situation.home_of_node, situation.reading.reading_part(part)))
            readers.subtract(before)
            changed = replace_entry(situation.detectors[part], readers=dict(+readers))
            situation.changed("detector", part, changed)


def listeners(situation: Situation, detector: str) -> list[Place]:
    entry = situation.detectors[detector]
    places = [Place("site", situation.site_of_home(home)) for home in entry.readers]
    return places + [
        Place("node", each.node) for name, each in sorted(situation.detectors.items()) if detector in each.parts
    ]


@settings(max_examples=40, deadline=None)
@given(seeds, policies)
def test_moves_come_to_an_end(seed: int, policy: Policy) -> None:
    """All detectors move as long as they want to, whoever placed them."""
    situation = random_situation(seed, running=6).copy()
    detectors = sorted(situation.detectors)
    moves = 0
    for _ in range(20):
        before = moves
        for detector in detectors:
            others = beside(situation, detector)
            found = reconsider(policy, situation, detector, listeners(situation, detector), Hints(), 0, DWELL, others)
            if found is not None:
                applied(situation, detector, found)
                moves += 1
        if moves == before:
            break
    assert moves == before
    assert moves <= 5 * len(detectors)


@settings(max_examples=30, deadline=None)
@given(seeds)
def test_detector_does_not_move_back(seed: int) -> None:
    situation = random_situation(seed, running=5)
    for policy in NAMED.values():
        for detector in sorted(situation.detectors):
            tried = situation.copy()
            node = tried.detectors[detector].node
            found = reconsider(policy, tried, detector, listeners(tried, detector), Hints(), 0, DWELL)
            if found is None or found.kind != "move":
                continue
            applied(tried, detector, found)
            again = reconsider(policy, tried, detector, listeners(tried, detector), Hints(), 0, DWELL)
            assert again is None or again.node != node


def test_own_policy_decides_moves() -> None:
    policy = replace(parse_policy("none none none"), objective=lambda each: (float(each.node != "m"),))  # type: ignore[type-var]
    found = asked(on("e"), policy)
    assert found is not None
    assert found.node == "m"


def test_reconsideration_leaves_situation_unchanged() -> None:
    situation = on("e")
    before = (dict(situation.detectors), situation.bytes_over_links)
    first = asked(situation)
    assert asked(situation, after=10 * SECOND * 10) == first
    assert before == (dict(situation.detectors), situation.bytes_over_links)

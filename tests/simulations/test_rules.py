"""Rules on the simulated network: nodes detect them without a client, and publish for those that read their types."""

from __future__ import annotations

from distced import QualityOfService, Source, event_type
from distced.brokers.core.directory import Directory
from distced.brokers.inspect.rule_plan import (
    Plan,
    RuleReport,
    detectors_of,
    entries_of,
    plan,
    present,
    removal,
    rule_id,
    rules_report,
    without_detectors,
)
from distced.detectors.pattern_files import PatternSource, compile_source
from distced.detectors.stepwise.engine import in_order
from distced.middleware.client.directory_session import OF_DURABLE
from distced.middleware.model.event_types import TypeRegistry
from distced.middleware.wire.codec import encode
from distced.middleware.wire.directory import KINDS
from distced.middleware.wire.mqtt_effects import Publish
from distced.middleware.wire.topics import directory_topic
from distced.simulations.network.in_memory import InMemoryDeployment

TYPES = event_type("Door", {"room": "string"}), event_type("Temp", {"room": "string", "temp": "number"})
COLD = "[Door as d] ; [Temp where temp < 15 and room == d.room] -> Cold(room = d.room)"
TWICE = "[Cold as c] ; [Cold where room == c.room] -> Twice(room = c.room)"


class World:
    """Deployment with a publisher, and the verbs' way to apply and look."""

    def __init__(self, deployment: InMemoryDeployment) -> None:
        self.deployment = deployment
        self.client = deployment.client("publisher")
        self.client.register(*TYPES)
        self.source: Source = self.client.source("sensors", ["Door", "Temp"])

    @property
    def directory(self) -> Directory:
        made = Directory()
        for kind in KINDS:
            for name, payload in self.deployment.network.directory_entries(kind).items():
                made.read((kind, name), payload, where=kind)
        for name, entry in self.deployment.detectors.items():
            made.put("detector", name, entry)
        return made

    def plan(self, text: str, quality: QualityOfService | None = None) -> Plan:
        directory = self.directory
        registry = without_detectors(directory, "office").registry()
        patterns = compile_source(PatternSource(text, "office.pattern"), registry)
        wanted = entries_of("office", in_order(patterns.compiled), quality or QualityOfService())
        return plan("office", wanted, present(directory, "office"))

    def apply(self, planned: Plan) -> None:
        messages = [
            Publish(directory_topic(kind, name), b"" if entry is None else encode(entry), retain=True)
            for name, entry in planned.entries.items()
            for kind in (OF_DURABLE if entry is None else ("subscription",))
        ]
        self.client._driver.do(lambda: list(messages))
        self.deployment.advance(15)

    def reports(self) -> dict[str, RuleReport]:
        return {each.rule: each for each in rules_report(self.directory).rules}

    def cold(self, room: str = "hall") -> None:
        now = self.deployment.now
        self.source.publish(self.source.create("Door", now - 1, room=room))
        self.source.publish(self.source.create("Temp", now, room=room, temp=10), watermark=now)
        self.deployment.advance(1)


def _actions(planned: Plan) -> dict[str, str]:
    return {each.rule: each.action for each in planned.changes}


def test_rules_are_detected_without_a_client_and_read_by_their_types() -> None:
    with InMemoryDeployment(nodes=2, checkpoints=True) as deployment:
        world = World(deployment)
        planned = world.plan(f"{COLD}\n{TWICE}\n")
        assert _actions(planned) == {"Cold": "added", "Twice": "added"}
        world.apply(planned)
        assert {each.state for each in world.reports().values()} == {"running"}
        reader = deployment.client("reader").subscribe("[Twice]")
        for _ in range(3):
            world.cold()
        # A node is lost, and nobody is there to ask again.
        deployment.advance(30)
        deployment.crash_node(world.reports()["Twice"].node or "")
        deployment.advance(60)
        world.cold()
        deployment.advance(5)
        assert len(reader.events()) == 3
        assert {each.state for each in world.reports().values()} == {"running"}
        # Nobody is there any more.
        reader.client.stop()  # type: ignore[attr-defined]
        deployment.advance(60)
        assert world.reports()["Cold"].found >= 1
        assert len(deployment.detectors) == 2


def test_second_apply_changes_nothing_and_a_change_is_shown_and_carried_out() -> None:
    with InMemoryDeployment() as deployment:
        world = World(deployment)
        world.apply(world.plan(f"{COLD}\n{TWICE}\n"))
        again = world.plan(f"{COLD}\n{TWICE}\n")
        assert again.entries == {} and again.count("unchanged") == 2
        warmer = COLD.replace("15", "20")
        changed = world.plan(f"{warmer}\n")
        assert _actions(changed) == {"Cold": "changed", "Twice": "removed"}
        (change,) = [each for each in changed.changes if each.action == "changed"]
        assert "15" in str(change.before) and "20" in str(change.pattern) and change.terms == ()
        world.apply(changed)
        (report,) = world.reports().values()
        assert report.state == "running" and "20" in report.pattern
        assert len(deployment.detectors) == 1
        policy = world.plan(f"{warmer}\n", QualityOfService(distribution="min-load"))
        assert [each.terms for each in policy.changes] == [("distribution",)]
        # Other attributes of the type that it publishes.
        world.apply(world.plan(COLD.replace("room = d.room)", "where_ = d.room)") + "\n"))
        (report,) = world.reports().values()
        assert report.state == "running" and "where_" in report.pattern
        world.apply(removal(present(world.directory, "office"), "office"))
        assert world.reports() == {} and deployment.detectors == {}
        for kind in OF_DURABLE:
            assert rule_id("office", "Cold") not in deployment.network.directory_entries(kind)


def test_changed_rule_is_unserved_until_its_own_detector_is_there() -> None:
    with InMemoryDeployment(nodes=2) as deployment:
        world = World(deployment)
        world.apply(world.plan(COLD))
        text = COLD.replace("15", "5")
        directory = world.directory
        patterns = list(
            in_order(
                compile_source(
                    PatternSource(text, "office.pattern"), without_detectors(directory, "office").registry()
                ).compiled
            )
        )
        planned = world.plan(text)
        detectors = detectors_of({name: each for name, each in planned.entries.items() if each}, patterns)
        # As nodes have not taken the change yet.
        (before,) = rules_report(directory, detectors).rules
        assert (before.state, before.detector) == ("unserved", None)
        world.apply(planned)
        (after,) = rules_report(world.directory, detectors).rules
        assert (after.state, after.detector) == ("running", *detectors.values())


def test_rule_waits_for_its_types_with_a_reason() -> None:
    with InMemoryDeployment() as deployment:
        world = World(deployment)
        world.apply(world.plan(f"{COLD}\n"))
        world.client.unregister("Temp")
        for node in deployment.nodes:
            deployment.crash_node(node)
            deployment.start_node(node)
        deployment.advance(20)
        (report,) = world.reports().values()
        assert (report.state, "Temp" in report.reason) == ("waiting", True)
        world.client.register(TYPES[1])
        deployment.advance(20)
        (report,) = world.reports().values()
        assert (report.state, report.reason) == ("running", "")


def test_rules_of_a_server_that_has_forgotten_them_go_on() -> None:
    with InMemoryDeployment(nodes=2) as deployment:
        world = World(deployment)
        world.apply(world.plan(f"{COLD}\n"))
        server = deployment.network.servers[""]
        server.stop(remembers=False)
        deployment.advance(1)
        server.start()
        deployment.advance(60)
        (report,) = world.reports().values()
        assert report.state == "running"


def test_rule_that_waits_outlives_a_server_that_forgets() -> None:
    with InMemoryDeployment(nodes=2) as deployment:
        world = World(deployment)
        late = event_type("Late", {"x": "number"})
        registry = TypeRegistry([*world.directory.registry(), late])
        patterns = compile_source(PatternSource("[Late] -> L()", "office.pattern"), registry)
        wanted = entries_of("office", in_order(patterns.compiled), QualityOfService())
        world.apply(plan("office", wanted, {}))
        assert world.reports()["L"].state == "waiting"
        server = deployment.network.servers[""]
        server.stop(remembers=False)
        deployment.advance(1)
        server.start()
        deployment.advance(120)
        assert world.reports()["L"].state == "waiting"
        world.client.register(late)
        deployment.advance(30)
        assert world.reports()["L"].state == "running"


def test_names_of_rules_follow_their_types() -> None:
    patterns = compile_source(PatternSource(f"[A]\n{COLD}\n[B as b] -> Cold(room = b.room)\n[B]\n", "office.pattern"))
    wanted = entries_of("a.b", patterns.compiled, QualityOfService())
    names = [each.durable.name for each in wanted.values() if each.durable is not None]
    assert names == ["pattern 1", "Cold", "Cold 2", "pattern 2"]
    assert all("." not in each for each in wanted)

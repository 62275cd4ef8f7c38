"""Durable subscriptions on the simulated network: applications are away, are killed, and come back; meanwhile nodes
crash, detectors move and limits are reached. What an application gets is compared with a run over the events published.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from distced import QualityOfService, Source, Subscription, SubscriptionError, event_type
from distced.middleware.client.durable import durable_id
from distced.middleware.model.events import EventId
from distced.middleware.model.timestamps import MINUTE, SECOND
from distced.middleware.wire.codec import decode, encode
from distced.middleware.wire.directory_entries import DurableEntry, ExclusionEntry, SubscriptionEntry
from distced.middleware.wire.mqtt_effects import Publish
from distced.middleware.wire.numbered_stream import Loss
from distced.middleware.wire.topics import directory_topic
from distced.simulations.network.in_memory import InMemoryClient, InMemoryDeployment

TYPES = event_type("A", {"k": "number"}), event_type("B", {"k": "number"})
EACH = "[A as a] -> Each(k = a.k)"
PAIR = "[A as a] ; [B as b where k == a.k] -> Pair(k = b.k)"


class World:
    """Deployment with a publisher, and an application that comes and goes under one durable name."""

    def __init__(self, deployment: InMemoryDeployment, pattern: str = EACH, **quality: Any) -> None:
        self.deployment = deployment
        self.pattern = pattern
        self.quality = QualityOfService(durable="alarms", **quality)
        self.publisher = deployment.client("publisher")
        self.publisher.register(*TYPES)
        self.source: Source = self.publisher.source("s", ["A", "B"])
        self.number = 0
        self.lives = 0
        self.losses: list[Loss] = []
        self.got: list[EventId] = []
        self.keys: list[object] = []
        self.application: InMemoryClient
        self.subscription: Subscription

    def begin(self, name: str = "") -> Subscription:
        self.lives += 1
        self.application = self.deployment.client(name or f"application-{self.lives}")
        self.subscription = self.application.subscribe(self.pattern, quality=self.quality)
        self.subscription.on_loss = self.losses.append
        return self.subscription

    def publish(self, number: int, *, gap: float = 0.01) -> None:
        for _ in range(number):
            self.number += 1
            now = self.deployment.now
            kind = "A" if self.number % 2 or self.pattern == EACH else "B"
            key = self.number if self.pattern == EACH else (self.number + 1) // 2
            self.source.publish(self.source.create(kind, now, k=key), watermark=now)
            self.deployment.advance(gap)

    def take(self, most: int = 10**9) -> None:
        """Take what has come, up to a number of events."""
        for _ in range(most):
            event = self.subscription.get(0.0)
            if event is None:
                return
            self.got.append(event.id)
            self.keys.append(event.attributes["k"])

    def crash(self) -> None:
        self.deployment.crash_client(self.application.name)

    def due(self) -> list[int]:
        return list(range(1, (self.number if self.pattern == EACH else self.number // 2) + 1))


def test_clean_restart_loses_nothing_and_doubles_nothing() -> None:
    with InMemoryDeployment(nodes=2) as deployment:
        world = World(deployment)
        world.begin()
        world.publish(20)
        deployment.advance(2)
        world.take(7)
        world.application.stop()
        world.publish(500)
        # Longer than frames are kept otherwise.
        deployment.advance(900)
        world.publish(3)
        world.begin()
        world.publish(5)
        deployment.advance(5)
        world.take()
        assert world.keys == world.due()
        assert world.losses == []


def test_close_leaves_subscription_while_client_goes_on() -> None:
    with InMemoryDeployment() as deployment:
        world = World(deployment)
        world.begin()
        world.publish(5)
        deployment.advance(2)
        world.take(3)
        world.subscription.close()
        assert world.subscription.get(0.0) is None
        world.publish(5)
        deployment.advance(300)
        world.subscription = world.application.subscribe(world.pattern, quality=world.quality)
        deployment.advance(5)
        world.take()
        assert world.keys == world.due()


def test_message_taken_in_part_comes_once_behind_several_farewells() -> None:
    with InMemoryDeployment() as deployment:
        world = World(deployment)
        world.begin()
        deployment.advance(1)
        begin = deployment.now
        events = [world.source.create("A", begin + number, k=number) for number in range(1, 6)]
        deployment.advance(1)
        world.source.publish(*events, watermark=deployment.now)
        deployment.advance(2)
        world.take(3)
        for _ in range(3):
            world.application.stop()
            world.begin()
            deployment.advance(2)
        world.take()
        assert world.keys == [1, 2, 3, 4, 5] and world.losses == []


def test_application_killed_before_it_takes_anything_loses_nothing_with_replicas() -> None:
    """With hosts at several homes no answer says where their streams begin: their positions come later."""
    with InMemoryDeployment(nodes=3, servers=2) as deployment:
        world = World(deployment, distribution="max-reliability")
        other = deployment.client("other")
        other.subscribe(world.pattern, quality=QualityOfService(distribution="max-reliability"))
        deployment.advance(60)
        world.begin()
        deployment.advance(20)
        assert len(world.subscription.homes) == 2
        world.crash()
        world.publish(10)
        deployment.advance(100)
        world.begin()
        deployment.advance(10)
        world.take()
        assert world.keys == world.due() and world.losses == []


def test_killed_application_gets_again_what_it_had_not_published_as_taken() -> None:
    with InMemoryDeployment() as deployment:
        world = World(deployment)
        world.begin()
        world.publish(20)
        deployment.advance(2)
        world.take(10)
        deployment.advance(2)
        world.take(5)
        # At once, so that the position of the last five is not published.
        world.crash()
        world.publish(20)
        deployment.advance(600)
        world.begin()
        deployment.advance(5)
        world.take()
        times = Counter(world.keys)
        assert sorted(times) == world.due()
        assert sorted(key for key, number in times.items() if number > 1) == [10, 11, 12, 13, 14, 15]
        assert len(set(world.got)) == len(times)


def test_node_killed_while_application_is_away_loses_nothing_with_checkpoints() -> None:
    with InMemoryDeployment(nodes=2, checkpoints=True) as deployment:
        world = World(deployment, PAIR)
        world.begin()
        world.publish(21)
        deployment.advance(5)
        world.take(4)
        world.application.stop()
        for _ in range(4):
            world.publish(101)
            deployment.advance(200)
            host = deployment.host_of(world.subscription)
            deployment.crash_node(host)
            deployment.advance(60)
            world.publish(50)
            deployment.start_node(host)
            deployment.advance(100)
        world.publish(1)
        world.begin()
        world.publish(10)
        deployment.advance(20)
        world.take()
        assert world.keys == world.due()
        assert world.losses == []


def test_detector_moves_while_application_is_away() -> None:
    with InMemoryDeployment(nodes=3) as deployment:
        world = World(deployment, PAIR)
        world.begin()
        world.publish(20)
        deployment.advance(5)
        world.take(4)
        world.application.stop()
        for _ in range(5):
            world.publish(100)
            deployment.advance(100)
            host = deployment.host_of(world.subscription)
            deployment.move(world.subscription, next(each for each in deployment.nodes if each != host))
            world.publish(10)
        world.begin()
        deployment.advance(20)
        world.take()
        assert world.keys == world.due()
        assert world.losses == []


def test_what_is_beyond_the_limit_of_bytes_is_a_loss_in_its_place() -> None:
    with InMemoryDeployment() as deployment:
        world = World(deployment, keep_bytes=20_000)
        world.begin()
        world.publish(5)
        deployment.advance(2)
        world.take()
        world.application.stop()
        begin = deployment.now
        world.publish(500)
        # Longer than frames are kept in any case.
        deployment.advance(1_000)
        world.begin()
        world.publish(5)
        deployment.advance(10)
        world.take()
        missing = sorted(set(world.due()) - set(world.keys))
        assert missing and missing == list(range(6, missing[-1] + 1))
        assert world.keys == [each for each in world.due() if each not in missing]
        (loss,) = world.losses
        assert "limit" in loss.reason
        assert loss.since <= begin and world.subscription.statistics.losses == 1
        assert loss.until < deployment.now - 1_000 * SECOND


def test_subscription_ends_when_application_is_away_for_too_long() -> None:
    with InMemoryDeployment(nodes=2) as deployment:
        world = World(deployment, keep_for="10min")
        world.begin()
        world.publish(5)
        deployment.advance(2)
        world.take()
        world.application.stop()
        world.publish(10)
        deployment.advance(550)
        assert deployment.detectors
        deployment.advance(60)
        assert not deployment.detectors
        notes = [note for _, _, note in deployment.network.notes if note.event == "durable subscription ended"]
        assert [note.fields["composite_events"] for note in notes] == [10]
        before = deployment.now
        world.begin()
        world.publish(5)
        deployment.advance(5)
        world.take()
        assert world.keys == [1, 2, 3, 4, 5, 16, 17, 18, 19, 20]
        (loss,) = world.losses
        assert "10min" in loss.reason and loss.until >= before


@pytest.mark.parametrize("taken", [0, 5])
def test_loss_of_ended_subscription_stays_until_it_is_taken(taken: int) -> None:
    with InMemoryDeployment(nodes=2) as deployment:
        world = World(deployment, keep_for="10min")
        world.begin()
        world.publish(5)
        deployment.advance(2)
        world.take(taken)
        world.application.stop()
        world.publish(10)
        deployment.advance(620)
        before = deployment.now
        for leave in (world.crash, world.crash, lambda: world.application.stop()):
            world.begin()
            deployment.advance(3)
            leave()
            world.publish(1)
            deployment.advance(60)
        world.begin()
        world.publish(5)
        deployment.advance(5)
        world.take()
        missing = set(world.due()) - set(world.keys)
        assert missing >= set(range(6, 16))
        assert world.losses and max(each.until for each in world.losses) >= before
        assert world.subscription.statistics.losses


def test_killed_application_counts_as_away() -> None:
    with InMemoryDeployment() as deployment:
        world = World(deployment, keep_for=10 * MINUTE)
        world.begin()
        world.crash()
        deployment.advance(550)
        assert deployment.detectors
        deployment.advance(100)
        assert not deployment.detectors


def test_server_that_forgets_while_application_is_away_loses_nothing() -> None:
    with InMemoryDeployment(nodes=2) as deployment:
        world = World(deployment)
        world.begin()
        world.publish(10)
        deployment.advance(5)
        world.take(4)
        world.application.stop()
        world.publish(10)
        deployment.advance(20)
        server = deployment.network.servers[""]
        server.stop(remembers=False)
        deployment.advance(1)
        server.start()
        deployment.advance(120)
        world.publish(10)
        world.begin()
        deployment.advance(20)
        world.take()
        assert world.keys == world.due() and world.losses == []


def test_later_application_goes_on_and_earlier_one_ends_with_reason() -> None:
    with InMemoryDeployment() as deployment:
        world = World(deployment)
        earlier = world.begin()
        world.publish(5)
        deployment.advance(2)
        world.take()
        deployment.advance(1)
        world.begin("second")
        deployment.advance(2)
        with pytest.raises(SubscriptionError, match=r"another client goes on with this durable subscription.*second"):
            earlier.get(0.0)
        world.publish(5)
        deployment.advance(2)
        world.take()
        assert sorted(set(world.keys)) == world.due()  # type: ignore[type-var]


def test_other_pattern_or_quality_under_a_name_is_refused() -> None:
    with InMemoryDeployment() as deployment:
        world = World(deployment)
        world.begin()
        world.application.stop()
        client = deployment.client("other")
        with pytest.raises(SubscriptionError, match="with another pattern") as refused:
            client.subscribe(PAIR, quality=world.quality)
        assert PAIR in str(refused.value) and EACH in str(refused.value)
        with pytest.raises(SubscriptionError, match=r"with another detection.*best-effort"):
            client.subscribe(EACH, quality=QualityOfService(durable="alarms", detection="best-effort"))
        world.begin()


def test_forgotten_subscription_leaves_nothing() -> None:
    with InMemoryDeployment() as deployment:
        world = World(deployment)
        world.begin()
        world.subscription.close(forget=True)
        deployment.advance(60)
        assert not deployment.detectors
        for kind in ("subscription", "durable", "position"):
            assert durable_id("alarms") not in deployment.network.directory_entries(kind)
        # Another pattern is welcome.
        world.pattern = PAIR
        world.begin()
        world.application.forget("alarms")
        deployment.advance(60)
        assert not deployment.detectors


def test_kept_frames_are_recovered_for_whichever_subscription_comes_first() -> None:
    with InMemoryDeployment(nodes=3, checkpoints=True, seed=0) as deployment:
        world = World(deployment)
        world.begin()
        reader = deployment.client("reader")
        # One detector, and coordinators of their own.
        for name in "bcdef":
            reader.subscribe(f"[A as {name}] -> Each(k = {name}.k)")
        deployment.advance(2)
        world.publish(20)
        deployment.advance(5)
        world.take()
        deployment.advance(1)
        world.application.stop()
        world.publish(50)
        # Longer than frames are kept otherwise.
        deployment.advance(900)
        assert len(deployment.detectors) == 1
        deployment.crash_node(deployment.host_of(world.subscription))
        deployment.advance(60)
        world.begin()
        deployment.advance(5)
        world.take()
        assert world.keys == world.due()
        assert world.losses == []


def test_farewell_by_a_clock_of_long_ago_ends_nothing() -> None:
    with InMemoryDeployment() as deployment:
        deployment.advance(300)
        world = World(deployment, keep_for="1min")
        world.begin()
        deployment.advance(2)
        name = durable_id("alarms")
        payload = deployment.network.directory_entries("subscription")[name]
        entry = decode(payload, SubscriptionEntry, where=name)
        assert entry.durable is not None
        world.application.stop()
        left = replace(entry, durable=replace(entry.durable, away=1))
        message = Publish(directory_topic("subscription", name), encode(left), retain=True)
        world.publisher._driver.do(lambda: [message])
        world.publish(5)
        deployment.advance(40)
        assert deployment.detectors
        world.begin()
        deployment.advance(5)
        world.take()
        assert world.keys == world.due()
        assert world.losses == []
        world.application.stop()
        deployment.advance(50)
        assert deployment.detectors
        deployment.advance(30)
        assert not deployment.detectors


def test_excluded_while_its_application_is_away_it_waits_and_goes_on() -> None:
    with InMemoryDeployment() as deployment:
        world = World(deployment)
        world.begin()
        world.publish(5)
        deployment.advance(2)
        world.take()
        world.application.stop()
        world.publish(5)
        deployment.advance(2)
        name, (detector,) = durable_id("alarms"), deployment.detectors

        def exclude(payload: bytes) -> None:
            message = Publish(directory_topic("exclusion", detector), payload, retain=True)
            world.publisher._driver.do(lambda: [message])

        exclude(encode(ExclusionEntry(deployment.now, "node-1", "[A]", "beyond a limit")))
        deployment.advance(30)
        assert not deployment.detectors
        state = decode(deployment.network.directory_entries("durable")[name], DurableEntry, where=name)
        assert "beyond a limit" in state.reason and state.away
        exclude(b"")
        deployment.advance(30)
        assert detector in deployment.detectors
        world.publish(5)
        world.begin()
        deployment.advance(10)
        world.take()
        # What its detector had kept is a loss.
        assert world.keys == [1, 2, 3, 4, 5, 11, 12, 13, 14, 15]
        assert world.losses


# A move behind a promotion; hosts at one home of which the older one comes in its middle.
@pytest.mark.parametrize("seed", [1, 3, 18])
def test_random_absences_lose_nothing(seed: int) -> None:
    check(seed)


# Subscriptions that are served again, whose kept frames are still needed.
@pytest.mark.parametrize("seed", [14, 18])
def test_restarted_servers_lose_nothing(seed: int) -> None:
    check(seed, servers=True)


@pytest.mark.properties
@pytest.mark.parametrize("start", range(100, 1_100, 100))
def test_random_absences_lose_nothing_at_length(start: int) -> None:
    for seed in range(start, start + 100):
        check(seed, servers=seed % 2 == 1)


def check(seed: int, *, servers: bool = False) -> None:
    """Absences, kills, crashes of nodes and moves at random, and restarts of the server: every composite event comes,
    those twice after a kill alone."""
    random = Random(seed)
    detection = "guaranteed"
    with InMemoryDeployment(nodes=3, servers=random.choice((1, 2)), checkpoints=True, seed=seed) as deployment:
        world = World(
            deployment,
            random.choice((EACH, PAIR)),
            detection=detection,
            distribution=random.choice(("", "max-reliability")),
        )
        world.begin()
        kills = 0
        for _ in range(random.randrange(3, 8)):
            world.publish(random.randrange(60))
            deployment.advance(random.choice((0.1, 3)))
            world.take(random.choice((0, 5, 10**9)))
            deployment.advance(random.choice((0, 3)))
            if random.random() < 0.5:
                world.application.stop()
            else:
                kills += 1
                world.crash()
            for _ in range(random.randrange(3)):
                world.publish(random.randrange(60))
                deployment.advance(random.choice((0.5, 20, 400)))
                if servers and random.random() < 0.4:
                    server = deployment.network.servers[""]
                    server.stop(remembers=random.random() < 0.5)
                    deployment.advance(random.choice((0.1, 2)))
                    server.start()
                    deployment.advance(random.choice((5, 60)))
                host = deployment.host_of(world.subscription)
                others = [each for each in deployment.nodes if each != host]
                if host and random.random() < 0.4 and others:
                    deployment.crash_node(host)
                    deployment.advance(random.choice((0, 20)))
                    deployment.start_node(host)
                elif host and random.random() < 0.5 and others:
                    deployment.advance(60)
                    deployment._administrator.move(world.subscription.detector, random.choice(others))
                    deployment.advance(random.choice((0.5, 20)))
            world.begin()
        world.publish(5)
        deployment.advance(120)
        world.take()
        times = Counter(world.keys)
        assert sorted(times) == world.due(), f"seed {seed}"  # type: ignore[type-var]
        assert world.losses == [], f"seed {seed}"
        assert kills or max(times.values()) == 1, f"seed {seed}"
        assert len(set(world.got)) == len(times)

"""The client on asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from distced.brokers.live.mqtt_server import Server
from distced.brokers.live.node import LiveNode
from distced.middleware.client.aio import AsyncClient, AsyncSource, AsyncSubscription
from distced.middleware.client.quality import QualityOfService
from distced.middleware.model.errors import DistcedError, SubscriptionError, SubscriptionsError
from distced.middleware.model.event_types import event_type
from distced.middleware.wire.numbered_stream import Loss
from distced.middleware.wire.topics import directory_topic

pytestmark = pytest.mark.mqtt

A = event_type("A", {})
LONG = 10.0

Scenario = Callable[[AsyncClient, AsyncSource], Awaitable[None]]


@pytest.fixture
def node(mosquitto: Server, root: str) -> Iterator[LiveNode]:
    with LiveNode(mosquitto.url, f"{root}-n", root=root) as node:
        yield node


@pytest.fixture
def play(mosquitto: Server, root: str, node: LiveNode) -> Callable[[Scenario], None]:
    """Runs a scenario with a client that is a source of `A`."""

    async def run(scenario: Scenario) -> None:
        async with AsyncClient(mosquitto.url, name=f"{root}-app", root=root) as client:
            await client.wait_for_nodes(1)
            await client.register(A)
            source = await client.source("s", ["A"], watermark=0)
            await asyncio.wait_for(scenario(client, source), 3 * LONG)

    return lambda scenario: asyncio.run(run(scenario))


async def send(client: AsyncClient, source: AsyncSource, *instants: int) -> None:
    await client.publish(source, *(source.create("A", each) for each in instants), watermark=instants[-1])


async def taken(subscription: AsyncSubscription) -> list[int]:
    return [event.hi async for event in subscription]


def test_events_are_iterated_over_until_the_subscription_ends(play: Any) -> None:
    async def scenario(client: AsyncClient, source: AsyncSource) -> None:
        subscription = await client.subscribe("[A] ; [A]")
        reading = asyncio.create_task(taken(subscription))
        await send(client, source, 1, 2, 3)
        assert await subscription.wait_watermark(3, LONG)
        await asyncio.sleep(0)
        await client.unsubscribe(subscription)
        assert await asyncio.wait_for(reading, LONG) == [2, 3]
        # It has ended, and stays so.
        assert await asyncio.wait_for(taken(subscription), LONG) == []

    play(scenario)


def test_types_can_be_subscribed_to(play: Any) -> None:
    async def scenario(client: AsyncClient, source: AsyncSource) -> None:
        subscription = await client.subscribe(A)
        await send(client, source, 5)
        async for event in subscription:
            assert (event.type, event.hi) == ("A", 5)
            break

    play(scenario)


def test_first_match_ends_the_iteration(play: Any) -> None:
    async def scenario(client: AsyncClient, source: AsyncSource) -> None:
        subscription = await client.subscribe("[A]", quality=QualityOfService(matches="first"))
        await send(client, source, 1, 2, 3)
        assert await asyncio.wait_for(taken(subscription), LONG) == [1]

    play(scenario)


def test_iteration_that_is_cancelled_loses_nothing(play: Any) -> None:
    async def scenario(client: AsyncClient, source: AsyncSource) -> None:
        subscription = await client.subscribe("[A]")
        reading = asyncio.create_task(taken(subscription))
        await asyncio.sleep(0.01)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await send(client, source, 1, 2)
        events = aiter(subscription)
        assert [(await asyncio.wait_for(anext(events), LONG)).hi for _ in range(2)] == [1, 2]

    play(scenario)


def test_client_that_stops_ends_every_iteration(mosquitto: Server, root: str, node: LiveNode) -> None:
    async def run() -> list[int]:
        async with AsyncClient(mosquitto.url, name=f"{root}-app", root=root) as client:
            await client.register(A)
            subscription = await client.subscribe("[A]")
            reading = asyncio.create_task(taken(subscription))
            await asyncio.sleep(0.01)
        return await asyncio.wait_for(reading, LONG)

    assert asyncio.run(run()) == []


def test_subscription_that_is_cancelled_while_it_is_made_is_given_up(
    play: Any, node: LiveNode, eventually: Callable[[Callable[[], bool]], None]
) -> None:
    async def scenario(client: AsyncClient, source: AsyncSource) -> None:
        making = asyncio.create_task(client.subscribe("[A]"))
        await asyncio.sleep(0)
        making.cancel()
        with pytest.raises(asyncio.CancelledError):
            await making
        for _ in range(1000):
            await asyncio.sleep(0.005)
            if node.node.counts and not client._session.subscriptions.open:
                break
        assert not client._session.subscriptions.open
        await asyncio.to_thread(eventually, lambda: not node.node.hosted)

    play(scenario)


def test_slow_application_gets_all_events_from_a_short_queue(play: Any) -> None:
    async def scenario(client: AsyncClient, source: AsyncSource) -> None:
        subscription = await client.subscribe("[A]", quality=QualityOfService(queue=20))
        other = await client.subscribe("[A]")
        for instant in range(1, 101):
            await send(client, source, instant)
            # So each event has a message of its own.
            assert await other.wait_watermark(instant, LONG)
        assert subscription.behind
        assert len(subscription._waiting) <= 20
        heard = [(await subscription.get(LONG)).hi for _ in range(100)]  # type: ignore[union-attr]
        assert heard == list(range(1, 101))
        assert await subscription.wait_watermark(100, LONG)
        assert subscription.statistics.dropped == subscription.statistics.losses == 0

    play(scenario)


def test_slow_application_that_wants_the_latest_gets_a_loss_before(play: Any) -> None:
    async def scenario(client: AsyncClient, source: AsyncSource) -> None:
        subscription = await client.subscribe(A, quality=QualityOfService(queue=4, overflow="drop"))
        losses: list[Loss] = []
        subscription.on_loss = losses.append
        for instant in range(1, 31):
            await send(client, source, instant)
        while subscription.statistics.received + subscription.statistics.dropped < 30:
            await asyncio.sleep(0.005)
        await client.unsubscribe(subscription)
        heard = await asyncio.wait_for(taken(subscription), LONG)
        (loss,) = losses
        assert (loss.since, loss.until) == (0, 30 - len(heard))
        assert heard == list(range(31 - len(heard), 31))

    play(scenario)


def test_errors_are_raised_by_the_asyncio_client(play: Any, root: str) -> None:
    async def scenario(client: AsyncClient, source: AsyncSource) -> None:
        with pytest.raises(SubscriptionError, match="unknown event type: X"):
            await client.subscribe("[X]")
        subscription = await client.subscribe("[A]")
        topic = directory_topic("subscription", subscription.id, root=root)
        await client._driver.connections.main.publish(topic, b"", qos=1, retain=True)
        with pytest.raises(SubscriptionError, match="cleared"):
            await asyncio.wait_for(taken(subscription), LONG)

    play(scenario)


def test_types_are_forgotten(play: Any) -> None:
    async def scenario(client: AsyncClient, source: AsyncSource) -> None:
        await client.register(event_type("Other"))
        await client.unregister("Other")
        assert set(client.types) == {"A"}

    play(scenario)


def test_client_on_asyncio_starts_no_thread(play: Any) -> None:
    # Those of earlier tests may end meanwhile.
    before = set(threading.enumerate())

    async def scenario(client: AsyncClient, source: AsyncSource) -> None:
        subscription = await client.subscribe("[A]")
        await send(client, source, 1)
        async for _ in subscription:
            break
        assert not set(threading.enumerate()) - before

    play(scenario)


def test_cancelled_subscribe_leaves_no_entry(mosquitto: Server, root: str, node: LiveNode) -> None:
    async def run() -> None:
        async with AsyncClient(mosquitto.url, name=f"{root}-app", root=root) as client:
            await client.register(A)
            entries = node.node.directory.subscriptions
            for delay in (0.0, 0.0, 0.002, 0.01):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(delay):
                        await client.subscribe("[A]")
                        await asyncio.sleep(LONG)
                for each in list(client._driver.subscriptions.values()):
                    await client.unsubscribe(each)
            # The server answers in the order of publication: what was before is through.
            last = await client.subscribe("[A]")
            assert set(client._driver.subscriptions) == {last.id}
            assert client._session.subscriptions.open == [last.id]
            assert {identity for identity, _, _ in client._driver._routes} == {last.id}
            assert set(entries) == {last.id}

    asyncio.run(run())


def test_cancelled_source_is_closed(play: Any) -> None:
    async def scenario(client: AsyncClient, source: AsyncSource) -> None:
        opening = asyncio.create_task(client.source("late", ["A"]))
        await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        for _ in range(1000):
            await asyncio.sleep(0.005)
            if not client._session.sources._opening:
                break
        await client.flush()
        assert set(client._session.sources.sources) == {"s"}
        again = await client.source("late", ["A"], watermark=0)
        await again.publish(again.create("A", 1), watermark=1)
        await again.heartbeat(2)
        await again.close()
        assert set(client._session.sources.sources) == {"s"}

    play(scenario)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(LONG):
        while not holds():
            await asyncio.sleep(0.01)


def test_client_on_asyncio_continues_after_a_restart_of_its_server(
    start_mosquitto: Callable[..., Server], root: str
) -> None:
    server = start_mosquitto()

    async def run(node: LiveNode) -> None:
        async with AsyncClient(server.url, name=f"{root}-app", root=root) as client:
            await client.wait_for_nodes(1)
            await client.register(A)
            source = await client.source("s", ["A"], watermark=0)
            subscription = await client.subscribe("[A] ; [A]")
            await send(client, source, 1)
            assert await subscription.wait_watermark(1, LONG)
            main = client._driver.connections.main
            await asyncio.to_thread(server.stop)
            await until(lambda: not main.connected and not node.bus.connected)
            await asyncio.to_thread(start_mosquitto, port=server.port)
            await until(lambda: main.connected and node.bus.connected)
            assert main.statistics.reconnections == 1
            # The server has forgotten everything; the client has published its entries again.
            async with AsyncClient(server.url, name=f"{root}-another", root=root) as another:
                entries = another._session.entries
                await another.read_detectors()
                await until(lambda: set(entries.types) == {"A"} and set(entries.detectors) == {subscription.detector})
                known = node.node.directory.subscriptions
                await until(lambda: set(entries.sources) == {"s"} and set(known) == {subscription.id})
            for instant in (2, 3):
                await send(client, source, instant)
                event = await subscription.get(LONG)
                # What had been matched before is not lost.
                assert event is not None
                assert event.hi == instant
            assert subscription.statistics.duplicates == 0

    with LiveNode(server.url, f"{root}-n", root=root) as node:
        asyncio.run(asyncio.wait_for(run(node), 6 * LONG))


def test_many_subscriptions_are_made_and_ended(play: Any) -> None:
    async def scenario(client: AsyncClient, source: AsyncSource) -> None:
        made = await client.subscribe_many([f"[A] ; [A] within {number + 1}ns" for number in range(20)])
        await send(client, source, 1, 6)
        for number, each in enumerate(made):
            assert await each.wait_watermark(6, LONG)
            await client.unsubscribe(each)
            assert await taken(each) == ([6] if number >= 4 else [])
        with pytest.raises(SubscriptionsError, match="1 of 2"):
            await client.subscribe_many(["[A]", "[Nobody]"])

    play(scenario)


def test_pattern_file_is_subscribed_to_or_nothing_of_it(play: Any, tmp_path: Path) -> None:
    path = tmp_path / "pairs.pattern"
    statements = "type Slow = A every SPAN\nSPAN = 10ns\nPair = [Slow] ; [A] within SPAN\n[Two] -> Three()\n"
    statements += "consumption epoch\nPair -> Two() # by instants\n"

    async def scenario(client: AsyncClient, source: AsyncSource) -> None:
        path.write_text(statements + "[Nobody] -> Wrong()\n")
        with pytest.raises(DistcedError, match=r"unknown event type: Nobody(.|\n)*at line 7, column 2") as caught:
            await client.subscribe_file(path)
        assert "pairs.pattern, statement of line 7" in str(caught.value)
        assert set(client.types) == {"A"}
        path.write_text(statements)
        three, two = await client.subscribe_file(path)
        assert two.detector == (await client.subscribe("[Slow] ; [A] within 10ns -> Two() consumed epoch")).detector
        await send(client, source, 1, 2)
        for each in (three, two):
            event = await each.get(LONG)
            assert event is not None
            assert event.hi == 2

    play(scenario)


def test_durable_subscription_goes_on_behind_what_was_taken(
    mosquitto: Server, root: str, play: Callable[[Scenario], None]
) -> None:
    quality = QualityOfService(durable="each")

    async def scenario(client: AsyncClient, source: AsyncSource) -> None:
        async with AsyncClient(mosquitto.url, root=root) as first:
            subscription = await first.subscribe("[A]", quality=quality)
            await send(client, source, 1, 2, 3)
            assert [event.hi for _ in range(2) if (event := await subscription.get(LONG)) is not None] == [1, 2]
        await send(client, source, 4, 5)
        async with AsyncClient(mosquitto.url, root=root) as second:
            subscription = await second.subscribe("[A]", quality=quality)
            found = [event.hi for _ in range(3) if (event := await subscription.get(LONG)) is not None]
            assert found == [3, 4, 5]
            await second.unsubscribe(subscription, forget=True)
            assert await subscription.get(LONG) is None

    play(scenario)

"""Patterns in other languages on a real MQTT server: clients send the text, nodes translate it."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from threading import Thread

import pytest

from distced.brokers.live.mqtt_server import Server
from distced.brokers.live.node import LiveNode
from distced.middleware.cli.command import main
from distced.middleware.client.aio import AsyncClient
from distced.middleware.client.client import Client, Source
from distced.middleware.model.errors import SubscriptionError
from distced.middleware.model.event_types import event_type
from distced.middleware.model.events import Event

pytestmark = pytest.mark.mqtt

STOCK = event_type("Stock", {"name": "string", "price": "number"})
QUERIES = """
SELECT name, price FROM FILTER{price > 10} Stock PUBLISH High
SELECT price_1 AS one, price AS other FROM High NEXT{$1.name = $2.name} High PUBLISH Two
"""


def quotes(source: Source) -> list[Event]:
    prices = [("a", 11), ("b", 5), ("b", 12), ("a", 13)]
    return [source.create("Stock", 10 * at, name=name, price=price) for at, (name, price) in enumerate(prices, 1)]


def test_queries_of_a_text_are_detected_and_read_each_other(mosquitto: Server, root: str) -> None:
    node = LiveNode(mosquitto.url, f"{root}-n0", root=root)
    node.start()
    try:
        with Client(mosquitto.url, name=f"{root}-app", root=root) as client:
            client.wait_for_nodes(1)
            client.register(STOCK)
            source = client.source("nyse", ["Stock"], watermark=0)
            high = client.subscribe(QUERIES, language="cel", query="High")
            two = client.subscribe(QUERIES, language="cel", query="Two")
            with pytest.raises(SubscriptionError, match="several queries, of which one can be detected at a time"):
                client.subscribe(QUERIES, language="cel")
            with pytest.raises(SubscriptionError, match=r"no attribute volume.*line 1, column 8"):
                client.subscribe("SELECT volume FROM Stock", language="cel")
            above = [f"SELECT name FROM FILTER{{price > {each}}} Stock" for each in (11, 12)]
            many = client.subscribe_many(above, language="cel")
            source.publish(*quotes(source), watermark=100)
            assert [each.get(timeout=20.0) is not None for each in many] == [True, True]
            met, highs = two.get(timeout=20.0), [high.get(timeout=20.0) for _ in range(3)]
            assert met is not None and met.attributes == {"one": 11, "other": 13}
            assert sorted(each.attributes["price"] for each in highs if each) == [11, 12, 13]
    finally:
        node.stop()


def test_verb_subscribes_to_all_queries_of_a_file(
    mosquitto: Server, root: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "stock.cel"
    file.write_text(QUERIES)
    # The verb has no option for the root of topics.
    node = LiveNode(mosquitto.url, f"{root}-n0")
    node.start()
    try:
        with Client(mosquitto.url, name=f"{root}-app") as client:
            client.wait_for_nodes(1)
            client.register(STOCK)
            source = client.source(f"{root}-nyse", ["Stock"], watermark=0)

            def publish() -> None:
                while sum(hosted.running for hosted in list(node.node.hosted.values())) < 2:
                    time.sleep(0.05)
                # Both are active soon behind.
                time.sleep(1.0)
                source.publish(*quotes(source), watermark=100)

            publishing = Thread(target=publish, daemon=True)
            publishing.start()
            count = ("--count", "4", "--timeout", "30s", "--json")
            assert main(["subscribe", str(file), *count, "--server", mosquitto.url]) == 0
            shown = capsys.readouterr()
            events = [json.loads(line) for line in shown.out.splitlines()]
            assert sorted(each["type"] for each in events) == ["High", "High", "High", "Two"]
            assert "listening: High" in shown.err
            client.unregister("Stock")
    finally:
        node.stop()


def test_async_client_subscribes_in_a_language(mosquitto: Server, root: str) -> None:
    async def follow() -> None:
        async with AsyncClient(mosquitto.url, name=f"{root}-app", root=root) as client:
            await client.wait_for_nodes(1)
            await client.register(STOCK)
            source = await client.source("nyse", ["Stock"], watermark=0)
            subscription = await client.subscribe("σ[price > 10] Stock", language="algebra")
            await client.publish(source, source.create("Stock", 10, name="a", price=11), watermark=20)
            event = await subscription.get(timeout=20.0)
            assert event is not None and event.attributes == {"name": "a", "price": 11}

    node = LiveNode(mosquitto.url, f"{root}-n0", root=root)
    node.start()
    try:
        asyncio.run(follow())
    finally:
        node.stop()

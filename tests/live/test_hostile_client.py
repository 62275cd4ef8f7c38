"""A client that asks for more than the limits of a node, beside another, over a real server."""

from __future__ import annotations

import threading

import pytest

from distced.brokers.core.node_location import SubscriptionLimits
from distced.brokers.live.node import LiveNode
from distced.middleware.client.client import Client
from distced.middleware.model.errors import SubscriptionsError
from distced.middleware.model.event_types import event_type
from tests.live.conftest import Server

pytestmark = pytest.mark.mqtt

A = event_type("A", {"k": "number"})


def test_client_beyond_the_limit_has_its_refusals_while_another_is_served(mosquitto: Server) -> None:
    root = "hostile"
    with (
        LiveNode(mosquitto.url, "limited", root=root, limits=SubscriptionLimits(50)) as node,
        Client(mosquitto.url, name="greedy", root=root) as greedy,
        Client(mosquitto.url, name="other", root=root) as other,
    ):
        greedy.register(A)
        caught: list[SubscriptionsError] = []

        def ask() -> None:
            with pytest.raises(SubscriptionsError) as error:
                greedy.subscribe_many([f"[A where k == {number}]" for number in range(1_000)])
            caught.append(error.value)

        asking = threading.Thread(target=ask)
        asking.start()
        made = [other.subscribe(f"[A where k > {number}]") for number in range(10)]
        asking.join(30)
        (error,) = caught
        assert len(error.errors) == 950 and len(error.subscriptions) == 50
        reasons = {str(each) for each in error.errors.values()}
        (reason,) = reasons
        assert reason.startswith("too many subscriptions of one client: greedy (allowed: 50); end some")
        # The rest of the bulk was not requested.
        assert 0 < node.statistics()["subscriptions refused"] < 200
        # Those that end leave their places to others.
        greedy.unsubscribe_many(error.subscriptions[:10])
        assert len(greedy.subscribe_many([f"[A where k < {number}]" for number in range(10)])) == 10
        assert not any(each.ended for each in made)

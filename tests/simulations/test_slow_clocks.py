"""Hosts of one detector whose clocks are minutes apart: a later host has a later life, whatever its clock says."""

from __future__ import annotations

import pytest

from distced.middleware.model.timestamps import MINUTE
from distced.simulations.network.in_memory import InMemoryDeployment
from tests.simulations.test_durable_subscriptions import World


@pytest.mark.parametrize("times", [1, 2])
def test_readers_go_on_with_a_host_whose_clock_is_behind(times: int) -> None:
    """Without checkpoints; the reader is away while hosts are lost, and comes in the middle of the last one's life."""
    with InMemoryDeployment(nodes=3, start="2026-11-21T08:00Z") as deployment:
        world = World(deployment)
        world.begin()
        deployment.advance(10)
        fast = next(node for node in deployment.nodes if node != deployment.host_of(world.subscription))
        deployment.deployment.nodes[fast].set_clock(4 * MINUTE)
        # Clocks follow at half the rate.
        deployment.advance(500)
        deployment.move(world.subscription, fast)
        world.publish(5)
        deployment.advance(5)
        world.take()
        assert world.keys == [1, 2, 3, 4, 5]
        deployment.advance(2)
        world.application.stop()
        for _ in range(times):
            deployment.crash_node(deployment.host_of(world.subscription))
            deployment.advance(30)
            world.publish(3)
            deployment.advance(2)
        world.begin()
        deployment.advance(60)
        world.publish(3)
        deployment.advance(10)
        world.take()
        last = list(range(world.number - 5, world.number + 1))
        assert world.keys == [1, 2, 3, 4, 5, *last]
        assert world.losses

"""Frames in a checkpoint: as many as a reader may need whose own checkpoint is older by seconds."""

from __future__ import annotations

from distced.brokers.core.effects import Save
from distced.brokers.node.checkpoint_format import unpack
from distced.middleware.model.event_types import event_type
from distced.middleware.model.timestamps import MILLISECOND, SECOND
from distced.simulations.network.in_memory import InMemoryDeployment


def test_checkpoint_has_the_frames_of_seconds_of_dense_output() -> None:
    with InMemoryDeployment(engine="stepwise") as deployment:
        node = deployment.deployment.nodes["node-1"].node
        client = deployment.client("app")
        client.register(event_type("A", {"text": "string"}))
        source = client.source("s", ["A"], watermark=0)
        client.subscribe("[A as a] -> Copy(text = a.text)")
        for number in range(1, 401):
            at = number * 10 * MILLISECOND
            source.publish(source.create("A", at, text="x" * 1_000), watermark=at)
        deployment.settle()
        node.checkpoints.kept = True
        effects = node.checkpoints.tick(deployment.now + SECOND)
        (saved,) = [each for each in effects if isinstance(each, Save)]
        (pieces,) = [each for each in saved.entries.values() if each]
        output = unpack(tuple(pieces)).output
        # 400 kB within four seconds: all of it, from the first frame on.
        assert output.first == 1
        assert sum(map(len, output.frames)) > 400_000

"""A broker node that is to use the columnar engine: it serves while that is got ready, and then changes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from itertools import count

import pytest

from distced.middleware.client.client import Client
from distced.middleware.client.quality import QualityOfService
from distced.middleware.model.event_types import event_type
from distced.middleware.model.timestamps import MILLISECOND
from tests.live.test_verbs import Verb, distced

__all__ = ["distced"]

pytestmark = pytest.mark.mqtt

A = event_type("A", {"k": "number"})


@pytest.mark.slow
def test_node_detects_stepwise_until_the_columnar_engine_is_ready(distced: Callable[..., Verb]) -> None:
    pytest.importorskip("numba", reason="the columnar engine needs the extra distced[fast]")
    broker = distced("broker", "--port", "0", "--no-ray", "--engine", "columnar", "--json")
    url = json.loads(broker.wait_for('"ready"'))["server"]
    with Client(url) as client:
        client.register(A)
        source = client.source("s", ["A"])
        subscription = client.subscribe("[A as one] ; [A as other where k == one.k + 1] -> Next(k = other.k)",
                                        quality=QualityOfService(detection="best-effort"))  # fmt: skip
        engines, deadline = set[str](), time.monotonic() + 240
        for number in count():
            # Each is found while the engine is on its way, and with either.
            source.publish(source.create("A", time.time_ns() - MILLISECOND, k=number))
            if number:
                assert subscription.get(timeout=10).attributes == {"k": number}
            # Each question is a process, which takes time from what is waited for.
            engines.add(_engine(distced, url) if number % 100 == 0 else "")
            if "columnar" in engines:
                break
            assert time.monotonic() < deadline, engines
            time.sleep(0.03)
    assert broker.terminate() == 0


def _engine(distced: Callable[..., Verb], url: str) -> str:
    """What the directory says of the only detector."""
    shown = distced("detectors", "--json", "--server", url)
    assert shown.end() == 0
    (detector,) = json.loads("\n".join(shown.out))["detectors"]
    return detector["measured"]["engine"] if detector["measured"] else ""


def test_unknown_engine_is_refused(distced: Callable[..., Verb]) -> None:
    broker = distced("broker", "--port", "0", "--no-ray", "--engine", "vectorised")
    assert broker.end() == 2
    assert "vectorised" in broker.said

"""What a subscriber was told live, and what a replay of the recorded history finds, are the same; and so is a run."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow", reason="a history needs the extra distced[tables]")

import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from distced.brokers.live.mqtt_server import Server
from distced.brokers.live.node import LiveNode
from distced.brokers.live.recorder import LiveRecorder
from distced.detectors.batch_run.runner import replay
from distced.detectors.compiler import compile_pattern
from distced.middleware.client.client import Client
from distced.middleware.client.quality import QualityOfService
from distced.middleware.history import History, events_of_history
from distced.middleware.model.event_types import event_type
from distced.middleware.model.events import CompositeEvent, Event
from distced.simulations.replay.plan import CutWay
from distced.simulations.replay.replay import HistoryReplay
from distced.simulations.replay.runners import Inline
from tests.support.replay_runs import seen

pytestmark = pytest.mark.mqtt

Eventually = Callable[[Callable[[], bool]], None]

KINDS = [event_type(name, {"k": "number", "v": "number"}) for name in "ABC"]
END = 20_000
QUESTIONS: dict[str, tuple[CutWay, ...]] = {
    "[A as x] ; [B as y where v >= x.v] by k within 200ns -> Rise(k = y.k, v = y.v)": ("whole", "key", "time"),
    "[A as x] ; [B where v >= x.v] ; ([C] & [A] ; [B]) by k within 1us -> Out(v = x.v)": ("whole", "key", "parts"),
    "([C as c where v == 2], [T <= {T, A}]) @ T=20ns -> Quiet(k = c.k, v = c.v)": ("whole", "time"),
}


def some_events() -> list[Event]:
    """Some of them come out of order, and some have whole floats."""
    random = Random(7)
    made = [
        Event(
            random.choice("ABC"),
            10 * at,
            10 * at + random.randrange(15),
            "s",
            at,
            {"k": at % 3, "v": random.choice((0, 1, 2.0, 2))},
        )
        for at in range(1, 300)
    ]
    for place in range(0, len(made) - 3, 7):
        made[place : place + 3] = made[place + 2], made[place], made[place + 1]
    return made


def test_live_and_replay(mosquitto: Server, root: str, tmp_path: Path, eventually: Eventually) -> None:
    events = some_events()
    reported: dict[str, dict[tuple[str, int], CompositeEvent]] = {text: {} for text in QUESTIONS}
    with (
        LiveRecorder(mosquitto.url, tmp_path / "h", "r", types=["A", "B", "C"], root=root) as recorder,
        LiveNode(mosquitto.url, f"{root}-n", root=root),
        Client(mosquitto.url, name=f"{root}-app", root=root) as client,
    ):
        client.wait_for_nodes(1)
        client.register(*KINDS)
        assert recorder.wait_announced(10)
        source = client.source("s", ["A", "B", "C"], watermark=0)
        subscriptions = {text: client.subscribe(text, quality=QualityOfService()) for text in QUESTIONS}
        for event in events:
            source.publish(event)
        source.heartbeat(END)
        expected = {text: list(replay(text, events, types=KINDS, finish=True)[0]) for text in QUESTIONS}
        deadline = time.monotonic() + 30
        for text, subscription in subscriptions.items():
            while len(reported[text]) < len(expected[text]) and time.monotonic() < deadline:
                found = subscription.get(timeout=1.0)
                if found is not None:
                    reported[text][found.id] = found
        eventually(lambda: recorder.status()["watermark"] == END)
    history = History(tmp_path / "h")
    assert list(events_of_history(history)) == sorted(events, key=lambda event: event.key)
    for number, (text, ways) in enumerate(QUESTIONS.items()):
        live = seen(list(reported[text].values()))
        assert len(live) > 10
        assert live == seen(expected[text])
        for way in ways:
            made = HistoryReplay(
                [compile_pattern(text)], history, tmp_path / f"{number}{way}", cores=2, way=way, least=30
            )
            made.perform(Inline())
            assert made.plan.groups[0].tasks > (way != "whole")
            assert seen(list(made)) == live

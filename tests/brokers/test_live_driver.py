"""What the live driver makes of a node's effects; no server is there, and none is needed."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from distced.brokers.core.effects import Note, Publish, Subscribe, Unsubscribe
from distced.brokers.live.node import LiveNode
from distced.brokers.live.participant import Outlet
from distced.middleware.model.errors import BusError

NOWHERE = "mqtt://127.0.0.1:9"
ISLAND = "mqtt://127.0.0.1:19"


class Paper:
    """Takes down what is asked of a bus; publishing fails on demand."""

    def __init__(self) -> None:
        self.done: list[tuple[str, str]] = []
        self.called: list[Callable[[], Any]] = []
        self.full = False

    def publish(self, topic: str, payload: bytes, **_: Any) -> None:
        if self.full:
            raise BusError("too many messages wait to be sent")
        self.done.append(("publish", topic))

    def subscribe(self, topic_filter: str, handler: Any, **_: Any) -> None:
        self.done.append(("subscribe", topic_filter))

    def unsubscribe(self, topic_filter: str, handler: Any) -> None:
        self.done.append(("unsubscribe", topic_filter))

    def call_soon(self, run: Callable[[], Any]) -> None:
        self.called.append(run)


def node_on_paper() -> tuple[LiveNode, Paper, Paper]:
    """A node, its bus to the directory, and that to another home."""
    live, main, island = LiveNode(NOWHERE, "n"), Paper(), Paper()
    for home, paper in {"": main, ISLAND: island}.items():
        live._outlets[home] = Outlet(home, paper, lambda _: print, partial(live._note, "warning"))  # type: ignore[arg-type]
    return live, main, island


def test_effects_at_a_server_keep_their_order_across_threads() -> None:
    live, main, island = node_on_paper()
    marker = Publish("marker", b"1", home=ISLAND)
    # On the thread of the first bus: what is meant for the other is left to the other's thread.
    live._decide("", lambda: [Subscribe("a", home=ISLAND), Publish("p", b""), marker])
    assert (main.done, island.done) == ([("publish", "p")], [])
    # On the thread of the second, before it has come to that: nothing overtakes what was said before.
    live._decide(ISLAND, lambda: [Unsubscribe("a", home=ISLAND), Publish("q", b"", home=ISLAND), Publish("r", b"")])
    assert island.done == [("subscribe", "a"), ("publish", "marker"), ("unsubscribe", "a"), ("publish", "q")]
    (later,) = island.called
    later()
    assert len(island.done) == 4
    assert main.done == [("publish", "p")]
    for run in main.called:
        run()
    assert main.done == [("publish", "p"), ("publish", "r")]


def test_filter_is_subscribed_to_once() -> None:
    live, main, _ = node_on_paper()
    live._decide("", lambda: [Subscribe("a"), Subscribe("a"), Unsubscribe("a"), Subscribe("a")])
    assert main.done == [("subscribe", "a"), ("unsubscribe", "a"), ("subscribe", "a")]


def test_dropped_message_is_counted_and_others_are_sent() -> None:
    live, main, island = node_on_paper()
    island.full = True
    structlog.reset_defaults()  # Verbs that ran in this process have set what is logged.
    with capture_logs() as logs:
        for _ in range(5):
            live._decide(
                ISLAND, lambda: [Publish("lost", b"", home=ISLAND), Subscribe("a", home=ISLAND), Publish("p", b"")]
            )
    assert live.statistics()["unsent"] == 5
    assert island.done == [("subscribe", "a")]
    assert len(main.called) == 5
    # Not one line for each of a flood.
    assert [each["so_far"] for each in logs] == [1, 2, 4]
    assert {each["home"] for each in logs} == {ISLAND}


def test_unusable_home_is_logged_once() -> None:
    live, main, _ = node_on_paper()
    structlog.reset_defaults()  # Verbs that ran in this process have set what is logged.
    with capture_logs() as logs:
        for _ in range(2):
            live._decide("", lambda: [Publish("x", b"", home="http://no.server"), Publish("p", b"")])
    assert main.done == [("publish", "p"), ("publish", "p")]
    (reported,) = logs
    assert (reported["event"], reported["home"]) == ("server unusable", "http://no.server")
    assert "not the URL of an MQTT server" in reported["reason"]


def test_note_may_name_another_node() -> None:
    live, main, _ = node_on_paper()
    structlog.reset_defaults()  # Verbs that ran in this process have set what is logged.
    with capture_logs() as logs:
        live._decide("", lambda: [Note("info", "detector moved", {"node": "attic"}), Publish("p", b"")])
    assert logs == [{"event": "detector moved", "log_level": "info", "node": "n", "other_node": "attic"}]
    assert main.done == [("publish", "p")]


@pytest.mark.parametrize(
    "note", [Note("info", "detector moved", {}), Note("warning", "move refused", {"node": "attic"})]
)
def test_effects_behind_a_note_are_carried_out_where_the_log_is_closed(note: Note) -> None:
    live, main, island = node_on_paper()
    stream = io.StringIO()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(stream))
    stream.close()
    live._decide("", lambda: [Publish("p", b""), note, Subscribe("a"), Publish("q", b"", home=ISLAND)])
    assert main.done == [("publish", "p"), ("subscribe", "a")]
    (later,) = island.called
    later()
    assert island.done == [("publish", "q")]

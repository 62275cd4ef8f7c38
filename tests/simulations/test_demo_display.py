"""Screen of the demonstration: each kind of composite event, and nothing cut."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from distced.middleware.model.events import CompositeEvent
from distced.middleware.model.timestamps import SECOND
from distced.simulations.demo.display import SHOWN, Display, nodes_table, select
from distced.simulations.demo.feed import DemoFeed
from distced.simulations.demo.session import DemoProgress, Notification


def notification(kind: str, second: int, **attributes: Any) -> Notification:
    instant = second * SECOND
    event = CompositeEvent(kind, instant, instant, kind, second, attributes, constituents=(("s", second),))
    return Notification(kind, event, 0.0123)


def screen(notifications: list[Notification], **feed: Any) -> str:
    """The last screen on a terminal of 100 columns."""
    file = io.StringIO()
    console = Console(file=file, width=100, height=60, force_terminal=True, color_system=None, legacy_windows=False)
    kinds = dict.fromkeys(each.question for each in notifications)
    source = DemoFeed("Office", 0, [], {}, (), **feed)
    with Display(console, source, [cast("Any", SimpleNamespace(name=kind)) for kind in kinds]) as display:
        progress = DemoProgress(0)
        for count in range(0, len(notifications) + 1, 7):
            progress.notifications = notifications[:count]
            display.show(progress)
        progress.notifications = notifications
        display.show(progress, last=True)
    return file.getvalue()


def test_last_screen_shows_each_kind() -> None:
    rare = [notification("Missed", 3, person="Jean"), notification("Alarm", 4, room="FE02")]
    frequent = [notification("Cold", second, temp=second) for second in range(5, 300)]
    last = screen([*rare, *frequent]).rpartition("composite events")[2]
    assert "Missed" in last
    assert "Alarm" in last
    assert last.count("Cold") == SHOWN - 2
    assert "temp=299" in last


@pytest.mark.parametrize("kinds", [1, 3, 20])
def test_selection_has_the_latest_of_each_kind_in_their_order(kinds: int) -> None:
    given = [[notification(f"K{kind}", 100 * kind + n, n=n) for n in range(50)] for kind in range(kinds)]
    chosen = [each for each, _ in select(given, SHOWN)]
    assert len(chosen) == max(kinds, SHOWN)
    assert all(kind[-1] in chosen for kind in given)
    assert chosen == sorted(chosen, key=lambda each: each.event.hi)


def test_notifications_that_read_the_same_are_one_line() -> None:
    alike = [notification("Cold", 5, temp=1)] * 3
    assert select([[notification("Cold", 4, temp=1), *alike]], SHOWN) == [
        (notification("Cold", 4, temp=1), 1), (alike[0], 3)
    ]  # fmt: skip


def test_nothing_is_cut_at_a_hundred_columns() -> None:
    people = {f"Person-{number:02}": "FE02" for number in range(20)}
    text = {"room": "Seminar Room", "person": "a person with a long name", "reason": "none at all"}
    shown = screen([notification("MissedMeeting", 5, **text)], places=lambda: people)
    flat = " ".join(shown.split())
    assert "…" not in shown
    assert all(person in shown for person in people)
    assert all(f"{name}={value}" in flat for name, value in text.items())


def test_table_of_nodes_is_not_cut() -> None:
    file = io.StringIO()
    counts = {f"composite events of counter {number}": 1_000_000 + number for number in range(9)}
    Console(file=file, width=100).print(nodes_table({"node-1": counts}))
    assert "…" not in file.getvalue()
    counts = dict.fromkeys(("frames", "events", "composite events", "late", "duplicates"), 1000000)
    Console(file=file, width=100).print(nodes_table({"node-1": counts}))
    assert file.getvalue().count("1,000,000") == 5

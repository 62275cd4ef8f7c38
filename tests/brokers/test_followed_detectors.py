"""Detectors that live drill-down subscribes to: of a type and of what it reads, and those that come later."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from distced.brokers.cli.drill import FollowedDetectors
from distced.detectors.pattern_files import PatternSource
from distced.middleware.client.quality import QualityOfService
from distced.middleware.model.errors import DistcedError, SubscriptionError
from distced.middleware.model.events import CompositeEvent
from distced.middleware.wire.directory_entries import DetectorEntry
from distced.middleware.wire.numbered_stream import Loss


class Directory:
    """Client that knows some detectors, each with its id for a pattern."""

    def __init__(self) -> None:
        self.detectors: dict[str, DetectorEntry] = {}
        self.gone: set[str] = set()

    def put(self, publishes: str, *reads: str, name: str = "") -> None:
        identity = name or publishes
        self.detectors[identity] = DetectorEntry("n0", identity, "guaranteed", reads, publishes)

    def subscribe(self, pattern: str, *, quality: QualityOfService) -> Any:
        assert quality.constituents
        if pattern in self.gone:
            raise SubscriptionError("gone", given=pattern)
        return SimpleNamespace(detector=pattern, pattern=pattern, query="")


def followed(client: Any, name: str) -> FollowedDetectors:
    return FollowedDetectors(client, PatternSource(name), QualityOfService())


def made(detectors: FollowedDetectors) -> list[str]:
    return [each.detector for each in detectors.follow()]


def test_new_detectors_of_a_type_and_of_what_is_read_are_followed(capsys: pytest.CaptureFixture[str]) -> None:
    client = Directory()
    client.put("Top", "Middle", "Door")
    client.put("Other", "Door")
    found = followed(client, "Top")
    assert made(found) == ["Top"] and made(found) == []

    client.put("Low", "Door")
    assert made(found) == []
    client.put("Middle", "Low")
    assert made(found) == ["Middle", "Low"]
    client.put("Top", "Other", name="second")
    assert made(found) == ["second", "Other"] and made(found) == []
    assert [each.detector for each in found.roots] == ["Top", "second"]
    shown = capsys.readouterr().err
    assert "and to what they read: Low, Middle\n" in shown and "(detector second)" in shown


def test_detector_that_is_gone_is_named_and_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    client = Directory()
    client.put("Top", "Middle")
    found = followed(client, "Top")
    assert made(found) == ["Top"]
    client.put("Middle", "Door")
    client.gone.add("Middle")
    assert made(found) == [] and made(found) == []
    assert capsys.readouterr().err.count("error: gone: Middle\n") == 1


def test_type_without_a_detector_is_refused() -> None:
    client = Directory()
    client.put("Other")
    with pytest.raises(DistcedError, match=r"no detector publishes: Top \(allowed: Other\)"):
        followed(client, "Top")


def test_refused_type_is_an_error() -> None:
    client = Directory()
    client.put("Top")
    client.gone.add("Top")
    with pytest.raises(SubscriptionError, match="gone: Top"):
        made(followed(client, "Top"))


def test_detector_that_comes_back_is_followed() -> None:
    client = Directory()
    client.put("Top", "Middle")
    found = followed(client, "Top")
    assert made(found) == ["Top"]
    client.put("Middle", "Door")
    client.gone.add("Middle")
    assert made(found) == []
    del client.detectors["Middle"]
    assert made(found) == []
    client.put("Middle", "Door")
    client.gone.clear()
    assert made(found) == ["Middle"]


def test_loss_of_two_subscriptions_is_shown_once() -> None:
    client = Directory()
    client.put("Top", "Middle")
    client.put("Middle", "Door")
    found = followed(client, "Top")
    assert made(found) == ["Top", "Middle"]
    top, middle = found.subscriptions
    top.losses, middle.losses = [Loss(0, 5, "late", (("x", 1),))], [Loss(0, 5, "late"), Loss(9, 12, "later")]  # type: ignore[misc]
    event = CompositeEvent("Top", 1, 4, "c0", 1, {}, constituents=())
    assert [(each.since, each.until) for each in found.losses_of(event)] == [(0, 5)]

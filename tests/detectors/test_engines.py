"""Which engine is taken, what is said where one cannot be had, and that a replay finds the same by either."""

from __future__ import annotations

from random import Random

import pytest

from distced.detectors.batch_run.runner import Replay, run
from distced.detectors.compiler import compile_pattern
from distced.detectors.runtime import batch_engine, engines
from distced.detectors.runtime.batch_engine import BatchEngine
from distced.detectors.runtime.engines import PAYS_FROM, chosen, has_columnar, make_engine, notice
from distced.detectors.stepwise.engine import StepwiseEngine
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.events import Event

PATTERN = "([A as x], [B where k == x.k] | [T]) @ T = 5ns ; [C <= C] within 100ns by k"


def test_many_events_are_worth_the_columnar_engine() -> None:
    assert chosen("auto", PAYS_FROM - 1) == "stepwise"
    assert chosen("auto", PAYS_FROM) == ("columnar" if has_columnar() else "stepwise")
    assert chosen("stepwise", 10**9) == "stepwise"
    assert isinstance(make_engine([compile_pattern("[A]")]), StepwiseEngine)


def test_stepwise_engine_serves_without_numba_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engines, "find_spec", lambda _: None)
    assert chosen("auto", PAYS_FROM) == "stepwise"
    assert "numba is not installed" in str(notice("auto", PAYS_FROM))
    assert notice("auto", PAYS_FROM - 1) is None
    with pytest.raises(DistcedError, match="needs numba") as raised:
        make_engine([compile_pattern("[A]")], engine="columnar")
    assert "distced[fast]" in str(raised.value)


def test_unknown_engine_is_refused() -> None:
    with pytest.raises(DistcedError, match="no engine of this name"):
        chosen("vectorised", 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("finish", [True, False])
def test_engines_agree_on_a_replay(finish: bool) -> None:
    pytest.importorskip("numba", reason="the columnar engine needs the extra distced[fast]")
    random = Random(5)
    events = [Event(random.choice("ABC"), at, at, "s", at, {"k": random.randrange(4)}) for at in range(0, 24_000, 2)]
    stepwise = run(PATTERN, events, engine="stepwise", finish=finish)
    assert run(PATTERN, events, engine="columnar", finish=finish) == stepwise
    assert len(stepwise) > 1000
    replays = [Replay([compile_pattern(PATTERN)], events[:1], engine=engine) for engine in ("stepwise", "columnar")]
    for replay in replays:
        list(replay)
    # A time event was still to come.
    assert replays[0].counts.running is replays[1].counts.running


def test_replay_by_an_unavailable_engine_is_refused_before_reading() -> None:
    with pytest.raises(DistcedError, match="no engine"):
        Replay([compile_pattern("[A]")], iter(()), engine="best")  # type: ignore[arg-type]


@pytest.mark.parametrize("compiled", (True, False))
def test_costly_pattern_is_worth_the_columnar_engine(monkeypatch: pytest.MonkeyPatch, compiled: bool) -> None:
    """5,000 events with some instances touched by each and 100,000 events to come, as closes have."""
    monkeypatch.setattr(batch_engine, "is_compiled", lambda: compiled)
    assert BatchEngine._saves(5_000, 600 * 5_000, 0, 100_000)
    assert BatchEngine._saves(5_000, 40 * 5_000, 0, 100_000) == compiled
    assert not BatchEngine._saves(5_000, 5_000, 0, 100_000)
    assert not BatchEngine._saves(5_000, 400 * 5_000, 0, 1_000)


def test_run_goes_on_with_the_columnar_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba", reason="the columnar engine needs the extra distced[fast]")
    monkeypatch.setattr(BatchEngine, "_saves", staticmethod(lambda *_: True))
    random = Random(6)
    events = [Event(random.choice("ABC"), at, at, "s", at, {"k": random.randrange(4)}) for at in range(0, 24_000, 2)]
    switched: list[str] = []
    automatic = Replay([compile_pattern(PATTERN)], events)
    automatic.on_switch = lambda: switched.append("columnar")
    found = list(automatic)
    assert switched == ["columnar"]
    assert found == run(PATTERN, events, engine="stepwise")
    assert len(found) > 1000

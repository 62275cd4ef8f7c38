"""The columnar engine is got ready beside what a process does; where it cannot be had that is said."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from distced.detectors import warm_start
from distced.detectors.runtime.engine_switch import engines
from distced.detectors.runtime.engines import has_columnar
from distced.detectors.warm_start import InBackground
from distced.middleware.model.errors import DistcedError
from tests.support.engine_switches import AtOnce

ROOT = Path(__file__).parents[2]


def _until(there: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_missing_numba_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_start, "has_columnar", lambda: False)
    prepared = InBackground()
    assert prepared.problem == ""
    assert not prepared.ready()
    assert "numba is not installed" in prepared.problem
    assert not prepared.ready()


def test_preparation_begins_with_the_first_query(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(warm_start, "has_columnar", lambda: bool(asked.append(1)))
    prepared = InBackground()
    assert asked == []
    for _ in range(3):
        prepared.ready()
    assert asked == [1]


def test_compile_error_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    failing = tmp_path / "python"
    failing.write_text("#!/bin/sh\necho something first >&2\necho there is no room >&2\nexit 3\n", encoding="utf-8")
    failing.chmod(0o755)
    monkeypatch.setattr(warm_start, "has_columnar", lambda: True)
    monkeypatch.setattr(sys, "executable", str(failing))
    prepared = InBackground()
    assert not prepared.ready()
    _until(lambda: prepared.problem)
    assert prepared.problem == "it could not be compiled: there is no room"
    assert not prepared.ready()


def test_engines_are_chosen_by_name() -> None:
    assert engines("stepwise", AtOnce()) is None
    assert engines("auto", AtOnce()) is not None
    with pytest.raises(DistcedError, match="no engine of this name"):
        engines("vectorised", AtOnce())  # type: ignore[arg-type]


@pytest.mark.skipif(has_columnar(), reason="numba is installed")
def test_unavailable_engine_is_refused() -> None:
    with pytest.raises(DistcedError, match="needs numba"):
        engines("columnar", AtOnce())


PREPARED = """
import sys, threading, time
from distced.detectors.warm_start import in_background
assert in_background() is in_background()
prepared, calls = in_background(), []
assert "numba" not in sys.modules
while not prepared.ready():
    begun = time.perf_counter()
    prepared.ready()
    calls.append(time.perf_counter() - begun)
    assert not prepared.problem, prepared.problem
    time.sleep(0.001)
assert "numba" in sys.modules
calls.sort()
print(len(calls) > 10, calls[len(calls) // 2] < 0.01)

# Nothing is left to be compiled, or to be read.
import gc
from numba.core.dispatcher import Dispatcher

def there():
    made = [each for each in gc.get_objects() if isinstance(each, Dispatcher) and "columnar" in each.__module__]
    return {(each.__module__, each.__name__, str(types)) for each in made for types in each.overloads}

before = there()
from tests.support.columnar_engine import differences
print(sum(map(differences, range(200))) > 50)
print(sorted(there() - before))
"""


@pytest.mark.slow
def test_warm_compiles_every_function() -> None:
    pytest.importorskip("numba", reason="the columnar engine needs the extra distced[fast]")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PREPARED]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["True True", "True", "[]"], done.stderr
    assert "being compiled" not in done.stderr

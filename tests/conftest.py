"""Marks, order and groups of the tests, and the share of the properties that is run.

Plain `pytest` runs a small share of the properties, the same examples every time. `pytest -m properties` (`make
properties`) runs at length, and nothing else, the tests under `tests/properties` and those elsewhere that make random
examples, with new examples each time, or have the fixture `at_length`. A test marked `properties` itself has no small
share and is left out of plain runs, and so are those marked `containers` (`make containers`; those of them that are not
`slow` are the last of `make test`).

Tests run in parallel (`pytest -n 2 --dist loadgroup`): the tests of a file stay together, for they share fixtures and
compiled functions; slow ones are apart, and first; Spark and Ray run once at a time, for each takes all cores. Then a
live test that fails is repeated once, and named in the summary: it waits for processes and connections up to a time,
which a busy machine may exceed. One that fails twice, or alone, is a fault.

A test that does not end is ended by pytest-timeout, and, where that cannot interrupt it or its end does not end either,
with its process by a watchdog, which prints the stacks of all threads; the others go on in another process, where one
with Ray is repeated.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings

from distced.middleware.bus.logger import UNWRITTEN
from tests.support.bounds_checked import BoundsChecked
from tests.support.ended_processes import EndedProcesses

PROPERTIES = Path(__file__).parent / "properties"

_QUIET = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.filter_too_much]}
settings.register_profile("small", max_examples=40, derandomize=True, **_QUIET)
settings.register_profile("quick", parent=settings.get_profile("small"), max_examples=20)
settings.register_profile("long", max_examples=20_000, print_blob=True, **_QUIET)


STACKS = pytest.StashKey[int]()
"""File descriptor that stacks of threads are written to."""


def is_chosen(config: pytest.Config, mark: str) -> bool:
    """Whether `-m` asks for tests of a mark."""
    chosen = str(config.getoption("-m"))
    return mark in chosen and f"not {mark}" not in chosen


def runs_long(config: pytest.Config) -> bool:
    """Whether the properties are run at length."""
    return is_chosen(config, "properties")


def pytest_configure(config: pytest.Config) -> None:
    # What a test leaves behind may wait: collecting garbage as often as by default takes a tenth of the time.
    gc.set_threshold(50_000, 50, 100)
    # Brokers that are told nothing else keep their checkpoints there.
    folder = tempfile.TemporaryDirectory(prefix="distced-test-state-", ignore_cleanup_errors=True)
    config.add_cleanup(folder.cleanup)
    os.environ["XDG_STATE_HOME"] = folder.name
    # Spark runs for seconds here, and its JVM would spend most of them on optimising.
    os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    # Whichever test imports Ray first: it keeps to loopback.
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    if config.pluginmanager.hasplugin("xdist") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(EndedProcesses())
    # Of its own, as the output of tests is captured.
    config.stash[STACKS] = os.dup(2)
    if not config.getoption("--hypothesis-profile"):
        settings.load_profile("long" if runs_long(config) else "small")


GRACE = 60.0
"""Time from the timeout of a test to the end of its process, s."""


def arm_watchdog(item: pytest.Item) -> None:
    """Start the time of a phase of a test at its begin: a phase that does not end ends the process."""
    mark = item.get_closest_marker("timeout")
    given = mark.args[0] if mark and mark.args else item.config.getoption("timeout")
    timeout = float(item.config.getini("timeout") if given is None else given)
    # A debugger takes the time that it takes.
    if timeout and not item.config.getoption("usepdb"):
        faulthandler.dump_traceback_later(timeout + GRACE, exit=True, file=item.config.stash[STACKS])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    arm_watchdog(item)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    arm_watchdog(item)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    arm_watchdog(item)


@pytest.hookimpl(trylast=True)
def pytest_runtest_logfinish() -> None:
    faulthandler.cancel_dump_traceback_later()


ORDER = ("spark", "ray", "slow", "")
"""Marks by the length of the groups they make, the longest first, so that no process is left with a long one."""

LIVE = ("mqtt", "ray")
"""Marks of tests that are repeated once, as are those of the folder `live`: they wait for processes up to a time."""

RAY_TIMEOUT = 150
"""Timeout of a test with Ray, s. Once in some runs of all tests `ray.init` does not come back from its client of the
GCS, in a process that has left other clusters before; nothing interrupts it there. See `EndedProcesses`."""

NEEDS = {
    "session": "spark",
    "mosquitto": "mqtt",
    "start_mosquitto": "mqtt",
    "amqtt": "mqtt",
    "any_bus": "mqtt",
}
"""Marks that a fixture brings: what the test needs."""


def mark_needs(item: pytest.Item) -> None:
    """Mark a test with what its fixtures need."""
    for fixture in getattr(item, "fixturenames", ()):
        if fixture in NEEDS:
            item.add_marker(getattr(pytest.mark, NEEDS[fixture]))


def group_of(item: pytest.Item) -> str:
    """Tests that run one after another in one process."""
    if "bounds_checked" in getattr(item, "fixturenames", ()):
        return "bounds checked"
    for shared in ("spark", "ray"):
        if item.get_closest_marker(shared):
            return shared
    own_fixtures = any(
        definitions[-1].scope == "module"
        for definitions in item._fixtureinfo.name2fixturedefs.values()  # type: ignore[attr-defined]
    )
    return item.nodeid if item.get_closest_marker("slow") and not own_fixtures else str(item.path)


def turn_of(item: pytest.Item) -> int:
    """Place of a test's group among the others."""
    marks = {mark.name for mark in item.iter_markers()}
    return next(turn for turn, mark in enumerate(ORDER) if mark in marks or not mark)


def has_long_run(item: pytest.Item) -> bool:
    """Whether a test elsewhere tries more in a long run."""
    tested = getattr(item, "obj", None)
    return "at_length" in getattr(item, "fixturenames", ()) or getattr(tested, "is_hypothesis_test", False)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    beside_others = os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1") != "1"
    for item in items:
        mark_needs(item)
        item.add_marker(pytest.mark.xdist_group(group_of(item)))
        if beside_others and (item.path.parent.name == "live" or any(map(item.get_closest_marker, LIVE))):
            item.add_marker(pytest.mark.flaky(reruns=1))
        if item.get_closest_marker("ray") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(RAY_TIMEOUT))
    if config.pluginmanager.hasplugin("xdist"):
        items.sort(key=turn_of)
    if runs_long(config):
        for item in items:
            if PROPERTIES in item.path.parents or has_long_run(item):
                item.add_marker(pytest.mark.properties)
        return
    marks = ["properties", *([] if is_chosen(config, "containers") else ["containers"])]
    left_out = [item for item in items if any(map(item.get_closest_marker, marks))]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish(session: pytest.Session) -> None:
    if session.config.getoption("loadgroup", False) and any("@" not in item.nodeid for item in session.items):
        # Ray and Spark would run several times at once.
        raise pytest.UsageError("pytest-xdist does not group tests under this pytest: install the extra dev again")
    # Modules and tests stay to the end, and need not be looked through by each garbage collection.
    gc.collect()
    gc.freeze()


@pytest.fixture
def at_length(request: pytest.FixtureRequest) -> bool:
    """Whether this is a long run: how far an exhaustive test goes."""
    return runs_long(request.config)


@pytest.fixture(scope="session")
def bounds_checked() -> Iterator[BoundsChecked]:
    """A process with the columnar loop compiled with checks of bounds, for all tests."""
    checked = BoundsChecked()
    yield checked
    checked.end()


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """Verbs that run in this process set what is logged; the next test begins without that."""
    yield
    structlog.reset_defaults()
    UNWRITTEN.take()

"""How much of the properties is run.

Plain `pytest` runs a small share of them, the same examples every time. `pytest -m properties` (`make properties`) runs
the tests under `tests/properties` at length, with new examples each time, and nothing else. A test marked `properties`
itself has no small share and is left out of plain runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings

PROPERTIES = Path(__file__).parent / "properties"

_QUIET = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.filter_too_much]}
settings.register_profile("small", max_examples=200, derandomize=True, **_QUIET)
settings.register_profile("long", max_examples=20_000, print_blob=True, **_QUIET)


def runs_long(config: pytest.Config) -> bool:
    """Whether the properties are run at length."""
    chosen = str(config.getoption("-m"))
    return "properties" in chosen and "not properties" not in chosen


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("long" if runs_long(config) else "small")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if runs_long(config):
        for item in items:
            if PROPERTIES in item.path.parents:
                item.add_marker(pytest.mark.properties)
        return
    left_out = [item for item in items if item.get_closest_marker("properties")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture
def at_length(request: pytest.FixtureRequest) -> bool:
    """Whether this is a long run: how far an exhaustive test goes."""
    return runs_long(request.config)


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """Verbs that run in this process set what is logged; the next test begins without that."""
    yield
    structlog.reset_defaults()

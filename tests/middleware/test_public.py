"""The public face of the package: every name is there, and asking for none loads nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

import distced


def test_every_public_name_is_there() -> None:
    for name in distced.__all__:
        assert getattr(distced, name).__name__ == name
    assert set(distced.__all__) <= set(dir(distced))


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Clint'"):
        _ = distced.Clint


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("distced.middleware.model.events", ("paho", "rich", "typer", "ray", "pyarrow")),
        ("distced", ("paho", "rich", "typer", "ray", "pyarrow")),
        ("distced.detectors.stepwise.engine", ("paho", "rich", "typer", "ray", "pyarrow", "numpy")),
        ("distced.brokers.node.node", ("paho", "ray", "pyarrow", "amqtt", "numpy")),
        *(
            (f"distced.simulations.{name}.cli", ("ray", "pyarrow", "amqtt", "numpy"))
            for name in ("demo", "ingest", "network", "placement", "replay")
        ),
        ("distced.simulations.benchmarks.cli", ("ray", "pyarrow", "amqtt", "numpy")),
    ],
)
def test_heavy_packages_are_imported_where_they_are_needed(module: str, heavy: tuple[str, ...]) -> None:
    code = f"import sys, {module}; print([name for name in {heavy!r} if name in sys.modules])"
    report = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert report.stdout.strip() == "[]"

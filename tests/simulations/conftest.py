"""Spark, for the tests that need it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session of a local master."""
    pytest.importorskip("pyspark", reason="Spark needs the extra distced[spark]")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    from distced.simulations.replay.runners import session_of

    made = session_of("local[2]", tmp_path_factory.mktemp("spark") / "spark.log")
    yield made
    made.stop()

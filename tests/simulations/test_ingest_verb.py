"""What `distced ingest` says of wrong options, before anything is done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="a history needs the extra distced[tables]")

from distced.middleware.history import HistoryWriter
from distced.middleware.model.errors import DistcedError, HistoryError
from distced.simulations.ingest.cli import ingest
from distced.simulations.ingest.recordings import alone

EVENTS = b"type,time,source,seq\nA,2,s,1\n"


@pytest.mark.parametrize(
    ("options", "said"),
    (
        ({"history": "r.csv/h"}, "no folder for a history can be made here"),
        ({"name": "a/b"}, "not a name for a recorder: a/b"),
        ({"master": "sprak"}, "allowed: local"),
        ({"rejected": "r.csv"}, "would overwrite a file of the same command"),
        ({"rejected": "none/bad"}, "no such folder"),
    ),
)
def test_wrong_options_are_refused(tmp_path: Path, options: dict[str, str], said: str) -> None:
    (tmp_path / "r.csv").write_bytes(EVENTS)
    given: dict[str, Any] = {"history": "h", "name": "test", "master": "inline", "rejected": None, **options}
    for name in ("history", "rejected"):
        given[name] = None if given[name] is None else tmp_path / given[name]
    with pytest.raises(DistcedError, match=said):
        ingest([tmp_path / "r.csv"], **given)
    assert (tmp_path / "r.csv").read_bytes() == EVENTS
    assert [each.name for each in tmp_path.iterdir()] == ["r.csv"]


def test_two_ingestions_at_a_time_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(EVENTS)
    HistoryWriter(tmp_path / "h", "test")
    with alone(tmp_path / "h"), pytest.raises(HistoryError, match="another ingestion or compaction"):
        ingest([tmp_path / "a.csv"], tmp_path / "h", master="inline")
    assert ingest([tmp_path / "a.csv"], tmp_path / "h", master="inline") == 0

"""A recording read as columns gives the history, the counts and the rejected rows that it gives row by row."""

from __future__ import annotations

import gzip
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="a history needs the extra distced[tables]")

from distced.middleware.history import History, events_of_history
from distced.middleware.model.timestamps import HOUR, SECOND, format_instant
from distced.simulations.ingest.ingestion import Ingest
from distced.simulations.replay.runners import Inline

MAPPING = """
[[rule]]
name = "warm"
when = [{ path = "x", above = 2 }]
type = "Warm"
source = "{room}"
time = { path = "time" }
attributes = { x = "number", ok = { kind = "boolean", wrong = "null" } }
final = true

[[rule]]
name = "reading"
type = { lookup = { A = "A", B = "B", C = "A" }, path = "type" }
source = "{room}"
time = { path = "time", clock = "monotone" }
attributes = { x = "number", room = "string" }
"""


def csv_text(random: Random) -> bytes:
    """A recording in the native form, that the mapping reads, too: several days, ids that come again, damages."""
    lines = ["type,time,source,seq,x,room,ok"]
    at = 10**18
    for number in range(random.randrange(90)):
        at += random.choice([0, SECOND, 7 * HOUR, -HOUR])
        seq = number - random.randrange(2) * random.randrange(9)
        x = random.choice(["1", "2.0", "3.5", "", "7"]) if random.random() > 0.05 else "what"
        own = [random.choice("AABC"), format_instant(at), random.choice("st"), str(seq)]
        cells = [*own, x, random.choice(["k", "l", ""]), random.choice(["true", "false", ""])]
        lines.append(",".join(cells if random.random() > 0.05 else cells[:-1]))
    return "\n".join(lines).encode()


def ingested(root: Path, path: Path, mapping: Path | None, monkeypatch: pytest.MonkeyPatch, small: int) -> list[Any]:
    """All that an ingestion gives."""
    monkeypatch.setattr("distced.middleware.event_files.reader.SMALL", small)
    task = Ingest([path], root, mapping=mapping, recorder="test", chunk=20)
    task.perform(Inline())
    (outcome,) = task.outcomes
    rows = [] if outcome.rejected is None else outcome.rejected.read_bytes().splitlines()
    history = History(root)
    assert not history.problems
    tables = {(each.day, each.type, frozenset(each.event_type.attributes)) for each in history.files}
    return [outcome.ingested, sorted(rows), tables, sorted(map(repr, events_of_history(history)))]


@pytest.mark.parametrize("mapped", (False, True))
@pytest.mark.parametrize("cut_short", (False, True))
def test_recording_as_columns_is_ingested_as_by_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mapped: bool, cut_short: bool
) -> None:
    mapping = tmp_path / "mapping.toml"
    mapping.write_text(MAPPING, encoding="utf-8")
    kept = rejected = 0
    for seed in range(8):
        random = Random(seed)
        path = tmp_path / f"{seed}.csv.gz"
        packed = gzip.compress(csv_text(random))
        path.write_bytes(packed[:-30] if cut_short else packed)
        monkeypatch.setattr("distced.middleware.event_files.csv_blocks.BLOCK", random.choice([400, 10**6]))
        monkeypatch.setattr("distced.middleware.event_files.kept_tables.IN_MEMORY", random.choice([0, 10**9]))
        monkeypatch.setattr("distced.simulations.ingest.recording_task._ROWS", random.choice([7, 10**6]))
        results = [
            ingested(tmp_path / f"{seed}-{small}", path, mapping if mapped else None, monkeypatch, small)
            for small in (0, 10**9)
        ]
        assert results[0] == results[1]
        kept += results[0][0].added
        rejected += results[0][0].refused
        assert bool(results[0][0].trouble) == cut_short
    assert kept > 100
    assert rejected > 10

"""What `distced record` says before, while and after it records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from distced.brokers.cli.record import Rate, check_types, status_line, summarise
from distced.brokers.core.directory import Directory
from distced.brokers.live.recorder_journal import Journal
from distced.middleware.cli.output import few
from distced.middleware.model.errors import HistoryError, TypeRegistryError
from distced.middleware.model.event_types import derive, event_type
from distced.middleware.model.timestamps import SECOND
from distced.middleware.wire.directory_entries import DetectorEntry

STATUS: dict[str, Any] = {
    "events": 7, "written": 1200, "late": 0, "duplicates": 0, "dead_letters": 0, "waiting": 0, "sources": 2,
    "watermark": 10 * SECOND, "holding": ["s"], "gaps": 0, "losses": 0, "files": 3, "connected": True, "problem": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "recording: 2 events/s, 1,200 written, 0 waiting, watermark 2 s behind"),
        ({"watermark": None}, "recording: 2 events/s, 1,200 written, 0 waiting, no watermark yet"),
        ({"watermark": 13 * SECOND}, "recording: 2 events/s, 1,200 written, 0 waiting, watermark ahead"),
        (
            {"watermark": -2 * 86_400 * SECOND},
            "recording: 2 events/s, 1,200 written, 0 waiting, watermark at 1969-12-30T00:00:00Z",
        ),
        ({"waiting": 5}, "recording: 2 events/s, 1,200 written, 5 waiting, watermark 2 s behind, for s"),
        (
            {"late": 1, "duplicates": 2, "dead_letters": 3, "gaps": 4},
            "recording: 2 events/s, 1,200 written, 0 waiting, watermark 2 s behind, 1 late, 2 duplicates, "
            "3 dead letters, 4 gaps",
        ),
        (
            {"connected": False, "problem": "the disk is full", "waiting": 3},
            "recording: 2 events/s, 1,200 written, 3 waiting, watermark 2 s behind, not connected, the disk is full",
        ),
    ],
)
def test_status_is_shown_on_one_line(changes: dict[str, Any], text: str) -> None:
    assert status_line(STATUS | changes, 2.0, 12 * SECOND).plain == text


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "1,200 events written in 3 files, complete until 1970-01-01T00:00:10Z"),
        ({"waiting": 1}, "note: 1 event not stable yet, for s may still publish before that: kept, and written when"),
        ({"waiting": 5, "problem": "the disk is full"}, "note: 5 events not written: kept, and written when"),
    ],
)
def test_summary_is_shown_at_the_end(changes: dict[str, Any], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    summarise(STATUS | changes, as_json=False)
    assert text in capsys.readouterr().err


def test_rate_is_that_of_the_last_seconds() -> None:
    rate = Rate()
    assert rate.take(0.0, 100) == 0.0
    assert rate.take(1.0, 110) == 10.0
    for second in range(2, 20):
        last = rate.take(float(second), 110)
    assert last == 0.0
    assert few(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"


def directory() -> Directory:
    made = Directory()
    login = event_type("Login", {"who": "string"})
    made.types |= {"Login": login, "Ada": derive(login, "Ada", where="who == 'ada'")}
    made.detectors["c1"] = DetectorEntry("n", "[Login]", "guaranteed", ("Login",), "Sure")
    made.detectors["c2"] = DetectorEntry("n", "[Login]", "best-effort", ("Login",), "Rash")
    return made


def test_types_that_can_be_recorded() -> None:
    assert check_types(directory(), ["Login", "Sure"]) == []
    assert check_types(directory(), ["Logn"]) == [
        "Logn is neither registered nor published so far; did you mean Login?"
    ]
    assert check_types(directory(), ["Motion"])[0].endswith("so far; there are Login, Rash, Sure")
    assert check_types(Directory(), ["Motion"]) == ["Motion is neither registered nor published so far"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Ada", r"'Ada' is derived.*allowed: Login.*record the type it is derived from"),
        ("Rash", "by best effort"),
        ("#", "not a name for a type"),
    ],
)
def test_types_that_cannot(name: str, message: str) -> None:
    with pytest.raises(TypeRegistryError, match=message):
        check_types(directory(), [name])


def test_journal_returns_synced_operations(tmp_path: Path) -> None:
    with Journal(tmp_path, "r") as journal:
        assert journal.state is None
        journal.renew(b"one")
        journal.append(b"a")
        journal.append(b"b" * 1000)
        journal.sync()
        journal.append(b"lost")
    with Journal(tmp_path, "r") as journal:
        assert (journal.state, journal.operations, journal.cut_off) == (b"one", [b"a", b"b" * 1000], 0)
        journal.append(b"c")
        journal.sync()
        with pytest.raises(HistoryError, match="a recorder of this name is running"):
            Journal(tmp_path, "r")
        Journal(tmp_path, "other").close()
    with Journal(tmp_path, "r") as journal:
        assert journal.operations[-1] == b"c"
        assert not journal.grown
        journal.append(b"d" * 1_000_100)
        assert journal.grown
        journal.renew(b"two")
        assert not journal.grown
        journal.append(b"e")
        journal.sync()
    with Journal(tmp_path, "r") as journal:
        assert (journal.state, journal.operations) == (b"two", [b"e"])


@pytest.mark.parametrize("cut", range(1, 26, 3))
def test_journal_cuts_off_an_incomplete_piece(tmp_path: Path, cut: int) -> None:
    with Journal(tmp_path, "r") as journal:
        journal.renew(b"one")
        journal.append(b"whole")
        journal.sync()
        journal.append(b"half of this was written")
        journal.sync()
    content = journal.path.read_bytes()
    journal.path.write_bytes(content[:-cut])
    with Journal(tmp_path, "r") as journal:
        assert journal.operations == [b"whole"]
        assert journal.cut_off == 32 - cut
        journal.append(b"again")
        journal.sync()
    with Journal(tmp_path, "r") as journal:
        assert (journal.operations, journal.cut_off) == ([b"whole", b"again"], 0)


def test_journal_ignores_zeros_at_its_end(tmp_path: Path) -> None:
    """Some file systems leave them there after a crash."""
    with Journal(tmp_path, "r") as journal:
        journal.renew(b"one")
        journal.append(b"whole")
        journal.sync()
    with journal.path.open("ab") as file:
        file.write(bytes(4096))
    with Journal(tmp_path, "r") as journal:
        assert (journal.operations, journal.cut_off) == ([b"whole"], 4096)


@pytest.mark.parametrize("at", [0, 4, 9])
def test_journal_reports_damage_before_a_whole_piece(tmp_path: Path, at: int) -> None:
    """What is behind it was acknowledged, and does not come again."""
    with Journal(tmp_path, "r") as journal:
        journal.renew(b"one")
        before = journal.path.stat().st_size
        for operation in (b"to be damaged", b"whole"):
            journal.append(operation)
            journal.sync()
    content = bytearray(journal.path.read_bytes())
    content[before + at] ^= 64
    journal.path.write_bytes(content)
    with pytest.raises(HistoryError, match=r"a journal that cannot be read.*put it elsewhere"):
        Journal(tmp_path, "r")
    assert journal.path.read_bytes() == content


def test_journal_writes_queued_operations_once_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Journal(tmp_path, "r") as journal:
        journal.renew(b"one")
        journal.append(b"a")

        def full(_: int) -> None:
            raise OSError("no space left")

        with monkeypatch.context() as patched:
            patched.setattr("os.fsync", full)
            for _ in range(2):
                with pytest.raises(HistoryError, match="no space left"):
                    journal.sync()
        journal.sync()
        # That a folder could not be synced does not make what follows go into the file that was there before.
        with monkeypatch.context() as patched:
            patched.setattr("distced.brokers.live.recorder_journal.sync_path", full)
            with pytest.raises(HistoryError, match="no space left"):
                journal.renew(b"two")
        journal.append(b"b")
        journal.sync()
    with Journal(tmp_path, "r") as journal:
        assert (journal.state, journal.operations) == (b"two", [b"b"])


def test_journal_refuses_a_malformed_state(tmp_path: Path) -> None:
    with Journal(tmp_path, "r") as journal:
        journal.renew(b"one")
    content = bytearray(journal.path.read_bytes())
    content[-1] ^= 1
    journal.path.write_bytes(content)
    with pytest.raises(HistoryError, match=r"a journal that cannot be read.*put it elsewhere"):
        Journal(tmp_path, "r")

"""Store of checkpoints: the last ones of each detector, over restarts, damaged files and a full disk."""

from __future__ import annotations

import errno
import os
import uuid
from pathlib import Path
from random import Random

import pytest

from distced.brokers.core.effects import Pieces
from distced.brokers.live.checkpoint_store import FILES, CheckpointStore, StoreError, open_store
from distced.brokers.live.checkpoint_thread import CheckpointThread


@pytest.fixture(params=["disk", "remote"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "disk":
        return str(tmp_path)
    pytest.importorskip("fsspec", reason="needs the extra distced[remote]")
    return f"memory://{uuid.uuid4().hex}"


def opened(where: str, node: str = "n1", now: int = 1_000_000) -> CheckpointStore:
    return CheckpointStore(where, "ced", node, now)


def files(store: CheckpointStore) -> list[str]:
    return [f"{store._own}/{each}" for each in store._folder.names(store._own)]


def test_last_checkpoints_come_back_from_all_nodes(where: str) -> None:
    one, other = opened(where), opened(where, "n2")
    one.save({"a": (b"a1",), "b": (b"b1",)})
    one.save({"a": (b"a2",)})
    one.save({"a": (b"a3",), "b": None})
    other.save({"a": (b"A",), "c": (b"C",)})
    assert opened(where, "n3").load(["a", "b", "c", "d"]) == {
        "a": [(b"a2",), (b"a3",), (b"A",)],
        "b": [],
        "c": [(b"C",)],
        "d": [],
    }
    assert opened(where).stored() == ["a"]
    # One of the same name below another root is none of these.
    assert CheckpointStore(where, "ced2", "n1", 0).load(["a"]) == {"a": []}


@pytest.mark.parametrize("seed", range(20))
def test_store_agrees_with_a_model(tmp_path: Path, seed: int) -> None:
    """Random writes, deletions and restarts; what is read is what was written last."""
    random, model = Random(seed), dict[str, Pieces]()
    store, reader = opened(str(tmp_path)), opened(str(tmp_path), "reader")
    names = [f"d{number}" for number in range(12)]
    for number in range(200):
        if random.random() < 0.05:
            store = opened(str(tmp_path), now=1_000_000 + number * 1_000_000)
        chosen = random.sample(names, random.randrange(1, 5))
        shared = f"{number}".encode()
        entries: dict[str, Pieces | None] = {
            each: None if random.random() < 0.2 else (f"{each} {number}".encode(), shared) for each in chosen
        }
        store.save(entries)
        for name, content in entries.items():
            if content is None:
                model.pop(name, None)
            else:
                model[name] = content
        if random.random() < 0.2:
            found = reader.load(names)
            assert {name: each[-1] for name, each in found.items() if each} == model
            assert store.stored() == sorted(model)
        assert len(files(store)) <= FILES + 1


def test_many_writes_take_few_files(where: str) -> None:
    store = opened(where)
    store.save({"old": (b"kept",)})
    for number in range(5 * FILES):
        store.save({f"d{number % 40}": (b"x" * 100,)})
    assert len(files(store)) <= FILES + 1
    assert opened(where, "n2").load(["old"]) == {"old": [(b"kept",)]}


def test_files_written_in_part_are_none_of_the_last_ones(tmp_path: Path) -> None:
    store = opened(str(tmp_path))
    store.save({"a": (b"a0",)})
    for _ in range(3):
        # Its node is lost as it writes, and starts again.
        store.save({"a": (b"x" * 100,)})
        last = tmp_path / files(store)[-1]
        last.write_bytes(last.read_bytes()[:-50])
        store = opened(str(tmp_path))
        assert store.load(["a"]) == {"a": [(b"a0",)]} and "it is cut off" in store.damaged.values()
    store.save({"a": (b"a1",)})
    assert opened(str(tmp_path)).load(["a"]) == {"a": [(b"a0",), (b"a1",)]}


def test_last_file_is_the_last_one_after_a_clock_was_set_back(where: str) -> None:
    opened(where, now=9_000_000).save({"a": (b"before",)})
    opened(where, now=1_000_000).save({"a": (b"behind",)})
    assert opened(where).load(["a"]) == {"a": [(b"before",), (b"behind",)]}


def test_damaged_files_are_left_out_and_named(tmp_path: Path) -> None:
    store = opened(str(tmp_path))
    for number in range(4):
        store.save({"a": (f"a{number}".encode(),)})
    store.save({"b": (b"b",)})
    paths = [tmp_path / each for each in files(store)]
    paths[-1].write_bytes(b"\0" * 40)
    paths[-2].write_bytes(paths[-2].read_bytes()[:10])
    again = opened(str(tmp_path))
    # The checkpoint before the damaged one is still there.
    assert again.load(["a", "b"]) == {"a": [(b"a2",)], "b": []}
    assert sorted(again.damaged.values()) == ["it is cut off", "it is of another version, or no file of checkpoints"]
    again.save({"b": (b"b2",)})
    assert opened(str(tmp_path)).load(["b"]) == {"b": [(b"b2",)]}


def test_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(str(tmp_path))
    store.save({"a": (b"a1",)})
    answers: list[object] = []
    thread = CheckpointThread(store)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        thread.save({"a": (b"a2",)}, answers.append)
        thread.load("a", lambda *answer: answers.append(answer))
        thread.close()
    problem, read = answers
    assert isinstance(problem, str) and "No space left on device" in problem and str(tmp_path) in problem
    assert read == ([(b"a1",)], "")
    assert not list(tmp_path.rglob("*.writing"))
    store.save({"a": (b"a3",)})
    assert opened(str(tmp_path)).load(["a"]) == {"a": [(b"a1",), (b"a3",)]}


def test_unusable_places_are_errors(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("")
    with pytest.raises(StoreError, match=r"cannot be used.*--checkpoints none"):
        opened(str(taken))
    with pytest.raises(StoreError, match=r"cannot be reached.*nowhere"):
        opened("nowhere://bucket/x")
    assert open_store("none", "ced", "n", 0) is open_store("", "ced", "n", 0) is None

"""Breaking off what is done in files, at any step."""

from __future__ import annotations

import shutil
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

from distced.middleware.history import HistoryWriter


class Broken(BaseException):
    """The process has ended here."""


class Faults:
    """Breaks off before, or right after, a step by its number."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps = 0
        self.at = -1
        self._ticking = Lock()
        for owner, name in ((Path, "replace"), (Path, "unlink"), (HistoryWriter, "write_table"), (shutil, "rmtree")):
            self._watch(monkeypatch, owner, name)

    def _watch(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def step(*args: Any, **kwargs: Any) -> Any:
            self._tick()
            done = original(*args, **kwargs)
            self._tick()
            return done

        monkeypatch.setattr(owner, name, step)

    def _tick(self) -> None:
        with self._ticking:
            self.steps += 1
            if self.steps == self.at:
                raise Broken

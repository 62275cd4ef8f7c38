"""Loggers whose output fails: nothing is raised, and lines that could not be written are reported."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TextIO

import pytest
import structlog

from distced.middleware.bus.failures import Failure, FailureReports
from distced.middleware.bus.logger import Logger, get_logger
from distced.middleware.cli.logs import configure_logging


def closed() -> TextIO:
    stream = io.StringIO()
    stream.close()
    return stream


def unread() -> TextIO:
    reading, writing = os.pipe()
    os.close(reading)
    return os.fdopen(writing, "w")


def full() -> TextIO:
    return Path("/dev/full").open("w")


def ascii_only() -> TextIO:
    return io.TextIOWrapper(io.BytesIO(), "ascii")


UNWRITABLE = [closed, unread, full, ascii_only]


@pytest.fixture(params=UNWRITABLE, ids=lambda make: make.__name__)
def unwritable(request: pytest.FixtureRequest) -> Iterator[TextIO]:
    """A stream that a line with an umlaut cannot be written to."""
    if request.param is full and not Path("/dev/full").exists():
        pytest.skip("a system without /dev/full")
    stream: TextIO = request.param()
    yield stream
    with suppress(OSError):
        stream.close()


class Disk(io.StringIO):
    """A stream that fails while `full`."""

    full = False

    def write(self, text: str) -> int:
        if self.full:
            raise OSError(28, "No space left on device")
        return super().write(text)


CONFIGURED: dict[str, Callable[[TextIO], Logger]] = {
    "by an application": lambda stream: (
        structlog.configure(logger_factory=structlog.PrintLoggerFactory(stream)),
        get_logger("distced.node"),
    )[1],
    "by a verb, its own": lambda stream: configure_logging(stream=stream, as_json=True),
    "by a verb, of a node": lambda stream: (configure_logging(stream=stream, as_json=True), get_logger("n"))[1],
}


@pytest.mark.parametrize("configured", CONFIGURED)
def test_log_that_cannot_be_written_raises_nothing(unwritable: TextIO, configured: str) -> None:
    log = CONFIGURED[configured](unwritable)
    log.info("höher")
    log.warning("höher", node="n")
    log.error("höher", exc_info=OSError("x"))
    try:
        raise KeyError("x")
    except KeyError:
        log.exception("höher")


def test_log_without_a_configuration_prints_where_standard_output_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    log = get_logger("distced.client")
    monkeypatch.setattr(sys, "stdout", closed())
    log.warning("nobody reads this")
    monkeypatch.setattr(sys, "stdout", kept := io.StringIO())
    log.warning("this one is read")
    assert "this one is read" in kept.getvalue()


def test_unwritten_lines_are_reported_once_before_the_next_line() -> None:
    disk = Disk()
    structlog.configure([structlog.processors.JSONRenderer()], logger_factory=structlog.WriteLoggerFactory(disk))
    node, client = get_logger("distced.node"), get_logger("distced.client")
    node.info("first")
    disk.full = True
    for _ in range(3):
        node.info("unwritten")
    client.warning("unwritten, too")
    disk.full = False
    client.info("second")
    node.info("third")
    assert disk.getvalue().splitlines() == [
        '{"event": "first"}',
        '{"lines": 4, "event": "log lines late or lost"}',
        '{"event": "second"}',
        '{"event": "third"}',
    ]


def test_line_below_the_level_is_not_missed() -> None:
    disk = Disk()
    configure_logging(stream=disk, as_json=True)
    disk.full = True
    log = get_logger("distced.node")
    log.info("not of this level")
    disk.full = False
    log.warning("shown")
    assert [json.loads(line)["event"] for line in disk.getvalue().splitlines()] == ["shown"]


def test_error_of_a_call_is_no_failure_of_the_output() -> None:
    structlog.configure([lambda *_: {}["missing"]])
    with pytest.raises(KeyError):
        get_logger("distced.node").info("x")


@pytest.mark.parametrize("hook_fails", [False, True])
def test_failure_is_handed_on_where_it_cannot_be_logged(unwritable: TextIO, hook_fails: bool) -> None:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(unwritable))
    handed: list[Failure] = []

    def hook(failure: Failure) -> None:
        handed.append(failure)
        if hook_fails:
            raise ValueError("höher")

    reports = FailureReports("client", hook)
    failures = [Failure(BrokenPipeError(f"höher {number}"), "LiveNode._tick") for number in range(3)]
    for each in failures:
        reports.failed(each)
    assert handed == failures


NOTES = """
from distced.middleware.cli.output import discard_unwritable, dispensable_output, messages
with dispensable_output():
    messages().print("nobody reads this")
print("this is read")
discard_unwritable()
"""


def test_standard_error_without_a_reader_leaves_standard_output_and_the_exit_code() -> None:
    # Unbuffered streams have nothing left to write at the end.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with unread() as stream:
        done = subprocess.run(
            [sys.executable, "-c", NOTES], stdout=subprocess.PIPE, stderr=stream, env=environment, check=False
        )
    assert (done.returncode, done.stdout) == (0, b"this is read\n")

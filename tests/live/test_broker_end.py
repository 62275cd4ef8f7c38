"""Nothing is left of `distced broker` however it ends; one that finds its port in use says what is there."""

from __future__ import annotations

import importlib.util
import os
import pty
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import structlog

from distced.brokers.cli import port_in_use
from distced.brokers.cli.port_in_use import PortInUse
from distced.brokers.live import watchdog
from distced.brokers.live.mqtt_server import Server
from distced.brokers.live.node import LiveNode
from distced.middleware.cli import signals
from distced.middleware.cli.command import main

pytestmark = [pytest.mark.mqtt, pytest.mark.spawn]

CODE = "import sys; from distced.middleware.cli.command import main; sys.exit(main())"
Eventually = Callable[[Callable[[], bool]], None]


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    yield
    structlog.reset_defaults()


class Broker:
    """A broker in a session of its own, with a folder for temporary ones and perhaps a terminal."""

    def __init__(self, folder: Path, *arguments: str, terminal: bool = False) -> None:
        self.folder = folder
        self._terminal, end = pty.openpty() if terminal else (-1, subprocess.DEVNULL)
        environment = {**os.environ, "TMPDIR": str(folder), "DISTCED_SERVER": "auto"}
        command = [sys.executable, "-c", CODE, "broker", "--port", "0", *arguments]
        self.process = subprocess.Popen(
            command, stdin=end, stdout=subprocess.PIPE, stderr=end, env=environment, start_new_session=not terminal,
            preexec_fn=(lambda: (os.setsid(), _take_terminal(end))) if terminal else None,
        )  # fmt: skip
        if terminal:
            os.close(end)
        assert self.process.stdout is not None
        while b"Ctrl-C" not in self.process.stdout.readline():
            assert self.process.poll() is None
        assert self.processes() and list(folder.iterdir())

    def close_terminal(self) -> None:
        os.close(self._terminal)

    def processes(self) -> set[int]:
        """Processes with files open in its temporary folders."""
        return watchdog.processes_in({str(each): None for each in self.folder.iterdir()})

    def is_gone(self) -> bool:
        return self.process.poll() is not None and not list(self.folder.iterdir())


def _take_terminal(end: int) -> None:
    import fcntl
    import termios

    fcntl.ioctl(end, termios.TIOCSCTTY, 0)
    # The tests may run under nohup, where a broker ignores the end of its terminal.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture
def start(open_folder: Path) -> Iterator[Callable[..., Broker]]:
    """Starts brokers, and kills them with the test."""
    started: list[Broker] = []

    def make(*arguments: str, terminal: bool = False) -> Broker:
        started.append(Broker(open_folder, *arguments, terminal=terminal))
        return started[-1]

    yield make
    for broker in started:
        broker.process.kill()
        broker.process.wait()
        for each in broker.processes():
            with suppress(OSError):
                os.kill(each, signal.SIGKILL)


@pytest.mark.parametrize("kind", ["mosquitto", "amqtt"])
def test_killed_broker_leaves_no_server_and_no_folder(
    kind: str, start: Callable[..., Broker], eventually: Eventually
) -> None:
    broker = start("--no-ray", "--server", kind)
    server = broker.processes()
    broker.process.kill()
    eventually(broker.is_gone)
    eventually(lambda: not any(map(_runs, server)))


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed (extra: broker)")
def test_killed_broker_leaves_nothing_of_ray(start: Callable[..., Broker], eventually: Eventually) -> None:
    broker = start("--ray")
    there = broker.processes()
    assert len(there) > 5
    broker.process.kill()
    eventually(broker.is_gone)
    eventually(lambda: not any(map(_runs, there)))


def test_broker_ends_with_its_terminal(start: Callable[..., Broker], eventually: Eventually) -> None:
    broker = start("--no-ray", terminal=True)
    server = broker.processes()
    broker.close_terminal()
    eventually(broker.is_gone)
    assert broker.process.returncode == 0
    eventually(lambda: not any(map(_runs, server)))


@pytest.mark.parametrize("ignored", [False, True], ids=["terminal", "nohup"])
def test_verb_ends_with_its_terminal_but_not_under_nohup(ignored: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "_leave_terminal", lambda: None)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
    ended = False
    try:
        with signals.ending():
            os.kill(os.getpid(), signal.SIGHUP)
            signal.sigtimedwait([], 0)
    except KeyboardInterrupt:
        ended = True
    finally:
        signal.signal(signal.SIGHUP, before)
    assert ended is not ignored


def test_folders_of_a_watchdog_that_was_killed_are_watched_again(eventually: Eventually) -> None:
    """The owner notices with the next folder, and is not disturbed."""
    code = (
        "import sys, os; from distced.brokers.live import watchdog as w; w.watched_folder('w-'); "
        "print(flush=True); input(); w.watched_folder('w-'); print(flush=True); input()"
    )
    with tempfile.TemporaryDirectory() as folder:
        owner = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "TMPDIR": folder},
        )  # fmt: skip
        assert owner.stdin is not None and owner.stdout is not None
        owner.stdout.readline()
        (watching,) = _children(owner.pid)
        os.kill(watching, signal.SIGKILL)
        eventually(lambda: not _runs(watching))
        owner.stdin.write("\n")
        owner.stdin.flush()
        owner.stdout.readline()
        assert len(list(Path(folder).iterdir())) == 2
        owner.kill()
        eventually(lambda: not list(Path(folder).iterdir()))
        owner.wait()
        owner.stdin.close()
        owner.stdout.close()


def test_port_of_a_server_with_nodes_is_named_with_what_to_do(
    mosquitto: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    with LiveNode(mosquitto.url, "cellar"):
        arguments = ["broker", "--no-ray", "--port", str(mosquitto.port)]
        assert main([*arguments, "--name", "attic"]) == 2
        report = " ".join(capsys.readouterr().err.split())
        assert "in use by an MQTT server with the broker node cellar, 0 subscriptions" in report
        assert f"distced broker --server mqtt://127.0.0.1:{mosquitto.port}" in report
        assert main([*arguments, "--name", "cellar"]) == 2
        assert "nothing need be started" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("answer", [True, False])
def test_person_at_the_terminal_is_offered_the_server(
    answer: bool, mosquitto: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = PortInUse(mosquitto.url)
    assert not found.offers(["attic"], ask=True), "nobody is at a terminal here"
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    asked: list[str] = []
    monkeypatch.setattr("typer.confirm", lambda text, **_: asked.append(text) or answer)
    assert found.offers(["attic"], ask=True) is answer
    assert "an MQTT server without broker nodes. Use it?" in asked[0]
    assert not found.offers(["attic"], ask=False)


def test_port_of_something_else_is_not_offered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(port_in_use, "LOOK_WITHIN", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as other:
        assert main(["broker", "--no-ray", "--port", str(other.getsockname()[1])]) == 2
    assert "does not answer as an MQTT server" in " ".join(capsys.readouterr().err.split())


def _children(process: int) -> list[int]:
    report = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process)], capture_output=True, text=True, check=True)
    return [int(each) for each in report.stdout.split()]


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    # One that nobody has waited for.
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return True

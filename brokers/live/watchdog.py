"""Watchdog: a process that removes temporary folders, and ends what runs in them, once their owner is gone.

A process that is killed cannot tidy up. So it names its temporary folders on a pipe to a second process, in a session
of its own, which a closed terminal does not reach. At the end of the pipe, however the owner has ended, the watchdog
ends each process that has a file open in one of the folders, as MQTT servers and the processes of Ray have their logs,
and removes the folder. Folders are found by name and not processes by id, so a reused id does no harm.

PR_SET_PDEATHSIG was rejected: it is Linux alone, leaves the folders, fires when the *thread* that started the process
ends, and is lost by a process that changes its user, as mosquitto does.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, Final

_TERMINATE_SECONDS: Final = 1.0
"""Time for processes to end by themselves, before they are killed."""

_GIVE_UP_SECONDS: Final = 20.0

_lock = threading.Lock()
_pipe: IO[bytes] | None = None
_folders: set[Path] = set()


def watched_folder(prefix: str) -> Path:
    """New temporary folder, removed with what runs in it when this process is gone without `remove_folder`."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    with _lock:
        _folders.add(folder)
        _send(b"+", folder)
    return folder


def remove_folder(folder: Path) -> None:
    """Remove a watched folder; its processes have ended."""
    shutil.rmtree(folder, ignore_errors=True)
    with _lock:
        _folders.discard(folder)
        _send(b"-", folder)


def _send(sign: bytes, folder: Path) -> None:
    """Register a folder with the watchdog; a killed watchdog is started again, with all folders."""
    global _pipe
    try:
        if _pipe is not None:
            _pipe.write(_line(sign, folder))
            return
    except BrokenPipeError:
        pass
    _pipe = _start()
    for each in _folders:
        _pipe.write(_line(b"+", each))


def _line(sign: bytes, folder: Path) -> bytes:
    return sign + os.fsencode(folder) + b"\n"


def _start() -> IO[bytes]:
    """Pipe to a new watchdog."""
    # The file by itself, isolated: it imports the standard library alone, and starts in some hundredths of a second.
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        start_new_session=True,
    )
    assert process.stdin is not None
    # It outlives this process, so nobody waits for it.
    process.returncode = 0
    return process.stdin


# The watchdog.


def main() -> None:
    """Read the names of folders until the pipe ends; then end the processes in those left, and remove them."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    folders: dict[str, None] = {}
    for line in sys.stdin.buffer:
        name = os.fsdecode(line[1:].rstrip(b"\n"))
        if line.startswith(b"+"):
            folders[name] = None
        else:
            folders.pop(name, None)
    began = time.monotonic()
    while folders and time.monotonic() - began < _GIVE_UP_SECONDS:
        kill = time.monotonic() - began > _TERMINATE_SECONDS
        busy = processes_in(folders)
        for each in busy:
            try:
                os.kill(each, signal.SIGKILL if kill else signal.SIGTERM)
            except OSError:
                continue
        for name in [] if busy else list(folders):
            shutil.rmtree(name, ignore_errors=True)
            if not Path(name).exists():
                del folders[name]
        time.sleep(0.1)


def processes_in(folders: dict[str, None]) -> set[int]:
    """Processes with a file open in one of these folders."""
    if not Path("/proc/self/fd").exists():
        return _listed_processes(folders)
    within = tuple(f"{os.path.realpath(name)}/" for name in folders)
    found: set[int] = set()
    for process in Path("/proc").iterdir():
        try:
            links = [str(each.readlink()) for each in (process / "fd").iterdir()] if process.name.isdigit() else []
        except OSError:
            continue
        if any(link.startswith(within) for link in links):
            found.add(int(process.name))
    return found


def _listed_processes(folders: dict[str, None]) -> set[int]:
    """The same by `lsof`, which macOS has."""
    command = ["lsof", "-t", *(word for name in folders for word in ("+D", name))]
    try:
        listed = subprocess.run(command, capture_output=True, check=False, timeout=10).stdout
    except (OSError, subprocess.TimeoutExpired):
        return set()
    return {int(each) for each in listed.split()}


if __name__ == "__main__":
    main()

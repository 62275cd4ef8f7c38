"""Runners of tasks: in this process, or on Spark."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import socket
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from distced.middleware.model.errors import DistcedError


class Task(Protocol):
    """A unit of work that can be pickled. Its result files show that it is done."""

    def perform(self, clock: Callable[[], float]) -> object:
        """Perform the task."""
        ...


INLINE: Final = "inline"
"""Master that stands for this process, without Spark."""

TASKS: Final = "tasks"
LOG: Final = "spark.log"
"""Names in the folder of the work: pickled tasks, and standard error of Spark."""

_MASTER: Final = re.compile(r"local(-cluster)?(\[(\d+|\*)(, *\d+)*\])?|yarn|(spark|k8s|sc)://.+")
_CONNECT_PORT: Final = 15002

_LOOK: Final = 0.2
"""Seconds between checks of progress."""


class Runner(ABC):
    """Performs tasks that do not depend on one another, `cores` at a time.

    Attributes:
        name: for reports.
        why: reason for the choice of this runner; empty where it was asked for.
    """

    name: str
    cores: int
    why: str = ""

    @abstractmethod
    def perform(self, tasks: Sequence[Task], watch: Callable[[], None]) -> None:
        """Perform all tasks; `watch` is called now and then."""


class Inline(Runner):
    """Performs tasks in this process, one after the other."""

    name = "in this process"
    cores = 1

    def perform(self, tasks: Sequence[Task], watch: Callable[[], None]) -> None:
        for each in tasks:
            each.perform(time.perf_counter)
            watch()


class Spark(Runner):
    """Performs tasks on Spark: `mapInArrow` over their numbers, each a partition of its own."""

    def __init__(self, session: Any, work: Path) -> None:
        """Tasks travel in the folder of the work, which the workers see, too."""
        self._session = session
        self._folder = work / TASKS
        self.name = f"on Spark {session.version}"
        self.cores = _cores(session)

    def perform(self, tasks: Sequence[Task], watch: Callable[[], None]) -> None:
        if not tasks:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        for number, task in enumerate(tasks):
            (self._folder / f"{number}.pickle").write_bytes(pickle.dumps(task))
        job = self._session.range(0, len(tasks), 1, len(tasks)).mapInArrow(_performer(str(self._folder)), "id long")
        failures: list[BaseException] = []

        def collect() -> None:
            try:
                job.collect()
            except BaseException as error:  # Raised again in the waiting thread.
                failures.append(error)

        thread = threading.Thread(target=collect, name="spark-job", daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(_LOOK)
                watch()
        except KeyboardInterrupt:
            self._session.interruptAll()
            raise
        if failures:
            raise DistcedError(
                f"a task failed on Spark: {_said_last(failures[0])}",
                advice="finished tasks are kept; repeat the command to resume",
            ) from failures[0]


def _cores(session: Any) -> int:
    """Number of tasks that Spark performs at a time."""
    if hasattr(session, "_jsparkSession"):
        return int(session.sparkContext.defaultParallelism)
    # Spark Connect does not report its cores; this is its default number of partitions.
    from pyspark.sql.functions import spark_partition_id

    parts = session.range(1 << 20).select(spark_partition_id().alias("part"))
    ((last,),) = parts.agg({"part": "max"}).collect()
    return int(last) + 1


def _performer(folder: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def perform(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                task = pickle.loads((Path(folder) / f"{number}.pickle").read_bytes())
                task.perform(time.perf_counter)
            yield batch

    return perform


def _said_last(error: BaseException) -> str:
    """Last message of a worker on its failure, below its traceback; else Spark's first message."""
    lines = [each for each in str(error).splitlines() if each.strip()]
    places = [place for place, each in enumerate(lines) if "Traceback (most recent call last)" in each]
    raised = [each for each in lines[places[0] + 1 :] if not each.startswith(" ")] if places else lines
    said = (raised or lines or [type(error).__name__])[0].strip()[:1000]
    return re.sub(r"^(\w+\.)+(?=\w+: )", "", said)


@contextmanager
def runner_of(master: str, work: Path, *, tidy: bool = False) -> Iterator[Runner]:
    """The runner of a master, `INLINE` or Spark's, in a folder that workers see; a `tidy` one removes Spark's files."""
    if master == INLINE:
        yield Inline()
        return
    session = session_of(master, work / LOG)
    try:
        yield Spark(session, work.absolute())
    finally:
        session.stop()
        if tidy:
            shutil.rmtree(work / TASKS, ignore_errors=True)
            (work / LOG).unlink(missing_ok=True)


def check_master(master: str) -> None:
    """Check a master. Raises `DistcedError` for others than `INLINE` and URLs; Spark's own message is about Java."""
    if master != INLINE and not _MASTER.fullmatch(master):
        raise DistcedError(
            "not a master of Spark", given=master,
            allowed="local[*], local[4], spark://HOST:PORT, k8s://…, yarn, sc://HOST:PORT, or inline: without Spark",
        )  # fmt: skip


def session_of(master: str, log: Path) -> Any:
    """A session of Spark, at a master's URL or with Spark Connect (`sc://…`).

    Standard error of Java and of local workers is appended to `log`. Without PySpark, Java, or an answer of
    the master, it is a `DistcedError`.
    """
    check_master(master)
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise DistcedError(
            "Spark needs PySpark", advice="pip install 'distced[spark]', or take --master inline"
        ) from None
    builder = SparkSession.builder.appName("distced")
    if master.startswith("sc://"):
        try:
            # The client tries for ten minutes before it fails.
            address = urlsplit(master)
            socket.create_connection((address.hostname or "", address.port or _CONNECT_PORT), timeout=10).close()
            return builder.remote(master).getOrCreate()
        except Exception as error:
            said = str(error).partition("\n")[0]
            raise DistcedError(
                f"Spark Connect does not answer: {said}",
                given=master,
                advice="start a server; the client needs pip install 'distced[connect]'",
            ) from None
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"}
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    builder = builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    log.parent.mkdir(parents=True, exist_ok=True)
    try:
        sys.stderr.flush()
        with redirected(2, log):
            return builder.getOrCreate()
    except Exception as error:
        raise DistcedError(
            f"Spark did not start: {_reason(log, error)}", given=master,
            advice="it needs Java 17 or later; or take --master inline",
        ) from None  # fmt: skip


def _reason(log: Path, error: Exception) -> str:
    """Spark's last message on a failure."""
    lines = [each for each in log.read_text(errors="replace").splitlines() if " ERROR " in each]
    return lines[-1].partition(" ERROR ")[2] if lines else str(error).partition("\n")[0]


@contextmanager
def redirected(descriptor: int, path: Path | str) -> Iterator[None]:
    """Redirect a descriptor to a file; processes started meanwhile keep it as long as they live."""
    kept = os.dup(descriptor)
    try:
        with Path(path).open("ab") as file:
            os.dup2(file.fileno(), descriptor)
        yield
    finally:
        os.dup2(kept, descriptor)
        os.close(kept)

"""Replay over Spark Connect: a server in a process and a folder of its own, of which only the address is known."""

from __future__ import annotations

import shutil

import pytest

pytest.importorskip("pyspark", reason="replay on Spark needs the extra distced[spark]")
pytest.importorskip("grpc", reason="Spark Connect needs the extra distced[connect]")
pytest.importorskip("grpc_status", reason="Spark Connect needs the extra distced[connect]")
if shutil.which("java") is None:
    pytest.skip("Spark needs Java", allow_module_level=True)

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark

from distced.middleware.history import HistoryWriter
from distced.middleware.model.events import Event
from distced.middleware.model.timestamps import MINUTE

pytestmark = [pytest.mark.spark, pytest.mark.spawn]


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    home, port = Path(pyspark.__file__).parent, free_port()
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    folder = tmp_path / "server"
    folder.mkdir()
    command = [home / "sbin" / "start-connect-server.sh", "--wait", "--master", "local[2]"]
    command += [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOG_DIR": str(folder),
        "SPARK_PID_DIR": str(folder),
        "PYSPARK_PYTHON": sys.executable,
    }
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
        )  # fmt: skip
    try:
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline and server.poll() is None:
            with socket.socket() as asked:
                if asked.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.3)
        yield f"sc://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(30)


def distced(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("distced")), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200, check=False)


@pytest.mark.slow
def test_replay_over_spark_connect(master: str, tmp_path: Path) -> None:
    HistoryWriter(tmp_path / "h", "test").write(
        [Event("ABD"[n % 3], n * MINUTE, n * MINUTE, "s", n, {"k": n % 7}) for n in range(2000)]
    )
    common = ("replay", "[A as x] ; [B] within 2h by k -> P(k = x.k)", "--history", "h", "--way", "key", "--json")
    there = distced(tmp_path, *common, "--out", "there.jsonl", "--master", master)
    assert there.returncode == 0, there.stderr
    plan = json.loads(there.stdout)["summary"]["plan"]
    assert plan["runner"].startswith("on Spark")
    assert plan["cores"] == 2
    assert distced(tmp_path, *common, "--out", "here.jsonl", "--master", "inline").returncode == 0
    assert (tmp_path / "there.jsonl").read_bytes() == (tmp_path / "here.jsonl").read_bytes()


def test_absent_server_is_reported_soon(tmp_path: Path) -> None:
    HistoryWriter(tmp_path / "h", "test").write([Event("A", 0, 0, "s", 0, {})])
    failed = distced(tmp_path, "replay", "[A]", "--history", "h", "--master", f"sc://127.0.0.1:{free_port()}")
    assert failed.returncode == 2
    assert "Spark Connect does not answer" in failed.stderr
    assert "Traceback" not in failed.stderr

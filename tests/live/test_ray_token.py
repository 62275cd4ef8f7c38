"""Ray's token authentication: nodes with the token of a cluster join it, others do not."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from distced.brokers.live.mqtt_server import find_mosquitto
from distced.brokers.ray.runtime import Runtime, check_closed
from distced.middleware.model.errors import DistcedError

pytestmark = [
    pytest.mark.ray,
    pytest.mark.mqtt,
    pytest.mark.skipif(find_mosquitto() is None, reason="mosquitto is neither on the PATH nor in /usr/sbin"),
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed (extra: broker)"),
]

JOIN = """
import sys
from distced.brokers.core.node_location import NodeLocation
from distced.brokers.live.mqtt_server import start_server
from distced.brokers.ray.nodes import RayNodes
from distced.middleware.model.errors import DistcedError

with start_server("mosquitto") as server:
    try:
        with RayNodes(server.url, {"n1": NodeLocation()}, address=sys.argv[1], token=sys.argv[2]):
            print("joined")
    except DistcedError as error:
        print(error)
"""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    # Ray has sockets below its folder, whose names must not be long.
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as made:
        path = Path(made)
        (path / "token").write_text("a1" * 32)
        (path / "wrong").write_text("b2" * 32)
        yield path


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[str]:
    """A cluster on loopback with the token."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(folder / "token"),
    }
    start = [sys.executable, "-c", "from ray.scripts.scripts import main; main()", "start", "--head", "--block"]
    options = ["--node-ip-address", "127.0.0.1", "--port", str(port), "--num-cpus", "1", "--include-dashboard", "false"]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(
            [*start, *options, "--temp-dir", str(folder / "r")], env=environment, stdout=log, stderr=log
        ) as head,
    ):
        try:
            deadline = time.monotonic() + 60
            while "block forever" not in (folder / "log").read_text():
                assert head.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
                time.sleep(0.2)
            yield f"127.0.0.1:{port}"
        finally:
            head.terminate()
            with suppress(subprocess.TimeoutExpired):
                head.wait(20)
            head.kill()


@pytest.mark.slow
@pytest.mark.parametrize(("token", "outcome"), [("token", "joined"), ("wrong", "no Ray cluster can be joined")])
def test_nodes_with_the_token_join(cluster: str, folder: Path, token: str, outcome: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    command = [sys.executable, "-c", JOIN, cluster, str(folder / token)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert outcome in ran.stdout, ran.stdout + ran.stderr
    if outcome != "joined":
        assert "the same token" in ran.stdout


@pytest.mark.parametrize(
    ("address", "mode", "is_closed"),
    [
        ("127.0.0.1", "", True),
        ("::1", "", True),
        ("10.0.1.10", "", False),
        ("fd00::7", "", False),
        ("10.0.1.10", "token", True),
        ("10.0.1.10", "disabled", True),
    ],
)
def test_cluster_beyond_loopback_without_a_token_is_asked_for_by_name(address: str, mode: str, is_closed: bool) -> None:
    environment = {"RAY_AUTH_MODE": mode} if mode else {}
    with nullcontext() if is_closed else pytest.raises(DistcedError, match="without a token"):
        check_closed(address, environment)


@pytest.mark.parametrize(("content", "problem"), [(None, "cannot be read"), ("\n", "without a token")])
def test_file_without_a_token_is_an_error(tmp_path: Path, content: str | None, problem: str) -> None:
    file = tmp_path / "ray.token"
    if content is not None:
        file.write_text(content)
    with pytest.raises(DistcedError, match=problem):
        Runtime(token=str(file)).start(1, [])

"""Deployment of `distced init` at one real mosquitto, on loopback."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from distced.brokers.deployment.access_list import DeployedUser
from distced.brokers.deployment.deployment_file import Deployment, ServerSite
from distced.brokers.deployment.folder import apply
from distced.brokers.live.mqtt_server import find_mosquitto


class DeployedSite:
    """Deployment folder with a running server."""

    def __init__(self, folder: Path, participants: Mapping[str, DeployedUser]) -> None:
        with socket.socket() as reserved:
            reserved.bind(("127.0.0.1", 0))
            self.port = reserved.getsockname()[1]
        self.folder = folder
        self.deployment = Deployment({"main": ServerSite(("127.0.0.1",), self.port)}, dict(participants))
        self.process: subprocess.Popen[bytes] | None = None

    def apply(self, **options: Any) -> None:
        apply(self.deployment, self.folder, datetime.now(UTC), **options)

    def url(self, name: str) -> str:
        return f"mqtts://127.0.0.1:{self.port}?config={self.folder}/participants/{name}/distced.toml"

    def start(self) -> None:
        path = find_mosquitto()
        assert path is not None
        # Not as root, which mosquitto gives up: the folder is that of the user of the tests.
        own = self.folder / "servers" / "main" / "further" / "user.conf"
        own.write_text("user root\n")
        self.process = subprocess.Popen(
            [path, "-c", "mosquitto.conf"],
            cwd=self.folder / "servers" / "main",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise AssertionError("mosquitto has not started")

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(10)

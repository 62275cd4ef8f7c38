"""Access to an MQTT server with TLS: its certificate is checked, and files are read for each connection."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from distced.brokers.live.mqtt_server import Server
from distced.middleware.bus import Bus
from distced.middleware.model.errors import BusError

certificates = pytest.importorskip(
    "distced.brokers.deployment.certificates", reason="the extra init is not installed", exc_type=ImportError
)
pytestmark = pytest.mark.mqtt

MakeBus = Callable[..., Bus]

NOW = datetime.now(UTC)


class Site:
    """Files of an MQTT server and its clients."""

    def __init__(self, folder: Path, *, hosts: tuple[str, ...] = ("127.0.0.1",), now: datetime = NOW) -> None:
        self.folder = folder
        self.authority = certificates.new_authority("test", NOW - timedelta(days=400), 3650)
        self.ca = self.write("ca.pem", self.authority.certificate)
        self.cert, self.key = self.pair("server", hosts, now)

    def write(self, name: str, content: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content)
        path.chmod(0o644)
        return path

    def pair(self, name: str, hosts: tuple[str, ...], now: datetime = NOW, days: int = 30) -> tuple[Path, Path]:
        pair = certificates.issue(self.authority, name, hosts, now, days)
        return self.write(f"{name}.pem", pair.certificate), self.write(f"{name}.key", pair.key)

    def settings(self, *further: str) -> list[str]:
        return [f"cafile {self.ca}", f"certfile {self.cert}", f"keyfile {self.key}", *further]


def test_server_is_checked_by_the_authority(
    start_mosquitto: Callable[..., Server], make_bus: MakeBus, open_folder: Path
) -> None:
    site = Site(open_folder)
    server = start_mosquitto(settings=site.settings())
    url = f"mqtts://127.0.0.1:{server.port}"
    assert make_bus(f"{url}?ca={site.ca}").connected
    other = site.write("other.pem", certificates.new_authority("other", NOW).certificate)
    for each in (url, f"{url}?ca={other}"):
        with pytest.raises(BusError, match=r"no encrypted connection to 127\.0\.0\.1"):
            make_bus(each, wait=False).wait_connected(5)


@pytest.mark.parametrize(
    ("hosts", "begun", "problem"),
    [
        (("10.9.9.9", "site.example"), NOW, "mismatch.*name the server as its certificate does"),
        (("127.0.0.1",), NOW - timedelta(days=90), "has expired.*have its server get another one"),
    ],
)
def test_certificate_of_another_host_or_that_has_expired_is_refused(
    start_mosquitto: Callable[..., Server],
    make_bus: MakeBus,
    open_folder: Path,
    hosts: tuple[str, ...],
    begun: datetime,
    problem: str,
) -> None:
    site = Site(open_folder, hosts=hosts, now=begun)
    server = start_mosquitto(settings=site.settings())
    with pytest.raises(BusError, match=rf"(?s)no encrypted connection.*{problem}"):
        make_bus(f"mqtts://127.0.0.1:{server.port}?ca={site.ca}", wait=False).wait_connected(5)


def test_client_certificate_is_read_again_for_the_next_connection(
    start_mosquitto: Callable[..., Server], make_bus: MakeBus, open_folder: Path
) -> None:
    site = Site(open_folder)
    server = start_mosquitto(settings=site.settings("require_certificate true", "use_identity_as_username true"))
    url = f"mqtts://127.0.0.1:{server.port}?ca={site.ca}"
    with pytest.raises(BusError):
        make_bus(url, wait=False).wait_connected(5)
    cert, key = site.pair("ada", (), NOW - timedelta(days=90))
    bus = make_bus(f"{url}&cert={cert}&key={key}", wait=False)
    with pytest.raises(BusError):
        bus.wait_connected(2)
    # A new certificate at the same place; the bus goes on trying.
    site.pair("ada", ())
    bus.wait_connected(10)

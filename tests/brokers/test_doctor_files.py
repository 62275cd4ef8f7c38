"""Facts about files on a machine, and the findings that they lead to: secrets, certificates, stores."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from distced.brokers.doctor.checks.files import certificate_findings, secret_findings, store_findings
from distced.brokers.doctor.checks.findings import State
from distced.brokers.doctor.collect.files import certificate_files, secret_files, server_secrets, store
from distced.middleware.bus.access import Configuration
from distced.middleware.model.timestamps import SECOND

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
INSTANT = int(NOW.timestamp()) * SECOND


def test_secrets_of_an_access(tmp_path: Path) -> None:
    for name, mode in (("password", 0o644), ("key", 0o600)):
        (tmp_path / name).write_text("x")
        (tmp_path / name).chmod(mode)
    access = Configuration(
        password_file=str(tmp_path / "password"), key=str(tmp_path / "key"), ray_token=str(tmp_path / "none")
    )
    found = {Path(each.subject).name: each.state for each in secret_findings(secret_files(access))}
    assert found == {"password": State.WARNING, "key": State.OK, "none": State.ERROR}


@pytest.mark.parametrize(("mode", "state"), [(0o600, State.OK), (0o640, State.OK), (0o644, State.WARNING)])
def test_group_of_a_server_may_read_its_secrets(tmp_path: Path, mode: int, state: State) -> None:
    (tmp_path / "users").write_text("x")
    (tmp_path / "users").chmod(mode)
    (found,) = secret_findings(server_secrets({"password_file": str(tmp_path / "users"), "acl_file": "x"}))
    assert found.state is state


@pytest.mark.parametrize(
    ("begun", "days", "state"),
    [
        (NOW, 90, State.OK),
        (NOW - timedelta(days=80), 90, State.WARNING),
        (NOW - timedelta(days=100), 90, State.ERROR),
        (NOW + timedelta(days=2), 90, State.ERROR),
    ],
)
def test_certificate_of_a_client(tmp_path: Path, begun: datetime, days: int, state: State) -> None:
    certificates = pytest.importorskip("distced.brokers.deployment.certificates", exc_type=ImportError)
    authority = certificates.new_authority("test", NOW - timedelta(days=400))
    pair = certificates.issue(authority, "ada", (), begun, days)
    # The one that ends first counts.
    (tmp_path / "ada.pem").write_bytes(pair.certificate + authority.certificate)
    files = certificate_files(Configuration(cert=str(tmp_path / "ada.pem")))
    assert [each.state for each in certificate_findings(files, INSTANT)] == [state]


@pytest.mark.parametrize(
    "content", [None, b"", b"\xff\xfe", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_certificate_that_is_none(tmp_path: Path, content: bytes | None) -> None:
    pytest.importorskip("cryptography")
    path = tmp_path / "ada.pem"
    if content is not None:
        path.write_bytes(content)
    (found,) = certificate_findings(certificate_files(Configuration(ca=str(path))), INSTANT)
    assert found.state is State.ERROR and "cannot be read" in found.text


def test_stores_of_checkpoints(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    states = {
        where: store_findings(store(where))[0].state
        for where in ("none", str(tmp_path), str(tmp_path / "new"), str(tmp_path / "file"), "s3://bucket/x")
    }
    assert list(states.values()) == [
        State.INFORMATION, State.OK, State.INFORMATION, State.ERROR, State.NOT_CHECKED
    ]  # fmt: skip

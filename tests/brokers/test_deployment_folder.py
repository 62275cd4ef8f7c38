"""Deployment folders: what is written, what stays, and files that make no sense."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

pytest.importorskip("cryptography", reason="the extra init is not installed")

from distced.brokers.deployment.access_list import DeployedUser, access_list
from distced.brokers.deployment.certificates import is_issued_by, valid_until
from distced.brokers.deployment.deployment_file import (
    Deployment,
    ServerSite,
    as_toml,
    read_deployment,
    write_deployment,
)
from distced.brokers.deployment.folder import apply
from distced.middleware.bus.access import login, ray_token, read_configuration
from distced.middleware.cli.command import main
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.server_address import parse_address
from tests.support.verbs import load_verbs

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)

OFFICE = Deployment(
    {"main": ServerSite(("mqtt.example", "10.0.1.10")), "attic": ServerSite(("::1",), 8884)},
    {
        "cellar": DeployedUser(("node", "bridge"), topics=("zigbee2mqtt/+",)),
        "top": DeployedUser(("node",)),
        "badges": DeployedUser(("publisher",), sources=("hall", 'the "door"'), types=("Motion",)),
        "ada lovelace": DeployedUser(("client", "operator"), durable=("night",)),
    },
    {"top": "attic"},
)


def test_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "deployment.toml"
    file.write_text(as_toml(OFFICE))
    assert read_deployment(file) == OFFICE


def test_what_is_there_stays(tmp_path: Path) -> None:
    first = apply(OFFICE, tmp_path, NOW)
    assert "servers/attic/mosquitto.conf" in first.written
    changes = apply(OFFICE, tmp_path, NOW + timedelta(days=1))
    assert (changes.written, changes.removed) == ([], [])
    for path in tmp_path.rglob("*"):
        if path.name in ("password", "users", "access") or path.suffix == ".key":
            assert path.stat().st_mode & 0o077 == 0, path


def test_participants_come_and_go(tmp_path: Path) -> None:
    apply(OFFICE, tmp_path, NOW)
    users = tmp_path / "servers" / "main" / "users"
    before = dict(line.split(":") for line in users.read_text().splitlines())
    participants = {name: each for name, each in OFFICE.participants.items() if name != "badges"}
    participants["bob"] = DeployedUser(("client",))
    changes = apply(Deployment(OFFICE.servers, participants, OFFICE.homes), tmp_path, NOW)
    assert changes.removed == ["participants/badges"]
    after = dict(line.split(":") for line in users.read_text().splitlines())
    assert after.keys() == participants.keys()
    assert all(after[name] == before[name] for name in after.keys() & before.keys())


def test_certificate_is_issued_again_for_other_hosts_before_its_end_and_on_request(tmp_path: Path) -> None:
    apply(OFFICE, tmp_path, NOW)
    cert = tmp_path / "servers" / "main" / "server.pem"
    seen = [cert.read_bytes()]
    late = NOW + timedelta(days=380)
    other = Deployment({**OFFICE.servers, "main": ServerSite(("new.example",))}, OFFICE.participants, OFFICE.homes)
    for deployment, now, renew in ((OFFICE, late, ()), (OFFICE, late, ("main",)), (other, late, ())):
        apply(deployment, tmp_path, now, renew=renew)
        assert cert.read_bytes() not in seen
        seen.append(cert.read_bytes())
        assert valid_until(cert.read_bytes()) - now > timedelta(days=300)


def test_certificate_is_issued_again_where_the_authority_was_replaced(tmp_path: Path) -> None:
    apply(OFFICE, tmp_path, NOW)
    authority, cert = tmp_path / "authority" / "ca.pem", tmp_path / "servers" / "main" / "server.pem"
    before = cert.read_bytes()
    assert is_issued_by(before, authority.read_bytes())
    authority.unlink()
    assert "servers/main/server.pem" in apply(OFFICE, tmp_path, NOW).written
    assert not is_issued_by(before, authority.read_bytes())
    assert is_issued_by(cert.read_bytes(), authority.read_bytes())
    assert apply(OFFICE, tmp_path, NOW).written == []


def test_nodes_have_the_token_of_one_ray_cluster(tmp_path: Path) -> None:
    apply(OFFICE, tmp_path, NOW)
    token = (tmp_path / "authority" / "ray.token").read_text()
    assert len(token.strip()) == 64
    for name in OFFICE.participants:
        folder = tmp_path / "participants" / name
        file = folder / "ray.token"
        if "node" in OFFICE.participants[name].roles:
            assert file.read_text() == token and file.stat().st_mode & 0o077 == 0
            assert ray_token(f"mqtts://h?config={folder / 'distced.toml'}") == str(file)
        else:
            assert not file.exists()
    assert apply(OFFICE, tmp_path, NOW).written == []
    # One that is no node any more loses it.
    participants = {**OFFICE.participants, "top": DeployedUser(("recorder",))}
    changes = apply(Deployment(OFFICE.servers, participants, OFFICE.homes), tmp_path, NOW)
    assert changes.removed == ["participants/top/ray.token"]


def test_comments_in_the_file_stay_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "deployment.toml"
    assert write_deployment(file, OFFICE) == ["deployment.toml"]
    # What it has written itself is no comment of anybody's.
    assert write_deployment(file, OFFICE) == ["deployment.toml"]
    commented = as_toml(OFFICE).replace("port = 8884", "port = 8884 # that of the attic")
    file.write_text(commented)
    fewer = Deployment(OFFICE.servers, OFFICE.participants)
    assert write_deployment(file, fewer) == ["deployment.toml", "deployment.before.toml"]
    assert (tmp_path / "deployment.before.toml").read_text() == commented
    assert read_deployment(file) == fewer
    assert sorted(each.name for each in tmp_path.iterdir()) == ["deployment.before.toml", "deployment.toml"]


def test_configuration_is_that_of_its_participant(tmp_path: Path) -> None:
    apply(OFFICE, tmp_path, NOW)
    found = read_configuration(tmp_path / "participants" / "top" / "distced.toml")
    assert (found.name, found.user, found.server) == ("top", "top", "mqtts://mqtt.example:8883")
    assert found.home == "mqtts://[::1]:8884"
    assert found.servers == ("mqtts://[::1]:8884",)
    address = parse_address(f"{found.server}?config={tmp_path}/participants/top/distced.toml")
    assert login(address).password == (tmp_path / "participants" / "top" / "password").read_text().strip()


@pytest.mark.parametrize("name", ["a+b", "a#", "a/b", "", " a", "a\nuser b", "rule:x"])
def test_name_that_an_access_list_could_not_tell_apart_is_an_error(name: str) -> None:
    with pytest.raises(DistcedError, match="not the name of a user"):
        access_list({name: DeployedUser(("client",))})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "not a deployment"),
        ("[servers]", "without a server"),
        ("[servers.main]\nhosts = []", "server without a host: main"),
        ("[servers.'../out']\nhosts = ['h']", "not the name of a site or participant: ../out"),
        ("[servers.main]\nhosts = ['h']\n[participants.'..']\nroles = ['client']", "not the name of a site or part"),
        ("[servers.main]\nhosts = ['h']\nport = 0", "not a port: 0"),
        (
            "[servers.main]\nhosts = ['h']\n[participants.a]\nroles = ['king']",
            "not a deployment: .*king.*roles are node",
        ),
        ("[servers.main]\nhosts = ['h']\n[participants.a]\nroles = []", "without a role: a"),
        ("[servers.main]\nhosts = ['h']\n[participants.a]\nroles = ['client']\nsources = ['s']", "no publisher: a"),
        ("[servers.main]\nhosts = ['h']\n[homes]\na = 'main'", "a home of nobody, or at no server: a = main"),
        (
            "[servers.main]\nhosts = ['h']\n[participants.a]\nroles = ['publisher']\nsources = ['s']\n"
            "[participants.b]\nroles = ['publisher']\nsources = ['s']",
            "source of two publishers: s",
        ),
        (
            "[servers.main]\nhosts = ['h']\n[participants.cellar]\nroles = ['node']\n"
            "[participants.cellar-bridge]\nroles = ['client']",
            "the name that a bridge has.*cellar-bridge",
        ),
    ],
)
def test_file_without_sense_is_an_error(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "deployment.toml"
    file.write_text(text)
    with pytest.raises(DistcedError, match=problem):
        read_deployment(file)


def test_verb_adds_to_a_deployment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load_verbs()
    folder = tmp_path / "office"
    arguments = ["--host", "mqtt.example,10.0.1.10", "--node", "cellar", "--publisher", "badges=hall,door", "--json"]
    assert main(["init", str(folder), *arguments]) == 0
    assert "participants/badges/distced.toml" in json.loads(capsys.readouterr().out)["written"]
    assert (
        main(["init", str(folder), "--host", "attic=attic.example", "--bridge", "cellar", "--node", "top@attic"]) == 0
    )
    capsys.readouterr()
    found = read_deployment(folder / "deployment.toml")
    assert found.participants["cellar"].roles == ("node", "bridge")
    assert found.participants["badges"].sources == ("hall", "door")
    assert (found.homes, list(found.servers)) == ({"top": "attic"}, ["main", "attic"])
    assert main(["init", str(folder)]) == 0
    assert "up to date" in capsys.readouterr().out
    assert main(["init", str(folder), "--renew", "nobody"]) == 2
    assert "no participant or site of this name" in capsys.readouterr().err
    assert main(["init", str(tmp_path / "other")]) == 2
    assert "--host" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()

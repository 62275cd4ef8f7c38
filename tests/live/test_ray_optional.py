"""Broker nodes and the demo without Ray, and the ports of started servers."""

from __future__ import annotations

import json
import socket
import sys
from typing import Any

import pytest

from distced.brokers.cli import broker as broker_verb
from distced.brokers.ray.runtime import use_ray
from distced.middleware.cli.command import main
from distced.middleware.model.errors import DistcedError


@pytest.fixture
def no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)


@pytest.mark.parametrize("wanted", [None, False])
def test_nodes_are_in_this_process_where_ray_is_not_installed(no_ray: None, wanted: bool | None) -> None:
    assert use_ray(wanted) is False


@pytest.mark.parametrize(("wanted", "joins"), [(True, False), (None, True)])
def test_ray_that_is_wanted_and_not_installed_is_an_error(no_ray: None, wanted: bool | None, joins: bool) -> None:
    with pytest.raises(DistcedError, match=r"Ray is not installed; pip install 'distced\[ray\]'"):
        use_ray(wanted, joins=joins)


@pytest.mark.parametrize("arguments", [("broker", "--ray"), ("broker", "--ray-address", "auto"), ("demo", "--ray")])
def test_verb_that_needs_ray_says_so_before_anything_starts(
    no_ray: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    def start(*_: object, **__: object) -> Any:
        raise AssertionError("a server was started")

    monkeypatch.setattr(broker_verb, "start_server", start)
    monkeypatch.setattr("distced.brokers.live.mqtt_server.start_server", start)
    assert main(arguments) == 2
    assert "pip install 'distced[ray]'" in " ".join(capsys.readouterr().err.split())


@pytest.mark.mqtt
@pytest.mark.parametrize("more", [(), ("--no-ray",)])
def test_broker_runs_without_ray(
    no_ray: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], more: tuple[str, ...]
) -> None:
    monkeypatch.setattr(broker_verb, "_wait", lambda *_: 0)
    assert main(["broker", "--port", "0", "--name", "attic", *more]) == 0
    report = capsys.readouterr().out
    assert f"attic, in this process{'' if more else ', for Ray is not installed'}\n" in report


@pytest.mark.mqtt
def test_demo_starts_its_server_on_a_given_port(no_ray: None, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    assert main(["demo", "--port", str(port), "--minutes", "1", "--speed", "600", "--nodes", "1", "--json"]) == 0
    shown = capsys.readouterr()
    assert f"at mqtt://127.0.0.1:{port}" in shown.err
    assert json.loads(shown.out)["check"]["holds"]


def test_port_of_a_server_that_runs_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--server", "mqtt://127.0.0.1:1", "--port", "1884"]) == 2
    report = " ".join(capsys.readouterr().err.split())
    assert "a port for a server that is not started here: 1884" in report
    assert "put it into the URL" in report

"""`distced policy` on a real MQTT server, with a node that reads what it says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog
import typer

from distced.brokers.cli.policy import policy
from distced.brokers.live.mqtt_server import Server, find_mosquitto, start_server
from distced.brokers.live.node import LiveNode
from distced.middleware.bus import Bus
from distced.middleware.client.client import Client
from distced.middleware.model.errors import DistcedError, PatternError
from distced.middleware.model.event_types import event_type
from distced.middleware.wire.topics import administration_topic

pytestmark = pytest.mark.mqtt

Eventually = Callable[[Callable[[], bool]], None]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The log of a node in this process is not what the verb prints."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    yield
    structlog.reset_defaults()


@pytest.fixture
def server() -> Iterator[Server]:
    if find_mosquitto() is None:
        pytest.skip("mosquitto is neither on the PATH nor in /usr/sbin")
    with start_server("mosquitto") as started:
        yield started


@pytest.fixture
def run(server: Server, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Runs the verb with `--json`; what it prints."""

    def run(*arguments: str, as_json: bool = True) -> Any:
        capsys.readouterr()
        more = ["--server", server.url, *(["--json"] if as_json else [])]
        assert typer.main.get_command(policy)(args=[*arguments, *more], standalone_mode=False) == 0
        out = capsys.readouterr().out
        return json.loads(out) if as_json else out

    return run


def test_policies_are_set_shown_and_unset(run: Callable[..., Any], server: Server, eventually: Eventually) -> None:
    with LiveNode(server.url, "attic") as live, Client(server.url) as client:
        client.wait_for_nodes(1)
        client.register(event_type("A", {}), event_type("B", {}))
        subscription = client.subscribe("[A] ; [B]")
        identity = subscription.detector
        assert run("show") == {"policies": [], "otherwise": "min-latency"}
        assert run("set", "min-load") == {"key": "default", "policy": "min-load", "there": True}
        assert run("set", "min-bandwidth", "--detector", identity[:6])["key"] == identity
        # The same detector, by its pattern; and one that is not there yet.
        assert run("set", "none none publishers", "--pattern", "[A];[B]")["key"] == identity
        other = run("set", "min-impact", "--pattern", "[B] ; [A]")
        assert other["there"] is False
        wanted = {"default": "min-load", identity: "none none publishers", other["key"]: "min-impact"}
        assert {each["key"]: each["policy"] for each in run("show")["policies"]} == wanted
        eventually(lambda: {key: each.text for key, each in live.node.policies.set.items()} == wanted)
        text = run("show", as_json=False)
        assert "all without a request  min-load" in text
        assert "[A] ; [B]" in text
        assert "not there now" in text
        assert run("unset", "--detector", other["key"][:7])["was"] == "min-impact"
        assert run("unset", "--pattern", "[A] ; [B]")["key"] == identity
        assert "no longer set for all without a request" in run("unset", as_json=False)
        assert run("show")["policies"] == []
        eventually(lambda: not live.node.policies.set)


def test_unknown_policies_are_refused(run: Callable[..., Any], server: Server) -> None:
    with Client(server.url) as client:
        client.register(event_type("A", {}))
        for arguments, error, problem in [
            (("set", "min-latnecy"), DistcedError, "did you mean min-latency"),
            (("set", "none none nowhere"), DistcedError, "locality: nowhere .allowed: subscribers, publishers, none"),
            (("set", "min-load", "--detector", "c0ffee"), DistcedError, "c0ffee"),
            (("set", "min-load", "--pattern", "[X]"), PatternError, "unknown event type: X"),
            (
                ("set", "min-load", "--pattern", "[A]", "--detector", "c0"),
                DistcedError,
                "both a pattern and a detector",
            ),
            (("unset",), DistcedError, "no distribution policy is set for it .allowed: none is set"),
            (("unset", "--detector", "c0"), DistcedError, "is set for it: c0"),
        ]:
            with pytest.raises(error, match=problem):
                run(*arguments)
    assert run("show")["policies"] == []


def test_malformed_policy_of_others_is_shown(
    run: Callable[..., Any], server: Server, make_bus: Callable[..., Bus]
) -> None:
    bus = make_bus(server.url)
    for key, payload in {"default": b'{"policy": "min-everything"}', "c1": b"garbage"}.items():
        bus.publish(administration_topic("policy", key), payload, qos=1, retain=True)
    assert bus.flush()
    bad, worse = run("show")["policies"]
    assert "no distribution policy of this name: min-everything" in bad["problem"]
    assert "no SetPolicy" in worse["problem"]
    assert run("unset")["key"] == "default"
    assert run("unset", "--detector", "c1")["key"] == "c1"


@pytest.mark.slow
def test_absent_server_is_an_error() -> None:
    command = typer.main.get_command(policy)
    with pytest.raises(DistcedError, match="nothing listens"):
        command(args=["show", "--server", "mqtt://127.0.0.1:9"], standalone_mode=False)

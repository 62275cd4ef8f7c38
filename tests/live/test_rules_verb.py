"""The verbs `rules apply`, `ls` and `rm` on a real server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from distced.brokers.live.mqtt_server import Server
from distced.brokers.live.node import LiveNode
from distced.middleware.cli.command import main
from distced.middleware.cli.logs import configure_logging
from distced.middleware.client.client import Client
from distced.middleware.model.event_types import event_type
from tests.support.verbs import load_verbs

pytestmark = pytest.mark.mqtt

RULES = """
Seen = [A as a]
type Large = A where k > 10
Seen -> Each(k = a.k)
[Large as l] -> Big(k = l.k)
"""


def test_rules_are_applied_shown_and_removed(
    start_mosquitto: Callable[..., Server], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    load_verbs()
    # Lines of the log do not go between those of the verbs.
    configure_logging(level="error")
    server = start_mosquitto()
    file = tmp_path / "office.pattern"
    file.write_text(RULES)

    def run(*arguments: str) -> tuple[int, str]:
        code = main(["rules", *arguments, "--server", server.url])
        return code, capsys.readouterr().out

    def document(*arguments: str) -> Any:
        return json.loads(run(*arguments, "--json")[1])

    def actions(report: Any) -> dict[str, str]:
        return {each["rule"]: each["action"] for each in report["changes"]}

    with LiveNode(server.url, "attic"), Client(server.url) as client:
        client.register(event_type("A", {"k": "number"}))
        assert run("ls")[0] == 1
        code, out = run("apply", str(file), "--dry-run")
        assert code == 1 and "+ Each" in out and "office: 2 to add" in out
        # Without a terminal nothing is changed unasked.
        assert run("apply", str(file))[0] == 2 and run("ls")[0] == 1
        applied = document("apply", str(file), "--yes")
        assert {each["state"] for each in applied["states"].values()} == {"running"}
        assert run("apply", str(file), "--yes")[0] == 0
        assert run("apply", str(file), "--dry-run")[0] == 0
        reader = client.subscribe("[Big as b]")
        source = client.source("s", ["A"], watermark=0)
        for number in (9, 11, 12):
            source.publish(source.create("A", number, k=number), watermark=number)
        assert [len(event.constituents) for _ in range(2) if (event := reader.get(20.0)) is not None] == [1, 1]
        reader.close()
        found: dict[str, int] = {}
        while found != {"Each": 3, "Big": 2}:
            found = {each["rule"]: each["found"] for each in document("ls")["rules"]}
        file.write_text(RULES.replace("[Large as l] -> Big(k = l.k)", "").replace("a.k)", "a.k + 1)"))
        assert actions(document("apply", str(file), "--dry-run")) == {"Each": "changed", "Big": "removed"}
        assert run("apply", str(file), "--yes")[0] == 0
        assert [each["rule"] for each in document("ls")["rules"]] == ["Each"]
        # A derived type alone is a change, too.
        file.write_text(file.read_text() + "type Small = A where k < 5\n")
        code, out = run("apply", str(file), "--dry-run")
        assert code == 1 and "+ type Small" in out
        assert run("apply", str(file), "--yes")[0] == 0
        assert run("apply", str(file), "--dry-run")[0] == 0
        # Longer than nodes accept.
        long = tmp_path / "long.pattern"
        long.write_text(f"[A as a where '{'x' * 11_000}' == 'y'] -> Long(k = a.k)\n")
        assert main(["rules", "apply", str(long), "--yes", "--server", server.url]) == 2
        assert "rules that nodes do not accept" in capsys.readouterr().err
        assert [each["rule"] for each in document("ls")["rules"]] == ["Each"]
        assert run("rm", "other", "--yes")[0] == 2
        assert actions(document("rm", "office/Each", "--dry-run")) == {"Each": "removed"}
        assert run("rm", str(file), "--yes")[0] == 0
        assert run("ls")[0] == 1

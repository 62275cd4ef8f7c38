"""Files of scenarios, and the verb that runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from distced.middleware.model.errors import DistcedError
from distced.middleware.model.timestamps import MILLISECOND, SECOND
from distced.middleware.wire.directory_entries import Hints
from distced.simulations.network.cli import simulate
from distced.simulations.network.scenario.toml import load_scenario, parse_scenario
from distced.simulations.network.scenario_model import (
    START,
    Crash,
    Join,
    Leave,
    Partition,
    ScenarioError,
    ScenarioSubscription,
    ScheduledMove,
    ServerRestart,
)

EXAMPLE = Path(__file__).parents[2] / "simulations/network/examples/cold-rooms.toml"

WHOLE = """
seed = 7
duration = "4s"
policy = "min-bandwidth"
keepalive = "5s"
again = 0.25

[topology.sites.centre]
[topology.sites.edge]
local_latency = "2ms"
[topology.nodes.n1]
site = "centre"
[topology.nodes.n2]
site = "edge"
capacity = 1000
[topology.publishers.door]
site = "edge"
types = ["A"]
[topology.subscribers.app]
site = "centre"
[[topology.links]]
between = ["centre", "edge"]
latency = "5ms"

[types.A]
k = "number"
who = "string"

[[events]]
publisher = "door"
event = "A 1s k=1 who='Jean'"

[[events]]
publisher = "door"
event = "A 1500ms 2s k=2"

[[subscriptions]]
name = "q"
subscriber = "app"
pattern = "[A where k == 2]"
policy = "min-load"
hints = { nodes = ["n1"], selectivity = 0.5 }

[[subscriptions]]
name = "r"
subscriber = "app"
pattern = "[A]"
at = "1s"
until = "3s"
decomposition = "full"

[[moves]]
at = "2s"
detector = "q"
node = "n2"

[[faults]]
kind = "crash"
node = "n1"
at = "1s"
until = "2s"
silent = false

[[faults]]
kind = "join"
node = "n2"
at = "1s"

[[faults]]
kind = "leave"
node = "n2"
at = "3s"

[[faults]]
kind = "partition"
between = ["edge", "centre"]
at = "1s"
until = "2s"

[[faults]]
kind = "server-restart"
site = "edge"
at = "1s"
until = "2s"
"""


def test_scenario_file_may_have_every_key() -> None:
    scenario = parse_scenario(WHOLE)
    assert (scenario.seed, scenario.duration, scenario.keepalive, scenario.again) == (7, 4 * SECOND, 5 * SECOND, 0.25)
    assert scenario.distribution == "min-bandwidth"
    assert scenario.topology.sites["edge"].local_latency == 2 * MILLISECOND
    assert scenario.topology.nodes["n2"].capacity == 1000
    (stream,) = scenario.streams
    events = [event for send in stream.sends for event in send.events]
    assert [(each.lo - START, each.hi - START, each.seq) for each in events] == [
        (SECOND, SECOND, 0),
        (1500 * MILLISECOND, 2 * SECOND, 1),
    ]
    assert events[1].attributes == {"k": 2, "who": None}
    assert stream.sends[-1].watermark == START + 4 * SECOND
    assert scenario.subscriptions == (
        ScenarioSubscription(
            "q",
            "app",
            "[A where k == 2]",
            distribution="min-load",
            hints=Hints(nodes=("n1",), selectivity=0.5),
        ),
        ScenarioSubscription("r", "app", "[A]", SECOND, 3 * SECOND, decomposition="full"),
    )
    assert scenario.moves == (ScheduledMove(2 * SECOND, "q", "n2"),)
    assert scenario.faults == (
        Crash(SECOND, "n1", 2 * SECOND, silent=False),
        Join(SECOND, "n2"),
        Leave(3 * SECOND, "n2"),
        Partition(SECOND, 2 * SECOND, ("edge", "centre")),
        ServerRestart(SECOND, 2 * SECOND, "edge"),
    )


@pytest.mark.parametrize(
    ("instead_of", "written", "said"),
    [
        ("seed = 7", "seeds = 7", "unknown key: seeds .*did you mean seed"),
        ('duration = "4s"', 'duration = "4 parsecs"', "not a duration.*duration"),
        ('policy = "min-bandwidth"', 'policy = "min-bandwith"', "did you mean min-bandwidth"),
        ('site = "centre"\n[topology.nodes.n2]', 'site = "center"\n[topology.nodes.n2]', "did you mean centre"),
        ('k = "number"', 'k = "figure"', "types.A"),
        ('event = "A 1s k=1', 'event = "B 1s k=1', "events 1"),
        ("k=1 who", "k='one' who", "events 1"),
        ('publisher = "door"\nevent = "A 1s', 'publisher = "window"\nevent = "A 1s', "no publisher .*window"),
        ('subscriber = "app"\npattern = "[A where', 'subscriber = "pda"\npattern = "[A where', "no subscriber"),
        ('pattern = "[A]"', "", "needs a pattern or a file"),
        ('decomposition = "full"', 'decomposition = "fully"', "subscriptions 2"),
        ('policy = "min-load"', 'policy = "min-lod"', "subscriptions 1"),
        ('kind = "leave"', 'kind = "elope"', "faults 3"),
        ('at = "1s"\nuntil = "2s"\n\n[[faults]]\nkind = "server', 'at = "1s"\n\n[[faults]]\nkind = "server', "until"),
        ("[types.A]", "[types.A", "not TOML"),
    ],
)
def test_error_in_a_scenario_file_names_its_place(instead_of: str, written: str, said: str) -> None:
    assert instead_of in WHOLE
    with pytest.raises(DistcedError, match=f"(?s){said}") as raised:
        parse_scenario(WHOLE.replace(instead_of, written, 1), name="evening.toml")
    assert "evening.toml" in str(raised.value)


def test_values_are_drawn_from_the_ranges_of_the_file() -> None:
    scenario = load_scenario(EXAMPLE)
    events = [event for stream in scenario.streams for send in stream.sends for event in send.events]
    temperatures = {each.attributes["temp"] for each in events if each.type == "Temp"}
    assert temperatures == set(range(12, 25))
    assert {each.attributes["person"] for each in events if each.type == "Pers"} == {
        "Jean", "Peter", "Brian", "Alice", "Kim",
    }  # fmt: skip
    text = EXAMPLE.read_text()
    for instead_of, written in (
        ("temp = { from = 12, to = 24 }", "temp = { from = 12 }"),
        ("[values.Temp]", "[values.Tmp]"),
        ("temp = { from", "tmp = { from"),
    ):
        with pytest.raises(ScenarioError, match="values"):
            parse_scenario(text.replace(instead_of, written), folder=EXAMPLE.parent)


def test_pattern_file_of_a_scenario_is_in_utf_8(tmp_path: Path) -> None:
    text = WHOLE.replace('pattern = "[A]"', 'file = "a.pattern"', 1)
    (tmp_path / "a.pattern").write_text("\ufeff[A]\n", encoding="utf-8")
    assert parse_scenario(text, folder=tmp_path).subscriptions == parse_scenario(WHOLE).subscriptions
    (tmp_path / "a.pattern").write_text("[A]\n", encoding="utf-16")
    with pytest.raises(ScenarioError, match=r"cannot read the pattern: a\.pattern.*save the file as UTF-8"):
        parse_scenario(text, folder=tmp_path)


def test_seed_of_the_caller_replaces_that_of_the_file() -> None:
    one, other = load_scenario(EXAMPLE), load_scenario(EXAMPLE, seed=9)
    assert (one.seed, other.seed) == (1, 9)
    assert one.streams != other.streams


def test_verb_simulate_shows_the_outcome(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    assert simulate(EXAMPLE, seed=None, log=log, check=True, as_json=False) == 0
    shown = capsys.readouterr().out
    for part in (
        "cold",
        "still-cold",
        "as one engine",
        "floor-1 → street",
        "floor-1-b",
        "the same composite events as",
    ):
        assert part in shown
    assert log.stat().st_size > 100_000


def test_verb_simulate_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate(EXAMPLE, seed=3, log=None, check=True, as_json=True) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["seed"] == 3
    assert figures["complete"] is True
    assert figures["subscriptions"]["cold"]["check"] == {"missing": 0, "unexpected": 0}
    assert figures["subscriptions"]["cold"]["found"] > 0
    assert figures["bytes"] == sum(sum(link["bytes"].values()) for link in figures["links"])
    moved = [each for each in figures["moved"] if each["detector"] == figures["subscriptions"]["cold"]["detector"]]
    assert moved and 30 <= moved[0]["at"] < 31
    assert moved[0]["from"] != moved[0]["to"]


def test_verb_simulate_fails_where_a_subscription_was_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "refused.toml"
    file.write_text(WHOLE.replace("[A where k == 2]", "[A where height == 2]"))
    assert simulate(file, seed=None, log=None, check=True, as_json=False) == 1
    assert "refused" in capsys.readouterr().out
    with pytest.raises(DistcedError, match="cannot read"):
        simulate(tmp_path / "nothing.toml", seed=None, log=None, check=True, as_json=False)

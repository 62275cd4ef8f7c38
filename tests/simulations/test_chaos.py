"""Fault campaigns: nothing is lost, found twice or wrong, and a run is a function of its seed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

import pytest

from distced.middleware.cli.command import main
from distced.simulations.chaos.campaign import Tally, Verdict, judge, run, run_all, shrunk
from distced.simulations.chaos.outcome_report import simulated
from distced.simulations.chaos.schedule import KINDS, scenario

ALL = tuple(KINDS)
FIRST = ALL[:10]
"""Kinds of the first campaigns, whose seeds are below."""


WITHOUT_DISK = ",".join(each for each in ALL if each != "disk")
"""All kinds but the one with which checkpoints may be lost: the store never fails."""


def failed(verdicts: Iterable[Verdict]) -> list[str]:
    """Those that lose something; with a store that fails only those that do not say so."""
    return [f"{each.seed}: {each.text}" for each in verdicts if each.failed]


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 60, 20))
def test_nothing_is_lost_doubled_or_wrong(start: int) -> None:
    verdicts = [run(seed, ALL) for seed in range(start, start + 20)]
    assert failed(verdicts) == []
    assert sum(each.expected for each in verdicts) > 1_000 and sum(len(each.recovery) for each in verdicts) > 20


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed",
    [
        # A part of a recovered pattern whose only node refused it; a loss before the base of a host that began empty.
        356,
        # A reader of two homes, one of them lost for a while.
        301,
        608,
        # A part whose host had answered before the directory knew of it.
        734,
        # A position without a message that shows what is missing.
        794,
        # A reader of composite events whose detector was lost with its host, or with the memory of the server.
        892,
        2052,
        # A replica that came while the server had forgotten the sources.
        3146,
        # A life that is complete, and that no message has confirmed.
        2141,
        # A subscriber that was away for longer than its subscription.
        3277,
        # A checkpoint of a reader whose detector was lost at the time.
        23750,
        # A subscriber at the home of a host that a server has forgotten, as the first host was back.
        22179,
        # A detector that waits for its parts, and whose clients have listened to a host before.
        300426,
        # A reader that has followed a life at one home finds it again at another one.
        300443,
        # A home of a reader that comes back to it, and that has come further elsewhere.
        301144,
    ],
)
def test_schedules_that_failed_once(seed: int) -> None:
    assert failed([run(seed, FIRST), run(seed, (*FIRST[:6], "twice"))]) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "kinds"),
    [
        # A replica that was lost after its primary, and whose node is back.
        (53, "crash,all-nodes,power"),
        # A reader that was found dead after two minutes: its frames were not kept, which another life seemed to cover.
        (20144, ",".join(ALL[:18])),
        # A replica whose position was unknown as the home before it was left.
        (1008480, ",".join(ALL[:18])),
        # A reader that comes back to a home, as that of the replica is lost.
        (1003379, ",".join(ALL[:18])),
        # Checkpoints written in part, twice, which counted as the last two.
        (67, "torn,crash,all-nodes,power"),
        # A subscriber that is new at several homes of a quiet detector.
        (21, "client,crash"),
        # One whose replica is lost before anything has come of it.
        (131, "client,crash"),
        # A store that takes longer to read than one that fails is tried.
        (1003025, ",".join(ALL)),
        # A node that was cut off as a client left, and cleared its subscription once both were back.
        (1004954, ",".join(ALL)),
        # A part that is recovered for a detector that begins without a state, and reads its sources from then on.
        (1003010, ",".join(ALL)),
        # The same, with a server that knows of a source only later.
        (1002304, ",".join(ALL)),
        # A server that had forgotten a source, whose messages came before it was announced again.
        (3002446, WITHOUT_DISK),
        # A subscription that was new, and in no checkpoint of its detector, as the node and the server were lost.
        (3001313, WITHOUT_DISK),
        (3007925, WITHOUT_DISK),
        # A client that was away for longer than its detectors were kept.
        (3001327, WITHOUT_DISK),
        (3004113, WITHOUT_DISK),
        # A source that was acknowledged while its publisher had no connection.
        (3009938, WITHOUT_DISK),
        # A publisher that was lost with all nodes and the server's memory, and started again only seconds later.
        (702116, ",".join(ALL)),
        # A detector that was on its way to a node as its checkpoint was read there.
        (700759, ",".join(ALL)),
        # A client without a connection as the replica that it listened to was given up, and another home was offered.
        (702274, ",".join(ALL)),
        # A host and the node that chooses the next one, lost with a server that remembers the latter.
        (1008199, ",".join(ALL)),
    ],
)
def test_schedules_of_some_kinds_that_failed_once(seed: int, kinds: str) -> None:
    assert failed([run(seed, kinds.split(","))]) == []


def test_run_is_a_function_of_its_seed() -> None:
    one, other = run(11, ALL), run(11, ALL)
    assert one == other and one.expected > 0
    assert scenario(11, ALL) != scenario(12, ALL)


@pytest.mark.slow
def test_failing_schedule_becomes_small() -> None:
    """Without checkpoints nodes that are lost cost composite events; one fault is enough to show it."""
    for seed in range(100):
        planned = replace(scenario(seed, ("crash", "cut")), checkpoints=False)
        verdict = judge(seed, planned)
        if verdict.lost and len(planned.faults) > 2:
            break
    small = shrunk(verdict, lambda each: each.lost > 0)
    assert small.lost > 0 and small.is_honest
    assert len(small.scenario.faults) == 1 and len(small.scenario.subscriptions) == 1
    assert judge(small.seed, small.scenario) == small
    tally = Tally()
    tally.add(small)
    assert not simulated(tally, seed).sound


@pytest.mark.spawn
def test_runs_in_several_processes_are_those_in_one() -> None:
    one, other = list(run_all(range(5, 9), ALL)), list(run_all(range(5, 9), ALL, jobs=2))
    assert one == other and [each.seed for each in one] == [5, 6, 7, 8]
    # What no report needs is not kept.
    assert not any(each.scenario.streams for each in one if not each.failed)


def test_verb_reports_for_people_and_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chaos", "--runs", "2", "--seed", "2"]) == 0
    printed = capsys.readouterr().out
    assert "composite events" in printed and "2 runs from seed 2" in printed
    assert main(["chaos", "--runs", "1", "--kinds", "crash,cut", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)["figures"]
    assert figures["runs"] == 1 and figures["lost"] == 0
    assert main(["chaos", "--kinds", "crash,earthquake"]) == 2
    error = capsys.readouterr().err
    assert "earthquake" in error and "all-nodes" in error and "--kinds" in error


@pytest.mark.mqtt
@pytest.mark.spawn
@pytest.mark.slow
def test_live_faults_lose_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    kinds = "kill-publisher,kill-client,restart-server,power"
    assert main(["chaos", "--live", "--faults", "4", "--seed", "2", "--kinds", kinds, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)["figures"]
    assert sum(figures["faults"].values()) == 4 and figures["expected"]["each"] > 100
    assert sum(figures["lost"].values()) == sum(figures["wrong"].values()) == sum(figures["doubled"].values()) == 0

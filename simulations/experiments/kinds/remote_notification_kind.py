"""Kind `remote-notification`: bytes on all links and on wireless links, against the number of subscribers.

composite-event-framework-2004, Fig. 12: the composite-event framework against the primitive solution, in scenario 2 of
the Active Office. `experiments.office_network` has the network and both solutions; the shipped file says what the
article fixes, and what not. Table of the file:

    [remote-notification]
    solutions = ["framework", "mqtt", "jms"]     # variants of the framework, and of the primitive solution
    duration = "8h"                              # of virtual time
    policy = "min-bandwidth"                     # distribution policy of the framework

    [remote-notification.network]                # latencies, bandwidths, keepalive

    [[remote-notification.settings]]             # the office, and what varies
    name = "article"
    about = "..."
    subscribers = [1, 6]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from distced.middleware.model.detection import parse_detection
from distced.middleware.model.timestamps import HOUR, MILLISECOND, MINUTE, parse_duration
from distced.policies.distribution.policy import parse_policy
from distced.policies.topology.quantities import parse_bandwidth
from distced.simulations.experiments.kinds.remote_notification_figures import figures
from distced.simulations.experiments.model import Cell, ExperimentKind, Row, SpecError
from distced.simulations.experiments.office_network.framework_run import expected, run_framework
from distced.simulations.experiments.office_network.office_events import office_events
from distced.simulations.experiments.office_network.primitive_run import PRIMITIVE, run_primitive
from distced.simulations.experiments.office_network.setting import (
    NETWORK,
    SETTING,
    NetworkSpec,
    SettingSpec,
    traffic_row,
)
from distced.simulations.experiments.spec_checks import at_key, check_known, check_range, named_once
from distced.simulations.network.scenario_model import START

FRAMEWORK = {"framework": False, "framework-filters": True}
"""Variants of the framework, and whether sensors leave out events that nobody reads."""

MOST_PDAS = 100


class RemoteNotificationSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Table of the kind."""

    solutions: list[str]
    settings: list[SettingSpec]
    duration: str = "8h"
    policy: str = "min-bandwidth"
    network: NetworkSpec = NetworkSpec()


def check(spec: RemoteNotificationSpec) -> None:
    """Check values; raises `SpecError`."""
    named_once(spec.solutions, ("solutions",), "solution")
    for place, solution in enumerate(spec.solutions):
        check_known(solution, [*FRAMEWORK, *PRIMITIVE], ("solutions", place), "no solution of this name")
    named_once([each.name for each in spec.settings], ("settings",), "setting")
    for place, setting in enumerate(spec.settings):
        check_setting(setting, ("settings", place))
    with at_key("duration"):
        duration = parse_duration(spec.duration)
    check_range(duration / MINUTE, 1, 24 * HOUR / MINUTE, ("duration",), "duration of this many minutes")
    with at_key("policy"):
        parse_policy(spec.policy, where="policy")
    check_network(spec.network, ("network",))


def check_setting(setting: SettingSpec, path: Sequence[str | int]) -> None:
    """Check a setting at a path; raises `SpecError`."""
    named_once([str(each) for each in setting.subscribers], (*path, "subscribers"), "number of subscribers")
    for place, count in enumerate(setting.subscribers):
        check_range(count, 1, MOST_PDAS, (*path, "subscribers", place), "number of subscribers")
    with at_key(*path, "detection"):
        policy = parse_detection(setting.detection)
    for key in ("heartbeat", "batch"):
        given = getattr(setting, key)
        if given:
            with at_key(*path, key):
                check_range(parse_duration(given) / MILLISECOND, 10, HOUR / MILLISECOND, (*path, key),
                            "duration of this many ms")  # fmt: skip
    if policy.text == "guaranteed" and not setting.heartbeat:
        raise SpecError("guaranteed detection without promises", (*path, "detection"), given="guaranteed",
                        allowed="with a heartbeat", advice='write heartbeat = "1s"')  # fmt: skip


def check_network(network: NetworkSpec, path: Sequence[str | int]) -> None:
    """Check the network at a path; raises `SpecError`."""
    for key in ("wired_latency", "wireless_latency", "wireless_jitter"):
        with at_key(*path, key):
            check_range(parse_duration(getattr(network, key)) / MILLISECOND, 0, HOUR / MILLISECOND, (*path, key),
                        "duration of this many ms")  # fmt: skip
    for key in ("wired_bandwidth", "wireless_bandwidth"):
        with at_key(*path, key):
            parse_bandwidth(getattr(network, key))
    for key in ("keepalive", "tick"):
        with at_key(*path, key):
            check_range(parse_duration(getattr(network, key)) / MILLISECOND, 1, HOUR / MILLISECOND, (*path, key),
                        "duration of this many ms")  # fmt: skip


def cells(spec: RemoteNotificationSpec, seeds: Sequence[int]) -> list[Cell]:
    """Settings × solutions × numbers of subscribers × seeds."""
    made = []
    for setting in spec.settings:
        for solution in spec.solutions:
            settings = {
                "setting": msgspec.to_builtins(msgspec.structs.replace(setting, about="", subscribers=())),
                "network": msgspec.to_builtins(spec.network),
                "duration": spec.duration,
                "policy": spec.policy if solution in FRAMEWORK else "",
            }
            made += [
                Cell({"setting": setting.name, "solution": solution, "subscribers": count}, seed, settings)
                for count in setting.subscribers
                for seed in seeds
            ]
    return made


def run(cell: Cell) -> list[Row]:
    """One row: bytes by class of link and by area, and what was detected."""
    settings: Mapping[str, Any] = cell.settings
    setting = SETTING.decode(msgspec.json.encode(settings["setting"]))
    network = NETWORK.decode(msgspec.json.encode(settings["network"]))
    duration = parse_duration(settings["duration"])
    solution, pdas = str(cell.factors["solution"]), int(cell.factors["subscribers"])
    office = office_events(cell.seed, setting, duration)
    people = [setting.person(number) for number in range(pdas)]
    due = {person: expected(setting, office, person, START + duration) for person in dict.fromkeys(people)}
    row: Row = {"events": len(office.events), "expected": sum(due[person] for person in people)}
    if solution in FRAMEWORK:
        outcome = run_framework(
            network, setting, pdas, duration, cell.seed, settings["policy"], filters=FRAMEWORK[solution]
        )
        found = [each.found.values() for each in outcome.subscriptions.values()]
        row["found"] = sum(each.event.hi <= START + duration for some in found for each in some)
        row["nodes"] = ", ".join(sorted({each.node for each in outcome.detectors.values()}))
        links = list(outcome.links)
    else:
        links, received = run_primitive(network, setting, pdas, duration, cell.seed, solution)
        row["received"] = received
    return [{**row, **traffic_row(links)}]


KIND = ExperimentKind(
    "remote-notification",
    "bytes of remote notification against the number of subscribers, with and without the framework",
    RemoteNotificationSpec,
    cells,
    run,
    figures,
    check,
)

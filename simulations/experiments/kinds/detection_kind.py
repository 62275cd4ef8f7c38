"""Kind `detection`: delay against errors of detection policies, under several distributions of delays.

composite-event-framework-2004, "Detection Policies". The networks and the counting are those of `distced bench
detection`; here over many seeds, with intervals. Table of the file:

    [detection]
    policies = ["best-effort", "probabilistic(0.99)", "guaranteed"]
    networks = ["steady", "heavy tail"]
    duration = "10min"                 # of virtual time, of which the first fifth is not counted
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from distced.middleware.model.detection import parse_detection
from distced.middleware.model.timestamps import MILLISECOND, SECOND, parse_duration
from distced.policies.detection import detection_policy
from distced.simulations.benchmarks.detection import NETWORKS, messages
from distced.simulations.benchmarks.detection import run as run_policy
from distced.simulations.experiments.kinds.detection_figures import figures
from distced.simulations.experiments.model import Cell, ExperimentKind, Row
from distced.simulations.experiments.spec_checks import at_key, check_known, check_range, named_once


class DetectionSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Table of the kind."""

    policies: list[str]
    networks: list[str]
    duration: str = "10min"


def check(spec: DetectionSpec) -> None:
    """Check values; raises `SpecError`."""
    named_once(spec.policies, ("policies",), "policy")
    for place, policy in enumerate(spec.policies):
        with at_key("policies", place):
            parse_detection(policy)
    named_once(spec.networks, ("networks",), "network")
    for place, network in enumerate(spec.networks):
        check_known(network, NETWORKS, ("networks", place), "no network of this name")
    with at_key("duration"):
        duration = parse_duration(spec.duration)
    check_range(duration / SECOND, 1, 86_400, ("duration",), "duration of this many seconds")


def cells(spec: DetectionSpec, seeds: Sequence[int]) -> list[Cell]:
    """Networks × policies × seeds."""
    settings = {"duration": spec.duration}
    return [
        Cell({"network": network, "policy": policy}, seed, settings)
        for seed in seeds
        for network in spec.networks
        for policy in spec.policies
    ]


def run(cell: Cell) -> list[Row]:
    """One row: delays in ms, and counts of events."""
    network, policy = str(cell.factors["network"]), str(cell.factors["policy"])
    arriving = messages(NETWORKS[network], cell.seed, parse_duration(cell.settings["duration"]) / SECOND)
    made = run_policy(detection_policy(policy), arriving)
    return [
        {
            "events": len(made.delays),
            "mean_ms": made.mean / MILLISECOND,
            "p50_ms": made.delay(0.5) / MILLISECOND,
            "p99_ms": made.delay(0.99) / MILLISECOND,
            "late": made.late,
            "unstable": made.unstable,
            "incidents": made.incidents,
            "share": made.share,
            "allowed": _allowed(policy),
        }
    ]


def _allowed(policy: str) -> float | None:
    """Share of unstable events that a policy allows; None where it promises nothing."""
    parsed = parse_detection(policy)
    if parsed.text == "guaranteed":
        return 0.0
    return 1 - parsed.probability if parsed.text.startswith("probabilistic") else None


KIND = ExperimentKind(
    "detection",
    "delay against errors of detection policies, under several distributions of delays",
    DetectionSpec,
    cells,
    run,
    figures,
    check,
)

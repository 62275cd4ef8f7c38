"""Kind `policies`: distribution policies side by side, on workloads and topologies, all on the same seeds.

composite-event-framework-2004, "Distribution Policies" and Table 1. The nodes are the shipped ones, in virtual time.
Table of the file:

    [policies]
    treatments = ["min-latency", "min-bandwidth", "central", "optimum-bandwidth"]      # `policy_runs`
    measured_from = 0.5                # share of a run after which it is measured; of a drift, from its first change
    losses = true                      # after the measured part of each run but optima, a node is lost

    [[policies.workloads]]             # `workloads.WorkloadSpec`
    name = "synthetic"
    kind = "synthetic"

    [[policies.topologies]]            # `topologies.TopologySpec`
    name = "star"
    kind = "star"
    sites = 8
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from distced.middleware.model.timestamps import SECOND, parse_duration
from distced.simulations.experiments.kinds.policies_figures import figures
from distced.simulations.experiments.model import Cell, ExperimentKind, Row
from distced.simulations.experiments.policy_runs import (
    ARRIVES_WITHIN,
    LOST_AT,
    OPTIMA,
    check_treatment,
    code_of,
    measured_until,
    treated,
)
from distced.simulations.experiments.spec_checks import at_key, check_range, named_once
from distced.simulations.experiments.topologies import TopologySpec, build, check_topology, resolved
from distced.simulations.experiments.workloads import (
    WorkloadSpec,
    check_workload,
    drifts_at,
    resolved_workload,
    scenario_of,
)

LEAST_MEASURED: Final = 2 * SECOND
"""Least measured part of a run before a loss, ns."""


class PoliciesSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Table of the kind.

    Attributes:
        codes: digests of the modules of installed policies, filled in: with another module they run again.
    """

    treatments: list[str]
    workloads: list[WorkloadSpec]
    topologies: list[TopologySpec]
    measured_from: float = 0.5
    losses: bool = False
    codes: dict[str, str] = {}


class _Settings(msgspec.Struct, frozen=True):
    """Settings of a cell.

    Attributes:
        until_loss: whether the measured part ends before a loss, in this cell or in those it is compared with.
        losses: whether a node is lost in this cell.
    """

    workload: WorkloadSpec
    topology: TopologySpec
    measured_from: float
    until_loss: bool
    losses: bool
    code: str = ""


def resolve(spec: PoliciesSpec, folder: Path) -> PoliciesSpec:
    """The spec with the tables of topology files, and with patterns of recordings."""
    topologies = [resolved(each, folder, ("topologies", place)) for place, each in enumerate(spec.topologies)]
    workloads = [resolved_workload(each, folder, ("workloads", place)) for place, each in enumerate(spec.workloads)]
    codes = {each: code for each in spec.treatments if (code := code_of(each))}
    return msgspec.structs.replace(spec, topologies=topologies, workloads=workloads, codes=codes)


def check(spec: PoliciesSpec) -> None:
    """Check values; raises `SpecError`."""
    named_once(spec.treatments, ("treatments",), "treatment")
    for place, treatment in enumerate(spec.treatments):
        with at_key("treatments", place):
            check_treatment(treatment)
    named_once([each.name for each in spec.workloads], ("workloads",), "workload")
    for place, workload in enumerate(spec.workloads):
        check_workload(workload, ("workloads", place))
    named_once([each.name for each in spec.topologies], ("topologies",), "topology")
    for place, topology in enumerate(spec.topologies):
        check_topology(topology, ("topologies", place))
    check_range(spec.measured_from, 0.3, 0.7 if spec.losses else 0.9, ("measured_from",), "share of a run")
    for place, workload in enumerate(spec.workloads) if spec.losses else ():
        begins = max(spec.measured_from, 1 / workload.phases if workload.kind == "drift" else 0.0)
        least = (ARRIVES_WITHIN + LEAST_MEASURED) / SECOND / (LOST_AT - begins)
        check_range(parse_duration(workload.duration) / SECOND, least, 86_400, ("workloads", place, "duration"),
                    "duration of this many seconds, with a loss")  # fmt: skip


def cells(spec: PoliciesSpec, seeds: Sequence[int]) -> list[Cell]:
    """Workloads × topologies × treatments × seeds."""
    # An optimum is tied to its nodes: a loss would say nothing about it.
    losses = {each: spec.losses and each not in OPTIMA for each in spec.treatments}
    return [
        Cell(
            {"workload": workload.name, "topology": topology.name, "treatment": treatment},
            seed,
            _Settings(
                workload,
                topology,
                spec.measured_from,
                spec.losses,
                losses[treatment],
                spec.codes.get(treatment, ""),
            ),
        )
        for seed in seeds
        for workload in spec.workloads
        for topology in spec.topologies
        for treatment in spec.treatments
    ]


def run(cell: Cell) -> list[Row]:
    """One row; topology, streams and subscriptions are the same for every treatment of a seed."""
    settings: _Settings = cell.settings
    workload, topology = settings.workload, settings.topology
    network = build(topology, Random(f"{topology.name} {cell.seed}"))
    scenario = scenario_of(workload, network, cell.seed)
    since = round(parse_duration(workload.duration) * settings.measured_from)
    if workload.kind == "drift":
        since = drifts_at(workload)
    until = measured_until(scenario) if settings.until_loss else scenario.duration
    made = treated(scenario, str(cell.factors["treatment"]), since, until)
    return [made.figures(losses=settings.losses)]


KIND = ExperimentKind(
    "policies",
    "distribution policies, a central detector and the optimum, on workloads and topologies",
    PoliciesSpec,
    cells,
    run,
    figures,
    check,
    resolve,
)

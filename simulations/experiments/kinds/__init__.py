"""Kinds of experiments, by name; a kind is imported where it is used."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from distced.simulations.experiments.model import ExperimentError, ExperimentKind

MODULES: Final = {
    "policies": "distced.simulations.experiments.kinds.policies_kind",
    "detection": "distced.simulations.experiments.kinds.detection_kind",
    "remote-notification": "distced.simulations.experiments.kinds.remote_notification_kind",
    "notification-delay": "distced.simulations.experiments.kinds.notification_delay_kind",
}
"""The module of each kind, whose `KIND` is the kind."""


def kind_named(name: str) -> ExperimentKind:
    """The kind of a name; raises `ExperimentError`."""
    if name not in MODULES:
        raise ExperimentError("no kind of experiment", given=name, allowed=", ".join(MODULES))
    kind: ExperimentKind = import_module(MODULES[name]).KIND
    return kind

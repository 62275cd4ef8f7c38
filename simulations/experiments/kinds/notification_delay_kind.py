"""Kind `notification-delay`: delay of notifications, from the last primitive event to the subscriber.

composite-event-framework-2004, Fig. 13, in scenario 2 of the Active Office, on the network of `remote-notification`;
simulated, or live: nodes in processes, a real MQTT server, wireless links as proxies that delay what they carry. All
PDAs subscribe to C and C1 for each of the eight residents: those for Jean alone would be a few a day. Live results are
measurements: another run gives others. Table of the file:

    [notification-delay]
    live = false
    subscribers = 6
    speed = 240                      # of the office, live; its readings and the five minutes are divided by it
    settings = [{ name = "best effort", about = "...", detection = "best-effort", duration = "8h" }]
    network = { tick = "100ms" }     # as of the kind remote-notification
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from distced.middleware.model.timestamps import HOUR, MILLISECOND, MINUTE, parse_duration
from distced.policies.distribution.policy import parse_policy
from distced.simulations.experiments.kinds.notification_delay_figures import figures
from distced.simulations.experiments.kinds.remote_notification_kind import MOST_PDAS, check_network, check_setting
from distced.simulations.experiments.model import Cell, ExperimentKind, Row
from distced.simulations.experiments.office_network.framework_run import simulated_delays
from distced.simulations.experiments.office_network.live_delays import live_delays
from distced.simulations.experiments.office_network.setting import NETWORK, NetworkSpec, SettingSpec
from distced.simulations.experiments.spec_checks import at_key, check_range, named_once


class DelaySetting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A setting: detection, interval of the building's promises, length of the run in the time of the office."""

    name: str
    about: str
    detection: str = "best-effort"
    heartbeat: str = ""
    duration: str = "8h"

    @property
    def office(self) -> SettingSpec:
        return SettingSpec(self.name, "", (), detection=self.detection, heartbeat=self.heartbeat)


_SETTING: Final = msgspec.json.Decoder(DelaySetting)


class NotificationDelaySpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Table of the kind."""

    settings: list[DelaySetting]
    live: bool = False
    subscribers: int = 6
    speed: float = 240.0
    policy: str = "min-bandwidth"
    network: NetworkSpec = NetworkSpec()


def check(spec: NotificationDelaySpec) -> None:
    """Check values; raises `SpecError`."""
    named_once([each.name for each in spec.settings], ("settings",), "setting")
    for place, setting in enumerate(spec.settings):
        check_setting(msgspec.structs.replace(setting.office, subscribers=(1,)), ("settings", place))
        with at_key("settings", place, "duration"):
            minutes = parse_duration(setting.duration) / MINUTE
        check_range(minutes, 1, 24 * HOUR / MINUTE, ("settings", place, "duration"), "duration of this many minutes")
    check_range(spec.subscribers, 1, MOST_PDAS, ("subscribers",), "number of subscribers")
    check_range(spec.speed, 1, 1_000, ("speed",), "speed of the office")
    with at_key("policy"):
        parse_policy(spec.policy, where="policy")
    check_network(spec.network, ("network",))


def cells(spec: NotificationDelaySpec, seeds: Sequence[int]) -> list[Cell]:
    """Settings × seeds."""
    return [
        Cell(
            {"setting": setting.name},
            seed,
            {
                "setting": msgspec.to_builtins(msgspec.structs.replace(setting, about="")),
                "network": msgspec.to_builtins(spec.network),
                "subscribers": spec.subscribers,
                "policy": spec.policy,
                "live": spec.live,
                "speed": spec.speed if spec.live else 1.0,
            },
        )
        for setting in spec.settings
        for seed in seeds
    ]


def run(cell: Cell) -> list[Row]:
    """A row for each notification of each PDA."""
    settings: Mapping[str, Any] = cell.settings
    setting = _SETTING.decode(msgspec.json.encode(settings["setting"]))
    network = NETWORK.decode(msgspec.json.encode(settings["network"]))
    pdas, duration, policy = settings["subscribers"], parse_duration(setting.duration), settings["policy"]
    if settings["live"]:
        found = live_delays(network, setting.office, pdas, duration, cell.seed, policy, settings["speed"])
    else:
        found = simulated_delays(network, setting.office, pdas, duration, cell.seed, policy)
    return [
        {"notification": each.notification, "pda": each.pda + 1, "delay_ms": each.delay / MILLISECOND} for each in found
    ]


KIND = ExperimentKind(
    "notification-delay",
    "delay of notifications from the last primitive event, simulated or live",
    NotificationDelaySpec,
    cells,
    run,
    figures,
    check,
)

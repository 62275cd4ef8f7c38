"""Ray runtime: a new cluster on this machine, or a running one that is joined; pinning of actors to sites.

A Ray node offers its site as a custom resource, `site:<name>`; an actor that requests a thousandth of it starts and
restarts only there. Node affinity was rejected: the soft kind is not kept, and the hard kind never starts an actor on
another machine of the site. Detached actors were rejected: no process would be left to end them.

A new cluster binds to loopback and admits any user of this machine, or with a token those that have it (Ray's token
authentication). A cluster beyond loopback is joined with a token, or where the environment says that it has none.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from distced.brokers.live.watchdog import remove_folder, watched_folder
from distced.middleware.model.errors import DistcedError

RESTARTS: Final = 100
"""Restarts of an actor by Ray."""

NAMESPACE: Final = "distced"
"""Namespace of the actors' names in the cluster."""

_SHARE: Final = 0.001
"""Share of a site's resource for an actor: a thousand actors must fit."""

_PREFIX: Final = "site:"

_KNOCK: Final = 5.0
"""Time for a cluster to answer, s."""


def resources(sites: Iterable[str]) -> dict[str, float]:
    """Custom resources of a Ray node at these sites."""
    return {f"{_PREFIX}{site}": 1.0 for site in sites}


def host_options(node: str, site: str) -> dict[str, Any]:
    """Options of the actor of a broker node; at any site where none is named."""
    pinned = {f"{_PREFIX}{site}": _SHARE} if site else {}
    restarts = {"max_restarts": RESTARTS, "max_task_retries": -1}
    return {"name": actor_name(node), "num_cpus": 0, "resources": pinned, **restarts}


def actor_name(node: str) -> str:
    """Name of the actor of a broker node."""
    return f"distced-{node}"


def import_ray(*, loopback: bool, token: str = "") -> Any:
    """Import Ray, after its environment says whether to keep to loopback, and where the token is."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    if token:
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": token}
    if loopback:
        # Without it Ray takes an address of the machine in place of the loopback one, and listens on all of them.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        # Only this machine reaches loopback, so no authentication is needed.
        os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    try:
        import ray
    except ImportError:
        raise _not_installed() from None
    return ray


def use_ray(wanted: bool | None, *, joins: bool = False) -> bool:
    """Whether broker nodes are Ray actors: as wanted, or else where Ray is installed or a cluster is joined.

    Raises:
        DistcedError: Ray is wanted and not installed.
    """
    installed = sys.modules.get("ray") is not None or ("ray" not in sys.modules and find_spec("ray") is not None)
    if (wanted or (wanted is None and joins)) and not installed:
        raise _not_installed()
    return installed if wanted is None else wanted


def _not_installed() -> DistcedError:
    advice = "pip install 'distced[ray]', or run the nodes in this process: leave out --ray and --ray-address"
    return DistcedError("Ray is not installed", advice=advice)


def is_loopback(address: str) -> bool:
    """Whether the address of a cluster, `host:port`, is on this machine only; not of `auto`."""
    host = address.rpartition(":")[0].strip("[]") or address
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


class Runtime:
    """Ray in this process, from `start` to `stop`.

    Attributes:
        address: of the cluster that is joined, as `ray.init` takes it; empty for one of its own.
        token: file with the token of the cluster; empty for none.
        started: whether it is there.
    """

    def __init__(self, address: str = "", token: str = "") -> None:
        self.address = address
        self.token = token
        self.started = False
        self._folder: Path | None = None

    def start(self, cpus: int, sites: Iterable[str]) -> Any:
        """Start a cluster that offers these sites, or join the running one; the module ray.

        Args:
            cpus: how many actors are to start side by side, in a cluster of its own.

        Raises:
            DistcedError: where the cluster that is joined does not answer, or does not offer a site; where the token
                cannot be read.
        """
        if self.token:
            _check_token(Path(self.token))
        ray = import_ray(loopback=not self.address or is_loopback(self.address), token=self.token)
        if ray.is_initialized():
            advice = "shut it down first, or run the nodes in a process of their own"
            raise DistcedError("this process runs Ray already", advice=advice)
        self.started = True
        usual = {"namespace": NAMESPACE, "log_to_driver": False, "logging_level": logging.ERROR}
        if self.address:
            self._join(ray, usual)
            check_closed(ray.util.get_node_ip_address(), os.environ)
            self._check_sites(ray, sites)
        else:
            # A folder of its own: an address left by another cluster makes a plain start fail.
            self._folder = watched_folder("ced-ray-")
            with _hangups_ignored():
                ray.init(
                    address="local",
                    num_cpus=max(cpus, os.cpu_count() or 1),
                    resources=resources(sites),
                    include_dashboard=False,
                    _node_ip_address="127.0.0.1",
                    _temp_dir=str(self._folder),
                    **usual,
                )
            check_loopback(ray.util.get_node_ip_address())
        return ray

    def stop(self) -> None:
        """Leave the cluster, and end one of its own."""
        if self.started:
            self.started = False
            ray = import_ray(loopback=False)
            if ray.is_initialized():
                ray.shutdown()
            if self._folder is not None:
                remove_folder(self._folder)

    def _join(self, ray: Any, usual: dict[str, Any]) -> None:
        at = {"_node_ip_address": "127.0.0.1"} if is_loopback(self.address) else {}
        try:
            _knock(self.address)
            ray.init(address=self.address, **at, **usual)
        except Exception as error:
            start = "`ray start` and the same token" if self.token else "`ray start`"
            raise DistcedError(
                "no Ray cluster can be joined",
                given=self.address,
                allowed="host:port, or auto for the one of this machine",
                advice=f"start a Ray node on this machine, with {start}, and name its cluster ({last_line(error)})",
            ) from error

    def _check_sites(self, ray: Any, sites: Iterable[str]) -> None:
        offered = offered_sites(ray)
        missing = sorted(set(sites) - offered - {""})
        if missing:
            raise DistcedError(
                "no Ray node offers the site",
                given=", ".join(missing),
                allowed=", ".join(sorted(offered)) or "none yet",
                where=f"the Ray cluster at {self.address}",
                advice=f"there, start Ray with --resources '{{\"{_PREFIX}{missing[0]}\": 1}}'",
            )


def check_closed(address: str, environment: Mapping[str, str]) -> None:
    """Raise an error for a cluster beyond loopback that admits whoever reaches it, where nobody has asked for that."""
    if not is_loopback(f"{address}:0") and not environment.get("RAY_AUTH_MODE"):
        raise DistcedError(
            "a Ray cluster without a token",
            given=address,
            allowed="one on loopback, or with a token: whoever reaches it may run programs on it",
            advice="make one with distced init (docs/how-to/security.md), or start all of it, and this, with "
            "RAY_AUTH_MODE=disabled where nobody else is on its network",
        )


def _check_token(file: Path) -> None:
    """Raise an error for a file without a token: Ray would make up one."""
    try:
        content = file.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise DistcedError("a token of Ray that cannot be read", given=str(file), advice=str(error)) from None
    if not content.strip():
        raise DistcedError("a file without a token of Ray", given=str(file), allowed="one line of text")


def _knock(address: str) -> None:
    """Raise an error where nothing listens at an address: Ray itself would retry for minutes."""
    if address != "auto":
        host, _, port = address.rpartition(":")
        socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK).close()


@contextmanager
def _hangups_ignored() -> Iterator[None]:
    """Within it processes are started that a closed terminal does not end: nodes take leave before their cluster ends.

    Ray itself does the same for an interrupt.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before or signal.SIG_DFL)


def offered_sites(ray: Any) -> set[str]:
    """Sites offered by live Ray nodes."""
    alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return {name.removeprefix(_PREFIX) for each in alive for name in each if name.startswith(_PREFIX)}


def check_loopback(host: str) -> None:
    """Raise an error where Ray would be reachable from elsewhere."""
    if not ipaddress.ip_address(host).is_loopback:
        raise DistcedError(
            "Ray listens beyond loopback, without access control",
            given=host,
            advice="set RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0 before anything imports Ray",
        )


def last_line(error: Exception) -> str:
    """Cause in an error of Ray: the last line of many."""
    return (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()

"""Checks of a configuration of mosquitto: what no client can see, persistence above all."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final

import msgspec

from distced.brokers.doctor.checks.findings import Finding, State

_STOCK: Final = {"max_inflight_messages": (20, 1000), "max_queued_messages": (1000, 1_000_000)}
"""Limits with their stock values, and those that `distced init` writes."""

_ABSENT: Final = "no client can see whether a server keeps its state on disk, and no mosquitto.conf was given or found"


class MosquittoFile(msgspec.Struct, frozen=True):
    """Settings of a configuration, in order, with those of included folders.

    Attributes:
        problem: why it cannot be read; empty where it can.
    """

    path: str
    settings: tuple[tuple[str, str], ...] = ()
    problem: str = ""

    def last(self, name: str) -> str | None:
        """Value that counts; None for the stock one."""
        return next((value for key, value in reversed(self.settings) if key == name), None)


def parse_settings(text: str) -> list[tuple[str, str]]:
    """Settings in a configuration: a name, a blank and a value on each line; `#` begins a comment line."""
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.partition(" ") for line in lines if line and not line.startswith("#"))
    return [(name, value.strip()) for name, _, value in pairs]


def listens_at(settings: Sequence[tuple[str, str]], port: int) -> bool:
    """Whether a configuration has a listener at a port."""
    for name, value in settings:
        given = value.split()
        if name in ("listener", "port") and given and given[0] == str(port):
            return True
    return port == 1883 and not any(name in ("listener", "port") for name, _ in settings)


def persistence_findings(found: MosquittoFile | None, subject: str) -> list[Finding]:
    """Findings about the configuration of a server; None for one that is not known."""
    if found is None or found.problem:
        reason = _ABSENT if found is None else f"{found.path} cannot be read: {found.problem}"
        remedy = "name its configuration with --mosquitto-conf FILE, on its machine"
        return [Finding("persistence", State.NOT_CHECKED, subject, reason, remedy)]
    return [_persistence(found, subject), *_limits(found, subject), *_open_to_all(found, subject)]


def _persistence(found: MosquittoFile, subject: str) -> Finding:
    if found.last("persistence") != "true":
        text = f"off in {found.path}: a restart loses rules, policies, topologies, and messages for those who are away"
        remedy = "persistence true, and persistence_location, in mosquitto.conf"
        return Finding("persistence", State.WARNING, subject, text, remedy)
    location = found.last("persistence_location") or "the stock folder"
    return Finding("persistence", State.OK, subject, f"on, in {location}, by {found.path}")


def _limits(found: MosquittoFile, subject: str) -> list[Finding]:
    findings = []
    for name, (stock, better) in _STOCK.items():
        value = found.last(name)
        number = int(value) if value is not None and value.isdecimal() else stock
        if 0 < number <= stock:
            text = f"{name} is {number:,} in {found.path}: messages of readers that fall behind are lost"
            findings.append(Finding("limits", State.WARNING, subject, text, f"{name} {better} in mosquitto.conf"))
    return findings


def _open_to_all(found: MosquittoFile, subject: str) -> list[Finding]:
    """Finding about listeners for everybody, beyond loopback; a listener without an address is at all of them."""
    everybody, listener, is_open = None, "", []
    for name, value in found.settings:
        if name == "listener":
            listener = value
            is_open.append(value)
        elif name == "allow_anonymous":
            everybody = value
    beyond = [each for each in is_open if not _is_local(each)]
    if everybody == "true" and beyond and listener:
        text = f"allow_anonymous true with listener {beyond[0]}, beyond loopback, in {found.path}"
        return [Finding("anonymous", State.WARNING, subject, text, "allow_anonymous false, and a password_file")]
    return []


def _is_local(listener: str) -> bool:
    _, _, host = listener.partition(" ")
    if host in ("localhost", "localhost4", "localhost6") or host.startswith("/"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False

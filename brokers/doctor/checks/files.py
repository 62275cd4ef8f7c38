"""Checks of the files for the access to servers, and of the store of checkpoints on this machine."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Final

import msgspec

from distced.brokers.doctor.checks.findings import Finding, State
from distced.brokers.doctor.checks.server import validity
from distced.middleware.model.timestamps import format_instant

FREE: Final = 1_000_000_000
LITTLE: Final = 100_000_000
"""Free bytes at the store of checkpoints below which it is a warning, and an error."""

SHARE: Final = 0.05
"""Share of the disk that is free below which it is a warning."""

_OTHERS: Final = 0o077
"""Permissions of a file for its group, and for others."""


class SecretFile(msgspec.Struct, frozen=True):
    """File that is for one user alone: its permissions, or why it cannot be looked at."""

    what: str
    path: str
    mode: int = 0
    problem: str = ""


class CertificateFile(msgspec.Struct, frozen=True):
    """File with certificates: the validity of the one that ends first, ns, or why that is unknown.

    Attributes:
        missing: whether it is unknown for want of a package, not for a fault of the file.
    """

    what: str
    path: str
    valid_from: int = 0
    valid_until: int = 0
    problem: str = ""
    missing: bool = False


class Store(msgspec.Struct, frozen=True):
    """Store of checkpoints.

    Attributes:
        remote: whether it is behind a URL.
        problem: why it cannot be written; empty where it probably can.
        free, total: bytes of its disk; 0 for unknown.
        exists: whether its folder is there.
    """

    where: str
    remote: bool = False
    problem: str = ""
    free: int = 0
    total: int = 0
    exists: bool = True


def secret_findings(files: Iterable[SecretFile]) -> list[Finding]:
    """Findings about passwords and keys that others can read."""
    findings = []
    for each in files:
        if each.problem:
            text = f"{each.what} cannot be read: {each.problem}"
            findings.append(Finding("secrets", State.ERROR, each.path, text, "check the path, and its permissions"))
        elif each.mode & _OTHERS:
            text = f"{each.what} can be read or changed by others (mode {each.mode & 0o777:03o})"
            findings.append(Finding("secrets", State.WARNING, each.path, text, f"chmod 600 {shlex.quote(each.path)}"))
        else:
            findings.append(Finding("secrets", State.OK, each.path, f"{each.what}, for its user alone"))
    return findings


def certificate_findings(files: Iterable[CertificateFile], now: int) -> list[Finding]:
    """Findings about certificates in files at `now`, ns."""
    findings = []
    for each in files:
        remedy = "issue another one: distced init FOLDER --renew NAME, or by your authority"
        if each.missing:
            advice = "pip install 'distced[init]'"
            findings.append(Finding("certificate", State.NOT_CHECKED, each.path, each.problem, advice))
        elif each.problem:
            text = f"{each.what} cannot be read: {each.problem}"
            findings.append(Finding("certificate", State.ERROR, each.path, text, "name a file in PEM"))
        elif each.valid_from > now:
            text = f"{each.what} is not valid before {format_instant(each.valid_from)[:10]}"
            findings.append(Finding("certificate", State.ERROR, each.path, text, "check the clock of this machine"))
        else:
            findings.append(validity("certificate", each.path, each.valid_until, now, remedy))
    return findings


def store_findings(store: Store | None) -> list[Finding]:
    """Findings about the store of checkpoints of nodes on this machine; None for none."""
    if store is None:
        text = "nodes without checkpoints: a detector whose node ends begins empty, with a Loss"
        return [Finding("checkpoints", State.INFORMATION, "none", text, "distced broker --checkpoints FOLDER")]
    if store.problem:
        remedy = "give the folder to the user of the node (chown), or name another with --checkpoints"
        return [Finding("checkpoints", State.ERROR, store.where, f"cannot be written: {store.problem}", remedy)]
    if store.remote:
        text = "whether a remote store can be written shows when a node does, in its log"
        return [Finding("checkpoints", State.NOT_CHECKED, store.where, text)]
    if not store.exists:
        text = "there is no such folder: no node on this machine keeps its checkpoints there"
        remedy = "name the folder of its nodes with --checkpoints, for a look at it"
        return [Finding("checkpoints", State.INFORMATION, store.where, text, remedy), *_disk(store)]
    return [Finding("checkpoints", State.OK, store.where, "can be written"), *_disk(store)]


def _disk(store: Store) -> list[Finding]:
    if not store.total:
        return []
    text = f"{store.free / 1e9:,.3g} GB free, {store.free / store.total:.0%} of the disk"
    remedy = "make room, or name a store on another disk with --checkpoints: without room there are no checkpoints"
    if store.free < LITTLE:
        return [Finding("disk", State.ERROR, store.where, text, remedy)]
    if store.free < FREE or store.free < SHARE * store.total:
        return [Finding("disk", State.WARNING, store.where, text, remedy)]
    return [Finding("disk", State.OK, store.where, text)]

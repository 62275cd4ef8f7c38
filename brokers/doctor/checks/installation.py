"""Checks of an installation: what the product needs to be fast, and which optional parts can be used."""

from __future__ import annotations

import re
from typing import Final

from distced.brokers.core.identity import Installation
from distced.brokers.doctor.checks.findings import Finding, State, duration
from distced.middleware.model.timestamps import SECOND

PYTHON: Final = (3, 11)
OPEN_FILES: Final = 1024
"""Least limit on open files: a connection to each server of a home, files of checkpoints, and those of Python."""

CLOCK_ERROR: Final = SECOND // 2
"""Error of a clock by its kernel from which it is a warning, ns."""


def installation_findings(found: Installation, subject: str, *, here: bool = True) -> list[Finding]:
    """Findings about the installation of this machine, or, not `here`, of a node, warnings and errors alone."""
    findings = [
        *_python(found, subject),
        *_columnar(found, subject, here=here),
        *_msgpack(found, subject),
        *_open_files(found, subject),
        *_clock(found, subject),
    ]
    if not here:
        return [each for each in findings if each.state in (State.WARNING, State.ERROR)]
    return [*findings, *_optional(found, subject), _processors(found, subject)]


def _python(found: Installation, subject: str) -> list[Finding]:
    if not found.python:
        return []
    version = re.match(r"([0-9]{1,3})\.([0-9]{1,3})", found.python)
    if version is None or tuple(map(int, version.groups())) >= PYTHON:
        return [Finding("python", State.OK, subject, f"Python {found.python}")]
    least = ".".join(map(str, PYTHON))
    text = f"Python {found.python}, which distced is not made for"
    return [Finding("python", State.ERROR, subject, text, f"install Python {least} or later, and distced again")]


def _columnar(found: Installation, subject: str, *, here: bool) -> list[Finding]:
    if not found.numba:
        if not found.python:
            return []
        text = "numba is not installed: the columnar engine is not available, and large loads are detected more slowly"
        return [Finding("columnar engine", State.WARNING, subject, text, "pip install 'distced[fast]'")]
    if found.compiled is None:
        if not here:
            return []
        text = f"numba {found.numba} cannot be used here, or was not looked at"
        remedy = "python -m distced.detectors.warm_start shows why"
        return [Finding("columnar engine", State.WARNING, subject, text, remedy)]
    if not found.compiled:
        text = "its functions are not compiled for this version: the first use takes some 20 s, in the background"
        remedy = "to have it done now: python -m distced.detectors.warm_start"
        return [Finding("columnar engine", State.INFORMATION, subject, text, remedy)]
    return [Finding("columnar engine", State.OK, subject, f"numba {found.numba}, functions compiled")]


def _msgpack(found: Installation, subject: str) -> list[Finding]:
    if found.msgpack_extension:
        return [Finding("msgpack", State.OK, subject, "compiled")]
    text = "msgpack runs without its extension, in Python: frames are packed many times as slowly"
    remedy = "unset MSGPACK_PUREPYTHON, and pip install --force-reinstall msgpack, on a platform that has a wheel"
    return [Finding("msgpack", State.WARNING, subject, text, remedy)]


def _open_files(found: Installation, subject: str) -> list[Finding]:
    if not found.open_files:
        return []
    if found.open_files >= OPEN_FILES:
        return [Finding("open files", State.OK, subject, f"up to {found.open_files:,}")]
    text = f"at most {found.open_files:,} open files: connections and checkpoints fail beyond"
    remedy = f"raise the limit to {OPEN_FILES:,} or more: ulimit -n, or LimitNOFILE= in the unit of systemd"
    return [Finding("open files", State.WARNING, subject, text, remedy)]


def _clock(found: Installation, subject: str) -> list[Finding]:
    if found.clock_problem:
        text = f"whether the clock is set is unknown: {found.clock_problem}"
        remedy = "start a time service such as chrony, unless the host of this machine sets its clock"
        return [Finding("clock service", State.INFORMATION, subject, text, remedy)]
    if found.clock_error is None:
        return []
    error = duration(found.clock_error)
    if found.clock_error < CLOCK_ERROR:
        return [Finding("clock service", State.OK, subject, f"set, with an error of {error} at most")]
    text = f"the kernel knows the time to {error} only: the time service has not answered for long"
    return [
        Finding("clock service", State.WARNING, subject, text, "see chronyc tracking, or timedatectl timesync-status")
    ]


_FOR: Final = {
    "amqtt": ("broker", "the embedded MQTT server"),
    "networkx": ("broker", "broker nodes"),
    "ray": ("ray", "nodes as actors"),
    "pyspark": ("spark", "history on Spark"),
    "pyarrow": ("tables", "files as columns, event history"),
    "cryptography": ("init", "distced init, and checks of certificates in files"),
    "fsspec": ("remote", "checkpoints in object stores"),
    "scipy": ("place", "placement analysis"),
}


def _optional(found: Installation, subject: str) -> list[Finding]:
    """Optional parts; a missing one is no fault."""
    there = [f"{name} {version}" for name, version in sorted(found.packages.items()) if version]
    findings = [Finding("optional packages", State.OK, subject, ", ".join(there) or "none")]
    absent = {name for name, version in found.packages.items() if not version} & _FOR.keys()
    for name in sorted(absent):
        extra, use = _FOR[name]
        text = f"{name} is not installed, which is for {use}"
        findings.append(
            Finding("optional packages", State.INFORMATION, subject, text, f"pip install 'distced[{extra}]'")
        )
    if found.packages.get("pyspark") and not found.java:
        text = "there is no java on the PATH, which Spark needs"
        findings.append(Finding("java", State.INFORMATION, subject, text, "install Java 17 or later"))
    return findings


def _processors(found: Installation, subject: str) -> Finding:
    limits = "".join(f", {name}={value}" for name, value in sorted(found.threads.items()))
    text = f"{found.processors} for this process{limits}; a node keeps one busy at most"
    return Finding("processors", State.OK, subject, text)

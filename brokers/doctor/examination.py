"""Examination: collects all facts, hands them to the checks, and has the findings in order of their subject.

What cannot be collected is a finding with its reason, so that one fault, as a server that is down, hides no other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from distced.brokers.core.identity import identify_topic
from distced.brokers.doctor.checks.clocks import clock_findings
from distced.brokers.doctor.checks.files import certificate_findings, secret_findings, store_findings
from distced.brokers.doctor.checks.findings import Finding, State
from distced.brokers.doctor.checks.installation import installation_findings
from distced.brokers.doctor.checks.mosquitto_file import MosquittoFile, persistence_findings
from distced.brokers.doctor.checks.namesakes import namesake_findings
from distced.brokers.doctor.checks.running_deployment import deployment_findings
from distced.brokers.doctor.checks.server import ServerFacts, say_findings, server_findings
from distced.brokers.doctor.collect.files import (
    certificate_file,
    certificate_files,
    mosquitto_file,
    running_mosquitto,
    secret_files,
    server_secrets,
    store,
)
from distced.brokers.doctor.collect.observation import observe
from distced.brokers.doctor.collect.server_probe import probe, refuses
from distced.brokers.live.checkpoint_store import default_folder
from distced.brokers.live.installation import installation_with_compiled
from distced.middleware.bus.access import configuration_of
from distced.middleware.model.errors import BusError, DistcedError
from distced.middleware.model.server_address import parse_address, server_name
from distced.middleware.wire.topics import ROOT

HERE = "this machine"


@dataclass(frozen=True)
class Wanted:
    """What to examine.

    Attributes:
        server, home: URLs of the servers of the directory and of the own site; an empty home for the same.
        seconds: length of the observation.
        mosquitto_conf: configuration of the server of the directory; None to look for it.
        checkpoints: store of the nodes on this machine; empty for the usual folder.
    """

    server: str
    home: str = ""
    seconds: float = 5.0
    mosquitto_conf: Path | None = None
    checkpoints: str = ""
    root: str = ROOT


def examine(wanted: Wanted, doing: Callable[[str], object] = lambda _: None) -> list[Finding]:
    """Findings about this machine, the servers and the deployment; `doing` takes what is under way."""
    doing("this machine")
    findings = [
        *installation_findings(installation_with_compiled(), HERE),
        *store_findings(store(wanted.checkpoints or default_folder(server_name(wanted.server)))),
        *_access([wanted.server, wanted.home]),
    ]
    doing(f"the server {server_name(wanted.server)}")
    facts, found = _server(wanted.server)
    findings += found
    if wanted.home and server_name(wanted.home) != server_name(wanted.server):
        doing(f"the server {server_name(wanted.home)}")
        findings += _server(wanted.home)[1]
    findings += _configured(wanted, facts)
    if facts is None or facts.problem is not None:
        text = "nothing of the directory, as there is no connection to its server"
        return [*findings, Finding("deployment", State.NOT_CHECKED, server_name(wanted.server), text, "see connection")]
    return [*findings, *_deployment(wanted, doing)]


def _server(url: str) -> tuple[ServerFacts | None, list[Finding]]:
    try:
        facts = probe(url)
    except BusError as error:
        # Of a file for the access.
        text = error.problem if error.given is None else f"{error.problem}: {error.given}"
        remedy = error.advice or error.allowed or ""
        return None, [Finding("connection", State.ERROR, server_name(url), text, remedy)]
    return facts, server_findings(facts, time.time_ns())


def _access(urls: Iterable[str]) -> list[Finding]:
    """Findings about the files for the access to servers."""
    findings: dict[Finding, None] = {}
    for url in filter(None, urls):
        try:
            access = configuration_of(parse_address(url))
        except DistcedError as error:
            findings[Finding("configuration", State.ERROR, server_name(url), str(error))] = None
            continue
        found = [
            *secret_findings(secret_files(access)),
            *certificate_findings(certificate_files(access), time.time_ns()),
        ]
        findings |= dict.fromkeys(found)
    return list(findings)


def _configured(wanted: Wanted, facts: ServerFacts | None) -> Iterator[Finding]:
    """Findings about the configuration of the server of the directory, where it can be read."""
    file: MosquittoFile | None = None
    if wanted.mosquitto_conf is not None:
        file = mosquitto_file(wanted.mosquitto_conf.expanduser().absolute())
    elif facts is not None and facts.loopback:
        file = running_mosquitto(parse_address(wanted.server).port)
    yield from persistence_findings(file, server_name(wanted.server))
    if file is None or file.problem:
        return
    folder = Path(file.path).parent
    files = {name: str(folder / value) for name, value in file.settings if (folder / value).is_file()}
    yield from secret_findings(server_secrets(files))
    if "certfile" in files and (facts is None or facts.valid_until is None):
        certificate = certificate_file("the certificate of the server", files["certfile"])
        yield from certificate_findings([certificate], time.time_ns())


def _deployment(wanted: Wanted, doing: Callable[[str], object]) -> list[Finding]:
    server = server_name(wanted.server)

    def passed(gone: float) -> None:
        doing(f"the deployment, {gone:.0f} of {wanted.seconds:g} s")

    try:
        seen = observe(wanted.server, wanted.seconds, root=wanted.root, passed=passed)
    except BusError as error:
        remedy = "let the user read the directory: an operator may, by distced init"
        return [Finding("deployment", State.ERROR, server, f"it cannot be read: {error.problem}", remedy)]
    facts = seen.deployment
    if facts.directory.nodes and not facts.identities:
        asked = identify_topic(min(facts.directory.nodes), "doctor", root=wanted.root)
        facts = replace(facts, refused=refuses(wanted.server, asked))
    ahead = {name: entry.max_ahead for name, entry in facts.directory.nodes.items()}
    return [
        *say_findings(server, seen.says, facts.seconds),
        *namesake_findings(seen.lives, seen.taken, facts.seconds, logged=seen.logged, subject=server),
        *clock_findings(seen.trips, ahead),
        *deployment_findings(facts),
    ]


def worst_last(findings: Iterable[Finding]) -> list[Finding]:
    """Findings in order of their state, the worst last, where a terminal ends."""
    order = list(State)
    return sorted(findings, key=lambda each: order.index(each.state))


def counted_states(findings: Iterable[Finding]) -> dict[str, int]:
    """Number of findings by state."""
    counts = dict.fromkeys(map(str, State), 0)
    for each in findings:
        counts[str(each.state)] += 1
    return counts

"""Checks of an MQTT server as a client sees it: its certificate, its login, what it grants, what it says of itself.

What it grants is in its answer to a connection (MQTT 5, section 3.2.2.3); what it says of itself are the topics below
`$SYS/broker` of mosquitto, which other servers may lack and users may not be allowed to read. No client can see whether
a server keeps its state on disk; that is read in its configuration (`checks.mosquitto_file`).
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

import msgspec

from distced.brokers.doctor.checks.findings import Finding, State, duration
from distced.middleware.model.timestamps import DAY, format_instant

SOON: Final = 30 * DAY
"""Rest of the validity of a certificate from which it is a warning, ns."""

PACKET: Final = 1_000_000
"""Least limit on packets, bytes: a moving detector takes its state along in parts of this order."""

WINDOW: Final = 100
"""Least number of messages under way: mosquitto's stock limit is 20, with 1,000 messages queued behind."""

SESSION: Final = 3_600
"""Seconds for which a session is asked for, as of a recorder that is away."""

VERSION: Final = "version"
DROPPED: Final = "publish/messages/dropped"
"""Topics below `$SYS/broker`."""

ProblemKind: TypeAlias = Literal["unreachable", "certificate", "encryption", "login", "protocol"]


class ConnectionProblem(msgspec.Struct, frozen=True):
    """Reason for which there is no connection.

    Attributes:
        verify_code: of OpenSSL, where it is the certificate of the server; 0 for unknown.
    """

    kind: ProblemKind
    text: str
    remedy: str = ""
    verify_code: int = 0


class ServerFacts(msgspec.Struct, frozen=True):
    """MQTT server as seen by a connection.

    Attributes:
        name: URL without login.
        loopback: whether it is reached over loopback alone; None for unknown.
        user: whether the connection had a login or a certificate of a client.
        problem: why there is no connection; None where there is one.
        valid_until: of its certificate, ns; None without TLS.
        protocol: version of MQTT; empty without a connection.
        granted: properties of its answer, by their names.
        session: seconds for which it keeps a session, where it says so.
        answered: time from the greeting to its answer, ns.
        anonymous: whether it accepts a connection without login; None for not tried.
    """

    name: str
    loopback: bool | None = None
    tls: bool = False
    user: bool = False
    problem: ConnectionProblem | None = None
    valid_until: int | None = None
    protocol: str = ""
    granted: dict[str, int] = {}
    session: int | None = None
    answered: int = 0
    anonymous: bool | None = None


class ServerSays(msgspec.Struct, frozen=True):
    """Values below `$SYS/broker`, at the begin and at the end of an observation; empty for none received."""

    first: dict[str, str] = {}
    last: dict[str, str] = {}


_VERIFY: Final = {
    9: ("is not valid yet", "compare the clocks of this machine and of the one that issued it"),
    10: ("has expired", "issue another one: distced init FOLDER --renew SITE; have mosquitto read it: kill -HUP"),
    62: ("is for other host names", "use a name that it has, or issue one for this name: hosts in deployment.toml"),
    64: ("is for other addresses", "use a name that it has, or issue one for this address: hosts in deployment.toml"),
}
_AUTHORITY: Final = (
    "is not of an authority that is trusted here",
    "name the file with the certificate of its authority: --ca, or ca in the configuration",
)
_UNTRUSTED: Final = (18, 19, 20, 21)


def server_findings(found: ServerFacts, now: int) -> list[Finding]:
    """Findings about connection, encryption, login and grants of a server at `now`, ns."""
    return [
        _connection(found),
        *_certificate(found, now),
        *_encryption(found),
        *_login(found),
        *(_granted(found) if found.problem is None else ()),
    ]


def _connection(found: ServerFacts) -> Finding:
    problem = found.problem
    if problem is None:
        text = f"MQTT {found.protocol}, answered in {duration(found.answered)}"
        return Finding("connection", State.OK, found.name, text)
    if problem.kind == "certificate":
        text = f"no encrypted connection: the certificate {_verified(problem)[0]}"
        return Finding("connection", State.ERROR, found.name, text, "see its certificate, below")
    return Finding("connection", State.ERROR, found.name, problem.text, problem.remedy)


def _verified(problem: ConnectionProblem) -> tuple[str, str]:
    """Fault of a certificate, and what to do."""
    if problem.verify_code in _UNTRUSTED:
        return _AUTHORITY
    return _VERIFY.get(problem.verify_code, (f"is refused: {problem.text}", problem.remedy))


def _certificate(found: ServerFacts, now: int) -> list[Finding]:
    problem = found.problem
    if problem is not None and problem.kind == "certificate":
        text, remedy = _verified(problem)
        return [Finding("certificate", State.ERROR, found.name, f"it {text}", remedy)]
    if found.valid_until is None:
        return []
    return [validity("certificate", found.name, found.valid_until, now, _VERIFY[10][1])]


def validity(check: str, subject: str, until: int, now: int, remedy: str) -> Finding:
    """Finding about the end of the validity of a certificate, ns."""
    day = format_instant(until)[:10]
    if until <= now:
        return Finding(check, State.ERROR, subject, f"it has expired on {day}", remedy)
    if until - now < SOON:
        return Finding(check, State.WARNING, subject, f"it expires on {day}, in {(until - now) // DAY} days", remedy)
    return Finding(check, State.OK, subject, f"valid until {day}")


def _encryption(found: ServerFacts) -> list[Finding]:
    if found.loopback is None:
        return []
    if found.tls or found.loopback:
        text = "TLS" if found.tls else "none, over loopback"
        return [Finding("encryption", State.OK, found.name, text)]
    text = "none, beyond loopback: passwords and events can be read on the way"
    return [
        Finding("encryption", State.WARNING, found.name, text, "use TLS, mqtts://: distced init makes what it takes")
    ]


def _login(found: ServerFacts) -> list[Finding]:
    findings = []
    if found.problem is None and found.user:
        findings.append(Finding("login", State.OK, found.name, "accepted"))
    remedy = "allow_anonymous false, users and an access list: distced init makes them"
    if found.anonymous is None:
        if found.problem is None or found.problem.kind != "unreachable":
            text = "whether it accepts anybody was not tried, for want of a connection"
            findings.append(Finding("anonymous", State.NOT_CHECKED, found.name, text))
    elif not found.anonymous:
        findings.append(Finding("anonymous", State.OK, found.name, "connections without a login are refused"))
    elif found.loopback:
        text = "it accepts everybody on this machine, over loopback"
        findings.append(Finding("anonymous", State.INFORMATION, found.name, text, f"before it is opened: {remedy}"))
    else:
        text = "it accepts everybody on the network, without a login"
        findings.append(Finding("anonymous", State.WARNING, found.name, text, remedy))
    return findings


def _granted(found: ServerFacts) -> list[Finding]:
    """Findings about what the server grants, which MQTT 3.1.1 does not say."""
    if found.protocol != "5":
        text = "MQTT 3.1.1 only: sessions have no end, wills no delay, and limits of the server are unknown"
        remedy = "use a server with MQTT 5, as mosquitto from 2.0; the embedded amqtt is for first steps"
        return [Finding("mqtt 5", State.WARNING, found.name, text, remedy)]
    needed = (
        ("RetainAvailable", "no retained messages, of which the directory consists"),
        ("WildcardSubscriptionAvailable", "no wildcards in subscriptions, by which nodes read"),
        ("MaximumQoS", "no messages of QoS 1"),
    )
    granted = found.granted
    findings = [
        Finding("mqtt 5", State.ERROR, found.name, f"it has {text}", "allow it in its configuration, or use another")
        for name, text in needed
        if not granted.get(name, 1)
    ]
    window, packet = granted.get("ReceiveMaximum"), granted.get("MaximumPacketSize")
    if window is not None and window < WINDOW:
        text = f"it takes {window} messages under way: with mosquitto's stock limits it loses messages of slow readers"
        remedy = "max_inflight_messages 1000 and max_queued_messages 1000000 in mosquitto.conf"
        findings.append(Finding("limits", State.WARNING, found.name, text, remedy))
    if packet is not None and packet < PACKET:
        text = f"it takes packets of {packet:,} bytes at most: detectors with much state cannot move"
        findings.append(
            Finding("limits", State.WARNING, found.name, text, "max_packet_size 16777216 in mosquitto.conf")
        )
    if found.session is not None and found.session < SESSION:
        text = f"it keeps sessions for {found.session} s at most: recorders that are away for longer lose messages"
        findings.append(Finding("limits", State.WARNING, found.name, text, "let sessions live for an hour or more"))
    if findings:
        return findings
    limits = [f"{window:,} messages under way"] if window is not None else []
    limits += [f"packets up to {packet:,} bytes"] if packet is not None else []
    text = f"retained messages, wildcards, QoS 1, sessions; {', '.join(limits) or 'no limits named'}"
    return [Finding("mqtt 5", State.OK, found.name, text)]


# What the server says of itself.

_FAULTS: Final = (
    ((0, 0), (1, 6), State.ERROR, "it has no MQTT 5"),
    (
        (1, 6),
        (2, 0, 6),
        State.WARNING,
        "it may publish wills twice, by which participants that are there count as lost",
    ),
    (
        (2, 0, 6),
        (2, 0, 15),
        State.INFORMATION,
        "sessions that it reads from disk never expire (mended in 2.0.15), and later versions mend leaks of memory "
        "that clients can cause (2.0.16, 2.0.20); packages of distributions may have these",
    ),
    (
        (2, 0, 15),
        (2, 0, 20),
        State.INFORMATION,
        "later versions mend leaks of memory that clients can cause (2.0.16, 2.0.20); packages of distributions may "
        "have these",
    ),
    ((2, 1), (2, 1, 3), State.WARNING, "it applies max_packet_size wrongly, by which large messages are lost"),
)
"""Faults of mosquitto that matter here: from a version up to the one that has mended it, by its change log."""


def say_findings(server: str, says: ServerSays, seconds: float) -> list[Finding]:
    """Findings about the version of a server, and about messages that it has dropped."""
    if VERSION not in says.last:
        text = "the server does not publish $SYS/broker/version, or this user may not read it"
        remedy = "for mosquitto let the user read $SYS/broker/#, as distced init does for operators"
        return [Finding("server version", State.NOT_CHECKED, server, text, remedy)]
    version = says.last[VERSION]
    return [_version(server, version), *_dropped(server, says, seconds)]


def _version(server: str, version: str) -> Finding:
    number = re.fullmatch(r"mosquitto version ([0-9]{1,4})\.([0-9]{1,4})\.([0-9]{1,4})\b.*", version)
    if number is None:
        return Finding("server version", State.INFORMATION, server, f"{version}, of which no faults are known here")
    parts = tuple(map(int, number.groups()))
    for since, mended, state, text in _FAULTS:
        if since <= parts < mended:
            return Finding("server version", state, server, f"{version}: {text}", "upgrade mosquitto")
    return Finding("server version", State.OK, server, version)


def _dropped(server: str, says: ServerSays, seconds: float) -> list[Finding]:
    try:
        first, last = (int(each.get(DROPPED, "0")) for each in (says.first, says.last))
    except ValueError:
        return []
    remedy = "max_queued_messages 1000000 in mosquitto.conf; distced nodes shows readers that are behind"
    if last > first:
        text = f"{last - first:,} messages in {seconds:g} s, as readers are too slow"
        return [Finding("dropped messages", State.WARNING, server, text, remedy)]
    if last:
        text = f"{last:,} since its start, none while it was observed"
        return [Finding("dropped messages", State.INFORMATION, server, text, remedy)]
    return [Finding("dropped messages", State.OK, server, "none since its start")]

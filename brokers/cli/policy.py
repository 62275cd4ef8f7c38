"""The drivers of `distced policy`: distribution policies as retained messages of administration.

They are checked here, where somebody reads what is wrong with them; nodes check them again
(`brokers.node.policy_settings`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from distced.brokers.core.directory import Directory
from distced.brokers.inspect.detectors import find_detector, short_ids
from distced.brokers.inspect.directory_reader import ASK_EVERY, Reading
from distced.brokers.node.policy_settings import EVERYBODY
from distced.detectors.compiler import compile_pattern
from distced.middleware.bus import Bus
from distced.middleware.cli.options import PATIENCE
from distced.middleware.cli.output import output, print_json, show_notes
from distced.middleware.cli.signals import ending
from distced.middleware.model.errors import BusError, DistcedError
from distced.middleware.wire.directory_entries import SetPolicy, decode, encode
from distced.middleware.wire.topics import ROOT, Area, administration_topic, area_filter, parse_topic
from distced.policies.distribution.policy import DEFAULT, parse_policy

EVERYBODY_SHOWN: Final = "all that ask for none"


@dataclass(frozen=True, slots=True)
class Set:
    """A policy that is set.

    Attributes:
        key: the id of a detector, or `EVERYBODY`.
        policy: as it was written; empty where it cannot be read.
        problem: what is wrong with it; empty where nothing is.
    """

    key: str
    policy: str
    problem: str = ""


def set_one(server: str, text: str, pattern: str | None, detector: str | None, *, as_json: bool) -> int:
    """Set a policy; the exit code.

    Raises:
        DistcedError: for what is no policy, and for a detector that is not there.
        PatternError: for what is no pattern.
    """
    wanted = parse_policy(text).text
    with ending(), _administering(server) as (bus, directory, _):
        key = _key(directory, pattern, detector)
        _say(bus, key, encode(SetPolicy(wanted)))
        there = key == EVERYBODY or key in directory.detectors
    if as_json:
        print_json({"key": key, "policy": wanted, "there": there})
        return 0
    of = EVERYBODY_SHOWN if key == EVERYBODY else key
    output().print(Text.assemble((wanted, "bold"), f" set for {of}"))
    if not there:
        show_notes([f"there is no detector of this pattern now; when one is created it will be {key}"])
    return 0


def unset_one(server: str, pattern: str | None, detector: str | None, *, as_json: bool) -> int:
    """Take back what was set; the exit code.

    Raises:
        DistcedError: where nothing was set.
    """
    with ending(), _administering(server) as (bus, directory, known):
        key = _key_set(directory, known, pattern, detector)
        was = known[key].policy
        _say(bus, key, b"")
    if as_json:
        print_json({"key": key, "policy": None, "was": was})
        return 0
    of = EVERYBODY_SHOWN if key == EVERYBODY else key
    output().print(Text.assemble((was or "what was there", "bold"), f" no longer set for {of}"))
    return 0


def show_all(server: str, *, as_json: bool) -> int:
    """Print what is set; the exit code."""
    with ending(), _administering(server) as (_, directory, known):
        pass
    # What holds for everybody comes first.
    ordered = sorted(known.values(), key=lambda one: (one.key != EVERYBODY, one.key))
    if as_json:
        print_json({"policies": [_as_dict(each, directory) for each in ordered], "otherwise": DEFAULT.text})
        return 0
    table = Table.grid(padding=(0, 2))
    if EVERYBODY not in known:
        table.add_row(EVERYBODY_SHOWN, Text(DEFAULT.text), Text("as nothing else is set", "dim"))
    short = short_ids(directory.detectors.keys() | (known.keys() - {EVERYBODY}))
    for each in ordered:
        entry = directory.detectors.get(each.key)
        about = Text("" if each.key == EVERYBODY else "not there now", "dim") if entry is None else Text(entry.pattern)
        of = EVERYBODY_SHOWN if each.key == EVERYBODY else short[each.key]
        table.add_row(of, Text(each.policy, "bold") if not each.problem else Text(each.problem, "yellow"), about)
    output().print(table)
    return 0


def _as_dict(each: Set, directory: Directory) -> dict[str, Any]:
    entry = directory.detectors.get(each.key)
    shown: dict[str, Any] = {
        "key": each.key,
        "policy": each.policy,
        "pattern": None if entry is None else entry.pattern,
    }
    return {**shown, "problem": each.problem} if each.problem else shown


# Of which detector.


def _key(directory: Directory, pattern: str | None, detector: str | None) -> str:
    """What a policy is set for."""
    _check_one(pattern, detector)
    if detector is not None:
        return find_detector(directory, detector)
    return EVERYBODY if pattern is None else _id_of(directory, pattern)


def _key_set(directory: Directory, known: dict[str, Set], pattern: str | None, detector: str | None) -> str:
    """What a policy was set for; the detector may be gone."""
    _check_one(pattern, detector)
    if detector is None:
        key = EVERYBODY if pattern is None else _id_of(directory, pattern)
        found = [key] if key in known else []
    else:
        found = [key] if (key := detector) in known else [each for each in known if each.startswith(detector)]
        found = [each for each in found if each != EVERYBODY]
    if len(found) == 1:
        return found[0]
    raise DistcedError(
        "several detectors whose ids begin so" if found else "no distribution policy is set for it",
        given=detector if pattern is None else pattern,
        allowed=", ".join(sorted(found or known)) or "none is set",
        advice="give more of the id" if found else "distced policy show lists what is set",
    )


def _check_one(pattern: str | None, detector: str | None) -> None:
    if pattern is not None and detector is not None:
        raise DistcedError("both a pattern and a detector", given=f"{pattern}, {detector}", advice="name one of them")


def _id_of(directory: Directory, pattern: str) -> str:
    """The id of the detector of a pattern, under guaranteed detection."""
    return compile_pattern(pattern, directory.registry()).automaton.canonical_id


# Messages.


@contextmanager
def _administering(server: str) -> Iterator[tuple[Bus, Directory, dict[str, Set]]]:
    """A connection, the directory, and the policies that are set, by key."""
    known: dict[str, Set] = {}
    read = threading.Event()
    bus = Bus(server)
    marker = administration_topic("known", bus.client_id)
    bus.subscribe(area_filter(Area.ADMINISTRATION, "policy"), lambda *message: _take(known, *message), qos=1)
    bus.subscribe(marker, lambda *_: read.set(), qos=1)
    with Reading(server).open() as reading, bus:
        bus.wait_connected(PATIENCE)
        deadline = time.monotonic() + PATIENCE
        # What is retained comes before what is sent behind the subscription to it, but amqtt may take a message before
        # a subscription that was sent before it.
        while not read.is_set():
            if time.monotonic() > deadline:
                raise BusError("the policies could not be read", given=f"after {PATIENCE} s", where=str(bus.address))
            bus.publish(marker, b"", qos=1)
            read.wait(ASK_EVERY)
        directory, _ = reading.look(lambda directory: directory)
        yield bus, directory, known


def _take(known: dict[str, Set], topic: str, payload: bytes, retain: bool) -> None:
    levels = parse_topic(topic, root=ROOT).levels
    if len(levels) != 2:
        return
    key = levels[1]
    known.pop(key, None)
    if payload:
        try:
            policy = decode(payload, SetPolicy, where=topic).policy
            known[key] = Set(key, policy)
            parse_policy(policy, where=topic)
        except DistcedError as error:
            known[key] = Set(key, known[key].policy if key in known else "", str(error))


def _say(bus: Bus, key: str, payload: bytes) -> None:
    bus.publish(administration_topic("policy", key), payload, qos=1, retain=True)
    if not bus.flush(PATIENCE):
        raise BusError("the server has not taken the policy", given=key, where=str(bus.address))

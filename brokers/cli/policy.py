"""The verb `policy`, with verbs of its own: `set`, `show` and `unset`.

Distribution policies are retained messages of administration. They are checked here, where errors are read; nodes check
them again (`brokers.node.policy_settings`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer
from rich.table import Table
from rich.text import Text

from distced.brokers.core.directory import Directory
from distced.brokers.inspect.lookup import find_detector, short_ids
from distced.brokers.live.observers import LiveDirectory
from distced.brokers.node.policy_settings import EVERYBODY
from distced.detectors.compiler import check_pattern
from distced.middleware.cli.options import DEFAULT as DEFAULT_SERVER
from distced.middleware.cli.options import ServerOption, verb
from distced.middleware.cli.output import AsJson, output, print_json, show_notes
from distced.middleware.cli.signals import ending
from distced.middleware.model.errors import DistcedError
from distced.middleware.wire.administration import SetPolicy
from distced.middleware.wire.codec import decode, encode
from distced.middleware.wire.topics import administration_topic
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


policy = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Set, show and unset distribution policies, which place detectors.",
)


@dataclass(frozen=True, kw_only=True)
class PolicyOptions:
    """Options of every verb of `distced policy`."""

    server: ServerOption = DEFAULT_SERVER
    as_json: AsJson = False


@dataclass(frozen=True, kw_only=True)
class UnsetOptions(PolicyOptions):
    """Options of `distced policy unset`."""

    pattern: Annotated[
        str | None, typer.Option("--pattern", metavar="PATTERN", help="Only the detector of this pattern; default all.")
    ] = None
    detector: Annotated[
        str | None,
        typer.Option(
            "--detector",
            metavar="DETECTOR-PREFIX",
            help="Only the detector whose id begins so; default all.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class SetOptions(UnsetOptions):
    """Options of `distced policy set`."""

    name: Annotated[
        str,
        typer.Argument(
            metavar="POLICY", help="Policy: a name, or the three words of its dimensions in quotes.", show_default=False
        ),
    ]


@policy.command("set")
@verb
def set_policy(options: SetOptions) -> int:
    """Set the distribution policy of one detector, or of all whose subscriptions ask for none.

    It holds from now on, also for detectors that run: they move where it wants them, if that pays. What is set for a
    detector counts before what its subscriptions ask for. Broker nodes are told through the server, which keeps it. The
    exit code is 2 for what is no policy, and for a detector that is not there.

    \b
    Examples:
      distced policy set min-bandwidth
      distced policy set max-reliability --detector c52925
      distced policy set 'for-reuse maximum subscribers' --pattern '[Motion] ; [Door]'
    """
    wanted = parse_policy(options.name).text
    with ending(), _administering(options.server) as (reading, directory, _):
        key = _key(directory, options.pattern, options.detector)
        _say(reading, key, encode(SetPolicy(wanted)))
        there = key == EVERYBODY or key in directory.detectors
    if options.as_json:
        print_json({"key": key, "policy": wanted, "there": there})
        return 0
    of = EVERYBODY_SHOWN if key == EVERYBODY else key
    output().print(Text.assemble((wanted, "bold"), f" set for {of}"))
    if not there:
        show_notes([f"there is no detector of this pattern now; when one is created it will be {key}"])
    return 0


@policy.command("unset")
@verb
def unset_policy(options: UnsetOptions) -> int:
    """Unset the distribution policy of one detector, or of all.

    The policies of subscriptions apply again. The exit code is 2 where none was set.

    \b
    Examples:
      distced policy unset
      distced policy unset --detector c52925
    """
    with ending(), _administering(options.server) as (reading, directory, known):
        key = _key_set(directory, known, options.pattern, options.detector)
        was = known[key].policy
        _say(reading, key, b"")
    if options.as_json:
        print_json({"key": key, "policy": None, "was": was})
        return 0
    of = EVERYBODY_SHOWN if key == EVERYBODY else key
    output().print(Text.assemble((was or "what was there", "bold"), f" no longer set for {of}"))
    return 0


@policy.command("show")
@verb
def show_policies(options: PolicyOptions) -> int:
    """Show the distribution policies that are set.

    \b
    Examples:
      distced policy show
      distced policy show --json
    """
    with ending(), _administering(options.server) as (_, directory, known):
        pass
    # The policy for all comes first.
    ordered = sorted(known.values(), key=lambda one: (one.key != EVERYBODY, one.key))
    if options.as_json:
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
    """Key under which a policy is set."""
    _check_one(pattern, detector)
    if detector is not None:
        return find_detector(directory, detector)
    return EVERYBODY if pattern is None else _id_of(directory, pattern)


def _key_set(directory: Directory, known: dict[str, Set], pattern: str | None, detector: str | None) -> str:
    """Key under which a policy was set; the detector may be gone."""
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
    """Id of the detector of a pattern, under guaranteed detection."""
    return check_pattern(pattern, directory.registry()).canonical_id


# Messages.


@contextmanager
def _administering(server: str) -> Iterator[tuple[LiveDirectory, Directory, dict[str, Set]]]:
    """Connection, directory, and the policies set, by key."""
    with LiveDirectory(server, settings=("policy",)) as reading:
        directory, _ = reading.look(lambda directory: directory)
        settings = reading.settings()
        known = {levels[1]: _read(levels[1], payload) for levels, payload in settings.items() if len(levels) == 2}
        yield reading, directory, known


def _read(key: str, payload: bytes) -> Set:
    where, policy = administration_topic("policy", key), ""
    try:
        policy = decode(payload, SetPolicy, where=where).policy
        parse_policy(policy, where=where)
    except DistcedError as error:
        return Set(key, policy, str(error))
    return Set(key, policy)


def _say(reading: LiveDirectory, key: str, payload: bytes) -> None:
    reading.publish({administration_topic("policy", key): payload})

"""The verb `policy`, with verbs of its own: `set`, `show` and `unset`.

Distribution policies are retained messages of administration. They are checked here, where errors are read; nodes check
them again (`brokers.node.policy_settings`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

import typer
from rich.table import Table
from rich.text import Text
from typer import Argument, Option

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

EVERYBODY_SHOWN: Final = "all without a request"

PolicySet: TypeAlias = tuple[str, str]
"""Text of a policy that is set, and the problem with it; empty for none."""


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
        str | None, Option("--pattern", metavar="PATTERN", help="Only the detector of this pattern.")
    ] = None
    detector: Annotated[
        str | None, Option("--detector", metavar="DETECTOR-PREFIX", help="Only the detector with this id prefix.")
    ] = None

    def __post_init__(self) -> None:
        if self.pattern is not None and self.detector is not None:
            given = f"{self.pattern}, {self.detector}"
            raise DistcedError("both a pattern and a detector", given=given, advice="name one of them")


@dataclass(frozen=True, kw_only=True)
class SetOptions(UnsetOptions):
    """Options of `distced policy set`."""

    name: Annotated[
        str, Argument(metavar="POLICY", help="Name of a policy, or the three words of its dimensions in quotes.")
    ]


@policy.command("set")
@verb
def set_policy(options: SetOptions) -> int:
    """Set the distribution policy of one detector, or of all whose subscriptions request none.

    It applies to running detectors, too: they move if that pays. The policy of a detector overrides the one that its
    subscriptions request. The server keeps it for broker nodes that start later. The exit code is 2 for an unknown
    policy or detector.

    \b
    Examples:
      distced policy set min-bandwidth
      distced policy set max-reliability --detector c52925
      distced policy set 'for-reuse maximum subscribers' --pattern '[Motion] ; [Door]'
    """
    wanted = parse_policy(options.name).text
    with ending(), _administering(options.server) as (reading, directory, _):
        if options.detector is not None:
            key = find_detector(directory, options.detector)
        else:
            key = _id_of(directory, options.pattern)
        reading.publish({administration_topic("policy", key): encode(SetPolicy(wanted))})
        there = key == EVERYBODY or key in directory.detectors
    if options.as_json:
        print_json({"key": key, "policy": wanted, "there": there})
        return 0
    output().print(Text.assemble((wanted, "bold"), f" set for {EVERYBODY_SHOWN if key == EVERYBODY else key}"))
    if not there:
        show_notes([f"there is no detector of this pattern now; when one is created it will be {key}"])
    return 0


@policy.command("unset")
@verb
def unset_policy(options: UnsetOptions) -> int:
    """Unset the distribution policy of one detector, or the one for all.

    The policies requested by subscriptions apply again. The exit code is 2 where none was set.

    \b
    Examples:
      distced policy unset
      distced policy unset --detector c52925
    """
    with ending(), _administering(options.server) as (reading, directory, known):
        key = _key_set(directory, known, options.pattern, options.detector)
        was = known[key][0]
        reading.publish({administration_topic("policy", key): b""})
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
    patterns = {name: entry.pattern for name, entry in directory.detectors.items()}
    # The policy for all comes first.
    ordered = sorted(known.items(), key=lambda each: (each[0] != EVERYBODY, each[0]))
    if options.as_json:
        shown = [
            {"key": key, "policy": text, "pattern": patterns.get(key), **({"problem": problem} if problem else {})}
            for key, (text, problem) in ordered
        ]
        print_json({"policies": shown, "otherwise": DEFAULT.text})
        return 0
    table = Table.grid(padding=(0, 2))
    if EVERYBODY not in known:
        table.add_row(EVERYBODY_SHOWN, Text(DEFAULT.text), Text("as nothing else is set", "dim"))
    short = {**short_ids(patterns.keys() | (known.keys() - {EVERYBODY})), EVERYBODY: EVERYBODY_SHOWN}
    for key, (text, problem) in ordered:
        absent = Text("" if key == EVERYBODY else "not there now", "dim")
        about = Text(patterns[key]) if key in patterns else absent
        table.add_row(short[key], Text(problem, "yellow") if problem else Text(text, "bold"), about)
    output().print(table)
    return 0


def _key_set(directory: Directory, known: Mapping[str, PolicySet], pattern: str | None, detector: str | None) -> str:
    """Key under which a policy was set: `EVERYBODY`, or the id of a detector, which may be gone."""
    if detector is None:
        found = [key for key in known if key == _id_of(directory, pattern)]
    elif detector in known:
        found = [detector]
    else:
        found = [key for key in known if key.startswith(detector) and key != EVERYBODY]
    if len(found) == 1:
        return found[0]
    raise DistcedError(
        "several detectors whose ids begin so" if found else "no distribution policy is set for it",
        given=detector if pattern is None else pattern,
        allowed=", ".join(sorted(found or known)) or "none is set",
        advice="give more of the id" if found else "distced policy show lists what is set",
    )


def _id_of(directory: Directory, pattern: str | None) -> str:
    """Id of the detector of a pattern, under guaranteed detection; `EVERYBODY` without a pattern."""
    return EVERYBODY if pattern is None else check_pattern(pattern, directory.registry()).canonical_id


@contextmanager
def _administering(server: str) -> Iterator[tuple[LiveDirectory, Directory, dict[str, PolicySet]]]:
    """Connection, directory, and the policies set, by key."""
    with LiveDirectory(server, settings=("policy",)) as reading:
        directory, _ = reading.look(lambda directory: directory)
        settings = reading.settings()
        known = {levels[1]: _read(levels[1], payload) for levels, payload in settings.items() if len(levels) == 2}
        yield reading, directory, known


def _read(key: str, payload: bytes) -> PolicySet:
    where, text = administration_topic("policy", key), ""
    try:
        text = decode(payload, SetPolicy, where=where).policy
        parse_policy(text, where=where)
    except DistcedError as error:
        return text, str(error)
    return text, ""

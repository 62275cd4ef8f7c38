"""The verb `rules`, with verbs of its own: `apply`, `ls` and `rm`."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import typer
from rich.text import Text
from typer import Argument, Option

from distced.brokers.cli.derived_types import new_types, published_by
from distced.brokers.cli.inspect import Seen, Watched, show
from distced.brokers.cli.subscribe import Decompositions
from distced.brokers.core.directory import Directory
from distced.brokers.inspect.rule_plan import (
    Plan,
    detectors_of,
    entries_of,
    plan,
    plan_text,
    present,
    removal,
    rules_report,
    rules_text,
    set_of,
    without_detectors,
)
from distced.brokers.live.observers import LiveDirectory
from distced.detectors.pattern_files import compile_source, read_source
from distced.detectors.stepwise.engine import in_order
from distced.middleware.cli.options import DEFAULT, ServerOption, connected, verb
from distced.middleware.cli.output import AsJson, few, messages, output, print_json, show_notes
from distced.middleware.cli.signals import ending
from distced.middleware.client.directory_session import OF_DURABLE
from distced.middleware.client.quality import QualityOfService
from distced.middleware.model.errors import DistcedError
from distced.middleware.wire.codec import encode
from distced.middleware.wire.topics import directory_topic
from distced.policies.cli.hint_options import AllowedNodes, EventRates, ExcludedNodes
from distced.policies.distribution.choose.hints import read_hints
from distced.policies.distribution.policy import parse_policy

SERVED_WITHIN: Final = 5.0
"""Time for nodes to serve what was applied, s."""

rules = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Patterns of files that nodes detect without a client: apply, show and remove them.",
)


@dataclass(frozen=True, kw_only=True)
class ChangeOptions:
    """Options of the verbs that change rules."""

    server: ServerOption = DEFAULT
    dry_run: Annotated[bool, Option("--dry-run", help="Show the difference only; exit code 1 where there is one.")] = (
        False
    )
    yes: Annotated[bool, Option("--yes", help="Do not ask for a confirmation.")] = False
    as_json: AsJson = False


@dataclass(frozen=True, kw_only=True)
class ApplyOptions(ChangeOptions):
    """Options of `distced rules apply`."""

    file: Annotated[str, Argument(metavar="FILE", help="Pattern file; its name is that of its rules.")]
    name: Annotated[
        str, Option("--name", metavar="NAME", help="Name of its rules in place of the file's.", show_default=False)
    ] = ""
    detection: Annotated[str, Option("--detection", metavar="POLICY", help="Detection policy, as of `subscribe`.")] = (
        "guaranteed"
    )
    decomposition: Annotated[
        Decompositions | None, Option("--decomposition", help="Parts with detectors of their own.")
    ] = None
    policy: Annotated[
        str, Option("--policy", help="Distribution policy: its name, or three words in quotes.", show_default=False)
    ] = ""
    on: AllowedNodes = None
    avoid: ExcludedNodes = None
    rate: EventRates = None

    @property
    def quality(self) -> QualityOfService:
        """The quality of service."""
        return QualityOfService(
            detection=self.detection,
            decomposition=None if self.decomposition is None else self.decomposition.value,
            distribution=parse_policy(self.policy).text if self.policy else "",
            hints=read_hints(self.on or (), self.avoid or (), self.rate or (), None, isolated=False),
        )


@rules.command("apply")
@verb
def apply_rules(options: ApplyOptions) -> int:
    """Make the rules of a pattern file the ones that nodes detect, without a client.

    The difference to the rules of that file that are there is shown, and confirmed on a terminal: what is not in the
    file any more is removed. Unchanged rules go on undisturbed. Their composite events are published for subscriptions
    and rules that read their types, and as JSON where a pattern says so.

    \b
    Examples:
      distced rules apply office.pattern
      distced rules apply office.pattern --dry-run
      distced rules apply office.pattern --policy min-bandwidth --yes
    """
    source = read_source(options.file)
    if not source.name:
        raise DistcedError("no such pattern file", given=options.file, advice="rules are the patterns of a file")
    if options.file == "-" and not options.name:
        raise DistcedError("rules of standard input without a name", advice="give one with --name")
    name, quality = options.name or set_of(options.file), options.quality
    with ending(), LiveDirectory(options.server) as reading:
        directory, _ = reading.look(lambda directory: without_detectors(directory, name))
        registry = directory.registry()
        patterns = compile_source(source, registry)
        show_notes(patterns.notes)
        ordered = list(in_order(patterns.compiled))
        wanted = entries_of(name, ordered, quality)
        planned, _ = reading.look(lambda directory: plan(name, wanted, present(directory, name)))
        new = new_types(patterns, registry, directory.types)
        if not _is_to_be_done(planned, options, [each.name for each in new]):
            return int(bool(planned.entries or new))
        if new:
            with connected(options.server) as client:
                client.register(*new, awaited=published_by(patterns))
        return _carry_out(reading, planned, options, detectors_of(wanted, ordered))


@dataclass(frozen=True, kw_only=True)
class ShowRulesOptions:
    """Options of `distced rules ls`."""

    server: ServerOption = DEFAULT
    watch: Watched = False
    as_json: AsJson = False


@rules.command("ls")
@verb
def show_rules(options: ShowRulesOptions) -> int:
    """Show the rules: their nodes, states, and composite events so far.

    A rule that cannot be detected for now waits, with the reason, and is tried again. The exit code is 1 without one.

    \b
    Examples:
      distced rules ls
      distced rules ls --json
    """

    def see(directory: Directory) -> Seen:
        report = rules_report(directory)
        return Seen(report, lambda now: list(rules_text(report)), bool(report.rules))

    with ending(), LiveDirectory(options.server) as reading:
        return show(reading, see, watch=options.watch, as_json=options.as_json)


@dataclass(frozen=True, kw_only=True)
class RemoveOptions(ChangeOptions):
    """Options of `distced rules rm`."""

    name: Annotated[str, Argument(metavar="FILE|NAME", help="The file, the name of its rules, or NAME/RULE for one.")]


@rules.command("rm")
@verb
def remove_rules(options: RemoveOptions) -> int:
    """Remove the rules of a file, or one of them.

    Derived types of the file stay registered, as others may read them. The exit code is 2 where there are none.

    \b
    Examples:
      distced rules rm office.pattern
      distced rules rm office/Cold --yes
    """
    with ending(), LiveDirectory(options.server) as reading:
        known, _ = reading.look(present)
        of_set = {name: entry for name, entry in known.items() if entry.durable and entry.durable.rules == options.name}
        by_file = set_of(options.name)
        of_file = {name: entry for name, entry in known.items() if entry.durable and entry.durable.rules == by_file}
        one = {
            name: entry
            for name, entry in known.items()
            if entry.durable and f"{entry.durable.rules}/{entry.durable.name}" == options.name
        }
        found = of_set or one or of_file
        if not found:
            sets = sorted({entry.durable.rules for entry in known.values() if entry.durable})
            raise DistcedError("no rules of this name", given=options.name, allowed=few(sets) or "there are none")
        planned = removal(found, options.name)
        return _carry_out(reading, planned, options) if _is_to_be_done(planned, options) else 1


def _is_to_be_done(planned: Plan, options: ChangeOptions, types: Sequence[str] = ()) -> bool:
    """Show the difference, with the derived types that are new; whether it is to be carried out."""
    if not options.as_json:
        for each in types:
            output().print(Text(f"+ type {each}", "green"))
        for line in plan_text(planned):
            output().print(line)
    if options.dry_run or not (planned.entries or types):
        if options.as_json:
            print_json({"applied": False, **_as_dict(planned)})
        return False
    if options.yes:
        return True
    if options.as_json or not sys.stdin.isatty():
        raise DistcedError("nothing was changed: no terminal for the confirmation", advice="say --yes")
    if typer.confirm("Apply this?", err=True):
        return True
    messages().print("nothing was changed")
    return False


def _carry_out(
    reading: LiveDirectory, planned: Plan, options: ChangeOptions, detectors: Mapping[str, str] | None = None
) -> int:
    """Publish the changes, and show what nodes make of them; `detectors` that the rules will have, by name."""
    published: dict[str, bytes] = {}
    for name, entry in planned.entries.items():
        if entry is None:
            published |= {directory_topic(kind, name): b"" for kind in OF_DURABLE}
        else:
            published[directory_topic("subscription", name)] = encode(entry)
    reading.publish(published)
    new = {
        name: "" if entry.durable is None else entry.durable.name for name, entry in planned.entries.items() if entry
    }
    seen: set[str] = set()
    deadline = time.monotonic() + SERVED_WITHIN
    while True:
        report, state = reading.look(lambda directory: rules_report(directory, detectors))
        served = [each for each in report.rules if each.subscription in new]
        there = {each.subscription for each in served}
        seen |= there
        left = deadline - time.monotonic()
        # An entry that nodes refuse is cleared.
        if left <= 0 or (seen == new.keys() and all(each.state != "unserved" for each in served)):
            break
        reading.wait(state, left)
    if options.as_json:
        states = {each.rule: {"state": each.state, "reason": each.reason, "node": each.node} for each in served}
        print_json({"applied": True, **_as_dict(planned), "states": states})
    else:
        for each in served:
            if each.state == "running":
                output().print(Text.assemble((each.rule, "cyan"), f" on {each.node}"))
            else:
                reason = each.reason or "no node has it yet; `distced rules ls` shows when one does"
                messages().print(Text(f"{each.rule} {each.state}: {reason}", "yellow"))
    if refused := [rule for name, rule in new.items() if name not in there]:
        raise DistcedError(
            "rules that nodes do not accept, and that are removed",
            given=few(refused),
            allowed="patterns as long, and subscriptions as many, as nodes have limits for",
            advice="the log of a node says which limit: `subscriptions refused`",
        )
    return 0


def _as_dict(planned: Plan) -> dict[str, object]:
    return {
        "rules": planned.rules,
        "changes": [
            {"rule": each.rule, "action": each.action, "before": each.before, "pattern": each.pattern,
             "terms": list(each.terms)}
            for each in planned.changes
        ],
    }  # fmt: skip

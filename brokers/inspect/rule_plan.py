"""Rules: patterns of a file that nodes detect without a client; the difference to those there are, and a view of them.

A rule is the entry of a durable subscription that nobody reads: nothing is kept for it, and it has no end. Its
composite events are read by others by their type, or leave as JSON. The rules of a file are a set, under the name of
the file: what is not in the file any more is removed, as with `terraform apply`. A rule is known by the type that it
publishes, so that a change of its pattern is a change, not a removal and an addition.

Rejected: additions alone, with a switch to remove (what was deleted in a file would go on for ever, unnoticed).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec.structs import replace
from rich.console import RenderableType
from rich.text import Text

from distced.brokers.core.directory import Directory
from distced.brokers.inspect.lookup import short_ids
from distced.detectors.compiler import Compiled
from distced.detectors.pattern_files import ENDING
from distced.detectors.runtime.detector import detector_id
from distced.middleware.cli.output import table
from distced.middleware.client.durable import differences
from distced.middleware.client.quality import QualityOfService
from distced.middleware.wire.directory_entries import RULES_CLIENT, Durable, DurableEntry, SubscriptionEntry
from distced.policies.detection import check_detection_policy

UNNAMED: Final = "pattern"
"""Name of a rule that publishes no type, with its number."""

Action = Literal["added", "changed", "unchanged", "removed"]


class RuleChange(msgspec.Struct, frozen=True):
    """Change of a rule, with its pattern before and after, None for none; `terms`: further terms that differ."""

    rule: str
    action: Action
    before: str | None
    pattern: str | None
    terms: tuple[str, ...] = ()


class Plan(msgspec.Struct, frozen=True):
    """Changes of a set of rules; `entries` are to be published, by name in the directory, None to be cleared."""

    rules: str
    changes: tuple[RuleChange, ...]
    entries: dict[str, SubscriptionEntry | None]

    def count(self, action: Action) -> int:
        """Number of rules with an action."""
        return sum(each.action == action for each in self.changes)


class RuleReport(msgspec.Struct, frozen=True):
    """Report on a rule.

    Attributes:
        rules, rule: its set, and its name.
        state: `running`, `waiting`, or `unserved` as long as no node has it.
        reason: why it waits; else empty.
        node, detector: that serve it; None where it is not running.
        found: composite events since its detector began there.
        publishes: type of its composite events; empty for none.
    """

    rules: str
    rule: str
    subscription: str
    pattern: str
    state: Literal["running", "waiting", "unserved"]
    reason: str
    node: str | None
    detector: str | None
    found: int
    publishes: str


class RulesReport(msgspec.Struct, frozen=True):
    """Report on all rules."""

    rules: tuple[RuleReport, ...]


def set_of(file: str) -> str:
    """Name of the rules of a file."""
    return Path(file).name.removesuffix(ENDING)


def rule_id(rules: str, rule: str) -> str:
    """Name of a rule in the directory; without a dot, so that its topic has no level for a client."""
    return f"{RULES_CLIENT}{rules}:{rule}".replace("%", "%25").replace(".", "%2E")


def entries_of(rules: str, patterns: Iterable[Compiled], quality: QualityOfService) -> dict[str, SubscriptionEntry]:
    """Entries of the rules of a file, by name in the directory, in order."""
    names, found = Counter[str](), dict[str, SubscriptionEntry]()
    for each in patterns:
        name = each.publishes.name or UNNAMED
        names[name] += 1
        rule = f"{name} {names[name]}" if names[name] > 1 or name == UNNAMED else name
        found[rule_id(rules, rule)] = SubscriptionEntry(
            f"{RULES_CLIENT}{rules}",
            each.text,
            consumption=quality.consumption,
            policy=quality.detection,
            decomposition=quality.decomposition or "",
            distribution=quality.distribution,
            hints=quality.hints,
            # Rules wait for their types.
            again=True,
            durable=Durable(name=rule, rules=rules),
        )
    return found


def detectors_of(entries: Mapping[str, SubscriptionEntry], patterns: Iterable[Compiled]) -> dict[str, str]:
    """Detectors that the rules of a file will have, by name in the directory."""
    policies = (check_detection_policy(each.policy) for each in entries.values())
    return {name: detector_id(each, policy) for name, each, policy in zip(entries, patterns, policies, strict=True)}


def present(directory: Directory, rules: str | None = None) -> dict[str, SubscriptionEntry]:
    """Rules in the directory, of one set or of all, by name."""
    found: dict[str, SubscriptionEntry] = {}
    for name in sorted(directory.durable_names):
        entry = directory.subscriptions[name]
        if entry.durable is not None and entry.durable.rules and rules in (None, entry.durable.rules):
            found[name] = entry
    return found


def plan(rules: str, wanted: Mapping[str, SubscriptionEntry], there: Mapping[str, SubscriptionEntry]) -> Plan:
    """Changes that make the rules of a set those that are wanted."""
    changes: list[RuleChange] = []
    entries: dict[str, SubscriptionEntry | None] = {}
    for name, entry in wanted.items():
        rule, before = _rule(entry), there.get(name)
        if before is None:
            changes.append(RuleChange(rule, "added", None, entry.pattern))
            entries[name] = entry
            continue
        differs = tuple(term for term, _, _ in differences(before, entry))
        changes.append(
            RuleChange(
                rule,
                "changed" if differs else "unchanged",
                before.pattern,
                entry.pattern,
                tuple(each for each in differs if each != "pattern"),
            )
        )
        if differs:
            entries[name] = entry
    for name, before in there.items():
        if name not in wanted:
            changes.append(RuleChange(_rule(before), "removed", before.pattern, None))
            entries[name] = None
    return Plan(rules, tuple(changes), entries)


def without_detectors(directory: Directory, rules: str) -> Directory:
    """Directory without what the rules of a set publish, against which their new patterns are checked."""
    left_out = {directory.durables[name].detector for name in present(directory, rules) if name in directory.durables}
    made = Directory()
    for kind in ("type", "detector"):
        for name, entry in directory.table(kind).items():
            if name not in left_out:
                made.put(kind, name, entry)
    return made


def rules_report(directory: Directory, detectors: Mapping[str, str] | None = None) -> RulesReport:
    """Report on all rules; `detectors`: those that rules changed a moment ago will have, by name in the directory: with
    another one a rule is unserved still."""
    found: list[RuleReport] = []
    for name, entry in present(directory).items():
        assert entry.durable is not None
        state = directory.durables.get(name) or DurableEntry("")
        expected = state.detector if detectors is None else detectors.get(name, state.detector)
        detector = directory.detectors.get(state.detector) if state.detector == expected else None
        reason = state.reason or ("" if detector is None else detector.waits)
        found.append(
            RuleReport(
                entry.durable.rules,
                entry.durable.name,
                name,
                entry.pattern,
                "waiting" if reason else "running" if detector is not None else "unserved",
                reason,
                None if detector is None else detector.node,
                None if detector is None else state.detector,
                state.found,
                "" if detector is None else detector.publishes,
            )
        )
    return RulesReport(tuple(found))


_SIGNS: Final[dict[Action, tuple[str, str, str]]] = {
    "added": ("+", "green", "to add"),
    "changed": ("~", "yellow", "to change"),
    "unchanged": (" ", "dim", "unchanged"),
    "removed": ("-", "red", "to remove"),
}


def plan_text(plan: Plan) -> Iterator[RenderableType]:
    """The difference, a line for each rule."""
    for each in plan.changes:
        sign, style, _ = _SIGNS[each.action]
        if each.action == "changed" and each.before != each.pattern:
            yield Text(f"- {each.rule}  {each.before}", "red")
            yield Text(f"+ {each.rule}  {each.pattern}", "green")
        else:
            yield Text(f"{sign} {each.rule}  {each.pattern or each.before}", style)
        if each.terms:
            yield Text(f"~ {each.rule}  with another {', '.join(each.terms)}", "yellow")
    counts = ", ".join(f"{n} {sign[2]}" for action, sign in _SIGNS.items() if (n := plan.count(action)))
    yield Text(f"{plan.rules}: {counts or 'no rules'}", "bold")


def rules_text(report: RulesReport) -> Iterator[RenderableType]:
    """A table."""
    if not report.rules:
        yield Text("no rules: `distced rules apply FILE` makes those of a pattern file", "yellow")
        return
    short = short_ids({each.detector for each in report.rules if each.detector})
    rows = [
        [
            Text(each.rules, "cyan"),
            Text(each.rule, "cyan"),
            Text(each.state, "" if each.state == "running" else "yellow"),
            Text(each.node or ""),
            Text(short[each.detector] if each.detector else ""),
            Text(f"{each.found:,}" if each.detector else ""),
            Text(each.reason or each.pattern, "yellow" if each.reason else ""),
        ]
        for each in report.rules
    ]
    yield table(("rules", "rule", "state", "node", "detector", "found", "pattern"), rows, right=("found",))


def removal(names: Mapping[str, SubscriptionEntry], rules: str) -> Plan:
    """Plan that removes these rules."""
    return plan(rules, {}, {name: replace(entry, again=True) for name, entry in names.items()})


def _rule(entry: SubscriptionEntry) -> str:
    return "" if entry.durable is None else entry.durable.name

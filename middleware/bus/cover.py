"""Filters that do not overlap, for servers that send a message once for each filter of a client it matches.

Under MQTT 3.1.1 such copies cannot be told from messages published twice. So filters that overlap are asked for as one
that takes in both: `ced/e/#` for `ced/e/#` and `ced/e/A/+`, and `ced/e/+/+` for `ced/e/A/+` and `ced/e/+/s`. In the
second case the server sends more than is wanted, which is the price of each message coming once; MQTT 5, which marks
the copies, does not pay it.
"""

from __future__ import annotations

from typing import NamedTuple


class Change(NamedTuple):
    """What to ask the server for.

    Attributes:
        subscribe: filters and QoS, first.
        unsubscribe: filters, afterwards, so that nothing is missed in between.
    """

    subscribe: dict[str, int]
    unsubscribe: list[str]


class Cover:
    """Filters of a client, in groups of those that overlap, each group under one filter that takes them all in.

    Attributes:
        groups: the filters and QoS of each group by the group's filter; no two groups' filters overlap.
    """

    def __init__(self) -> None:
        self.groups: dict[str, dict[str, int]] = {}

    def add(self, topic_filter: str, qos: int) -> Change:
        """A filter more, or one that is there already with a new QoS."""
        whole, members = topic_filter, {topic_filter: qos}
        swallowed: list[str] = []
        # The union may overlap groups that the filter does not.
        while touched := [group for group in self.groups if overlap(group, whole)]:
            for group in touched:
                whole = union(whole, group)
                members = self.groups.pop(group) | members
            swallowed += touched
        self.groups[whole] = members
        # Also where the group stood before: what the server retains is for the new filter too.
        return Change({whole: max(members.values())}, [group for group in swallowed if group != whole])

    def remove(self, topic_filter: str) -> Change:
        """A filter less."""
        whole = next((group for group, members in self.groups.items() if topic_filter in members), None)
        if whole is None:
            return Change({}, [])
        rest = self.groups.pop(whole)
        del rest[topic_filter]
        before = set(self.groups)
        for other, qos in rest.items():
            self.add(other, qos)
        made = {group: max(self.groups[group].values()) for group in self.groups if group not in before}
        if whole in made:
            del made[whole]
            return Change(made, [])
        return Change(made, [whole])


def overlap(one: str, other: str) -> bool:
    """Whether a topic may match both filters."""
    if one.startswith("$") != other.startswith("$"):
        # A wildcard at the start does not match topics that begin with $ (MQTT 5, section 4.7.2).
        return False
    mine, others = one.split("/"), other.split("/")
    for level, another in zip(mine, others, strict=False):
        if level == "#" or another == "#":
            return True
        if level != another and "+" not in (level, another):
            return False
    # `a/#` matches `a` as well.
    longer = max(mine, others, key=len)
    return len(mine) == len(others) or longer[min(len(mine), len(others))] == "#"


def union(one: str, other: str) -> str:
    """The narrowest filter that matches whatever either matches."""
    mine, others = one.split("/"), other.split("/")
    levels: list[str] = []
    for level, another in zip(mine, others, strict=False):
        if level == "#" or another == "#":
            return "/".join([*levels, "#"])
        levels.append(level if level == another else "+")
    if len(mine) != len(others):
        levels.append("#")
    return "/".join(levels)

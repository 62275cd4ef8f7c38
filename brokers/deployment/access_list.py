"""Access list of a deployment: which topics each participant may publish and read, by its roles.

The names of topics say whose a message is (`middleware.wire.topics`), so that a server can hold each participant to its
own: a publisher to its sources, a client to its subscriptions; administration, the entries of nodes and their composite
events are for nodes. The list is for mosquitto's `acl_file`; what it does not allow is refused.

Rejected: mosquitto's patterns with the name of the user in them, which are for all users alike, whatever their role.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from distced.middleware.client.directory_session import KINDS_READ, OF_DURABLE
from distced.middleware.client.durable import durable_id
from distced.middleware.model.errors import DistcedError
from distced.middleware.wire.administration import COUNTERS
from distced.middleware.wire.directory_entries import RECORDER
from distced.middleware.wire.source_filter import reader_name
from distced.middleware.wire.topics import (
    ROOT,
    Area,
    administration_topic,
    area_filter,
    directory_filter,
    directory_topic,
    event_filter,
    pointer_topic,
)

Role: TypeAlias = Literal["node", "publisher", "client", "bridge", "recorder", "operator"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)

Right: TypeAlias = Literal["read", "write", "readwrite"]


class DeployedUser(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Participant of a deployment, by the name of its user.

    Attributes:
        roles: what it is; a node whose process has a bridge is both.
        sources: names of the sources of a publisher.
        types: event types of a publisher or client that it may register; a publisher publishes these alone, or all
            where it has none.
        durable: names of the durable subscriptions of a client.
        topics: MQTT filters beyond those of distced: of the devices that a bridge reads, and of publications as JSON,
            which nodes write.
    """

    roles: tuple[Role, ...]
    sources: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    durable: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()


class AccessRule(NamedTuple):
    """Right of a user to the topics of a filter."""

    right: Right
    topic_filter: str


def rules(name: str, participant: DeployedUser, root: str = ROOT) -> list[AccessRule]:
    """Rules of a participant, without repetitions."""
    found = {each: None for role in participant.roles for each in _OF_ROLE[role](name, participant, root)}
    return list(found)


def access_list(participants: Mapping[str, DeployedUser], root: str = ROOT) -> str:
    """Access list of all participants, as mosquitto reads it.

    Raises `DistcedError` for names that it could not tell apart.
    """
    lines = ["# Written by distced init: changes are lost. A user may do what is listed, and nothing else.", ""]
    for name, participant in participants.items():
        if not name or not name.isprintable() or name != name.strip() or set(name) & set("+#/:"):
            allowed = "printable text without +, #, / and :, not beginning or ending with a blank"
            raise DistcedError("not the name of a user", given=name, allowed=allowed)
        for topic in participant.topics:
            if not topic or not topic.isprintable():
                raise DistcedError(
                    "not an MQTT filter", given=topic, allowed="printable text", where=f"topics of {name}"
                )
        lines.append(f"user {name}")
        lines += [f"topic {each.right} {each.topic_filter}" for each in rules(name, participant, root)]
        lines.append("")
    return "\n".join(lines)


def _reads(filters: Iterable[str]) -> Iterator[AccessRule]:
    return (AccessRule("read", each) for each in filters)


def _writes(filters: Iterable[str]) -> Iterator[AccessRule]:
    return (AccessRule("write", each) for each in filters)


def _exactly(topic_filter: str) -> str:
    """Filter for the topics of an `area_filter` with as many levels, without those below."""
    return topic_filter.removesuffix("/#")


def _present(name: str, root: str) -> Iterator[AccessRule]:
    """What every participant but nodes does: reads the directory, and has an entry of its own as a client."""
    administration = partial(administration_topic, root=root)
    yield from _reads(directory_filter(each, root=root) for each in (*KINDS_READ, "detector"))
    yield from _reads([pointer_topic(root=root), area_filter(Area.ADMINISTRATION, COUNTERS, root=root)])
    yield from _writes([directory_topic("client", name, root=root), administration("alive", "client", name)])
    # What it reads, for sources that filter, and their acknowledgements.
    reader = reader_name("client", name)
    yield from _writes([directory_topic("reader", reader, root=root)])
    yield from _reads([area_filter(Area.ADMINISTRATION, "filtered", reader, root=root)])
    yield AccessRule("readwrite", area_filter(Area.ADMINISTRATION, "known", name, root=root))


def _publisher(name: str, participant: DeployedUser, root: str) -> Iterator[AccessRule]:
    yield from _present(name, root)
    yield from _publishes(name, participant.sources, participant.types, root)


def _publishes(name: str, sources: Iterable[str | None], types: tuple[str, ...], root: str) -> Iterator[AccessRule]:
    """Publication of the events of sources; None stands for all."""
    administration = partial(administration_topic, root=root)
    area = partial(area_filter, Area.ADMINISTRATION, root=root)
    for source in sources:
        for each in types or (None,):
            yield AccessRule("write", event_filter(each, source, root=root))
        if source is None:
            yield from _writes([directory_filter("source", root=root), area("again"), area("lost")])
            yield from _reads([area("ack")])
        else:
            answers = [_exactly(area(kind, None, "e", source)) for kind in ("again", "lost")]
            yield from _writes([directory_topic("source", source, root=root), *answers])
            yield from _reads([area("ack", source)])
    yield from _writes([administration("heartbeat", name)])
    yield from _writes([area("filtered", None, name).removesuffix("/#")])
    yield from _reads([administration("covered", name), administration("missing", "source", name)])
    yield from _writes(directory_topic("type", each, root=root) for each in types)


def _client(name: str, participant: DeployedUser, root: str) -> Iterator[AccessRule]:
    administration = partial(administration_topic, root=root)
    area = partial(area_filter, Area.ADMINISTRATION, root=root)
    yield from _present(name, root)
    yield from _reads([area_filter(Area.EVENTS, root=root), area_filter(Area.COMPOSITE_EVENTS, root=root)])
    yield AccessRule("readwrite", directory_filter("subscription", name, root=root))
    yield from _writes([administration("ready", name), area("missing")])
    yield from _reads([administration("answer", name), administration("progress", name)])
    yield from _reads([area("again", name), area("lost", name)])
    yield from _writes(directory_topic("type", each, root=root) for each in participant.types)
    for each in participant.durable:
        for kind in OF_DURABLE:
            yield AccessRule("readwrite", directory_topic(kind, durable_id(each), root=root))


def _bridge(name: str, participant: DeployedUser, root: str) -> Iterator[AccessRule]:
    # Its sources are the devices, which nobody knows beforehand; it is a source itself.
    bridge = f"{name}-bridge"
    for each in {name: None, bridge: None}:
        yield from _present(each, root)
        yield from _publishes(each, [None], participant.types, root)
    yield from _reads([area_filter(Area.DIRECTORY, root=root), *participant.topics])
    dead_letters = area_filter(Area.DEAD_LETTERS, None, bridge, root=root)
    yield from _writes([directory_filter("type", root=root), _exactly(dead_letters)])


def _node(name: str, participant: DeployedUser, root: str) -> Iterator[AccessRule]:
    yield from _reads([f"{root}/#"])
    areas = (Area.COMPOSITE_EVENTS, Area.DIRECTORY, Area.ADMINISTRATION, Area.DEAD_LETTERS)
    yield from _writes(area_filter(each, root=root) for each in areas)
    yield from _writes(participant.topics)


def _recorder(name: str, participant: DeployedUser, root: str) -> Iterator[AccessRule]:
    administration = partial(administration_topic, root=root)
    area = partial(area_filter, Area.ADMINISTRATION, root=root)
    speaker = f"{RECORDER}{name}"
    yield from _reads(area_filter(each, root=root) for each in (Area.EVENTS, Area.COMPOSITE_EVENTS, Area.DIRECTORY))
    yield from _reads([area("heartbeat"), area("fence"), area("again", speaker), area("lost", speaker)])
    yield from _reads([pointer_topic(root=root)])
    yield from _writes([directory_topic("recorder", name, root=root), area("missing")])
    yield from _writes([directory_topic("reader", speaker, root=root)])
    yield from _reads([area("filtered", speaker)])
    yield from _writes([_exactly(area("ack", None, speaker)), administration("alive", "recorder", name)])
    yield from _writes([_exactly(area_filter(Area.DEAD_LETTERS, None, speaker, root=root))])
    for each in (name, speaker):
        yield AccessRule("readwrite", area("known", each))


def _operator(name: str, participant: DeployedUser, root: str) -> Iterator[AccessRule]:
    area = partial(area_filter, Area.ADMINISTRATION, root=root)
    # The server's own topics have its version, and what it has dropped.
    yield from _reads([f"{root}/#", "$SYS/broker/#"])
    # It clears whatever has no owner any more, and applies rules, types and topologies.
    yield from _writes([area_filter(Area.DIRECTORY, root=root)])
    yield from _writes(
        area(each) for each in ("policy", "move", "drain", "fence", "story", "known", "alive", "directory")
    )
    yield from _writes([area("node", None, "identify")])


_OF_ROLE: Final = {
    "node": _node,
    "publisher": _publisher,
    "client": _client,
    "bridge": _bridge,
    "recorder": _recorder,
    "operator": _operator,
}

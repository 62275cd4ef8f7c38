"""Topics of distced: built and parsed, without state (design, section 4).

    <root>/e/<type>/<source>     primitive events of one type from one source
    <root>/c/<canonical id>      composite events of one pattern
    <root>/d/<kind>/...          the directory, retained
    <root>/a/...                 administration
    <root>/x/...                 dead letters: unreadable messages, for people

A type, a source or an id may hold any characters; `/`, `+`, `#`, `$`, `%` and non-printing ones are percent-encoded in
a level. Letters of any script stay readable, so `urllib.parse.quote` was rejected for building.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote

from distced.middleware.model.errors import DistcedError

ROOT: Final = "ced"
MAX_BYTES: Final = 65_535  # of a topic in UTF-8 (MQTT 5, section 1.5.4)
ANY: Final = "+"  # any level, in a filter
_RESERVED: Final = frozenset("/+#$%")


class TopicError(DistcedError):
    """Malformed topic, or one that is not distced's."""


class Area(StrEnum):
    """Level after the root."""

    EVENTS = "e"
    COMPOSITE_EVENTS = "c"
    DIRECTORY = "d"
    ADMINISTRATION = "a"
    DEAD_LETTERS = "x"


class Topic(NamedTuple):
    """Parsed topic: its area and the decoded levels below."""

    area: Area
    levels: tuple[str, ...]


def event_topic(type: str, source: str, *, root: str = ROOT) -> str:
    """Topic of primitive events of a type from a source."""
    return _join(root, Area.EVENTS, encode_level(type), encode_level(source))


def event_filter(type: str | None = None, source: str | None = None, *, root: str = ROOT) -> str:
    """Filter for primitive events; None stands for every type, every source."""
    return _join(root, Area.EVENTS, _level_or_any(type), _level_or_any(source))


def composite_topic(canonical_id: str, *, root: str = ROOT) -> str:
    """Topic of composite events of the pattern with this canonical id."""
    return _join(root, Area.COMPOSITE_EVENTS, encode_level(canonical_id))


def directory_topic(kind: str, name: str, *, publishes: str = "", root: str = ROOT) -> str:
    """Topic of an entry of the directory, a retained message.

    Those of a client's subscriptions, and of the detectors that publish a type (`publishes`), are below one level, so
    that nobody need read the others. `parse_topic` gives kind and name.
    """
    levels: tuple[str, ...] = (kind, name)
    if kind == "detector" and publishes:
        levels = (kind, publishes, name)
    elif kind == "subscription":
        levels = (kind, *_levels_of(name))
    return _area_topic(root, Area.DIRECTORY, levels)


def directory_filter(kind: str, below: str = "", *, root: str = ROOT) -> str:
    """Filter for the entries of a kind, or for those of one client, or one type published, below it."""
    return (
        _join(root, Area.DIRECTORY, kind, encode_level(below), ANY) if below else _join(root, Area.DIRECTORY, kind, "#")
    )


def administration_topic(*levels: str, root: str = ROOT) -> str:
    """Topic of administration."""
    return _area_topic(root, Area.ADMINISTRATION, levels)


def pointer_topic(*, root: str = ROOT) -> str:
    """Topic of the retained `Pointer` to the server of the directory, at other servers."""
    return administration_topic("directory", root=root)


def dead_letter_topic(*levels: str, root: str = ROOT) -> str:
    """Topic of messages that could not be read."""
    return _area_topic(root, Area.DEAD_LETTERS, levels)


def area_filter(area: Area, *levels: str | None, root: str = ROOT) -> str:
    """Filter for everything in an area, or below these levels of it; None stands for any one level."""
    return _join(root, area, *(_level_or_any(level) for level in levels), "#")


_AREAS: Final = {str(area): area for area in Area}
_LEVELS: Final = {Area.EVENTS: 2, Area.COMPOSITE_EVENTS: 1}


def parse_topic(topic: str, *, root: str = ROOT) -> Topic:
    """Parse a topic; raise `TopicError` for one that is not distced's under this root."""
    prefix = check_root(root) + "/"
    if not topic.startswith(prefix):
        raise TopicError("not a topic of distced", given=topic, allowed=f"topics that begin with {prefix}")
    name, *levels = topic[len(prefix) :].split("/")
    area = _AREAS.get(name)
    if area is None:
        allowed = ", ".join(f"{prefix}{member}/..." for member in Area)
        raise TopicError("not an area of topics", given=topic, allowed=allowed)
    wanted = _LEVELS.get(area)
    if not levels or (wanted is not None and len(levels) != wanted):
        allowed = {2: "<type>/<source>", 1: "<canonical id>"}.get(wanted or 0, "one level or more")
        raise TopicError("a topic with the wrong number of levels", given=topic, allowed=f"{prefix}{area}/{allowed}")
    decoded = tuple([decode_level(level) for level in levels])
    if area is Area.DIRECTORY and len(decoded) > 1:
        if decoded[0] == "subscription":
            decoded = _subscription(topic, decoded)
        elif decoded[0] == "detector" and len(decoded) == 3:
            decoded = decoded[0], decoded[2]
    return Topic(area, decoded)


def _subscription(topic: str, levels: tuple[str, ...]) -> tuple[str, ...]:
    """Kind and name of a subscription. Each has one topic: another could not be cleared by its name."""
    name = ".".join(levels[1:])
    if len(levels) <= 3 and _levels_of(name) != levels[1:]:
        allowed = "/".join(map(encode_level, _levels_of(name)))
        raise TopicError("not the topic of this subscription", given=topic, allowed=f"one that ends in {allowed}")
    return (levels[0], name) if len(levels) <= 3 else levels


def _levels_of(subscription: str) -> tuple[str, ...]:
    """Levels of the name of a subscription: its client, if the name begins with one, and the rest."""
    client = client_of(subscription)
    return (client, subscription[len(client) + 1 :]) if client else (subscription,)


def client_of(subscription: str) -> str:
    """Client that the name of a subscription begins with, a level of its topic; empty for none."""
    client, _, rest = subscription.rpartition(".")
    return client if rest else ""


def matches(topic_filter: str, topic: str) -> bool:
    """Whether a topic matches a filter, plain or shared (MQTT 5, section 4.7): `+` is any level, `#` any rest.

    Topics that begin with `$` match no filter that begins with a wildcard.
    """
    if topic_filter.endswith("/#") and "+" not in topic_filter and not topic_filter.startswith("$"):
        return topic.startswith(topic_filter[:-1]) or topic == topic_filter[:-2]
    levels, filter_levels = topic.split("/"), ungrouped(topic_filter).split("/")
    if topic.startswith("$") and filter_levels[0] in ("+", "#"):
        return False
    for place, each in enumerate(filter_levels):
        if each == "#":
            return True
        if place == len(levels) or each not in ("+", levels[place]):
            return False
    return len(filter_levels) == len(levels)


def is_shared(topic_filter: str) -> bool:
    """Whether each matching message goes to one client of a group only."""
    return topic_filter.startswith("$share/")


def ungrouped(topic_filter: str) -> str:
    """Filter without the group of a shared subscription."""
    return topic_filter.split("/", 2)[-1] if is_shared(topic_filter) else topic_filter


def encode_level(text: str) -> str:
    """Text as one level of a topic; `decode_level` is its inverse. Empty text is a `TopicError`."""
    if not text:
        raise TopicError("an empty level of a topic", allowed="a name of one character or more")
    if text.isprintable() and _RESERVED.isdisjoint(text):
        return text
    try:
        return "".join(char if char.isprintable() and char not in _RESERVED else _percent(char) for char in text)
    except UnicodeEncodeError:
        raise TopicError("a name with half a character in it", given=repr(text), allowed="Unicode text") from None


def decode_level(level: str) -> str:
    """Text from which `encode_level` made a level."""
    if not level:
        raise TopicError("an empty level of a topic", allowed="a name of one character or more")
    if "%" not in level:
        return level
    try:
        return unquote(level, errors="strict")
    except UnicodeDecodeError:
        raise TopicError(
            "a level whose percent-encoding is no UTF-8", given=level, allowed="percent-encoded UTF-8"
        ) from None


def check_json_topic(topic: str, *, root: str = ROOT) -> str:
    """Return a topic for composite events as JSON, or raise `TopicError`: one of the user's, not of distced's."""
    allowed = f'a topic outside {root}/, without + and #, no $ first, such as "home/alarms"'
    if not isinstance(topic, str) or not topic or not topic.isprintable() or topic.startswith("$"):
        raise TopicError("not a topic for JSON", given=repr(topic), allowed=allowed)
    if "+" in topic or "#" in topic:
        raise TopicError("a topic for JSON with a wildcard in it", given=topic, allowed=allowed)
    if topic == root or topic.startswith(f"{root}/"):
        raise TopicError("a topic for JSON among distced's own", given=topic, allowed=allowed)
    if len(topic.encode()) > MAX_BYTES:
        raise TopicError("a topic that is too long", given=topic, allowed=f"up to {MAX_BYTES} bytes of UTF-8")
    return topic


@lru_cache(maxsize=16)
def check_root(root: str) -> str:
    """Return a root prefix, which may have several levels, or raise `TopicError` where it is malformed."""
    if not root or any(not level for level in root.split("/")) or root.startswith("$") or not root.isprintable():
        raise TopicError(
            "not a root for topics", given=repr(root), allowed="levels joined by /, none empty, no $ first, such as ced"
        )
    if "+" in root or "#" in root:
        raise TopicError("a root for topics with a wildcard in it", given=root, allowed="no + and no #")
    return root


def _level_or_any(level: str | None) -> str:
    return ANY if level is None else encode_level(level)


def _area_topic(root: str, area: Area, levels: tuple[str, ...]) -> str:
    if not levels:
        raise TopicError("a topic without a level below its area", given=f"{root}/{area}", allowed="one level or more")
    return _join(root, area, *(encode_level(level) for level in levels))


def _join(root: str, *levels: str) -> str:
    topic = "/".join((check_root(root), *levels))
    if len(topic.encode()) > MAX_BYTES:
        raise TopicError("a topic that is too long", given=topic, allowed=f"up to {MAX_BYTES} bytes of UTF-8")
    return topic


def _percent(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode())

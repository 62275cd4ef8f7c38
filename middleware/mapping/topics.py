"""MQTT topic filters whose wildcards have names.

`zigbee2mqtt/{device}` is the filter `zigbee2mqtt/+` whose second level is called `device`. Matching is MQTT's own (MQTT
5.0, sections 4.7.1 and 4.7.2).
"""

from __future__ import annotations

import re
from typing import Final

from distced.middleware.model.errors import MappingError

_NAME: Final = re.compile(r"\{([^\W\d]\w*)\}")
RESERVED: Final = frozenset({"topic", "rest", "payload", "key", "row"})


class TopicFilter:
    """Topic filter with named levels; `mqtt` is the plain filter to subscribe to."""

    def __init__(self, text: str) -> None:
        self._levels = text.split("/")
        self._open = self._levels[-1] == "#"
        self._names: dict[str, int] = {}
        fixed = self._levels[:-1] if self._open else self._levels
        self._fixed = [self._read(level, place, text) for place, level in enumerate(fixed)]
        self.mqtt = "/".join("+" if level is None else level for level in self._fixed) + ("/#" if self._open else "")
        self.mqtt = self.mqtt.removeprefix("/") if self._levels == ["#"] else self.mqtt
        self._wild_front = not self._fixed or self._fixed[0] is None

    def _read(self, level: str, place: int, text: str) -> str | None:
        """Text that a level must have; None for any."""
        if level == "+":
            return None
        named = _NAME.fullmatch(level)
        if named is not None:
            if named[1] in self._names or named[1] in RESERVED:
                raise MappingError(
                    "a level of the topic needs a name of its own",
                    given=text,
                    allowed=f"each name once, and none of {', '.join(sorted(RESERVED))}",
                )
            self._names[named[1]] = place
            return None
        if any(sign in level for sign in "+#{}"):
            raise MappingError(
                "not a topic filter", given=text, allowed="whole levels +, {name}, or a # at the end", advice="see MQTT"
            )
        return level

    def knows(self, name: str) -> bool:
        """Whether `$name` can stand for a level of a matching topic."""
        if name == "topic" or name in self._names:
            return True
        if name == "rest":
            return self._open
        return name.isdecimal() and int(name) >= 1 and (self._open or int(name) <= len(self._fixed))

    def match(self, topic: str) -> dict[str, object] | None:
        """Values of `$` names in this topic; None where it does not match."""
        levels = topic.split("/")
        count = len(self._fixed)
        if len(levels) < count or (len(levels) > count and not self._open):
            return None
        if self._wild_front and topic.startswith("$"):
            return None
        for wanted, level in zip(self._fixed, levels, strict=False):
            if wanted is not None and wanted != level:
                return None
        found: dict[str, object] = {str(place): level for place, level in enumerate(levels, 1)}
        found["topic"] = topic
        for name, place in self._names.items():
            found[name] = levels[place]
        if self._open:
            found["rest"] = "/".join(levels[count:])
        return found

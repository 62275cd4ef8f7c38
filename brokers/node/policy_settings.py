"""Distribution policies of detectors: set by the administration, or requested by subscriptions.

composite-event-framework-2004, "Distribution Policies": policies change while detectors run, by messages on an
administration topic, retained for later nodes. The policy set for one detector overrides the one its subscriptions
request; the one set for all applies to those that request none.
"""

from __future__ import annotations

from typing import Final, Protocol

from distced.middleware.model.errors import DistcedError
from distced.middleware.wire.administration import SetPolicy
from distced.middleware.wire.codec import decode
from distced.policies.distribution.policy import DEFAULT, Policy, parse_policy

EVERYBODY: Final = "default"
"""Key of the policy for all detectors; single ones go by their ids."""


class Asks(Protocol):
    """Object with the text of a distribution policy, empty for none: a subscription, or the terms it is served on."""

    @property
    def distribution(self) -> str: ...


class PolicySettings:
    """Policies set by the administration: `set`, by detector or `EVERYBODY`."""

    def __init__(self) -> None:
        self.set: dict[str, Policy] = {}

    def read(self, key: str, payload: bytes, where: str) -> bool:
        """Take a setting, empty for its end; True for a change. Invalid ones raise `DistcedError` without effect."""
        before = self.set.get(key)
        if not payload:
            self.set.pop(key, None)
        else:
            self.set[key] = parse_policy(decode(payload, SetPolicy, where=where).policy, where=where)
        return self.set.get(key) != before

    def of(self, entry: Asks, detector: str) -> Policy:
        """Policy of a subscription to a detector. Raises `DistcedError` where it asks for an unknown one."""
        special = self.set.get(detector)
        if special is not None:
            return special
        if entry.distribution:
            return parse_policy(entry.distribution, where="distribution")
        return self.set.get(EVERYBODY, DEFAULT)

    def replicas(self, entry: Asks | None, detector: str) -> int:
        """Number of nodes on which a subscription wants its detector."""
        if entry is None:
            return 1
        try:
            return self.of(entry, detector).replicas
        except DistcedError:
            # Refused when it came; the policy was taken away since.
            return 1

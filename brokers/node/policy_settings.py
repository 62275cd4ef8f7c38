"""Which distribution policy a detector has: by what the administration says, and by what subscriptions ask for.

composite-event-framework-2004, "Distribution Policies": policies are changed while detectors run, by messages on an
administration topic. These are retained, so that nodes which come later know them. What is set for one detector counts
before what its subscriptions ask for, and what is set for everybody counts for those that ask for nothing.
"""

from __future__ import annotations

from typing import Final

from distced.middleware.model.errors import DistcedError
from distced.middleware.wire.directory_entries import SetPolicy, SubscriptionEntry, decode
from distced.policies.distribution.policy import DEFAULT, Policy, parse_policy

EVERYBODY: Final = "default"
"""What the policy for everybody is called; detectors go by their ids."""


class PolicySettings:
    """The policies that are set.

    Attributes:
        set: by detector, or `EVERYBODY`.
    """

    def __init__(self) -> None:
        self.set: dict[str, Policy] = {}

    def read(self, key: str, payload: bytes, where: str) -> bool:
        """Take in what the administration says, an empty payload for nothing any more; whether that is news.

        Raises:
            DistcedError: for what is no policy; what was set before stays.
        """
        before = self.set.get(key)
        if not payload:
            self.set.pop(key, None)
        else:
            self.set[key] = parse_policy(decode(payload, SetPolicy, where=where).policy, where=where)
        return self.set.get(key) != before

    def of(self, entry: SubscriptionEntry, detector: str) -> Policy:
        """The policy of a subscription to a detector; `DistcedError` where it asks for one that does not exist."""
        special = self.set.get(detector)
        if special is not None:
            return special
        if entry.distribution:
            return parse_policy(entry.distribution, where="distribution")
        return self.set.get(EVERYBODY, DEFAULT)

    def replicas(self, entry: SubscriptionEntry | None, detector: str) -> int:
        """On how many nodes a subscription wants its detector."""
        if entry is None:
            return 1
        try:
            return self.of(entry, detector).replicas
        except DistcedError:
            # Refused when it came; the policy was taken away since.
            return 1

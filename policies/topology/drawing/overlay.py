"""What is drawn on a topology beside what it consists of: detectors on nodes, and what flows over links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Hosted(NamedTuple):
    """A detector on a node.

    Attributes:
        text: what stands there, its id and its pattern.
        new: whether it is drawn as one that is yet to be made.
    """

    text: str
    new: bool


@dataclass(frozen=True, slots=True)
class Overlay:
    """What is drawn on a topology.

    Attributes:
        title: above the drawing, in place of what there is of each kind.
        hosted: the detectors of each node, by its name.
        flowing: what is said of each direction of a link in which something flows, by (from site, to site).
    """

    title: str
    hosted: Mapping[str, Sequence[Hosted]] = field(default_factory=dict)
    flowing: Mapping[tuple[str, str], str] = field(default_factory=dict)

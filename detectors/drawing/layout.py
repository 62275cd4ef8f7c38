"""A layered layout, left to right: Sugiyama's method for graphs as small as automata.

Cycles are broken by depth-first search, layers are the longest paths, the order in a layer goes by barycentres, and
heights are a least-squares fit to the neighbours' that keeps the order (isotonic regression). Graphviz was rejected,
because it is a program to be installed; networkx's layouts, because they know nothing of labels and their sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean
from typing import Final

GAP_Y: Final = 26.0
"""Pixels between two boxes of a layer."""

GAP_X: Final = 34.0
"""Pixels between two layers."""

_ORDER_SWEEPS: Final = 12
_HEIGHT_SWEEPS: Final = 8
_SETTLING_SWEEPS: Final = 60
_BEND_WEIGHT: Final = 4.0


@dataclass(slots=True, eq=False)
class Box:
    """Something that takes room: a state, a label on its way, or a bend of a long edge.

    Attributes:
        left, right, up, down: how far it reaches from its anchor, in pixels.
        layer: its layer from the left.
        x, y: its anchor, once it has been placed.
        weight: how much it insists on a straight line through it.
    """

    left: float
    right: float
    up: float
    down: float
    layer: int = 0
    x: float = 0.0
    y: float = 0.0
    weight: float = 1.0
    before: list[Box] = field(default_factory=list)
    after: list[Box] = field(default_factory=list)


def bend() -> Box:
    """A box for an edge that passes through a layer."""
    return Box(0.0, 0.0, 6.0, 6.0, weight=_BEND_WEIGHT)


def ranks(count: int, starts: Sequence[int], edges: Iterable[tuple[int, int]]) -> list[int]:
    """The rank of each of `count` vertices: the longest path to it that does not go back. Starts have rank 0."""
    targets: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        if target not in targets[source]:
            targets[source].append(target)
    forward, finished = _without_back_edges(count, starts, targets)
    rank = [0] * count
    for vertex in reversed(finished):
        for target in forward[vertex]:
            rank[target] = max(rank[target], rank[vertex] + 1)
    return rank


def _without_back_edges(
    count: int, starts: Sequence[int], targets: list[list[int]]
) -> tuple[list[list[int]], list[int]]:
    """Depth-first search: the edges that do not lead back to where it came through, and the order it finished in."""
    forward: list[list[int]] = [[] for _ in range(count)]
    entered: set[int] = set()
    finished: list[int] = []
    on_path: set[int] = set()
    for root in (*starts, *range(count)):
        if root in entered:
            continue
        stack = [(root, iter(targets[root]))]
        entered.add(root)
        on_path.add(root)
        while stack:
            vertex, rest = stack[-1]
            target = next(rest, None)
            if target is None:
                stack.pop()
                on_path.discard(vertex)
                finished.append(vertex)
                continue
            if target in on_path:
                continue
            forward[vertex].append(target)
            if target not in entered:
                entered.add(target)
                on_path.add(target)
                stack.append((target, iter(targets[target])))
    return forward, finished


def connect(one: Box, other: Box) -> list[Box]:
    """Connect two boxes, with a bend in each layer between; the bends."""
    chain = [one]
    for layer in range(one.layer + 1, other.layer):
        passing = bend()
        passing.layer = layer
        chain.append(passing)
    chain.append(other)
    for left, right in pairwise(chain):
        left.after.append(right)
        right.before.append(left)
    return chain[1:-1]


def place(boxes: Sequence[Box]) -> None:
    """Give every box its place. `layer`, `before` and `after` have to be set; bends are among the boxes."""
    layers: list[list[Box]] = [[] for _ in range(1 + max((box.layer for box in boxes), default=0))]
    for box in boxes:
        layers[box.layer].append(box)
    layers = _ordered(layers)
    _place_x(layers)
    _place_y(layers)


def _ordered(layers: list[list[Box]]) -> list[list[Box]]:
    """The boxes of each layer in an order with few crossings: the best that sweeping to and fro finds."""
    best, fewest = layers, _crossings(layers)
    for sweep in range(_ORDER_SWEEPS):
        if not fewest:
            break
        rightward = sweep % 2 == 0
        layers = [list(layer) for layer in layers]
        for index in range(len(layers)) if rightward else reversed(range(len(layers))):
            near = layers[index - 1] if rightward else layers[index + 1] if index + 1 < len(layers) else []
            if (rightward and index == 0) or not near:
                continue
            positions = {id(box): place for place, box in enumerate(near)}
            own = {id(box): place for place, box in enumerate(layers[index])}
            layers[index].sort(key=lambda box: (_barycentre(box, rightward, positions, own), own[id(box)]))
        crossings = _crossings(layers)
        if crossings < fewest:
            best, fewest = layers, crossings
    return best


def _barycentre(box: Box, rightward: bool, positions: dict[int, int], own: dict[int, int]) -> float:
    neighbours = box.before if rightward else box.after
    return fmean(positions[id(each)] for each in neighbours) if neighbours else float(own[id(box)])


def _crossings(layers: list[list[Box]]) -> int:
    crossings = 0
    for left, right in pairwise(layers):
        positions = {id(box): place for place, box in enumerate(right)}
        ends = [(place, positions[id(other)]) for place, box in enumerate(left) for other in box.after]
        crossings += sum(
            (one[0] - other[0]) * (one[1] - other[1]) < 0 for i, one in enumerate(ends) for other in ends[:i]
        )
    return crossings


def _place_x(layers: list[list[Box]]) -> None:
    edge = 0.0
    for layer in layers:
        if not layer:
            continue
        anchor = edge + max(box.left for box in layer)
        for box in layer:
            box.x = anchor
        edge = anchor + max(box.right for box in layer) + GAP_X


def _place_y(layers: list[list[Box]]) -> None:
    for layer in layers:
        _fit(layer, [0.0] * len(layer))
    for sweep in range(_HEIGHT_SWEEPS):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            near = [box.before if sweep % 2 == 0 else box.after for box in layer]
            _fit(layer, [_mean_height(boxes, box.y) for boxes, box in zip(near, layer, strict=True)])
    for sweep in range(_SETTLING_SWEEPS):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            _fit(layer, [_mean_height(_pulls(box), box.y) for box in layer])


def _mean_height(boxes: Sequence[Box], otherwise: float) -> float:
    return fmean(box.y for box in boxes) if boxes else otherwise


def _pulls(box: Box) -> list[Box]:
    """The boxes that a box wants to be level with."""
    if len(box.before) == len(box.after) == 1:
        # Something on a line: level with the end where the line is alone, so that it bends once and not twice.
        alone_before, alone_after = len(box.before[0].after) == 1, len(box.after[0].before) == 1
        if alone_before != alone_after:
            return box.before if alone_before else box.after
    return [*box.before, *box.after]


def _fit(layer: list[Box], wanted: Sequence[float]) -> None:
    """Put boxes as near to the wanted heights as their order and room allow: weighted isotonic regression."""
    offsets = [0.0]
    for upper, lower in pairwise(layer):
        offsets.append(offsets[-1] + upper.down + GAP_Y + lower.up)
    # Blocks of boxes that touch: sum of weights, mean of what is wanted, how many.
    blocks: list[tuple[float, float, int]] = []
    for box, want, offset in zip(layer, wanted, offsets, strict=False):
        blocks.append((box.weight, want - offset, 1))
        while len(blocks) > 1 and blocks[-2][1] > blocks[-1][1]:
            weight, mean, size = blocks.pop()
            other_weight, other_mean, other_size = blocks.pop()
            total = weight + other_weight
            blocks.append((total, (weight * mean + other_weight * other_mean) / total, size + other_size))
    heights = [mean for _, mean, size in blocks for _ in range(size)]
    for box, height, offset in zip(layer, heights, offsets, strict=False):
        box.y = height + offset

"""The drawing of one automaton: which shapes stand where.

States are circles with their domains below, moves are lines with their labels on them. Lines run from left to right;
what leads back runs above everything it passes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import Final

from distced.detectors.drawing.automaton_view import AutomatonView, MoveView, StateView
from distced.detectors.drawing.layout import Box, connect, place, ranks
from distced.detectors.drawing.shapes import (
    HEAD,
    Arrowhead,
    Circle,
    Dot,
    Pen,
    Point,
    Shape,
    Stroke,
    Text,
    TextLine,
    broken,
)

RADIUS: Final = 20.0
_LOOP_HEIGHT: Final = 26.0
_LOOP_WIDTH: Final = 15.0
_START: Final = 34.0
_LABEL_COLUMNS: Final = 30
_BELOW_COLUMNS: Final = 26
_CHANNEL: Final = 14.0
_CORNER: Final = 10.0


@dataclass(slots=True, eq=False)
class _Way:
    """Moves of one source, targets and strength, drawn as one line.

    Attributes:
        lines: their labels.
        box: the room for the labels on the way; None where it leads back or to itself.
    """

    source: int
    targets: tuple[int, ...]
    stroke: Stroke
    lines: list[TextLine] = field(default_factory=list)
    box: Box | None = None

    @property
    def height(self) -> float:
        return sum(line.height for line in self.lines)

    @property
    def width(self) -> float:
        return max(line.width for line in self.lines)


def figure(view: AutomatonView) -> list[Shape]:
    """The shapes of an automaton; the start is near (0, 0)."""
    return _Figure(view).shapes()


class _Figure:
    def __init__(self, view: AutomatonView) -> None:
        self.view = view
        self.ways = _ways(view)
        self.rank = ranks(
            len(view.states), view.starts, [(way.source, target) for way in self.ways for target in way.targets]
        )
        self.below = [_below(state) for state in view.states]
        self.loops = [[way for way in self.ways if way.targets == (place,)and way.source == place]
                      for place in range(len(view.states))]  # fmt: skip
        self.states = [self._state_box(index) for index in range(len(view.states))]
        self.boxes: list[Box] = list(self.states)
        # What comes into a state and goes out of it on its level: the box on the other side.
        self.incoming: list[list[tuple[Box, _Way]]] = [[] for _ in view.states]
        self.outgoing: list[list[_Way]] = [[] for _ in view.states]
        self.bends: dict[tuple[int, int], list[Box]] = {}
        self.drawn: list[Shape] = []
        # Lines that lead back: the range of x they take, and how high up they reach.
        self.channels: list[tuple[float, float, float]] = []
        self.risers: dict[int, list[_Way]] = {}
        self.attached: dict[tuple[int, bool], int] = {}

    def shapes(self) -> list[Shape]:
        for way in self.ways:
            self._lay(way)
        place(self.boxes)
        for way in self.ways:
            if way.box is not None:
                self._draw_way(way, way.box)
        for index in range(len(self.states)):
            self._draw_state(index)
        back = [
            (way, target) for way in self.ways for target in way.targets
            if self._is_back(way, target) and way not in self.loops[way.source]
        ]  # fmt: skip
        for way, target in sorted(back, key=lambda pair: self._length(*pair)):
            self._draw_back(way, target)
        return self.drawn

    # Room for everything.

    def _state_box(self, index: int) -> Box:
        lines = [*self.below[index], *(line for way in self.loops[index] for line in way.lines)]
        half = max([RADIUS, *(line.width / 2 for line in lines)])
        up = RADIUS
        for place_, way in enumerate(self.loops[index]):
            up += way.height + (_LOOP_HEIGHT if place_ == 0 else 12.0)
        down = RADIUS + 5 + sum(line.height for line in self.below[index])
        left = max(half, RADIUS + _START) if self.view.states[index].start else half
        return Box(left, half, up, down, layer=2 * self.rank[index])

    def _is_back(self, way: _Way, target: int) -> bool:
        return self.rank[target] <= self.rank[way.source]

    def _lay(self, way: _Way) -> None:
        if len(way.targets) == 1 and self._is_back(way, way.targets[0]):
            return
        half = way.width / 2 + 4
        fork = 8.0 if len(way.targets) > 1 else 0.0
        way.box = Box(half, half + fork, way.height + 5, 6.0, layer=2 * self.rank[way.source] + 1)
        self.boxes.append(way.box)
        connect(self.states[way.source], way.box)
        self.outgoing[way.source].append(way)
        for target in way.targets:
            if not self._is_back(way, target):
                bends = connect(way.box, self.states[target])
                self.bends[id(way), target] = bends
                self.boxes += bends
                self.incoming[target].append((bends[-1] if bends else way.box, way))

    # Lines.

    def _draw_way(self, way: _Way, box: Box) -> None:
        source = self.states[way.source]
        pen = Pen(way.stroke)
        leaving = sorted((each for each in self.outgoing[way.source]), key=lambda each: each.box.y if each.box else 0)
        offset = _spread(leaving.index(way), len(leaving))
        pen.move((source.x + sqrt(RADIUS**2 - offset**2), source.y + offset))
        pen.line((source.x + source.right, source.y + offset))
        pen.across((box.x - box.left, box.y))
        pen.line((box.x + box.right, box.y))
        self._draw_label(way, box.x - (box.right - box.left) / 2, box.y - 5)
        if len(way.targets) > 1:
            self.drawn.append(pen.path())
            self.drawn.append(Dot(box.x + box.right, box.y))
        for target in way.targets:
            if self._is_back(way, target):
                continue
            if len(way.targets) > 1:
                pen = Pen(way.stroke)
                pen.move((box.x + box.right, box.y))
            self._draw_arrival(pen, way, target)

    def _draw_arrival(self, pen: Pen, way: _Way, target: int) -> None:
        for bend in self.bends[id(way), target]:
            pen.across((bend.x, bend.y))
        box = self.states[target]
        arriving = sorted(self.incoming[target], key=lambda pair: pair[0].y)
        offset = _spread([each for _, each in arriving].index(way), len(arriving))
        end = (box.x - sqrt(RADIUS**2 - offset**2), box.y + offset)
        pen.across((box.x - box.left, end[1]))
        pen.line((end[0] - HEAD + 1, end[1]))
        self.drawn.append(pen.path())
        self.drawn.append(Arrowhead(end[0], end[1], 1.0, 0.0, way.stroke))

    def _draw_label(self, way: _Way, x: float, bottom: float) -> None:
        y = bottom - way.height
        for line in way.lines:
            y += line.height
            self.drawn.append(Text(x, y - line.height * 0.2, line))

    # States.

    def _draw_state(self, index: int) -> None:
        state, box = self.view.states[index], self.states[index]
        self.drawn.append(Circle(box.x, box.y, RADIUS, bool(state.emits), bool(state.arms)))
        self.drawn.append(Text(box.x, box.y + 4.2, TextLine(state.name, "name")))
        y = box.y + RADIUS + 5
        for line in self.below[index]:
            y += line.height
            self.drawn.append(Text(box.x, y - line.height * 0.2, line))
        if state.start:
            self._draw_start(index, box)
        self._draw_loops(index, box)

    def _draw_start(self, index: int, box: Box) -> None:
        pen = Pen("plain")
        if self.incoming[index]:
            # Its left is taken: from above.
            end = (box.x - RADIUS * 0.6, box.y - RADIUS * 0.8)
            dx, dy = 0.6, 0.8
        else:
            end, dx, dy = (box.x - RADIUS, box.y), 1.0, 0.0
        begin = (end[0] - _START * dx + 2, end[1] - _START * dy + 2 * dy)
        self.drawn.append(Dot(*begin))
        pen.move(begin)
        pen.line((end[0] - HEAD * dx, end[1] - HEAD * dy))
        self.drawn.append(pen.path())
        self.drawn.append(Arrowhead(end[0], end[1], dx, dy, "plain"))

    def _draw_loops(self, index: int, box: Box) -> None:
        top = box.y - RADIUS
        for place_, way in enumerate(self.loops[index]):
            rise = _LOOP_HEIGHT if place_ == 0 else box.y - RADIUS - top + 12.0
            half = _LOOP_WIDTH + 5 * place_
            foot = 7.0 + 4 * place_
            y = box.y - sqrt(RADIUS**2 - foot**2)
            peak = box.y - RADIUS - rise
            pen = Pen(way.stroke)
            pen.move((box.x - foot, y))
            pen.curve((box.x - half - 6, peak - 2), (box.x + half + 6, peak - 2), (box.x + foot + 2, y - HEAD + 1))
            self.drawn.append(pen.path())
            self.drawn.append(Arrowhead(box.x + foot, y, -0.22, 0.975, way.stroke))
            bottom = box.y - RADIUS - rise * 0.78 - 3
            self._draw_label(way, box.x, bottom)
            top = bottom - way.height

    # What leads back.

    def _length(self, way: _Way, target: int) -> float:
        return abs(self.states[way.source].x - self.states[target].x)

    def _draw_back(self, way: _Way, target: int) -> None:
        if way.box is not None:
            begin: Point = (way.box.x + way.box.right, way.box.y)
            # Forks of one layer rise beside one another.
            forks = self.risers.setdefault(way.box.layer, [])
            if way not in forks:
                forks.append(way)
            rise = (begin[0] + 6.0 * forks.index(way), begin[1])
        else:
            begin, rise = self._attach(way.source, left=len(way.targets) == 1)
        end, fall = self._attach(target, left=False)
        left, right = sorted((rise[0], fall[0]))
        middle = (left + right) / 2
        single = way.box is None
        reach = (min(left, middle - way.width / 2), max(right, middle + way.width / 2)) if single else (left, right)
        height = self._free_height(*reach)
        self.channels.append((*reach, height - (way.height + 6 if single else 0)))
        pen = Pen(way.stroke)
        pen.move(begin)
        if way.box is not None:
            pen.line(rise)
        elif rise != begin:
            pen.curve((rise[0], begin[1] - 2), (rise[0], rise[1] + 10), rise)
        turn = _CORNER if fall[0] > rise[0] else -_CORNER
        pen.line((rise[0], height + _CORNER))
        pen.curve((rise[0], height), (rise[0], height), (rise[0] + turn, height))
        pen.line((fall[0] - turn, height))
        pen.curve((fall[0], height), (fall[0], height), (fall[0], height + _CORNER))
        pen.line((fall[0], fall[1]))
        if fall[0] != end[0]:
            pen.curve((fall[0], fall[1] + 12), (end[0], end[1] - HEAD - 8), (end[0], end[1] - HEAD + 1))
        else:
            pen.line((end[0], end[1] - HEAD + 1))
        self.drawn.append(pen.path())
        self.drawn.append(Arrowhead(end[0], end[1], 0.0, 1.0, way.stroke))
        if single:
            self._draw_label(way, middle, height - 5)

    def _attach(self, index: int, *, left: bool) -> tuple[Point, Point]:
        """Where a line that leads back meets a state, and where it is free to go straight up."""
        box = self.states[index]
        sign = -1.0 if left else 1.0
        count = self.attached.get((index, left), 0)
        self.attached[index, left] = count + 1
        offset = sign * min(8.0 + 4.0 * count, 16.0)
        point = (box.x + offset, box.y - sqrt(RADIUS**2 - offset**2))
        aside = offset
        if self.loops[index]:
            offset = sign * (14.0 + 1.5 * min(count, 2))
            point = (box.x + offset, box.y - sqrt(RADIUS**2 - offset**2))
            widest = max(way.width for way in self.loops[index]) / 2
            aside = sign * (max(widest, _LOOP_WIDTH + 8) + 8 + 5 * count)
        if self._blocked(box, box.x + aside):
            layer = [each for each in self.boxes if each.layer == box.layer]
            aside = sign * (max(each.left if left else each.right for each in layer) + 6 + 5 * count)
        straight = aside == offset
        return point, (box.x + aside, point[1] if straight else point[1] - 22)

    def _blocked(self, box: Box, x: float) -> bool:
        """Whether another box of the layer stands above here."""
        return any(
            each.layer == box.layer and each.y < box.y and each.x - each.left - 4 < x < each.x + each.right + 4
            for each in self.boxes
        )

    def _free_height(self, left: float, right: float) -> float:
        tops = [box.y - box.up for box in self.boxes if box.x + box.right > left - 12 and box.x - box.left < right + 12]
        tops += [top for begin, end, top in self.channels if end > left - 6 and begin < right + 6]
        return min(tops) - _CHANNEL


def _spread(place_: int, count: int) -> float:
    """The offset from the middle of a state's side for one of several lines there."""
    if count == 1:
        return 0.0
    step = min(9.0, 26.0 / (count - 1))
    return (place_ - (count - 1) / 2) * step


def _ways(view: AutomatonView) -> list[_Way]:
    ways: dict[tuple[int, tuple[int, ...], Stroke], _Way] = {}
    for move in view.moves:
        stroke: Stroke = "strong" if move.strong else "weak"
        way = ways.setdefault((move.source, move.targets, stroke), _Way(move.source, move.targets, stroke))
        way.lines += _label(move)
    return list(ways.values())


def _label(move: MoveView) -> list[TextLine]:
    lines = broken(f"~{move.label}" if move.hidden else move.label, "label", _LABEL_COLUMNS)
    for note in move.notes:
        if note != "hidden":
            lines += broken(note, "note", _LABEL_COLUMNS + 4)
    return lines


def _below(state: StateView) -> list[TextLine]:
    lines: list[TextLine] = []
    if state.emits:
        lines += broken(f"→ {state.emits}", "emits", _BELOW_COLUMNS)
    for arm in state.arms:
        lines += broken(f"sets off {arm}", "emits", _BELOW_COLUMNS)
    if state.domain:
        lines += broken(f"Σ {state.domain}", "domain", _BELOW_COLUMNS)
    if state.windows or state.keys:
        lines += broken(f"(inside {', '.join((*state.windows, *state.keys))})", "note", _BELOW_COLUMNS)
    if state.fails:
        lines += broken(f"fails: {state.fails}", "fails", _BELOW_COLUMNS)
    return lines

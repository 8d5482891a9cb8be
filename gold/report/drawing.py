"""Shapes of the report's charts, in the units of an SVG that is stretched to its place."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gold.report.story import OUTCOMES, RecordClass

HEIGHT, SLOT, GAP = 240.0, 30.0, 6.0
LEFT, MIDDLE, RIGHT, BAR = 0.0, 46.0, 98.8, 1.2


class Node(NamedTuple):
    """A bar of the flow: what it stands for, its number, and where it begins and ends."""

    name: str
    label: str
    number: int
    top: float
    height: float

    @property
    def centre(self) -> float:
        """Where its label goes."""
        return self.top + self.height / 2


class Band(NamedTuple):
    """A band between two bars of the flow: the class of its colour, and the path of its outline."""

    name: str
    label: str
    path: str


class Flow(NamedTuple):
    """Bronze's records, what silver made of them, and what that means for gold."""

    source: Node
    classes: list[Node]
    outcomes: list[Node]
    bands: list[Band]
    height: float

    @property
    def most(self) -> int:
        """The number of the most frequent class."""
        return max(node.number for node in self.classes)


class Bar(NamedTuple):
    """One piece of a stacked bar: the class of its colour, its bucket, its place and its label."""

    name: str
    bucket: int
    top: float
    height: float
    label: str


class LogAxis:
    """A logarithmic axis of seconds, from one to a round number at or above the longest."""

    MARKS = (1, 10, 60, 600, 3_600, 21_600, 86_400, 604_800, 2_592_000)
    MARK_HEIGHT = 5.0

    def __init__(self, longest: float) -> None:
        self.top = next((m for m in self.MARKS[2:] if m >= longest), longest)
        every = [mark for mark in self.MARKS if mark < self.top]
        self.marks = [*every[:: math.ceil(len(every) / 4)], self.top]

    def percent(self, seconds: float) -> float:
        """The height of a time, in percent of the axis; less than a second is at its foot."""
        return math.log(max(seconds, 1.0)) / math.log(self.top) * 100

    def outline(self, waits: Sequence[tuple[int, float]]) -> str:
        """One path with a mark for each (bucket, seconds)."""
        high = self.MARK_HEIGHT
        tops = [(at, 100 - max(self.percent(long), high)) for at, long in waits]
        return "".join(f"M{at + 0.05} {top:.1f}h.9v{high}h-.9z" for at, top in tops)


def draw_flow(kinds: Sequence[RecordClass], counts: Mapping[str, int]) -> Flow:
    """A Sankey diagram in three columns; thickness is the number of records."""
    total = sum(counts[kind.name] for kind in kinds)
    scale = HEIGHT / max(total, 1)
    middle = _stack_nodes([(k.name, k.label, counts[k.name]) for k in kinds], scale)
    ends = [
        (name, label, sum(counts[k.name] for k in kinds if k.outcome == name))
        for name, label in OUTCOMES.items()
    ]
    right = _stack_nodes([end for end in ends if end[2]], scale, 2 * SLOT)
    height = max(_find_bottom(middle), _find_bottom(right), HEIGHT)
    middle, right = _centre_nodes(middle, height), _centre_nodes(right, height)
    source = Node("records", "records", total, (height - total * scale) / 2, total * scale)
    return Flow(source, middle, right, _draw_bands(source, middle, right, kinds, scale), height)


def stack_bars(
    buckets: Sequence[Mapping[str, int]], kinds: Sequence[RecordClass], height: float
) -> list[Bar]:
    """Stacked bars, the highest of which fills the height."""
    highest = max((sum(bucket.values()) for bucket in buckets), default=0) or 1
    bars = []
    for place, bucket in enumerate(buckets):
        base = height
        for kind in kinds:
            count = bucket.get(kind.name, 0)
            if count:
                tall = count / highest * height
                base -= tall
                bars.append(Bar(kind.name, place, base, tall, f"{count:,} {kind.label}"))
    return bars


def choose_marks(highest: float) -> list[int]:
    """Round numbers for an axis that ends at `highest`, about four of them, from 0."""
    power = 10 ** max(math.floor(math.log10(max(highest, 1) / 4)), 0)
    step = next(power * n for n in (1, 2, 5, 10) if power * n * 4 >= highest)
    return list(range(0, int(highest) + 1, step))


def _stack_nodes(
    parts: Sequence[tuple[str, str, int]], scale: float, slot: float = SLOT
) -> list[Node]:
    """Bars below each other, each with room for its label."""
    nodes, top = [], 0.0
    for name, label, count in parts:
        thick = max(count * scale, 1.5)
        room = max(thick, slot)
        nodes.append(Node(name, label, count, top + (room - thick) / 2, thick))
        top += room + GAP
    return nodes


def _find_bottom(nodes: Sequence[Node]) -> float:
    return max((node.top + node.height for node in nodes), default=0.0) + SLOT / 2


def _centre_nodes(nodes: Sequence[Node], height: float) -> list[Node]:
    if not nodes:
        return []
    first, last = nodes[0].top, nodes[-1].top + nodes[-1].height
    shift = (height - (last - first)) / 2 - first
    return [node._replace(top=node.top + shift) for node in nodes]


def _draw_bands(
    source: Node,
    middle: Sequence[Node],
    right: Sequence[Node],
    kinds: Sequence[RecordClass],
    scale: float,
) -> list[Band]:
    outcome = {kind.name: kind.outcome for kind in kinds}
    left_at, right_at = source.top, {node.name: node.top for node in right}
    bands = []
    for node in middle:
        thick = node.number * scale
        end = right_at[outcome[node.name]]
        label = f"{node.number:,} {node.label}"
        into = _draw_band(LEFT + BAR, left_at, MIDDLE, node.top, thick, node.height)
        out = _draw_band(MIDDLE + BAR, node.top, RIGHT, end, node.height, thick)
        bands += [Band(node.name, label, into), Band(node.name, label, out)]
        left_at += thick
        right_at[outcome[node.name]] += thick
    return bands


def _draw_band(x0: float, y0: float, x1: float, y1: float, thick0: float, thick1: float) -> str:
    """The outline of a band that leaves and arrives level."""
    turn = (x0 + x1) / 2
    there = f"M{x0:.2f} {y0:.2f}C{turn:.2f} {y0:.2f} {turn:.2f} {y1:.2f} {x1:.2f} {y1:.2f}"
    low0, low1 = y0 + thick0, y1 + thick1
    back = f"L{x1:.2f} {low1:.2f}C{turn:.2f} {low1:.2f} {turn:.2f} {low0:.2f} {x0:.2f} {low0:.2f}Z"
    return there + back

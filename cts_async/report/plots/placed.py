"""Where a point's label goes so that it covers neither points nor other labels."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Final, Literal, TypeAlias

Place: TypeAlias = Literal[
    "top center",
    "bottom center",
    "top right",
    "top left",
    "bottom right",
    "bottom left",
    "middle right",
    "middle left",
]
_Box: TypeAlias = tuple[float, float, float, float]

_PLACES: Final[dict[Place, tuple[float, float]]] = {
    "top right": (0.5, 1.0),
    "top left": (-0.5, 1.0),
    "bottom right": (0.5, -1.0),
    "bottom left": (-0.5, -1.0),
    "top center": (0.0, 1.0),
    "bottom center": (0.0, -1.0),
    "middle right": (0.5, 0.0),
    "middle left": (-0.5, 0.0),
}
"""Where a label's middle lies from its point: in widths, in heights."""
_LETTER: Final = 1 / 40
"""A letter's width in widths of the figure, a phone's."""
_HEIGHT: Final = 1 / 14


def label_places(
    points: Sequence[tuple[float, float]], letters: Sequence[int], *, logarithmic: bool = False
) -> list[Place]:
    """A place for each label, one after the other where it covers least.

    The axis of x begins at 0, or is `logarithmic`, where all x have to be positive.
    """
    xs = _spread([log(x) for x, _ in points]) if logarithmic else _spread([0.0, *(x for x, _ in points)])[1:]
    ys = _spread([y for _, y in points])
    taken: list[_Box] = [(x - 0.02, y - 0.02, x + 0.02, y + 0.02) for x, y in zip(xs, ys, strict=True)]
    found: list[Place] = []
    for x, y, length in zip(xs, ys, letters, strict=True):
        boxes = {place: _box(x, y, length, place) for place in _PLACES}
        best = min(boxes, key=lambda place: _covered(boxes[place], taken))
        taken.append(boxes[best])
        found.append(best)
    return found


def _spread(values: Sequence[float]) -> list[float]:
    """The values on a scale from 0 to 1; 0.5 where they do not differ."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    return [(value - low) / (high - low) if high > low else 0.5 for value in values]


def _box(x: float, y: float, length: int, place: Place) -> _Box:
    width, (right, up) = length * _LETTER, _PLACES[place]
    middle, base = x + right * width, y + up * _HEIGHT
    return middle - width / 2, base - _HEIGHT / 2, middle + width / 2, base + _HEIGHT / 2


def _covered(box: _Box, taken: Sequence[_Box]) -> float:
    """How much of other boxes it covers, and what of it lies outside the figure."""
    shared = sum(_overlap(box, other) for other in taken)
    inside = _overlap(box, (0.0, -_HEIGHT * 2, 1.0, 1.0 + _HEIGHT * 2))
    return shared + (box[2] - box[0]) * (box[3] - box[1]) - inside


def _overlap(one: _Box, other: _Box) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(width, 0.0) * max(height, 0.0)

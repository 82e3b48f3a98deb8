"""Panes with the labels to learn and to test a ranking by, as MIMICS-Duo's section 3.1.1 prepares them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cts_async.analysis.pane_features import PaneText


@dataclass(frozen=True, slots=True)
class LabelledPanes:
    """Panes in any order, each with the label to train on and the one to test on; higher is better."""

    panes: Sequence[PaneText]
    train: Sequence[float]
    test: Sequence[float]

    def __post_init__(self) -> None:
        if not len(self.panes) == len(self.train) == len(self.test):
            raise ValueError("every pane needs a label to train on and one to test on")


def one_of_each(data: LabelledPanes, seed: int) -> LabelledPanes:
    """Each pane once, at the place where it first stands, with the labels of one of its rows at random."""
    import numpy as np

    places: dict[PaneText, list[int]] = {}
    for place, pane in enumerate(data.panes):
        places.setdefault(pane, []).append(place)
    rng = np.random.default_rng(seed)
    kept = [rows[int(rng.integers(len(rows)))] if len(rows) > 1 else rows[0] for rows in places.values()]
    return LabelledPanes(
        list(places), [data.train[place] for place in kept], [data.test[place] for place in kept]
    )

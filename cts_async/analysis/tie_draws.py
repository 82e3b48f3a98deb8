"""P@1 and MRR of lists with ties, broken at random many times over: what a published single draw is one of.

Every draw gives each item a random place among its equals, and where one ideal item is wanted of several, draws that
too. The same lists, seed and number of draws give the same numbers to the last digit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from cts_async.analysis.tied_lists import Array, Ideal, TiedLists

DRAWS: Final = 1000
"""As often as the paper repeats its random ranker (table 7)."""
_NUMBERS_AT_ONCE: Final = 500_000
"""Random numbers of one block: 4 MB of them, however many draws there are."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """P@1 and MRR of each draw, both of the shape (draws,)."""

    p_at_1: Array
    mrr: Array


def drawn(lists: TiedLists, ideal: Ideal, *, draws: int = DRAWS, seed: int = 0) -> Drawn:
    """Break all ties `draws` times. Raises ValueError for no list or no draw."""
    if not lists.queries or draws < 1:
        raise ValueError("there must be a list and a draw")
    rng = np.random.default_rng(seed)
    step = max(1, _NUMBERS_AT_ONCE // lists.levels.size)
    p_at_1, mrr = np.empty(draws), np.empty(draws)
    for done in range(0, draws, step):
        ranks = _ranks(lists, ideal, min(step, draws - done), rng)
        block = slice(done, done + len(ranks))
        p_at_1[block], mrr[block] = (ranks == 1).mean(axis=1), (1 / ranks).mean(axis=1)
    return Drawn(p_at_1, mrr)


def _ranks(lists: TiedLists, ideal: Ideal, draws: int, rng: np.random.Generator) -> Array:
    """The rank of each list's ideal item, shape (draws, queries).

    An item's height is its level and a random number below 1: heights sort as scores do, equal ones at random.
    """
    heights = lists.levels + rng.random((draws, *lists.levels.shape))
    if ideal == "any":
        wanted = np.where(lists.ideal, heights, -1.0).max(axis=2)
    else:
        wanted = np.take_along_axis(heights, _choice(lists.ideal, draws, rng)[:, :, None], axis=2)[:, :, 0]
    # What stands behind the end of a list is below 0 and so below every item in it.
    higher: Array = (heights > wanted[:, :, None]).sum(axis=2)
    return higher + 1


def _choice(ideal: Array, draws: int, rng: np.random.Generator) -> Array:
    """For each draw and list the position of one of its ideal items, all with equal chance."""
    positions = np.argsort(~ideal, axis=1, kind="stable")  # the ideal ones first
    nth = (rng.random((draws, len(ideal))) * ideal.sum(axis=1)).astype(int)
    chosen: Array = positions[np.arange(len(ideal)), nth]
    return chosen

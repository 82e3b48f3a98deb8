"""Panes that stand more than once count once (section 3.1.1)."""

from __future__ import annotations

import pytest

from cts_async.neighbours.mimics_duo.features import PaneText
from cts_async.neighbours.mimics_duo.ltr import LabelledPanes, one_of_each

A, B = PaneText("q", "s", ("a", "b")), PaneText("q", "s", ("b", "a"))


def test_a_repeated_pane_keeps_the_labels_of_one_of_its_rows() -> None:
    data = LabelledPanes([A, B, A, A], [1, 2, 3, 4], [10, 20, 30, 40])
    kept = [one_of_each(data, seed) for seed in range(30)]
    assert all(one.panes == [A, B] for one in kept)
    assert {(one.train[0], one.test[0]) for one in kept} == {(1, 10), (3, 30), (4, 40)}
    assert {(one.train[1], one.test[1]) for one in kept} == {(2, 20)}
    assert one_of_each(data, 3) == one_of_each(data, 3)


def test_every_pane_needs_both_labels() -> None:
    with pytest.raises(ValueError, match="one to test on"):
        LabelledPanes([A], [1], [])

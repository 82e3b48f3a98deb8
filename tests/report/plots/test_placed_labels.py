"""Labels of points stand where they cover least."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from cts_async.report.plots.cost import label_positions


def test_a_point_at_the_right_edge_has_its_label_to_the_left() -> None:
    assert label_positions([(0.0, 0.0), (1.0, 1.0)], [10, 10]) == ["top right", "top left"]


def test_two_points_at_one_place_have_labels_in_different_places() -> None:
    (one, other, _, _) = label_positions([(1.0, 1.0), (1.0, 1.0), (0.0, 0.0), (2.0, 2.0)], [8, 8, 8, 8])
    assert one != other


def test_three_points_at_one_place_at_the_edge_have_their_labels_below_each_other() -> None:
    """As three systems of the same cost and score have them, whose names are one over the other otherwise."""
    places = label_positions([(4.0, 49.8), (6.0, 53.5), (6.0, 53.5), (6.0, 53.5)], [4, 11, 6, 7])
    assert set(places[1:]) == {"top left", "middle left", "bottom left"}


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(0.01, 1e6), st.floats(0, 100)), max_size=12))
def test_every_point_has_a_place(points: list[tuple[float, float]]) -> None:
    assert len(label_positions(points, [5] * len(points), logarithmic=True)) == len(points)

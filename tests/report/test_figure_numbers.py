"""The numbers of a figure, as a table for those who do not see it."""

from __future__ import annotations

from typing import Any

from cts_async.report.html.report import MAX_POINTS, numbers_of, script_json
from cts_async.report.plots import Figure


def figure(*traces: dict[str, Any], **layout: Any) -> Figure:
    return Figure("scores", "Scores", "", "", {"data": list(traces), "layout": layout})


def test_a_point_is_told_line_by_line_as_it_is_when_pointed_at() -> None:
    trace = {
        "name": "k = 1",
        "x": [1],
        "y": [0],
        "hovertext": ["a&lt;br&gt;b<br>64.8 [63, 66]<br>n = 3<br>x"],
    }
    assert numbers_of(figure(trace)).rows == [
        {"series": "k = 1", "point": "a<br>b", "value": "64.8 [63, 66]", "details": "n = 3; x"}
    ]


def test_a_point_that_tells_nothing_has_the_name_of_its_row_and_its_x() -> None:
    trace = {"name": "mean", "x": [65.5, None], "y": [0.9, 1], "hoverinfo": "x+name"}
    found = numbers_of(figure(trace, yaxis={"tickvals": [0, 1], "ticktext": ["orig", "gpt-<br>k1"]}))
    assert found.rows == [{"series": "mean", "point": "gpt- k1", "value": "65.5", "details": ""}]


def test_guides_are_no_points_and_cells_of_a_heat_map_are_once_each() -> None:
    guide = {"x": [0], "y": [0], "hoverinfo": "skip"}
    cells = {"z": [[1, 2]], "hovertext": [["a and b<br>0.7", "a and b<br>0.7"]]}
    found = numbers_of(figure(guide, cells))
    assert [row["point"] for row in found.rows] == ["a and b"]
    assert [column.heading for column in found.columns] == ["point", "value"]


def test_of_very_many_points_some_are_taken_and_it_is_said() -> None:
    trace = {"name": "gain", "hovertext": [f"q{i}<br>{i}" for i in range(1_000)]}
    found = numbers_of(figure(trace))
    assert (found.shown, found.caption) == (
        MAX_POINTS,
        f"Scores: {MOST_POINTS} of 1,000 points, evenly taken",
    )


def test_nothing_in_the_data_of_a_script_ends_the_script() -> None:
    assert script_json({"a": "</script>&\u2028"}) == r'{"a":"\u003c/script\u003e\u0026\u2028"}'

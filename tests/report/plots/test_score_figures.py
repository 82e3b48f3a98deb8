"""Leaderboard, gains and distributions: what is drawn are the numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_figures import drawn, named, three_runs, traces
from made_runs import Row, made_run

from cts_async.analysis.resampling import Difference
from cts_async.report.comparison import RunsCompared, compare_runs
from cts_async.report.plots import Material, figures
from cts_async.report.plots.material import Scored, means_with_intervals, versus
from cts_async.report.plots.scores import binned, leaderboard


@pytest.fixture
def found(tmp_path: Path) -> RunsCompared:
    return three_runs(tmp_path)


def test_the_best_mean_stands_on_top(found: RunsCompared) -> None:
    """orig and local-k3 have 30, gpt-k1 100 / 3 of what did not fail."""
    figure = drawn(Material(found), "leaderboard")
    assert figure.spec["layout"]["yaxis"]["ticktext"] == ["gpt-k1", "orig", "local-k3 (smoke<br>test)"]
    reference, k1, k3 = traces(figure)
    assert [trace["name"] for trace in (reference, k1, k3)] == ["reference", "k = 1", "k = 3"]
    assert (k1["x"], k1["y"]) == ([pytest.approx(100 / 3)], [0])
    assert (reference["x"], reference["y"]) == ([30.0], [1])
    assert k3["text"] == ["30.0"]
    assert "n = 3 to 4 scored" in figure.caption


def test_whiskers_are_as_long_as_the_bootstrap_says(found: RunsCompared) -> None:
    """Of the scores 10 20 70 a resample is all 10s, or all 70s, in one of 27 cases, more than 2.5 %."""
    k1 = traces(drawn(Material(found), "leaderboard"))[1]
    assert k1["error_x"]["arrayminus"] == [pytest.approx(100 / 3 - 10)]
    assert k1["error_x"]["array"] == [pytest.approx(70 - 100 / 3)]


def test_gains_are_over_orig(found: RunsCompared) -> None:
    """10 0 30 over three pairs, and nothing over four."""
    (trace,) = traces(drawn(Material(found), "gain"))
    assert trace["x"] == [pytest.approx(40 / 3), 0.0]
    assert trace["text"] == ["+13.3", "+0.0"]
    assert trace["hovertext"][1].endswith("4 pairs")


def test_one_gain_alone_is_said_simply(tmp_path: Path) -> None:
    for label, score in (("orig", 50.0), ("gpt-k1", 40.0)):
        made_run(tmp_path, label=label, rows=[Row("q", score=score)])
    figure = drawn(Material(compare_runs([str(tmp_path)])), "gain")
    assert figure.alt == "The mean gain of gpt-k1 over orig is -10.0 points."


def test_instances_are_better_the_same_or_worse(found: RunsCompared) -> None:
    figure = drawn(Material(found), "better_or_worse")
    better, worse, same = traces(figure)
    assert better["x"] == [pytest.approx(200 / 3), 0.0]
    assert same["x"] == [pytest.approx(100 / 3), 100.0]
    assert same["base"] == better["x"]
    assert (worse["x"], worse["base"]) == ([0.0, 0.0], [100.0, 100.0])
    assert figure.alt == (
        "Of 2 systems the one most often better is gpt-k1: better on 2 of 3 instances (66.7%), the same on 1 and worse "
        "on 0 (0.0%)."
    )


def test_gains_of_instances_are_sorted_and_say_whose_they_are(found: RunsCompared) -> None:
    gpt, _ = traces(drawn(Material(found), "gain_by_instance"))
    assert gpt["y"] == [30.0, 10.0, 0.0, 0.0]
    assert gpt["x"] == [pytest.approx(share, abs=1e-3) for share in (0, 100 / 3, 200 / 3, 100)]
    assert gpt["line"]["shape"] == "hv"
    assert gpt["hovertext"][0] == "q2<br>gpt-k1: +30.0"


def test_a_system_has_its_colour_in_every_figure(found: RunsCompared) -> None:
    """orig is first on the board, and gpt-k1 second: a trace of nothing holds orig's place."""
    nothing, gpt, _ = drawn(Material(found), "gain_by_instance").spec["data"]
    assert (nothing["x"], nothing["showlegend"]) == ([None], False)
    assert gpt["name"] == "gpt-k1"


def test_few_scores_are_points_and_failures_are_none(found: RunsCompared) -> None:
    instances, mean, median = traces(drawn(Material(found), "scores"))
    assert instances["x"] == [10.0, 20.0, 70.0, 0.0, 20.0, 40.0, 60.0, 0.0, 20.0, 40.0, 60.0]
    assert mean["x"] == [pytest.approx(100 / 3), 30.0, 30.0]
    assert median["x"] == [20.0, 30.0, 30.0]


def test_many_scores_are_counted_in_bins_of_five() -> None:
    counts = binned(np.array([0.0, 4.9, 5.0, 95.0, 100.0]))
    assert (counts[0], counts[1], counts[19], counts.sum()) == (2, 1, 2, 5)


def test_a_figure_of_many_instances_is_as_small_as_of_few(tmp_path: Path) -> None:
    rows = [Row(f"q{i}", score=float(i % 100)) for i in range(1_100)]
    made_run(tmp_path, label="orig", rows=rows)
    made_run(tmp_path, label="gpt-k1", rows=rows)
    found = figures(Material(compare_runs([str(tmp_path)])))
    histogram = traces(named(found, "scores"))[0]
    assert len(histogram["x"]) == 2 * (21 * 2 + 2)
    assert histogram["hovertext"][0] == "orig<br>0 to 5: 5.0% of 1,100"
    (line,) = traces(named(found, "gain_by_instance"))
    assert len(line["x"]) == 201


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0, 100), max_size=50))
def test_every_score_is_in_one_bin(values: list[float]) -> None:
    assert binned(np.array(values)).sum() == len(values)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), min_size=1, max_size=30))
def test_every_instance_is_better_the_same_or_worse(pairs: list[tuple[float, float]]) -> None:
    base, scores = (np.array(column) for column in zip(*pairs, strict=True))
    mean = Difference(1, 0.0, 0.0, 0.0)
    systems = [
        Scored(label, label, 1, False, Path(label), of, mean) for label, of in (("a", base), ("b", scores))
    ]
    (found,) = versus(systems, "a")
    assert found.better + found.same + found.worse == len(pairs)
    assert list(found.gains) == sorted(found.gains, reverse=True)


@pytest.mark.parametrize(("n", "method"), [(5_000, "bootstrap"), (5_001, "normal")])
def test_the_caption_names_the_method_of_the_intervals(n: int, method: str) -> None:
    scores = np.tile([0.0, 100.0], n)[:n]
    (mean,) = means_with_intervals(scores[:, None], 0)
    assert mean is not None
    caption = leaderboard([Scored("a", "a", 1, False, Path("a"), scores, mean)], "ernie").caption
    assert f"95 % {method} intervals of the mean over n = {n:,} scored instances" in caption


def test_beyond_the_bootstrap_intervals_are_normal() -> None:
    """Half 0, half 100: sd 50, so 1.96 * 50 / sqrt(6,000) = 1.265 to either side."""
    values = np.repeat([0.0, 100.0], 3_000)[:, None]
    (mean,) = means_with_intervals(values, 0)
    assert mean is not None
    assert (mean.mean, mean.high - 50) == (50.0, pytest.approx(1.2653, abs=1e-3))


def test_without_orig_differences_are_left_out_and_it_is_said(found: RunsCompared) -> None:
    left = {one.name: one.reason for one in figures(Material(replace(found, baseline=""))).left_out}
    assert left["gain_by_instance"] == "These runs include no run of orig to compare with."
    assert left["agreement"].startswith("There is only one judge")

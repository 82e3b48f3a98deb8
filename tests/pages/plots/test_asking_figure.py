"""The figure "what a question is worth", of the runs of `made_asking`; its numbers are worked out there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from made_asking import add_asking, asking_fields, asking_runs
from made_figures import LINK, named
from made_runs import Row, made_run

from cts_async.pages.plots import Drawn, Figure, figures
from cts_async.pages.plots.asking import question_worth
from cts_async.pages.plots.figure import N_COLOURS, hover_texts, unescaped
from cts_async.tables.comparison import compare_runs
from cts_async.tables.diagnosis import diagnose_named


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Drawn:
    runs = [str(asking_runs(tmp_path_factory.mktemp("asking")))]
    return figures(compare_runs(runs), diagnose_named(runs))


@pytest.fixture
def figure(drawn: Drawn) -> Figure:
    return named(drawn, "question_worth")


def by_name(figure: Figure) -> dict[str, dict[str, Any]]:
    return {unescaped(trace["name"]): trace for trace in figure.spec["data"] if "name" in trace}


def test_answers_given_later_are_a_line_over_the_share_of_turns(figure: Figure) -> None:
    trace = by_name(figure)["answers given (gpt-k1)"]
    assert (trace["x"], trace["y"]) == ([0.0, 50.0], [42.5, 15.0])
    assert hover_texts(trace)[1].endswith("n = 2<br>1 of 2 searches had ended before")


def test_own_questions_are_open_markers_at_their_mean_share(figure: Figure) -> None:
    trace = by_name(figure)["agent asks (orig+ask3)"]
    assert (trace["x"], trace["y"]) == ([25.0, 50.0, 75.0, 100.0], [60.0, 30.0, 0.0, 0.0])
    assert trace["marker"]["symbol"].endswith("-open")


def test_references_are_lines(figure: Figure) -> None:
    """The gains of gold and gpt-k1 over seven instances each; orig's over itself is 0."""
    traces = by_name(figure)
    assert set(traces["told everything (gold)"]["y"]) == {40.0}
    assert traces["before, rewritten (gpt-k1)"]["y"] == [pytest.approx(90 / 7)] * 2
    assert set(traces["never asked (orig)"]["y"]) == {0.0}
    dashes = {trace["line"]["dash"] for name, trace in traces.items() if "(" in name and "line" in trace}
    assert dashes == {"solid", "dash", "dot", "longdash"}


def test_whiskers_are_drawn_where_there_is_an_interval_and_in_the_colour_of_their_trace(
    figure: Figure,
) -> None:
    data = figure.spec["data"]
    places = {}
    for place, trace in enumerate(data):
        if trace.get("legendgroup"):
            places.setdefault(trace["legendgroup"], []).append(place)
    told, before = places["told told everything (gold)"], places["before before, rewritten (gpt-k1)"]
    for line, whisker in (told, before):
        assert line % N_COLOURS == whisker % N_COLOURS
        assert len(data[whisker]["x"]) == 1
    # Two instances have no interval.
    assert len(places["later answers given (gpt-k1)"]) == 1
    assert all("error_y" not in trace for trace in data if trace.get("name"))


def test_a_clarifier_has_one_colour_whether_its_answers_are_rewritten_or_given_later(figure: Figure) -> None:
    places = {unescaped(trace.get("name", "")): place for place, trace in enumerate(figure.spec["data"])}
    rewritten, given = places["before, rewritten (gpt-k1)"], places["answers given (gpt-k1)"]
    assert rewritten % N_COLOURS == given % N_COLOURS


def test_caption_says_what_is_an_experiment_and_what_is_not(figure: Figure) -> None:
    assert "prove no cause" in figure.caption
    assert "by judge ernie" in figure.caption
    assert figure.caption.endswith("over n = 1 to 7 instances, none below 5.")


def test_the_same_figure_in_chinese(drawn: Drawn, figure: Figure) -> None:
    (chinese,) = drawn.in_chinese
    assert chinese.name == "question_worth_zh"
    numbers = [(trace["x"], trace["y"]) for trace in figure.spec["data"]]
    assert [(trace["x"], trace["y"]) for trace in chinese.spec["data"]] == numbers
    assert "智能体提问 (orig+ask3)" in by_name(chinese)
    axes = [chinese.spec["layout"][axis]["title"]["text"] for axis in ("xaxis", "yaxis")]
    assert axes == ["智能体已用轮数的占比 (%)", "相对orig的平均得分增益 (分)"]
    assert "$" not in chinese.caption + chinese.alt + figure.caption + figure.alt


def test_runs_that_never_ask_during_a_search_have_no_such_figure(tmp_path: Path) -> None:
    made_run(tmp_path, label="orig", rows=[Row("a", score=50)])
    made_run(tmp_path, label="gpt-k1", rows=[Row("a", ["Where?"], ["here"], score=60)])
    drawn = figures(compare_runs([str(tmp_path)]), diagnose_named([str(tmp_path)]))
    names = [figure.name for figure in (*drawn.figures, *drawn.left_out, *drawn.in_chinese)]
    assert "question_worth" not in names


def test_without_a_gain_it_says_why_there_is_no_figure(tmp_path: Path) -> None:
    run = made_run(tmp_path, label="orig+ask3", rows=[Row("a", score=50)], k=0, clarifier="")
    add_asking(run, {"a": asking_fields([("Which?", "red", 1)], 2)}, max_asks=3)
    report = diagnose_named([str(run)])
    assert report.asking is not None
    left_out = question_worth(report.asking, {"orig+ask3": 0})
    assert not isinstance(left_out, Figure)
    assert left_out.reason == "No system that asks during the search shares a scored instance with orig."


def test_names_of_unknown_origin_are_text(tmp_path: Path) -> None:
    made_run(tmp_path, label="orig", rows=[Row("a", score=50)])
    run = made_run(tmp_path, label=LINK, rows=[Row("a", score=60)], k=0, clarifier="", name="hostile")
    add_asking(run, {"a": asking_fields([("Which?", "red", 1)], 2)}, max_asks=3)
    report = diagnose_named([str(tmp_path)])
    assert report.asking is not None
    figure = question_worth(report.asking, {"orig": 0, LINK: 1})
    assert isinstance(figure, Figure)
    assert "<a" not in json.dumps(figure.spec)
    assert "&lt;a href" in json.dumps(figure.spec)


def test_the_agent_that_asks_has_an_entry_of_its_own_among_scores(drawn: Drawn) -> None:
    legend = {trace["name"] for trace in named(drawn, "leaderboard").spec["data"]}
    assert "the agent asks" in legend
    assert "k unknown" not in legend

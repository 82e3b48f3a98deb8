"""Figures of scores and of judges."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_figures import named, three_runs, traces
from made_runs import Row, changed_manifest, made_run

from cts_async.analysis.stats import Difference, paired_differences
from cts_async.analysis.summary import summarise_run
from cts_async.pages.plots import Drawn, figures
from cts_async.pages.plots.figure import Scored, versus
from cts_async.tables.comparison import compare_runs


@pytest.fixture
def found(tmp_path: Path) -> Drawn:
    return figures(three_runs(tmp_path))


def test_best_mean_is_on_top(found: Drawn) -> None:
    """Of what did not fail anywhere gpt-k1 has 100 / 3, orig and local-k3 60 / 3."""
    figure = named(found, "leaderboard")
    assert figure.spec["layout"]["yaxis"]["ticktext"] == ["gpt-k1", "orig", "local-k3 (smoke<br>test)"]
    reference, k1, k3 = traces(figure)
    assert [trace["name"] for trace in (reference, k1, k3)] == ["reference", "k = 1", "k = 3"]
    assert (k1["x"], k1["y"]) == ([pytest.approx(100 / 3)], [0])
    assert (reference["x"], reference["y"]) == ([20.0], [1])
    assert k3["text"] == ["20.0"]
    assert " over the instances that all systems have, best on top. " in figure.caption
    assert " over n = 3 scored instances" in figure.caption


def test_gains_are_over_orig(found: Drawn) -> None:
    """10 0 30 over three pairs, and nothing over four."""
    (trace,) = traces(named(found, "gain"))
    assert trace["x"] == [pytest.approx(40 / 3), 0.0]
    assert trace["text"] == ["+13.3", "+0.0"]
    assert trace["hovertext"][1].endswith("n = 4")


def test_instances_are_better_the_same_or_worse(found: Drawn) -> None:
    figure = named(found, "better_or_worse")
    better, worse, same = traces(figure)
    assert better["x"] == [pytest.approx(200 / 3), 0.0]
    assert same["x"] == [pytest.approx(100 / 3), 100.0]
    assert same["base"] == better["x"]
    assert (worse["x"], worse["base"]) == ([0.0, 0.0], [100.0, 100.0])


def test_gains_of_instances_are_sorted_and_say_whose_they_are(found: Drawn) -> None:
    gpt, _ = traces(named(found, "gain_by_instance"))
    assert gpt["y"] == [30.0, 10.0, 0.0, 0.0]
    assert gpt["x"] == [pytest.approx(share, abs=1e-3) for share in (0, 100 / 3, 200 / 3, 100)]
    assert gpt["line"]["shape"] == "hv"
    assert gpt["hovertext"][0] == "q2<br>gpt-k1: +30.0"


def test_distribution_has_mean_and_median_and_no_failures(found: Drawn) -> None:
    histogram, mean, median = traces(named(found, "scores"))
    assert histogram["hovertext"][4] == "gpt-k1<br>10 to 15: 33.3% of 3"
    assert mean["x"] == [pytest.approx(100 / 3), 30.0, 30.0]
    assert median["x"] == [20.0, 30.0, 30.0]


def test_a_figure_of_many_instances_is_as_small_as_of_few(tmp_path: Path) -> None:
    rows = [Row(f"q{i}", score=float(i % 100)) for i in range(1_100)]
    made_run(tmp_path, label="orig", rows=rows)
    made_run(tmp_path, label="gpt-k1", rows=rows)
    found = figures(compare_runs([str(tmp_path)]))
    histogram = traces(named(found, "scores"))[0]
    assert len(histogram["x"]) == 2 * (21 * 2 + 2)
    assert histogram["hovertext"][0] == "orig<br>0 to 5: 5.0% of 1,100"
    (line,) = traces(named(found, "gain_by_instance"))
    assert len(line["x"]) == 201


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


def test_bootstrap_interval_of_many_is_close_to_the_normal_one() -> None:
    """Half 0, half 100: sd 50, so 1.96 * 50 / sqrt(6,000) = 1.265 to either side."""
    values = np.repeat([0.0, 100.0], 3_000)[:, None]
    (mean,) = paired_differences(values)
    assert mean is not None
    assert (mean.mean, mean.high - 50) == (50.0, pytest.approx(1.2653, abs=0.03))


def test_without_orig_figures_of_differences_are_left_out_with_a_reason(tmp_path: Path) -> None:
    without = replace(three_runs(tmp_path), baseline="")
    left = {one.name: one.reason for one in figures(without).left_out}
    assert left["gain_by_instance"] == "These runs include no run of orig to compare with."
    assert left["agreement"].startswith("There is only one judge")


def labelled(*words: tuple[str, str]) -> list[Row]:
    return [Row(f"q{i}", labels={"ernie": ernie, "<b>gpt": gpt}) for i, (ernie, gpt) in enumerate(words)]


@pytest.fixture
def judged(tmp_path: Path) -> Drawn:
    made_run(tmp_path, label="orig", rows=labelled(("nn", "nn"), ("np", "pp"), ("pn", "pn")))
    made_run(tmp_path, label="gpt-k1", rows=labelled(("fn", "ff"), ("pp", "pp"), ("ff", "ff")))
    return figures(compare_runs([str(tmp_path)]))


def test_means_by_judge(judged: Drawn) -> None:
    """ernie: gpt-k1 50 50 100, orig 0 25 25; the other: 100 50 100 and 0 50 25."""
    figure = named(judged, "judges")
    ernie, gpt = traces(figure)
    assert figure.spec["layout"]["yaxis"]["ticktext"] == ["gpt-k1", "orig"]
    assert ernie["x"] == [pytest.approx(200 / 3), pytest.approx(50 / 3)]
    assert gpt["x"] == [pytest.approx(250 / 3), 25.0]
    assert gpt["name"] == "&lt;b&gt;gpt"
    assert (ernie["y"], gpt["y"], gpt["marker"]["symbol"]) == ([0, 1], [0, 1], "square-open")
    assert figure.caption.endswith("All judges order the systems alike. n = 3 scored instances.")


def test_agreement_of_two_is_a_sentence_and_of_three_a_heat_map(judged: Drawn, tmp_path: Path) -> None:
    """Of 12 labels 10 agree. By chance (5 * 3 + 4 * 5 + 3 * 4) / 144 would: kappa (120 - 47) / (144 - 47) = 73 / 97."""
    (two,) = (one.reason for one in judged.left_out if one.name == "agreement")
    assert two == "Cohen's kappa of ernie and <b>gpt is 0.753 over 12 nuggets, 6 of them of distinct answers."
    for label, words in (
        ("orig", ("nn", "nn", "np", "pp", "pn", "pn")),
        ("x-k1", ("fn", "ff", "pp", "pp", "ff", "ff")),
    ):
        pairs = zip(words[::2], words[1::2], strict=True)
        rows = [Row(f"q{i}", labels={"a": a, "<b>": b, "c": a}) for i, (a, b) in enumerate(pairs)]
        made_run(tmp_path / "three", label=label, rows=rows)
    figure = named(figures(compare_runs([str(tmp_path / "three")])), "agreement")
    (heat,) = traces(figure)
    assert figure.spec["layout"]["yaxis"]["ticktext"] == ["a", "&lt;b&gt;", "c"]
    assert heat["z"][0] == [None, pytest.approx(73 / 97), 1.0]
    assert heat["text"][1] == ["0.75", "–", "0.75"]
    assert "Krippendorff's alpha of all judges is 0." in figure.caption
    assert figure.caption.endswith(" n = 12 nuggets of a pair, 6 of distinct answers.")
    assert figure.alt.startswith("a and <b>, kappa 0.753, ")


def spent(directory: Path, tokens: int, *, latencies: Sequence[float], price: float | None) -> None:
    """Give a run a call of so many tokens, at dollars per million, then calls of q0, q1, q0, ... of such latencies."""
    with changed_manifest(directory) as manifest:
        manifest |= {"sessions": [{"wall_s": 999.0}], "prices": {"m": {"input": price}}}
    step = {"key": "k", "instance": "q0", "step": "clarify", "model": "m", "usage": {"input": tokens}}
    called = {**step, "usage": {}, "failed_attempts": [{"latency_s": 0.5}]}
    calls = [{**called, "instance": f"q{i % 2}", "latency_s": each} for i, each in enumerate(latencies)]
    (directory / "steps.jsonl").write_text("".join(json.dumps(one) + "\n" for one in (step, *calls)))


@pytest.fixture
def priced(tmp_path: Path) -> Drawn:
    compared = three_runs(tmp_path)
    spent(tmp_path / "made-orig", 400_000, latencies=(1.5, 4.5, 3.0), price=1.0)
    spent(tmp_path / "made-gpt-k1", 4_000_000, latencies=(), price=2.0)
    spent(tmp_path / "made-local-k3", 1, latencies=(2.0,), price=None)
    summaries = [summarise_run(path) for path in sorted(tmp_path.iterdir())]
    return figures(compared, summaries=summaries)


def test_dollars_are_those_of_an_instance(priced: Drawn) -> None:
    """orig: 0.40 dollars for four instances; gpt-k1: 8 for four, a failed one among them, which costs as well."""
    orig, gpt = traces(named(priced, "cost"))
    assert (orig["x"], orig["y"]) == ([pytest.approx(0.1)], [30.0])
    assert (gpt["x"], gpt["y"]) == ([pytest.approx(2.0)], [pytest.approx(100 / 3)])
    assert (orig["name"], gpt["name"]) == ("orig", "gpt-k1")


def test_a_wide_range_has_a_logarithmic_axis(priced: Drawn) -> None:
    axis = named(priced, "cost").spec["layout"]["xaxis"]
    assert axis["type"] == "log"
    assert {"0.1", "0.5", "2"} <= set(axis["ticktext"])


def test_system_without_a_price_is_left_out_and_named(priced: Drawn) -> None:
    figure = named(priced, "cost")
    assert figure.caption.endswith("amount is unknown: local-k3 (smoke test).")


def test_time_is_the_median_of_summed_latencies(priced: Drawn) -> None:
    """orig: q0 has 1.5 + 3 s and q1 4.5 s, each call half a second more for a failed attempt: 5.5 and 5 s."""
    orig, local = traces(named(priced, "time"))
    assert (orig["x"], local["x"]) == ([5.25], [2.5])
    assert named(priced, "time").caption.endswith("amount is unknown: gpt-k1.")

"""Judges beside each other: means by judge, and kappa pair by pair."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_figures import named, traces
from made_runs import Row, made_run

from cts_async.report.comparison import compare_runs
from cts_async.report.plots import Drawn, Material, figures


def judged(*words: tuple[str, str]) -> list[Row]:
    return [Row(f"q{i}", labels={"ernie": ernie, "<b>gpt": gpt}) for i, (ernie, gpt) in enumerate(words)]


@pytest.fixture
def found(tmp_path: Path) -> Drawn:
    made_run(tmp_path, label="orig", rows=judged(("nn", "nn"), ("np", "pp"), ("pn", "pn")))
    made_run(tmp_path, label="gpt-k1", rows=judged(("fn", "ff"), ("pp", "pp"), ("ff", "ff")))
    return figures(Material(compare_runs([str(tmp_path)])))


def test_means_by_judge(found: Drawn) -> None:
    """ernie: gpt-k1 50 50 100, orig 0 25 25; the other: 100 50 100 and 0 50 25."""
    figure = named(found, "judges")
    ernie, gpt = traces(figure)
    assert figure.spec["layout"]["yaxis"]["ticktext"] == ["gpt-k1", "orig"]
    assert ernie["x"] == [pytest.approx(200 / 3), pytest.approx(50 / 3)]
    assert gpt["x"] == [pytest.approx(250 / 3), 25.0]
    assert gpt["name"] == "&lt;b&gt;gpt"
    assert figure.alt.endswith("All judges order the systems alike.")
    assert figure.caption.endswith("; n = 3 scored instances.")


def test_kappa_stands_in_the_cells(found: Drawn) -> None:
    """Of 12 labels 10 agree. By chance (5 * 3 + 4 * 5 + 3 * 4) / 144 would: kappa (120 - 47) / (144 - 47) = 73 / 97."""
    figure = named(found, "agreement")
    (heat,) = traces(figure)
    assert heat["z"] == [[None, pytest.approx(73 / 97)], [pytest.approx(73 / 97), None]]
    assert heat["text"] == [["–", "0.75"], ["0.75", "–"]]
    assert "Krippendorff's alpha of all judges is 0." in figure.caption
    assert figure.caption.endswith(" n = 12 nuggets of a pair.")
    assert figure.alt == "ernie and <b>gpt agree with a kappa of 0.75 on 12 nuggets."

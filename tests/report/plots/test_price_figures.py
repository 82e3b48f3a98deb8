"""Score against cost and time; what has no price is left out, and named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from made_figures import named, three_runs, traces

from cts_async.report.plots import Drawn, Figure, Material, figures
from cts_async.report.summary import summarise_run


def spent(directory: Path, tokens: int, *, wall_s: float, price: float | None) -> None:
    """Give a run one call of so many tokens, at dollars per million."""
    manifest: dict[str, Any] = json.loads((directory / "run.json").read_text())
    manifest |= {"sessions": [{"wall_s": wall_s}], "prices": {"m": {"input": price}}}
    (directory / "run.json").write_text(json.dumps(manifest))
    step = {"key": "k", "instance": "q0", "step": "clarify", "model": "m", "usage": {"input": tokens}}
    (directory / "steps.jsonl").write_text(json.dumps(step) + "\n")


@pytest.fixture
def found(tmp_path: Path) -> Drawn:
    compared = three_runs(tmp_path)
    spent(tmp_path / "made-orig", 400_000, wall_s=8.0, price=1.0)
    spent(tmp_path / "made-gpt-k1", 4_000_000, wall_s=0.0, price=2.0)
    spent(tmp_path / "made-local-k3", 1, wall_s=2.0, price=None)
    summaries = [summarise_run(path) for path in sorted(tmp_path.iterdir())]
    return figures(Material(compared, summaries=summaries))


def test_dollars_are_those_of_an_instance(found: Drawn) -> None:
    """orig: 0.40 dollars for four instances; gpt-k1: 8 for four, a failed one among them, which costs as well."""
    orig, gpt = traces(named(found, "cost"))
    assert (orig["x"], orig["y"]) == ([pytest.approx(0.1)], [30.0])
    assert (gpt["x"], gpt["y"]) == ([pytest.approx(2.0)], [pytest.approx(100 / 3)])
    assert orig["text"] == ["orig"]


def test_a_wide_range_has_a_logarithmic_axis(found: Drawn) -> None:
    axis = named(found, "cost").spec["layout"]["xaxis"]
    assert axis["type"] == "log"
    assert {"0.1", "0.5", "2"} <= set(axis["ticktext"])


def test_what_has_no_price_is_left_out_and_named(found: Drawn) -> None:
    figure: Figure = named(found, "cost")
    assert figure.caption.endswith("no call is recorded: local-k3 (smoke test).")


def test_time_is_wall_time_by_instance(found: Drawn) -> None:
    orig, local = traces(named(found, "time"))
    assert (orig["x"], local["x"]) == ([2.0], [0.5])
    assert named(found, "time").caption.endswith("their time is not recorded: gpt-k1.")


def test_what_was_free_makes_no_figure_of_cost(tmp_path: Path) -> None:
    compared = three_runs(tmp_path)
    spent(tmp_path / "made-orig", 400_000, wall_s=8.0, price=0.0)
    found = figures(Material(compared, summaries=[summarise_run(tmp_path / "made-orig")]))
    assert [one.reason for one in found.left_out if one.name == "cost"] == ["All calls were free."]
    assert named(found, "time").alt == "orig scores highest, 30.0 at 2.0 seconds per instance."


def test_without_any_price_there_is_no_figure(tmp_path: Path) -> None:
    left = [one.name for one in figures(Material(three_runs(tmp_path))).left_out]
    assert {"cost", "time"} <= set(left)

"""Runs whose figures can be worked out on paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from made_runs import Row, made_run

from cts_async.pages.plots import Drawn, Figure
from cts_async.tables.comparison import RunsCompared, compare_runs

LINK = '<a href="javascript:alert(1)">x</a>'


def three_runs(folder: Path) -> RunsCompared:
    """orig 0 20 40 60, gpt-k1 10 20 70 and a failure, the embedded model's local-k3 0 20 40 60."""
    scores = (0.0, 20.0, 40.0, 60.0)
    rows = [Row(f"q{i}", score=score) for i, score in enumerate(scores)]
    made_run(folder, label="orig", rows=rows)
    asked = [Row(f"q{i}", ["Where?"], ["here"], score=score) for i, score in enumerate((10.0, 20.0, 70.0))]
    made_run(folder, label="gpt-k1", rows=[*asked, Row("q3", error="search")])
    same = [Row(f"q{i}", ["Where?"] * 3, ["here"] * 3, score=score) for i, score in enumerate(scores)]
    made_run(folder, label="local-k3", rows=same, embedded=True)
    return compare_runs([str(folder)])


def named(found: Drawn, name: str) -> Figure:
    return next(one for one in found.figures if one.name == name)


def traces(figure: Figure) -> list[dict[str, Any]]:
    """Those that show something."""
    return [trace for trace in figure.spec["data"] if trace.get("x") != [None]]

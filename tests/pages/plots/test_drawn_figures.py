"""All figures together: nobody's text becomes markup, smoke tests are marked, what is missing is said."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from made_figures import LINK
from made_runs import Row, made_run

from cts_async.analysis.summary import summarise_run
from cts_async.pages.plots import figures
from cts_async.tables.comparison import compare_runs
from cts_async.tables.diagnosis import diagnose_named

BIDI = "\u202egnp.x-k1"


def texts(value: Any) -> Iterator[str]:
    """All texts of a spec, whatever they are nested in."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from texts(one)


def test_hostile_names_are_text_and_figures_are_described(tmp_path: Path) -> None:
    """Systems, a judge and instances with names that want to be markup, in every figure that there is."""
    for place, label in enumerate(("orig", f"{LINK}-k1", BIDI)):
        asked = place > 0
        rows = [
            Row(f"<b>{i}", ["Where?"] * asked, ["%{x}"] * asked, labels={"ernie": labels, "<i>j": "fp"})
            for i, labels in enumerate(("fn", "pp"))
        ]
        name = f"run-{place}"
        made_run(tmp_path, label=label, rows=rows, name=name, k=int(asked), clarifier="<u>" * asked)
    named = [str(tmp_path)]
    summaries = [summarise_run(path) for path in sorted(tmp_path.iterdir())]
    drawn = figures(compare_runs(named), diagnose_named(named), summaries=summaries).figures
    assert len(drawn) >= 12
    for figure in drawn:
        for text in texts(figure.spec):
            assert not re.findall(r"<(?!br>)|\x1b|\u202e", text), (figure.name, text)
        assert not re.search(r'color"|#[0-9a-f]{6}|rgba?\(', json.dumps(figure.spec)), (
            "themes have the colours"
        )
        assert figure.title
        assert figure.caption.endswith(".")
        assert re.search(r"\d.*\.$", figure.alt), figure.name
        assert figure.spec["layout"]["height"] > 0
    everything = json.dumps([figure.spec for figure in drawn])
    assert "&lt;a href=" in everything
    assert "hovertemplate" not in everything


def test_figure_without_system_names_is_marked_itself(tmp_path: Path) -> None:
    rows = [Row(id, ["Which year?"], ["x"], labels={"ernie": "fn", "kimi": "ff", "gpt": "nf"}) for id in "ab"]
    for label, embedded in (("orig", False), ("gpt-k1", False), ("local-k1", True)):
        made_run(tmp_path, label=label, rows=rows, embedded=embedded)
    named = [str(tmp_path)]
    drawn = figures(compare_runs(named), diagnose_named(named))
    together = [one for one in drawn.figures if one.name in ("agreement", "answerability", "calibration")]
    assert len(together) == 3
    for figure in together:
        assert figure.spec["layout"]["annotations"][-1]["text"] == "smoke test"
        for text in (figure.caption, figure.alt):
            assert text.endswith(" Smoke test: the embedded model played for local-k1.")
    (gpt_first,) = (one.alt for one in drawn.figures if one.name == "gain")
    assert "Smoke" not in gpt_first


def test_one_run_alone_has_figures_too(tmp_path: Path) -> None:
    found = diagnose_named([str(made_run(tmp_path, label="gpt-k1", rows=[Row("a", ["Where?"], ["x"])]))])
    drawn = figures(diagnosed=found)
    assert {"unknown_by_turn", "question_types"} <= {figure.name for figure in drawn.figures}
    assert {"type_gain", "known_answers", "ask_or_not"} == {one.name for one in drawn.left_out}

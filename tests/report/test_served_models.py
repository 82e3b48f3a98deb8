"""A reply from another model than asked for is said under the results, by pair and with its share."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path

from rich.console import Console

from cts_async.report.results import other_models, print_results
from cts_async.report.summary import RunSummary, Spent, summarise_run, write_summary


def summary(label: str, **served: Counter[str]) -> RunSummary:
    asked = {name.replace("_", "-"): replies for name, replies in served.items()}
    return RunSummary(
        directory=Path("runs") / label,
        manifest={"identity": {"system": label}},
        judges=(),
        failures=(),
        spent=Spent(served=asked),
        n_expected=8,
        n_done=8,
        unknown_rate=None,
        all_unknown_rate=None,
        wall_s=1.0,
    )


def replies(**by_model: int) -> Counter[str]:
    return Counter({name.replace("_", "-"): n for name, n in by_model.items()})


def test_shares_are_those_of_all_runs_together() -> None:
    """big: 3 + 2 of 10 + 10 replies came from small; a dated snapshot of big is big."""
    runs = [
        summary("orig", big=replies(big=7, small=3), judge=replies(judge=5)),
        summary("big-k1", big=Counter({"big-2025-12-11": 8, "small": 2})),
    ]
    assert list(other_models(runs)) == [
        "Another model: small gave 5 of 20 replies that big was asked for (orig, big-k1)"
    ]


def test_nothing_is_said_where_every_model_was_the_one_asked_for() -> None:
    assert list(other_models([summary("orig", big=replies(big=7))])) == []


def test_the_results_end_with_it_and_no_server_paints_the_terminal() -> None:
    out = io.StringIO()
    odd = summary("orig", big=Counter({"[red]small\x1b[2J": 3}))
    print_results(Console(file=out, width=80, color_system=None), [odd])
    last = out.getvalue().splitlines()[-1]
    assert last == "Another model: [red]small?[2J gave 3 of 3 replies that big was asked for (orig)"


def test_the_summary_counts_replies_by_who_gave_them(tmp_path: Path) -> None:
    def step(**response: str) -> str:
        return json.dumps({"step": "clarify", "model": "big", "response": {"text": "x", **response}}) + "\n"

    failed = json.dumps({"step": "clarify", "model": "big", "error": {"kind": "refused"}}) + "\n"
    tool = json.dumps({"step": "search/tool/1.1", "response": {"text": "x"}}) + "\n"
    (tmp_path / "run.json").write_text(json.dumps({"identity": {"system": "big-k1"}}))
    (tmp_path / "steps.jsonl").write_text(
        step() + step(served_model="small") + step() + step(served_model="big-2025-12-11") + failed + tool
    )
    written = write_summary(summarise_run(tmp_path))
    assert written["served_models"] == {"big": {"big": 2, "small": 1, "big-2025-12-11": 1}}

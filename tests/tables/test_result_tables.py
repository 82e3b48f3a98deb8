"""Results on a terminal."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_runs import Row, changed_manifest, made_run
from rich.console import Console

from cts_async import scorer
from cts_async.analysis.summary import JudgeScores, RunSummary, summarise_run
from cts_async.runs.journal import Spent
from cts_async.runs.manifest import tolerant_manifest
from cts_async.tables.comparison import compare_runs
from cts_async.tables.results import (
    difference_to,
    other_models,
    print_failures,
    print_judged,
    print_results,
    scores_table,
)
from cts_async.tables.summary import write_summary


def scored(scores: Mapping[str, float], judge: str = "ernie") -> JudgeScores:
    ids = np.array([hash(id) for id in scores], np.int64)
    return JudgeScores(
        judge,
        ids,
        np.array([*scores.values()], float),
        scorer.summarise(scores.values(), 0, max(8, len(scores))),
    )


def judged(judge: str, *scores: float) -> JudgeScores:
    return scored({f"q{i}": score for i, score in enumerate(scores)}, judge)


def summary(label: str, *judges: JudgeScores, calls: int = 0, failures: int = 0) -> RunSummary:
    error = {"step": "clarify", "kind": "rejected", "message": "the request is [too] long"}
    return RunSummary(
        directory=Path("runs") / label,
        manifest=tolerant_manifest({"identity": {"system": label}}, Path("runs") / label),
        judges=judges,
        failures=tuple({"id": f"s{i:02}", "error": error} for i in range(failures)),
        spent=Spent(calls=calls, tokens={"m": Counter(input=1)}),
        n_expected=8,
        n_done=8 - failures,
        unknown_rate=None,
        all_unknown_rate=None,
        wall_s=3725.0,
    )


def printed(*summaries: RunSummary) -> str:
    out = io.StringIO()
    print_results(Console(file=out, width=80, color_system=None), summaries)
    return out.getvalue()


ORIG = summary("orig", judged("ernie", 100, 0, 40), judged("lexical", 10, 20, 30), calls=30)
GPT = summary("gpt-k3", judged("ernie", 100, 100, 55), judged("lexical", 15, 25, 35), calls=81)


def test_every_column_is_readable() -> None:
    long = "deepseek:deepseek-reasoner"
    wide = summary(f"{long}-k3", judged("ernie", 0, 0, 0))
    text = printed(ORIG, GPT, wide, summary("gold", calls=3))
    lines = text.splitlines()
    assert all(len(line.rstrip()) <= 80 for line in lines if not line.startswith("Calls"))
    assert "…" not in text
    first, second, unjudged = (
        next(line for line in lines if line.startswith(name)).split() for name in ("orig", "gpt", "gold")
    )
    assert first == ["orig", "ernie", "46.67", "-", "40.00", "88.00", "3/8", "0"]
    assert second[:3] == ["gpt-k3", "ernie", "85.00"]
    assert "+5.0 [-]" in text  # lexical: 5 more in each of 3 instances
    assert "-46.7 [-]" in text
    assert "[-] no interval: fewer than 5 instances, or all of them have the same value." in text
    assert unjudged[:3] == ["gold", "not", "judged"]
    assert "Calls: orig 30, gpt-k3 81" in text
    assert "Wall clock of the command, all attempts: 1:02:05" in text


def test_at_most_ten_failures_are_listed() -> None:
    text = " ".join(printed(summary("orig", judged("ernie", 1), failures=12)).split())
    assert "failed: orig s00 at clarify: the request is [too] long" in text
    assert "s09" in text
    assert "s10" not in text
    assert "and 2 more in results.jsonl" in text
    assert "--retry-failed" in text
    error = {"step": "judge", "kind": "rejected", "message": "no\x1b[2J\nfailed: nothing"}
    hostile = replace(summary("orig", judged("ernie", 1)), failures=[{"id": "s\x9b1", "error": error}])
    assert "failed: orig s?1 at judge: no?[2J?failed: nothing" in printed(hostile)


def test_names_in_results_are_untrusted_text() -> None:
    """Whoever wrote a run's files chose them; such a closing tag is an error to rich."""
    text = printed(summary("a[b]\x1b[2J", judged("[/b]x", 1), judged("[red]y", 2)))
    assert "a[b]�[2J [/b]x" in text
    assert " [red]y " in text
    assert "No model was called." in text


def test_differences_pair_instances_of_the_same_judge() -> None:
    baseline = summary("orig", scored({"a": 10.0, "b": 20.0}))
    other = scored({"b": 50.0, "c": 90.0})
    found = difference_to(other, baseline)
    assert found is not None
    assert (found.n, found.mean) == (1, 30.0)
    assert difference_to(judged("gpt", 1.0), baseline) is None
    assert difference_to(other, None) is None


def test_interval_does_not_depend_on_finishing_order_and_is_that_of_compare(tmp_path: Path) -> None:
    """Were resamples to go by the order of the lines, these intervals would differ from the third digit on."""
    pairs = [(7 * i % 31, 5 * i % 23) for i in range(40)]
    found = set()
    for number, places in enumerate([range(40), range(39, -1, -1), [*range(20, 40), *range(20)]]):
        runs = [
            made_run(
                tmp_path / str(number),
                label=label,
                rows=[
                    Row(f"q{i}", labels=dict.fromkeys(("ernie", "strict"), f"{'f' * pairs[i][side]:n<32}"))
                    for i in order
                ],
            )
            for label, side, order in (("gpt-k1", 0, places), ("orig", 1, places[::-1]))
        ]
        other, orig = map(summarise_run, runs)
        found |= {difference_to(scores, orig) for scores in other.judges}
        for judged in compare_runs([*map(str, runs)]).judged:
            found |= {one.gain for one in judged.standings if one.gain}
    assert len(found) == 1


def test_differences_are_to_the_orig_of_the_same_agent() -> None:
    runs = [
        replace(
            summary(label, judged("ernie", score, score)),
            manifest=tolerant_manifest(
                {"identity": {"system": label}, "players": {"agent": agent}}, Path(label)
            ),
        )
        for agent, label, score in (
            ("a", "orig", 10),
            ("a", "x-k1", 40),
            ("b", "orig", 50),
            ("b", "y-k1", 90),
        )
    ]
    assert [row["delta"] for row in scores_table(runs).rows] == [None, 30.0, None, 40.0]
    assert [row["delta"] for row in scores_table([runs[0], runs[3]]).rows] == [None, 80.0]


def judged_again(folder: Path, *, results: str) -> RunSummary:
    """q0 and q1 have answers, q2 failed; `strict`, a further judge, has labelled q0 and failed on q1."""
    directory = made_run(
        folder,
        label="gpt-k1",
        rows=[
            Row("q0", labels={"ernie": "f", "strict": "n"}),
            Row("q1", labels={"ernie": "f"}),
            Row("q2", error="search/turn/1"),
        ],
    )
    error = {"step": "judge/strict", "kind": "unusable_output", "message": "expected JSON"}
    with (directory / "judgments" / "strict.jsonl").open("a") as file:
        file.write(json.dumps({"id": "q1", "judge": "strict", "error": error}) + "\n")
        file.write(json.dumps({"id": "gone", "judge": "strict", "error": error}) + "\n")
    (directory / "results.jsonl").rename(directory / results)
    return summarise_run(directory)


def printed_after(summary: RunSummary, *judges: str) -> list[str]:
    out = io.StringIO()
    print_judged(Console(file=out, width=200, color_system=None), [summary], judges)
    return [line for line in out.getvalue().splitlines() if line.startswith(("failed", "The same", "Not"))]


def test_failures_of_further_judge_are_listed(tmp_path: Path) -> None:
    found = judged_again(tmp_path, results="results.jsonl")
    assert printed_after(found, "strict") == [
        "failed: made-gpt-k1 q1 at judge/strict: expected JSON",
        "The same command retries these.",
        "Not judged: 1 failed in the runs; the runs' command with --retry-failed retries them.",
    ]
    assert printed_after(found, "another")[1:] == []


def test_failures_of_candidates_are_listed_for_all_judges(tmp_path: Path) -> None:
    assert printed_after(judged_again(tmp_path, results="per_item.jsonl"), "ernie", "strict") == [
        "failed: made-gpt-k1 q2 at search/turn/1: refused",
        "The same command with --retry-failed retries these.",
        "failed: made-gpt-k1 q1 at judge/strict: expected JSON",
        "The same command retries these.",
    ]


@pytest.mark.parametrize(("n_other", "empty_answers"), [(0, ""), (1, ""), (0, "zero"), (1, "zero")])
def test_retry_is_not_recommended_for_searches_that_end_without_an_answer(
    tmp_path: Path, n_other: int, empty_answers: str
) -> None:
    """One search used up its calls; with `--empty-answers zero` that is no failure. Another failed at its server."""
    others = [Row("q1", error="search/turn/1")] * n_other
    directory = made_run(tmp_path, label="orig", rows=[Row("q0", score=10), *others])
    line: dict[str, Any] = {
        "id": "q2",
        "error": {"step": "search/turn/3", "kind": "no_answer", "message": "m"},
    }
    if empty_answers:
        line = {"id": "q2", "answer": "", "search": {"unanswered": True}, "restore_score_100": 0.0}
    with (directory / "results.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
    with changed_manifest(directory) as manifest:
        manifest["identity"]["empty_answers"] = empty_answers
    summary = summarise_run(directory)
    assert summary.n_open_searches == 1
    out = io.StringIO()
    print_failures(Console(file=out, width=200, color_system=None), [summary])
    assert ("--retry-failed" in out.getvalue()) == bool(n_other)
    assert ("free_end=false" in out.getvalue()) == (not empty_answers)


def served_summary(label: str, **served: Counter[str]) -> RunSummary:
    asked = {name.replace("_", "-"): replies for name, replies in served.items()}
    return replace(summary(label), spent=Spent(served=asked))


def replies(**by_model: int) -> Counter[str]:
    return Counter({name.replace("_", "-"): n for name, n in by_model.items()})


def test_served_shares_are_over_all_runs() -> None:
    """big: 3 + 2 of 10 + 10 replies came from small; a dated snapshot of big is big."""
    runs = [
        served_summary("orig", big=replies(big=7, small=3), judge=replies(judge=5)),
        served_summary("big-k1", big=Counter({"big-2025-12-11": 8, "small": 2})),
    ]
    assert list(other_models(runs)) == ["Another model answered: small gave 5 of 20 replies for big"]


def test_served_models_are_printed_as_untrusted_text() -> None:
    out = io.StringIO()
    odd = served_summary("orig", big=Counter({"[red]small\x1b[2J": 3}))
    print_results(Console(file=out, width=80, color_system=None), [odd])
    last = out.getvalue().splitlines()[-1]
    assert last == "Another model answered: [red]small?[2J gave 3 of 3 replies for big"


def test_summary_counts_replies_by_served_model(tmp_path: Path) -> None:
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

"""Summaries of runs, agreement with the lexical judge, results in columns, and the health of tools."""

from __future__ import annotations

import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from written_files import write_lines

from cts_async import scorer
from cts_async.analysis.summary import JudgeScores, pooled_agreements, summarise_run, summarise_runs
from cts_async.analysis.tool_health import ToolHealth
from cts_async.errors import InputError
from cts_async.records import Instance, Outcome, ToolFailure, ToolUse, Trace
from cts_async.runs.results import answer_digest, outcome_line
from cts_async.tables.output import dollars
from cts_async.tables.results import print_results
from cts_async.tables.summary import agreement_sentence, cost_text, write_summary

MANIFEST = {
    "identity": {"system": "m-k2"},
    "n_expected": 6,
    "prices": {"big": {"input": 2.0, "output": 10.0}},
    "sessions": [{"wall_s": 10.5}, {"wall_s": None}, {"wall_s": 1.5}],
    "embedded": False,
}


def scored(id: str, label: str, answers: list[str]) -> dict[str, Any]:
    nuggets = [{"id": "N1", "weight": 3, "coverage": label}]
    score = {"full": 100.0, "partial": 50.0, "none": 0.0}[label]
    return {"id": id, "judge": "ernie", "nuggets": nuggets, "restore_score_100": score, "answers": answers}


def failure(id: str) -> dict[str, Any]:
    return {"id": id, "error": {"step": "clarify", "kind": "rejected", "message": "no"}}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "run.json").write_text(json.dumps(MANIFEST))
    write_lines(
        tmp_path / "results.jsonl",
        failure("a"),
        scored("b", "full", ["unknown", "unknown"]),
        scored("c", "partial", ["unknown", "red"]),
        scored("d", "none", ["here", "now"]),
        failure("e"),
        scored("a", "full", ["x", "y"]),  # a retry: the failure above no longer counts
    )
    verdict = {"judge": "lexical", "nuggets": [], "restore_score_100": 20.0}
    write_lines(
        tmp_path / "judgments" / "lexical.jsonl",
        {"id": "b", **verdict},
        {"id": "c", **verdict, "restore_score_100": 40.0},
        {"id": "z", **verdict, "restore_score_100": 90.0},  # its answer was never recorded
    )
    write_lines(
        tmp_path / "steps.jsonl",
        {"step": "clarify", "model": "big", "attempts": 1, "usage": {"input": 1000, "output": 100}},
        {
            "step": "judge",
            "model": "big",
            "attempts": 3,
            "failed_attempts": [{}, {}],
            "usage": {"input": 500_000, "output": 50_000},
        },
        {"step": "search/tool/1"},
    )
    return tmp_path


def test_summary_matches_hand_calculation(run: Path) -> None:
    """100, 100, 50, 0: mean 62.5; p50 between 50 and 100; p90 at 2.7 of 0..3 is 100."""
    summary = write_summary(summarise_run(run))
    assert (summary["n_expected"], summary["n_scored"], summary["n_failed"]) == (6, 4, 1)
    assert (summary["mean"], summary["p50"], summary["p90"]) == (62.5, 75.0, 100.0)
    assert (summary["min"], summary["max"], summary["judge"]) == (0.0, 100.0, "ernie")
    # 3 of 8 answers are unknown; of 4 instances one has nothing else.
    assert (summary["ua_unknown_rate"], summary["all_unknown_rate"]) == (3 / 8, 1 / 4)
    alone = asdict(scorer.score_file(run / "results.jsonl"))
    for name in ("n_scored", "n_failed", "n_unjudged", "mean", "p50", "p90", "min", "max"):
        assert summary[name] == alone[name]
    with (run / "results.jsonl").open("a") as file:
        file.write('{"id": "f", "restore_sc')
    assert summarise_run(run).n_done == 4  # a torn last line is ignored
    with pytest.raises(InputError, match=r"run\.json not found"):
        summarise_run(run / "judgments")


def test_cost_matches_hand_calculation(run: Path) -> None:
    """501,000 tokens in at $2 and 50,100 out at $10 per million; tools cost nothing here."""
    summary = write_summary(summarise_run(run))
    assert summary["cost_usd"] == pytest.approx(1.002 + 0.501)
    assert (summary["calls"], summary["failed_attempts"]) == (4, 2)
    assert summary["tokens"] == {"big": {"input": 501_000, "output": 50_100}}
    assert summary["wall_s"] == 12.0
    assert (summary["priced_usd"], summary["unpriced_models"]) == (summary["cost_usd"], 0)
    with (run / "steps.jsonl").open("a") as file:
        for model in ("new", "newer"):
            file.write(json.dumps({"step": "judge", "model": model, "usage": {"input": 7}}) + "\n")
    summary = write_summary(summarise_run(run))
    assert (summary["cost_usd"], summary["priced_usd"]) == (None, pytest.approx(1.503))
    assert cost_text(summary) == "$1.50 + unknown (2 models without price or usage)"
    assert dollars(0.0, 1) == "unknown (1 model without price or usage)"
    assert (dollars(0.0, 0), dollars(0.0312, 0), dollars(1234.5, 0)) == ("$0.00", "$0.0312", "$1,234.50")


@pytest.mark.parametrize(
    ("prices", "cost"),
    [
        ({"big": {"input": 2.0, "output": 10.0}}, None),
        ({}, None),
        ({"big": {"input": None, "output": None}}, None),
        ({"big": {"input": 0.0, "output": 0.0}}, 0.0),
    ],
)
def test_cost_is_unknown_without_reported_tokens(
    run: Path, prices: dict[str, Any], cost: float | None
) -> None:
    (run / "run.json").write_text(json.dumps({**MANIFEST, "prices": prices}))
    write_lines(run / "steps.jsonl", {"step": "judge", "model": "big", "response": {"text": "full"}})
    assert write_summary(summarise_run(run))["cost_usd"] == cost
    write_lines(
        run / "steps.jsonl", {"step": "judge", "model": "big", "attempts": 1, "failed_attempts": [{}]}
    )
    assert write_summary(summarise_run(run))["cost_usd"] == 0.0  # nothing was answered


def test_replies_without_usage_are_counted_and_make_the_cost_a_lower_bound(run: Path) -> None:
    """Two verdicts and more name no tokens: only 1,000 in at $2, and 100 and 7 out at $10 per million are known."""
    write_lines(
        run / "steps.jsonl",
        {
            "step": "clarify",
            "model": "big",
            "usage": {"input": 1000, "output": 100},
            "response": {"text": "?"},
        },
        {"step": "judge/big", "model": "big", "response": {"text": "full"}},
        {"step": "judge/big", "model": "big", "response": {"text": "none"}},
        {"step": "judge/big", "model": "big", "failed_attempts": [{"kind": "timeout"}]},  # not answered
        {
            "step": "rewrite",
            "model": "big",
            "failed_attempts": [
                {"kind": "unusable_output"},
                {"kind": "unusable_output", "usage": {"input": 9, "output": 1}},
                {"kind": "no_completion"},
            ],
        },
        {  # what was charged is of the reply before
            "step": "clarify",
            "model": "big",
            "usage": {"input": 0, "output": 7},
            "failed_attempts": [{"kind": "unusable_output", "usage": {"input": 0, "output": 7}}],
            "response": {"text": "?"},
        },
        {"step": "search/tool/1", "response": {"hits": []}},  # no model
    )
    summary = write_summary(summarise_run(run))
    assert summary["replies_without_usage"] == {"big": {"judge": 2, "rewrite": 2, "clarify": 1}}
    assert (summary["cost_usd"], summary["priced_usd"]) == (None, pytest.approx(0.003 + 0.00007))
    assert cost_text(summary) == "$0.0031 + unknown (1 model without price or usage)"
    console = Console(file=io.StringIO(), width=200)
    print_results(console, [summarise_run(run)])
    assert isinstance(console.file, io.StringIO)
    line = "Tokens unknown: 5 of the replies of big name none; tokens and dollars are of the others"
    assert line in console.file.getvalue()


def test_further_judge_counts_recorded_answers_only(run: Path) -> None:
    write_lines(run / "judgments" / "gpt.jsonl", {**failure("b"), "judge": "gpt"})
    _, gpt, lexical = summarise_run(run).judges
    assert (lexical.judge, sorted(lexical.scores)) == ("lexical", [20.0, 40.0])
    assert (lexical.summary.n_scored, lexical.summary.n_failed, lexical.summary.mean) == (2, 1, 30.0)
    assert (gpt.summary.n_scored, gpt.summary.n_failed, gpt.summary.mean) == (0, 2, None)


def test_unjudged_run_has_counts_without_scores(run: Path) -> None:
    (run / "judgments" / "lexical.jsonl").unlink()
    answered = {"judge": None, "nuggets": None, "restore_score_100": None, "answer": "x", "answers": []}
    write_lines(run / "results.jsonl", {"id": "a", **answered}, {"id": "b", **answered})
    summary = write_summary(summarise_run(run))
    assert (summary["judge"], summary["mean"], summary["n_scored"], summary["n_unjudged"]) == (
        None,
        None,
        0,
        2,
    )


@pytest.mark.parametrize(
    "field", [{"usage": True}, {"usage": {"input": "x"}}, {"attempts": {}}, {"response": "x"}, {"model": 3}]
)
def test_malformed_step_is_reported_in_one_line(run: Path, field: dict[str, object]) -> None:
    sound = {"model": "m", "usage": {"input": 1}}
    with (run / "steps.jsonl").open("a") as file:
        file.writelines(json.dumps(record) + "\n" for record in (sound, {**sound, **field}, sound))
    with pytest.raises(
        InputError, match=r"steps\.jsonl: a step's model, attempts, usage or response is malformed"
    ):
        summarise_run(run)


def line(id: str, labels: str, **more: Any) -> dict[str, Any]:
    """`fpn` is full, partial, none; the score is that of equal weights."""
    words = {"f": "full", "p": "partial", "n": "none"}
    nuggets = [{"id": f"N{i}", "weight": 1, "coverage": words[c]} for i, c in enumerate(labels)]
    score = sum({"f": 100, "p": 50, "n": 0}[c] for c in labels) / len(labels)
    return {"id": id, "nuggets": nuggets, "restore_score_100": score, **more}


def judge_failure(id: str, judge: str) -> dict[str, Any]:
    return {"id": id, "judge": judge, "error": {"step": "judge", "kind": "rejected", "message": "no"}}


@pytest.fixture
def run_of_two_judges(tmp_path: Path) -> Path:
    """Judged by both: a (ff / fn), b (np / np), c (fp / pp). Not by both: d, e, and f with other nuggets."""
    own = {"judge": "ernie"}
    write_lines(tmp_path / "run.json", {"identity": {"system": "m-k1", "judges": ["ernie"]}, "n_expected": 6})
    write_lines(
        tmp_path / "results.jsonl",
        line("a", "nn", **own),  # superseded
        line("a", "ff", **own),
        line("b", "np", **own),
        line("d", "ff", **own),
        judge_failure("e", "ernie"),
        line("c", "fp", **own),
        line("f", "f", **own),
    )
    write_lines(
        tmp_path / "judgments" / "lexical.jsonl",
        *(line(id, labels, judge="lexical") for id, labels in (("c", "pp"), ("a", "fn"), ("b", "np"))),
        line("e", "ff", judge="lexical"),
        line("f", "fn", judge="lexical"),
        judge_failure("d", "lexical"),
    )
    return tmp_path


def test_summary_has_coefficients_of_lexical_agreement(run_of_two_judges: Path) -> None:
    """Equal 4 of 6. Rows f 3 p 2 n 1, columns f 1 p 3 n 2: by chance (3 + 6 + 2)/36, so (24 - 11)/(36 - 11)."""
    (found,) = write_summary(summarise_run(run_of_two_judges))["agreement"]
    assert (found["judge"], found["n_answers"], found["n_nuggets"]) == ("ernie", 3, 6)
    assert found["exact"] == 4 / 6
    assert found["kappa"] == pytest.approx(13 / 25)
    # Quadratic: 4 + 1 observed, of 6; by chance f: 3 + 4*2, p: 1 + 2, n: 4 + 3 times 3, 2 and 1 = 33 + 6 + 7.
    assert found["kappa_quadratic"] == pytest.approx(1 - 5 * 6 / 46)


def test_agreements_of_runs_are_pooled(run_of_two_judges: Path) -> None:
    found = summarise_run(run_of_two_judges).judge_pairs
    (pooled,) = pooled_agreements([*found, *found])
    assert (pooled.n_answers, pooled.n_nuggets, pooled.exact) == (6, 12, 4 / 6)
    assert agreement_sentence(pooled) == (
        "lexical agrees with ernie on 66.7 % of 12 nuggets (Cohen's kappa 0.520, quadratic 0.348); "
        "scores of 6 answers correlate by 0.945"
    )


def test_verdicts_on_other_answers_are_not_compared(tmp_path: Path) -> None:
    """Of two answers of candidates one has changed since the second judge saw it; of m's no answer is left."""
    (tmp_path / "run.json").write_text(json.dumps({"identity": {"system": "x", "judges": ["ernie"]}}))
    answers = [("a", "old"), ("b", "new")]
    lines = [line(id, "ff", answer=text, fused_query="q", judge="ernie") for id, text in answers]
    write_lines(tmp_path / "per_item.jsonl", *lines)
    old = answer_digest("q", "old")
    verdicts = [line(id, "fn", answer_digest=old, judge="lexical") for id in "ab"]
    write_lines(tmp_path / "judgments" / "lexical.jsonl", *verdicts)
    write_lines(tmp_path / "judgments" / "m.jsonl", line("c", "fn", judge="m"))
    ernie, m, models = summarise_run(tmp_path).judge_pairs
    assert (models.judge, models.other) == ("m", "ernie")
    assert (ernie.pairs, len(ernie.scores)) == ({("full", "full"): 1, ("full", "none"): 1}, 1)
    assert ernie.scores.tolist() == [100.0]
    assert agreement_sentence(pooled_agreements([m])[0]) == "lexical and m have no judged nugget in common"
    assert agreement_sentence(pooled_agreements([ernie])[0]) == (  # scores of one answer do not correlate
        "lexical agrees with ernie on 50.0 % of 2 nuggets in 1 answer (Cohen's kappa 0.000, quadratic 0.000)"
    )


@pytest.mark.parametrize("nugget", [{"id": "N1", "weight": 1, "coverage": "Full"}, {"id": "N1"}, "N1", None])
def test_malformed_verdict_is_reported_with_line(run_of_two_judges: Path, nugget: object) -> None:
    with (run_of_two_judges / "judgments" / "lexical.jsonl").open("a") as file:
        nuggets = True if nugget is None else [nugget]
        file.write(json.dumps({"id": "a", "judge": "lexical", "nuggets": nuggets}) + "\n")
    with pytest.raises(InputError, match=r"lexical\.jsonl:7: field 'nuggets': has to be a list of"):
        summarise_run(run_of_two_judges)


# Columns, and the health of tools


TABLES = st.dictionaries(st.text(max_size=3), st.floats(0, 100), max_size=20)


@given(TABLES, TABLES)
def test_pairs_of_scores_agree_with_dicts(a: dict[str, float], b: dict[str, float]) -> None:
    own, other = (
        JudgeScores(
            "j", np.array([hash(id) for id in of], np.int64), np.array([*of.values()]), scorer.summarise([])
        )
        for of in (a, b)
    )
    both = [id for id in a if id in b]
    here, there = own.paired(other)
    assert (here.tolist(), there.tolist()) == ([a[id] for id in both], [b[id] for id in both])


def searched(id: str, use: ToolUse, **fields: Any) -> dict[str, Any]:
    trace = Trace((), "answer", "tag", 3, False, use)
    outcome = Outcome(Instance(id, "q*", "q"), 0, (), (), "q", trace)
    return {**outcome_line("orig", outcome), **fields}


def visits(n: int, *reasons: tuple[str, str], searches: int = 0) -> ToolUse:
    return ToolUse(
        {"search": searches, "visit": n},
        tuple(ToolFailure("visit", host, reason) for host, reason in reasons),
    )


def health(*lines: dict[str, Any]) -> ToolHealth:
    found = ToolHealth()
    for one in lines:
        if isinstance(tools := one["search"]["tools"], dict):
            found.add(tools)
    return found


def test_tool_shares_are_over_all_lines() -> None:
    found = health(
        searched("1", visits(4, ("a.org", "http 404"), searches=2)),
        searched("2", visits(4, ("a.org", "http 404"), ("b.org", "timeout"))),
    )
    assert (found.share("search"), found.share("visit")) == (1.0, 1 - 3 / 8)
    assert found.failed == {("visit", "a.org", "http 404"): 2, ("visit", "b.org", "timeout"): 1}
    assert found.lines() == ["visits worked: 62 % (http 404 at a.org 2, timeout at b.org 1)"]
    (text,) = health(searched("1", visits(10_000, ("a.org", "dns")))).lines()
    assert text.startswith("visits worked: 99 %")


def failing(searches: int, failed: int = 0, empty: int = 0, visits: int = 0, lost: int = 0) -> ToolUse:
    failures = [ToolFailure("search", "s.org", "http 400")] * failed + [
        ToolFailure("visit", "a.org", "captcha")
    ] * lost
    return ToolUse({"search": searches, "visit": visits}, tuple(failures), empty=empty)


@pytest.mark.parametrize(
    ("use", "notices"),
    [
        (failing(20, failed=18, visits=10, lost=9), []),  # a tenth worked
        (failing(0), []),
        (failing(5, failed=5), ["None of 5 searches found anything (http 400 at s.org 5)"]),
        (
            failing(20, failed=9, empty=10),
            ["Only 1 of 20 searches found anything (http 400 at s.org 9, no results 10)"],
        ),
        (failing(3, visits=4, lost=4), ["None of 4 visits worked (captcha at a.org 4)"]),
        (
            failing(2, empty=2, visits=1, lost=1),
            [
                "None of 2 searches found anything (no results 2)",
                "None of 1 visits worked (captcha at a.org 1)",
            ],
        ),
    ],
)
def test_tools_that_hardly_worked_are_named_above_the_scores(
    tmp_path: Path, use: ToolUse, notices: list[str]
) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"identity": {"system": "orig"}, "n_expected": 1}))
    write_lines(tmp_path / "results.jsonl", searched("1", use))
    summary = summarise_run(tmp_path)
    expected = [f"{notice}: these scores do not measure the queries" for notice in notices]
    assert write_summary(summary).get("notices", []) == expected
    out = io.StringIO()
    print_results(Console(file=out, width=200), [summary])
    lines = out.getvalue().splitlines()
    above = lines[: next(n for n, line in enumerate(lines) if "restore_score_100" in line)]
    assert [line for line in above if line] == [f"orig: {notice}." for notice in expected]


def test_malformed_tools_of_a_line_count_nothing() -> None:
    failed = {"tool": "visit", "host": "a.org", "reason": "timeout"}
    malformed: list[Any] = [{"failed": 3, "visits": "2"}, {"failed": [{**failed, "n": "x"}, 3]}]
    found = health(*({"id": "1", "search": {"tools": tools}} for tools in malformed))
    assert (found.failed, found.share("visit"), found.lines()) == ({}, None, [])
    assert found.as_json()["visits"] == {"asked": 0, "failed": 0, "worked": None}


def test_hosts_and_reasons_are_bounded_text(tmp_path: Path) -> None:
    """Neither rich markup nor an escape sequence in them reaches the terminal."""
    hostile = ToolFailure("visit", "[red]evil\x1b[2J.org", "a\x07b\n" + "c" * 200)
    (tmp_path / "run.json").write_text(json.dumps({"identity": {"system": "orig"}, "n_expected": 2}))
    rows = [
        searched("1", visits(8)),
        searched("1", ToolUse({"search": 1, "visit": 8}, (hostile,))),
        searched("2", visits(0)),
    ]
    write_lines(tmp_path / "results.jsonl", *rows)
    summary = summarise_run(tmp_path)
    written = write_summary(summary)["tool_health"]
    assert written["visits"] == {"asked": 8, "failed": 1, "worked": 0.875}
    assert written["searches"] == {"asked": 1, "failed": 0, "worked": 1.0}
    assert (len(written["failures"]), written["other_failures"]) == (1, 0)
    out = io.StringIO()
    print_results(Console(file=out, width=80), [summary])
    shown = next(row for row in out.getvalue().splitlines() if "visits worked" in row)
    assert shown.startswith("orig: visits worked: 87 % (a?b ccc")
    assert "at [red]evil?[2J.org 1)" in shown
    assert "\x1b" not in shown


def test_journal_of_several_systems_is_read_once_and_named_in_errors(tmp_path: Path) -> None:
    for name, calls in (("a", 2), ("b", 3)):
        directory = tmp_path / name
        directory.mkdir()
        identity = {"system": name, "candidates": "x.jsonl"}
        (directory / "run.json").write_text(json.dumps({"identity": identity, "journal": "../steps.jsonl"}))
        steps = [{"instance": f"{name}/{n}", "model": "m", "usage": {"input": 1}} for n in range(calls)]
        with (tmp_path / "steps.jsonl").open("a") as file:
            file.writelines(json.dumps(step) + "\n" for step in steps)
    found = summarise_runs([tmp_path / name for name in ("a", "b", "nowhere")])
    assert [(one.label, one.spent.calls) for one in found] == [("a", 2), ("b", 3)]
    write_lines(tmp_path / "steps.jsonl", {"instance": "a/0", "model": 3})
    with pytest.raises(InputError, match=rf"^{tmp_path}/steps\.jsonl: a step's model"):
        summarise_run(tmp_path / "a")

"""A comparison in a few sentences."""

from __future__ import annotations

from pathlib import Path

from made_runs import Row, made_run

from cts_async.report.comparison import compare_runs
from cts_async.report.comparison_tables import headline


def told(folder: Path, **letters: str) -> list[str]:
    """Systems (`gpt_k1` is gpt-k1) with a letter for each instance: full, partial, none, x for a failure."""
    for label, word in letters.items():
        rows = [
            Row(f"q{i:02}", error="search") if letter == "x" else Row(f"q{i:02}", labels={"ernie": letter})
            for i, letter in enumerate(word)
        ]
        made_run(folder, label=label.replace("_", "-"), rows=rows, embedded=label.startswith("local"))
    return list(headline(compare_runs([str(folder)])))


def test_the_best_system_what_differs_and_what_failed(tmp_path: Path) -> None:
    """Twelve times 0 against 100: of 4,096 choices of signs two are as extreme, p = 0.0005, of three tests."""
    assert told(tmp_path, orig="n" * 12, gpt_k1="f" * 12, kimi_k1="p" + "n" * 10 + "x") == [
        "The best by judge ernie is gpt-k1 with a mean of 100.00 over the 11 instances that all systems "
        "have, +100.00 [+100.00, +100.00] over orig "
        "(too short an interval: n = 12).",
        "Better than orig at p ≤ .05 after Holm's correction of 3 tests: 1 of 2; worse: 0.",
        "1 of 36 instances failed: they have no score, and are in no mean.",
    ]


def test_a_worse_system_is_worse_and_gold_is_no_rival(tmp_path: Path) -> None:
    said = told(tmp_path, orig="f" * 12, gold="f" * 12, gpt_k1="n" * 12)
    assert said == [
        "By judge ernie gpt-k1 has a mean of 0.00, -100.00 [-100.00, -100.00] over orig "
        "(too short an interval: n = 12).",
        "Better than orig at p ≤ .05 after Holm's correction of 3 tests: 0 of 1; worse: 1.",
    ]


def test_systems_with_the_same_mean_are_all_the_best(tmp_path: Path) -> None:
    said = told(tmp_path, orig="n" * 12, gpt_k1="f" * 12, kimi_k1="f" * 12, qwen_k1="p" * 12)
    assert said[0] == "The best by judge ernie are gpt-k1, kimi-k1, each with a mean of 100.00."


def test_a_smoke_test_comes_to_nothing(tmp_path: Path) -> None:
    assert told(tmp_path, orig="n", local_k1="f") == []

"""Results in columns, and the health of tools."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from cts_async.protocol.results import outcome_line, unmarked
from cts_async.records import Instance, Outcome, ToolFailure, ToolUse, Trace
from cts_async.report.result_columns import ResultColumns, Scores, ToolHealth, tool_health_of
from cts_async.report.results import print_results
from cts_async.report.summary import summarise_run, write_summary

TABLES = st.dictionaries(st.text(max_size=3), st.floats(0, 100), max_size=20)


def test_scores_are_paired_in_order_of_the_first() -> None:
    first, second = Scores.of({"c": 1.0, "a": 2.0, "b": 3.0}), Scores.of({"a": 20.0, "c": 10.0, "d": 40.0})
    here, there = first.paired(second)
    assert (here.tolist(), there.tolist()) == ([1.0, 2.0], [10.0, 20.0])


def test_empty_scores_have_no_pairs() -> None:
    nothing, some = Scores.of({}), Scores.of({"a": 1.0})
    assert [len(column) for column in (*nothing.paired(some), *some.paired(nothing))] == [0, 0, 0, 0]
    assert (len(nothing), list(nothing.numbers()), nothing.get("a")) == (0, [], None)


@given(TABLES, TABLES)
def test_scores_agree_with_dicts(a: dict[str, float], b: dict[str, float]) -> None:
    scores = Scores.of(a)
    assert len(scores) == len(a)
    assert [scores.get(id) for id in (*a, *b)] == [a.get(id) for id in (*a, *b)]
    assert list(scores.numbers()) == sorted(a.values())
    both = [id for id in a if id in b]
    here, there = scores.paired(Scores.of(b))
    assert (here.tolist(), there.tolist()) == ([a[id] for id in both], [b[id] for id in both])


def line(id: str, use: ToolUse, **fields: Any) -> dict[str, Any]:
    trace = Trace((), "answer", "tag", 3, False, use)
    outcome = Outcome(Instance(id, "q*", "q"), 0, (), (), "q", trace, ())
    return {**outcome_line("orig", outcome), **fields}


def visits(n: int, *reasons: tuple[str, str], searches: int = 0) -> ToolUse:
    return ToolUse(searches, n, tuple(ToolFailure("visit", host, reason) for host, reason in reasons))


def health(*lines: dict[str, Any]) -> ToolHealth:
    return ToolHealth.total(found for one in lines if (found := tool_health_of(one)))


def test_tool_health_counts_requests_and_failures() -> None:
    use = ToolUse(
        5, 3, (*[ToolFailure("visit", "a.org", "timeout")] * 2, ToolFailure("search", "web", "http 503")), 1
    )
    assert line("1", use)["search"]["tools"] == {
        "searches": 5,
        "visits": 3,
        "failed": [
            {"tool": "visit", "host": "a.org", "reason": "timeout", "n": 2},
            {"tool": "search", "host": "web", "reason": "http 503", "n": 1},
        ],
        "lexical": 1,
    }


def test_tool_health_lists_bounded_causes_and_counts_all() -> None:
    use = visits(30, *[(f"h{i}.org", "x" * 500) for i in range(30)])
    failed = line("1", use)["search"]["tools"]["failed"]
    assert len(failed) == 21
    assert failed[-1] == {"tool": "visit", "host": "", "reason": "other", "n": 10}
    assert sum(cause["n"] for cause in failed) == 30
    assert max(len(cause["reason"]) for cause in failed) == 60


def test_tool_shares_are_over_all_lines() -> None:
    found = health(
        line("1", visits(4, ("a.org", "http 404"), searches=2)),
        line("2", visits(4, ("a.org", "http 404"), ("b.org", "timeout"))),
    )
    assert (found.share("search"), found.share("visit")) == (1.0, 1 - 3 / 8)
    assert found.failed == {("visit", "a.org", "http 404"): 2, ("visit", "b.org", "timeout"): 1}
    assert found.lines() == ["visits worked: 62 % (http 404 at a.org 2, timeout at b.org 1)"]


def test_malformed_tools_of_a_line_count_nothing() -> None:
    failed = {"tool": "visit", "host": "a.org", "reason": "timeout"}
    told: list[Any] = [[1], {"tools": {"failed": 3}}, {"tools": {"failed": [{**failed, "n": "x"}, 3]}}]
    assert health(*({"id": "1", "search": search} for search in told)).failed == {}


def test_no_requests_have_no_share_and_no_line() -> None:
    found = health({"id": "1"}, {"id": "2", "search": {"tools": 3}}, {"id": "3", "error": {}})
    assert found == ToolHealth({"search": 0, "visit": 0})
    assert found.share("visit") is None
    assert found.lines() == []
    assert found.as_json()["visits"] == {"asked": 0, "failed": 0, "worked": None}


@pytest.mark.parametrize(
    "search", [4, "text", {"tools": 4}, {"tools": {"failed": 4}}, {"tools": {"failed": [4, {"n": "x"}]}}]
)
def test_arbitrary_tools_never_raise(search: Any) -> None:
    found = health({"id": "q1", "search": search}, line("q2", visits(2, ("a.example", "timeout"))))
    assert (found.asked["visit"], found.failed.total()) == (2, 1)


def test_failing_tool_is_never_shown_as_100_percent() -> None:
    (said,) = health(line("1", visits(10_000, ("a.org", "dns")))).lines()
    assert said.startswith("visits worked: 99 %")


def test_hosts_and_reasons_are_bounded_text(tmp_path: Path) -> None:
    """Neither rich markup nor an escape sequence in them reaches the terminal."""
    hostile = ToolFailure("visit", "[red]evil\x1b[2J.org", "a\x07b\n" + "c" * 200)
    (tmp_path / "run.json").write_bytes(orjson.dumps({"identity": {"system": "orig"}, "n_expected": 2}))
    rows = [line("1", visits(8)), line("1", ToolUse(1, 8, (hostile,))), line("2", visits(0))]
    (tmp_path / "results.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    summary = summarise_run(tmp_path)
    told = write_summary(summary)["tool_health"]
    assert told["visits"] == {"asked": 8, "failed": 1, "worked": 0.875}
    assert told["searches"] == {"asked": 1, "failed": 0, "worked": 1.0}
    assert (len(told["failures"]), told["other_failures"]) == (1, 0)
    out = io.StringIO()
    print_results(Console(file=out, width=80), [summary])
    shown = next(row for row in out.getvalue().splitlines() if "visits worked" in row)
    assert shown.startswith("orig: visits worked: 88 % (a?b ccc")
    assert "at [red]evil?[2J.org 1)" in shown
    assert "\x1b" not in shown


def test_superseded_line_does_not_count_in_tool_health(tmp_path: Path) -> None:
    lines = [line("q1", visits(4, ("a.org", "dns"))), line("q2", visits(1)), line("q1", visits(2))]
    results = tmp_path / "results.jsonl"
    results.write_text("".join(json.dumps(one) + "\n" for one in lines))
    assert ResultColumns(results, unmarked).tools == ToolHealth({"search": 0, "visit": 3})

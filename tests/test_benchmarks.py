"""The benchmarks' own arithmetic, by hand: a wrong ruler measures nothing."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.__main__ import BY_NAME, QUICK
from benchmarks.agent_switches import COLUMNS, Searches, searches_of, unused_switches
from benchmarks.cluster_crash import most_at_once, paid_again
from benchmarks.faults import too_early
from benchmarks.shared import endpoint
from benchmarks.shared.big_run import fused, score_of, write_big_run
from benchmarks.shared.fakes import Seen
from benchmarks.shared.judging import judge_world
from benchmarks.shared.memory import Peak
from benchmarks.shared.process import ChildFailed, Spent, marginal_us, spent_by
from benchmarks.shared.result import Result, Row, Table
from benchmarks.shared_limit import fullest, wait_s
from cts_async.datasets import open_dataset, read_gold
from cts_async.engine.journal import read_records
from cts_async.engine.journal_index import scan_journal
from cts_async.llm.coverage import CoverageList
from cts_async.runs.finished import read_run


def cpu(seconds: float) -> Spent:
    return Spent(seconds, 0.0, "")


def test_marginal_cost_is_the_difference_of_two_sizes() -> None:
    """Medians 5.0 s for 2,000 and 1.0 s for 1,000: 4 s for 1,000 more, 4,000 us each."""
    large, small = [cpu(5.0), cpu(4.0), cpu(90.0)], [cpu(1.0), cpu(0.5), cpu(70.0)]
    assert marginal_us(large, 2000, small, 1000) == pytest.approx(4000.0)


def test_process_is_charged_its_cpu_time(tmp_path: Path) -> None:
    burn = (
        "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass\ntime.sleep(0.2)"
    )
    spent = spent_by([sys.executable, "-S", "-c", f"{burn}\nprint('done')"], cwd=tmp_path)
    assert spent.printed == "done\n"
    assert spent.cpu_s >= 0.2
    assert spent.wall_s >= 0.4
    with pytest.raises(ChildFailed, match=r"exited with 1.*no such luck"):
        spent_by([sys.executable, "-c", "raise SystemExit('no such luck')"], cwd=tmp_path)


def test_memory_is_that_of_a_process_and_its_children() -> None:
    """Each holds 60 MB beside its interpreter; when they have gone the peak stays."""
    # One write for text and line break: both processes share the pipe.
    hold = r"import os, sys; held = b'x' * 60_000_000; os.write(1, b'held\n'); sys.stdin.read()"
    parent = f"import subprocess, sys; subprocess.Popen([sys.executable, '-S', '-c', {hold!r}]); {hold}"
    peak = Peak()
    command = [sys.executable, "-S", "-c", parent]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["held\n"] * 2
        peak.look(process.pid)
        process.communicate()
    peak.look(process.pid)
    assert 115 < peak.mb < 200


@pytest.mark.parametrize(
    ("row", "held"),
    [
        (Row("a", 1.5, "<=", 1.5), True),
        (Row("a", 1.6, "<=", 1.5), False),
        (Row("a", 19.9, ">=", 20.0), False),
        (Row("a", 0, "=", 0), True),
        (Row("a", 1.0), None),
    ],
)
def test_row_compares_value_and_goal(row: Row, held: bool | None) -> None:
    assert row.held is held


def test_table_marks_missed_goals_and_skipped_benchmarks() -> None:
    result = Result("speed", [Row("ratio", 1.62, "<=", 1.5, 2), Row("calls", 30_000)], ["a remark"])
    assert result.text().splitlines() == [
        "speed",
        "  ratio          1.62  MISSED: goal <= 1.5",
        "  calls        30,000",
        "  a remark",
    ]
    assert result.json()["rows"][0]["held"] is False
    assert Result("speed", skipped="needs nginx").text() == "speed\n  skipped: needs nginx"


@pytest.mark.parametrize("name", [*QUICK, *BY_NAME])
def test_every_benchmark_has_an_entry_point_and_a_docstring(name: str) -> None:
    module = __import__(f"benchmarks.{name}", fromlist=["bench"])
    assert callable(module.bench)
    assert module.__doc__


def test_request_before_its_retry_time_is_counted() -> None:
    """Refused at 1.0 until 2.0: 1.5 is early, 2.1 is not, and another body may come at any time."""
    seen = [Seen("x", "judge", 1.0, "429", 2.0), Seen("y", "judge", 1.1), Seen("x", "judge", 1.5)]
    assert too_early(seen) == 1
    assert too_early([*seen[:2], Seen("x", "judge", 2.1)]) == 0


def test_endpoint_judges_all_nuggets(tmp_path: Path) -> None:
    world = judge_world(tmp_path)
    reply = json.loads(endpoint.judge_reply())
    text = reply["choices"][0]["message"]["content"]
    gold = read_gold(tmp_path / "gold.jsonl")
    candidate = json.loads(world.candidates(3).read_text().splitlines()[2])
    nuggets = gold.lookup(candidate["id"], candidate["fused_query"])
    assert nuggets is not None
    verdicts = CoverageList(tuple(nugget.id for nugget in nuggets)).parse(text)
    assert [id for id, _ in verdicts] == list(endpoint.NUGGET_IDS)
    chars = sum(len(nugget.text) for nugget in nuggets) + len(candidate["fused_query"] + candidate["answer"])
    assert 1700 < chars < 2300


def test_big_run_can_be_read_by_all_readers(tmp_path: Path) -> None:
    """40 instances of 10 steps, one of which has 4 + 2 * 3 + 2 instead; number 26 has all labels "none"."""
    big = write_big_run(tmp_path, 40, long_turns=3)
    directory = big.runs / big.name
    scan = scan_journal(directory / "steps.jsonl")
    assert (scan.records, scan.damaged_lines) == (39 * 10 + 12, [])
    assert big.steps == len(scan.index) == scan.records
    run = read_run(directory)
    assert run.n_expected == 40
    assert [score_of(i) for i in (0, 26)] == [100.0, 0.0]
    dataset = open_dataset(f"sample:{tmp_path / 'world'}", None, {})
    assert [instance.intent for instance in dataset.instances()] == [fused(i) for i in range(40)]
    mine = [r for r in read_records(directory / "steps.jsonl") if r["instance"] == big.long_id]
    assert sum(len(json.dumps(record)) for record in mine) == pytest.approx(3 * 250_000, rel=0.03)


def test_lateness_of_repeated_answers_is_the_time_to_the_next_kill() -> None:
    """An answer takes 0.4 s; what was refused or is asked once does not count."""
    seen = [
        Seen("a", "judge", 10.0),
        Seen("a", "judge", 20.0),
        Seen("b", "judge", 10.0),
        Seen("b", "judge", 30.0),
    ]
    refused = [Seen("c", "judge", 1.0, "429"), Seen("c", "judge", 2.0)]
    assert paid_again([*seen[:2], *refused], [10.3]) == [pytest.approx(-0.1)]
    assert paid_again(seen, [9.0, 11.5, 12.0]) == [pytest.approx(1.1)] * 2
    assert paid_again(seen, []) == [math.inf] * 2
    assert paid_again(seen, [9.999, 11.5]) == [pytest.approx(-0.401)] * 2  # on their way at the first kill


def test_requests_in_flight_are_counted() -> None:
    """At 0.3 three are under way; at 0.4 the first has its answer as the fourth comes."""
    at = [0.0, 0.1, 0.3, 0.4]
    assert most_at_once([Seen(str(n), "judge", time) for n, time in enumerate(at)]) == 3


def test_fullest_window_and_wait_are_read_from_arrivals() -> None:
    """Of 2 in 60 s: the third comes 60 s after the first, the fourth 63 s after the second."""
    assert fullest([0.0, 0.5, 0.9, 1.0, 1.4, 1.45], 1.0) == 5
    assert fullest([0.0, 2.0], 1.0) == 1
    assert wait_s([0.0, 1.0, 60.0, 64.0], 2) == pytest.approx(61.5)


def test_table_is_markdown_and_a_short_row_is_filled_up() -> None:
    result = Result("t", table=Table(("a", "b", "c"), [["1", "2", "3"], ["x", "why"]]))
    assert result.text().splitlines()[1:] == [
        "| a | b | c |",
        "| --- | --- | --- |",
        "| 1 | 2 | 3 |",
        "| x | why |  |",
    ]
    assert result.json()["table"] == [{"a": "1", "b": "2", "c": "3"}, {"a": "x", "b": "why"}]


def write_searches(run: Path, turns: dict[str, list[str]], **search: object) -> Path:
    """A finished run: each turn took 100 tokens and gave 10, and its second attempt was taken."""
    run.mkdir()
    records: list[dict[str, object]] = []
    for instance, texts in turns.items():
        for number, text in enumerate(texts, 1):
            usage = {"input": 100, "output": 10}
            record = {"key": f"{instance}{number}", "ok": True, "instance": instance}
            record |= {"step": f"search/turn/{number}", "response": {"text": text}}
            records.append(record | {"usage": usage, "attempts": 2})
        query = {"key": f"{instance}q", "ok": True, "instance": instance, "step": "search/tool/1.1/query/1"}
        records.append(query | {"response": {"hits": []}})
    (run / "steps.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    result = {"search": {"tools": {"searches": 3, "visits": 1}} | search}
    (run / "results.jsonl").write_text("".join(json.dumps(result) + "\n" for _ in turns))
    (run / "summary.json").write_text('{"mean": 12.34}')
    return run


def test_searches_of_a_mode_are_counted_and_compared_turn_by_turn(tmp_path: Path) -> None:
    turns = {"a": ["t1", "t2"], "b": ["t1"]}
    strict = searches_of("strict", write_searches(tmp_path / "strict", turns, forced=True))
    free = searches_of("free_end", write_searches(tmp_path / "free", turns | {"a": ["t1"]}, unanswered=True))
    # Three turns of two attempts each; of three searches and a visit for each of two instances eight calls.
    assert strict.row(strict) == ["strict", "-", "6", "8", "300", "30", "2", "0", "12.3"]
    assert free.row(strict) == ["`free_end`", "1 of 2", "4", "8", "200", "20", "0", "2", "12.3"]
    assert len(COLUMNS) == len(free.row(strict))


def test_switches_without_effect_on_the_sample_world_are_told_with_the_reason() -> None:
    def unused(turn: str) -> dict[str, str]:
        return unused_switches(Searches("strict", {"a": [turn]}, 1, 0, 0, 0, 0, 0, 0.0))

    call = '<tool_call>{"name": "search", "arguments": {"query": ["ferry"]}}</tool_call>'
    idle = unused(f"I search.</think>{call}")
    assert sorted(idle) == [
        *("bare_queries", "calls_after_thoughts", "plain_pages", "raw_addresses"),
        *("whole_pages", "whole_snippets"),
    ]
    assert "411 characters" in idle["whole_pages"]
    # After an invented response the demo reads on, and makes the later call.
    assert "calls_after_thoughts" not in unused(
        f"{call}<tool_response>made up</tool_response><think>Next.</think>{call.replace('ferry', 'tram')}"
    )

"""Candidate answers come from a release's files or our own results; a failure is never an answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cts_async.datasets.candidates import (
    CandidateLine,
    FailedLine,
    candidate_files,
    read_candidates,
)
from cts_async.errors import InputError
from cts_async.records import Candidate, Failure
from cts_async.tagged_text import find_answer

Write = Callable[..., Path]


def refusal(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        list(read_candidates(path))
    assert str(caught.value).startswith(str(path))
    return caught.value


def test_an_id_or_a_query_is_enough(write: Write) -> None:
    rows = [
        {"id": 1, "fused_query": "f", "answer": "x"},
        {"query": "f", "prediction": "y"},
        {"qid": "a", "output": ""},
    ]
    path = write("c.jsonl", rows)
    assert list(read_candidates(path)) == [
        CandidateLine(path, 1, Candidate("1", "f", "x")),
        CandidateLine(path, 2, Candidate("", "f", "y")),
        CandidateLine(path, 3, Candidate("a", "", "")),
    ]


def test_our_own_results_are_candidates_and_their_failures_stay_failures(write: Write) -> None:
    done = {
        "id": "s1",
        "fused_query": "f",
        "blurred_query": "b",
        "k": 1,
        "answers": ["in May"],
        "answer": "x",
    }
    failed = {
        "id": "s2",
        "fused_query": "g",
        "error": {"step": "rewrite", "kind": "rejected", "message": "no"},
    }
    path = write("results.jsonl", [done, failed])
    assert list(read_candidates(path)) == [
        CandidateLine(path, 1, Candidate("s1", "f", "x")),
        FailedLine(path, 2, "s2", "g", Failure("rewrite", "rejected", "no")),
    ]


@pytest.mark.parametrize(
    ("row", "failure"),
    [
        ({"answer": None}, Failure("candidate", "no_answer", "the answer is null")),
        ({"answer": "x", "error": "timed out"}, Failure("candidate", "failed", "timed out")),
        ({"error": {}, "answer": None}, Failure("candidate", "no_answer", "the answer is null")),
    ],
)
def test_other_ways_to_fail_are_understood(write: Write, row: dict[str, object], failure: Failure) -> None:
    path = write("c.jsonl", [{"id": "a"} | row])
    assert list(read_candidates(path)) == [FailedLine(path, 1, "a", "", failure)]


def test_a_table_that_says_there_was_no_error_has_an_answer(write: Write) -> None:
    read = list(read_candidates(write("c.csv", "id,answer,error\na,x,nan\nb,y,timed out\n")))
    assert [type(line) for line in read] == [CandidateLine, FailedLine]


def test_an_error_that_is_null_is_none(write: Write) -> None:
    path = write("c.jsonl", [{"id": "a", "answer": "x", "error": None}])
    assert list(read_candidates(path)) == [CandidateLine(path, 1, Candidate("a", "", "x"))]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("plain ", "plain"),
        ("<think>hm</think>\n<answer>\n42\n</answer>", "42"),
        ("<answer>draft</answer> wait <answer>final</answer>", "final"),
        ("I write <answer> and then <answer>42</answer>", "42"),
        ("<Answer>a\nb</ANSWER> bye", "a\nb"),
        ("<answer>cut off", "cut off"),
        ("<answer></answer>", ""),
        ("<answer>a</answer> b</answer> see <answer>", "a"),
        ("İİ a < b <answer>c</answer>", "c"),
        ("no opening</answer>", "no opening"),
        ("<think>perhaps 41</think>\nIt is 42.", "It is 42."),
        ("perhaps <answer>41</answer></think><answer>42</answer>", "42"),
        ("<think>perhaps 41, cut off", ""),
        ("<answer>42 <think>or so?</think></answer>", "42 or so?"),
        (
            "<think>a</think><tool_call>{}</tool_call><tool_response><answer>41</answer></tool_response>"
            "<think>b</think><answer>42</answer>",
            "42",
        ),
    ],
)
def test_an_answer_is_read_as_the_agent_s_is(write: Write, text: str, answer: str) -> None:
    (line,) = read_candidates(write("c.jsonl", [{"id": "a", "answer": text}]))
    assert isinstance(line, CandidateLine)
    assert line.candidate.answer == answer == find_answer(text)[0]


def test_many_open_tags_are_read_in_linear_time() -> None:
    assert find_answer("<answer>" * 50_000 + "x") == ("x", "open_tag")


def test_a_line_without_answer_is_refused_with_the_fields_it_has(write: Write) -> None:
    error = refusal(write("c.jsonl", [{"id": "a", "answer": "x"}, {"id": "b", "text": "y"}]))
    assert (error.line, error.field) == (2, "answer")
    assert "'id', 'text'" in str(error)


def test_a_line_that_nothing_joins_is_refused_with_the_fields_it_has(write: Write) -> None:
    error = refusal(write("c.jsonl", [{"topic": "a", "answer": "x"}]))
    assert (error.line, error.field) == (1, "fused_query")
    assert "'topic', 'answer'" in str(error)


def test_an_answer_must_be_text(write: Write) -> None:
    error = refusal(write("c.jsonl", [{"id": "a", "candidate": {"text": "x"}}]))
    assert (error.line, error.field, error.problem) == (1, "candidate", "must be text, is an object")


def test_a_mapping_reaches_into_the_line(write: Write) -> None:
    path = write("c.jsonl", [{"id": "a", "result": {"text": "x"}}])
    found = list(read_candidates(path, {"answer": "result.text"}))
    assert found == [CandidateLine(path, 1, Candidate("a", "", "x"))]


# -- which files --------------------------------------------------------------------------------------


def test_patterns_and_folders_give_each_file_once_in_order(write: Write, tmp_path: Path) -> None:
    b, a = write("cand/b.jsonl", []), write("cand/a.jsonl", [])
    assert candidate_files(str(tmp_path / "cand" / "*.jsonl")) == (a, b)
    assert candidate_files([b, tmp_path / "cand"]) == (b, a)


def test_a_run_directory_stands_for_its_results(write: Write) -> None:
    results = write("run/results.jsonl", [])
    write("run/steps.jsonl", [])
    assert candidate_files(results.parent) == (results,)


def test_a_file_may_be_called_like_a_pattern(write: Write) -> None:
    path = write("c[1].jsonl", [])
    assert candidate_files(path) == (path,)


def test_pattern_without_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="matches no file"):
        read_candidates(str(tmp_path / "*.jsonl"))
    with pytest.raises(InputError, match="directory without"):
        read_candidates(tmp_path)
    with pytest.raises(InputError, match="no file is named"):
        read_candidates([])

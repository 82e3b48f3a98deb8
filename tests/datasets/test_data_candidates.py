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


def test_id_or_query_is_enough(write: Write) -> None:
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


def test_own_results_are_candidates_or_failures(write: Write) -> None:
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
def test_reported_failures_are_recognised(write: Write, row: dict[str, object], failure: Failure) -> None:
    path = write("c.jsonl", [{"id": "a"} | row])
    assert list(read_candidates(path)) == [FailedLine(path, 1, "a", "", failure)]


def test_error_cell_that_denies_an_error_is_none(write: Write) -> None:
    read = list(read_candidates(write("c.csv", "id,answer,error\na,x,nan\nb,y,timed out\n")))
    assert [type(line) for line in read] == [CandidateLine, FailedLine]


@pytest.mark.parametrize(
    "text", ["plain ", "<think>hm</think>\n<answer>\n42\n</answer>", "<answer>cut off", ""]
)
def test_answer_is_read_like_the_agent_answer(write: Write, text: str) -> None:
    (line,) = read_candidates(write("c.jsonl", [{"id": "a", "answer": text}]))
    assert isinstance(line, CandidateLine)
    assert line.candidate.answer == find_answer(text)[0]


def test_line_without_answer_is_refused_with_its_fields(write: Write) -> None:
    error = refusal(write("c.jsonl", [{"id": "a", "answer": "x"}, {"id": "b", "text": "y"}]))
    assert (error.line, error.field) == (2, "answer")
    assert "'id', 'text'" in str(error)


# -- which files --------------------------------------------------------------------------------------


def test_patterns_and_folders_expand_to_distinct_files(write: Write, tmp_path: Path) -> None:
    b, a = write("cand/b.jsonl", []), write("cand/a.jsonl", [])
    assert candidate_files(str(tmp_path / "cand" / "*.jsonl")) == (a, b)
    assert candidate_files([b, tmp_path / "cand"]) == (b, a)


def test_run_directory_expands_to_its_results(write: Write) -> None:
    results = write("run/results.jsonl", [])
    write("run/steps.jsonl", [])
    assert candidate_files(results.parent) == (results,)


def test_pattern_without_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="matches no file"):
        read_candidates(str(tmp_path / "*.jsonl"))
    with pytest.raises(InputError, match="directory without"):
        read_candidates(tmp_path)
    with pytest.raises(InputError, match="no file is named"):
        read_candidates([])

"""What others made for the instances: candidate answers, questions, labels, TREC's judgements and rankings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cts_async.datasets.candidates import (
    CandidateLine,
    FailedLine,
    QuestionedInstance,
    candidate_files,
    read_candidates,
    read_facet_qrels,
    read_question_file,
    read_ranking,
    read_type_labels,
)
from cts_async.errors import InputError
from cts_async.records import Candidate, Failure
from cts_async.tagged_text import find_answer

# --- Candidate answers come from a release's files or our own results; a failure is never an answer

Write = Callable[..., Path]


def refused_line(path: Path) -> InputError:
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
    error = refused_line(write("c.jsonl", [{"id": "a", "answer": "x"}, {"id": "b", "text": "y"}]))
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


# --- Files of questions with answers, and of question types


def test_list_cells_are_json_or_python_literals(write: Write) -> None:
    text = (
        'id,clarification_questions,ua_answers\na,"[""which year?"",""where?""]","[""2024"",""unknown""]"\n'
    )
    text += "b,\"['who?', 'why?']\",\"['unknown', 'it''s late']\"\n".replace("it''s", "it is")
    assert read_question_file(write("k2.csv", text)) == [
        QuestionedInstance("a", ("which year?", "where?"), ("2024", "unknown")),
        QuestionedInstance("b", ("who?", "why?"), ("unknown", "it is late")),
    ]


@pytest.mark.parametrize("word", ["", "False", "nan", "None"])
def test_questions_with_an_error_cell_that_denies_an_error_is_none(write: Write, word: str) -> None:
    path = write("k1.csv", f"id,question,answer,error\na,when?,now,{word}\nb,when?,now,timeout\n")
    assert read_question_file(path) == [
        QuestionedInstance("a", ("when?",), ("now",)),
        QuestionedInstance("b", (), ()),
    ]


@pytest.mark.parametrize("header", ["question1,question2,answer1,answer2", "Q_1,Q_2,A_1,A_2"])
def test_numbered_columns_are_turns(write: Write, header: str) -> None:
    text = f"id,{header}\na,when?,where?,now,unknown\nb,when?,,now,\n"
    assert read_question_file(write("k2.csv", text)) == [
        QuestionedInstance("a", ("when?", "where?"), ("now", "unknown")),
        QuestionedInstance("b", ("when?",), ("now",)),
    ]


def test_rows_of_one_id_are_turns_in_order(write: Write) -> None:
    text = "id,question,answer\na,when?,now\nb,what?,unknown\na,where?,here\n"
    assert read_question_file(write("long.csv", text)) == [
        QuestionedInstance("a", ("when?", "where?"), ("now", "here")),
        QuestionedInstance("b", ("what?",), ("unknown",)),
    ]


@pytest.mark.parametrize(
    "cells", ['"[]","[]"', "when?,", ',"now"', '"[""when?"",""where?""]","[""now"",""""]"']
)
def test_question_without_answer_is_a_failed_instance(write: Write, cells: str) -> None:
    assert read_question_file(write("k.csv", f"id,questions,answers\na,{cells}\n")) == [
        QuestionedInstance("a", (), ())
    ]


def test_missing_columns_are_reported_with_existing_ones(write: Write) -> None:
    with pytest.raises(
        InputError, match=r"k1.csv:2: field 'answers': is missing; .* 'id', 'question', 'ergebnis'"
    ):
        read_question_file(write("k1.csv", "id,question,ergebnis\na,when?,now\n"))
    fields = {"answers": "ergebnis"}
    assert read_question_file(write("k1.csv", "id,question,ergebnis\na,when?,now\n"), fields)[0].answers == (
        "now",
    )


@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        ('"[""when?"",""where?""]",now', "'answers': the numbers of answers .1. and questions .2. differ"),
        ("[when?,now", "'questions': begins like a list, but is not one"),
        ("[__import__('os')],now", "begins like a list, but is not one"),
        ("[1],now", "must be text, is a number"),
    ],
)
def test_invalid_question_file_is_located(write: Write, cells: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as refused:
        read_question_file(write("k.csv", f"id,questions,answers\na,{cells}\n"))
    assert refused.value.line == 2
    with pytest.raises(InputError, match="contains no questions"):
        read_question_file(write("k.csv", "id,question,answer\n"))


TYPES = ("time", "region", "other")


def test_types_are_split_at_usual_separators(write: Write) -> None:
    text = "question,type\nwhen?,Time\nwhere and when?,region+time\nso?,other\nx,time; region\n"
    assert read_type_labels(write("types.csv", text), TYPES) == {
        "when?": ("time",),
        "where and when?": ("region", "time"),
        "so?": ("other",),
        "x": ("time", "region"),
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"question,type\nwhen?,{'z' * 99}\n", f"'{'z' * 59}…' is not a type"),
        (
            "question,type\nwhen?,zeit\n",
            r":2: field 'type': 'zeit' is not a type; the types are time, region, other",
        ),
        ("question,type\nwhen?,\n", r":2: field 'type': is empty"),
        (
            "question,kind\nwhen?,time\n",
            r":2: field 'type': is missing; the fields here are 'question', 'kind'",
        ),
        ("question,type\nx,time\nx,region\n", r":3: field 'question': this question has another type"),
        ("question,type\n", "contains no labels"),
    ],
)
def test_invalid_labels_are_located(write: Write, text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        read_type_labels(write("types.csv", text), TYPES)


# --- Judgements and rankings in TREC's formats: what is read and what is refused

Read = Callable[..., Any]

QREL, RUN = "1 0 d1 2\n", "1 Q0 d1 1 2.5 tag\n"
READERS = [(read_facet_qrels, QREL), (read_ranking, RUN)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file.txt"


def refused_file(read: Read, path: Path, content: bytes | str) -> str:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError) as caught:
        read(path)
    return str(caught.value).removeprefix(str(path))


def test_qrels_are_read_by_topic_and_facet(file: Path) -> None:
    file.write_text("1 0 d1 2\n\n1\t0\td2   -2\r\n20 0 d1 +1")
    assert read_facet_qrels(file) == {"1": {"d1": 2, "d2": -2}, "20": {"d1": 1}}
    file.write_text("1 2 d1 1\n1 3 d1 0\n12-3 0 d1 4\n")
    assert read_facet_qrels(file) == {"1-2": {"d1": 1}, "1-3": {"d1": 0}, "12-3": {"d1": 4}}


def test_run_is_sorted_by_score(file: Path) -> None:
    file.write_text("1 Q0 d1 0 -3e-1 t\n1 Q0 d2 7 2 t\n2 Q0 d1 1 .5 t\n1 Q0 d3 x 2.0 t\n")
    assert read_ranking(file) == {"1": [("d2", 2.0), ("d3", 2.0), ("d1", -0.3)], "2": [("d1", 0.5)]}


@pytest.mark.parametrize(
    ("read", "content", "problem"),
    [
        (read_facet_qrels, QREL + "1 0 d2\n", ":2: has 3 fields instead of 4: topic 0 document grade"),
        (read_facet_qrels, QREL + "1 0 d2 x\n", ":2: field 'grade': must be an integer, is 'x'"),
        (read_facet_qrels, QREL + "1 0 d2 1.0\n", ":2: field 'grade': must be an integer, is '1.0'"),
        (read_facet_qrels, QREL + "1 0 d2 5\n", ":2: field 'grade': must be from -2 to 4, is 5"),
        (read_facet_qrels, QREL + QREL, ":2: field 'document': 'd1' is repeated in topic '1'"),
        (read_facet_qrels, "1 1 d 1\n1 1 d 0\n", ":2: field 'document': 'd' is repeated in topic '1-1'"),
        (read_ranking, RUN + QREL, ":2: has 4 fields instead of 6: topic Q0 document rank score tag"),
        (read_ranking, RUN + "1 Q0 d2 1 high t\n", ":2: field 'score': must be a finite number, is 'high'"),
        (read_ranking, RUN + "1 Q0 d2 1 nan t\n", ":2: field 'score': must be a finite number, is 'nan'"),
        (read_ranking, RUN + "1 Q0 d2 1 1_0 t\n", ":2: field 'score': must be a finite number, is '1_0'"),
        (read_ranking, RUN + RUN, ":2: field 'document': 'd1' is repeated in topic '1'"),
        (read_facet_qrels, "\n", ": contains no judgements; lines must be: topic 0 document grade"),
        (read_ranking, "", ": contains no ranking; lines must be: topic Q0 document rank score tag"),
    ],
)
def test_invalid_line_is_located(file: Path, read: Read, content: str, problem: str) -> None:
    assert refused_file(read, file, content) == problem


@pytest.mark.parametrize(("read", "good"), READERS)
def test_other_encoding_is_reported_with_its_line(file: Path, read: Read, good: str) -> None:
    assert ":2: is not UTF-8: byte 0xe9" in refused_file(read, file, good.encode() + "é".encode("latin-1"))
    assert ":1: is UTF-16" in refused_file(read, file, good.encode("utf-16"))


@pytest.mark.parametrize(("read", "good"), READERS)
def test_endless_line_is_not_held_in_memory(file: Path, read: Read, good: str) -> None:
    assert refused_file(read, file, good + "x" * 70_000) == ":2: is longer than 65536 bytes"
    with file.open("wb") as sparse:
        sparse.truncate(1 << 30)
    with pytest.raises(InputError, match=":1: is longer than 65536 bytes"):
        read(file)

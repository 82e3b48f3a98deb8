"""ClariQ's rows become topics, facets and instances; rows here are made by hand in its format."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from made_clariq import BANK, REWORDED, ROWS, clariq_file
from written_files import refused

from cts_async.datasets import open_dataset, sha256_of
from cts_async.datasets.kinds import AnnotatedQuery
from cts_async.errors import InputError, UsageError
from cts_async.neighbours.clariq.collection import (
    ClariqRow,
    clariq_files,
    read_clariq,
    read_collection,
    read_question_bank,
)
from cts_async.records import Instance

Write = Callable[..., Path]

FERRIES = [
    Instance("F01", "When do night ferries leave?", "ferries"),
    Instance("F02", "What does a ferry cost for a car?", "ferries"),
]
ADA = Instance("F03", 'What did "Ada" write?', "Who was Ada Lovelace?")


# -- rows ---------------------------------------------------------------------------------------------


refusal = partial(refused, lambda path: read_collection([path]))


def test_row_is_a_facet_with_a_question_and_its_answer(tmp_path: Path) -> None:
    path = clariq_file(tmp_path / "dev.tsv")
    assert next(read_clariq(path)) == (
        2,
        ClariqRow(
            *("7", "ferries", 4, "F01", "When do night ferries leave?"),
            *("Q00010", "which time of day", "at night"),
        ),
    )


@pytest.mark.parametrize("request_column", ["initial request", "initial_request", "query"])
def test_file_without_labels_is_a_list_of_topics(write: Write, request_column: str) -> None:
    path = write("test.tsv", f"topic_id\t{request_column}\n201\traspberry pi\n")
    found = read_collection([path])
    assert (found.topics["201"].request, found.topics["201"].need, found.facets) == ("raspberry pi", None, {})


@pytest.mark.parametrize(
    ("change", "line", "field", "says"),
    [
        (("\tfacet_id", "\tfacet"), 2, "facet_id", "is missing"),
        (("\tanswer", "\treply"), 2, "answer", "is missing"),
        (("initial_request", "request"), 1, "initial_request or initial request or query", "is missing"),
        (("\t4\tF02", "\tfour\tF02"), 6, "clarification_need", "must be a valid integer"),
        (("\t4\tF02", "\t5\tF02"), 6, "clarification_need", "equal to 4, is '5'"),
        (
            ("\t4\tF02", "\t3\tF02"),
            6,
            "clarification_need",
            "topic '7' occurs earlier with another clarification_need",
        ),
        (("F03\t", "\t"), 8, "facet_id", "is empty"),
        (("F03\t", "F02\t"), 8, "facet_id", "facet 'F02' occurs earlier with another topic"),
        (("Q00010\twhich time of day", "Q00010\t"), 2, "question", "Q00010 is not Q00001 (no question)"),
        (("\tat night", ""), 2, None, "has 8 cells where the header names 9"),
        (("\tat night", '\t"at night'), 2, None, "is not valid TSV"),
        (("\n".join(["", *ROWS, ""]), "\n"), None, "topic_id", "holds no topics"),
    ],
)
def test_invalid_row_is_located(
    tmp_path: Path, change: tuple[str, str], line: int | None, field: str | None, says: str
) -> None:
    path = clariq_file(tmp_path / "dev.tsv")
    path.write_text(path.read_text().replace(*change))
    error = refusal(path)
    assert (error.line, error.field) == (line, field)
    assert says in error.problem


def test_first_of_several_request_texts_is_used_with_one_note(tmp_path: Path) -> None:
    path = clariq_file(tmp_path / "test_with_labels.tsv", REWORDED)
    found = read_collection([path])
    assert found.topics["7"].request == "ferries"
    assert found.n_rows == 7
    notes = (f"{path}:6: topic '7' has a second request text; the first is used",)
    opened = open_dataset(f"clariq:{tmp_path}")
    assert list(opened.instances()) == [*FERRIES, ADA]
    assert opened.notes == notes
    assert opened.annotations is not None
    assert list(opened.annotations().queries) == ["ferries", "Who was Ada Lovelace?"]


def test_topic_belongs_to_one_file(tmp_path: Path) -> None:
    train, dev = clariq_file(tmp_path / "train.tsv"), clariq_file(tmp_path / "dev.tsv", ROWS[:1])
    with pytest.raises(InputError, match=f"dev.tsv:2: field 'topic_id': topic '7' already occurs in {train}"):
        read_collection([train, dev])


# -- the question bank ----------------------------------------------------------------------------------


def test_no_question_is_a_question_of_the_bank_without_text(write: Write) -> None:
    bank = read_question_bank(write("question_bank.tsv", BANK))
    assert list(bank) == ["Q00001", "Q00010", "Q00011", "Q00012", "Q00013"]
    assert (bank["Q00001"], bank["Q00013"]) == ("", "who was her mother")


@pytest.mark.parametrize(
    ("content", "line", "field", "says"),
    [
        ("question_id\tquestion\nQ1\ta\nQ2\tb\nQ1\tc\n", 4, "question_id", "'Q1' occurs twice"),
        ("question_id\tquestion\nQ1\t\n", 2, "question", "is empty"),
        ("question_id\ttext\nQ1\ta\n", 1, "question", "the column is missing"),
        ("question_id\tquestion\n", None, "question_id", "holds no questions"),
    ],
)
def test_broken_bank_is_located(
    write: Write, content: str, line: int | None, field: str | None, says: str
) -> None:
    with pytest.raises(InputError) as caught:
        read_question_bank(write("question_bank.tsv", content))
    assert (caught.value.line, caught.value.field) == (line, field)
    assert says in caught.value.problem


# -- as a dataset ---------------------------------------------------------------------------------------


def test_instance_is_a_facet_and_not_a_row(tmp_path: Path) -> None:
    found = open_dataset(f"clariq:{clariq_file(tmp_path / 'dev.tsv')}")
    assert (found.name, found.count, list(found.instances())) == ("clariq", 3, [*FERRIES, ADA])


def test_folder_is_read_as_its_files_with_facets(tmp_path: Path) -> None:
    train = clariq_file(tmp_path / "data" / "train.tsv", ROWS[:6])
    test = clariq_file(tmp_path / "data" / "test_with_labels.tsv", ROWS[6:])
    clariq_file(train.with_name("test.tsv"), ("201\traspberry pi",), "topic_id\tinitial request")
    assert clariq_files(tmp_path) == clariq_files(tmp_path / "data") == (train, test)
    found = open_dataset(f"clariq:{tmp_path}")
    assert (found.path, found.more_paths, list(found.instances())) == (train, (test,), [*FERRIES, ADA])
    before = found.sha256()
    clariq_file(test, (ROWS[6].replace("letters", "diary"),))
    assert before != found.sha256() != sha256_of(train)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds none of train.tsv, dev.tsv, test_with_labels.tsv"):
        clariq_files(tmp_path / "empty")


@pytest.mark.parametrize(
    ("choice", "name", "instances"),
    [
        ("need=3-4", "clariq-need3-4", FERRIES),
        ("need=4", "clariq-need4", FERRIES),
        ("need=1", "clariq-need1", [ADA]),
        ("need=1-4", "clariq", [*FERRIES, ADA]),
    ],
)
def test_need_selects_requests_and_is_in_the_dataset_name(
    tmp_path: Path, choice: str, name: str, instances: list[Instance]
) -> None:
    found = open_dataset(f"clariq:{clariq_file(tmp_path / 'dev.tsv')},{choice}")
    assert (found.name, list(found.instances())) == (name, instances)


@pytest.mark.parametrize("choice", ["", "0", "5", "4-3", "3+", "high"])
def test_another_need_is_bad_usage(tmp_path: Path, choice: str) -> None:
    with pytest.raises(UsageError, match="must be a need from 1 to 4, or two of them as in need=3-4"):
        open_dataset(f"clariq:{clariq_file(tmp_path / 'dev.tsv')},need={choice}")


def test_file_that_is_called_like_a_choice_is_a_file(tmp_path: Path) -> None:
    path = clariq_file(tmp_path / "dev,need=4")
    assert open_dataset(f"clariq:{path}").name == "clariq"


def test_data_without_such_facets_is_refused(tmp_path: Path, write: Write) -> None:
    path = clariq_file(tmp_path / "dev.tsv")
    topics = write("test.tsv", "topic_id\tinitial request\n1\ta\n")
    with pytest.raises(InputError, match=r"has no facets of clarification need 2, 3; train.tsv"):
        open_dataset(f"clariq:{path},need=2-3")
    with pytest.raises(InputError, match=r"has no facets; train.tsv"):
        open_dataset(f"clariq:{topics}")
    with pytest.raises(UsageError, match="clariq needs a path"):
        open_dataset("clariq:")


def test_gold_joins_by_facet(tmp_path: Path, write: Write) -> None:
    gold = write("gold.jsonl", [{"id": "F02", "nuggets": [{"text": "20 euros", "weight": 1}]}])
    found = open_dataset(f"clariq:{clariq_file(tmp_path / 'dev.tsv')}", gold)
    assert [len(instance.nuggets) for instance in found.instances()] == [0, 1, 0]


def test_people_s_questions_answers_and_needs_are_annotations(tmp_path: Path) -> None:
    found = open_dataset(f"clariq:{clariq_file(tmp_path / 'dev.tsv')}")
    assert found.annotations is not None
    people = found.annotations()
    time_of_day, car = "which time of day", "are you travelling by car"
    assert people.queries == {
        "ferries": AnnotatedQuery("7", "ferries", (time_of_day, car), 4),
        "Who was Ada Lovelace?": AnnotatedQuery(
            "9", "Who was Ada Lovelace?", ("do you want her letters",), 1
        ),
    }
    assert people.pairs == {
        "F01": ((time_of_day, "at night"), (car, "no"), (car, "i dont know")),
        "F02": ((time_of_day, "any"), (car, "yes")),
        "F03": (("do you want her letters", "no her notes"),),
    }


def test_topics_with_one_request_are_one_query(tmp_path: Path) -> None:
    again = ROWS[6].replace("9\tWho was Ada Lovelace?", "8\tferries").replace("F03", "F04")
    found = open_dataset(f"clariq:{clariq_file(tmp_path / 'dev.tsv', (*ROWS[:6], again))}")
    assert found.annotations is not None
    query = found.annotations().queries["ferries"]
    assert (query.id, query.ambiguity, len(query.questions)) == ("7", 4, 3)

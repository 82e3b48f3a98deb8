"""Qulac's record ids, artificial conversations and evaluation dictionaries."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from qulac_rows import SMALL

from cts_async.errors import InputError, UsageError
from cts_async.neighbours.qulac.collection import Facet, Pair, Topic, encode_facet_id, read_qulac
from cts_async.neighbours.qulac.records import (
    TURNS,
    Evaluations,
    RecordId,
    about_path,
    conversations,
    count_conversations,
    decode_facet_id,
    decode_record_id,
    encode_record_id,
    evaluations_written,
    read_evaluations,
    read_notes,
    write_about,
)

NUMBERS = st.integers(1, 10**9 - 1)
ASKED = st.builds(
    RecordId, NUMBERS, NUMBERS, st.lists(NUMBERS, max_size=2).map(tuple), NUMBERS, st.booleans()
)
UNASKED = st.builds(RecordId, NUMBERS, NUMBERS, st.just(()), st.just(0), st.just(False))


@pytest.mark.parametrize(
    ("text", "record"),
    [
        ("18-2-1-2-10-1", RecordId(18, 2, (1, 2), 10, True)),
        ("18-2-1-2-10-0", RecordId(18, 2, (1, 2), 10, False)),
        ("25-1-3-8-1", RecordId(25, 1, (3,), 8, True)),
        ("18-2-10-1", RecordId(18, 2, (), 10, True)),
        ("18-2-0-0", RecordId(18, 2, (), 0, False)),
    ],
)
def test_readme_s_examples_decode(text: str, record: RecordId) -> None:
    assert decode_record_id(text) == record
    assert encode_record_id(record) == text


@given(ASKED | UNASKED)
def test_record_id_survives_encoding_and_decoding(record: RecordId) -> None:
    assert decode_record_id(encode_record_id(record)) == record
    assert decode_facet_id(record.facet_id) == (record.topic, record.facet)


@given(st.from_regex(r"[0-9X-]{1,14}", fullmatch=True) | st.text(max_size=9))
def test_decoded_record_id_encodes_to_same_text(text: str) -> None:
    try:
        record = decode_record_id(text)
    except ValueError:
        return
    assert encode_record_id(record) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "18-2",
        "18-2-1",
        "18-2-1-2",  # the flag is 0 or 1
        "18-2-1-2-3-4-1",  # three past questions
        "18-2-X-0",
        "18-2-01-1",
        "18-0-1-1",
        "18-2-3-0-0",  # no question, yet a history
        "18-2-0-1",  # no question, yet an answer
        "-18-2-1-1",
        "18-2-1-1\n",
        "١٨-2-1-1",
        "18-2-12345678901-1",
    ],
)
def test_anything_else_is_no_record_id(text: str) -> None:
    with pytest.raises(ValueError):
        decode_record_id(text)


def test_facet_and_a_history_have_ids_of_their_own() -> None:
    record = RecordId(18, 2, (1, 2), 10, True)
    assert (record.facet_id, record.history_id) == ("18-2", "18-2-1-2")
    assert RecordId(18, 2, (), 10, True).history_id == "18-2"
    assert encode_facet_id(18, 2) == "18-2"
    for text in ("18", "18-2-1", "18-x"):
        with pytest.raises(ValueError, match="such as 18-2: two numbers"):
            decode_facet_id(text)


def test_ids_sort_by_their_numbers() -> None:
    ids = ["18-10-1-1", "18-2-10-1", "18-2-9-1", "9-1-1-0"]
    assert sorted(ids, key=decode_record_id) == ["9-1-1-0", "18-2-9-1", "18-2-10-1", "18-10-1-1"]


def test_invalid_record_id_is_refused() -> None:
    for topic, history, question, answered in [(0, (), 1, True), (1, (0,), 1, True), (1, (), 0, True)]:
        with pytest.raises(ValueError):
            RecordId(topic, 1, history, question, answered)
    with pytest.raises(ValueError, match="at most 2"):
        RecordId(1, 1, (1, 2, 3), 4, True)


Write = Callable[..., Path]


def topic(number: int, *facets: int) -> Topic:
    """A topic with a facet for each number of questions."""
    made = [
        Facet(f"{number}-{i}", "inf", "d", tuple(Pair(q, f"q{q}", f"a{q}") for q in range(1, n + 1)))
        for i, n in enumerate(facets, start=1)
    ]
    return Topic(number, f"t{number}", "faceted", "about", tuple(made))


def ids(*topics: Topic, turns: tuple[int, ...] = TURNS) -> list[str]:
    return [encode_record_id(conversation.id) for conversation in conversations(topics, turns)]


def test_facet_with_three_questions_has_three_six_and_three() -> None:
    """n C(n-1, h) at n = 3: 3, 3 * 2 and 3 * 1. Histories rise; the current question is any other one."""
    assert ids(topic(5, 3), turns=(1,)) == ["5-1-1-1", "5-1-2-1", "5-1-3-1"]
    assert ids(topic(5, 3), turns=(2,)) == [
        *("5-1-1-2-1", "5-1-1-3-1", "5-1-2-1-1", "5-1-2-3-1", "5-1-3-1-1", "5-1-3-2-1"),
    ]
    assert ids(topic(5, 3), turns=(3,)) == ["5-1-1-2-3-1", "5-1-1-3-2-1", "5-1-2-3-1-1"]
    assert count_conversations([topic(5, 3)]) == {1: 3, 2: 6, 3: 3}


def test_record_has_the_fields_of_the_readme(write: Write) -> None:
    topics = read_qulac(write("qulac.json", SMALL)).topics
    records = {record["id"]: record for record in (c.as_record() for c in conversations(topics))}
    assert records["2-1-1-10-2-1"] == {
        "id": "2-1-1-10-2-1",
        "history_id": "2-1-1-10",
        "history_list": [
            {"question": "q one", "answer": "a one"},
            {"question": "q ten", "answer": "a ten"},
        ],
        "query": "t2",
        "question": "q two",
        "answer": "a two",
    }
    assert (records["2-1-2-1"]["history_id"], records["2-1-2-1"]["history_list"]) == ("2-1", [])


def test_first_of_two_answers_under_one_id_is_used(write: Write) -> None:
    (conversation,) = conversations(read_qulac(write("qulac.json", SMALL)).topics[1:])
    assert conversation.current == Pair(1, "q one", "yes")


def test_unknown_conversation_length_is_refused() -> None:
    with pytest.raises(ValueError, match="1 to 3 turns, not 4"):
        list(conversations([], (1, 4)))


@given(st.lists(st.integers(0, 6), min_size=1, max_size=3))
def test_formula_counts_conversations_and_ids_are_unique(facets: list[int]) -> None:
    made = ids(topic(1, *facets))
    assert sum(count_conversations([topic(1, *facets)]).values()) == len(made) == len(set(made))


def test_first_conversations_are_generated_lazily() -> None:
    """Of endlessly many topics with 10^8 conversations each nobody could wait for more than a few."""

    def endless() -> Iterator[Topic]:
        taken.append(1)
        yield topic(1, 600)
        taken.append(2)
        yield topic(2, 600)

    taken: list[int] = []
    first = list(islice(conversations(endless()), 1_000))
    assert encode_record_id(first[-1].id) == "1-1-1-401-1"
    assert taken == [1]
    assert sum(count_conversations([topic(1, 600)]).values()) == 600 + 600 * 599 + 600 * 599 * 598 // 2


def test_real_file_gives_922_114_with_the_readme_s_examples_among_them(shared_data: Path) -> None:
    topics = read_qulac(shared_data / "qulac.json").topics
    assert count_conversations(topics) == {1: 10_274, 2: 130_670, 3: 781_170}
    records = {
        encode_record_id(c.id): c.as_record() for c in conversations(t for t in topics if t.id in (18, 25))
    }
    assert records["25-1-3-8-1"] == {
        "id": "25-1-3-8-1",
        "history_id": "25-1-3",
        "history_list": [
            {
                "answer": "no i am looking for information on the greek mathematician euclid",
                "question": "do you need directions to euclid ave",
            }
        ],
        "query": "euclid",
        "question": "do you want to know related people",
        "answer": "no i only want to know about one particular person",
    }
    assert [pair["answer"] for pair in records["18-2-1-2-10-1"]["history_list"]] == [
        "no i just want to find spreadsheets and templates",
        "yes i want to find some spreadsheets to help me budget",
    ]


README: Evaluations = {"NDCG20": {"20-2-11-0": 0.0, "20-2-11-1": 0.36252395084997224}, "P1": {"20-2-11-1": 1}}


def refusal(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        read_evaluations(path)
    assert str(caught.value).startswith(str(path))
    return caught.value


def test_dictionary_is_read_in_file_order(write: Write) -> None:
    assert read_evaluations(write("eval.json", README)) == README


IDS = st.sampled_from(["1-1-0-0", "1-1-2-1", "1-1-10-1", "1-1-2-10-0", "20-1-1-1"])
TABLES = st.dictionaries(
    st.sampled_from(["NDCG3", "NDCG20", "P1", "MRR100"]),
    st.dictionaries(IDS, st.floats(0, 1), min_size=1),
    min_size=1,
)


@given(TABLES)
def test_dictionaries_are_read_as_they_are(
    tmp_path_factory: pytest.TempPathFactory, table: Evaluations
) -> None:
    path = tmp_path_factory.mktemp("evaluations") / "eval.json"
    path.write_text(json.dumps(table))
    assert read_evaluations(path) == table


@pytest.mark.parametrize(
    ("table", "field", "says"),
    [
        ([], None, "must be an object {metric: {record id: value}}, is a list"),
        ({}, None, "holds no metrics"),
        ({"ndcg@20": {"1-1-1-1": 1}}, "ndcg@20", "is no metric"),
        ({"P1": 0.5}, "P1", "must be an object {record id: value}, is a number"),
        ({"P1": {}}, "P1", "holds no records"),
        ({"P1": {"1-1-1": 1}}, "P1", "the record id '1-1-1' must be topic-facet-history-question-answerflag"),
        ({"P1": {"1-1-1-1": "1"}}, "P1.1-1-1-1", "must be a number, is text"),
        ({"P1": {"1-1-1-1": True}}, "P1.1-1-1-1", "must be a number, is true or false"),
        ({"P1": {"1-1-1-1": None}}, "P1.1-1-1-1", "must be a number, is null"),
        ({"P1": {"1-1-1-1": 1.5}}, "P1.1-1-1-1", "must be a number from 0 to 1, is 1.5"),
        ({"P1": {"1-1-1-1": -0.1}}, "P1.1-1-1-1", "must be a number from 0 to 1"),
        ({"P1": {"1-1-1-1": 1}, "P3": {"1-1-1-1": 1, "x": 1}}, "P3", "the record id 'x' must be"),
    ],
)
def test_invalid_dictionary_is_located_by_metric_and_record(
    write: Write, table: Any, field: str | None, says: str
) -> None:
    path = write("eval.json", json.dumps(table))
    error = refusal(path)
    assert error.field == field
    assert says in str(error)


def test_repeated_record_is_refused(write: Write) -> None:
    error = refusal(write("eval.json", '{"P1": {"1-1-1-1": 0,\n "1-1-1-1": 1}}'))
    assert error.field == "1-1-1-1"


def test_broken_json_a_wrong_encoding_and_a_huge_file_are_located(write: Write, tmp_path: Path) -> None:
    assert refusal(write("broken.json", '{"P1":\n{')).line == 2
    assert "is not UTF-8" in str(refusal(write("latin.json", b'{"P\xe9": {}}')))
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(1 << 40)
    assert "is larger than 536,870,912 bytes, the most that is read into memory; write one file" in str(
        refusal(tmp_path / "huge.json")
    )
    assert "no such file" in str(refusal(tmp_path / "none.json"))


class Bomb:
    """Unpickling it would write a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_is_refused_unopened_with_a_way_to_convert_it(tmp_path: Path, protocol: int) -> None:
    mark, path = tmp_path / "mark", tmp_path / "eval_hist012_dict.pkl"
    path.write_bytes(pickle.dumps(Bomb(mark), protocol))
    error = str(refusal(path))
    assert not mark.exists()
    for said in ("is a pickle, not JSON", "runs whatever code it holds", "without network", "json.dump"):
        assert said in error
    path.with_suffix(".json").write_bytes(pickle.dumps({"P1": {"1-1-1-1": 1.0}}, protocol))
    assert "is a pickle" in str(refusal(path.with_suffix(".json")))


def test_archive_is_refused_too(write: Write) -> None:
    for name, content in [
        ("eval_dict.tar.gz", b"\x1f\x8b\x08"),
        ("e.json", b"\x1f\x8b\x08"),
        ("e.zip", "{}"),
    ]:
        assert "is an archive, not JSON; unpack it first" in str(refusal(write(name, content)))


FIRST = {"NDCG20": {"1-1-0-0": 0.25, "1-1-1-1": 1.0}, "NDCG3": {"1-1-0-0": 0.0, "1-1-1-1": 1 / 3}}
SECOND = {"NDCG20": {"2-1-0-0": 0.5}, "NDCG3": {"2-1-0-0": 0.125}}


def test_records_are_written_metric_by_metric(tmp_path: Path) -> None:
    together = {metric: FIRST[metric] | SECOND[metric] for metric in ("NDCG3", "NDCG20")}
    with evaluations_written(tmp_path / "eval.json", ["NDCG20", "NDCG3"]) as writer:
        writer.add(FIRST)
        writer.add(SECOND)
    assert writer.records == 3
    expected = orjson.dumps(together, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    assert (tmp_path / "eval.json").read_bytes() == expected
    assert read_evaluations(tmp_path / "eval.json") == together


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_interruption_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, error: type[BaseException]
) -> None:
    (tmp_path / "eval.json").write_text("old")

    def interrupted() -> None:
        with evaluations_written(tmp_path / "eval.json", ["NDCG20", "NDCG3"]) as writer:
            writer.add(FIRST)
            raise error

    with pytest.raises(error):
        interrupted()
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("eval.json", "old")]


def test_no_record_is_no_file(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match="there are no records"),
        evaluations_written(tmp_path / "eval.json", ["P1"]),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_unwritable_output_is_refused_before_computing(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match="cannot write"),
        evaluations_written(tmp_path / "none" / "eval.json", ["P1"]),
    ):
        pytest.fail("it began")


def test_settings_and_notes_are_written_beside_dictionary(tmp_path: Path) -> None:
    path = tmp_path / "eval.json"
    write_about(path, {"mu": 1500.0}, ["stand-ins"])
    assert orjson.loads((tmp_path / "eval.about.json").read_bytes()) == {"mu": 1500.0, "notes": ["stand-ins"]}
    assert read_notes(path) == ["stand-ins"]


def test_dictionary_from_elsewhere_has_no_notes(tmp_path: Path) -> None:
    assert read_notes(tmp_path / "eval.json") == []


@pytest.mark.parametrize("content", ["{", "[]", '{"notes": "one"}', '{"notes": [1]}', "{}", '"\xe9"'])
def test_broken_one_is_refused_by_name(tmp_path: Path, content: str) -> None:
    path = about_path(tmp_path / "eval.json")
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(InputError, match=r"eval\.about\.json"):
        read_notes(tmp_path / "eval.json")


def test_one_that_is_too_long_is_not_held_in_memory(tmp_path: Path) -> None:
    with about_path(tmp_path / "eval.json").open("wb") as sparse:
        sparse.truncate(1 << 30)
    with pytest.raises(InputError, match=r"eval\.about\.json"):
        read_notes(tmp_path / "eval.json")

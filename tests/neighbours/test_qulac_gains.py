"""Evaluation dictionaries, what questions gain by hand, and the tables of gains."""

from __future__ import annotations

import io
import json
import pickle
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from written_files import refused

from cts_async.errors import InputError, UsageError
from cts_async.neighbours.qulac.conversations import (
    Evaluations,
    RecordId,
    about_path,
    gain_notes,
    oracle_table,
    question_gains,
    question_gains_table,
    read_evaluations,
    read_notes,
    write_evaluations,
)
from cts_async.tables.table import DataTable, print_table

refusal = partial(refused, read_evaluations)


def values(facet: str, *records: str, original: float | None = None) -> dict[str, float]:
    """ "1,2>3 .5 .2": after the questions 1 and 2, question 3 has 0.5 with its answer and 0.2 without."""
    made = {} if original is None else {f"{facet}-0-0": original}
    for one in records:
        ids, answered, *unanswered = one.split()
        record = f"{facet}-{ids.replace('>', '-').replace(',', '-')}"
        made[f"{record}-1"] = float(answered)
        made |= {f"{record}-0": float(value) for value in unanswered}
    return made


def test_best_mean_and_worst_are_of_a_facet_and_then_averaged_over_facets() -> None:
    """Facet 1-1: best 0.9, mean 0.5, worst 0.1, none 0.3; facet 1-2: 0.4, 0.4, 0.4, none 0.5."""
    evaluated = values("1-1", "1 .1", "2 .5", "3 .9", original=0.3) | values("1-2", "1 .4", original=0.5)
    (row,) = question_gains(evaluated).oracle
    assert (row["history_length"], row["facets"], row["p"]) == (0, 2, None)
    assert row["best"] == pytest.approx(0.65)
    assert row["mean"] == pytest.approx(0.45)
    assert row["worst"] == pytest.approx(0.25)
    assert row["none"] == pytest.approx(0.4)
    assert row["gain"] == pytest.approx(0.25)


def test_facet_with_several_histories_counts_once() -> None:
    """After 1 the best is 0.8 and after 2 it is 0.4: 0.6 for 1-1; with 1.0 for 1-2 that is 0.8, not 11/15."""
    evaluated = values("1-1", "1>2 .8", "1>3 .2", "2>1 .4", original=0.0) | values(
        "1-2", "1>2 1", original=0.0
    )
    (row,) = question_gains(evaluated).oracle
    assert (row["history_length"], row["facets"]) == (1, 2)
    assert row["best"] == pytest.approx(0.8)
    assert row["worst"] == pytest.approx(((0.2 + 0.4) / 2 + 1.0) / 2)
    assert row["mean"] == pytest.approx(((0.5 + 0.4) / 2 + 1.0) / 2)


def test_question_gain_is_over_no_question_with_and_without_answer() -> None:
    gains = question_gains(values("1-1", "1 .7 .2", "2 .1", original=0.3))
    assert gains.without_original == ()
    first, second = gains.questions
    assert (first["question"], first["n"], first["with_answer"], first["without_answer"]) == (1, 1, 0.7, 0.2)
    assert first["gain"] == pytest.approx(0.4)
    assert first["gain_without_answer"] == pytest.approx(-0.1)
    assert second["gain"] == pytest.approx(-0.2)
    assert (second["without_answer"], second["gain_without_answer"]) == (None, None)


def test_question_after_several_histories_has_the_mean_over_them() -> None:
    gains = question_gains(values("1-1", "1>3 .4 .1", "2>3 .8 .3", original=0.5))
    assert gains.questions == (
        {
            "facet": "1-1",
            "question": 3,
            "history_length": 1,
            "n": 2,
            "with_answer": pytest.approx(0.6),
            "without_answer": pytest.approx(0.2),
            "gain": pytest.approx(0.1),
            "gain_without_answer": pytest.approx(-0.3),
        },
    )


def test_without_the_original_query_gains_are_against_the_question_without_its_answer() -> None:
    """Facet 1-1's best question is 2: 0.9 with and 0.6 without. Facet 1-2 lacks that record: best counts, gain not."""
    evaluated = values("1-1", "1 .5 .1", "2 .9 .6") | values("1-2", "1 .3")
    gains = question_gains(evaluated)
    assert gains.without_original == ("1-1", "1-2")
    (row,) = gains.oracle
    assert row["best"] == pytest.approx(0.6)
    assert row["none"] == pytest.approx(0.6)
    assert row["gain"] == pytest.approx(0.3)
    assert [one["gain"] for one in gains.questions] == [pytest.approx(0.4), pytest.approx(0.3), None]
    assert {one["gain_without_answer"] for one in gains.questions} == {None}


def test_missing_original_query_of_one_facet_changes_all_baselines() -> None:
    """Means over facets that stand against different things would mean nothing."""
    evaluated = values("1-1", "1 .5 .1", original=0.0) | values("1-2", "1 .3 .2")
    gains = question_gains(evaluated)
    assert gains.without_original == ("1-2",)
    assert gains.oracle[0]["gain"] == pytest.approx((0.4 + 0.1) / 2)


def test_t_test_pairs_best_and_none_by_facet() -> None:
    """Differences 0.1, 0.2, 0.3: mean 0.2, sd 0.1, t = 0.2 / (0.1 / sqrt(3)) = 3.4641."""
    evaluated: dict[str, float] = {}
    for i in (1, 2, 3):
        evaluated |= values(f"1-{i}", f"1 {0.5 + i / 10}", original=0.5)
    (row,) = question_gains(evaluated, test=True).oracle
    assert (row["facets_with_none"], row["t"]) == (3, pytest.approx(3.4641, abs=1e-4))
    assert row["p"] == pytest.approx(0.0742, abs=1e-4)


RECORDS = st.dictionaries(
    st.tuples(
        st.sampled_from(["1-1", "1-2"]), st.sampled_from([(), (7,), (7, 8)]), st.integers(1, 3), st.booleans()
    ),
    st.sampled_from([0.0, 0.25, 0.5, 1.0]),
)


@given(RECORDS, st.randoms(use_true_random=False))
def test_worst_is_never_above_mean_nor_mean_above_best_in_any_order(
    records: dict[tuple[str, tuple[int, ...], int, bool], float], rng: random.Random
) -> None:
    evaluated = {
        str(RecordId(1, int(facet[2:]), history, question, answered)): value
        for (facet, history, question, answered), value in records.items()
    }
    found = question_gains(evaluated)
    for row in found.oracle:
        assert row["worst"] <= row["mean"] + 1e-12
        assert row["mean"] <= row["best"] + 1e-12
    shuffled = list(evaluated.items())
    rng.shuffle(shuffled)
    again = question_gains(dict(shuffled))
    assert [(row["facets"], row["best"], row["gain"]) for row in again.oracle] == [
        (
            row["facets"],
            pytest.approx(row["best"]),
            None if row["gain"] is None else pytest.approx(row["gain"]),
        )
        for row in found.oracle
    ]


VALUES = {"1-1-0-0": 0.5, "1-1-1-1": 0.7, "1-1-1-0": 0.25, "1-1-2-1": 0.1, "1-1-1-2-1": 1.0}
WITHOUT = {"1-1-1-1": 0.7, "1-1-1-0": 0.25, "1-1-2-1": 0.1}


def printed(table: DataTable) -> list[list[str]]:
    out = io.StringIO()
    print_table(Console(file=out, width=80, color_system=None), table)
    return [line.split() for line in out.getvalue().splitlines() if line.strip()]


def test_tables_have_oracle_rows_and_questions_from_best_to_worst() -> None:
    gains = question_gains(VALUES)
    table = oracle_table({"P1": gains})
    assert printed(table)[-2:] == [
        ["P1", "0", "1", "0.5000", "0.1000", "0.4000", "0.7000", "+0.2000"],
        ["P1", "1", "1", "0.5000", "1.0000", "1.0000", "1.0000", "+0.5000"],
    ]
    assert table.rows[0]["against"] == "the original query alone"
    table = question_gains_table("P1", gains)
    assert table.name == "questions_P1"
    assert printed(table)[-3:] == [
        ["1-1", "2", "1", "1", "1.0000", "+0.5000", "-", "-"],
        ["1-1", "1", "0", "1", "0.7000", "+0.2000", "0.2500", "-0.2500"],
        ["1-1", "2", "0", "1", "0.1000", "-0.4000", "-", "-"],
    ]


def test_p_values_of_all_metrics_are_corrected_together() -> None:
    """Two tests with t = 0.2 / (0.1 / sqrt(3)) = 3.4641 and p = 1 - t / sqrt(2 + t^2) = 0.07418: each p is doubled."""
    values = {f"1-{i}-0-0": 0.5 for i in (1, 2, 3)} | {f"1-{i}-1-1": 0.5 + i / 10 for i in (1, 2, 3)}
    found = question_gains(values, test=True)
    table = oracle_table({"P1": found, "P3": found})
    assert [row["p_holm"] for row in table.rows] == [pytest.approx(2 * row["p"]) for row in table.rows]
    assert printed(table)[-1][-2:] == ["3.46", "0.1484"]
    assert "chance alone lifts it above none" in table.caption, (
        "a best of many is better even where nothing helps"
    )


def test_missing_original_query_is_in_tables_and_note() -> None:
    found = {"P1": question_gains(WITHOUT), "P3": question_gains(VALUES)}
    table = oracle_table(found)
    assert [row["against"] for row in table.rows] == [
        "the best question without its answer",
        *["the original query alone"] * 2,
    ]
    assert "none: the original query alone, or the best question without its answer" in table.caption
    (note,) = gain_notes(found)
    assert note.startswith(
        "P1: 1 facet has no record of the original query alone (1-1-0-0), so gains are over"
    )
    questions = question_gains_table("P1", found["P1"])
    assert "gain over the same question without its answer" in questions.caption
    assert [row["gain"] for row in questions.rows] == [pytest.approx(0.45), None]


def test_facets_left_out_of_gain_give_a_note() -> None:
    values = {"1-1-1-1": 0.5, "1-1-1-0": 0.2, "1-2-1-1": 0.9}
    found = {"P1": question_gains(values)}
    (row,) = oracle_table(found).rows
    assert (row["best"], row["none"], row["gain"]) == pytest.approx((0.7, 0.2, 0.3))
    assert (row["facets"], row["facets_with_none"]) == (2, 1)
    assert gain_notes(found)[1].startswith(
        "P1, 0 past: only 1 of 2 facets have a record of the best question without"
    )


# --- Evaluation dictionaries -----------------------------------------------------------------------------

Write = Callable[..., Path]
README: Evaluations = {"NDCG20": {"20-2-11-0": 0.0, "20-2-11-1": 0.36252395084997224}, "P1": {"20-2-11-1": 1}}


@pytest.mark.parametrize(
    ("table", "field", "says"),
    [
        ([], None, "must be a valid dictionary, is []"),
        ({}, None, "holds no records"),
        ({"ndcg@20": {"1-1-1-1": 1}}, "ndcg@20.[key]", "pattern"),
        ({"P1": 0.5}, "P1", "must be a valid dictionary, is 0.5"),
        ({"P1": {}}, None, "holds no records"),
        ({"P1": {"1-1-1": 1}}, None, "the record id '1-1-1' must be topic-facet-history-question-answerflag"),
        ({"P1": {"1-1-1-1": "1"}}, "P1.1-1-1-1", "must be a valid number, is '1'"),
        ({"P1": {"1-1-1-1": True}}, "P1.1-1-1-1", "must be a valid number, is True"),
        ({"P1": {"1-1-1-1": 1.5}}, "P1.1-1-1-1", "must be less than or equal to 1, is 1.5"),
        ({"P1": {"1-1-1-1": -0.1}}, "P1.1-1-1-1", "must be greater than or equal to 0"),
        ({"P1": {"1-1-1-1": 1}, "P3": {"1-1-1-1": 1, "x": 1}}, None, "the record id 'x' must be"),
    ],
)
def test_invalid_dictionary_is_located_by_metric_and_record(
    write: Write, table: Any, field: str | None, says: str
) -> None:
    path = write("eval.json", json.dumps(table))
    error = refusal(path)
    assert error.field == field
    assert says in str(error)


def test_huge_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(1 << 40)
    message = "is larger than 536,870,912 bytes, the most that is read into memory; write one file"
    assert message in str(refusal(tmp_path / "huge.json"))
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
    for message in ("is a pickle, not JSON", "runs whatever code it holds", "without network", "json.dump"):
        assert message in error
    path.with_suffix(".json").write_bytes(pickle.dumps({"P1": {"1-1-1-1": 1.0}}, protocol))
    assert "is a pickle" in str(refusal(path.with_suffix(".json")))


@pytest.mark.parametrize(
    ("name", "content"), [("e.tar.gz", b"\x1f\x8b\x08"), ("e.json", b"\x1f\x8b\x08"), ("e.zip", "{}")]
)
def test_archive_is_refused_too(write: Write, name: str, content: str | bytes) -> None:
    assert "is an archive, not JSON; unpack it first" in str(refusal(write(name, content)))


def test_metrics_are_written_in_order_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "eval.json"
    table = {"NDCG20": {"1-1-0-0": 0.25, "1-1-1-1": 1.0}, "NDCG3": {"1-1-0-0": 0.0, "1-1-1-1": 1 / 3}}
    write_evaluations(path, table, {"qulac": "caf\udce9.json", "notes": ["pseudo-judgments"]})
    assert list(read_evaluations(path)) == ["NDCG3", "NDCG20"]
    assert read_evaluations(path) == table
    with pytest.raises(UsageError, match="there are no records"):
        write_evaluations(tmp_path / "none.json", {"P1": {}}, {})
    assert {one.name for one in tmp_path.iterdir()} == {"eval.json", "eval.about.json"}
    about = {"qulac": "caf?.json", "notes": ["pseudo-judgments"]}
    assert orjson.loads(about_path(path).read_bytes()) == about
    assert read_notes(path) == ["pseudo-judgments"]
    assert read_notes(tmp_path / "from_elsewhere.json") == []


@pytest.mark.parametrize("content", ["{", "[]", '{"notes": "one"}', '{"notes": [1]}', "{}", '"\xe9"'])
def test_broken_one_is_refused_by_name(tmp_path: Path, content: str) -> None:
    path = about_path(tmp_path / "eval.json")
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(InputError, match=r"eval\.about\.json"):
        read_notes(tmp_path / "eval.json")

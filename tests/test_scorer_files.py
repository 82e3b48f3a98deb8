"""The scorer's other inputs: CSV in two forms, gzip, directories and patterns. Expected values by hand."""

from __future__ import annotations

import csv
import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async import scorer
from cts_async.scorer import BadInput, Unscored, judged_files, read_gold, read_outcomes, restore_score_100

HEADER = "id,nugget_id,weight,coverage\n"
# q1: (3 + 0.5 * 1) / 4; q2: (0 + 0.5 * 2) / 5
ROWS = "q1,N1,3,full\nq1,N2,1,partial\nq2,N1,3,none\nq2,N2,2,partial\n"
SCORES = {"q1": 87.5, "q2": 20.0}


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return path


# -- a row for each nugget ------------------------------------------------------------------------------


FORMS = {
    "plain": ("j.csv", HEADER + ROWS),
    "any order": (
        "j.csv",
        HEADER + "".join(sorted(ROWS.splitlines(keepends=True), key=lambda row: row[3:5])),
    ),
    "byte-order mark": ("j.csv", "\ufeff" + HEADER + ROWS),
    "blank rows": ("j.csv", "\n  \n" + HEADER + ROWS + ",,,\n ,,\n"),
    "Windows": ("j.csv", (HEADER + ROWS).replace("\n", "\r\n")),
    "blank lines": ("j.csv", (HEADER + "\n" + ROWS + "\n\n").removesuffix("\n")),
    "semicolons": ("j.csv", (HEADER + ROWS).replace(",", ";")),
    "tabs": ("j.tsv", (HEADER + ROWS).replace(",", "\t")),
    "aliases": ("j.CSV", HEADER.replace("id,nugget_id,weight,coverage", "Query ID,Nugget-Id,W,Label") + ROWS),
    "quotes": ("j.csv", HEADER + ROWS.replace("q1", '"q1"').replace("full", " full ")),
}


@pytest.mark.parametrize(("name", "text"), FORMS.values(), ids=FORMS)
def test_rows_of_nuggets_make_a_score_for_each_item(tmp_path: Path, name: str, text: str) -> None:
    assert read_outcomes(write(tmp_path / name, text)) == SCORES


def test_items_may_be_known_by_their_query_and_nuggets_by_their_place(tmp_path: Path) -> None:
    text = 'fused_query,weight,coverage\n"ferry, in winter",3,full\n"ferry, in winter",1,none\n'
    assert read_outcomes(write(tmp_path / "j.csv", text)) == {"ferry, in winter": 75.0}


def test_failed_item_and_an_unjudged_one_are_no_scores(tmp_path: Path) -> None:
    text = "id,nugget_id,weight,coverage,error\nq1,N1,1,full,\nq1,,,,timed out\nq2,N1,1,,\nq2,N2,1,,\n"
    assert read_outcomes(write(tmp_path / "j.csv", text)) == {"q1": Unscored.FAILED, "q2": Unscored.UNJUDGED}


def test_golds_weights_take_the_place_of_the_files(tmp_path: Path) -> None:
    nuggets = [{"id": "N1", "weight": 1}, {"id": "N2", "weight": 1}]
    lines = [{"id": "q1", "fused_query": "a", "nuggets": nuggets}, {"fused_query": "b", "nuggets": nuggets}]
    gold = read_gold(write(tmp_path / "gold.jsonl", "\n".join(map(json.dumps, lines))))
    by_id = write(tmp_path / "a.csv", "id,nugget_id,coverage\nq1,N1,full\nq1,N2,none\n")
    assert read_outcomes(by_id, gold) == {"q1": 50.0}
    by_query = write(tmp_path / "b.csv", "fused_query,nugget_id,weight,coverage\nb,N1,9,full\nb,N2,1,none\n")
    assert read_outcomes(by_query, gold) == {"b": 50.0}
    with pytest.raises(BadInput, match=r"a.csv:2: 'q1': nugget 'N2' of the gold was not judged"):
        read_outcomes(write(tmp_path / "a.csv", "id,nugget_id,coverage\nq1,N1,full\n"), gold)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "1: a header with an id, and either coverage .* is needed; it has none"),
        ("id,answer\nq1,yes\n", "1: a header with an id, .* it has id, answer"),
        (HEADER + "q1,N1,3,full,more\n", "2: 5 cells, but the header has 4"),
        (HEADER + ",N1,3,full\n", "2: field 'id': is empty"),
        (HEADER + "q1,N1,0,full\n", "2: field 'weight': '0' is not a positive finite number"),
        (HEADER + "q1,N1,1,full\nq1,N2,inf,full\n", "3: field 'weight': 'inf' is not"),
        (HEADER + "q1,N1,,full\n", r"2: field 'weight': '' is not .* \(weights can come from --gold\)"),
        (HEADER + "q1,N1,1,most\n", "2: field 'coverage': 'most' is not one of full, partial, none"),
        (HEADER + "q1,N1,1,full\nq1,N2,1,\n", "3: field 'coverage': is empty, but 'q1' has other labels"),
        (
            HEADER + "q1,N1,1,full\nq1,N1,1,none\n",
            "3: field 'nugget_id': nugget 'N1' of 'q1' is judged twice",
        ),
        (HEADER + 'q1,N1,1,"full\n', "2: not CSV: unexpected end of data"),
        (HEADER + "q1,N1,1,full\nq\udcff,N1,1,full\n", "3: not UTF-8 text"),
        *(
            (f"id,score\nq1,{bad}\n", f"2: field 'score': '{bad}' is not a number in")
            for bad in ("101", "-1", "nan")
        ),
        ("\n\nid,score\nq1,many\n", "4: field 'score': 'many' is not a number"),
        ("id,score,Score,note,note\nq1,50,60,,\n", "1: the column 'Score' occurs twice"),
        ("id,label\nq1,full\n", "2: field 'weight': '' is not a positive finite number"),
        (HEADER + "q1,N1,1e308,full\nq1,N2,1e308,full\n", "1: 'q1': the weights are too large to add up"),
    ],
)
def test_malformed_row_is_refused_by_its_line_and_field(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(BadInput, match=f"j.csv:{problem}"):
        read_outcomes(write(tmp_path / "j.csv", text))


labels = st.sampled_from(["full", "partial", "none"])
judged = st.lists(st.tuples(st.floats(min_value=1e-3, max_value=1e3), labels), min_size=1, max_size=9)


@given(st.lists(judged, min_size=1, max_size=4))
def test_score_survives_every_form_of_file(
    tmp_path_factory: pytest.TempPathFactory, items: list[list[Any]]
) -> None:
    folder = tmp_path_factory.mktemp("forms")
    expected = {f"q{i}": restore_score_100(pairs) for i, pairs in enumerate(items)}
    with (folder / "a.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("id", "nugget_id", "weight", "coverage")])
        csv.writer(file).writerows(
            (f"q{i}", n, *pair) for i, p in enumerate(items) for n, pair in enumerate(p)
        )
    with (folder / "b.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("id", "restore_score_100"), *expected.items()])
    with gzip.open(folder / "C.JSONL.GZ", "wt") as packed:
        for i, pairs in enumerate(items):
            nuggets = [{"id": str(n), "weight": w, "coverage": c} for n, (w, c) in enumerate(pairs)]
            packed.write(json.dumps({"id": f"q{i}", "nuggets": nuggets}) + "\n")
    for name in ("a.csv", "b.csv", "C.JSONL.GZ"):
        assert read_outcomes(folder / name) == expected


# -- a row for each item --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("s.csv", "id,restore_score_100,error\nq1,62.5,\nq2,,timed out\nq3,,\nq1,62.5,\n"),
        (
            "s.jsonl",
            '{"id": "q1", "restore_score_100": 62.5}\n{"id": "q2", "restore_score_100": null, "error": "timed out"}\n'
            '{"id": "q3", "answer": "x", "restore_score_100": null}\n{"id": "q1", "restore_score_100": 62.5}\n',
        ),
    ],
)
def test_given_scores_are_not_recomputed(tmp_path: Path, name: str, text: str) -> None:
    expected = {"q1": 62.5, "q2": Unscored.FAILED, "q3": Unscored.UNJUDGED}
    assert read_outcomes(write(tmp_path / name, text)) == expected


@pytest.mark.parametrize(
    ("name", "text"), [("s.csv", "id,score\nq1,50\n"), ("s.jsonl", '{"id": "q1", "restore_score_100": 50}\n')]
)
def test_scores_without_nuggets_cannot_be_weighed_again(tmp_path: Path, name: str, text: str) -> None:
    gold = read_gold(write(tmp_path / "g.jsonl", '{"id": "q1", "nuggets": [{"id": "N1", "weight": 1}]}\n'))
    with pytest.raises(BadInput, match="cannot be weighed by --gold"):
        read_outcomes(write(tmp_path / name, text), gold)


def test_item_with_two_different_scores_is_refused_by_both_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "s.csv", "id,score,error\nq1,,timed out\nq1,50,\nq2,7,\nq1,50,\nq1,60,\n")
    with pytest.raises(BadInput, match=r"s\.csv:6: field 'score': 'q1' has the score 50 on line 3"):
        read_outcomes(path)


# -- which files ----------------------------------------------------------------------------------------


def test_gzipped_file_that_ends_too_early_is_refused(tmp_path: Path) -> None:
    packed = gzip.compress(os.urandom(99_999).hex().encode())
    path = tmp_path / "j.csv.gz"
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(BadInput, match="cannot be unpacked"):
        read_outcomes(path)


def test_directory_stands_for_its_judged_file_or_those_one_level_below(tmp_path: Path) -> None:
    judged, run = tmp_path / "outputs" / "ebk1", tmp_path / "runs" / "gpt"
    for path in (judged / "per_item.jsonl", run / "results.jsonl", run / "per_item.jsonl"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert judged_files(str(judged)) == [str(judged / "per_item.jsonl")]
    assert judged_files(str(run)) == [str(run / "results.jsonl")]
    assert judged_files(str(tmp_path / "outputs")) == [str(judged / "per_item.jsonl")]
    with pytest.raises(FileNotFoundError, match=r"holds no results.jsonl or per_item.jsonl"):
        judged_files(str(tmp_path))


def test_pattern_is_expanded_unless_a_file_is_called_so(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", "x[1].jsonl"):
        (tmp_path / name).touch()
    assert judged_files(f"{tmp_path}/?.jsonl") == [f"{tmp_path}/a.jsonl", f"{tmp_path}/b.jsonl"]
    assert judged_files(f"{tmp_path}/x[1].jsonl") == [f"{tmp_path}/x[1].jsonl"]
    assert judged_files(f"{tmp_path}/*.csv") == [f"{tmp_path}/*.csv"]


def test_several_files_stand_in_one_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [write(tmp_path / name, HEADER + rows) for name, rows in (("a.csv", ROWS), ("b.csv", ROWS[:28]))]
    assert scorer.main([str(tmp_path / "*.csv"), str(paths[0])]) == 0
    _, *rows = capsys.readouterr().out.splitlines()
    assert [[row.split()[-1], *row.split()[:4]] for row in rows] == [
        [str(paths[0]), "2", "2", "0", "53.750"],
        [str(paths[1]), "1", "1", "0", "87.500"],
    ]


def test_spellings_of_no_error_in_csv(tmp_path: Path) -> None:
    rows = "".join(f"q{i},50,{word}\n" for i, word in enumerate(["", "False", "None", "nan", "timeout"]))
    outcomes = read_outcomes(write(tmp_path / "s.csv", "id,score,error\n" + rows))
    assert list(outcomes.values()) == [50.0] * 4 + [Unscored.FAILED]

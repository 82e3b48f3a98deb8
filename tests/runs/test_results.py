"""results.jsonl: the contract's fields, and later lines over earlier ones."""

from __future__ import annotations

import json
import tempfile
from array import array
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import Row, made_run

from cts_async.errors import InputError
from cts_async.records import Answer, Instance, Judgment, Nugget, Outcome, Trace, Turn
from cts_async.runs.finished import read_run
from cts_async.runs.index import id_hash
from cts_async.runs.results import LatestLines, latest_rows, outcome_line

INSTANCE = Instance("s1", "ferry in winter", "ferry", (Nugget("N1", "a", 3), Nugget("N2", "b", 1)))
TRACE = Trace((Turn("search", "…", "ferry"), Turn("answer", "At nine.")), "At nine.", "tag", 2, False)
OUTCOME = Outcome(
    INSTANCE,
    1,
    ("When?",),
    (Answer("winter", False),),
    "ferry winter",
    TRACE,
    {"ernie": Judgment("ernie", (("N1", "full"), ("N2", "partial")))},
)


def test_outcome_line_has_the_documented_fields_and_the_score() -> None:
    line = outcome_line("gpt-k1", OUTCOME)
    assert {
        "id", "fused_query", "blurred_query", "k", "questions", "answers", "rewritten_query", "answer",
        "nuggets", "restore_score_100",
    } <= line.keys()  # fmt: skip
    assert line["nuggets"][1] == {"id": "N2", "weight": 1, "coverage": "partial"}
    # (3 x 1 + 1 x 0.5) / 4
    assert line["restore_score_100"] == 87.5


# --- Of each id the last line counts, whatever came in between.


IDS = st.sampled_from(["a", "b", "c", "", "é", "q10", "q1"])


def write(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return path


@given(st.lists(st.integers(-3, 3)))
def test_rows_are_those_of_a_dict(hashes: list[int]) -> None:
    last = {id: row for row, id in enumerate(hashes)}
    assert latest_rows(array("q", hashes)).tolist() == list(last.values())


def test_a_missing_file_has_no_lines(tmp_path: Path) -> None:
    lines = LatestLines(tmp_path / "none.jsonl")
    assert (len(lines), lines.n_failed, lines.failed("a"), lines.line("a")) == (0, 0, None, None)
    assert lines.compared(array("q", [1, 2]), array("q"), but_failures=False) == (2, 0)


def test_a_retry_supersedes_a_failure_and_a_failure_a_result(tmp_path: Path) -> None:
    failure = {"error": {"kind": "rejected"}}
    lines = LatestLines(
        write(tmp_path / "r.jsonl", {"id": "a", **failure}, {"id": "b"}, {"id": "a"}, {"id": "b", **failure})
    )
    assert (len(lines), lines.n_failed) == (2, 1)
    assert [lines.failed(id) for id in "abc"] == [False, True, None]
    assert lines.line("b") == {"id": "b", **failure}


@given(st.lists(st.tuples(IDS, st.booleans())))
def test_it_agrees_with_a_dict_of_all_lines(written: list[tuple[str, bool]]) -> None:
    rows = [
        {"id": id, "n": n, "error": {"kind": "x"} if bad else None} for n, (id, bad) in enumerate(written)
    ]
    latest = {row["id"]: row for row in rows}
    with tempfile.TemporaryDirectory() as directory:
        lines = LatestLines(write(Path(directory, "r.jsonl"), *rows))
        assert len(lines) == len(latest)
        assert lines.n_failed == sum(row["error"] is not None for row in latest.values())
        for id in ("a", "b", "c", "", "é", "q10", "q1", "absent"):
            assert lines.line(id) == latest.get(id)


@given(
    st.dictionaries(IDS, st.tuples(st.booleans(), st.integers(0, 2))),
    st.dictionaries(IDS, st.integers(1, 2)),
    st.booleans(),
)
def test_comparing_all_ids_is_comparing_each(
    written: dict[str, tuple[bool, int]], wanted: dict[str, int], but_failures: bool
) -> None:
    rows = [{"id": id, "mark": mark, "error": {} if bad else None} for id, (bad, mark) in written.items()]
    with tempfile.TemporaryDirectory() as directory:
        lines = LatestLines(write(Path(directory, "r.jsonl"), *rows), lambda line: int(line["mark"]))
    found = [id for id in wanted if lines.failed(id) is False or (lines.failed(id) and not but_failures)]
    outdated = [id for id in found if lines.outdated(id, wanted[id])]
    marks = array("q", wanted.values())
    compared = lines.compared(array("q", map(id_hash, wanted)), marks, but_failures=but_failures)
    assert compared == (len(wanted) - len(found), len(outdated))


def test_damaged_lines_and_lines_without_an_id_are_passed_over(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", {"id": "a"}, {"id": 7}, {"n": 1})
    path.write_bytes(b"garbage\n\0\n" + path.read_bytes() + b'{"id": "torn"')
    lines = LatestLines(path)
    assert (len(lines), lines.line("a"), lines.failed("torn")) == (1, {"id": "a"}, None)


# --- Lines of results that a hand or another program has changed: one clear line, not a traceback.


WRONG = [
    ("questions", [1]),
    ("answers", -5),
    ("restore_score_100", "nan"),
    ("restore_score_100", True),
    ("nuggets", [{"id": "N1", "coverage": "most", "weight": 1}]),
    ("nuggets", [{"id": "N1", "coverage": "full"}]),
    ("nuggets", [{"id": "N1", "coverage": "full", "weight": 0}]),
    ("nuggets", [{"id": "N1", "coverage": "full", "weight": 1}] * 2),
    ("error", ["x"]),
]


def broken(folder: Path, field: str, value: Any) -> Path:
    """A run whose second line has that in that field."""
    directory = made_run(folder, label="orig", rows=[Row(id, labels={"ernie": "fp"}) for id in "ab"])
    path = directory / "results.jsonl"
    first, second = map(json.loads, path.read_text().splitlines())
    path.write_text(f"{json.dumps(first)}\n{json.dumps(second | {field: value})}\n")
    return path


@pytest.mark.parametrize(("field", "value"), WRONG)
def test_invalid_field_is_reported_with_its_line(tmp_path: Path, field: str, value: Any) -> None:
    path = broken(tmp_path, field, value)
    with pytest.raises(InputError, match=f"results.jsonl:2: field '{field}': has to be "):
        read_run(path.parent)

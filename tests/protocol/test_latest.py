"""Of each id the last line counts, whatever came in between."""

from __future__ import annotations

import tempfile
from array import array
from pathlib import Path
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from cts_async.protocol.results import LatestLines, first_repetition, latest_rows

IDS = st.sampled_from(["a", "b", "c", "", "é", "q10", "q1"])


def write(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return path


def test_rows_by_hand() -> None:
    # Ids 7 5 7 9 5 7: 7 appears first and last stands in row 5, 5 in row 4, 9 in row 3.
    assert latest_rows(array("q", [7, 5, 7, 9, 5, 7])).tolist() == [5, 4, 3]
    assert latest_rows(array("q", [-3, 8])).tolist() == [0, 1]
    assert latest_rows(array("q")).tolist() == []


@given(st.lists(st.integers(-3, 3)))
def test_rows_are_those_of_a_dict(hashes: list[int]) -> None:
    last = {id: row for row, id in enumerate(hashes)}
    assert latest_rows(array("q", hashes)).tolist() == list(last.values())


def test_the_first_repetition_by_hand() -> None:
    assert first_repetition(array("q", [7, 5, 9, 5, 7])) == (1, 3)
    assert first_repetition(array("q", [7, 7, 7])) == (0, 1)
    assert first_repetition(array("q", [7, 5])) is None
    assert first_repetition(array("q")) is None


@given(st.lists(st.integers(-5, 5)))
def test_the_first_repetition_is_the_one_that_a_set_meets_first(hashes: list[int]) -> None:
    row = next((row for row, id in enumerate(hashes) if id in hashes[:row]), None)
    expected = None if row is None else (hashes.index(hashes[row]), row)
    assert first_repetition(array("q", hashes)) == expected


def test_a_missing_file_has_no_lines(tmp_path: Path) -> None:
    lines = LatestLines(tmp_path / "none.jsonl")
    assert (len(lines), lines.n_failed, lines.failed("a"), lines.line("a")) == (0, 0, None, None)
    assert lines.lacks("a")


def test_a_retry_supersedes_a_failure_and_a_failure_a_result(tmp_path: Path) -> None:
    failure = {"error": {"kind": "rejected"}}
    lines = LatestLines(
        write(tmp_path / "r.jsonl", {"id": "a", **failure}, {"id": "b"}, {"id": "a"}, {"id": "b", **failure})
    )
    assert (len(lines), lines.n_failed) == (2, 1)
    assert [lines.failed(id) for id in "abc"] == [False, True, None]
    assert [lines.lacks(id) for id in "abc"] == [False, True, True]
    assert lines.line("b") == {"id": "b", **failure}


@settings(max_examples=100, deadline=None)
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


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(IDS, st.booleans()), st.lists(IDS, unique=True), st.booleans())
def test_having_all_is_having_each(written: dict[str, bool], asked: list[str], but_failures: bool) -> None:
    rows = [{"id": id, "error": {"kind": "x"} if bad else None} for id, bad in written.items()]
    with tempfile.TemporaryDirectory() as directory:
        lines = LatestLines(write(Path(directory, "r.jsonl"), *rows))
        each = [not lines.lacks(id) if but_failures else lines.failed(id) is not None for id in asked]
        assert lines.have_all(array("q", map(hash, asked)), but_failures=but_failures) == all(each)


def test_damaged_lines_and_lines_without_an_id_are_passed_over(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", {"id": "a"}, {"id": 7}, {"n": 1})
    path.write_bytes(b"garbage\n\0\n" + path.read_bytes() + b'{"id": "torn"')
    lines = LatestLines(path)
    assert (len(lines), lines.line("a"), lines.failed("torn")) == (1, {"id": "a"}, None)

"""Evaluation dictionaries written record by record: the same file, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from cts_async.errors import UsageError
from cts_async.neighbours.qulac.records import evaluations_written, read_evaluations

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
def test_an_interruption_leaves_the_old_file_and_nothing_else(
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
        pytest.raises(UsageError, match="no record to write"),
        evaluations_written(tmp_path / "eval.json", ["P1"]),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_said_before_anything_is_computed(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match="cannot write"),
        evaluations_written(tmp_path / "none" / "eval.json", ["P1"]),
    ):
        pytest.fail("it began")

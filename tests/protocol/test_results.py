"""results.jsonl: the contract's fields, and later lines over earlier ones."""

from __future__ import annotations

from pathlib import Path

import orjson

from cts_async.errors import RejectedError
from cts_async.protocol.results import failed, failure_line, latest_results, outcome_line
from cts_async.records import Answer, Instance, Judgment, Nugget, Outcome, Trace, Turn

INSTANCE = Instance("s1", "ferry in winter", "ferry", (Nugget("N1", "a", 3), Nugget("N2", "b", 1)))
TRACE = Trace((Turn("search", "…", "ferry"), Turn("answer", "At nine.")), "At nine.", "tag", 2, False)
OUTCOME = Outcome(
    INSTANCE,
    1,
    ("When?",),
    (Answer("winter", False),),
    "ferry winter",
    TRACE,
    (Judgment("ernie", (("N1", "full"), ("N2", "partial"))),),
)


def test_an_outcome_has_the_contracts_fields_and_its_score() -> None:
    line = outcome_line("gpt-k1", OUTCOME)
    assert {
        "id", "fused_query", "blurred_query", "k", "questions", "answers", "rewritten_query", "answer",
        "nuggets", "restore_score_100",
    } <= line.keys()  # fmt: skip
    assert line["nuggets"][1] == {"id": "N2", "weight": 1, "coverage": "partial"}
    # (3 x 1 + 1 x 0.5) / 4
    assert line["restore_score_100"] == 87.5


def test_a_failure_has_a_reason_and_no_score() -> None:
    error = RejectedError("HTTP 400: too long")
    error.step = "search/turn/2"
    line = failure_line("gpt-k1", INSTANCE, error)
    assert line["error"] == {"step": "search/turn/2", "kind": "rejected", "message": "HTTP 400: too long"}
    assert "restore_score_100" not in line
    assert failed(line)


def test_a_later_line_supersedes_an_earlier_one(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    lines = [failure_line("x", INSTANCE, RejectedError("no")), outcome_line("x", OUTCOME)]
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines) + b'{"id": "torn')
    latest = latest_results(path)
    assert list(latest) == ["s1"]
    assert not failed(latest["s1"])

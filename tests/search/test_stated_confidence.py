"""The line that states a confidence: what it may look like, and what of an answer is left without it."""

from __future__ import annotations

import pytest

from cts_async.errors import UnusableOutput
from cts_async.records import Trace
from cts_async.search.agent import AgentTurn
from cts_async.search.confidence import split_confidence, with_confidence


@pytest.mark.parametrize(
    ("line", "confidence"),
    [
        ("Confidence: 85", 85),
        ("confidence:85%", 85),
        ("**Confidence:** 85 %", 85),
        ("- Confidence level = 85/100.", 85),
        ("置信度：85％。", 85),
        ("Confidence: 87.5", 87.5),
        ("Confidence: 0", 0),
        ("Confidence: 1", 1),
        ("Confidence: 0.5%", 0.5),
        ("Confidence: 100", 100),
    ],
)
def test_confidence_is_taken_off_the_answer(line: str, confidence: float) -> None:
    assert split_confidence(f"Varn lake\n{line}\n") == ("Varn lake", confidence)
    assert split_confidence(f"Varn lake\n\n{line}") == ("Varn lake", confidence)


@pytest.mark.parametrize(
    "line",
    [
        "Confidence: high",
        "Confidence: 120",
        "Confidence: 0.85",  # of 1, or of 100?
        "Confidence: -5",
        "Confidence: 80 to 90",
        "My confidence: 80",
        "Confidence: 8" + "0" * 200,
        "Confidence" + ":" * 100_000 + " 80",
    ],
)
def test_line_that_cannot_be_read_for_sure_stays_in_the_answer(line: str) -> None:
    assert split_confidence(f"Varn lake\n{line}") == (f"Varn lake\n{line}", None)


def test_confidence_in_the_middle_or_alone_is_no_statement() -> None:
    for answer in ("Confidence: 85\nVarn lake", "Confidence: 85", "Varn lake, Confidence: 85"):
        assert split_confidence(answer) == (answer, None)


def trace_of(answer: str, answer_from: str = "tag") -> Trace:
    return Trace((), answer, answer_from, 1, forced=False)  # type: ignore[arg-type]


def test_confidence_behind_the_answer_counts_and_the_one_inside_goes_first() -> None:
    behind = with_confidence(trace_of("Varn"), "<answer>Varn</answer>\n\nConfidence: 40\n")
    assert (behind.answer, behind.confidence) == ("Varn", 40)
    inside = with_confidence(
        trace_of("Varn\nConfidence: 70"), "<answer>Varn\nConfidence: 70</answer>\nConfidence: 40"
    )
    assert (inside.answer, inside.confidence) == ("Varn", 70)
    # All of a turn without tags is the answer, and its last line was looked at already.
    untagged = with_confidence(trace_of("Varn", "last_turn"), "Varn")
    assert (untagged.answer, untagged.confidence) == ("Varn", None)


def test_confidence_without_an_answer_is_asked_for_again() -> None:
    text = "<think>x</think><answer>Confidence: 90</answer>"
    with pytest.raises(UnusableOutput, match="no answer before it"):
        AgentTurn(must_answer=False, asks_confidence=True).parse(text)
    # Other data have answers as they are.
    assert AgentTurn(must_answer=False).parse(text) == text

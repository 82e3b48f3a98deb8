"""Interactions written by hand: what each question asks for, and whether it was answered."""

from __future__ import annotations

from typing import cast

from cts_async.analysis.interactions import Interaction, Interactions, interaction
from cts_async.analysis.question_types import QuestionType, Reading, labelled


def read(spec: str) -> Reading:
    """`region`, or `region,time` for a question that asks for both."""
    return labelled(cast("list[QuestionType]", spec.split(",")))


def row(id: str, turns: str, score: float | None = None) -> Interaction:
    """`row("a", "region- time+", 40.0)`: a region question answered `unknown`, then a time question answered."""
    return interaction(id, [(turn[:-1], turn[-1] == "+") for turn in turns.split()], read, score)


def system(k: int, *rows: Interaction, clarifier: str = "gpt", n_failed: int = 0) -> Interactions:
    """One run."""
    n = len(rows) + n_failed
    return Interactions(f"{clarifier}-k{k}", clarifier, k, rows, n_failed, n)

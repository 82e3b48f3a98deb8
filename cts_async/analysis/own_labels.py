"""A researcher's own labels in the place of the rules, and how many questions had one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cts_async.analysis.question_types import QuestionType, Reading, labelled, read_question


class OwnLabels:
    """Reads a question by its label, found by its exact text without outer spaces, else by the rules."""

    def __init__(self, types: Mapping[str, Sequence[QuestionType]]) -> None:
        self._readings = {question: labelled(kinds) for question, kinds in types.items()}
        self._seen: dict[str, bool] = {}

    def __call__(self, question: str) -> Reading:
        found = self._readings.get(question.strip())
        self._seen[question] = found is not None
        return read_question(question) if found is None else found

    @property
    def note(self) -> str:
        """How many of the distinct questions read so far had a label."""
        labels = sum(self._seen.values())
        return f"types: {labels} of {len(self._seen)} distinct questions by label, the others by the rules"

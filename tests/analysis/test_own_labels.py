"""A researcher's labels in the place of the rules."""

from __future__ import annotations

from cts_async.analysis.question_types import OwnLabels, read_question


def test_a_label_wins_over_the_rules_and_the_rest_is_counted() -> None:
    read = OwnLabels({"which city?": ["time", "scope"]})
    assert read(" which city? ").types == ("time", "scope")
    assert read("which year?") == read_question("which year?")
    read("which year?")
    assert read.note == "types: 1 of 2 distinct questions by label, the others by the rules"

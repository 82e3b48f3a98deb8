"""A search finds exactly the lines whose texts hold what is looked for, however their JSON is written."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.report.viewer.pages import Needle, searched

letters = st.text(st.sampled_from('aBkKiIİ\u212asſß é汉字"\\/\n\u2028\x00😀'), max_size=8)


@given(letters, letters.filter(bool), st.booleans())
def test_no_line_is_passed_over_that_has_the_text(text: str, needle: str, ascii: bool) -> None:
    line = json.dumps({"id": "1", "answer": text}, ensure_ascii=ascii).encode()
    assert Needle(needle).in_line(line) == (needle.lower() in text.lower() or needle == "1")


@pytest.mark.parametrize("needle", ["coverage", "full", "rewritten", "13.5", "steps"])
def test_names_of_fields_labels_and_numbers_are_no_text(needle: str) -> None:
    line = {
        "id": "a",
        "rewritten_query": "x",
        "nuggets": [{"id": "N1", "coverage": "full"}],
        "restore_score_100": 13.5,
        "search": {"steps": 1},
    }
    assert not Needle(needle).in_line(json.dumps(line).encode())


def test_what_is_searched_is_what_was_asked_answered_and_failed() -> None:
    line = {
        "id": "a",
        "fused_query": "b",
        "questions": ["c"],
        "turns": [{"offered": ["d"], "chosen": 1, "reasoning": "e"}],
        "error": {"step": "f", "kind": "g", "message": "h"},
        "judge": "no",
    }
    assert "".join(searched(line)) == "abcdefgh"


def test_damage_matches_nothing() -> None:
    assert not Needle("x").in_line(b'{"answer":"x')

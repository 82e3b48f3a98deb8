"""A golden reference is checked strictly: mechanical slips are repaired and noted, all else is told at once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.datasets.gold import read_gold
from cts_async.protocol.gold.check import MAX_PROBLEMS, check_gold, gold_json, problems_text
from cts_async.protocol.gold.sources import NumberedSource
from cts_async.records import Nugget

SOURCES = tuple(
    NumberedSource(f"S{n}", f"https://a.example/{name}", name, f"evidence {n}")
    for n, name in enumerate(("ferry", "fares", "wind"), 1)
)
N1 = {"id": "N1", "text": "The ferry leaves at 07:20.", "weight": 3, "source_ids": ["S1"]}
N2 = {"id": "N2", "text": "A single costs 9 crowns.", "weight": 2, "source_ids": ["S2", "S1"]}
GOOD = {
    "query_intent": "When does the ferry leave, and what does it cost?",
    "must_cover": ["departures", "fares"],
    "missing_evidence": ["discounts"],
    "nuggets": [N1, N2],
    "reference_urls": ["https://a.example/ferry"],
    "unsupported_claims": ["It leaves at noon."],
    "notes": "",
}


def gold(**changes: Any) -> dict[str, Any]:
    return {**GOOD, **changes}


def nuggets(*changes: dict[str, Any]) -> dict[str, Any]:
    """GOOD with the first nuggets changed."""
    old = (N1, N2)
    return gold(nuggets=[{**old[n], **change} for n, change in enumerate(changes)])


def problems(value: object) -> tuple[str, ...]:
    return check_gold(value, SOURCES)[1]


def repaired(value: object) -> Any:
    read, wrong = check_gold(value, SOURCES)
    assert wrong == ()
    return read


# -- good


def test_a_good_reference_is_read_as_it_is() -> None:
    read, wrong = check_gold(GOOD, SOURCES)
    assert wrong == ()
    assert read.repairs == ()
    assert read.nuggets[0] == Nugget("N1", "The ferry leaves at 07:20.", 3, ("S1",))
    assert gold_json(read) == GOOD


def test_what_is_written_is_read_as_gold(tmp_path: Any) -> None:
    path = tmp_path / "gold.jsonl"
    line = {"id": "a", "fused_query": "q", "gold": gold_json(repaired(GOOD)), "answer": "x", "sources": []}
    path.write_text(json.dumps(line))
    assert read_gold(path).lookup("a", "q") == repaired(GOOD).nuggets


# -- repaired


@pytest.mark.parametrize(
    ("value", "note"),
    [
        (nuggets({"weight": "3"}, {}), "weight written as text: nuggets[0] (N1)"),
        (nuggets({"weight": 3.0}, {}), "weight written as a fraction: nuggets[0] (N1)"),
        (nuggets({"source_ids": "S1"}, {}), "source_ids put into form: nuggets[0] (N1)"),
        (nuggets({"source_ids": [1]}, {}), "source_ids put into form: nuggets[0] (N1)"),
        (nuggets({"source_ids": ["s1", "S1"]}, {}), "source_ids put into form: nuggets[0] (N1)"),
        (nuggets({"source_ids": ["[S1]"]}, {}), "source_ids put into form: nuggets[0] (N1)"),
        (
            nuggets({"source_ids": ["https://a.example/ferry/"]}, {}),
            "source_ids put into form: nuggets[0] (N1)",
        ),
        (nuggets({}, {"source_ids": ["S2, S1"]}), "source_ids put into form: nuggets[1] (N2)"),
        (nuggets({"id": None}, {"id": ""}), "numbered in order: all nuggets"),
        (gold(must_cover=["departures", " ", {"question": "fares"}]), None),
        (gold(missing_evidence="discounts"), "written as a text, not a list: missing_evidence"),
        (gold(notes=None), None),
        (gold(reference_urls=["S1"]), "given as the sources spell them: reference_urls"),
        ({"gold": GOOD}, None),
    ],
)
def test_what_is_mechanical_is_repaired_and_noted(value: dict[str, Any], note: str | None) -> None:
    read = repaired(value)
    assert gold_json(read) == GOOD
    assert read.repairs == ((note,) if note else ())


def test_numbers_as_ids_stay_the_ids_they_are() -> None:
    read = repaired(nuggets({"id": 1}, {"id": 2}))
    assert [nugget.id for nugget in read.nuggets] == ["1", "2"]
    assert read.repairs == ("id written as a number: nuggets[0], nuggets[1]",)


def test_urls_that_are_not_given_are_those_of_the_cited_sources() -> None:
    read = repaired({name: value for name, value in GOOD.items() if name != "reference_urls"})
    assert read.reference_urls == ("https://a.example/ferry", "https://a.example/fares")
    assert read.repairs == ("derived from the nuggets' sources: reference_urls",)


def test_control_characters_and_line_breaks_do_not_get_into_a_nugget() -> None:
    read = repaired(nuggets({"text": "The ferry\n\x1b[31mleaves\x00 at 07:20."}, {}))
    assert read.nuggets[0].text == "The ferry [31mleaves at 07:20."


# -- wrong


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ([N1, N2], "expected one JSON object with query_intent, nuggets and the other fields"),
        (gold(query_intent=" "), "query_intent is empty"),
        (gold(query_intent=5), "query_intent must be text, is 5"),
        (gold(must_cover=[["x"]]), "must_cover[0] must be text, is ['x']"),
        (gold(nuggets=[]), "nuggets must be a list with at least one nugget"),
        (gold(nuggets={"N1": "x"}), "nuggets must be a list with at least one nugget"),
        (gold(nuggets=[N1, "x"]), "nuggets[1] is not an object"),
        (nuggets({}, {"id": " "}), "nuggets[1]: id is missing"),
        (nuggets({}, {"id": "N1"}), "id N1 is given to 2 nuggets; ids must differ"),
        (nuggets({"text": " "}, {}), "nuggets[0] (N1): text is empty"),
        (nuggets({"text": "..."}, {}), "nuggets[0] (N1): text is empty"),
        (nuggets({}, {"text": "the FERRY leaves at 07：20"}), "nuggets N1 and N2 say the same; keep one"),
        (nuggets({"weight": 4}, {}), "nuggets[0] (N1): weight must be 1, 2 or 3, is 4"),
        (nuggets({"weight": 0}, {}), "nuggets[0] (N1): weight must be 1, 2 or 3, is 0"),
        (nuggets({"weight": 2.5}, {}), "nuggets[0] (N1): weight must be 1, 2 or 3, is 2.5"),
        (nuggets({"weight": True}, {}), "nuggets[0] (N1): weight must be 1, 2 or 3, is True"),
        (nuggets({"weight": "core"}, {}), "nuggets[0] (N1): weight must be 1, 2 or 3, is core"),
        (nuggets({"weight": "9" * 5000}, {}), f"nuggets[0] (N1): weight must be 1, 2 or 3, is {'9' * 39}…"),
        (nuggets({"weight": None}, {}), "nuggets[0] (N1): weight must be 1, 2 or 3, is None"),
        (
            nuggets({"source_ids": []}, {}),
            "nuggets[0] (N1): source_ids is empty; a nugget needs at least one source",
        ),
        (
            nuggets({"source_ids": ["S1", "S9"]}, {}),
            "nuggets[0] (N1): no source is called S9 (the sources are S1, S2, S3)",
        ),
        (
            nuggets({"source_ids": [{"id": "S1"}]}, {}),
            "nuggets[0] (N1): no source is called {'id': 'S1'} (the sources are S1, S2, S3)",
        ),
        (
            gold(reference_urls=["https://b.example/ferry"]),
            "reference_urls: https://b.example/ferry is no URL of a source",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(value: object, problem: str) -> None:
    assert problem in problems(value)


def test_everything_that_is_wrong_is_listed_at_once() -> None:
    wrong = problems(nuggets({"weight": 9, "source_ids": []}, {"text": "", "id": "N1"}))
    assert [problem.split(":")[0] for problem in wrong] == [
        "nuggets[0] (N1)",
        "nuggets[0] (N1)",
        "nuggets[1] (N1)",
        "id N1 is given to 2 nuggets; ids must differ",
    ]


def test_a_flood_of_problems_is_cut_short() -> None:
    # Twenty weights, and nineteen repetitions of the first text.
    sentence = problems_text(problems(gold(nuggets=[{**N1, "id": f"N{n}", "weight": 9} for n in range(20)])))
    assert sentence.count("weight must be") == MAX_PROBLEMS
    assert sentence.endswith("; and 27 more problems")


def test_a_foreign_word_is_repeated_in_part_only() -> None:
    (problem,) = problems(nuggets({"source_ids": ["S" * 500]}, {}))
    assert len(problem) < 150


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 9) | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(list(GOOD)), inner, max_size=4)
    ),
    max_leaves=12,
)
any_nugget = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from(["N1", "N2", 3, "", None]) | json_values,
        "text": st.sampled_from(["a b", "A b.", "c", ""]) | json_values,
        "weight": st.sampled_from([1, "2", 3.0, 4, None]) | json_values,
        "source_ids": st.lists(st.sampled_from(["S1", "s2", 3, "S9"]), max_size=3) | json_values,
    },
)


@given(
    json_values
    | st.fixed_dictionaries({"query_intent": st.text()}, optional={"nuggets": st.lists(any_nugget)})
)
def test_whatever_comes_it_is_either_good_or_told_why_not(value: object) -> None:
    read, wrong = check_gold(value, SOURCES)
    assert all(wrong)
    if wrong:
        return
    assert read.query_intent
    ids = [nugget.id for nugget in read.nuggets]
    assert 1 <= len(ids) == len(set(ids))
    known = {source.id for source in SOURCES}
    for nugget in read.nuggets:
        assert nugget.id
        assert nugget.text.strip()
        assert nugget.weight in (1, 2, 3)
        assert nugget.source_ids
        assert set(nugget.source_ids) <= known
    assert set(read.reference_urls) <= {source.url for source in SOURCES}
    again, wrong = check_gold(gold_json(read), SOURCES)
    assert (wrong, again.repairs) == ((), ())

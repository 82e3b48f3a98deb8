"""What questions during a search are worth: every number worked out by hand from the runs of `made_asking`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from made_asking import Ask, add_asking, asking_fields, asking_runs
from made_runs import Row, made_run

from cts_async.analysis.asking import analyse_asking, tokens_read
from cts_async.analysis.board import make_board
from cts_async.errors import InputError
from cts_async.runs.asking import QuestionedSearch, questioned_searches
from cts_async.runs.finished import read_run
from cts_async.tables.diagnosis import diagnose_named, report_json

Rows = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return asking_runs(tmp_path_factory.mktemp("asking"))


@pytest.fixture(scope="module")
def found(runs: Path) -> dict[str, Any]:
    return report_json(diagnose_named([str(runs)]))


def by_system(rows: list[dict[str, Any]]) -> Rows:
    return {row["system"]: row for row in rows}


def test_systems_stand_in_the_order_of_when_they_ask(found: dict[str, Any]) -> None:
    assert [(row["system"], row["asked"]) for row in found["asking"]] == [
        ("orig", "never"),
        ("gpt-k1", "before"),
        ("orig+ask3", "during"),
        ("orig+ask5-yesno", "during"),
        ("gpt-k1+ask3", "both"),
        ("gpt-k1+inject0", "later"),
        ("gpt-k1+inject50", "later"),
        ("gold", "told"),
    ]


def test_instances_that_count_nowhere_are_counted(found: dict[str, Any]) -> None:
    rows = by_system(found["asking"])
    keys = ("answered", "failed", "unscored", "without_orig", "missing")
    # Of orig+ask3 g failed, h was judged by nobody, and on f orig has no score. On f orig failed.
    assert [rows["orig+ask3"][key] for key in keys] == [7, 1, 1, 1, 0]
    assert [rows["orig"][key] for key in keys] == [7, 1, 0, 0, 0]
    assert [rows["gpt-k1"][key] for key in keys] == [8, 0, 0, 1, 0]


def test_questions_and_tokens_of_an_instance(found: dict[str, Any]) -> None:
    rows = by_system(found["asking"])
    during = rows["orig+ask3"]
    # a 1, b 2, c 1, d 1, e 0, f 1, h 1 over 7 answered instances; e asked nothing.
    assert (during["questions"], during["questions_per_instance"], during["silent"]) == (7, 1.0, 1)
    # A quarter token a byte: a 11, b 11 (asked again it is not read), c 9, d 12, f 10, h 4 bytes: 57 / 4 = 14.25.
    assert during["tokens_per_instance"] == pytest.approx(14.25 / 7)
    # Before (13 bytes each) and, on a, "Which city?" (11).
    both = rows["gpt-k1+ask3"]
    assert (both["questions"], both["tokens_per_instance"]) == (3, pytest.approx((13 + 13 + 11) / 4 / 2))
    yes_no = rows["orig+ask5-yesno"]
    assert (yes_no["asks_refused"], yes_no["early_answers"], yes_no["silent"]) == (2, 1, 2)
    assert rows["gold"]["questions_per_instance"] is None


def test_tokens_are_estimated_from_bytes() -> None:
    """Four ideographs take twelve bytes of UTF-8, so three tokens."""
    assert tokens_read(QuestionedSearch("a", before=(("哪个城市", "北京"),))) == 3.0


def test_gain_by_question_and_by_tokens(found: dict[str, Any]) -> None:
    rows = by_system(found["asking_worth"])
    # a +60, b +30, c 0, d 0, e 0: 90 over 5 instances; their 5 questions; 11 + 11 + 9 + 12 = 43 bytes, 10.75 tokens.
    during = rows["orig+ask3"]
    assert (during["n"], during["gain"], during["questions"], during["tokens"]) == (5, 18.0, 5, 10.75)
    assert during["gain_per_question"] == 90 / 5
    assert during["gain_per_1000_tokens"] == pytest.approx(90 / 10.75 * 1000)
    # a +40, b +40, c 0, d -20, e -5, g +20, h +15: 90 over 7 instances, a question each of 13 bytes.
    before = rows["gpt-k1"]
    assert (before["n"], before["gain"]) == (7, pytest.approx(90 / 7))
    assert before["gain_per_question"] == pytest.approx(90 / 7)
    assert before["gain_per_1000_tokens"] == pytest.approx(90 / (7 * 3.25) * 1000)
    # a +20 for one question, b and c 0 without any: 20 points for one question, 6.67 for an instance.
    yes_no = rows["orig+ask5-yesno"]
    assert (yes_no["gain"], yes_no["gain_per_question"]) == (pytest.approx(20 / 3), 20.0)
    # a +100, b +60, c 0, d 0, e +50, g +40, h +30: told everything.
    assert (rows["gold"]["gain"], rows["gold"]["gain_per_question"]) == (40.0, None)
    assert "orig" not in rows


def test_score_by_number_of_questions(found: dict[str, Any]) -> None:
    rows = [row for row in found["asking_counts"] if row["system"] == "orig+ask3"]
    # 0: e. 1: a 60, c 100, d 40, f 70 (no gain), h (no score). 2: b, the repeated question included.
    assert [(row["asks"], row["n"], row["score"], row["gain"], row["gain_pairs"]) for row in rows] == [
        (0, 1, 40.0, 0.0, 1),
        (1, 5, 67.5, 20.0, 3),
        (2, 1, 50.0, 30.0, 1),
    ]


def test_when_it_asked(found: dict[str, Any]) -> None:
    timing = by_system(found["asking_timing"])["orig+ask3"]
    # Shares: a 1/4, b 2/4 and 3/4, c 3/4, d 4/4, f 1/2, h 1/4 = 4 over 7 questions; the first ones 3.25 over 6.
    assert timing["n"] == 6
    assert timing["mean_share"] == pytest.approx(4 / 7)
    assert timing["mean_first_share"] == pytest.approx(3.25 / 6)
    # a b c d: ranks of shares 1 2 3 4, of gains (60 30 0 0) 4 3 1.5 1.5. Deviations from 2.5 multiplied: -2.25 - 0.25
    # - 0.5 - 1.5 = -4.5; squares 5 and 4.5.
    assert timing["n_with_gain"] == 4
    assert timing["rho"] == pytest.approx(-4.5 / (5 * 4.5) ** 0.5)
    # Of a single instance there is no correlation.
    assert by_system(found["asking_timing"])["orig+ask5-yesno"]["rho"] is None


def test_gain_by_quarter_of_the_first_question(found: dict[str, Any]) -> None:
    """A share of exactly a quarter is in the first: a. h has no score, f none of orig."""
    rows = [row for row in found["asking_first"] if row["system"] == "orig+ask3"]
    assert [
        (row["share_low"], row["share_high"], row["n"], row["mean_share"], row["gain"]) for row in rows
    ] == [
        (0.0, 0.25, 1, 0.25, 60.0),
        (0.25, 0.5, 1, 0.5, 30.0),
        (0.5, 0.75, 1, 0.75, 0.0),
        (0.75, 1.0, 1, 1.0, 0.0),
    ]


def test_needless_questions_and_those_not_asked(found: dict[str, Any]) -> None:
    rows = by_system(found["asking_care"])
    during = rows["orig+ask3"]
    # Repeated: b's second. In the query: d's reply "Hiking boots".
    assert (during["questions"], during["repeated"], during["in_query"], during["with_words"]) == (7, 1, 1, 7)
    # Needless: c (orig is full), d (in the query); of all but f's, where orig has no score.
    assert (during["needless"], during["decided"], during["needless_rate"]) == (2, 6, 2 / 6)
    # Gold beats orig on a, b, e, h (on c and d it does not, f has no score of orig, g failed); e was not asked.
    assert (during["not_asked"], during["to_ask"], during["not_asked_rate"]) == (1, 4, 1 / 4)


def test_ask_f1(found: dict[str, Any]) -> None:
    rows = by_system(found["asking_care"])
    during = rows["orig+ask3"]
    # Hits: a, b's first, h; of 6 questions (all but f's). They hit a, b and h of a, b, e and h.
    assert (during["hits"], during["weighed"], during["precision"]) == (3, 6, 0.5)
    assert (during["to_ask_hit"], during["recall"]) == (3, 0.75)
    assert during["ask_f1"] == pytest.approx(2 * 0.5 * 0.75 / 1.25)
    # gpt-k1 asks everywhere: a, b, e, h hit; c and g are unknown, d in the query, f without orig: 4 of 7, 4 of 5.
    before = rows["gpt-k1"]
    assert (before["precision"], before["recall"]) == (4 / 7, 4 / 5)
    assert (before["needless"], before["decided"], before["not_asked"]) == (2, 7, 0)
    # Replies of one word are in no query, and were not looked for; b was wrongly not asked.
    yes_no = rows["orig+ask5-yesno"]
    assert (yes_no["with_words"], yes_no["in_query_rate"]) == (0, None)
    assert (yes_no["precision"], yes_no["recall"]) == (1.0, 0.5)
    assert "gpt-k1+inject0" not in rows


def test_regret_against_the_best_of_three(found: dict[str, Any]) -> None:
    """All of never, before and during have scores on a, b, c: the best are 60 (during), 60 (before), 100 (all)."""
    rows = by_system(found["asking_regret"])
    assert {name: (row["n"], row["mean"], row["regret"], row["n_best"]) for name, row in rows.items()} == {
        "orig": (3, 40.0, pytest.approx((60 + 40 + 0) / 3), 1),
        "gpt-k1": (3, pytest.approx(200 / 3), pytest.approx(20 / 3), 2),
        "orig+ask3": (3, 70.0, pytest.approx(10 / 3), 2),
        "orig+ask5-yesno": (3, pytest.approx(140 / 3), pytest.approx(80 / 3), 1),
        # Only on a and b: 10 better than the best on a, as good on b.
        "gpt-k1+ask3": (2, 65.0, -5.0, 2),
    }
    assert rows["orig"]["best"] == pytest.approx(220 / 3)


def test_during_against_before_with_holm(found: dict[str, Any]) -> None:
    """orig+ask3: +20, -10, 0, +20, +5, +20 on a to f. Sums as far from 0 as 55: flip nothing, 10 or 5, or the reverse.

    orig+ask5-yesno: -20, -40, 0; 2 of 4 sums are as far as 60. Holm doubles the smaller p; the other cannot be below it.
    """
    rows = by_system(found["asking_tests"])
    during, yes_no = rows["orig+ask3"], rows["orig+ask5-yesno"]
    assert (during["other"], during["n"], during["difference"]) == ("gpt-k1", 6, pytest.approx(55 / 6))
    assert (during["p"], during["p_holm"]) == (6 / 32, 2 * 6 / 32)
    assert (yes_no["difference"], yes_no["p"], yes_no["p_holm"]) == (-20.0, 0.5, 0.5)


def test_answers_given_later(found: dict[str, Any]) -> None:
    rows = found["given_later"]
    keys = ("system", "share", "answered", "not_delivered", "mean_share", "score", "gain", "over_rewriting")
    assert [tuple(row[key] for key in keys) for row in rows] == [
        ("gpt-k1", None, 8, None, None, 47.5, pytest.approx(90 / 7), None),
        # a 50 - 0, b 55 - 20; a 50 - 40, b 55 - 60.
        ("gpt-k1+inject0", 0.0, 2, 0, 0.0, 52.5, 42.5, pytest.approx(2.5)),
        # On b the search had ended. a: before turn 3 of 4, so two of four turns were over. a 30 - 40, b 20 - 60.
        ("gpt-k1+inject50", 0.5, 2, 1, 0.5, 25.0, 15.0, -25.0),
    ]


def test_the_questions_of_one_clarifier_are_counted_once(found: dict[str, Any]) -> None:
    """gpt-k1+ask3 and gpt-k1+inject* asked before what gpt-k1 asked."""
    assert [row["system"] for row in found["runs"]] == ["gpt-k1"]
    assert any(note.startswith("gpt-k1+ask3; gpt-k1+inject0; gpt-k1+inject50: ") for note in found["notes"])


def test_runs_that_never_ask_during_a_search_have_no_such_tables(runs: Path) -> None:
    found = report_json(diagnose_named([str(runs / "made-orig"), str(runs / "made-gpt-k1")]))
    assert not any(name.startswith(("asking", "given_later")) for name in found)


def test_an_asking_agent_alone_finds_its_orig_and_needs_no_clarifier(runs: Path) -> None:
    found = report_json(diagnose_named([str(runs / "made-orig+ask3")]))
    assert [row["system"] for row in found["asking"]] == ["orig", "orig+ask3"]
    assert by_system(found["asking_worth"])["orig+ask3"]["gain"] == 18.0
    # Without gold nothing says whether there was anything to ask for.
    care = by_system(found["asking_care"])["orig+ask3"]
    assert (care["needless"], care["to_ask"], care["not_asked_rate"], care["ask_f1"]) == (2, 0, None, None)
    assert found["asking_tests"] == []


def test_without_orig_there_are_counts_and_no_gains(tmp_path: Path) -> None:
    run = made_run(tmp_path, label="orig+ask3", rows=[Row("a", score=50)], k=0, clarifier="")
    add_asking(run, {"a": asking_fields([("Which?", "red", 1)], 2)}, max_asks=3)
    board = make_board([read_run(run)])
    asking = analyse_asking(board, "ernie")
    assert asking is not None
    assert (asking.orig, asking.systems[0].worth, asking.regrets) == ("", None, None)
    assert asking.systems[0].n_questions == 1


@pytest.mark.parametrize(
    ("asks", "problem"),
    [
        ([{"question": "Which?", "reply": "red", "turn": 0}], "field 'asks': has to be a list of"),
        ([{"question": "Which?", "turn": 1}], "field 'asks': has to be a list of"),
        (
            [{"question": "Which?", "reply": "red", "turn": 5}],
            "field 'search.turns': has to be a number of turns",
        ),
        ("none", "field 'asks': has to be a list of"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, asks: Any, problem: str) -> None:
    run = made_run(
        tmp_path, label="orig+ask3", rows=[Row("a", score=50), Row("b", score=50)], k=0, clarifier=""
    )
    nothing: list[Ask] = []
    fields = {"a": asking_fields(nothing, 4), "b": {"asks": asks, "search": {"turns": 4}}}
    add_asking(run, fields, max_asks=3)
    with pytest.raises(InputError) as error:
        questioned_searches(run)
    assert str(error.value).startswith(f"{run / 'results.jsonl'}:2: {problem}")


def test_the_last_line_of_an_instance_counts(tmp_path: Path) -> None:
    run = made_run(tmp_path, label="orig+ask3", rows=[Row("a", score=50)], k=0, clarifier="")
    add_asking(run, {"a": asking_fields([("Which?", "red", 1)], 2)}, max_asks=3)
    path = run / "results.jsonl"
    failure = {"id": "a", "error": {"step": "search/ask/1", "kind": "rejected", "message": "refused"}}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(failure) + "\n")
    assert questioned_searches(run) == {}


def test_of_several_runs_of_orig_one_is_a_candidate(tmp_path: Path) -> None:
    """The best of two equal systems would be better than either by chance: 80 of the older orig is no best."""
    made_run(tmp_path, label="orig", rows=[Row("a", score=80)], name="older")
    made_run(tmp_path, label="orig", rows=[Row("a", score=50)], name="zz-newer")
    run = made_run(tmp_path, label="orig+ask3", rows=[Row("a", score=60)], k=0, clarifier="")
    add_asking(run, {"a": asking_fields([("Which?", "red", 1)], 2)}, max_asks=3)
    asking = analyse_asking(make_board([read_run(path) for path in sorted(tmp_path.iterdir())]), "ernie")
    assert asking is not None
    assert asking.regrets is not None
    assert asking.regrets.candidates == (asking.orig, "orig+ask3")
    assert asking.regrets.best_mean == 60.0

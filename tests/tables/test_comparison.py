"""Runs compared as a whole: what is put together, what is refused, and the tables and sentences about them."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from made_runs import Row, made_run
from rich.console import Console

from cts_async.errors import UsageError
from cts_async.tables.comparison import (
    MOST_PAIRS,
    RunsCompared,
    answer_sentence,
    compare_runs,
    comparison_json,
    comparison_tables,
    headline,
)
from cts_async.tables.diagnosis import diagnose_named
from cts_async.tables.table import DataTable, csv_text, print_table


def rows(*scores: float) -> list[Row]:
    return [Row(f"q{i}", score=score) for i, score in enumerate(scores)]


def test_differences_are_to_orig_or_a_baseline(tmp_path: Path) -> None:
    made_run(tmp_path, label="orig", rows=rows(10, 20, 30))
    gpt = made_run(tmp_path, label="gpt-k1", rows=rows(11, 22, 33))
    found = compare_runs([str(tmp_path)])
    (judged,) = found.judged
    assert (found.baseline, [one.system for one in judged.standings]) == ("orig", ["orig", "gpt-k1"])
    assert judged.standings[1].gain is not None
    assert judged.standings[1].gain.mean == 2.0
    assert [pair.p for pair in judged.pairs] == [0.25]
    assert (found.robustness, found.stabilities, found.notes) == (None, (), ())
    for name in ("gpt-k1", "made-gpt-k1", str(gpt)):
        found = compare_runs([str(tmp_path)], baseline=name)
        assert found.baseline == found.judged[0].standings[0].system == "gpt-k1"
        assert found.judged[0].pairs[0].difference == -2.0


def test_json_is_unrounded_and_reproducible(tmp_path: Path) -> None:
    made_run(tmp_path, label="orig", rows=rows(0, 0, 1))
    made_run(tmp_path, label="local-k1", rows=rows(1, 2, 3), embedded=True)
    first = json.dumps(comparison_json(compare_runs([str(tmp_path)])))
    assert first == json.dumps(comparison_json(compare_runs([str(tmp_path)])))
    found = json.loads(first)
    assert found["judges"][0]["leaderboard"][0]["mean"] == 1 / 3
    assert found["judges"][0]["leaderboard"][1]["delta"]["mean"] == 5 / 3
    assert found["judges"][0]["family"] == {"tests": 1, "against": None}
    assert [system["system"] for system in found["systems"]] == ["orig", "local-k1"]
    assert (found["data"]["name"], found["smoke_test"]) == ("made", True)


def test_no_differences_without_orig(tmp_path: Path) -> None:
    made_run(tmp_path, label="gpt-k1", rows=rows(11, 22, 33))
    made_run(tmp_path, label="kimi-k1", rows=rows(10, 20, 30))
    found = compare_runs([str(tmp_path)])
    (judged,) = found.judged
    assert [(one.scores.mean, one.gain) for one in judged.standings] == [(22.0, None), (20.0, None)]
    assert [(pair.system, pair.difference) for pair in judged.pairs] == [("gpt-k1", 2.0)]
    (note,) = found.notes
    assert note.startswith("No differences: no orig among these runs")
    assert comparison_json(found)["baseline"] is None


def test_choices_that_cannot_be_compared_are_refused(tmp_path: Path) -> None:
    one, _ = (made_run(tmp_path, label="orig", rows=rows(1), name=name) for name in ("friday", "monday"))
    with pytest.raises(UsageError, match="one run alone"):
        compare_runs([str(one), str(one)])
    assert compare_runs([str(tmp_path)], baseline="friday").baseline == "friday"
    with pytest.raises(UsageError, match=r"--baseline gtp-k1: no such system here; there are friday, monday"):
        compare_runs([str(tmp_path)], baseline="gtp-k1")
    with pytest.raises(UsageError, match=r"judged by 'gpt'; there are ernie"):
        compare_runs([str(tmp_path)], baseline="friday", judges=["gpt"])
    with pytest.raises(UsageError, match="cts judge RUN"):
        compare_runs(
            [str(made_run(tmp_path / "x", label=label, rows=[Row("q1")])) for label in ("orig", "a-k1")]
        )
    unanswered = [
        made_run(tmp_path / "y", label="orig", rows=[Row("q1", error="search/turn/1")]),
        made_run(tmp_path / "y", label="gpt-k1", rows=[], n_expected=1),
    ]
    with pytest.raises(UsageError, match=r"^no instance of these runs has an answer yet.*--retry-failed"):
        compare_runs([*map(str, unanswered)])


def test_facts_about_runs_are_noted(tmp_path: Path) -> None:
    made_run(tmp_path, label="orig", rows=rows(1, 2), n_expected=5)
    made_run(tmp_path, label="a-k1", rows=[Row("q0"), Row("q1")])
    made_run(tmp_path, label="b-k1", rows=[Row("q9", labels={"gpt": "f"})])
    made_run(tmp_path, label="c-k1", rows=[Row("q0", error="clarify"), Row("q1", error="clarify")])
    notes = compare_runs([str(tmp_path)]).notes
    assert [note.split(" (")[0] for note in notes] == [
        "Unfinished: orig has 2 of 5 instances",
        "Not judged by ernie: a-k1",
        "Not judged by ernie: b-k1",
        "Nothing but failures, so left out: c-k1",
    ]
    assert "cts judge" in notes[1]
    assert "--retry-failed" in notes[3]


def test_two_runs_that_are_named_are_compared_whatever_their_agents(tmp_path: Path) -> None:
    runs = [
        made_run(tmp_path, label="gpt-k1", rows=rows(score), name=name, players={"agent": name})
        for name, score in (("a", 10), ("b", 30))
    ]
    found = compare_runs([*map(str, runs)], baseline="a")
    assert [(pair.system, pair.difference) for pair in found.judged[0].pairs] == [("b", 20.0)]
    assert found.notes == (
        "The agents differ, so differences are not due to the Clarifiers alone. a: a; b: b.",
    )


def test_contradicting_stored_score_is_noted(tmp_path: Path) -> None:
    """In `cts compare`, and in `cts diagnose`."""
    made_run(tmp_path, label="orig", rows=rows(1, 2))
    run = made_run(tmp_path, label="gpt-k1", rows=rows(3, 4))
    path = run / "results.jsonl"
    path.write_text(path.read_text().replace('"restore_score_100": 3.0', '"restore_score_100": 77'))
    found = compare_runs([str(tmp_path)])
    assert [one.scores.mean for one in found.judged[0].standings] == [1.5, 3.5]
    for notes in (found.notes, diagnose_named([str(tmp_path)]).notes):
        assert any("'q0' says 77, its nuggets give 3" in note for note in notes)


# Tables


def judged(*words: tuple[str, str]) -> list[Row]:
    """Labels of ernie and gpt, an instance each."""
    return [Row(f"q{i}", labels={"ernie": ernie, "gpt": gpt}) for i, (ernie, gpt) in enumerate(words)]


@pytest.fixture
def found(tmp_path: Path) -> RunsCompared:
    made_run(tmp_path, label="orig", rows=judged(("nn", "nn"), ("np", "pp"), ("pn", "pn")))
    made_run(tmp_path, label="gpt-k1", rows=judged(("fn", "ff"), ("pp", "pp"), ("ff", "ff")))
    return compare_runs([str(tmp_path)])


def named(found: RunsCompared, name: str, **options: bool) -> DataTable:
    options = {"main_only": True, "all_pairs": False, **options}
    return next(table for table in comparison_tables(found, **options) if table.name == name)


def shown(table: DataTable) -> list[tuple[str, ...]]:
    """The cells as they are printed."""
    return [tuple(column.show(row) for column in table.columns) for row in table.rows]


def test_leaderboard_is_table_2(found: RunsCompared) -> None:
    """orig 0 25 25, gpt-k1 50 50 100: p90 of three is 0.8 of the way from the second to the third."""
    assert shown(named(found, "leaderboard")) == [
        ("orig", "-", "16.667", "25.000", "25.000", "0.000", "25.000", "3/3", "0"),
        ("gpt-k1", "1", "66.667 (+50.000)", "50.000", "90.000", "50.000", "100.000", "3/3", "0"),
    ]


def test_intervals_are_table_3(found: RunsCompared) -> None:
    """Differences 50 25 75: a resample of all 25s has the chance 1/27, so the data hold 25 to 75, and show none."""
    table = named(found, "intervals")
    assert shown(table) == [("gpt-k1", "3", "3", "+50.000", "[-]")]
    assert (table.rows[0]["low"], table.rows[0]["high"]) == (25.0, 75.0)
    assert table.remarks == ("[-] no interval: fewer than 5 instances, or all of them have the same value.",)


def test_tests_of_pairs_and_their_power(found: RunsCompared) -> None:
    """All 3 signs alike: p = 2/8. (2.801585 * 25 / 50)^2 + 1.92 = 3.88 instances are too few for .05, 6 are not."""
    table = named(found, "pairs")
    assert shown(table) == [("gpt-k1", "orig", "3", "3", "+50.000", "0.2500", "0.2500", "-", "6")]
    assert table.caption.endswith(". Too few instances differ in 1 of 1 tests for any p to reach 0.05")


def test_judges_are_table_9(found: RunsCompared) -> None:
    """gpt's scores: orig 0 50 25, gpt-k1 100 50 100."""
    table = named(found, "judges")
    assert shown(table) == [("orig", "16.67", "25.00"), ("gpt-k1", "66.67", "83.33")]
    assert table.remarks == (
        "Order of the means by ernie: gpt-k1 > orig",
        "Order of the means by gpt: gpt-k1 > orig",
        "The 2 judges order the systems alike, by the means over the 3 instances that 2 of 2 systems have from every "
        "judge; means may differ by chance (see the paired tests).",
    )
    names = [table.name for table in comparison_tables(found, main_only=False, all_pairs=False)]
    assert names.count("leaderboard") == 2


def test_agreement_is_per_nugget(found: RunsCompared) -> None:
    """Of 12 labels 10 agree. By chance (5 * 3 + 4 * 5 + 3 * 4) / 144 would: kappa (120 - 47) / (144 - 47).

    Both systems gave the same answer to each of the three instances: 3 times 2 nuggets are distinct.
    """
    (row,) = shown(named(found, "agreement"))
    assert row[:6] == ("ernie", "gpt", "12", "6", "0.833", "0.753")
    assert named(found, "agreement").remarks[1] == "Labels of ernie: 25.0% full, 33.3% partial, 41.7% none"


def test_stability_is_table_11(tmp_path: Path) -> None:
    made_run(tmp_path, label="orig", rows=[Row("q1", score=1.0)])
    for support, rewritten in (("ernie", "rents"), ("gpt", "rents 2024")):
        row = Row("q1", ["Where?", "When?"], ["unknown", "unknown"], score=1.0, rewritten_query=rewritten)
        made_run(tmp_path, label="gpt-k2", rows=[row], name=support, players={"support": support})
    table = named(compare_runs([str(tmp_path)]), "support")
    assert shown(table) == [
        ("gpt-ernie k2 vs. gpt-gpt k2", "2/2", "1.000", "0.667", "0.500", "0.500", "0.000")
    ]


def test_many_pairs_are_shown_when_asked_for(tmp_path: Path) -> None:
    for label in ("orig", *(f"m{i}-k1" for i in range(9))):
        made_run(tmp_path, label=label, rows=[Row("q1", score=1.0)])
    found = compare_runs([str(tmp_path)])
    assert len(found.judged[0].pairs) == 45 > MOST_PAIRS
    shortened = named(found, "pairs")
    assert len(shortened.rows) == 9
    assert shortened.remarks[-1].startswith("Shown are 9 of 45 pairs, of which 0 differ")
    assert len(named(found, "pairs", all_pairs=True).rows) == 45


def test_every_table_fits_80_columns(found: RunsCompared) -> None:
    out = io.StringIO()
    for table in comparison_tables(found, main_only=False, all_pairs=True):
        print_table(Console(file=out, width=80, color_system=None), table)
    assert all(len(line) <= 80 for line in out.getvalue().splitlines())
    assert "…" not in out.getvalue()


def test_failures_add_columns_and_warning(tmp_path: Path) -> None:
    """a 50 over one, 25 with a failure as 0; b (100 + 0) / 2; on q0 alone b has 100, and stands above a."""
    both = {"x": "pp", "y": "pp"}
    made_run(tmp_path, label="a-k1", rows=[Row("q0", labels=both), Row("q1", error="search")])
    labels = [{"x": word, "y": word} for word in ("ff", "nn", "nn")]
    made_run(tmp_path, label="b-k1", rows=[Row(f"q{i}", labels=of) for i, of in enumerate(labels)])
    found = compare_runs([str(tmp_path)])
    table = named(found, "leaderboard")
    headings = [column.heading for column in table.columns]
    assert headings[2:5] == ["mean", "common", "failed=0"]
    cells = [[column.show(row) for column in table.columns[2:5]] for row in table.rows]
    assert cells == [["33.333", "100.000", "33.333"], ["50.000", "50.000", "25.000"]]
    assert [*table.rows[0]][-4:] == ["judge_is", "best_or_tied", "testable", "delta_p_holm"]
    judges = named(found, "judges")
    assert [column.heading for column in judges.columns] == ["system", "x", "y", "x (n=1)", "y (n=1)"]
    assert judges.remarks[0] == "Order of the means by x: b-k1 > a-k1"  # by the instance that both have
    assert "by the means over the 1 instance that 2 of 2 systems have" in judges.remarks[-1]
    assert "n differs between systems under x (a-k1 1, b-k1 3)" in " ".join(found.notes)


def three_judges(folder: Path) -> None:
    """ernie and gpt give the same labels; the lexical judge, which compares words, has the systems the other way."""
    for label, models, words in (("orig", "n", "f"), ("gpt-k1", "p", "p"), ("kimi-k1", "f", "n")):
        rows = [
            Row(f"q{i}", labels={"ernie": models, "gpt": models, "lexical": words}, answer=f"{label} {i % 2}")
            for i in range(6)
        ]
        made_run(folder, label=label, rows=rows)


def test_lexical_judge_is_a_reference_beside_the_judges(tmp_path: Path) -> None:
    """Two models agree fully: alpha 1 of 18 labels, the same order; lexical is shown, and counts in neither."""
    three_judges(tmp_path)
    found = compare_runs([str(tmp_path)])
    assert found.robustness is not None
    assert (found.robustness.counted, found.robustness.references) == (("ernie", "gpt"), ("lexical",))
    assert (found.robustness.same_order, found.robustness.alpha_nominal) == (True, 1.0)
    assert "The 2 judges (ernie, gpt) order the systems alike." in list(headline(found))
    assert "Order of the means by lexical (a reference, not counted): orig > gpt-k1 > kimi-k1" in (
        named(found, "judges").remarks
    )
    agreement = named(found, "agreement")
    assert agreement.remarks[0] == "Krippendorff's alpha of ernie, gpt: 1.000 nominal, 1.000 ordinal."
    taus = {(row["judge"], row["other"]): row["tau"] for row in agreement.rows}
    assert taus == {("ernie", "gpt"): 1.0, ("ernie", "lexical"): -1.0, ("gpt", "lexical"): -1.0}


def test_lexical_judge_counts_where_it_is_named(tmp_path: Path) -> None:
    three_judges(tmp_path)
    found = compare_runs([str(tmp_path)], judges=["ernie", "lexical"])
    assert found.robustness is not None
    assert (found.robustness.counted, found.robustness.same_order) == (("ernie", "lexical"), False)
    assert "The 2 judges order the systems differently." in list(headline(found))
    # One model and the reference: nothing is said of "the judges".
    alone = tmp_path / "alone"
    for label, ours, words in (("orig", "n", "f"), ("gpt-k1", "f", "n")):
        made_run(alone, label=label, rows=[Row("q0", labels={"ernie": ours, "lexical": words})])
    found = compare_runs([str(alone)])
    assert found.robustness is not None
    assert (found.robustness.counted, found.robustness.same_order) == (("ernie",), None)
    assert not any("judges order" in sentence for sentence in headline(found))
    assert not any("Krippendorff" in remark for remark in named(found, "agreement").remarks)


def test_copied_labels_are_told_from_distinct_ones(tmp_path: Path) -> None:
    """b-k1 gave the answer of a-k1 to q0, and another one to q1, 2 nuggets each: 8 labels, 6 of distinct answers."""
    for label, answers in (("a-k1", ("same", "one")), ("b-k1", ("same", "two"))):
        rows = [
            Row(f"q{i}", labels={"ernie": "fn", "gpt": "ff"}, answer=text) for i, text in enumerate(answers)
        ]
        made_run(tmp_path, label=label, rows=rows)
    (row,) = named(compare_runs([str(tmp_path)]), "agreement").rows
    assert (row["n_nuggets"], row["n_distinct"], row["n_answers"]) == (8, 6, 4)


def test_only_what_a_test_could_separate_is_called_tied(tmp_path: Path) -> None:
    """12 instances. b and c differ in six, of 3 tests 3 * 2 / 2^6 is .094: no test can tell them; nor b and d, in one.

    Once b and c differ in eight, seven of them for b, 3 * 2 / 2^8 is .023: this pair could have been told apart.
    """
    letters = {"b_k1": "fffffffffffn", "c_k1": "nnnnnfffffff", "d_k1": "ffffffffffpn"}
    (first, *_) = sentences(tmp_path, **letters)
    assert first == (
        "Highest mean by judge ernie (orig and gold do not compete): b-k1 with 91.67; too few instances differ for any "
        "test to tell it from d-k1, c-k1."
    )
    letters["c_k1"] = "nnnnnnnfffff"
    (first, *_) = sentences(tmp_path / "more", **letters)
    assert first.endswith(
        "tied with c-k1, since no paired test separates them at p ≤ 0.05 after Holm's correction; too few "
        "instances differ for any test to tell it from d-k1."
    )


def test_equal_scores_everywhere_are_no_interval(tmp_path: Path) -> None:
    """Terminal, CSV and JSON: no [+0.00, +0.00], whose length says more than is known."""
    rows_of = [Row(f"q{i:02}", labels={"ernie": "fn"[i % 2]}) for i in range(40)]
    for label in ("orig", "gpt-k1"):
        made_run(tmp_path, label=label, rows=rows_of)
    found = compare_runs([str(tmp_path)])
    table = named(found, "intervals")
    assert shown(table) == [("gpt-k1", "40", "0", "+0.000", "no difference")]
    assert table.remarks == ()
    assert csv_text(table) == ("system,n,mean,low,high,n_differ,too_short\ngpt-k1,40,0.0,,,0,False\n")
    (delta,) = [row["delta"] for row in comparison_json(found)["judges"][0]["leaderboard"] if row["delta"]]
    assert (delta["mean"], delta["low"], delta["high"], delta["n_differ"]) == (0.0, None, None, 0)
    (first, *_) = headline(found)
    assert first == "Mean by judge ernie: gpt-k1 with 50.00, no difference to orig."


def test_one_pair_is_not_called_all_pairs(tmp_path: Path) -> None:
    for label, letters in (("orig", "nnnnn"), ("gpt-k1", "ffffn")):
        rows = [Row(f"q{i}", labels={"ernie": letter}) for i, letter in enumerate(letters)]
        made_run(tmp_path, label=label, rows=rows)
    found = compare_runs([str(tmp_path)])
    assert "Holm over 1 pair." in named(found, "pairs").caption
    against = compare_runs([str(tmp_path)], baseline="orig")
    assert "Holm over 1 test against orig." in named(against, "pairs").caption


def sentences(folder: Path, **letters: str) -> list[str]:
    """Systems (`gpt_k1` is gpt-k1) with a letter for each instance: full, partial, none, x for a failure."""
    for label, word in letters.items():
        rows = [
            Row(f"q{i:02}", error="search") if letter == "x" else Row(f"q{i:02}", labels={"ernie": letter})
            for i, letter in enumerate(word)
        ]
        made_run(folder, label=label.replace("_", "-"), rows=rows, embedded=label.startswith("local"))
    return list(headline(compare_runs([str(folder)])))


def test_headline_names_best_system_differences_and_failures(tmp_path: Path) -> None:
    """Twelve times 0 against 100: of 4,096 choices of signs two are as extreme, p = 0.0005, of six tests."""
    assert sentences(
        tmp_path, orig="n" * 12, gpt_k1="f" * 12, kimi_k1="p" + "n" * 10 + "x", gold="f" * 12
    ) == [
        "Best system by judge ernie (orig and gold do not compete): gpt-k1 with 100.00 over the 11 "
        "instances that all systems have, +100.00 [-] over orig; "
        "every other is worse at p ≤ 0.05 after Holm's correction.",
        "Better than orig at p ≤ 0.05 after Holm's correction of 6 tests: 1 of 2; worse: 0.",
        "1 of 48 instances failed: they have no score, and are in no mean.",
        "[-] no interval: fewer than 5 instances, or all of them have the same value.",
    ]


@pytest.mark.parametrize(
    ("systems", "answer"),
    [
        # Twelve times +100: of 4,096 choices of signs two are as extreme, p = 0.0005, times three tests.
        (
            {"orig": "n" * 12, "gpt_k1": "f" * 12, "kimi_k1": "p" + "n" * 11},
            "Does asking help? Yes: gpt-k1, the best of 2 systems, changes the mean score by "
            "+100.00 points against orig (no interval, n = 12, judge ernie, p = 0.001 after Holm's correction of 3 "
            "tests).",
        ),
        (
            {"orig": "f" * 12, "gpt_k1": "p" * 12},
            "Does asking help? No: even gpt-k1 changes the mean score by -50.00 points against orig "
            "(no interval, n = 12, judge ernie, p < 0.001).",
        ),
        # One of six differs, by a half: either sign is as extreme.
        (
            {"orig": "nnnnnn", "gpt_k1": "pnnnnn"},
            "Does asking help? Not shown: gpt-k1 changes the mean score by +8.33 [+0.00, +25.00] points against "
            "orig, but too few instances differ for any test to show it (95 % interval, too short: 1 of 6 "
            "instances differ, n = 6, judge ernie, p = 1.000).",
        ),
        # Six of six differ by a half, five up: 14 of 64 choices of signs are as extreme.
        (
            {"orig": "nnnnnp", "gpt_k1": "pppppn"},
            "Does asking help? Not shown: gpt-k1 changes the mean score by +33.33 [+0.00, +50.00] points against "
            "orig, which chance may explain (95 % interval, too short: 6 of 6 instances differ, n = 6, judge ernie, "
            "p = 0.219).",
        ),
        (
            {"orig": "nnpf", "gpt_k1": "nnpf"},
            "Does asking help? Not shown: gpt-k1 has the same score as orig on every instance (n = 4, judge ernie).",
        ),
        ({"gpt_k1": "ffff", "kimi_k1": "pppp"}, ""),
        ({"orig": "nnnn", "gold": "ffff"}, ""),
        ({"orig": "nn", "local_k1": "ff"}, ""),
        ({"orig": "nx", "gpt_k1": "xf"}, ""),
    ],
)
def test_answer_says_whether_asking_helps_by_how_much_and_how_sure(
    tmp_path: Path, systems: dict[str, str], answer: str
) -> None:
    sentences(tmp_path, **systems)
    assert answer_sentence(compare_runs([str(tmp_path)])) == answer


def test_headline_names_all_best_systems_and_counts_worse_ones(tmp_path: Path) -> None:
    assert sentences(tmp_path, orig="f" * 12, gpt_k1="p" * 12, kimi_k1="p" * 12) == [
        "Highest mean by judge ernie (orig and gold do not compete): gpt-k1 with 50.00, "
        "-50.00 [-] over orig; too few instances differ for any test to tell it from kimi-k1.",
        "Better than orig at p ≤ 0.05 after Holm's correction of 3 tests: 0 of 2; worse: 2.",
        "[-] no interval: fewer than 5 instances, or all of them have the same value.",
    ]
    assert sentences(tmp_path / "smoke", orig="n", local_k1="f") == []

"""The tables and the headline of a comparison."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from made_runs import Row, made_run
from rich.console import Console

from cts_async.report.comparison import RunsCompared, compare_runs
from cts_async.report.comparison_tables import MOST_PAIRS, DataTable, headline, probability, tables
from cts_async.report.tables import print_table


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
    return next(told for told in tables(found, **options) if told.name == name)


def shown(told: DataTable) -> list[tuple[str, ...]]:
    """The cells as they are printed."""
    return [tuple(column.show(row) for column in told.columns) for row in told.rows]


def test_leaderboard_is_table_2(found: RunsCompared) -> None:
    """orig 0 25 25, gpt-k1 50 50 100: p90 of three is 0.8 of the way from the second to the third."""
    assert shown(named(found, "leaderboard")) == [
        ("orig", "-", "16.667", "25.000", "25.000", "0.000", "25.000", "3/3", "0"),
        ("gpt-k1", "1", "66.667 (+50.000)", "50.000", "90.000", "50.000", "100.000", "3/3", "0"),
    ]


def test_intervals_are_table_3(found: RunsCompared) -> None:
    """Differences 50 25 75: a resample of all 25s has the chance 1/27, so the interval spans 25 to 75."""
    assert shown(named(found, "intervals")) == [("gpt-k1", "3", "+50.000", "[25.000, 75.000]†")]
    assert named(found, "intervals").remarks[-1].startswith("† too short: below 30 instances")


def test_single_pair_has_no_interval(tmp_path: Path) -> None:
    for label, score in (("orig", 1.0), ("a-k1", 3.0)):
        made_run(tmp_path, label=label, rows=[Row("q1", score=score)])
    assert shown(named(compare_runs([str(tmp_path)]), "intervals")) == [("a-k1", "1", "+2.000", "-")]


def test_tests_of_pairs_and_their_power(found: RunsCompared) -> None:
    """All 3 signs alike: p = 2/8. (2.801585 * 25 / 50)^2 = 1.96 instances are too few for .05, 6 are not."""
    told = named(found, "pairs")
    assert shown(told) == [("gpt-k1", "orig", "3", "+50.000", ".2500", ".2500", "-", "6")]
    assert told.caption.endswith("Holm over one pair")
    assert told.remarks == (
        "p by sign flips: exact (at most 20 instances differ). The smallest possible p is 0.25.",
        "Too few instances differ in 1 of 1 tests for any p to reach .05.",
    )


def test_judges_are_table_9(found: RunsCompared) -> None:
    """gpt's scores: orig 0 50 25, gpt-k1 100 50 100."""
    told = named(found, "judges")
    assert shown(told) == [("orig", "16.67", "25.00"), ("gpt-k1", "66.67", "83.33")]
    assert told.remarks == (
        "Ordering by ernie: gpt-k1 > orig",
        "Ordering by gpt: gpt-k1 > orig",
        "All judges order the systems alike.",
    )


def test_ordering_names_its_systems(tmp_path: Path) -> None:
    """gpt has judged two of three systems, then one: an order of one is none."""
    made_run(tmp_path, label="orig", rows=judged(("nn", "nn")))
    made_run(tmp_path, label="gpt-k1", rows=judged(("ff", "ff")))
    made_run(tmp_path, label="kimi-k1", rows=[Row("q0", labels={"ernie": "fp"})])
    assert named(compare_runs([str(tmp_path)]), "judges").remarks == (
        "Ordering by ernie: gpt-k1 > orig",
        "Ordering by gpt: gpt-k1 > orig",
        "Orderings are of the 2 of 3 systems that every judge has scored; --judge NAME asks for fewer judges.",
        "All judges order the systems alike.",
    )
    made_run(tmp_path, label="claude-k1", rows=[Row("q0", labels={"strict": "fp"})])
    (scope,) = named(compare_runs([str(tmp_path)]), "judges").remarks
    assert scope.startswith("Orderings are of the 0 of 4 systems")


def test_agreement_is_per_nugget(found: RunsCompared) -> None:
    """Of 12 labels 10 agree. By chance (5 * 3 + 4 * 5 + 3 * 4) / 144 would: kappa (120 - 47) / (144 - 47)."""
    (row,) = shown(named(found, "agreement"))
    assert row[:5] == ("ernie", "gpt", "12", "0.833", "0.753")
    assert named(found, "agreement").remarks[1] == "Labels of ernie: 25.0% full, 33.3% partial, 41.7% none"


def test_stability_is_table_11(tmp_path: Path) -> None:
    made_run(tmp_path, label="orig", rows=[Row("q1", score=1.0)])
    for support, rewritten in (("ernie", "rents"), ("gpt", "rents 2024")):
        row = Row("q1", ["Where?", "When?"], ["unknown", "unknown"], score=1.0, rewritten_query=rewritten)
        made_run(tmp_path, label="gpt-k2", rows=[row], name=support, players={"support": support})
    told = named(compare_runs([str(tmp_path)]), "support")
    assert shown(told) == [("gpt-ernie k2 vs. gpt-gpt k2", "1.000", "0.667", "0.500", "0.500", "0.000")]
    assert told.remarks == ()


def test_unpaired_scores_are_noted(tmp_path: Path) -> None:
    made_run(tmp_path, label="orig", rows=[Row("q1", score=1.0)])
    made_run(tmp_path, label="gpt-k1", rows=[Row("q1", score=2.0), Row("q2", score=9.0)])
    told = named(compare_runs([str(tmp_path)]), "intervals")
    assert shown(told)[0][:3] == ("gpt-k1", "1", "+1.000")
    assert told.remarks == ("gpt-k1: 1 of its 2 scores have a counterpart in orig.",)


def test_many_pairs_are_shown_when_asked_for(tmp_path: Path) -> None:
    for label in ("orig", *(f"m{i}-k1" for i in range(9))):
        made_run(tmp_path, label=label, rows=[Row("q1", score=1.0)])
    found = compare_runs([str(tmp_path)])
    assert len(found.judged[0].pairs) == 45 > MOST_PAIRS
    shortened = named(found, "pairs")
    assert len(shortened.rows) == 9
    assert "Of all 45 pairs 0 differ" in shortened.remarks[0]
    assert len(named(found, "pairs", all_pairs=True).rows) == 45


def test_many_pairs_without_orig_show_smallest_p(tmp_path: Path) -> None:
    """Ten systems, of which the last alone differs: 9 of the 45 pairs, with p 1/4 of three equal signs."""
    for i in range(10):
        score = 9.0 if i == 9 else 1.0
        made_run(tmp_path, label=f"{'abcdefghij'[i]}-k1", rows=[Row(f"q{j}", score=score) for j in range(3)])
    shortened = named(compare_runs([str(tmp_path)]), "pairs")
    assert [row["system"] for row in shortened.rows[:9]] == ["j-k1"] * 9
    assert len(shortened.rows) == 36
    assert shortened.remarks[0].startswith(
        "Shown are the 36 pairs of the smallest p. Of all 45 pairs 0 differ"
    )


def test_family_against_baseline_is_captioned(tmp_path: Path) -> None:
    for label in ("orig", "a-k1", "b-k1"):
        made_run(tmp_path, label=label, rows=[Row(f"q{i}", score=1.0) for i in range(8)])
    told = named(compare_runs([str(tmp_path)], baseline="orig"), "pairs")
    assert told.caption.endswith("Holm over 2 systems against orig")
    assert "at Holm's strictest step (α/2)" in told.remarks[-1]


def test_single_common_instance_has_no_power(tmp_path: Path) -> None:
    for label in ("orig", "a-k1"):
        made_run(tmp_path, label=label, rows=[Row("q1", score=1.0)])
    told = named(compare_runs([str(tmp_path)]), "pairs")
    assert shown(told) == [("orig", "a-k1", "1", "+0.000", "1.0000", "1.0000", "-", "-")]
    assert not any(remark.startswith("Power") for remark in told.remarks)


def test_the_smallest_possible_p_is_stated(tmp_path: Path) -> None:
    """21 differing instances are sampled: 1 / 10,001, and after Holm three times that."""
    for i, label in enumerate(("orig", "a-k1", "b-k1")):
        made_run(tmp_path, label=label, rows=[Row(f"q{n}", score=10.0 * i) for n in range(21)])
    told = named(compare_runs([str(tmp_path)]), "pairs")
    assert told.remarks[0] == (
        "p by sign flips: from 10,000 random choices. The smallest possible p is 0.0001, after Holm's correction "
        "0.0003."
    )


def test_other_judges_are_shown_when_asked_for(found: RunsCompared) -> None:
    names = [told.name for told in tables(found, main_only=False, all_pairs=False)]
    assert names.count("leaderboard") == 2


@pytest.mark.parametrize("width", [80, 120])
def test_every_table_fits(found: RunsCompared, width: int) -> None:
    out = io.StringIO()
    for told in tables(found, main_only=False, all_pairs=True):
        print_table(Console(file=out, width=width, color_system=None), told)
    assert all(len(line) <= width for line in out.getvalue().splitlines())
    assert "…" not in out.getvalue()


@pytest.mark.parametrize(
    ("p", "printed"), [(0.25, ".2500"), (1.0, "1.0000"), (0.0001, ".0001"), (0.00001, "<.0001")]
)
def test_p_values_are_formatted(p: float, printed: str) -> None:
    assert probability(p) == printed


def test_judge_names_are_printed_without_markup(tmp_path: Path) -> None:
    for label in ("orig", "gpt-k1"):
        rows = [Row("q1", labels={"[red]ernie": "f", "gpt": "p"})]
        made_run(tmp_path, label=label, rows=rows)
    out = io.StringIO()
    told = named(compare_runs([str(tmp_path)]), "judges")
    print_table(Console(file=out, width=80, color_system=None), told)
    assert "[red]ernie" in out.getvalue()


def test_failures_add_columns_and_warning(tmp_path: Path) -> None:
    """a 50 over one, 25 with a failure as 0; b (100 + 0) / 2; on q0 alone b has 100, and stands above a."""
    both = {"x": "pp", "y": "pp"}
    made_run(tmp_path, label="a-k1", rows=[Row("q0", labels=both), Row("q1", error="search")])
    labels = [{"x": word, "y": word} for word in ("ff", "nn", "nn")]
    made_run(tmp_path, label="b-k1", rows=[Row(f"q{i}", labels=of) for i, of in enumerate(labels)])
    found = compare_runs([str(tmp_path)])
    table = named(found, "leaderboard")
    headings = [column.heading for column in table.columns]
    assert headings[2:5] == ["mean", "common (n=1)", "failed=0"]
    cells = [[column.show(row) for column in table.columns[2:5]] for row in table.rows]
    assert cells == [["50.000", "50.000", "25.000"], ["33.333", "100.000", "33.333"]]
    assert [*table.rows[0]][-3:] == ["mean_failed_as_0", "n_common", "common_mean"]
    assert named(found, "leaderboard").remarks == (
        "common: the mean over the instances that all systems have a score for.",
        "failed=0: the mean with each failed instance counted as 0.",
    )
    judges = named(found, "judges")
    assert [column.heading for column in judges.columns] == ["system", "x", "y", "x (n=1)", "y (n=1)"]
    assert "Orderings and tau go by the means over the 1 instances" in " ".join(judges.remarks)
    assert "n differs between systems under x (a-k1 1, b-k1 3)" in " ".join(found.notes)
    assert "By their means, but not on the instances that both have: a-k1 is above b-k1." in found.notes


def told(folder: Path, **letters: str) -> list[str]:
    """Systems (`gpt_k1` is gpt-k1) with a letter for each instance: full, partial, none, x for a failure."""
    for label, word in letters.items():
        rows = [
            Row(f"q{i:02}", error="search") if letter == "x" else Row(f"q{i:02}", labels={"ernie": letter})
            for i, letter in enumerate(word)
        ]
        made_run(folder, label=label.replace("_", "-"), rows=rows, embedded=label.startswith("local"))
    return list(headline(compare_runs([str(folder)])))


def test_headline_names_best_system_differences_and_failures(tmp_path: Path) -> None:
    """Twelve times 0 against 100: of 4,096 choices of signs two are as extreme, p = 0.0005, of three tests."""
    assert told(tmp_path, orig="n" * 12, gpt_k1="f" * 12, kimi_k1="p" + "n" * 10 + "x") == [
        "The best by judge ernie is gpt-k1 with a mean of 100.00 over the 11 instances that all systems "
        "have, +100.00 [+100.00, +100.00] over orig "
        "(too short an interval: n = 12).",
        "Better than orig at p ≤ .05 after Holm's correction of 3 tests: 1 of 2; worse: 0.",
        "1 of 36 instances failed: they have no score, and are in no mean.",
    ]


def test_headline_counts_worse_systems_without_gold(tmp_path: Path) -> None:
    said = told(tmp_path, orig="f" * 12, gold="f" * 12, gpt_k1="n" * 12)
    assert said == [
        "By judge ernie gpt-k1 has a mean of 0.00, -100.00 [-100.00, -100.00] over orig "
        "(too short an interval: n = 12).",
        "Better than orig at p ≤ .05 after Holm's correction of 3 tests: 0 of 1; worse: 1.",
    ]


def test_headline_names_all_best_systems(tmp_path: Path) -> None:
    said = told(tmp_path, orig="n" * 12, gpt_k1="f" * 12, kimi_k1="f" * 12, qwen_k1="p" * 12)
    assert said[0] == "The best by judge ernie are gpt-k1, kimi-k1, each with a mean of 100.00."


def test_smoke_test_has_no_headline(tmp_path: Path) -> None:
    assert told(tmp_path, orig="n", local_k1="f") == []

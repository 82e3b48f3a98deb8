"""MIMICS-Duo's tables as they are printed, and a ranking by somebody's scores."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import pytest
from made_panes import SHARED, panes_of
from rich.console import Console

from cts_async.analysis.stats import holm, paired_t_test
from cts_async.neighbours.mimics_duo.panes import Pane, read_panes
from cts_async.neighbours.mimics_duo.statistics import ASPECTS, TABLES, Cell, published
from cts_async.neighbours.mimics_duo.tables import (
    as_table,
    mimics_tables,
    print_tables,
    rerank_panes,
    reranked_table,
    tables_json,
    write_tables,
)
from cts_async.neighbours.mimics_duo.ties import Measured
from cts_async.report.tables import DataTable, print_table

PANES = [
    *panes_of("q1", [5, 0, 0], offline_rating=[1, 2, 2], coverage=[1, 2, 5]),
    *panes_of("q2", [1, 1, 0], offline_rating=[3, 1, 1], coverage=[4, 4, 2]),
]
needs_mimics = pytest.mark.skipif(not SHARED.exists(), reason=f"MIMICS-Duo is not here: {SHARED}")


def lines_of(table: DataTable) -> list[str]:
    output = io.StringIO()
    print_table(Console(file=output, width=80), table)
    return [line.rstrip() for line in output.getvalue().splitlines()]


def printed(panes: Sequence[Pane], names: Sequence[str]) -> str:
    output = io.StringIO()
    print_tables(Console(file=output, width=80), mimics_tables(panes, names, draws=20, seed=0))
    return output.getvalue()


def test_drawn_figure_shows_published_spread_expectation_and_z() -> None:
    cells = [Cell("Coverage", "P@1 rating", Measured(0.374, 0.021, 0.3737, 0.0213), "0.369")]
    assert lines_of(as_table("11", cells))[-2:] == ["Coverage P@1 rating 0.369 0.374 0.021 0.374 -0.2 ~", ""]


def test_ranking_is_named_once() -> None:
    cells = [
        Cell("Coverage", name, Measured(0.5, 0.1, 0.5, 0.1), "0.9") for name in ("P@1 rating", "MRR rating")
    ]
    assert lines_of(as_table("11", cells))[-3:] == [
        "Coverage P@1 rating   0.9 0.50 0.10  0.50 +3.5 ≠",
        "         MRR rating   0.9 0.50 0.10  0.50 +3.5 ≠",
        "",
    ]


def test_published_row_precedes_computed_row_with_mark() -> None:
    cells = [Cell("Coverage", "mean", 3.78, "3.78"), Cell("Coverage", "var", 1.2, "1.18")]
    assert lines_of(as_table("9", cells))[-3:] == [
        "Coverage paper   3.78  1.18",
        "         here   3.78= 1.20≠",
        "",
    ]


def test_correlations_are_in_the_paper_s_order() -> None:
    cells = [
        Cell("Offline Rating", "# of Can. Ans.", 0.262, "0.262"),
        Cell("Diversity", "Coverage", 0.421, None),
    ]
    heading, first = lines_of(as_table("10", cells))[2], lines_of(as_table("10", cells))[4]
    assert heading.split() == ["Cov.", "#Ans."]
    assert first.split() == ["Rating", "paper", "0.262"]


def test_panes_that_are_not_the_released_ones_are_warned_about() -> None:
    text = printed(PANES, ["7", "10"])
    assert "Panes here: 6. What is printed is of 1,034 others" in text
    assert "Note:" not in text


@pytest.mark.parametrize("panes", [PANES, PANES[:1]], ids=["six", "one"])
@pytest.mark.parametrize("name", TABLES)
def test_few_panes_make_tables_too(name: str, panes: Sequence[Pane]) -> None:
    """Labels without variance, queries without an untied top: nothing breaks."""
    text = printed(panes, [name])
    assert published()[name].title in text
    assert max(len(line) for line in text.splitlines()) <= 80


def test_json_is_whole_and_strict() -> None:
    import orjson

    found = orjson.loads(orjson.dumps(tables_json(mimics_tables(PANES, TABLES, draws=20, seed=3))))
    assert (found["panes"], found["draws"], found["seed"]) == (6, 20, 3)
    assert list(found["tables"]) == list(TABLES)
    cell = next(one for one in found["tables"]["11"]["cells"] if one["row"] == "Coverage")
    assert (cell["column"], cell["published"], cell["exact"]) == ("P@1 engagement", 0.333, 0.25)


def test_csv_has_a_file_for_each_table(tmp_path: Path) -> None:
    write_tables(tmp_path / "new", mimics_tables(PANES, ["6", "11"], draws=20, seed=0))
    with (tmp_path / "new" / "table_11.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert (rows[0]["row"], rows[0]["exact"], len(rows)) == ("Coverage", "0.25", 30)
    assert (tmp_path / "new" / "table_6.csv").exists()


@needs_mimics
def test_released_tables_fit_80_columns_and_explain_differences() -> None:
    text = printed(list(read_panes(SHARED)), TABLES)
    assert max(len(line) for line in text.splitlines()) <= 80
    flat = " ".join(text.split())
    assert "look like an error of alignment" in flat
    assert "0.437 cannot be the reversed ideal ranking" in flat
    assert "n - k + 1: 0.316 on average, 0.305 if one alone" in flat
    assert "p < 0.001 each), Can. Ans. Order does not (p = 0.80)" in flat
    assert "each aspect's MRR lies above it, by 0.010 to 0.017" in flat
    assert "pane and option quality the wrong way round" in flat
    assert "Mean, variance (ddof 1)" in flat
    assert "Published cells: 170, each counted once (11 more lines above are other readings of some)." in flat
    assert "= 111 reproduced" in flat
    assert "~ 49 within the spread" in flat
    assert "≠ 10 does not reproduce" in flat


@needs_mimics
def test_published_cell_under_two_readings_is_counted_once() -> None:
    tables = mimics_tables(list(read_panes(SHARED)), ("7", "10"), draws=20, seed=0)
    twice = [
        (name, cell.row, cell.column) for name, found in tables.cells.items() for cell in found if cell.again
    ]
    assert [(name, row) for name, row, _ in twice] == [
        ("7", "Offline Rating"),
        ("7", "Quality Labelling"),
        ("7", "Random Ranker"),
        ("7", "Random Ranker"),
        *[("10", "Eng. Level, sorted")] * 7,
    ]
    by_place = {(name, cell.row, cell.column): cell.printed for name, f in tables.cells.items() for cell in f}
    for name, row, column in twice[:4]:
        assert by_place[name, row, column] == by_place[name, row, column.removesuffix(", one")]
    assert tables_json(tables)["verdicts"] == {"same": 9 + 21, "ties": 17, "differs": 2 + 7}


def test_reranking_includes_random_and_worst() -> None:
    """By these scores q1's ideal pane is first for sure; in q2 the third pane, which is not ideal."""
    rows = rerank_panes(PANES, [3, 1, 2, 0, 1, 2], "engagement", draws=20, seed=0)
    table = reranked_table(rows, "engagement", 20)
    exact = [(row["ranking"], row["queries"], row["counts"], row["p_at_1_exact"]) for row in table.rows]
    assert exact[:3] == [
        ("scores", "all", "any", 0.5),
        ("scores", "all", "one", 0.5),
        ("scores", "untied", "any", 1.0),
    ]
    assert exact[3] == ("random", "all", "any", pytest.approx(0.5))
    assert exact[4] == ("random", "all", "one", pytest.approx(1 / 3))
    assert exact[6:] == [
        ("worst", "all", "any", 0.0),
        ("worst", "all", "one", 0.0),
        ("worst", "untied", "any", 0.0),
    ]
    assert max(len(line) for line in lines_of(table)) <= 80
    assert json.dumps(list(table.rows))


def test_another_label_can_be_the_ideal() -> None:
    rows = rerank_panes(PANES, [0, 1, 1, 9, 0, 0], "rating", draws=20, seed=0)
    assert [row.found.p_at_1.exact for row in rows[:3] if row.found] == [1.0, 0.75, 1.0]


def test_without_an_untied_query_its_line_is_empty() -> None:
    rows = rerank_panes(PANES, [1] * 6, "quality", draws=20, seed=0)
    table = reranked_table(rows, "quality", 20)
    assert (table.rows[2]["n_queries"], table.rows[2]["mrr_exact"]) == (0, None)
    assert "scores untied 0 any - - - - - -" in [" ".join(line.split()) for line in lines_of(table)]


@needs_mimics
def test_numbers_in_the_note_on_the_worst_case_are_those_of_the_data() -> None:
    of_query: dict[str, list[int]] = {}
    for pane in read_panes(SHARED):
        of_query.setdefault(pane.query, []).append(pane.engagement_level)
    levels = list(of_query.values())
    first_ideal = [len(one) - one.count(max(one)) + 1 for one in levels]
    for ranks, said in (
        (first_ideal, 0.316),
        (list(map(len, levels)), 0.305),
        ([len(set(one)) for one in levels], 0.438),
    ):
        assert round(fmean(1 / rank for rank in ranks), 3) == said


def one_over_rank(scores: Sequence[int], labels: Sequence[int]) -> float:
    """1 / rank of one of the highest labels drawn at random, expected over all orders of equal scores."""
    wanted = [score for score, label in zip(scores, labels, strict=True) if label == max(labels)]
    places = [(sum(other > score for other in scores), scores.count(score)) for score in wanted]
    return fmean(fmean(1 / (above + n) for n in range(1, tied + 1)) for above, tied in places)


@needs_mimics
def test_table_11_notes_agree_with_its_data() -> None:
    of_query: dict[str, list[Pane]] = {}
    for pane in read_panes(SHARED):
        of_query.setdefault(pane.query, []).append(pane)

    def reached(aspect: str, label: str) -> list[float]:
        """`aspect` "" is the random ranker."""
        return [
            one_over_rank(
                [getattr(pane, aspect) if aspect else 0 for pane in panes],
                [getattr(pane, label) for pane in panes],
            )
            for panes in of_query.values()
        ]

    random = reached("", "offline_rating")
    tests = [paired_t_test(reached(field, "offline_rating"), random) for field in ASPECTS.values()]
    coverage, diversity, understandability, order = holm([test.p for test in tests])
    assert max(coverage, diversity, understandability) < 0.001
    assert round(order, 2) == 0.80
    luckless = fmean(reached("", "pane_quality"))
    above = [round(fmean(reached(field, "pane_quality")) - luckless, 3) for field in ASPECTS.values()]
    assert (min(above), max(above)) == (0.010, 0.017)

"""AT-CoT's tables 5 to 8 as they are printed."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from made_talks import INTENTS, QRELS, RANKED, three_talks
from rich.console import Console

from cts_async.analysis.turn_retrieval import NOBODY_ASKED, TurnRetrieval, retrieve_turns
from cts_async.datasets.registry import AnnotatedQuery, Annotations
from cts_async.neighbours.at_cot.generation import Generated, GeneratedQuestions, pearson, published
from cts_async.neighbours.at_cot.similarity import TokenF1
from cts_async.neighbours.at_cot.tables import MARKS, generation_tables, turn_tables
from cts_async.report.tables import DataTable, print_table, write_csv


class Lengths:
    """A made scorer: the number of letters of the generated question, in hundredths."""

    name = "BERTScore F1 (made)"
    is_bertscore = True

    def scores(self, generated: Sequence[str], annotated: Sequence[str]) -> Any:
        import numpy as np

        return np.array([[len(a) / 100] * len(annotated) for a in generated])


QUERIES = ("a", "b", "c", "d")
POINTS = {"standard": (50, 52, 54, 56), "cot": (50, 53, 54, 57), "at-cot": (60, 61, 64, 67)}


def generated(points: Mapping[str, Sequence[int]] = POINTS) -> GeneratedQuestions:
    types = {"at-cot": ("semantic", "specify")}
    return {
        scheme: {
            query: Generated(("x" * n,), types.get(scheme, ()))  # type: ignore[arg-type]
            for query, n in zip(QUERIES, of, strict=True)
        }
        for scheme, of in points.items()
    }


def annotations(levels: Mapping[str, int] | None = None) -> Annotations:
    return Annotations({q: AnnotatedQuery(q, q, ("y",), (levels or {}).get(q)) for q in QUERIES}, {})


def named(tables: Sequence[DataTable]) -> dict[str, DataTable]:
    return {table.name: table for table in tables}


def printed(table: DataTable, width: int = 80) -> str:
    out = io.StringIO()
    print_table(Console(file=out, width=width, color_system=None), table)
    return out.getvalue()


def test_table_5_has_scores_marks_and_the_published_values() -> None:
    table = named(generation_tables(generated(), annotations(), Lengths(), dataset="qulac"))["generation"]
    at_cot = table.rows[2]
    assert (at_cot["scheme"], at_cot["mean"], at_cot["marks"]) == ("at-cot", pytest.approx(63.0), "*Δ")
    assert (at_cot["published"], at_cot["over_standard"]) == (80.6, pytest.approx(10.0))
    assert at_cot["over_standard_p"] < at_cot["over_standard_p_holm"] < 0.01
    assert "63.0 *Δ" in printed(table)
    assert "† at-standard" not in printed(table)


def test_baseline_that_asked_nothing_is_no_test_of_the_family() -> None:
    """Holm's correction over one test leaves its p as it is."""
    asked = {**generated(), "cot": dict.fromkeys(QUERIES, Generated(()))}
    at_cot = named(generation_tables(asked, annotations(), Lengths()))["generation"].rows[2]
    assert (at_cot["over_cot_n"], at_cot["over_cot_p"], at_cot["over_cot_p_holm"]) == (0, None, None)
    assert at_cot["over_standard_p_holm"] == at_cot["over_standard_p"]


def test_other_data_or_measures_have_no_published_values() -> None:
    for dataset, scorer in (("sample", Lengths()), ("qulac", TokenF1())):
        tables = named(generation_tables(generated(), annotations(), scorer, dataset=dataset))
        assert not any("published" in key for row in tables["generation"].rows for key in row)
        assert not any("published" in key for row in tables["ambiguity_types"].rows for key in row)


def test_token_f1_is_named_in_every_table() -> None:
    tables = generation_tables(generated(), annotations({"a": 1}), TokenF1(), {"cot": {"a": [0.5]}})
    assert len(tables) == 5
    assert all("token F1, not BERTScore" in table.caption for table in tables)


def test_table_6_needs_levels_and_shows_published_clariq_values() -> None:
    levels = {"a": 1, "b": 4, "c": 4}
    tables = named(generation_tables(generated(), annotations(levels), Lengths(), dataset="clariq"))
    rows = tables["generation_by_level"].rows
    assert [(row["level"], row["scheme"], row["n"], row["published"]) for row in rows] == [
        (1, "standard", 1, 78.7),
        (1, "cot", 1, 78.6),
        (1, "at-cot", 1, 80.9),
        (4, "standard", 2, 78.5),
        (4, "cot", 2, 78.0),
        (4, "at-cot", 2, 82.4),
    ]
    assert "generation_by_level" not in named(generation_tables(generated(), annotations(), Lengths()))


def test_table_7_has_shares_in_percent_and_the_gain_over_cot() -> None:
    table = named(generation_tables(generated(), annotations(), Lengths(), dataset="qulac"))[
        "ambiguity_types"
    ]
    semantic, generalize, _ = table.rows
    assert (semantic["share"], semantic["gain"], semantic["gain_queries"]) == (50.0, pytest.approx(9.5), 4)
    assert (semantic["published_share"], semantic["published_gain"]) == (44.6, 1.3)
    assert (generalize["share"], generalize["gain"]) == (0.0, None)


def test_table_7_is_absent_without_predictions() -> None:
    tables = generation_tables(generated({"cot": (1, 2, 3, 4)}), annotations(), Lengths())
    assert "ambiguity_types" not in named(tables)


def test_section_7_caption_gives_r_of_the_published_tables() -> None:
    retrieval = {
        "standard": {"a": [0.1], "b": [0.2]},
        "cot": {"a": [0.3, 0.1], "b": [0.3]},
        "at-cot": {"a": [0.4]},
    }
    tables = named(generation_tables(generated(), annotations(), Lengths(), retrieval, dataset="qulac"))
    table = tables["generation_and_retrieval"]
    over = table.rows[-1]
    assert (over["scheme"], over["n"]) == ("over schemes", 3)
    assert over["r"] == pytest.approx(pearson([53.0, 53.5, 63.0], [0.15, 0.7 / 3, 0.4]).r)
    assert "r = 0.92, p = 0.08" in table.caption
    means, turns = published()["table_5"]["qulac"], published()["table_8"]
    found = pearson(list(means.values()), [turns[scheme][0][1] for scheme in means])
    assert f"r = {found.r:.3f}, p = {found.p:.3f}" in table.caption


def test_published_shares_add_up_to_a_hundred() -> None:
    for types in published()["table_7"].values():
        assert sum(share for share, _ in types.values()) == pytest.approx(100.0)


def test_every_query_is_in_the_data_with_its_best_pair_and_not_printed() -> None:
    table = named(generation_tables(generated(), annotations(), Lengths()))["generation_by_query"]
    assert len(table.rows) == 12
    assert dict(table.rows[0]) == {
        "scheme": "standard",
        "query": "a",
        "score": 50.0,
        "question": "x" * 50,
        "like": "y",
    }
    assert printed(table) == ""


def test_all_tables_fit_eighty_columns() -> None:
    points = {**POINTS, "at-standard": POINTS["standard"]}
    retrieval = {scheme: {"a": [0.1], "b": [0.3]} for scheme in points}
    tables = generation_tables(
        generated(points), annotations(dict.fromkeys(QUERIES, 2)), Lengths(), retrieval, dataset="clariq"
    )
    assert all(len(line) <= 80 for table in tables for line in printed(table).splitlines())
    assert "…" not in "".join(map(printed, tables))


@pytest.fixture
def found(tmp_path: Path) -> TurnRetrieval:
    return retrieve_turns(three_talks(tmp_path), INTENTS, RANKED, QRELS, ["MRR@10", "nDCG@10"])


def turns_printed(found: TurnRetrieval, *, beside_paper: bool = False) -> list[str]:
    out = StringIO()
    console = Console(file=out, width=80)
    for table in turn_tables(found, "bm25 over made.jsonl", beside_paper=beside_paper):
        print_table(console, table)
    return out.getvalue().splitlines()


def test_table_has_q_first_then_schemes_turn_by_turn(found: TurnRetrieval) -> None:
    """q finds cat second: 1/2. AT-CoT finds it first in both modes, standard finds it at turn 1 as q does."""
    rows = [" ".join(line.split()) for line in turns_printed(found)]
    assert "Retrieval by turn, MRR@10 (table 8)" in rows
    assert "turn scheme respond n select n" in rows
    assert f"{NOBODY_ASKED} 0.500 3 0.500 3" in rows
    assert "1 standard 0.500 3 - 0" in rows
    assert "1 at-cot 1.000* 3 1.000 3" in rows
    assert "2 standard 0.000 3 - 0" in rows
    assert "2 at-cot 1.000* 3 0.000 3" in rows


def test_it_fits_80_columns_with_the_paper_s_values(found: TurnRetrieval) -> None:
    lines = turns_printed(found, beside_paper=True)
    assert max(map(len, lines)) <= 80
    rows = [" ".join(line.split()) for line in lines]
    assert "turn scheme respond n paper select n paper" in rows
    assert "1 at-cot 1.000* 3 0.244 1.000 3 0.188" in rows
    assert sum("paper" in row for row in rows) == 1  # beside nDCG@10 only


def test_turn_tests_are_in_rows_but_not_printed(found: TurnRetrieval, tmp_path: Path) -> None:
    *_, tests = turn_tables(found, "caption")
    assert not any("Paired t-tests" in line for line in turns_printed(found))
    row = next(r for r in tests.rows if (r["measure"], r["turn"], r["other"]) == ("MRR@10", 1, "standard"))
    assert (row["scheme"], row["n"]) == ("at-cot", 3)
    assert (row["difference"], row["p"], row["p_holm"]) == (0.5, 0.0, 0.0)
    write_csv(tmp_path, tests)
    header = (tmp_path / f"{tests.name}.csv").read_text().splitlines()[0]
    assert header == "measure,mode,turn,scheme,other,n,difference,t,p,p_holm,judgments"


def test_every_row_names_its_judgments(found: TurnRetrieval) -> None:
    tables = list(turn_tables(found, "bm25 over made.jsonl; stand-in judgments"))
    assert len(tables) == 3
    for table in tables:
        assert "stand-in judgments" in table.caption
        assert {row["judgments"] for row in table.rows} == {"bm25 over made.jsonl; stand-in judgments"}


def test_rows_are_unrounded_and_list_improved_schemes(found: TurnRetrieval) -> None:
    table = next(turn_tables(found, "caption"))
    row = next(r for r in table.rows if (r["turn"], r["scheme"]) == (2, "at-cot"))
    assert (row["respond"], row["respond_n"], row["respond_over"]) == (1.0, 3, ["standard"])
    assert (row["select"], row["select_over"]) == (0.0, [])


def test_published_values_are_those_of_the_paper() -> None:
    """AT-CoT leads every turn and mode of TREC 2009-2012 but turn 3 of respond, where CoT does."""
    values = dict(published()["table_8"])
    assert values.pop(NOBODY_ASKED) == [[0.123, 0.123]]
    for turn in (1, 2, 3):
        rows = {scheme: turns[turn - 1] for scheme, turns in values.items()}
        assert rows.keys() == {*MARKS, "at-cot"}
        assert max(rows, key=lambda scheme: rows[scheme][0]) == "at-cot"
        assert max(rows, key=lambda scheme: rows[scheme][1]) == ("cot" if turn == 3 else "at-cot")

"""Tables 5 to 7 and section 7, printed and as data."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from rich.console import Console

from cts_async.analysis.generation import Generated, GeneratedQuestions
from cts_async.analysis.generation_published import TABLE_5, TABLE_7, TABLE_8_RESPOND_TURN_1
from cts_async.analysis.scheme_correlation import pearson
from cts_async.analysis.similarity import TokenF1
from cts_async.datasets.instances import AnnotatedQuery, Annotations
from cts_async.report.generation_tables import generation_tables
from cts_async.report.tables import DataTable, print_table


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


def test_a_baseline_that_asked_nothing_is_no_test_of_the_family() -> None:
    """Holm's correction over one test leaves its p as it is."""
    asked = {**generated(), "cot": dict.fromkeys(QUERIES, Generated(()))}
    at_cot = named(generation_tables(asked, annotations(), Lengths()))["generation"].rows[2]
    assert (at_cot["over_cot_n"], at_cot["over_cot_p"], at_cot["over_cot_p_holm"]) == (0, None, None)
    assert at_cot["over_standard_p_holm"] == at_cot["over_standard_p"]


def test_other_data_and_other_measures_stand_beside_nothing_published() -> None:
    for dataset, scorer in (("sample", Lengths()), ("qulac", TokenF1())):
        tables = named(generation_tables(generated(), annotations(), scorer, dataset=dataset))
        assert not any("published" in key for row in tables["generation"].rows for key in row)
        assert not any("published" in key for row in tables["ambiguity_types"].rows for key in row)


def test_token_f1_is_named_in_every_table() -> None:
    tables = generation_tables(generated(), annotations({"a": 1}), TokenF1(), {"cot": {"a": [0.5]}})
    assert len(tables) == 5
    assert all("token F1, not BERTScore" in table.caption for table in tables)


def test_table_6_needs_levels_and_puts_clariqs_values_beside() -> None:
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


def test_without_predictions_there_is_no_table_7() -> None:
    tables = generation_tables(generated({"cot": (1, 2, 3, 4)}), annotations(), Lengths())
    assert "ambiguity_types" not in named(tables)


def test_section_7_says_what_the_papers_tables_give() -> None:
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
    found = pearson(
        list(TABLE_5["qulac"].values()), [TABLE_8_RESPOND_TURN_1[one] for one in TABLE_5["qulac"]]
    )
    assert f"r = {found.r:.3f}, p = {found.p:.3f}" in table.caption


def test_published_shares_add_up_to_a_hundred() -> None:
    for types in TABLE_7.values():
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

"""Table 8 as it is printed: by turn, schemes below each other, modes side by side."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from talked_turns import INTENTS, QRELS, RANKED, three_talks

from cts_async.analysis.turn_retrieval import NOBODY_ASKED, TurnRetrieval, retrieve_turns
from cts_async.neighbours.at_cot.generation import published
from cts_async.neighbours.at_cot.tables import MARKS, turn_tables
from cts_async.report.tables import print_table, write_csv


@pytest.fixture
def found(tmp_path: Path) -> TurnRetrieval:
    return retrieve_turns(three_talks(tmp_path), INTENTS, RANKED, QRELS, ["MRR@10", "nDCG@10"])


def printed(found: TurnRetrieval, *, published: bool = False) -> list[str]:
    out = StringIO()
    console = Console(file=out, width=80)
    for table in turn_tables(found, "bm25 over made.jsonl", published=published):
        print_table(console, table)
    return out.getvalue().splitlines()


def test_the_table_has_q_first_then_schemes_turn_by_turn(found: TurnRetrieval) -> None:
    """q finds cat second: 1/2. AT-CoT finds it first in both modes, standard finds it at turn 1 as q does."""
    rows = [" ".join(line.split()) for line in printed(found)]
    assert "Retrieval by turn, MRR@10 (table 8)" in rows
    assert "turn scheme respond n select n" in rows
    assert f"{NOBODY_ASKED} 0.500 3 0.500 3" in rows
    assert "1 standard 0.500 3 - 0" in rows
    assert "1 at-cot 1.000* 3 1.000 3" in rows
    assert "2 standard 0.000 3 - 0" in rows
    assert "2 at-cot 1.000* 3 0.000 3" in rows


def test_it_fits_80_columns_with_the_paper_s_values(found: TurnRetrieval) -> None:
    lines = printed(found, beside_paper=True)
    assert max(map(len, lines)) <= 80
    rows = [" ".join(line.split()) for line in lines]
    assert "turn scheme respond n paper select n paper" in rows
    assert "1 at-cot 1.000* 3 0.244 1.000 3 0.188" in rows
    assert sum("paper" in row for row in rows) == 1  # beside nDCG@10 only


def test_tests_are_in_the_data_and_not_in_print(found: TurnRetrieval, tmp_path: Path) -> None:
    *_, tests = turn_tables(found, "caption")
    assert not any("Paired t-tests" in line for line in printed(found))
    row = next(r for r in tests.rows if (r["measure"], r["turn"], r["other"]) == ("MRR@10", 1, "standard"))
    assert (row["scheme"], row["n"]) == ("at-cot", 3)
    assert (row["difference"], row["p"], row["p_holm"]) == (0.5, 0.0, 0.0)
    write_csv(tmp_path, tests)
    header = (tmp_path / f"{tests.name}.csv").read_text().splitlines()[0]
    assert header == "measure,mode,turn,scheme,other,n,difference,t,p,p_holm,judgments"


def test_every_row_says_who_judged_for_a_file_has_no_caption(found: TurnRetrieval) -> None:
    tables = list(turn_tables(found, "bm25 over made.jsonl; stand-in judgments"))
    assert len(tables) == 3
    for table in tables:
        assert "stand-in judgments" in table.caption
        assert {row["judgments"] for row in table.rows} == {"bm25 over made.jsonl; stand-in judgments"}


def test_rows_say_unrounded_what_was_improved_on(found: TurnRetrieval) -> None:
    table = next(turn_tables(found, "caption"))
    row = next(r for r in table.rows if (r["turn"], r["scheme"]) == (2, "at-cot"))
    assert (row["respond"], row["respond_n"], row["respond_over"]) == (1.0, 3, ["standard"])
    assert (row["select"], row["select_over"]) == (0.0, [])


def test_the_published_values_are_those_of_the_paper() -> None:
    """AT-CoT leads every turn and mode of TREC 2009-2012 but turn 3 of respond, where CoT does."""
    printed = dict(published()["table_8"])
    assert printed.pop(NOBODY_ASKED) == [[0.123, 0.123]]
    for turn in (1, 2, 3):
        rows = {scheme: turns[turn - 1] for scheme, turns in printed.items()}
        assert rows.keys() == {*MARKS, "at-cot"}
        assert max(rows, key=lambda scheme: rows[scheme][0]) == "at-cot"
        assert max(rows, key=lambda scheme: rows[scheme][1]) == ("cot" if turn == 3 else "at-cot")

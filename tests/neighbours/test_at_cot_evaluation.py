"""The evaluation of conversations: tables, notes and judgments."""

from __future__ import annotations

import math
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from made_runs import changed_manifest
from made_talks import INTENTS as TURN_INTENTS
from made_talks import QRELS, RANKED, made_talk, three_talks
from rich.console import Console
from talk_world import INTENTS, write_talk_world

from cts_async.analysis.retrieval import NOBODY_ASKED, TurnRetrieval, retrieve_turns
from cts_async.analysis.summary import RunSummary, summarise_run
from cts_async.config import ConverseConfig, EvaluationConfig
from cts_async.datasets import open_dataset
from cts_async.datasets.kinds import AnnotatedQuery, Annotations
from cts_async.errors import InputError, UsageError
from cts_async.llm.catalog import load_catalogue
from cts_async.neighbours.at_cot.evaluation import (
    Judgments,
    PaperColumns,
    evaluate_conversations,
    evaluate_finished,
    open_judgments,
    paper_columns,
    turn_tables,
)
from cts_async.neighbours.at_cot.generation import MARKS, TokenF1
from cts_async.neighbours.inputs import published
from cts_async.protocol.converse import ConversePlan, plan_conversations
from cts_async.protocol.systems import System
from cts_async.tables.results import ConversationReport, conversations_table
from cts_async.tables.table import DataTable, print_table, write_csv

QUERIES = {id: q for id, q, _ in INTENTS}
PEOPLE = Annotations(
    {
        "jaguar": AnnotatedQuery("1", "jaguar", ("do you want the animal",), 4),
        "ferry": AnnotatedQuery("2", "ferry", ("do you want times",), 1),
    },
    {},
)
JUDGED = "1-1 0 animal 1\n1-2 0 car 1\n2-1 0 ferry 1\n3-1 0 museum 1\n"


def plan_of(folder: Path, *talks: Path, qulac: bool = False) -> ConversePlan:
    """A plan whose runs are `talks`, all finished."""
    data, _ = write_talk_world(folder)
    config = ConverseConfig(models=("local",), schemes=("cot",), modes=("select",), data=str(data))
    plan = plan_conversations(config, load_catalogue(None), {})
    dataset = replace(plan.dataset, annotations=lambda: PEOPLE, name="qulac" if qulac else "talks")
    return replace(
        plan,
        dataset=dataset,
        systems={System("clarify", "gpt", n): talk for n, talk in enumerate(talks)},
    )


def talk(folder: Path, scheme: str, *, mode: str = "respond", clarifier: str = "gpt", **queries: str) -> Path:
    """A conversation of one turn about each intent; `queries` are what it comes to, else q stays."""
    rows = {
        id: [
            {
                "offered": [f"do you want {scheme} {q}"],
                "types": ["semantic"] if scheme == "at-cot" else [],
                "query": queries.get("i" + id.replace("-", "_"), q),
            }
        ]
        for id, q, _ in INTENTS
    }
    return made_talk(folder, scheme=scheme, mode=mode, rows=rows, queries=QUERIES, clarifier=clarifier, k=1)


def evaluated(
    plan: ConversePlan, folder: Path, qrels: str | None = None, **evaluation: Any
) -> ConversationReport:
    corpus = folder / "pages.jsonl" if evaluation.pop("searched", True) else None
    asked = EvaluationConfig(corpus=corpus, qrels=qrels or "intent:1", **evaluation)
    expected: list[tuple[str, int, int]] = []
    instances = list(plan.instances())
    report = evaluate_conversations(
        plan.dataset,
        instances,
        plan.directories(),
        open_judgments(asked, plan.dataset, instances),
        TokenF1(),
        asked,
        lambda *what: expected.append(what),
    )
    assert all(done <= of for _, done, of in expected)
    return report


def rows_of(report: ConversationReport, name: str) -> list[dict[str, Any]]:
    return [dict(row) for row in table_of(report, name).rows]


def table_of(report: ConversationReport, name: str) -> DataTable:
    return next(table for table in report.tables if table.name == name)


def test_table_8_of_a_tiny_corpus_by_hand(tmp_path: Path) -> None:
    """BM25 of "jaguar": guitar (the shortest), then car, then animal, each with the word once.

    The judged: animal for 1-1 (rank 3, nDCG 1/2), car for 1-2 (rank 2), ferry and museum first; 1-3 is not judged.
    """
    (tmp_path / "qrels").write_text(JUDGED)
    plain, good = (
        talk(tmp_path, "standard"),
        talk(tmp_path, "at-cot", i1_1="jaguar animal", i1_2="jaguar car"),
    )
    report = evaluated(plan_of(tmp_path, plain, good), tmp_path, str(tmp_path / "qrels"))
    table = {(row["turn"], row["scheme"]): row for row in rows_of(report, "turns_nDCG@10")}
    as_it_is = (1 / 2 + 1 / math.log2(3) + 1 + 1) / 4
    assert table[0, "w/o clarification"]["respond"] == pytest.approx(as_it_is)
    assert table[1, "standard"]["respond"] == pytest.approx(as_it_is)
    assert table[1, "at-cot"]["respond"] == pytest.approx(1.0)
    assert {row["respond_n"] for row in table.values()} == {4}
    assert "1 of 5 instances have no judgments and are left out." in report.notes


def test_relevance_level_changes_binary_measures_and_is_in_caption_rows_and_notes(
    tmp_path: Path,
) -> None:
    """Of "jaguar", car (grade 1) comes second and animal (grade 2) third; ferry and museum have grade 1 only."""
    (tmp_path / "qrels").write_text("1 1 animal 2\n1 1 car 1\n2 1 ferry 1\n")
    plan = plan_of(tmp_path, talk(tmp_path, "standard"))
    reciprocal = {}
    for level in (1, 2):
        asked = {"measures": ("MRR@10",), "relevance_level": level}
        report = evaluated(plan, tmp_path, str(tmp_path / "qrels"), **asked)
        rows = rows_of(report, "turns_MRR@10")
        reciprocal[level] = rows[0]["respond"]
        ending = "; relevant from grade 2 (nDCG: by gains)" if level == 2 else "qrels"
        assert all(row["judgments"].endswith(ending) for row in rows)
        assert table_of(report, "turns_MRR@10").caption.partition("; better")[0].endswith(ending)
    assert reciprocal == {1: pytest.approx((1 / 2 + 1) / 2), 2: pytest.approx((1 / 3 + 0) / 2)}
    assert any("1 of 5 instances have judgments but no relevant document" in note for note in report.notes)


def test_tables_5_to_7_and_correlation_precede_table_8(tmp_path: Path) -> None:
    """Words shared: "do you want standard jaguar" and "do you want the animal": 3 of 5 and 5, so F1 = 0.6."""
    report = evaluated(
        plan_of(tmp_path, talk(tmp_path, "standard"), talk(tmp_path, "cot"), talk(tmp_path, "at-cot")),
        tmp_path,
    )
    names = [table.name for table in report.tables]
    assert names == [
        "generation",
        "generation_by_level",
        "ambiguity_types",
        "generation_and_retrieval",
        "generation_by_query",
        "turns_nDCG@10",
        "turns_MRR@10",
        "turn_tests",
    ]
    scores = {(row["scheme"], row["query"]): row["score"] for row in rows_of(report, "generation_by_query")}
    assert scores["standard", "jaguar"] == pytest.approx(60.0)
    assert rows_of(report, "ambiguity_types")[0]["predicted"] == 3  # a prediction for each query
    assert [row["left_out"] for row in rows_of(report, "generation")] == [1, 1, 1]  # museum: nobody wrote one
    assert any("--mode at-once generates several" in note for note in report.notes)
    assert any(note == "Retrieval in the table of section 7 is nDCG@10." for note in report.notes)


def test_pseudo_judgments_are_labelled_and_have_no_published_values(tmp_path: Path) -> None:
    report = evaluated(plan_of(tmp_path, talk(tmp_path, "cot"), qulac=True), tmp_path)
    table = table_of(report, "turns_nDCG@10")
    assert "not relevance judgments" in table.caption
    assert any("a user who repeats the intent wins" in note for note in report.notes)
    for name in ("turns_nDCG@10", "turn_tests", "generation_and_retrieval"):
        assert "not relevance judgments" in table_of(report, name).caption
        assert all("not relevance judgments" in row["judgments"] for row in rows_of(report, name))
    assert not any(name.endswith("_published") for name in table.rows[0])
    assert not any(note.startswith("paper:") for note in report.notes)


def test_reciprocal_rank_with_many_pseudo_judgments_gives_a_note(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, talk(tmp_path, "cot"))
    expected = (
        "MRR@10 is 1 wherever any of an intent's 3 pseudo-relevant documents comes first; "
        "--qrels intent:1 asks for the best of them."
    )
    assert expected in evaluated(plan, tmp_path, "intent:3").notes
    assert expected not in evaluated(plan, tmp_path, "intent:3", measures=("nDCG@10",)).notes
    assert not any(
        "pseudo-relevant documents comes first" in note
        for note in evaluated(plan, tmp_path, "intent:1").notes
    )


def test_web_track_judgments_are_shown_with_published_values(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text(JUDGED)
    runs = talk(tmp_path, "cot"), talk(tmp_path, "cot", mode="select")
    report = evaluated(plan_of(tmp_path, *runs, qulac=True), tmp_path, str(tmp_path / "qrels"))
    row = next(row for row in rows_of(report, "turns_nDCG@10") if row["scheme"] == "cot")
    assert (row["select_published"], row["respond_published"]) == (0.174, 0.238)
    assert "respond_published" not in rows_of(report, "turns_MRR@10")[0]
    assert any(note.startswith("paper: nDCG@10 of AT-CoT's table 8") for note in report.notes)


@pytest.mark.parametrize(
    ("name", "measure", "select", "respond"),
    [("web-track-2013-2014", "nDCG@10", 0.341, 0.392), ("dl-hard", "MRR@10", 0.063, 0.123)],
)
def test_values_of_another_dataset_of_the_paper_are_shown_when_it_is_named(
    tmp_path: Path, name: str, measure: str, select: float, respond: float
) -> None:
    (tmp_path / "qrels").write_text(JUDGED)
    runs = talk(tmp_path, "cot"), talk(tmp_path, "cot", mode="select")
    report = evaluated(plan_of(tmp_path, *runs), tmp_path, str(tmp_path / "qrels"), published=name)
    for other in ("nDCG@10", "MRR@10"):
        row = next(row for row in rows_of(report, f"turns_{other}") if row["scheme"] == "cot")
        values = (row.get("select_published"), row.get("respond_published"))
        assert values == ((select, respond) if other == measure else (None, None))
    assert any(note.startswith(f"paper: {measure} of AT-CoT's table 8 ({name})") for note in report.notes)


def test_table_3_counts_the_data_beside_the_paper(tmp_path: Path) -> None:
    """Three queries with five intents, four of them judged; people asked about jaguar and ferry, once each."""
    (tmp_path / "qrels").write_text(JUDGED)
    plan = plan_of(tmp_path, talk(tmp_path, "cot"), qulac=True)
    report = evaluated(plan, tmp_path, str(tmp_path / "qrels"))
    assert [(row["here"], row["published"]) for row in rows_of(report, "sizes")] == [
        (3, 198),
        (2, 2575),
        (4, 717),
    ]
    assert not any(table.name == "sizes" for table in evaluated(plan_of(tmp_path), tmp_path).tables)


def test_unknown_published_dataset_is_refused_before_anything_is_paid_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--published trec: must be one of qulac, clariq, raocq"):
        opened(tmp_path, "intent:1", published="trec")


def test_mean_over_fewer_instances_gives_a_note(tmp_path: Path) -> None:
    everything, some = talk(tmp_path, "cot"), talk(tmp_path, "at-cot")
    assert not any(
        "where n differs" in note for note in evaluated(plan_of(tmp_path, everything, some), tmp_path).notes
    )
    lines = (some / "results.jsonl").read_text().splitlines(keepends=True)
    (some / "results.jsonl").write_text("".join(lines[:-1]))
    report = evaluated(plan_of(tmp_path, everything, some), tmp_path)
    assert any("where n differs, means are over different instances" in note for note in report.notes)
    assert [row["respond_n"] for row in rows_of(report, "turns_nDCG@10")] == [5, 5, 4]


def test_each_clarifier_has_tables_of_its_own(tmp_path: Path) -> None:
    runs = talk(tmp_path, "cot"), talk(tmp_path, "cot", clarifier="openai:a_b")
    report = evaluated(plan_of(tmp_path, *runs), tmp_path)
    assert [table.title for table in report.tables if table.name.startswith("turns_MRR@10")] == [
        "Retrieval by turn, MRR@10 (table 8): gpt",
        "Retrieval by turn, MRR@10 (table 8): openai:a_b",
    ]
    assert {"turns_MRR@10_gpt", "turns_MRR@10_openai_a_b"} <= {table.name for table in report.tables}


def test_without_queries_or_documents_only_the_questions_are_looked_at(tmp_path: Path) -> None:
    rows = {id: [{"offered": ["Which?", "Why?"]}] for id in ("1-1", "2-1")}
    plan = plan_of(
        tmp_path, made_talk(tmp_path, scheme="cot", mode="at-once", rows=rows, queries=QUERIES, k=2)
    )
    report = evaluated(plan, tmp_path)
    assert not any(table.name.startswith("turn") for table in report.tables)
    assert any(note.startswith("No conversation made a query") for note in report.notes)
    assert any(note.startswith("Tables 5 to 7 are of 2 questions asked at once") for note in report.notes)
    report = evaluated(plan, tmp_path, searched=False)
    assert not any(table.name.startswith("turn") for table in report.tables)
    assert report.notes[-1] == "Nothing was retrieved: name documents with --corpus FILE.jsonl."


def test_how_the_conversations_went_is_a_table(tmp_path: Path) -> None:
    turn = {"offered": ["Which?"], "answers": ["unknown"], "query": "q"}
    run = made_talk(tmp_path, scheme="cot", rows={"1": [turn]}, failed=["2"])
    (row,) = conversations_table([summarise_run(run)]).rows
    assert (row["system"], row["done"], row["failed"], row["expected"]) == ("gpt-cot-respond-k3", 1, 1, 2)
    assert (row["calls"], row["tokens"], row["cost_usd"]) == (0, 0, 0.0)


def opened(folder: Path, qrels: str, **evaluation: object) -> Judgments | None:
    plan = plan_of(folder)
    asked = {"corpus": folder / "pages.jsonl", "qrels": qrels, **evaluation}
    return open_judgments(EvaluationConfig(**asked), plan.dataset, plan.instances())  # type: ignore[arg-type]


def test_pseudo_judgments_come_from_the_intent_text(tmp_path: Path) -> None:
    found = opened(tmp_path, "intent:1")
    assert found is not None
    assert (found.by_people, found.caption) == (
        None,
        "bm25 over pages.jsonl; pseudo-judgments (what the intent's own text ranks best), "
        "not relevance judgments",
    )
    assert found.qrels({"1-2": "a jaguar car dealer", "9": "zebra"}) == {"1-2": {"car": 1}}
    by_default = opened(tmp_path, "intent")
    assert by_default is not None
    assert by_default.pseudo_depth == 10


def test_judgments_of_facets_are_read_in_both_forms(tmp_path: Path) -> None:
    (tmp_path / "diversity.qrels").write_text("1 1 animal 2\n1 2 car 1\n7 1 car 1\n")
    (tmp_path / "facets.qrels").write_text("1-1 0 animal 2\n1-2 0 car 1\n7-1 0 car 1\n")
    for name in ("diversity.qrels", "facets.qrels"):
        found = opened(tmp_path, str(tmp_path / name))
        assert found is not None
        assert found.caption == f"bm25 over pages.jsonl; 2 of 5 intents judged in {name}"
        assert found.qrels({})["1-1"] == {"animal": 2}


@pytest.mark.parametrize(
    ("qrels", "problem"),
    [
        (
            "1 0 animal 2\n2 0 ferry 1\n",
            "qrels: judges none of the 5 intents: it judges '1', '2', their ids are",
        ),
        (
            "1 1 clueweb09-en0000 2\n",
            "qrels: judges no document of the corpus: it judges 'clueweb09-en0000'; ids",
        ),
    ],
)
def test_judgments_of_something_else_are_refused_before_anything_is_paid_for(
    tmp_path: Path, qrels: str, problem: str
) -> None:
    (tmp_path / "web.qrels").write_text(qrels)
    with pytest.raises(InputError, match=problem):
        opened(tmp_path, str(tmp_path / "web.qrels"))


@pytest.mark.parametrize(
    ("qrels", "changes", "problem"),
    [
        *((f"intent:{depth}", {}, "write intent:N, with N from 1 on") for depth in ("0", "", "ten", "²")),
        ("intent:1", {"relevance_level": 2}, "--relevance-level 2: intent:1 has grade 1 only; name a file"),
        ("missing.qrels", {}, "missing.qrels"),
        ("intent:3", {"corpus": Path("nowhere.jsonl")}, "nowhere.jsonl"),
        ("intent:3", {"measures": ("nDGC@10",)}, "'nDGC@10' is not a known measure"),
    ],
)
def test_wrong_setting_is_refused(tmp_path: Path, qrels: str, changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        opened(tmp_path, qrels, **changes)


FEW = [(id, query) for id, query, _ in INTENTS][:2]


def held(folder: Path, *, spec: str | None = None, k: int = 1, first: int = 2) -> RunSummary:
    """A conversation of `k` turns about each of the `first` two intents, whose query stays as it was."""
    rows = {id: [{"offered": ["which?"], "query": query}] * k for id, query in FEW[:first]}
    directory = made_talk(folder / "runs", scheme="cot", rows=rows, queries=dict(FEW), k=k)
    with changed_manifest(directory) as manifest:
        if spec:
            manifest["data"] = {"spec": spec, "gold": None, "fields": {}}
            manifest["identity"]["data"]["sha256"] = open_dataset(spec).sha256()
    return summarise_run(directory)


def test_conversations_are_evaluated_over_the_instances_that_were_talked_about(tmp_path: Path) -> None:
    data, corpus = write_talk_world(tmp_path)
    found = evaluate_finished(
        [held(tmp_path, spec=str(data))], EvaluationConfig(corpus=corpus, measures=("nDCG@10",))
    )
    (turns,) = (table for table in found.tables if table.name == "turns_nDCG@10")
    assert [(row["turn"], row["respond_n"]) for row in turns.rows] == [(0, 2), (1, 2)]
    assert turns.rows[0]["respond"] == turns.rows[1]["respond"]
    assert len(found.retrieved) == 1


def test_runs_of_fewer_and_of_more_turns_have_tables_of_their_own(tmp_path: Path) -> None:
    """In one table the run of one turn, about one intent, would stand for both in the row of turn 1."""
    data, corpus = write_talk_world(tmp_path)
    runs = [held(tmp_path, spec=str(data), k=1, first=1), held(tmp_path, spec=str(data), k=2)]
    found = evaluate_finished(runs, EvaluationConfig(corpus=corpus, measures=("P@1",)))
    tables = {table.name: table for table in found.tables}
    short, long = "gpt_user-ernie_1-turn", "gpt_user-ernie_2-turns"
    assert tables.keys() == {f"{name}_{of}" for name in ("turns_P@1", "turn_tests") for of in (short, long)}
    assert tables[f"turns_P@1_{short}"].title == "Retrieval by turn, P@1 (table 8): gpt, user ernie, 1 turn"
    counted = {
        of: [(row["turn"], row["respond_n"]) for row in tables[f"turns_P@1_{of}"].rows]
        for of in (short, long)
    }
    assert counted == {short: [(0, 2), (1, 1)], long: [(0, 2), (1, 2), (2, 2)]}
    others = [row["other"] for of in (short, long) for row in tables[f"turn_tests_{of}"].rows]
    assert set(others) == {"w/o clarification"}  # and no scheme against itself


def test_evaluation_without_data_notes_the_reason(tmp_path: Path) -> None:
    found = evaluate_finished([held(tmp_path)], EvaluationConfig())
    assert found.tables == ()
    assert found.notes == (
        "Not evaluated, since the data cannot be read again: run.json does not record where the data is.",
    )


# --- Retrieval by turn (table 8) -------------------------------------------------------------------------


@pytest.fixture
def found(tmp_path: Path) -> TurnRetrieval:
    return retrieve_turns(three_talks(tmp_path), TURN_INTENTS, RANKED, QRELS, ["MRR@10", "nDCG@10"])


def turns_printed(found: TurnRetrieval, paper: PaperColumns | None = None) -> list[str]:
    out = StringIO()
    console = Console(file=out, width=80)
    for table in turn_tables(found, "bm25 over made.jsonl", paper):
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


def test_turn_table_fits_80_columns_with_the_paper_s_values(found: TurnRetrieval) -> None:
    lines = turns_printed(found, paper_columns("qulac", ""))
    assert max(map(len, lines)) <= 80
    rows = [" ".join(line.split()) for line in lines]
    assert "turn scheme respond n paper select n paper" in rows
    assert "1 at-cot 1.000* 3 0.244 1.000 3 0.188" in rows
    assert sum("paper" in row for row in rows) == 1  # beside nDCG@10 only
    for column in published("at_cot")["table_8"].values():
        assert column.keys() == {NOBODY_ASKED, *MARKS, "at-cot"}


def test_turn_tests_are_in_rows_but_not_printed(found: TurnRetrieval, tmp_path: Path) -> None:
    *_, tests = turn_tables(found, "caption")
    row = next(r for r in tests.rows if (r["measure"], r["turn"], r["other"]) == ("MRR@10", 1, "standard"))
    assert (row["scheme"], row["n"]) == ("at-cot", 3)
    assert (row["difference"], row["p"], row["p_holm"]) == (0.5, 0.0, 0.0)
    write_csv(tmp_path, tests)
    header = (tmp_path / f"{tests.name}.csv").read_text().splitlines()[0]
    assert header == "measure,mode,turn,scheme,other,n,difference,t,p,p_holm,judgments"

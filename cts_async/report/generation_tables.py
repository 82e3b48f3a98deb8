"""Clarification generation as tables: AT-CoT's 5, 6 and 7, and the correlation with retrieval of its section 7."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Final

from cts_async.analysis.bertscore import PAPERS_ENCODER
from cts_async.analysis.generation import (
    ALPHA,
    BASELINES,
    GeneratedQuestions,
    QueryScores,
    SchemeScore,
    by_level,
    scheme_scores,
    score_queries,
)
from cts_async.analysis.generation_published import SECTION_7, TABLE_5, TABLE_6, TABLE_7
from cts_async.analysis.scheme_correlation import Alignment, Retrieval, alignment
from cts_async.analysis.similarity import Scorer
from cts_async.analysis.stats import holm
from cts_async.analysis.type_distribution import type_distribution
from cts_async.datasets.instances import Annotations
from cts_async.report.tables import Column, DataTable, Row, number, p_value, text

MARKS: Final[Mapping[str, str]] = {"standard": "*", "at-standard": "†", "cot": "Δ"}
"""The paper's marks of a significant improvement over each baseline."""
_LEVELS: Final = (1, 2, 3, 4)


def generation_tables(
    generated: GeneratedQuestions,
    annotations: Annotations,
    scorer: Scorer,
    retrieval: Retrieval | None = None,
    *,
    dataset: str = "",
    told: Callable[[int, int], Any] | None = None,
) -> list[DataTable]:
    """Every table there is something for; the last, a row for each query, is for JSON and CSV alone.

    Published values stand beside where `dataset` is "qulac" or "clariq" and the scorer is BERTScore. `told(done, of)`
    is called as queries are scored, which takes minutes with a large encoder.
    """
    questions = {query: one.questions for query, one in annotations.queries.items()}
    levels = {query: one.ambiguity for query, one in annotations.queries.items() if one.ambiguity is not None}
    published = dataset if scorer.is_bertscore else ""
    scores = score_queries(generated, questions, scorer, told)
    found = [overall_table(scores, generated, scorer, published)]
    if levels:
        found.append(level_table(scores, generated, levels, scorer, published))
    found.append(type_table(scores, generated, scorer, published))
    if retrieval is not None:
        found.append(alignment_table(alignment(scores, retrieval), scorer, published))
    found.append(query_table(scores, scorer))
    return [table for table in found if table.rows]


def overall_table(
    scores: QueryScores, generated: GeneratedQuestions, scorer: Scorer, published: str = ""
) -> DataTable:
    """Table 5."""
    paper = TABLE_5.get(published)
    rows = [
        _row(one) | ({"published": paper.get(one.scheme)} if paper else {})
        for one in scheme_scores(scores, generated)
    ]
    columns = (
        Column("scheme", text("scheme"), numeric=False),
        Column("queries", text("n")),
        Column("left out", text("left_out")),
        *_score_columns(scores, paper),
    )
    caption = (
        f"{_measure(scorer)} A query's is that of the best pair of a generated and an annotated question; queries "
        f"without either are left out.{_legend(scores, paper)}"
    )
    return DataTable("generation", "Generated clarifying questions (table 5)", caption, columns, rows)


def level_table(
    scores: QueryScores,
    generated: GeneratedQuestions,
    levels: Mapping[str, int],
    scorer: Scorer,
    published: str = "",
) -> DataTable:
    """Table 6: a row for each scheme and level; printed level by level."""
    paper = TABLE_6 if published == "clariq" else None
    rows = []
    for level, schemes in by_level(scores, generated, levels).items():
        for one in schemes:
            row: dict[str, Any] = {"level": level, **_row(one)}
            if paper:
                known = one.scheme in paper and level in _LEVELS
                row["published"] = paper[one.scheme][level - 1] if known else None
            rows.append(row)
    columns = (
        Column("level", text("level")),
        Column("scheme", text("scheme"), numeric=False),
        Column("queries", text("n")),
        *_score_columns(scores, paper),
    )
    caption = f"From 1 (clear) to 4 (most ambiguous). {_measure(scorer)}{_legend(scores, paper)}"
    title = "Generated clarifying questions by ambiguity level (table 6)"
    return DataTable("generation_by_level", title, caption, columns, rows, group="level")


def type_table(
    scores: QueryScores, generated: GeneratedQuestions, scorer: Scorer, published: str = ""
) -> DataTable:
    """Table 7; without rows where at-cot predicted nothing."""
    found = type_distribution(generated.get("at-cot", {}), scores.get("at-cot"), scores.get("cot"))
    paper = TABLE_7.get(published)
    rows = []
    for one in found if found[0].of else ():
        row = {
            "type": one.kind,
            "predicted": one.n,
            "share": None if one.share is None else 100 * one.share,
            "gain": one.gain.difference if one.gain.n else None,
            "gain_queries": one.gain.n,
            "gain_p": one.gain.p if one.gain.n else None,
        }
        if paper:
            row |= {"published_share": paper[one.kind][0], "published_gain": paper[one.kind][1]}
        rows.append(row)
    columns = (
        Column("type", text("type"), numeric=False),
        Column("predicted", text("predicted")),
        Column("share %", number("share", ".1f")),
        Column("over cot (n)", _gain),
        *((Column("published", _published_type),) if paper else ()),
    )
    caption = (
        "Share among all predictions of at-cot (a query may have several); over cot: mean difference of the scores "
        f"of at-cot and cot over the n queries with that type. {_measure(scorer)}"
    )
    return DataTable("ambiguity_types", "Predicted ambiguity types (table 7)", caption, columns, rows)


def alignment_table(found: Alignment, scorer: Scorer, published: str = "") -> DataTable:
    """Section 7: both means of each scheme, and in the last row the correlation over schemes."""
    rows: list[Row] = [
        {
            "scheme": one.scheme,
            "generation": one.generation,
            "retrieval": one.retrieval,
            **asdict(one.over_queries),
        }
        for one in found.schemes
    ]
    if rows:
        over = {"scheme": "over schemes", "generation": None, "retrieval": None, **asdict(found.over_schemes)}
        rows.append(over)
    columns = (
        Column("scheme", text("scheme"), numeric=False),
        Column("generation", number("generation", ".2f")),
        Column("retrieval", number("retrieval", ".3f")),
        Column("n", text("n")),
        Column("r", number("r", "+.3f")),
        Column("p", p_value("p")),
    )
    caption = (
        "Pearson's r of the generation score and retrieval after the first turn of respond: over a scheme's n queries, "
        f"and in the last row over the means of n schemes. {_measure(scorer)}{_section_7(published)}"
    )
    title = "Better questions, better retrieval? (section 7)"
    return DataTable("generation_and_retrieval", title, caption, columns, rows)


def query_table(scores: QueryScores, scorer: Scorer) -> DataTable:
    """Every query's score with the two questions that it is the similarity of."""
    rows = [
        {
            "scheme": scheme,
            "query": query,
            "score": best.points,
            "question": best.question,
            "like": best.annotated,
        }
        for scheme, own in scores.items()
        for query, best in own.items()
    ]
    title = "Generated clarifying questions, query by query"
    return DataTable("generation_by_query", title, _measure(scorer), (), rows, shown=0)


def _row(one: SchemeScore) -> dict[str, Any]:
    """The row's numbers, with p-values of each baseline, plain and by Holm over this scheme's tests."""
    made = {name: test.p for name, test in one.tests.items() if test.n}
    adjusted = dict(zip(made, holm([*made.values()]), strict=True))
    row: dict[str, Any] = {"scheme": one.scheme, "n": one.n, "left_out": one.left_out, "mean": one.mean}
    row["marks"] = "".join(mark for name, mark in MARKS.items() if one.improves_on(name))
    for name in BASELINES:
        test = one.tests.get(name)
        row |= {
            f"over_{name}": test.difference if test and test.n else None,
            f"over_{name}_n": test.n if test else None,
            f"over_{name}_p": test.p if test and test.n else None,
            f"over_{name}_p_holm": adjusted[name] if test and test.n else None,
        }
    return row


def _score_columns(scores: QueryScores, paper: object) -> tuple[Column, ...]:
    """The score, its marks, what is published, and the tests' p-values."""
    return (
        Column("score", number("mean", ".1f")),
        Column("", text("marks"), numeric=False),
        *((Column("published", number("published", ".1f")),) if paper else ()),
        *(Column(f"p {MARKS[name]}", p_value(f"over_{name}_p")) for name in BASELINES if name in scores),
    )


def _gain(row: Row) -> str:
    return "-" if row["gain"] is None else f"{row['gain']:+.1f} ({row['gain_queries']})"


def _published_type(row: Row) -> str:
    return f"{row['published_share']:.1f} ({row['published_gain']:+.1f})"


def _measure(scorer: Scorer) -> str:
    return f"Score: {scorer.name}, x 100."


def _legend(scores: QueryScores, paper: object) -> str:
    """What the marks mean, and what the published values are of."""
    marks = ", ".join(f"{mark} {name}" for name, mark in MARKS.items() if name in scores)
    better = f" Better than {marks}: p < {ALPHA} in a paired t-test, two-sided." if marks else ""
    return better + (f" Published: BERTScore by {PAPERS_ENCODER}, Llama-3-8B." if paper else "")


def _section_7(published: str) -> str:
    if published != "qulac":
        return ""
    r, p = SECTION_7
    return f" The paper, by TREC's judgments: r = {r}, p = {p}; its own tables 5 and 8 give r = 0.994, p = 0.006."

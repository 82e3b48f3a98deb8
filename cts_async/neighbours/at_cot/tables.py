"""AT-CoT's tables: clarification generation (5 to 7, section 7) and retrieval by turn (8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from cts_async.analysis.stats import holm
from cts_async.analysis.turn_retrieval import ALPHA, NOBODY_ASKED, Cell, SchemeTest, TurnRetrieval, mean_of
from cts_async.datasets.registry import Annotations
from cts_async.neighbours.at_cot.generation import (
    BASELINES,
    Alignment,
    GeneratedQuestions,
    QueryScores,
    Retrieval,
    SchemeScore,
    alignment,
    by_level,
    published,
    scheme_scores,
    score_queries,
    type_distribution,
)
from cts_async.neighbours.at_cot.similarity import PAPERS_ENCODER, Scorer
from cts_async.records import SCHEMES, Mode
from cts_async.report.tables import Column, DataTable, Row, Show, number, p_value, text

MARKS: Final[Mapping[str, str]] = {"standard": "*", "at-standard": "†", "cot": "Δ"}
"""The paper's marks of a significant improvement over each baseline."""


def generation_tables(
    generated: GeneratedQuestions,
    annotations: Annotations,
    scorer: Scorer,
    retrieval: Retrieval | None = None,
    *,
    dataset: str = "",
    on_progress: Callable[[int, int], Any] | None = None,
) -> list[DataTable]:
    """All tables that have rows; the last, with a row for each query, is for JSON and CSV only.

    Published values are shown where `dataset` is "qulac" or "clariq" and the scorer is BERTScore.
    `on_progress(done, of)` is called as queries are scored, which takes minutes with a large encoder.
    """
    questions = {query: one.questions for query, one in annotations.queries.items()}
    levels = {query: one.ambiguity for query, one in annotations.queries.items() if one.ambiguity is not None}
    paper_of = dataset if scorer.is_bertscore else ""
    scores = score_queries(generated, questions, scorer, on_progress)
    found = [overall_table(scores, generated, scorer, paper_of)]
    if levels:
        found.append(level_table(scores, generated, levels, scorer, paper_of))
    found.append(type_table(scores, generated, scorer, paper_of))
    if retrieval is not None:
        found.append(alignment_table(alignment(scores, retrieval), scorer, paper_of))
    found.append(query_table(scores, scorer))
    return [table for table in found if table.rows]


def overall_table(
    scores: QueryScores, generated: GeneratedQuestions, scorer: Scorer, paper_of: str = ""
) -> DataTable:
    """Table 5."""
    paper = published()["table_5"].get(paper_of)
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
    paper_of: str = "",
) -> DataTable:
    """Table 6: a row for each scheme and level; printed level by level."""
    paper = published()["table_6"] if paper_of == "clariq" else None
    rows = []
    for level, schemes in by_level(scores, generated, levels).items():
        for one in schemes:
            row: dict[str, Any] = {"level": level, **_row(one)}
            if paper:
                known = one.scheme in paper and level in (1, 2, 3, 4)
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
    scores: QueryScores, generated: GeneratedQuestions, scorer: Scorer, paper_of: str = ""
) -> DataTable:
    """Table 7; without rows where at-cot predicted nothing."""
    found = type_distribution(generated.get("at-cot", {}), scores.get("at-cot"), scores.get("cot"))
    paper = published()["table_7"].get(paper_of)
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


def alignment_table(found: Alignment, scorer: Scorer, paper_of: str = "") -> DataTable:
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
        f"and in the last row over the means of n schemes. {_measure(scorer)}{_section_7(paper_of)}"
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
    """The meaning of the marks, and of the published values."""
    marks = ", ".join(f"{mark} {name}" for name, mark in MARKS.items() if name in scores)
    better = f" Better than {marks}: p < {ALPHA} in a paired t-test, two-sided." if marks else ""
    return better + (f" Published: BERTScore by {PAPERS_ENCODER}, Llama-3-8B." if paper else "")


def _section_7(paper_of: str) -> str:
    if paper_of != "qulac":
        return ""
    r, p = published()["section_7"]["r"], published()["section_7"]["p"]
    return f" The paper, by TREC's judgments: r = {r}, p = {p}; its own tables 5 and 8 give r = 0.994, p = 0.006."


# --- Retrieval by turn (table 8) -------------------------------------------------------------------------

_PUBLISHED_MODES: Final[tuple[Mode, Mode]] = ("select", "respond")
PUBLISHED_MEASURE: Final = "nDCG@10"


def turn_tables(found: TurnRetrieval, caption: str, *, beside_paper: bool = False) -> Iterator[DataTable]:
    """A table for each measure, then the tests, which are not printed but are in JSON and CSV.

    `caption` says what was searched and who judged. It is in every row as well: a file must tell pseudo-judgments from
    people's by itself. With `beside_paper`, the paper's values stand beside nDCG@10. No table where no conversation
    made a query.
    """
    if not found.cells:
        return
    for measure in found.measures:
        yield turn_table(found, measure, caption, beside_paper=beside_paper and measure == PUBLISHED_MEASURE)
    tests = [*found.tests, *found.gains]
    columns = tuple(Column(name, text(name)) for name in SchemeTest.__slots__)
    rows = [asdict(test) | {"judgments": caption} for test in tests]
    yield DataTable(
        "turn_tests", "Paired t-tests", f"Holm within each measure; {caption}", columns, rows, shown=0
    )


def turn_table(found: TurnRetrieval, measure: str, caption: str, *, beside_paper: bool) -> DataTable:
    """Rows by turn and scheme, a column for each mode, and how many instances each mean is over."""
    modes = tuple(dict.fromkeys(cell.mode for cell in found.cells))
    rows = [
        {**row, "judgments": caption} for row in _turn_rows(found, measure, modes, beside_paper=beside_paper)
    ]
    columns = [
        Column("turn", lambda row: "" if row["turn"] == 0 else str(row["turn"])),
        Column("scheme", text("scheme"), numeric=False),
    ]
    for mode in modes:
        columns += [Column(mode, _marked(mode)), Column("n", _count(mode))]
        if beside_paper and mode in _PUBLISHED_MODES:
            columns.append(Column("paper", number(f"{mode}_published", ".3f")))
    legend = ", ".join(f"{mark} {scheme}" for scheme, mark in MARKS.items() if found.has(scheme))
    return DataTable(
        name=f"turns_{measure}",
        title=f"Retrieval by turn, {measure} (table 8)",
        caption=caption + (f"; better at p < {ALPHA} than: {legend}" if legend else ""),
        columns=columns,
        rows=rows,
        group="turn",
    )


def _turn_rows(
    found: TurnRetrieval, measure: str, modes: Sequence[Mode], *, beside_paper: bool
) -> Iterator[Row]:
    without = found.without[measure]
    first: dict[str, Any] = {"turn": 0, "scheme": NOBODY_ASKED}
    for mode in modes:
        first |= {mode: mean_of(without), f"{mode}_n": len(without), f"{mode}_over": []}
    yield first | (_published_turn(0, NOBODY_ASKED, modes) if beside_paper else {})
    for turn in sorted({cell.turn for cell in found.cells}):
        for scheme in SCHEMES:
            cells = {mode: found.cell(mode, turn, scheme) for mode in modes}
            if any(cells.values()):
                row: dict[str, Any] = {"turn": turn, "scheme": scheme}
                for mode, cell in cells.items():
                    row |= _cell(found, measure, mode, cell)
                yield row | (_published_turn(turn, scheme, modes) if beside_paper else {})


def _cell(found: TurnRetrieval, measure: str, mode: Mode, cell: Cell | None) -> dict[str, Any]:
    if cell is None:
        return {mode: None, f"{mode}_n": 0, f"{mode}_over": []}
    over = list(found.better_than(measure, cell))
    return {mode: cell.mean(measure), f"{mode}_n": cell.n(measure), f"{mode}_over": over}


def _published_turn(turn: int, scheme: str, modes: Sequence[Mode]) -> dict[str, Any]:
    """What table 8 prints for a scheme after a turn (0: the query itself), by mode."""
    turns = published()["table_8"].get(scheme, [])
    place = 0 if scheme == NOBODY_ASKED else turn - 1
    values = turns[place] if place < len(turns) else (None, None)
    printed = dict(zip(_PUBLISHED_MODES, values, strict=True))
    return {f"{mode}_published": printed[mode] for mode in modes if mode in printed}


def _marked(mode: str) -> Show:
    """A mean, padded to the width of three marks so that numbers align."""

    def show(row: Row) -> str:
        if row[mode] is None:
            return "-" + " " * len(MARKS)
        marks = "".join(mark for scheme, mark in MARKS.items() if scheme in row[f"{mode}_over"])
        return f"{row[mode]:.3f}{marks:<{len(MARKS)}}"

    return show


def _count(mode: str) -> Show:
    return lambda row: str(row[f"{mode}_n"])

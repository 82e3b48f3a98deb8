"""The evaluation of conversations (AT-CoT, SIGIR 2025, tables 5 to 8): their questions, and retrieval by turn."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain, product
from pathlib import Path
from typing import Any, Final, TypeAlias

from cts_async.analysis import retrieval
from cts_async.analysis.summary import RunSummary
from cts_async.config import EvaluationConfig
from cts_async.datasets.kinds import Dataset
from cts_async.errors import UsageError
from cts_async.neighbours.at_cot.generation import (
    ALIGNMENT,
    MARKS,
    Scorer,
    compared_mode,
    first_questions,
    generation_tables,
    open_scorer,
    retrieval_after_first_turn,
)
from cts_async.neighbours.inputs import published, read_judgments
from cts_async.records import SCHEMES, Instance, Mode
from cts_async.runs.conversations import ConversationRun, read_conversation_run
from cts_async.runs.files import RESULTS, reopen_data
from cts_async.runs.results import read_results
from cts_async.search.rankers import Ranker
from cts_async.tables.results import ConversationReport
from cts_async.tables.table import Column, DataTable, Row, Show, number, text

# --- Judgments: what queries are searched in and judged by -----------------------------------------------


@dataclass(frozen=True, slots=True)
class Judgments:
    """A ranker over a corpus, and the relevance judgments of its documents; `caption` names both, for tables."""

    ranker: Ranker
    caption: str
    by_people: retrieval.Qrels | None = field(repr=False)
    """People's grades by instance id; None for pseudo-judgments, which are not comparable with published values."""
    pseudo_depth: int
    level: int = 1
    """The least grade that is relevant, as in `retrieval.evaluate`."""

    def qrels(self, intents: Mapping[str, str]) -> retrieval.Qrels:
        """Grades of documents by instance id; `intents` are q* by id."""
        if self.by_people is not None:
            return self.by_people
        return retrieval.pseudo_qrels(self.ranker, intents, self.pseudo_depth)


def open_judgments(
    config: EvaluationConfig, dataset: Dataset, instances: Iterable[Instance]
) -> Judgments | None:
    """Index the corpus and read the judgments, before anything is paid for; None without a corpus.

    Raises UsageError or InputError for an unknown measure or published dataset, a relevance level above the only grade
    of pseudo-judgments, a corpus, re-ranker or qrels that cannot be read, for qrels that judge no instance or no
    document of the corpus, and as `retrieval.check_evaluator`.
    """
    from cts_async.search.backends.corpus import Corpus
    from cts_async.search.rankers import CrossEncoderRanker

    # Both raise for a name that they do not know, before the corpus is read.
    for name in config.measures:
        retrieval.measure(name)
    paper_columns(config.published, dataset.name)
    level = config.relevance_level
    depth = retrieval.pseudo_depth(config.qrels, level)
    path = config.corpus or dataset.corpus
    if path is None:
        return None
    retrieval.check_evaluator()
    by_people, judges = None, retrieval.PSEUDO_JUDGMENTS
    corpus = Corpus.open(path)

    def is_document(id: str) -> bool:
        return corpus.document(id) is not None

    if depth is None:
        ids = [instance.id for instance in instances]
        by_people = read_judgments(Path(config.qrels), ids, is_document)
        judges = f"{len(by_people)} of {len(ids)} intents judged in {Path(config.qrels).name}"
    ranker: Ranker = corpus
    if config.reranker:
        ranker = CrossEncoderRanker(ranker, config.reranker, corpus)
    caption = f"{ranker.name} over {path.name}; {judges}{retrieval.relevant_from(level)}"
    return Judgments(ranker, caption, by_people, depth or 0, level)


# --- All tables ------------------------------------------------------------------------------------------

Progress: TypeAlias = Callable[[str, int, int], Any]
"""Called with the name of a task, the number of items done, and their total."""


@dataclass(frozen=True, slots=True)
class PaperColumns:
    """Where the paper's tables have a dataset; "" for a table that does not have it."""

    generation: str = ""
    """Its column of tables 5 to 7."""
    retrieval: str = ""
    """Its column of table 8, whose values are of `measure`."""
    measure: str = ""
    sizes: tuple[str, ...] = ()
    """Its lines of table 3."""


def paper_columns(name: str, data: str) -> PaperColumns:
    """The paper's columns for the dataset `name`, or where that is "" for `data`, the data's own name.

    UsageError for a name that the paper does not have; data of another name have no columns.
    """
    datasets = published("at_cot")["datasets"]
    if name and name not in datasets:
        raise UsageError(f"--published {name}: must be one of {', '.join(datasets)}")
    columns = datasets.get(name or data, {})
    return PaperColumns(
        columns.get("generation", ""),
        columns.get("retrieval", ""),
        columns.get("measure", ""),
        tuple(columns.get("sizes", ())),
    )


def evaluate_finished(runs: Sequence[RunSummary], config: EvaluationConfig) -> ConversationReport:
    """The tables of `cts converse` over the conversations in these runs; a note says what cannot be evaluated.

    Their instances are those that at least one run has. Raises UsageError for documents and judgments that cannot be
    read.
    """
    try:
        dataset = reopen_data(runs[0].manifest)
    except UsageError as error:
        return ConversationReport((), (f"Not evaluated, since the data cannot be read again: {error}.",))
    directories: list[Path] = []
    ids: set[str] = set()
    for run in runs:
        directories.append(run.directory)
        for line in read_results(run.directory / RESULTS):
            ids.add(line["id"])
    instances = [instance for instance in dataset.instances() if instance.id in ids]
    judgments = open_judgments(config, dataset, instances)
    scorer = open_scorer(config.encoder)
    return evaluate_conversations(
        dataset, instances, directories, judgments, scorer, config, _without_progress
    )


def _without_progress(task: str, done: int, total: int) -> None:
    """What `cts report` shows while it evaluates."""


def evaluate_conversations(
    dataset: Dataset,
    instances: Iterable[Instance],
    directories: Iterable[Path],
    judgments: Judgments | None,
    scorer: Scorer,
    config: EvaluationConfig,
    on_progress: Progress,
) -> ConversationReport:
    """All tables that have rows, for each group of comparable conversations over `instances`, in the data's order.

    Directories that are not yet runs are left out.
    """
    measures = config.measures
    paper = paper_columns(config.published, dataset.name)
    # Once: `instances` may be a stream.
    queries: dict[str, str] = {}
    intents: dict[str, str] = {}
    for instance in instances:
        queries[instance.id] = instance.query
        intents[instance.id] = instance.intent
    runs: list[ConversationRun] = []
    for directory in directories:
        if (directory / "run.json").exists():
            runs.append(read_conversation_run(directory))
    # Values of table 8 are comparable only where people judged.
    if judgments is None or judgments.by_people is None:
        paper = replace(paper, retrieval="")
    caption = ""
    qrels: retrieval.Qrels = {}
    if judgments:
        caption, qrels = judgments.caption, judgments.qrels(intents)
    tables: list[DataTable] = []
    if paper.sizes:
        tables.append(sizes_table(dataset, queries, judgments, paper))
    # Groups share most of their notes: each is given once, in the order of the groups.
    notes: dict[str, None] = {}
    retrieved: list[retrieval.TurnRetrieval] = []
    groups = retrieval.comparable_groups(runs)
    for name, group in groups:
        by_turn = None
        retrieval_tables: list[DataTable] = []
        if judgments:
            texts = _with_progress(retrieval.queries_to_rank(group, queries), "retrieving", on_progress)
            ranked = dict(retrieval.rankings(judgments.ranker, texts, measures))
            by_turn = retrieval.retrieve_turns(
                group, queries, ranked, qrels, measures, name=name, level=judgments.level
            )
            retrieved.append(by_turn)
            retrieval_tables += turn_tables(by_turn, caption, paper)
            notes |= dict.fromkeys(_retrieval_notes(by_turn, queries, judgments, paper))
        group_tables: list[DataTable] = []
        if dataset.annotations is not None and compared_mode(group) is not None:
            after_first_turn = None
            if by_turn:
                after_first_turn = retrieval_after_first_turn(by_turn, by_turn.measures[0], queries)
            group_tables += generation_tables(
                first_questions(group, queries),
                dataset.annotations(),
                scorer,
                after_first_turn,
                dataset=paper.generation,
                judged_by=caption,
                on_progress=partial(on_progress, "comparing questions"),
            )
            notes |= dict.fromkeys(_generation_notes(group_tables, group, by_turn))
        # Tables 5 to 7 before table 8, as in the paper.
        group_tables += retrieval_tables
        if len(groups) > 1:
            tables += _tables_of_group(group_tables, name)
        else:
            tables += group_tables
    if retrieved and not any(by_turn.cells for by_turn in retrieved):
        note = "No conversation made a query, so there is nothing to retrieve: --mode respond or select does."
        notes[note] = None
    if not judgments:
        notes["Nothing was retrieved: name documents with --corpus FILE.jsonl."] = None
    return ConversationReport(tuple(tables), tuple(notes), tuple(retrieved), caption)


def _with_progress(items: Sequence[str], task: str, on_progress: Progress) -> Iterator[str]:
    for done, item in enumerate(items, start=1):
        yield item
        on_progress(task, done, len(items))


def _tables_of_group(tables: Iterable[DataTable], group: str) -> Iterator[DataTable]:
    """Yield the tables under names and titles of their group: a name becomes a file's."""
    word = re.sub(r"[/:]|, ", "_", group).replace(" ", "-")
    for table in tables:
        yield replace(table, name=f"{table.name}_{word}", title=f"{table.title}: {group}")


# --- Notes for readers of the numbers --------------------------------------------------------------------


def _generation_notes(
    tables: Sequence[DataTable],
    runs: Sequence[ConversationRun],
    by_turn: retrieval.TurnRetrieval | None,
) -> Iterator[str]:
    """Notes on the questions behind tables 5 to 7 and the correlation."""
    if compared_mode(runs) == "at-once":
        most_questions = max(run.k for run in runs if run.mode == "at-once")
        yield (
            f"Tables 5 to 7 are of {most_questions} questions asked at once about each query, as the paper generates "
            "several."
        )
    else:
        yield (
            "Tables 5 to 7 are of the first question of respond; --mode at-once generates several for each query, "
            "as the paper does."
        )
    for table in tables:
        if by_turn and table.name == ALIGNMENT:
            yield f"Retrieval in the table of section 7 is {by_turn.measures[0]}."


def _retrieval_notes(
    by_turn: retrieval.TurnRetrieval, queries: Mapping[str, str], judgments: Judgments, paper: PaperColumns
) -> Iterator[str]:
    """Notes on table 8: which instances its means are over, and the limits of its judgments."""
    if not by_turn.cells:
        return
    # All measures are over the same instances.
    measure = by_turn.measures[0]
    n_judged, n = len(by_turn.without[measure]), len(queries)
    if n_judged < n:
        yield f"{n - n_judged} of {n} instances have no judgments and are left out."
    by_people = judgments.by_people or {}
    # An instance that nobody judged has no grades, which `count_hopeless` does not call hopeless.
    grades = {id: by_people.get(id, {}) for id in queries}
    n_hopeless = retrieval.count_hopeless(grades, level=judgments.level)
    if n_hopeless:
        yield f"{retrieval.hopeless_note(n_hopeless, f'{n} instances', judgments.level)}."
    if any(cell.n(measure) < n_judged for cell in by_turn.cells):
        yield (
            "Failed and unfinished conversations are excluded: where n differs, means are over different "
            "instances; tests and marks pair those that both have."
        )
    if not _has_score_above_zero(by_turn):
        yield "No query found a single relevant document: are these judgments of this corpus?"
    if judgments.by_people is None:
        yield (
            "Pseudo-judgments show how close queries come to their intent's own words in the same ranker, so a user "
            "who repeats the intent wins: they compare schemes on one corpus, and are no result to report."
        )
        reciprocal_ranks = [name for name in by_turn.measures if retrieval.measure(name).startswith("RR")]
        if reciprocal_ranks and judgments.pseudo_depth > 1:
            names = ", ".join(reciprocal_ranks)
            yield (
                f"{names} is 1 wherever any of an intent's {judgments.pseudo_depth} pseudo-relevant documents "
                "comes first; --qrels intent:1 asks for the best of them."
            )
    if paper.retrieval:
        yield (
            f"paper: {paper.measure} of AT-CoT's table 8 ({paper.retrieval}), with Llama-3-8B over "
            f"{PAPERS_COLLECTIONS[paper.retrieval]}, BM25 re-ranked by MonoT5."
        )


def _has_score_above_zero(by_turn: retrieval.TurnRetrieval) -> bool:
    """True if any query, with or without clarification, has a score above 0 by any measure."""
    all_scores = [by_turn.without]
    for cell in by_turn.cells:
        all_scores.append(cell.scores)
    for scores_by_measure in all_scores:
        for scores in scores_by_measure.values():
            if any(scores.values()):
                return True
    return False


# --- The data (table 3) ----------------------------------------------------------------------------------

_SIZES: Final = {
    "queries": "queries",
    "questions": "people's clarifying questions",
    "intents": "intents",
}


def sizes_table(
    dataset: Dataset, query_by_id: Mapping[str, str], judgments: Judgments | None, paper: PaperColumns
) -> DataTable:
    """Table 3: how many queries, people's questions and intents are evaluated here, beside the paper's.

    `query_by_id` are the queries by instance id. With people's judgments only judged intents count, as in the paper.
    """
    queries = set(query_by_id.values())
    intents = set(query_by_id)
    if judgments is not None and judgments.by_people is not None:
        intents &= set(judgments.by_people)
    sizes: dict[str, int | None] = {"queries": len(queries), "questions": None, "intents": len(intents)}
    if dataset.annotations is not None:
        n_questions = 0
        for annotated in dataset.annotations().queries.values():
            if annotated.query in queries:
                n_questions += len(annotated.questions)
        sizes["questions"] = n_questions
    printed: dict[str, int] = {}
    for line in paper.sizes:
        printed |= published("at_cot")["table_3"][line]
    rows: list[Row] = []
    for name, label in _SIZES.items():
        rows.append({"what": label, "here": sizes[name], "published": printed.get(name)})
    columns = (
        Column("", text("what"), numeric=False),
        Column("here", number("here", ",d")),
        Column("paper", number("published", ",d")),
    )
    caption = f"The paper's: {' and '.join(paper.sizes)}. Here: the instances that are evaluated."
    return DataTable("sizes", "The data (table 3)", caption, columns, rows)


# --- Retrieval by turn (table 8) -------------------------------------------------------------------------

_PUBLISHED_MODES: Final[tuple[Mode, Mode]] = ("select", "respond")
PAPERS_COLLECTIONS: Final = {
    "web-track-2009-2012": "ClueWeb09-B, 198 topics with 717 intents",
    "web-track-2013-2014": "ClueWeb12, 100 topics with 315 intents",
    "dl-hard": "the MS MARCO passages, 50 queries with 350 intents",
}
"""What the paper searched, by its columns of table 8 (section 4.1.2 and table 3)."""


def turn_tables(
    by_turn: retrieval.TurnRetrieval, caption: str, paper: PaperColumns | None = None
) -> Iterator[DataTable]:
    """A table for each measure, then the tests, which are not printed but are in JSON and CSV.

    `caption` says what was searched and who judged. It is in every row as well: a file must tell pseudo-judgments from
    people's by itself. The values of the paper's column stand beside its measure. No table where no conversation
    made a query.
    """
    if not by_turn.cells:
        return
    for name in by_turn.measures:
        column = ""
        if paper is not None and name == paper.measure:
            column = paper.retrieval
        yield turn_table(by_turn, name, caption, column)
    # A test against q itself (`gains`) has the same fields, so that one file has them all.
    rows: list[Row] = []
    for test in chain(by_turn.tests, by_turn.gains):
        rows.append(asdict(test) | {"judgments": caption})
    columns = tuple(Column(name, text(name)) for name in retrieval.SchemeTest.__slots__)
    yield DataTable(
        "turn_tests", "Paired t-tests", f"Holm within each measure; {caption}", columns, rows, shown=0
    )


def turn_table(
    by_turn: retrieval.TurnRetrieval, measure: str, caption: str, published_column: str = ""
) -> DataTable:
    """Rows by turn and scheme, a column for each mode, and how many instances each mean is over.

    `published_column` is the column of the paper's table 8 whose values stand beside, "" for none.
    """
    modes: list[Mode] = []
    turns: set[int] = set()
    for cell in by_turn.cells:
        turns.add(cell.turn)
        if cell.mode not in modes:
            modes.append(cell.mode)
    # Turn 0 is the query itself, before anybody has asked.
    labels: list[tuple[int, str]] = [(0, retrieval.NOBODY_ASKED)]
    labels += product(sorted(turns), SCHEMES)
    rows: list[Row] = []
    for turn, scheme in labels:
        row: dict[str, Any] = {"turn": turn, "scheme": scheme}
        for mode in modes:
            row |= _turn_cell(by_turn, measure, mode, turn, scheme)
        n_scores = sum(row[f"{mode}_n"] for mode in modes)
        if n_scores or turn == 0:
            if published_column:
                row |= _published_turn(published_column, turn, scheme, modes)
            row["judgments"] = caption
            rows.append(row)
    columns = [
        Column("turn", _turn_number),
        Column("scheme", text("scheme"), numeric=False),
    ]
    for mode in modes:
        columns += [Column(mode, _marked(mode)), Column("n", text(f"{mode}_n"))]
        if published_column and mode in _PUBLISHED_MODES:
            columns.append(Column("paper", number(f"{mode}_published", ".3f")))
    marks = [f"{mark} {scheme}" for scheme, mark in MARKS.items() if by_turn.has(scheme)]
    if marks:
        caption += f"; better at p < {retrieval.ALPHA} than: {', '.join(marks)}"
    title = f"Retrieval by turn, {measure} (table 8)"
    return DataTable(f"turns_{measure}", title, caption, columns, rows, group="turn")


def _turn_number(row: Row) -> str:
    # Turn 0 is before the first one: its scheme says that nobody asked.
    if not row["turn"]:
        return ""
    return str(row["turn"])


def _turn_cell(
    by_turn: retrieval.TurnRetrieval, measure: str, mode: Mode, turn: int, scheme: str
) -> dict[str, Any]:
    """A mean, its n, and the schemes it is better than; without clarification the same for every mode."""
    scores: Mapping[str, float] = {}
    better_than: list[str] = []
    cell = by_turn.cell(mode, turn, scheme)
    if cell:
        scores = cell.scores[measure]
        better_than = list(by_turn.better_than(measure, cell))
    if turn == 0:
        scores = by_turn.without[measure]
    return {mode: retrieval.mean_of(scores), f"{mode}_n": len(scores), f"{mode}_over": better_than}


def _published_turn(column: str, turn: int, scheme: str, modes: Sequence[Mode]) -> dict[str, Any]:
    """What a column of table 8 prints for a scheme after a turn (0: the query itself), by mode."""
    turns = published("at_cot")["table_8"][column].get(scheme, [])
    # The query itself has a line, as if it were a scheme's first turn.
    place = max(0, turn - 1)
    values = (None, None)
    if place < len(turns):
        values = turns[place]
    printed: dict[str, Any] = {}
    for mode, value in zip(_PUBLISHED_MODES, values, strict=True):
        if mode in modes:
            printed[f"{mode}_published"] = value
    return printed


def _marked(mode: str) -> Show:
    """A mean, padded to the width of three marks so that numbers align."""

    def show(row: Row) -> str:
        if row[mode] is None:
            return "-" + " " * len(MARKS)
        marks = ""
        for scheme, mark in MARKS.items():
            if scheme in row[f"{mode}_over"]:
                marks += mark
        return f"{row[mode]:.3f}{marks:<{len(MARKS)}}"

    return show

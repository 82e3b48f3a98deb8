"""The evaluation of conversations (AT-CoT, SIGIR 2025, tables 5 to 8): their questions, and retrieval by turn."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from cts_async.analysis.conversations import Talk, TalkGroup, read_talk, talk_groups
from cts_async.analysis.retrieval import (
    STANDIN,
    Qrels,
    count_hopeless,
    hopeless_note,
    measure,
    relevant_from,
    standin_qrels,
    standins_have_one_grade,
)
from cts_async.analysis.turn_retrieval import TurnRetrieval, queries_of, rankings, retrieve_turns
from cts_async.config import EvaluationConfig
from cts_async.datasets.io import listed
from cts_async.datasets.registry import Dataset
from cts_async.datasets.trec import read_facet_qrels
from cts_async.errors import InputError, UsageError
from cts_async.neighbours.at_cot.generation import asked_first, retrieved_first, source_of
from cts_async.neighbours.at_cot.similarity import Scorer, open_scorer
from cts_async.neighbours.at_cot.tables import PUBLISHED_MEASURE, generation_tables, turn_tables
from cts_async.protocol.results import read_results
from cts_async.protocol.run_files import RESULTS, reopen_data
from cts_async.records import Instance
from cts_async.report.conversations import TalkReport
from cts_async.report.summary import RunSummary
from cts_async.report.tables import DataTable
from cts_async.search.rankers import Ranker

if TYPE_CHECKING:
    from cts_async.search.backends.corpus import Corpus

# --- Judgments: what queries are searched in and judged by -----------------------------------------------

INTENT: Final = "intent"
_PSEUDO_DEPTH: Final = 10
"""Documents that count as relevant for "intent" without a number."""


class Subject(Protocol):
    """The data of conversations and where these are: a plan to hold them, or finished runs."""

    @property
    def dataset(self) -> Dataset: ...

    def directories(self) -> Sequence[Path]:
        """The run directories; some may not exist yet."""

    def instances(self) -> Iterator[Instance]:
        """The instances of the conversations, in the data's order."""


@dataclass(frozen=True, slots=True)
class Judgments:
    """A ranker over a corpus, and the relevance judgments of its documents; `caption` names both, for tables."""

    ranker: Ranker
    caption: str
    given: Qrels | None = field(repr=False)
    """People's grades by instance id; None for pseudo-judgments, which are not comparable with published values."""
    pseudo_depth: int
    level: int = 1
    """The least grade that is relevant, as in `retrieval.evaluate`."""

    def qrels(self, intents: Mapping[str, str]) -> Qrels:
        """Grades of documents by instance id; `intents` are q* by id."""
        if self.given is not None:
            return self.given
        return standin_qrels(self.ranker, intents, self.pseudo_depth)


def open_judgments(config: EvaluationConfig, subject: Subject) -> Judgments | None:
    """Index the corpus and read the judgments, before anything is paid for; None without a corpus.

    Raises UsageError or InputError for an unknown measure, a relevance level above the only grade of pseudo-judgments,
    a corpus, re-ranker or qrels that cannot be read, and for qrels that judge no instance or no document of the corpus.
    """
    from cts_async.search.backends.corpus import Corpus

    for name in config.measures:
        measure(name)
    depth = _pseudo_depth(config.qrels)
    if depth is not None and config.relevance_level > 1:
        raise UsageError(standins_have_one_grade(config.relevance_level, config.qrels))
    corpus = config.corpus or subject.dataset.corpus
    if corpus is None:
        return None
    given, judges = None, STANDIN
    if depth is None:
        path = Path(config.qrels)
        ids = [instance.id for instance in subject.instances()]
        given = read_facet_qrels(path)
        judges = f"{_judged(path, given, ids)} of {len(ids)} intents judged in {path.name}"
    documents = Corpus.open(corpus)
    if given is not None:
        _check_documents(Path(config.qrels), given, documents)
    ranker = _ranker(documents, config.reranker)
    level = config.relevance_level
    caption = f"{ranker.name} over {corpus.name}; {judges}{relevant_from(level)}"
    return Judgments(ranker, caption, given, depth or 0, level)


def _pseudo_depth(qrels: str) -> int | None:
    """N of "intent:N", 10 for "intent" alone; None for a file."""
    name, colon, number = qrels.partition(":")
    if name != INTENT:
        return None
    if not colon:
        return _PSEUDO_DEPTH
    if not (number.isascii() and number.isdigit() and 0 < int(number) <= 1000):
        raise UsageError(
            f"--qrels {qrels}: write intent:N with N from 1 to 1000, or name a file of judgments"
        )
    return int(number)


def _judged(path: Path, qrels: Qrels, ids: Sequence[str]) -> int:
    """The number of instances that have judgments. Raises InputError if none has."""
    n = sum(1 for id in ids if qrels.get(id))
    if not n:
        raise InputError(
            path,
            f"has no judgments of any of the {len(ids)} instances: it judges {listed(list(qrels)[:3])}, the "
            f"instances are {listed(ids[:3])}; expected are lines of: instance 0 document grade, or of the "
            "Web Track's diversity task: topic facet document grade",
        )
    return n


def _check_documents(path: Path, qrels: Qrels, corpus: Corpus) -> None:
    """Raise InputError if the corpus has none of the judged documents: every query would score 0."""
    judged = (id for grades in qrels.values() for id in grades)
    if all(corpus.document(id) is None for id in judged):
        named = next(id for grades in qrels.values() for id in grades)
        raise InputError(
            path,
            f"judges no document of {corpus.path}: it judges {named!r}, the corpus has {corpus.id_of(0)!r}; "
            "document ids must be the same in both",
        )


def _ranker(corpus: Corpus, reranker: str | None) -> Ranker:
    from cts_async.search.rankers import Bm25Ranker, CrossEncoderRanker

    base = Bm25Ranker(corpus)
    return CrossEncoderRanker(base, reranker, corpus) if reranker else base


# --- Tables ----------------------------------------------------------------------------------------------

Progress: TypeAlias = Callable[[str, int, int], Any]
"""Called with the name of a task, the number of items done, and their total."""
ALIGNMENT: Final = "generation_and_retrieval"
"""The name of the table of section 7."""
NO_QUERIES: Final = (
    "No conversation made a query, so there is nothing to retrieve: --mode respond or select does."
)
WEB_TRACK: Final = "qulac"
"""The dataset whose topics are those of the TREC Web Track 2009-2012, which the paper evaluates on."""


def talks_of(directories: Iterable[Path]) -> list[Talk]:
    """The conversations of the run directories that exist."""
    return [read_talk(directory) for directory in directories if (directory / "run.json").exists()]


def evaluate_talks(
    subject: Subject,
    judgments: Judgments | None,
    scorer: Scorer,
    measures: Sequence[str],
    on_progress: Progress,
) -> TalkReport:
    """All tables that have rows, for each group of comparable conversations, over the instances of `subject`."""
    queries = _Queries.of(subject)
    groups = talk_groups(talks_of(subject.directories()))
    beside_paper = judgments is not None and _comparable(subject, judgments)
    searched = judgments.caption if judgments else ""
    tables: list[DataTable] = []
    notes: dict[str, None] = {}
    retrieved: list[TurnRetrieval] = []
    for group in groups:
        found = None
        by_turn: list[DataTable] = []
        if judgments:
            found = _retrieve(queries, group, judgments, measures, on_progress)
            retrieved.append(found)
            by_turn += turn_tables(found, searched, beside_paper=beside_paper)
            notes |= dict.fromkeys(_notes(found, queries, judgments, beside_paper=beside_paper))
        generation = _generation(subject, queries, group.talks, scorer, found, searched, on_progress)
        notes |= dict.fromkeys(_sources(generation, group.talks, found))
        of_group = [*generation, *by_turn]
        tables += _named(of_group, group.name) if len(groups) > 1 else of_group
    if retrieved and not any(found.cells for found in retrieved):
        notes[NO_QUERIES] = None
    if not judgments:
        notes["Nothing was retrieved: name documents with --corpus FILE.jsonl."] = None
    return TalkReport(tuple(tables), tuple(notes), tuple(retrieved), searched)


def _named(tables: Iterable[DataTable], group: str) -> Iterator[DataTable]:
    word = re.sub(r"[/:]|, ", "_", group).replace(" ", "-")
    for table in tables:
        yield replace(table, name=f"{table.name}_{word}", title=f"{table.title}: {group}")


def _comparable(subject: Subject, judgments: Judgments) -> bool:
    """True if the paper's values are comparable: judged by people, and over the paper's topics."""
    return judgments.given is not None and subject.dataset.name == WEB_TRACK


@dataclass(frozen=True, slots=True)
class _Queries:
    """q and q* of the instances by id, in the data's order."""

    blurred: Mapping[str, str]
    intents: Mapping[str, str]

    @classmethod
    def of(cls, subject: Subject) -> _Queries:
        blurred, intents = {}, {}
        for instance in subject.instances():
            blurred[instance.id], intents[instance.id] = instance.blurred_query, instance.fused_query
        return cls(blurred, intents)


def _generation(
    subject: Subject,
    queries: _Queries,
    talks: Sequence[Talk],
    scorer: Scorer,
    found: TurnRetrieval | None,
    judged_by: str,
    on_progress: Progress,
) -> list[DataTable]:
    """Tables 5 to 7 and the correlation; none without annotated queries or without questions asked."""
    if subject.dataset.annotations is None or source_of(talks) is None:
        return []
    tables = generation_tables(
        asked_first(talks, queries.blurred),
        subject.dataset.annotations(),
        scorer,
        retrieved_first(found, found.measures[0], queries.blurred) if found else None,
        dataset=subject.dataset.name,
        on_progress=partial(on_progress, "comparing questions"),
    )
    return [_judged_by(table, judged_by) if table.name == ALIGNMENT else table for table in tables]


def _judged_by(table: DataTable, caption: str) -> DataTable:
    """Add to the table who judged its retrieval; to its rows as well, which are read without the caption."""
    rows = [{**row, "judgments": caption} for row in table.rows]
    return replace(table, caption=f"{table.caption} Retrieval: {caption}.", rows=rows)


def _sources(
    generation: Sequence[DataTable], talks: Sequence[Talk], found: TurnRetrieval | None
) -> Iterator[str]:
    """Notes on the questions behind tables 5 to 7 and the correlation."""
    if not generation:
        return
    if source_of(talks) == "at-once":
        k = max(talk.k for talk in talks if talk.mode == "at-once")
        yield f"Tables 5 to 7 are of {k} questions asked at once about each query, as the paper generates several."
    else:
        yield (
            "Tables 5 to 7 are of the first question of respond; --mode at-once generates several for each query, "
            "as the paper does."
        )
    if any(table.name == ALIGNMENT for table in generation) and found:
        yield f"Retrieval in the table of section 7 is {found.measures[0]}."


def _retrieve(
    queries: _Queries, group: TalkGroup, judgments: Judgments, measures: Sequence[str], on_progress: Progress
) -> TurnRetrieval:
    texts = _counted(queries_of(group.talks, queries.blurred), "retrieving", on_progress)
    ranked = dict(rankings(judgments.ranker, texts, measures))
    qrels = judgments.qrels(queries.intents)
    return retrieve_turns(
        group.talks, queries.blurred, ranked, qrels, measures, name=group.name, level=judgments.level
    )


def _counted(items: Sequence[str], task: str, on_progress: Progress) -> Iterator[str]:
    for done, item in enumerate(items, start=1):
        yield item
        on_progress(task, done, len(items))


def _notes(
    found: TurnRetrieval, queries: _Queries, judgments: Judgments, *, beside_paper: bool
) -> Iterator[str]:
    if not found.cells:
        return
    n_judged, n = len(found.without[found.measures[0]]), len(queries.blurred)
    if n_judged < n:
        yield f"{n - n_judged} of {n} instances have no judgments and are left out."
    given = judgments.given or {}
    if hopeless := count_hopeless({id: given.get(id, {}) for id in queries.blurred}, level=judgments.level):
        yield f"{hopeless_note(hopeless, f'{n} instances', judgments.level)}."
    if any(cell.n(found.measures[0]) < n_judged for cell in found.cells):
        yield (
            "Conversations that failed or are not held yet count nowhere: where n differs, means are over different "
            "instances; tests and marks pair those that both have."
        )
    everything = (found.without, *(cell.scores for cell in found.cells))
    if not any(value for scores in everything for by_id in scores.values() for value in by_id.values()):
        yield "No query found a single relevant document: are these judgments of this corpus?"
    if judgments.given is None:
        yield from _pseudo_notes(found, judgments.pseudo_depth)
    if beside_paper:
        yield (
            f"paper: {PUBLISHED_MEASURE} of AT-CoT's table 8 (TREC Web Track 2009-2012), with Llama-3-8B over "
            "ClueWeb09-B, BM25 re-ranked by MonoT5, 198 topics with 717 intents."
        )


def _pseudo_notes(found: TurnRetrieval, depth: int) -> Iterator[str]:
    """The limits of pseudo-judgments: they favour the intent's own words, and some measures hardly discriminate."""
    yield (
        "Stand-in judgments show how close queries come to their intent's own words in the same ranker, so a user "
        "who repeats the intent wins: they compare schemes on one corpus, and are no result to report."
    )
    rr = [name for name in found.measures if measure(name).startswith("RR")]
    if rr and depth > 1:
        yield (
            f"{', '.join(rr)} is 1 wherever any of an intent's {depth} stand-ins comes first; --qrels intent:1 asks "
            "for the best of them."
        )


# --- Conversations evaluated again from their files -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HeldTalks:
    """Runs of conversations over the same data; their instances are those that at least one run has."""

    dataset: Dataset
    runs: tuple[Path, ...]
    ids: frozenset[str]

    def directories(self) -> Sequence[Path]:
        return self.runs

    def instances(self) -> Iterator[Instance]:
        return (one for one in self.dataset.instances() if one.id in self.ids)


def evaluate_held(runs: Sequence[RunSummary], config: EvaluationConfig) -> TalkReport:
    """The tables of `cts converse` over the conversations in these runs; a note says what cannot be evaluated.

    Raises UsageError for documents and judgments that cannot be read.
    """
    try:
        dataset = reopen_data(runs[0].manifest)
    except UsageError as error:
        return TalkReport((), (f"Not evaluated, since the data cannot be read again: {error}.",))
    directories = tuple(run.directory for run in runs)
    ids = frozenset(line["id"] for directory in directories for line in read_results(directory / RESULTS))
    held = HeldTalks(dataset, directories, ids)
    judgments = open_judgments(config, held)
    return evaluate_talks(held, judgments, open_scorer(config.encoder), config.measures, _ignore_progress)


def _ignore_progress(task: str, done: int, total: int) -> None:
    """Reports have no progress display."""

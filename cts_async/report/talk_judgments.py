"""What conversations' queries are searched in and judged by, opened before anything is paid for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from cts_async.analysis.bertscore import BertScore
from cts_async.analysis.retrieval import Qrels, measure, relevant_from
from cts_async.analysis.similarity import Scorer, TokenF1
from cts_async.analysis.standin_qrels import STANDIN, standin_qrels, standins_have_one_grade
from cts_async.config import EvaluationConfig
from cts_async.datasets.dataset import Dataset
from cts_async.datasets.fields import listed
from cts_async.datasets.trec import read_facet_qrels
from cts_async.errors import InputError, UsageError
from cts_async.records import Instance
from cts_async.search.rankers import Ranker

if TYPE_CHECKING:
    from cts_async.search.backends.corpus import Corpus

STANDIN_PREFIX = "intent:"
_STANDIN_DEPTH = 10


class Talked(Protocol):
    """What conversations are about: a plan to hold some, or runs that did."""

    @property
    def dataset(self) -> Dataset: ...

    def directories(self) -> Sequence[Path]:
        """Where the runs are, those that have begun and others."""

    def instances(self) -> Iterator[Instance]:
        """The instances talked about, in the data's order."""


@dataclass(frozen=True, slots=True)
class Judgments:
    """A corpus with a ranker, and who judges its documents. `caption` says both, for tables."""

    ranker: Ranker
    caption: str
    given: Qrels | None = field(repr=False)
    """Grades by instance id that people gave; None: stand-ins, beside which no published value may stand."""
    standin_depth: int
    level: int = 1
    """The least grade that is relevant, as in `retrieval.evaluate`."""

    def qrels(self, intents: Mapping[str, str]) -> Qrels:
        """Grades of documents by instance id; `intents` are q* by id."""
        if self.given is not None:
            return self.given
        return standin_qrels(self.ranker, intents, self.standin_depth)


def open_judgments(asked: EvaluationConfig, plan: Talked) -> Judgments | None:
    """Index the corpus and read the judgments; None where there is no corpus to search.

    Raises UsageError for an unknown measure, a relevance level above the only grade of stand-ins, a corpus, re-ranker
    or qrels that cannot be read, and for qrels that have no judgments of any instance, or of no document that is there.
    """
    from cts_async.search.backends.corpus import Corpus

    for name in asked.measures:
        measure(name)
    depth = _standin_depth(asked.qrels)
    if depth is not None and asked.relevance_level > 1:
        raise UsageError(standins_have_one_grade(asked.relevance_level, asked.qrels))
    corpus = asked.corpus or plan.dataset.corpus
    if corpus is None:
        return None
    given, judges = None, STANDIN
    if depth is None:
        path = Path(asked.qrels)
        ids = [instance.id for instance in plan.instances()]
        given = read_facet_qrels(path)
        judges = f"{_judged(path, given, ids)} of {len(ids)} intents judged in {path.name}"
    documents = Corpus.open(corpus)
    if given is not None:
        _check_documents(Path(asked.qrels), given, documents)
    ranker = _ranker(documents, asked.reranker)
    level = asked.relevance_level
    caption = f"{ranker.name} over {corpus.name}; {judges}{relevant_from(level)}"
    return Judgments(ranker, caption, given, depth or 0, level)


def _standin_depth(qrels: str) -> int | None:
    """N of "intent:N", 10 for "intent" alone; None for a file."""
    if qrels == STANDIN_PREFIX.removesuffix(":"):
        return _STANDIN_DEPTH
    if not qrels.startswith(STANDIN_PREFIX):
        return None
    number = qrels.removeprefix(STANDIN_PREFIX)
    if not (number.isascii() and number.isdigit() and 0 < int(number) <= 1000):
        raise UsageError(
            f"--qrels {qrels}: write intent:N with N from 1 to 1000, or name a file of judgments"
        )
    return int(number)


def _judged(path: Path, qrels: Qrels, ids: Sequence[str]) -> int:
    """How many instances have judgments. Raises InputError where none has."""
    n = sum(1 for id in ids if qrels.get(id))
    if not n:
        raise InputError(
            path,
            f"has no judgments of any of the {len(ids)} instances: it judges {listed(list(qrels)[:3])}, the "
            f"instances are {listed(ids[:3])}; what is needed are lines of: instance 0 document grade, or of the "
            "Web Track's diversity task: topic facet document grade",
        )
    return n


def _check_documents(path: Path, qrels: Qrels, corpus: Corpus) -> None:
    """InputError where the corpus has none of the judged documents: every query would score 0, for nothing."""
    judged = (id for grades in qrels.values() for id in grades)
    if all(corpus.document(id) is None for id in judged):
        named = next(id for grades in qrels.values() for id in grades)
        raise InputError(
            path,
            f"judges no document of {corpus.path}: it judges {named!r}, there documents are called "
            f"{corpus.id_of(0)!r}; ids have to be the same",
        )


def _ranker(corpus: Corpus, reranker: str | None) -> Ranker:
    from cts_async.search.rankers import Bm25Ranker, CrossEncoderRanker

    base = Bm25Ranker(corpus)
    return CrossEncoderRanker(base, reranker, corpus) if reranker else base


def open_scorer(encoder: str | None) -> Scorer:
    """BERTScore by that encoder, or where none is named the words that questions share. Raises UsageError."""
    return BertScore(encoder) if encoder else TokenF1()

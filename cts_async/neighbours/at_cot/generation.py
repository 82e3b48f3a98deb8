"""Clarification generation (AT-CoT, SIGIR 2025, section 4.3): tables 5 to 7, and the correlation of section 7.

score_q = max over S, the similarities of all generated to all annotated questions of the query q (equation 5): a
scheme is good if one of its questions is much like one that a person asked. All scores here are points: 100 x.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final, Protocol, TypeAlias

import numpy as np

from cts_async.analysis.board import Array
from cts_async.analysis.retrieval import ALPHA, ConversationRun, TurnRetrieval
from cts_async.analysis.stats import PairedT, correlation, holm, mean_or_none, paired_t_test
from cts_async.datasets.kinds import Annotations
from cts_async.errors import UsageError
from cts_async.neighbours.inputs import published
from cts_async.records import AMBIGUITY_TYPES, SCHEMES, AmbiguityType, Mode
from cts_async.search.terms import terms
from cts_async.tables.table import Column, DataTable, Row, number, p_value, text

# --- How alike a generated and an annotated question are -------------------------------------------------
#
# AT-CoT uses BERTScore (Zhang et al., ICLR 2020), here through the package bert-score (extra `[bertscore]`): F1 of
# greedily matched contextual token embeddings, without idf weights. The paper's encoder is
# microsoft/deberta-large-mnli, of whose 24 layers bert-score takes the 18th. `TokenF1` needs nothing, and is another
# measure.


class Scorer(Protocol):
    """Compares every generated question with every annotated one."""

    @property
    def name(self) -> str:
        """The measure's name with its settings, for captions."""

    @property
    def is_bertscore(self) -> bool:
        """True where its numbers are comparable with AT-CoT's published ones."""

    def scores(self, generated: Sequence[str], annotated: Sequence[str]) -> Array:
        """The M x N matrix S of equation 5: S[i, j] compares generated[i] with annotated[j]; 1 is the same."""


class TokenF1:
    """The F1 of the words that two questions share, each as often as both have it (as SQuAD 1.1 compares answers).

    Words are those of `search.terms.terms`: folded, lightly stemmed, Chinese cut by jieba; function words
    count. A text without words scores 0. Not BERTScore: a paraphrase in other words scores 0 here.
    """

    name = "token F1, not BERTScore"
    is_bertscore = False

    def scores(self, generated: Sequence[str], annotated: Sequence[str]) -> Array:
        """F1 = 2 |shared| / (|generated| + |annotated|), in [0, 1]."""
        rows, columns = (
            [Counter(terms(text, keep_stops=True)) for text in side] for side in (generated, annotated)
        )
        f1 = [2 * (a & b).total() / ((a + b).total() or 1) for a in rows for b in columns]
        return np.array(f1, float).reshape(len(rows), len(columns))


PAPERS_ENCODER: Final = "microsoft/deberta-large-mnli"
_INSTALL: Final = "BERTScore needs a package that is not installed: pip install bert-score"
_SANE_LENGTH: Final = 1_000_000
_USUAL_LENGTH: Final = 512


def open_scorer(encoder: str | None) -> Scorer:
    """BERTScore by that encoder; without one, the F1 of shared words. Raises UsageError."""
    return BertScore(encoder) if encoder else TokenF1()


class BertScore:
    """BERTScore F1 by one encoder: a directory with a transformers model, or a model's name on its hub.

    The layer is bert-score's own choice for encoders that it knows (by the last part of the path), else the layer three
    quarters up, which is where its choices lie. Like the paper's numbers, scores are not rescaled by a baseline. The
    encoder is loaded at once. Raises UsageError where the package or the encoder is missing.
    """

    is_bertscore = True

    def __init__(self, encoder: str = PAPERS_ENCODER, *, batch_size: int = 64) -> None:
        try:
            from bert_score import BERTScorer
            from transformers import AutoConfig
            from transformers.utils import logging
        except ImportError as error:
            raise UsageError(f"{_INSTALL} ({error})") from None
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        path = str(Path(encoder).expanduser()) if Path(encoder).expanduser().exists() else encoder
        try:
            layers = int(AutoConfig.from_pretrained(path).num_hidden_layers)
            self.layer = _layer(path, layers)
            self._scorer = BERTScorer(model_type=path, num_layers=self.layer, lang="en")
        except (OSError, ValueError, AttributeError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            raise UsageError(f"the encoder {path} cannot be loaded: {reason[:300]}") from None
        self.name = f"BERTScore F1 ({Path(path).name}, layer {self.layer} of {layers}, not rescaled)"
        self._batch_size = batch_size
        tokenizer = self._scorer._tokenizer
        # The tokenizer of the paper's encoder has no greatest length, with which bert-score 0.3.13 and transformers 5
        # fail ("int too big to convert").
        if tokenizer.model_max_length > _SANE_LENGTH:
            room = getattr(self._scorer._model.config, "max_position_embeddings", 0)
            tokenizer.model_max_length = room if 0 < room < _SANE_LENGTH else _USUAL_LENGTH

    def scores(self, generated: Sequence[str], annotated: Sequence[str]) -> Array:
        """F1 of every pair; each distinct text is encoded once a call. A blank text scores 0."""
        matrix = np.zeros((len(generated), len(annotated)))
        # bert-score 0.3.13 fails on a text without any word.
        rows, columns = (
            [n for n, text in enumerate(side) if text.strip()] for side in (generated, annotated)
        )
        if rows and columns:
            left = [generated[i] for i in rows for _ in columns]
            right = [annotated[j] for _ in rows for j in columns]
            _, _, f1 = self._scorer.score(left, right, batch_size=self._batch_size)
            matrix[np.ix_(rows, columns)] = f1.numpy().reshape(len(rows), len(columns))
        return matrix


def _layer(path: str, layers: int) -> int:
    """The layer to take: that of a known encoder of the same name, or last part of the name, else three quarters up."""
    from bert_score.utils import model2layers

    last = Path(path).name
    known = path if path in model2layers else None
    known = known or next((name for name in model2layers if name.rpartition("/")[2] == last), None)
    layer = int(model2layers[known]) if known else math.ceil(0.75 * layers)
    if layer > layers:
        raise UsageError(f"layer {layer}: the encoder {path} has layers 1 to {layers}")
    return layer


# --- Which questions are compared ------------------------------------------------------------------------

ALIGNMENT: Final = "generation_and_retrieval"
"""The name of the table of section 7."""
_SOURCES: Final[tuple[Mode, Mode]] = ("at-once", "respond")


@dataclass(frozen=True, slots=True)
class Generated:
    """The output of a scheme for one query: its questions, and the ambiguity types it named ("at-cot" only)."""

    questions: tuple[str, ...]
    types: tuple[AmbiguityType, ...] = ()


GeneratedQuestions: TypeAlias = Mapping[str, Mapping[str, Generated]]
"""Scheme -> text of the underspecified query -> generated questions."""
Retrieval: TypeAlias = Mapping[str, Mapping[str, Sequence[float]]]
"""Scheme -> query -> the measure (nDCG@10, say) of each intent behind the query."""


def source_of(talks: Sequence[ConversationRun]) -> Mode | None:
    """The mode whose questions are compared: "at-once" if there is one, else "respond"; None without either.

    The paper generates several questions at once for its tables 5 to 7, and takes the first turn of "respond" where
    retrieval is compared with them (section 7): people's questions are about q, not about what was said since.
    """
    modes = {talk.mode for talk in talks}
    return next((mode for mode in _SOURCES if mode in modes), None)


def asked_first(
    talks: Sequence[ConversationRun], blurred: Mapping[str, str]
) -> dict[str, dict[str, Generated]]:
    """By scheme and query the first questions in the mode `source_of` the conversations of one Clarifier.

    `blurred` is q by instance id, in the data's order; of several intents behind one q the first counts that has a
    conversation, since the first question depends on q alone.
    """
    source = source_of(talks)
    chosen = sorted((talk for talk in talks if talk.mode == source), key=lambda t: SCHEMES.index(t.scheme))
    found: dict[str, dict[str, Generated]] = {}
    for talk in chosen:
        queries = found[talk.scheme] = {}
        for id, query in blurred.items():
            if turns := talk.conversations.get(id):
                queries.setdefault(query, Generated(turns[0].offered, turns[0].types))
    return found


def retrieved_first(found: TurnRetrieval, measure: str, blurred: Mapping[str, str]) -> Retrieval:
    """By scheme and query the measure of every intent after the first turn of "respond"."""
    retrieval: dict[str, dict[str, list[float]]] = {}
    for cell in found.cells:
        if (cell.mode, cell.turn) == ("respond", 1):
            queries = retrieval.setdefault(cell.scheme, {})
            for id, value in cell.scores[measure].items():
                queries.setdefault(blurred[id], []).append(value)
    return retrieval


# --- Scores: tables 5 and 6 ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Best:
    """A query's score, and the pair of questions that it is the similarity of."""

    points: float
    question: str
    annotated: str


QueryScores: TypeAlias = Mapping[str, Mapping[str, Best]]
"""Scheme -> query -> its score; queries without a generated or an annotated question are not in it."""


def score_queries(
    generated: GeneratedQuestions,
    annotated: Mapping[str, Sequence[str]],
    scorer: Scorer,
    on_progress: Callable[[int, int], Any] | None = None,
) -> QueryScores:
    """score_q of every scheme and query that has `annotated` questions; `on_progress(done, of)` after each query.

    A query's schemes are compared together, so that a question that several of them ask, and each annotated one, is
    encoded once. Blank questions count as none.
    """
    found: dict[str, dict[str, Best]] = {scheme: {} for scheme in generated}
    queries = [
        query for query in dict.fromkeys(q for of in generated.values() for q in of) if annotated.get(query)
    ]
    for done, query in enumerate(queries, start=1):
        asked = {
            scheme: [question for question in of[query].questions if question.strip()]
            for scheme, of in generated.items()
            if query in of
        }
        questions = list(dict.fromkeys(question for own in asked.values() for question in own))
        best = {}
        for question, row in zip(questions, scorer.scores(questions, annotated[query]), strict=True):
            place = row.argmax()  # of equally similar ones the first
            best[question] = Best(100 * float(row[place]), question, annotated[query][place])
        for scheme, own in asked.items():
            if own:
                found[scheme][query] = max((best[question] for question in own), key=lambda one: one.points)
        if on_progress is not None:
            on_progress(done, len(queries))
    return found


def _test(own: Mapping[str, Best], baseline: Mapping[str, Best]) -> PairedT:
    """The paired t-test over the queries that both have a score for."""
    both = [query for query in own if query in baseline]
    return paired_t_test([own[query].points for query in both], [baseline[query].points for query in both])


# --- Tables ----------------------------------------------------------------------------------------------

MARKS: Final[Mapping[str, str]] = {"standard": "*", "at-standard": "†", "cot": "Δ"}
"""The paper's marks of a significant improvement over each baseline: schemes that the others are tested against."""


def generation_tables(
    generated: GeneratedQuestions,
    annotations: Annotations,
    scorer: Scorer,
    retrieval: Retrieval | None = None,
    *,
    dataset: str = "",
    judged_by: str = "",
    on_progress: Callable[[int, int], Any] | None = None,
) -> list[DataTable]:
    """All tables that have rows; the last, with a row for each query, is for JSON and CSV only.

    Published values are those of the paper's column `dataset` ("" for none), where the scorer is BERTScore. `judged_by`
    says what `retrieval` searched and who judged. `on_progress(done, of)` is called as queries are scored, which takes
    minutes with a large encoder.
    """
    questions = {query: one.questions for query, one in annotations.queries.items()}
    levels = {query: one.ambiguity for query, one in annotations.queries.items() if one.ambiguity is not None}
    paper_of = dataset if scorer.is_bertscore else ""
    scores = score_queries(generated, questions, scorer, on_progress)
    found = [scheme_table(scores, generated, scorer, paper_of)]
    if levels:
        found.append(scheme_table(scores, generated, scorer, paper_of, levels))
    found.append(type_table(scores, generated, scorer, paper_of))
    if retrieval is not None:
        found.append(alignment_table(scores, retrieval, scorer, paper_of, judged_by))
    found.append(query_table(scores, scorer))
    return [table for table in found if table.rows]


def scheme_table(
    scores: QueryScores,
    generated: GeneratedQuestions,
    scorer: Scorer,
    paper_of: str = "",
    levels: Mapping[str, int] | None = None,
) -> DataTable:
    """Table 5, a row for each scheme: mean score with marks, what is published, and the tests' p-values.

    With ambiguity `levels` by query it is table 6: a row for each level, from the lowest, and scheme.
    """
    name, title = "generation", "Generated clarifying questions (table 5)"
    caption = (
        f"{_measure(scorer)} A query's is that of the best pair of a generated and an annotated question; queries "
        "without either are left out."
    )
    more = Column("left out", text("left_out"))
    if levels is not None:
        name, title = "generation_by_level", "Generated clarifying questions by ambiguity level (table 6)"
        caption = f"By level from 1 (clear) to 4 (most ambiguous). {_measure(scorer)}"
        more = Column("level", text("level"))
    paper = published("at_cot")["table_5" if levels is None else "table_6"].get(paper_of)
    queries = {query for of in generated.values() for query in of}
    rows: list[Row] = []
    by_level: dict[int | None, set[str]] = {None: queries}
    if levels is not None:
        found = sorted({levels[query] for query in queries if query in levels})
        by_level = {level: {query for query in queries if levels.get(query) == level} for level in found}
    for level, own in by_level.items():
        for row in scheme_rows(_only(scores, own), _only(generated, own)):
            row = {"level": level, **row} if level else dict(row)
            if paper:
                known = paper.get(row["scheme"])
                row["published"] = known[level - 1] if known and level else known
            rows.append(row)
    marks = ", ".join(f"{mark} {name}" for name, mark in MARKS.items() if name in scores)
    caption += f" Better than {marks}: p < {ALPHA} in a paired t-test, two-sided." if marks else ""
    caption += f" Published: BERTScore by {PAPERS_ENCODER}, Llama-3-8B." if paper else ""
    columns = (
        Column("scheme", text("scheme"), numeric=False),
        more,
        Column("queries", text("n")),
        Column("score", number("mean", ".1f")),
        Column("", text("marks"), numeric=False),
        *((Column("published", number("published", ".1f")),) if paper else ()),
        *(Column(f"p {MARKS[name]}", p_value(f"over_{name}_p")) for name in MARKS if name in scores),
    )
    return DataTable(name, title, caption, columns, rows, group="level" if levels is not None else "")


def _only(of: Mapping[str, Mapping[str, Any]], queries: set[str]) -> dict[str, dict[str, Any]]:
    return {
        scheme: {query: one for query, one in own.items() if query in queries} for scheme, own in of.items()
    }


def scheme_rows(scores: QueryScores, generated: GeneratedQuestions) -> Iterator[dict[str, Any]]:
    """The mean of each scheme, with paired t-tests over each baseline, plain and by Holm over the scheme's tests.

    `mean` is over the `n` queries that have a score, `left_out` have none. A mark is a significant improvement.
    """
    for scheme, own in scores.items():
        tests = {name: _test(own, scores[name]) for name in MARKS if name in scores and name != scheme}
        made = {name: test.p for name, test in tests.items() if test.n}
        adjusted = dict(zip(made, holm([*made.values()]), strict=True))
        better = [name for name, test in tests.items() if test.difference > 0 and test.p < ALPHA]
        row: dict[str, Any] = {
            "scheme": scheme,
            "n": len(own),
            "left_out": len(generated.get(scheme, {})) - len(own),
            "mean": mean_or_none([best.points for best in own.values()]),
            "marks": "".join(MARKS[name] for name in better),
        }
        for name in MARKS:
            test = tests.get(name)
            row |= {
                f"over_{name}": test.difference if test and test.n else None,
                f"over_{name}_n": test.n if test else None,
                f"over_{name}_p": test.p if test and test.n else None,
                f"over_{name}_p_holm": adjusted.get(name),
            }
        yield row


def type_table(
    scores: QueryScores, generated: GeneratedQuestions, scorer: Scorer, paper_of: str = ""
) -> DataTable:
    """Table 7: every ambiguity type with its share among the predictions of at-cot, and its gain over cot.

    A query may have several types. A share is that of a type among all predictions, as the published columns add up to
    100; the gain is the mean difference of score_q over the queries for which the type was predicted. No rows where
    at-cot predicted nothing.
    """
    paper = published("at_cot")["table_7"].get(paper_of)
    predicted = generated.get("at-cot", {})
    queries = {
        kind: [query for query, one in predicted.items() if kind in one.types] for kind in AMBIGUITY_TYPES
    }
    total = sum(map(len, queries.values()))
    rows = []
    for kind, of in queries.items() if total else ():
        own = {query: best for query, best in scores.get("at-cot", {}).items() if query in of}
        gain = _test(own, scores.get("cot", {}))
        row = {
            "type": kind,
            "predicted": len(of),
            "share": 100 * (len(of) / total),
            "gain": gain.difference if gain.n else None,
            "gain_queries": gain.n,
            "gain_p": gain.p if gain.n else None,
        }
        if paper:
            row |= {"published_share": paper[kind][0], "published_gain": paper[kind][1]}
        rows.append(row)
    columns = (
        Column("type", text("type"), numeric=False),
        Column("predicted", text("predicted")),
        Column("share %", number("share", ".1f")),
        Column("over cot", number("gain", "+.1f")),
        Column("n", text("gain_queries")),
        *(
            (Column("published", lambda row: "{published_share:.1f} ({published_gain:+.1f})".format(**row)),)
            if paper
            else ()
        ),
    )
    caption = (
        "Share among all predictions of at-cot (a query may have several); over cot: mean difference of the scores "
        f"of at-cot and cot over the n queries with that type. {_measure(scorer)}"
    )
    return DataTable("ambiguity_types", "Predicted ambiguity types (table 7)", caption, columns, rows)


def alignment_table(
    scores: QueryScores, retrieval: Retrieval, scorer: Scorer, paper_of: str = "", judged_by: str = ""
) -> DataTable:
    """Section 7: both means of each scheme that has both, and in the last row the correlation over schemes.

    A scheme's retrieval is the mean over all intents. The paper correlates the means of its four schemes over Qulac and
    prints r = 0.92, p = 0.08. Its own tables do not give that: the Qulac column of table 5 against turn 1, respond, of
    table 8 has r = 0.994, p = 0.006. Four points show little either way, so the correlation over queries, scheme by
    scheme, is given as an addition. `judged_by` is in the rows as well, which are read without the caption.
    """
    rows: list[dict[str, Any]] = []
    for scheme, own in scores.items():
        found = retrieval.get(scheme, {})
        if own and any(found.values()):
            both = [query for query in own if found.get(query)]
            over_queries = correlation_test(
                [own[query].points for query in both], [fmean(found[query]) for query in both]
            )
            means = {
                "generation": fmean([best.points for best in own.values()]),
                "retrieval": fmean([value for values in found.values() for value in values]),
            }
            rows.append({"scheme": scheme, **means, **over_queries, "judgments": judged_by})
    if rows:
        over = correlation_test([row["generation"] for row in rows], [row["retrieval"] for row in rows])
        rows.append(
            {"scheme": "over schemes", "generation": None, "retrieval": None, **over, "judgments": judged_by}
        )
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
        f"and in the last row over the means of n schemes. {_measure(scorer)}"
    )
    if paper_of == "qulac":
        r, p = published("at_cot")["section_7"]["r"], published("at_cot")["section_7"]["p"]
        caption += f" The paper, by TREC's judgments: r = {r}, p = {p}; "
        caption += "its own tables 5 and 8 give r = 0.994, p = 0.006."
    caption += f" Retrieval: {judged_by}."
    return DataTable(ALIGNMENT, "Better questions, better retrieval? (section 7)", caption, columns, rows)


def correlation_test(x: Sequence[float], y: Sequence[float]) -> dict[str, float | None]:
    """n, Pearson's r and its two-sided p from t = r sqrt((n - 2) / (1 - r^2)) with n - 2 degrees of freedom.

    r and p are None where r is not defined (n < 2, or one side never varies). n = 2 is always r = 1 or -1, with p = 1.
    """
    from scipy.special import stdtr

    r, n = correlation(x, y), len(x)
    if r is None:
        p = None
    elif n == 2 or abs(r) == 1.0:
        p = 1.0 if n == 2 else 0.0
    else:
        p = float(2.0 * stdtr(n - 2, -abs(r) * math.sqrt((n - 2) / ((1 - r) * (1 + r)))))
    return {"n": n, "r": r, "p": p}


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


def _measure(scorer: Scorer) -> str:
    return f"Score: {scorer.name}, x 100."

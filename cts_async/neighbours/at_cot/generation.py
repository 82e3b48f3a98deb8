"""Clarification generation (AT-CoT, SIGIR 2025, section 4.3): tables 5 to 7, and the correlation of section 7.

score_q = max over S, the similarities of all generated to all annotated questions of the query q (equation 5): a
scheme is good if one of its questions is much like one that a person asked. All scores here are points: 100 x.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import numpy as np

from cts_async.analysis.board import Array
from cts_async.analysis.retrieval import ALPHA, TurnRetrieval
from cts_async.analysis.stats import PairedT, correlation, holm, mean_or_none, paired_t_test
from cts_async.datasets.kinds import Annotations
from cts_async.errors import UsageError, install_command
from cts_async.neighbours.inputs import published
from cts_async.records import AMBIGUITY_TYPES, SCHEMES, AmbiguityType, Mode
from cts_async.runs.conversations import ConversationRun
from cts_async.search.terms import terms
from cts_async.tables.table import Column, DataTable, Row, number, p_value, text

T = TypeVar("T")

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
        annotated_words = [Counter(terms(question, keep_stops=True)) for question in annotated]
        matrix = np.zeros((len(generated), len(annotated)))
        for i, question in enumerate(generated):
            words = Counter(terms(question, keep_stops=True))
            for j, reference_words in enumerate(annotated_words):
                n_words = (words + reference_words).total()
                if n_words:
                    matrix[i, j] = 2 * (words & reference_words).total() / n_words
        return matrix


PAPERS_ENCODER: Final = "microsoft/deberta-large-mnli"
_INSTALL: Final = f"BERTScore needs a package that is not installed: {install_command('bertscore')}"
_SANE_LENGTH: Final = 1_000_000
"""Tokens; transformers gives a number of 31 digits for a tokenizer without a greatest length."""
_USUAL_LENGTH: Final = 512
"""Tokens that an encoder of BERT's family takes, where its configuration does not say."""


def open_scorer(encoder: str | None) -> Scorer:
    """BERTScore by that encoder; without one, the F1 of shared words. Raises UsageError."""
    if not encoder:
        return TokenF1()
    return BertScore(encoder)


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
        path = encoder
        if Path(encoder).expanduser().exists():
            path = str(Path(encoder).expanduser())
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
            n_positions = getattr(self._scorer._model.config, "max_position_embeddings", 0)
            if not 0 < n_positions < _SANE_LENGTH:
                n_positions = _USUAL_LENGTH
            tokenizer.model_max_length = n_positions

    def scores(self, generated: Sequence[str], annotated: Sequence[str]) -> Array:
        """F1 of every pair; each distinct text is encoded once a call. A blank text scores 0."""
        matrix = np.zeros((len(generated), len(annotated)))
        # bert-score 0.3.13 fails on a text without any word.
        rows = [i for i, question in enumerate(generated) if question.strip()]
        columns = [j for j, question in enumerate(annotated) if question.strip()]
        if rows and columns:
            # All pairs in one call: bert-score encodes each distinct text of a call once.
            candidates: list[str] = []
            references: list[str] = []
            for i, j in product(rows, columns):
                candidates.append(generated[i])
                references.append(annotated[j])
            _, _, f1 = self._scorer.score(candidates, references, batch_size=self._batch_size)
            matrix[np.ix_(rows, columns)] = f1.numpy().reshape(len(rows), len(columns))
        return matrix


def _layer(path: str, layers: int) -> int:
    """The layer to take: that of a known encoder of the same name, or last part of the name, else three quarters up."""
    from bert_score.utils import model2layers

    layer = math.ceil(0.75 * layers)
    if path in model2layers:
        layer = int(model2layers[path])
    else:
        # A copy on disk has the name of its encoder as its folder's.
        for name in model2layers:
            if name.rpartition("/")[2] == Path(path).name:
                layer = int(model2layers[name])
                break
    if layer > layers:
        raise UsageError(f"layer {layer}: the encoder {path} has layers 1 to {layers}")
    return layer


# --- Which questions are compared ------------------------------------------------------------------------

ALIGNMENT: Final = "generation_and_retrieval"
"""The name of the table of section 7."""
_COMPARED_MODES: Final[tuple[Mode, Mode]] = ("at-once", "respond")


@dataclass(frozen=True, slots=True)
class Generated:
    """The output of a scheme for one query: its questions, and the ambiguity types it named ("at-cot" only)."""

    questions: tuple[str, ...]
    types: tuple[AmbiguityType, ...] = ()


GeneratedQuestions: TypeAlias = Mapping[str, Mapping[str, Generated]]
"""Scheme -> text of the underspecified query -> generated questions."""
Retrieval: TypeAlias = Mapping[str, Mapping[str, Sequence[float]]]
"""Scheme -> query -> the measure (nDCG@10, say) of each intent behind the query."""


def compared_mode(runs: Sequence[ConversationRun]) -> Mode | None:
    """The mode whose questions are compared: "at-once" if there is one, else "respond"; None without either.

    The paper generates several questions at once for its tables 5 to 7, and takes the first turn of "respond" where
    retrieval is compared with them (section 7): people's questions are about q, not about what was said since.
    """
    modes = {run.mode for run in runs}
    for mode in _COMPARED_MODES:
        if mode in modes:
            return mode
    return None


def first_questions(
    runs: Sequence[ConversationRun], queries: Mapping[str, str]
) -> dict[str, dict[str, Generated]]:
    """By scheme and query the first questions in the `compared_mode` of the conversations of one Clarifier.

    `queries` are q by instance id, in the data's order; of several intents behind one q the first counts that has a
    conversation, since the first question depends on q alone.
    """
    mode = compared_mode(runs)
    run_by_scheme = {run.scheme: run for run in runs if run.mode == mode}
    questions: dict[str, dict[str, Generated]] = {}
    # In the order of `SCHEMES`, whichever order the runs are named in.
    for scheme in SCHEMES:
        if scheme not in run_by_scheme:
            continue
        questions[scheme] = {}
        for id, query in queries.items():
            turns = run_by_scheme[scheme].conversations.get(id)
            if turns:
                questions[scheme].setdefault(query, Generated(turns[0].offered, turns[0].types))
    return questions


def retrieval_after_first_turn(
    by_turn: TurnRetrieval, measure: str, query_by_id: Mapping[str, str]
) -> Retrieval:
    """By scheme and query the measure of every intent after the first turn of "respond"."""
    retrieval: dict[str, dict[str, list[float]]] = {}
    for cell in by_turn.cells:
        if (cell.mode, cell.turn) == ("respond", 1):
            by_query = retrieval.setdefault(cell.scheme, {})
            for id, value in cell.scores[measure].items():
                by_query.setdefault(query_by_id[id], []).append(value)
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
    """score_q of every scheme and query that has `annotated` questions; `on_progress(done, total)` after each query.

    A query's schemes are compared together, so that a question that several of them ask, and each annotated one, is
    encoded once. Blank questions count as none.
    """
    scores: dict[str, dict[str, Best]] = {scheme: {} for scheme in generated}
    # Equation 5 needs a question of people to compare with.
    all_queries = dict.fromkeys(chain.from_iterable(generated.values()))
    queries = [query for query in all_queries if annotated.get(query)]
    for done, query in enumerate(queries, start=1):
        by_scheme: dict[str, list[str]] = {}
        for scheme, by_query in generated.items():
            if query in by_query:
                by_scheme[scheme] = [text for text in by_query[query].questions if text.strip()]
        questions = list(dict.fromkeys(chain.from_iterable(by_scheme.values())))
        best_by_question = _best_matches(questions, annotated[query], scorer)
        for scheme, scheme_questions in by_scheme.items():
            if scheme_questions:
                matches = [best_by_question[question] for question in scheme_questions]
                scores[scheme][query] = max(matches, key=attrgetter("points"))
        if on_progress is not None:
            on_progress(done, len(queries))
    return scores


def _best_matches(questions: Sequence[str], annotated: Sequence[str], scorer: Scorer) -> dict[str, Best]:
    """Return the annotated question that each question is most like."""
    best_by_question = {}
    for question, row in zip(questions, scorer.scores(questions, annotated), strict=True):
        # Of equally similar ones the first.
        place = row.argmax()
        best_by_question[question] = Best(100 * float(row[place]), question, annotated[place])
    return best_by_question


def _test_over_shared_queries(scores: Mapping[str, Best], baseline: Mapping[str, Best]) -> PairedT:
    """The paired t-test over the queries that both have a score for."""
    points: list[float] = []
    baseline_points: list[float] = []
    for query, best in scores.items():
        if query in baseline:
            points.append(best.points)
            baseline_points.append(baseline[query].points)
    return paired_t_test(points, baseline_points)


def _mean_points(by_query: Mapping[str, Best]) -> float | None:
    return mean_or_none([best.points for best in by_query.values()])


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
    says what `retrieval` searched and who judged. `on_progress(done, total)` is called as queries are scored, which
    takes minutes with a large encoder.
    """
    questions, levels = {}, {}
    for query, annotated in annotations.queries.items():
        questions[query] = annotated.questions
        if annotated.ambiguity is not None:
            levels[query] = annotated.ambiguity
    paper_column = ""
    # Scores of another measure are not comparable with the paper's.
    if scorer.is_bertscore:
        paper_column = dataset
    scores = score_queries(generated, questions, scorer, on_progress)
    tables = [scheme_table(scores, generated, scorer, paper_column)]
    if levels:
        tables.append(scheme_table(scores, generated, scorer, paper_column, levels))
    tables.append(type_table(scores, generated, scorer, paper_column))
    if retrieval is not None:
        tables.append(alignment_table(scores, retrieval, scorer, paper_column, judged_by))
    tables.append(query_table(scores, scorer))
    return [table for table in tables if table.rows]


def scheme_table(
    scores: QueryScores,
    generated: GeneratedQuestions,
    scorer: Scorer,
    paper_column: str = "",
    levels: Mapping[str, int] | None = None,
) -> DataTable:
    """Table 5, a row for each scheme: mean score with marks, what is published, and the tests' p-values.

    With ambiguity `levels` by query it is table 6: a row for each level, from the lowest, and scheme.
    """
    if levels is None:
        name, title, group = "generation", "Generated clarifying questions (table 5)", ""
        caption = (
            f"{_measure(scorer)} A query's is that of the best pair of a generated and an annotated question; queries "
            "without either are left out."
        )
        second_column = Column("left out", text("left_out"))
        paper = published("at_cot")["table_5"].get(paper_column)
        rows = list(scheme_rows(scores, generated))
    else:
        name, group = "generation_by_level", "level"
        title = "Generated clarifying questions by ambiguity level (table 6)"
        caption = f"By level from 1 (clear) to 4 (most ambiguous). {_measure(scorer)}"
        second_column = Column("level", text("level"))
        paper = published("at_cot")["table_6"].get(paper_column)
        rows = _rows_by_level(scores, generated, levels)
    if paper:
        for row in rows:
            printed = paper.get(row["scheme"])
            # Table 6 has a value for each level, from level 1.
            if printed and levels is not None:
                printed = printed[row["level"] - 1]
            row["published"] = printed
    marked_baselines: list[str] = []
    p_columns: list[Column] = []
    for baseline, mark in MARKS.items():
        if baseline in scores:
            marked_baselines.append(f"{mark} {baseline}")
            p_columns.append(Column(f"p {mark}", p_value(f"over_{baseline}_p")))
    if marked_baselines:
        caption += f" Better than {', '.join(marked_baselines)}: p < {ALPHA} in a paired t-test, two-sided."
    if paper:
        caption += f" Published: BERTScore by {PAPERS_ENCODER}, Llama-3-8B."
    columns = [
        Column("scheme", text("scheme"), numeric=False),
        second_column,
        Column("queries", text("n")),
        Column("score", number("mean", ".1f")),
        Column("", text("marks"), numeric=False),
    ]
    if paper:
        columns.append(Column("published", number("published", ".1f")))
    columns += p_columns
    return DataTable(name, title, caption, columns, rows, group=group)


def _rows_by_level(
    scores: QueryScores, generated: GeneratedQuestions, levels: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Return the rows of the queries of each level, from the lowest."""
    queries_by_level: defaultdict[int, set[str]] = defaultdict(set)
    for query in chain.from_iterable(generated.values()):
        if query in levels:
            queries_by_level[levels[query]].add(query)
    rows = []
    for level, queries in sorted(queries_by_level.items()):
        for scheme_row in scheme_rows(_select(scores, queries), _select(generated, queries)):
            row: dict[str, Any] = {"level": level}
            rows.append(row | scheme_row)
    return rows


def _select(by_scheme: Mapping[str, Mapping[str, T]], queries: Collection[str]) -> dict[str, dict[str, T]]:
    """Return what each scheme has for these queries alone."""
    selected: dict[str, dict[str, T]] = {}
    for scheme, by_query in by_scheme.items():
        selected[scheme] = {query: value for query, value in by_query.items() if query in queries}
    return selected


def scheme_rows(scores: QueryScores, generated: GeneratedQuestions) -> Iterator[dict[str, Any]]:
    """The mean of each scheme, with paired t-tests over each baseline, plain and by Holm over the scheme's tests.

    `mean` is over the `n` queries that have a score, `left_out` have none. A mark is a significant improvement.
    """
    for scheme, by_query in scores.items():
        tests: dict[str, PairedT] = {}
        p_values: dict[str, float] = {}
        marks = ""
        for baseline, mark in MARKS.items():
            if baseline not in scores or baseline == scheme:
                continue
            test = _test_over_shared_queries(by_query, scores[baseline])
            tests[baseline] = test
            # A pair of schemes without a common query is no test, and does not count among them for Holm.
            if test.n:
                p_values[baseline] = test.p
            if test.difference > 0 and test.p < ALPHA:
                marks += mark
        adjusted = dict(zip(p_values, holm(list(p_values.values())), strict=True))
        row: dict[str, Any] = {
            "scheme": scheme,
            "n": len(by_query),
            "left_out": len(generated.get(scheme, {})) - len(by_query),
            "mean": _mean_points(by_query),
            "marks": marks,
        }
        for baseline in MARKS:
            difference = n = p = None
            if baseline in tests:
                n = tests[baseline].n
                if n:
                    difference, p = tests[baseline].difference, tests[baseline].p
            row[f"over_{baseline}"] = difference
            row[f"over_{baseline}_n"] = n
            row[f"over_{baseline}_p"] = p
            row[f"over_{baseline}_p_holm"] = adjusted.get(baseline)
        yield row


def type_table(
    scores: QueryScores, generated: GeneratedQuestions, scorer: Scorer, paper_column: str = ""
) -> DataTable:
    """Table 7: every ambiguity type with its share among the predictions of at-cot, and its gain over cot.

    A query may have several types. A share is that of a type among all predictions, as the published columns add up to
    100; the gain is the mean difference of score_q over the queries for which the type was predicted. No rows where
    at-cot predicted nothing.
    """
    paper = published("at_cot")["table_7"].get(paper_column)
    queries_by_type: dict[AmbiguityType, list[str]] = {kind: [] for kind in AMBIGUITY_TYPES}
    n_predictions = 0
    for query, questions in generated.get("at-cot", {}).items():
        for kind in AMBIGUITY_TYPES:
            if kind in questions.types:
                queries_by_type[kind].append(query)
                n_predictions += 1
    rows: list[Row] = []
    for kind, queries in queries_by_type.items():
        # A type that was never predicted has a row with 0; without any prediction there is no table.
        if not n_predictions:
            break
        with_type = _select({"at-cot": scores.get("at-cot", {})}, queries)["at-cot"]
        test = _test_over_shared_queries(with_type, scores.get("cot", {}))
        row: dict[str, Any] = {
            "type": kind,
            "predicted": len(queries),
            "share": 100 * (len(queries) / n_predictions),
            "gain": None,
            "gain_queries": test.n,
            "gain_p": None,
        }
        if test.n:
            row["gain"], row["gain_p"] = test.difference, test.p
        if paper:
            row["published_share"], row["published_gain"] = paper[kind]
        rows.append(row)
    columns = [
        Column("type", text("type"), numeric=False),
        Column("predicted", text("predicted")),
        Column("share %", number("share", ".1f")),
        Column("over cot", number("gain", "+.1f")),
        Column("n", text("gain_queries")),
    ]
    if paper:
        columns.append(Column("published", _published_type))
    caption = (
        "Share among all predictions of at-cot (a query may have several); over cot: mean difference of the scores "
        f"of at-cot and cot over the n queries with that type. {_measure(scorer)}"
    )
    return DataTable("ambiguity_types", "Predicted ambiguity types (table 7)", caption, columns, rows)


def _published_type(row: Row) -> str:
    return f"{row['published_share']:.1f} ({row['published_gain']:+.1f})"


def alignment_table(
    scores: QueryScores, retrieval: Retrieval, scorer: Scorer, paper_column: str = "", judged_by: str = ""
) -> DataTable:
    """Section 7: both means of each scheme that has both, and in the last row the correlation over schemes.

    A scheme's retrieval is the mean over all intents. The paper correlates the means of its four schemes over Qulac and
    prints r = 0.92, p = 0.08. Its own tables do not give that: the Qulac column of table 5 against turn 1, respond, of
    table 8 has r = 0.994, p = 0.006. Four points show little either way, so the correlation over queries, scheme by
    scheme, is given as an addition. `judged_by` is in the rows as well, which are read without the caption.
    """
    rows: list[dict[str, Any]] = []
    for scheme, by_query in scores.items():
        retrieved = retrieval.get(scheme, {})
        if not by_query or not any(retrieved.values()):
            continue
        row: dict[str, Any] = {
            "scheme": scheme,
            "generation": _mean_points(by_query),
            "retrieval": fmean(chain.from_iterable(retrieved.values())),
        }
        points: list[float] = []
        values: list[float] = []
        for query, best in by_query.items():
            # Of several intents behind one query the mean: its question was one for all of them.
            if retrieved.get(query):
                points.append(best.points)
                values.append(fmean(retrieved[query]))
        row |= correlation_test(points, values)
        row["judgments"] = judged_by
        rows.append(row)
    if rows:
        generation_means = [row["generation"] for row in rows]
        retrieval_means = [row["retrieval"] for row in rows]
        row = {"scheme": "over schemes", "generation": None, "retrieval": None}
        row |= correlation_test(generation_means, retrieval_means)
        row["judgments"] = judged_by
        rows.append(row)
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
    if paper_column == "qulac":
        printed = published("at_cot")["section_7"]
        caption += f" The paper, by TREC's judgments: r = {printed['r']}, p = {printed['p']}; "
        caption += "its own tables 5 and 8 give r = 0.994, p = 0.006."
    caption += f" Retrieval: {judged_by}."
    return DataTable(ALIGNMENT, "Better questions, better retrieval? (section 7)", caption, columns, rows)


def correlation_test(x: Sequence[float], y: Sequence[float]) -> dict[str, float | None]:
    """n, Pearson's r and its two-sided p from t = r sqrt((n - 2) / (1 - r^2)) with n - 2 degrees of freedom.

    r and p are None where r is not defined (n < 2, or one side never varies). n = 2 is always r = 1 or -1, with p = 1.
    """
    from scipy.special import stdtr

    r, n = correlation(x, y), len(x)
    p: float | None
    if r is None:
        p = None
    elif n == 2:
        p = 1.0
    elif abs(r) == 1.0:
        # t is infinite.
        p = 0.0
    else:
        # 1 - r^2 as a product: it loses no digits where |r| is nearly 1.
        t = abs(r) * math.sqrt((n - 2) / ((1 - r) * (1 + r)))
        p = float(2.0 * stdtr(n - 2, -t))
    return {"n": n, "r": r, "p": p}


def query_table(scores: QueryScores, scorer: Scorer) -> DataTable:
    """Every query's score with the two questions that it is the similarity of."""
    rows: list[Row] = []
    for scheme, by_query in scores.items():
        for query, best in by_query.items():
            rows.append(
                {
                    "scheme": scheme,
                    "query": query,
                    "score": best.points,
                    "question": best.question,
                    "like": best.annotated,
                }
            )
    title = "Generated clarifying questions, query by query"
    return DataTable("generation_by_query", title, _measure(scorer), (), rows, shown=0)


def _measure(scorer: Scorer) -> str:
    return f"Score: {scorer.name}, x 100."

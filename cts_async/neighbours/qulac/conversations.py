"""Qulac's artificial conversations, retrieval after each of them, and what each question gains (SIGIR 2019, README)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations
from math import comb
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

from pydantic import BaseModel, StringConstraints, TypeAdapter

from cts_async.analysis.retrieval import (
    PSEUDO_JUDGMENTS,
    Qrels,
    count_hopeless,
    cutoff,
    evaluate,
    hopeless_note,
    pseudo_depth,
    pseudo_qrels,
    relevant_from,
)
from cts_async.analysis.stats import holm, mean_or_none, paired_t_test
from cts_async.datasets.io import short
from cts_async.datasets.kinds import Contents
from cts_async.errors import InputError, UsageError
from cts_async.neighbours.inputs import Share, read_evaluation, read_json, read_judgments, write_json_file
from cts_async.neighbours.qulac.collection import Facet, Pair, Topic
from cts_async.search.backends import Ranked
from cts_async.search.rankers import ConversationText, QueryLikelihoodRanker
from cts_async.tables.table import Column, DataTable, Row, number, p_value, text
from cts_async.tables.table import text as as_text

# --- Record ids: topic - facet - past question 1 - past question 2 - current question - answer flag ------

NO_QUESTION: Final = 0
"""Stands in the place of the current question where none was asked."""
TURNS: Final = (1, 2, 3)
"""How many questions a conversation may have, the current one among them."""

_NUMBER: Final = "[1-9][0-9]{0,8}"
_RECORD: Final = re.compile(
    rf"({_NUMBER})-({_NUMBER})(?:((?:-{_NUMBER}){{0,2}})-({_NUMBER})-([01])|()-({NO_QUESTION})-(0))"
)


@dataclass(frozen=True, slots=True, order=True)
class RecordId:
    """The id of a record (README, "Record ID"). Ids compare by their numbers: topic, facet, history, question, flag.

    `history` are the numbers of at most two past questions, in the order in which they were asked. The flag is 1 where
    the current question's answer was used. The original query alone has question 0 and flag 0 (`18-2-0-0`): Qulac's own
    ids have none for it, and its questions count from 1.
    """

    topic: int
    facet: int
    history: tuple[int, ...]
    question: int
    answered: bool

    @property
    def facet_id(self) -> str:
        """`topic_facet_id` in qulac.json: "18-2"."""
        return f"{self.topic}-{self.facet}"

    @property
    def history_id(self) -> str:
        """The facet's id and the past questions: "18-2-1-2", or "18-2" without any."""
        numbers = (self.topic, self.facet) + self.history
        return "-".join(map(str, numbers))

    def __str__(self) -> str:
        return f"{self.history_id}-{self.question}-{int(self.answered)}"


def decode_record_id(text: str) -> RecordId:
    """Read an id. Raises ValueError for what no record has as its text."""
    match = _RECORD.fullmatch(text)
    if match is None:
        raise ValueError(
            "must be topic-facet-history-question-answerflag, such as 18-2-10-1 or 18-2-1-2-10-0: numbers from 1, "
            "at most 2 past questions, flag 0 or 1 (without a question: 18-2-0-0)"
        )
    # The groups of the alternative that did not match are None.
    topic, facet, history, question, flag = [group for group in match.groups() if group is not None]
    # The history begins with a hyphen, before which there is no number.
    past_questions = tuple(map(int, history.split("-")[1:]))
    return RecordId(int(topic), int(facet), past_questions, int(question), flag == "1")


# --- Conversations ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ArtificialConversation:
    """A record: the topic's text, the past pairs in the order asked, and the current pair."""

    id: RecordId
    query: str
    history: tuple[Pair, ...]
    current: Pair

    def as_record(self) -> dict[str, Any]:
        """What the published dictionary has under the record's id, with that id as `id`."""
        past_pairs: list[dict[str, str]] = []
        for pair in self.history:
            past_pairs.append({"question": pair.question, "answer": pair.answer})
        return {
            "id": str(self.id),
            "history_id": self.id.history_id,
            "history_list": past_pairs,
            "query": self.query,
            "question": self.current.question,
            "answer": self.current.answer,
        }

    def spoken(self, *, answered: bool) -> ConversationText:
        """What a ranker gets, with or without the current answer.

        Questions and answers are in the order of their numbers: query likelihood does not depend on their order, and so
        records with the same text are equal.
        """
        questions: list[str] = []
        answers: list[str] = []
        for pair in sorted(self.history + (self.current,), key=attrgetter("number")):
            questions.append(pair.question)
            if answered or pair is not self.current:
                answers.append(pair.answer)
        return ConversationText(self.query, tuple(questions), tuple(answers))


def conversations(topics: Iterable[Topic], turns: Sequence[int] = TURNS) -> Iterator[ArtificialConversation]:
    """Qulac's artificial conversations (README, `qulac_hist012_dict`), facet by facet, short ones first.

    Each has a current question and a history of 0, 1 or 2 other questions of the same facet, with that facet's
    answers. The history is a combination, in the order of the questions' numbers: the README calls its records "all
    possible combinations", its example of two past questions is 18-2-1-2-10-1 (the numbers rise), and the current
    question may have any number (1-2-2-1-1 has question 2 behind it and asks question 1). So a facet with n questions
    gives n * C(n - 1, h) conversations with a history of h: of the published file 10,274 + 130,670 + 781,170 = 922,114.
    (Of the three ids with two answers the first in the file counts: a record id could not tell them apart.)

    `turns` are the lengths wanted, of TURNS. Holds one at a time.
    """
    for topic in topics:
        for facet in topic.facets:
            for length in turns:
                yield from _conversations_of_facet(topic, facet, length)


def _conversations_of_facet(topic: Topic, facet: Facet, n_turns: int) -> Iterator[ArtificialConversation]:
    pairs = facet.by_number
    topic_number, facet_number = facet.numbers
    for past_questions in combinations(pairs, n_turns - 1):
        history = tuple(pairs[number] for number in past_questions)
        for question, pair in pairs.items():
            if question not in past_questions:
                id = RecordId(topic_number, facet_number, past_questions, question, True)
                yield ArtificialConversation(id, topic.text, history, pair)


def counts_table(topics: Iterable[Topic], turns: Sequence[int] = TURNS) -> DataTable:
    """How many conversations of each length `conversations` would yield, by the formula."""
    n_by_length = dict.fromkeys(turns, 0)
    for topic in topics:
        for facet in topic.facets:
            n = len(facet.by_number)
            # `comb` takes no negative number: a facet without questions has no conversation.
            if n == 0:
                continue
            for length in n_by_length:
                n_by_length[length] += n * comb(n - 1, length - 1)
    rows: list[Row] = []
    for length, n_conversations in n_by_length.items():
        rows.append({"turns": length, "conversations": n_conversations})
    rows.append({"turns": "all", "conversations": sum(n_by_length.values())})
    columns = (
        Column("turns", as_text("turns"), numeric=False),
        Column("conversations", number("conversations", ",")),
    )
    caption = "a facet with n questions gives n * C(n - 1, turns - 1)"
    return DataTable("conversations", "Artificial conversations", caption, columns, rows)


# --- Retrieval after each conversation -------------------------------------------------------------------

METRICS: Final = (
    "MRR100",
    "NDCG1",
    "NDCG3",
    "NDCG5",
    "NDCG10",
    "NDCG20",
    "P1",
    "P3",
    "P5",
    "P10",
    "P20",
)
"""The eleven of Qulac's evaluation dictionaries (README)."""
FLAGS: Final = (False, True)
"""Without the current answer and with it: the flags of a record id."""
FULL_DEPTH: Final = 1000
"""How many documents are ranked for a measure without a cutoff, as is usual at TREC."""
LEAST_DEPTH: Final = 100
"""`evaluate` decides the order of equal scores, so a ranking cut at the first document would give another P@1 than a
longer one. With a common depth no measure's value depends on which others are asked for."""
_BATCH: Final = 500
"""Rankings held at a time."""


def facet_records(
    topic: Topic, facet: Facet, turns: Sequence[int], flags: Collection[bool] = FLAGS
) -> dict[str, ConversationText]:
    """Map record id -> conversation of one facet, in the order of the ids' numbers, the query alone first."""
    topic_number, facet_number = facet.numbers
    query_alone = RecordId(topic_number, facet_number, (), NO_QUESTION, False)
    records = {query_alone: ConversationText(topic.text)}
    for conversation in conversations([replace(topic, facets=(facet,))], turns):
        for flag in flags:
            records[replace(conversation.id, answered=flag)] = conversation.spoken(answered=flag)
    return {str(id): records[id] for id in sorted(records)}


def evaluate_records(
    ranker: QueryLikelihoodRanker,
    grades: Mapping[str, int],
    spoken: Mapping[str, ConversationText],
    measures: Sequence[str],
    *,
    level: int = 1,
) -> dict[str, dict[str, float]]:
    """Map measure -> record -> value for each of the conversations `spoken`, which are keyed by record.

    `grades` are the intent's judgments, not empty; `level` is the least grade that is relevant, as in `evaluate`.
    Conversations with the same text are ranked once.
    """
    depth = LEAST_DEPTH
    for measure in measures:
        depth = max(depth, cutoff(measure) or FULL_DEPTH)
    # Grade 0 is what a document without a judgment has anyway; all of them stay where there is no other, since
    # `evaluate` has no value for a query without any grade.
    relevant = {document: grade for document, grade in grades.items() if grade > 0} or grades
    # Records with the same text share a ranking, and so their values.
    records_by_conversation: dict[ConversationText, list[str]] = {}
    for record, conversation in spoken.items():
        records_by_conversation.setdefault(conversation, []).append(record)
    values: dict[str, dict[str, float]] = {}
    for measure in measures:
        # All records at once, so that they keep the order of `spoken`; each gets its value below.
        values[measure] = dict.fromkeys(spoken, 0.0)
    conversations = list(records_by_conversation)
    for start in range(0, len(conversations), _BATCH):
        rankings: dict[str, list[Ranked]] = {}
        records_by_ranking: dict[str, list[str]] = {}
        for conversation in conversations[start : start + _BATCH]:
            ranking = str(len(rankings))
            rankings[ranking] = ranker.rank_conversation(conversation, depth)
            records_by_ranking[ranking] = records_by_conversation[conversation]
        batch_values = evaluate(dict.fromkeys(rankings, relevant), rankings, measures, level=level)
        for measure in measures:
            for ranking, records in records_by_ranking.items():
                for record in records:
                    values[measure][record] = batch_values[measure][ranking]
    return values


def judgments(
    qrels: str, ranker: QueryLikelihoodRanker, documents: Collection[str], topics: Sequence[Topic], level: int
) -> tuple[Qrels, list[str]]:
    """Judgments of the topics' facets, and notes for readers of the numbers.

    `qrels` is a file, or "intent:N" for pseudo-judgments: the N documents that a facet's description ranks best.
    `level` is the least grade that is relevant. Raises InputError and UsageError.
    """
    descriptions: dict[str, str] = {}
    for topic in topics:
        for facet in topic.facets:
            descriptions[facet.id] = facet.description
    depth, notes = pseudo_depth(qrels, level), []
    if depth is not None:
        judged: Qrels = pseudo_qrels(ranker, descriptions, depth)
        notes.append(f"These numbers rest on {PSEUDO_JUDGMENTS}: --qrels {qrels}")
    else:
        in_corpus = set(documents)
        judged = read_judgments(Path(qrels), descriptions, in_corpus.__contains__)
        judged_documents = set(chain.from_iterable(judged.values()))
        n_absent = len(judged_documents - in_corpus)
        if n_absent:
            notes.append(f"{n_absent:,} of {len(judged_documents):,} judged documents are not in the corpus")
    n_missing = len(descriptions) - len(judged)
    if n_missing:
        notes.append(f"{n_missing:,} of {len(descriptions):,} facets have no judgments and are left out")
    if level > 1:
        notes.append(f"--qrels {qrels}{relevant_from(level)}")
    n_hopeless = count_hopeless(judged, level=level)
    if n_hopeless:
        notes.append(hopeless_note(n_hopeless, f"{len(descriptions):,} facets", level))
    return judged, notes


# --- Evaluation dictionaries -----------------------------------------------------------------------------

Evaluations: TypeAlias = dict[str, dict[str, float]]
"""Metric -> record id -> value in [0, 1]."""
_METRIC: Final = re.compile(r"([A-Za-z]+)([1-9][0-9]*)?")
_EVALUATIONS: Final = TypeAdapter(
    dict[Annotated[str, StringConstraints(pattern=f"^{_METRIC.pattern}$")], dict[str, Share]]
)


def read_evaluations(path: Path) -> Evaluations:
    """Read a dictionary, metrics and records in file order.

    InputError for a pickle, broken JSON, a repeated key, a name that is no metric (a word and a cutoff, such as
    NDCG20), an id that does not decode, a value that is no number from 0 to 1, and no record.
    """
    evaluations = read_evaluation(path, _EVALUATIONS)
    if not all(evaluations.values()) or not evaluations:
        raise InputError(path, "holds no records: {metric: {record id: value}} is expected")
    # Metrics share their ids: each is decoded once.
    for id in dict.fromkeys(chain.from_iterable(evaluations.values())):
        try:
            decode_record_id(id)
        except ValueError as error:
            raise InputError(path, f"the record id {short(id)} {error}") from None
    return evaluations


def write_evaluations(path: Path, evaluations: Evaluations, about: Mapping[str, Any]) -> None:
    """Write metrics in order of name and cutoff, records as they come; and `about` the dictionary to `about_path`.

    UsageError if there are no records, or a file cannot be written.
    """
    if not any(evaluations.values()):
        raise UsageError(f"{path}: not written: there are no records")
    metrics = sorted(evaluations, key=metric_order)
    write_json_file(path, {metric: evaluations[metric] for metric in metrics})
    write_json_file(about_path(path), about)


def metric_order(name: str) -> tuple[str, int]:
    """Key for sorting metrics: NDCG3 comes before NDCG20."""
    match = _METRIC.fullmatch(name)
    if match is None:
        return name, 0
    return match[1], int(match[2] or 0)


def evaluations_contents(path: str, fields: Mapping[str, str]) -> Contents:
    """Contents of an evaluation dictionary. Raises InputError, also for a pickle."""
    evaluations = read_evaluations(Path(path))
    return Contents({"values": sum(map(len, evaluations.values())), "metrics": list(evaluations)})


# EVAL.about.json says how a dictionary was made, with notes; its own format has no room for that.


class _About(BaseModel):
    notes: list[str]


def about_path(evaluations: Path) -> Path:
    """Return `eval.about.json` for `eval.json`."""
    return evaluations.with_name(f"{evaluations.stem}.about.json")


def read_notes(evaluations: Path) -> list[str]:
    """Return the notes on a dictionary; none without such a file. InputError for a broken one."""
    path = about_path(evaluations)
    # The dictionaries of others have none.
    if not path.exists():
        return []
    return read_json(path, TypeAdapter(_About), max_bytes=1 << 20).notes


# --- Gains -----------------------------------------------------------------------------------------------
#
# Of a facet and a history of earlier questions, the best, the mean and the worst question are those by the value with
# the answer: what could be gained at most, what asking at random gives, what could go wrong. A facet counts once: with
# several histories of one length it has the mean over them. "No question" is the original query alone, whatever the
# length of the history. Where evaluations lack it for some facet, gains are against the same question without its
# answer instead, for all facets: what the answer is worth.


@dataclass(frozen=True, slots=True)
class Gains:
    """The gains of one metric, as rows of tables: means, or None where nothing is known.

    A row of `oracle` belongs to a length of history: over its `facets`, the means of the `worst`, the `mean` and the
    `best` question. `none` is the original query alone, or, where that is not known, the best question without its
    answer; only the `facets_with_none` that have that record count towards `none`, `gain` (best minus none), and `t` and
    `p` of the paired t-test of best against none, if one is wanted.

    A row of `questions` is a facet's question after the `n` histories of one length, in the order they came. Its gains
    are over no question, or, where that is not known, `gain` is over `without_answer` and `gain_without_answer` None.
    """

    oracle: tuple[Row, ...]
    questions: tuple[Row, ...] = field(repr=False)
    without_original: tuple[str, ...] = ()
    """The facets with a question but no value for the original query alone; with one of them, no gain is over it."""


class _NextQuestion(NamedTuple):
    """A question that was asked after a history."""

    number: int
    answered: float
    """Its value with its answer."""
    unanswered: float | None
    """Its value without; None: not evaluated."""


_Histories: TypeAlias = dict[tuple[int, ...], list[_NextQuestion]]
"""Past questions -> what was asked next."""


def question_gains(evaluations: Mapping[str, float], *, test: bool = False) -> Gains:
    """The gains of one metric's values by record id; empty if no question has a value with its answer.

    ValueError for an id that does not decode.
    """
    original: dict[str, float] = {}
    # By facet, history and question; tuples, because a metric of all of Qulac has 1.8 million records.
    answered: dict[tuple[str, tuple[int, ...], int], float] = {}
    unanswered: dict[tuple[str, tuple[int, ...], int], float] = {}
    for id, value in evaluations.items():
        record = decode_record_id(id)
        if record.question == NO_QUESTION:
            original[record.facet_id] = value
        elif record.answered:
            answered[record.facet_id, record.history, record.question] = value
        else:
            unanswered[record.facet_id, record.history, record.question] = value
    histories: dict[tuple[str, int], _Histories] = {}
    """By facet and length."""
    for key, value in answered.items():
        facet, history, question = key
        next_questions = histories.setdefault((facet, len(history)), {}).setdefault(history, [])
        next_questions.append(_NextQuestion(question, value, unanswered.get(key)))
    # A facet has a history of each length: named once.
    without_original: list[str] = []
    for facet, _ in histories:
        if facet not in original and facet not in without_original:
            without_original.append(facet)
    # For all facets: a mean over gains of two kinds would be neither.
    if without_original:
        original = {}
    facets_by_length: dict[int, dict[str, _Histories]] = {}
    questions: list[Row] = []
    for (facet, length), of_facet in histories.items():
        facets_by_length.setdefault(length, {})[facet] = of_facet
        questions += _question_gains(facet, length, of_facet, original.get(facet))
    oracle = []
    for length, facets in sorted(facets_by_length.items()):
        oracle.append(_oracle_row(facets, original, length, test))
    return Gains(tuple(oracle), tuple(questions), tuple(without_original))


def _oracle_row(
    facets: Mapping[str, _Histories], original: Mapping[str, float], length: int, test: bool
) -> dict[str, Any]:
    best, means, worst = {}, [], []
    without_question = dict(original)
    for facet, histories in facets.items():
        best_by_history, mean_by_history, worst_by_history = [], [], []
        for next_questions in histories.values():
            values = [question.answered for question in next_questions]
            best_by_history.append(max(values))
            mean_by_history.append(fmean(values))
            worst_by_history.append(min(values))
        best[facet] = fmean(best_by_history)
        means.append(fmean(mean_by_history))
        worst.append(fmean(worst_by_history))
        if not original:
            unanswered = _best_unanswered(histories)
            if unanswered is not None:
                without_question[facet] = unanswered
    best_of_shared: list[float] = []
    none_of_shared: list[float] = []
    gains: list[float] = []
    for facet, value in best.items():
        if facet in without_question:
            best_of_shared.append(value)
            none_of_shared.append(without_question[facet])
            gains.append(value - without_question[facet])
    row: dict[str, Any] = {
        "history_length": length,
        "facets": len(facets),
        "facets_with_none": len(gains),
        "none": mean_or_none(none_of_shared),
        "worst": fmean(worst),
        "mean": fmean(means),
        "best": fmean(best.values()),
        "gain": mean_or_none(gains),
        "t": None,
        "p": None,
    }
    if test and gains:
        tested = paired_t_test(best_of_shared, none_of_shared)
        row["t"], row["p"] = tested.t, tested.p
    return row


def _best_unanswered(histories: _Histories) -> float | None:
    """The mean value of the best questions without their answers; None if one has no such value.

    Of equally good questions that with the lowest number is taken, so that the result does not depend on order.
    """
    values = []
    for next_questions in histories.values():
        by_number = sorted(next_questions, key=attrgetter("number"))
        best = max(by_number, key=attrgetter("answered"))
        if best.unanswered is None:
            return None
        values.append(best.unanswered)
    return fmean(values)


def _question_gains(
    facet: str, length: int, histories: _Histories, original: float | None
) -> Iterator[dict[str, Any]]:
    by_number: dict[int, list[_NextQuestion]] = {}
    for question in chain.from_iterable(histories.values()):
        by_number.setdefault(question.number, []).append(question)
    for question_number, occurrences in by_number.items():
        answered_values, unanswered_values, differences = [], [], []
        for question in occurrences:
            answered_values.append(question.answered)
            if question.unanswered is not None:
                unanswered_values.append(question.unanswered)
                differences.append(question.answered - question.unanswered)
        answered, unanswered = fmean(answered_values), mean_or_none(unanswered_values)
        gain_without_answer = None
        if original is None:
            gain = mean_or_none(differences)
        else:
            gain = answered - original
            if unanswered is not None:
                gain_without_answer = unanswered - original
        yield {
            "facet": facet,
            "question": question_number,
            "history_length": length,
            "n": len(occurrences),
            "with_answer": answered,
            "without_answer": unanswered,
            "gain": gain,
            "gain_without_answer": gain_without_answer,
        }


# --- Tables ----------------------------------------------------------------------------------------------

QUESTIONS_SHOWN: Final = 12
"""Questions that are printed, from the best to the worst; JSON and CSV have them all."""

_TESTED: Final = (
    "; t, p: paired t-test of best against none over facets; the best is chosen by these very values, so that chance "
    "alone lifts it above none"
)
_AGAINST_ORIGINAL: Final = "the original query alone"
_AGAINST_UNANSWERED: Final = "the best question without its answer"


def oracle_table(gains: Mapping[str, Gains]) -> DataTable:
    """Best, mean and worst question beside none, by metric and length of history.

    Where tests were made, their p-values are corrected together by Holm's method.
    """
    rows: list[dict[str, Any]] = []
    baselines: set[str] = set()
    for metric, metric_gains in gains.items():
        baseline = _AGAINST_ORIGINAL
        if metric_gains.without_original:
            baseline = _AGAINST_UNANSWERED
        for oracle_row in metric_gains.oracle:
            baselines.add(baseline)
            row: dict[str, Any] = {"metric": metric, "against": baseline}
            row |= oracle_row
            row["p_holm"] = None
            rows.append(row)
    tested = [row for row in rows if row["p"] is not None]
    adjusted = holm([row["p"] for row in tested])
    for row, p_holm in zip(tested, adjusted, strict=True):
        row["p_holm"] = p_holm
    columns = [
        Column("metric", text("metric"), numeric=False),
        Column("past", number("history_length", "d")),
        Column("facets", number("facets", "d")),
    ]
    for name in ("none", "worst", "mean", "best"):
        columns.append(Column(name, number(name, ".4f")))
    columns.append(Column("gain", number("gain", "+.4f")))
    none = ", or ".join(sorted(baselines, reverse=True))
    caption = f"mean over facets; past: questions asked before; gain: best - none; none: {none}"
    if tested:
        columns += [Column("t", number("t", ".2f")), Column("p Holm", p_value("p_holm", 4))]
        caption += _TESTED
    return DataTable("oracle", "What the best question would gain", caption, columns, rows, group="metric")


def gain_notes(gains: Mapping[str, Gains]) -> list[str]:
    """Notes on gains that are not over the original query alone, or not over all facets."""
    notes = []
    for metric, metric_gains in gains.items():
        facets = metric_gains.without_original
        if facets:
            facets_have = f"{len(facets):,} facets have"
            if len(facets) == 1:
                facets_have = "1 facet has"
            notes.append(
                f"{metric}: {facets_have} no record of the original query alone "
                f"({facets[0]}-0-0), so gains are over the same question without its answer"
            )
    for metric, metric_gains in gains.items():
        for row in metric_gains.oracle:
            if 0 < row["facets_with_none"] < row["facets"]:
                notes.append(
                    f"{metric}, {row['history_length']} past: only {row['facets_with_none']} of {row['facets']} "
                    "facets have a record of the best question without its answer; "
                    "none and gain are over these, the other columns over all"
                )
    return notes


def question_gains_table(metric: str, gains: Gains) -> DataTable:
    """Every question's gain, the best first; those whose gain is not known at the end."""
    columns = (
        Column("facet", text("facet"), numeric=False),
        Column("question", number("question", "d")),
        Column("past", number("history_length", "d")),
        Column("n", number("n", ",")),
        Column("with answer", number("with_answer", ".4f")),
        Column("gain", number("gain", "+.4f")),
        Column("without", number("without_answer", ".4f")),
        Column("gain", number("gain_without_answer", "+.4f")),
    )
    baseline = "no question"
    if gains.without_original:
        baseline = "the same question without its answer"
    caption = f"gain over {baseline}; n histories of that length; --json and --csv list every question"
    title = f"{metric}: what each question gains, from the best to the worst"
    rows: list[Row] = []
    for question_row in sorted(gains.questions, key=_gain_or_least, reverse=True):
        row: dict[str, Any] = {"metric": metric}
        row.update(question_row)
        rows.append(row)
    name = f"questions_{metric}"
    return DataTable(name, title, caption, columns, rows, shown=QUESTIONS_SHOWN)


def _gain_or_least(row: Row) -> float:
    # Below every difference of two shares.
    if row["gain"] is None:
        return -2.0
    gain: float = row["gain"]
    return gain

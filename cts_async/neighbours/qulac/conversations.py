"""Qulac's artificial conversations, retrieval after each of them, and what each question gains (SIGIR 2019, README)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import comb
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Final, TypeAlias

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
        return "-".join(map(str, (self.topic, self.facet, *self.history)))

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
    topic, facet, history, question, flag = (part for part in match.groups() if part is not None)
    past = tuple(int(number) for number in history.split("-")[1:])
    return RecordId(int(topic), int(facet), past, int(question), flag == "1")


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
        return {
            "id": str(self.id),
            "history_id": self.id.history_id,
            "history_list": [{"question": pair.question, "answer": pair.answer} for pair in self.history],
            "query": self.query,
            "question": self.current.question,
            "answer": self.current.answer,
        }

    def spoken(self, *, answered: bool) -> ConversationText:
        """What a ranker gets, with or without the current answer.

        Questions and answers are in the order of their numbers: query likelihood does not depend on their order, and so
        records with the same text are equal.
        """
        asked = sorted((*self.history, self.current), key=lambda pair: pair.number)
        answers = (pair.answer for pair in asked if answered or pair is not self.current)
        return ConversationText(self.query, tuple(pair.question for pair in asked), tuple(answers))


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
            pairs = facet.by_number
            for past in (past for length in turns for past in combinations(pairs, length - 1)):
                history = tuple(pairs[number] for number in past)
                for asked, pair in pairs.items():
                    if asked not in past:
                        id = RecordId(*facet.numbers, past, asked, True)
                        yield ArtificialConversation(id, topic.text, history, pair)


def counts_table(topics: Iterable[Topic], turns: Sequence[int] = TURNS) -> DataTable:
    """How many conversations of each length `conversations` would yield, by the formula."""
    questions = [len(facet.by_number) for topic in topics for facet in topic.facets]
    counts = {length: sum(n * comb(n - 1, length - 1) for n in questions if n) for length in turns}
    rows: list[dict[str, Any]] = [{"turns": length, "conversations": n} for length, n in counts.items()]
    rows.append({"turns": "all", "conversations": sum(counts.values())})
    columns = (
        Column("turns", as_text("turns"), numeric=False),
        Column("conversations", number("conversations", ",")),
    )
    caption = "a facet with n questions gives n * C(n - 1, turns - 1)"
    return DataTable("conversations", "Artificial conversations", caption, columns, rows)


# --- Retrieval after each conversation -------------------------------------------------------------------

METRICS: Final = (
    *("MRR100", "NDCG1", "NDCG3", "NDCG5", "NDCG10", "NDCG20"),
    *("P1", "P3", "P5", "P10", "P20"),
)
"""The eleven of Qulac's evaluation dictionaries (README)."""
FLAGS: Final = (False, True)
"""Without the current answer and with it: the flags of a record id."""
FULL_DEPTH: Final = 1000
"""How many documents are ranked for a measure without a cutoff, as is usual at TREC."""
LEAST_DEPTH: Final = 100
"""`evaluate` decides the order of equal scores, so a ranking cut at the first document would give another P@1 than a
longer one. With a common depth no measure's value depends on which others are asked for."""
_AT_ONCE: Final = 500
"""Rankings held at a time."""


def facet_records(
    topic: Topic, facet: Facet, turns: Sequence[int], flags: Collection[bool] = FLAGS
) -> dict[str, ConversationText]:
    """Map record id -> conversation of one facet, in the order of the ids' numbers, the query alone first."""
    records = {RecordId(*facet.numbers, (), NO_QUESTION, False): ConversationText(topic.text)}
    for one in conversations([replace(topic, facets=(facet,))], turns):
        for flag in flags:
            records[replace(one.id, answered=flag)] = one.spoken(answered=flag)
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
    depth = max([LEAST_DEPTH, *(cutoff(name) or FULL_DEPTH for name in measures)])
    relevant = {document: grade for document, grade in grades.items() if grade > 0} or grades
    values: dict[ConversationText, list[float]] = {}
    texts = list(dict.fromkeys(spoken.values()))
    for start in range(0, len(texts), _AT_ONCE):
        batch = texts[start : start + _AT_ONCE]
        run = {str(n): ranker.rank_conversation(one, depth) for n, one in enumerate(batch)}
        found = evaluate(dict.fromkeys(run, relevant), run, measures, level=level)
        values |= {one: [found[name][str(n)] for name in measures] for n, one in enumerate(batch)}
    return {
        name: {record: values[one][place] for record, one in spoken.items()}
        for place, name in enumerate(measures)
    }


def judgments(
    qrels: str, ranker: QueryLikelihoodRanker, documents: Collection[str], topics: Sequence[Topic], level: int
) -> tuple[Qrels, list[str]]:
    """Judgments of the topics' facets, and notes for readers of the numbers.

    `qrels` is a file, or "intent:N" for pseudo-judgments: the N documents that a facet's description ranks best.
    `level` is the least grade that is relevant. Raises InputError and UsageError.
    """
    facets = {facet.id: facet.description for topic in topics for facet in topic.facets}
    depth, notes = pseudo_depth(qrels, level), []
    if depth is not None:
        judged: Qrels = pseudo_qrels(ranker, facets, depth)
        notes = [f"These numbers rest on {PSEUDO_JUDGMENTS}: --qrels {qrels}"]
    else:
        known = set(documents)
        judged = read_judgments(Path(qrels), facets, known.__contains__)
        named = {document for grades in judged.values() for document in grades}
        if absent := len(named - known):
            notes.append(f"{absent:,} of {len(named):,} judged documents are not in the corpus")
    if missing := len(facets) - len(judged):
        notes.append(f"{missing:,} of {len(facets):,} facets have no judgments and are left out")
    if level > 1:
        notes.append(f"--qrels {qrels}{relevant_from(level)}")
    if hopeless := count_hopeless(judged, level=level):
        notes.append(hopeless_note(hopeless, f"{len(facets):,} facets", level))
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
    found = read_evaluation(path, _EVALUATIONS)
    if not all(found.values()) or not found:
        raise InputError(path, "holds no records: {metric: {record id: value}} is expected")
    for id in {id: None for values in found.values() for id in values}:
        try:
            decode_record_id(id)
        except ValueError as error:
            raise InputError(path, f"the record id {short(id)} {error}") from None
    return found


def write_evaluations(path: Path, evaluations: Evaluations, about: Mapping[str, Any]) -> None:
    """Write metrics in order of name and cutoff, records as they come; and `about` the dictionary to `about_path`.

    UsageError if there are no records, or a file cannot be written.
    """
    if not any(evaluations.values()):
        raise UsageError(f"{path}: not written: there are no records")
    write_json_file(path, {metric: evaluations[metric] for metric in sorted(evaluations, key=metric_order)})
    write_json_file(about_path(path), about)


def metric_order(name: str) -> tuple[str, int]:
    """Key for sorting metrics: NDCG3 comes before NDCG20."""
    match = _METRIC.fullmatch(name)
    return (match[1], int(match[2] or 0)) if match else (name, 0)


def evaluations_contents(path: str, fields: Mapping[str, str]) -> Contents:
    """Contents of an evaluation dictionary. Raises InputError, also for a pickle."""
    found = read_evaluations(Path(path))
    return Contents({"values": sum(map(len, found.values())), "metrics": list(found)})


# EVAL.about.json says how a dictionary was made, with notes; its own format has no room for that.


class _About(BaseModel):
    notes: list[str]


def about_path(evaluations: Path) -> Path:
    """Return `eval.about.json` for `eval.json`."""
    return evaluations.with_name(f"{evaluations.stem}.about.json")


def read_notes(evaluations: Path) -> list[str]:
    """Return the notes on a dictionary; none without such a file. InputError for a broken one."""
    path = about_path(evaluations)
    return read_json(path, TypeAdapter(_About), max_bytes=1 << 20).notes if path.exists() else []


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


_Asked: TypeAlias = tuple[int, float, float | None]
"""A question, its value with its answer, and without (None: not evaluated)."""
_Histories: TypeAlias = Mapping[tuple[int, ...], list[_Asked]]
"""Past questions -> what was asked next."""


def question_gains(evaluations: Mapping[str, float], *, test: bool = False) -> Gains:
    """The gains of one metric's values by record id; empty if no question has a value with its answer.

    ValueError for an id that does not decode.
    """
    original: dict[str, float] = {}
    values: dict[tuple[str, tuple[int, ...], int, bool], float] = {}
    for id, value in evaluations.items():
        record = decode_record_id(id)
        if record.question == NO_QUESTION:
            original[record.facet_id] = value
        else:
            values[record.facet_id, record.history, record.question, record.answered] = value
    states: dict[tuple[str, int], dict[tuple[int, ...], list[_Asked]]] = {}
    for (facet, history, question, answered), value in values.items():
        if answered:
            histories = states.setdefault((facet, len(history)), {})
            unanswered = values.get((facet, history, question, False))
            histories.setdefault(history, []).append((question, value, unanswered))
    missing = tuple(dict.fromkeys(facet for facet, _ in states if facet not in original))
    if missing:
        original = {}
    lengths = sorted({length for _, length in states})
    by_length = {n: {facet: of for (facet, length), of in states.items() if length == n} for n in lengths}
    oracle = [_oracle(facets, original, length, test) for length, facets in by_length.items()]
    questions = (
        gain
        for (facet, length), histories in states.items()
        for gain in _question_gains(facet, length, histories, original.get(facet))
    )
    return Gains(tuple(oracle), tuple(questions), missing)


def _oracle(
    facets: Mapping[str, _Histories], original: Mapping[str, float], length: int, test: bool
) -> dict[str, Any]:
    best, mean, worst, none = {}, [], [], original
    for facet, histories in facets.items():
        values = [[answered for _, answered, _ in asked] for asked in histories.values()]
        best[facet] = fmean(map(max, values))
        mean.append(fmean(map(fmean, values)))
        worst.append(fmean(map(min, values)))
    if not original:
        known = {facet: _best_unanswered(histories) for facet, histories in facets.items()}
        none = {facet: value for facet, value in known.items() if value is not None}
    pairs = [(value, none[facet]) for facet, value in best.items() if facet in none]
    tested = paired_t_test([a for a, _ in pairs], [b for _, b in pairs]) if test and pairs else None
    return {
        "history_length": length,
        "facets": len(facets),
        "facets_with_none": len(pairs),
        "none": mean_or_none([alone for _, alone in pairs]),
        "worst": fmean(worst),
        "mean": fmean(mean),
        "best": fmean(best.values()),
        "gain": mean_or_none([value - alone for value, alone in pairs]),
        "t": tested.t if tested else None,
        "p": tested.p if tested else None,
    }


def _best_unanswered(histories: _Histories) -> float | None:
    """The mean value of the best questions without their answers; None if one has no such value.

    Of equally good questions that with the lowest number is taken, so that the result does not depend on order.
    """
    best = [min(asked, key=lambda one: (-one[1], one[0])) for asked in histories.values()]
    known = [unanswered for _, _, unanswered in best if unanswered is not None]
    return fmean(known) if len(known) == len(best) else None


def _question_gains(
    facet: str, length: int, histories: _Histories, original: float | None
) -> Iterator[dict[str, Any]]:
    by_question: dict[int, list[_Asked]] = {}
    for one in (one for asked in histories.values() for one in asked):
        by_question.setdefault(one[0], []).append(one)
    for question, every in by_question.items():
        answered = fmean(value for _, value, _ in every)
        both = [(value, alone) for _, value, alone in every if alone is not None]
        unanswered = mean_or_none([alone for _, alone in both])
        if original is None:
            gain, without = mean_or_none([value - alone for value, alone in both]), None
        else:
            gain, without = answered - original, None if unanswered is None else unanswered - original
        yield {
            "facet": facet,
            "question": question,
            "history_length": length,
            "n": len(every),
            "with_answer": answered,
            "without_answer": unanswered,
            "gain": gain,
            "gain_without_answer": without,
        }


# --- Tables ----------------------------------------------------------------------------------------------

QUESTIONS_SHOWN: Final = 12
"""Questions that are printed, from the best to the worst; JSON and CSV have them all."""

_TESTED: Final = (
    "; t, p: paired t-test of best against none over facets; the best is chosen by these very values, so that chance "
    "alone lifts it above none"
)
_AGAINST: Final = {True: "the original query alone", False: "the best question without its answer"}


def oracle_table(gains: Mapping[str, Gains]) -> DataTable:
    """Best, mean and worst question beside none, by metric and length of history.

    Where tests were made, their p-values are corrected together by Holm's method.
    """
    rows: list[dict[str, Any]] = [
        {"metric": metric, "against": _AGAINST[not one.without_original], **row}
        for metric, one in gains.items()
        for row in one.oracle
    ]
    tested = [row for row in rows if row["p"] is not None]
    corrected = iter(holm([row["p"] for row in tested]))
    for row in rows:
        row["p_holm"] = None if row["p"] is None else next(corrected)
    none = ", or ".join(sorted({row["against"] for row in rows}, reverse=True))
    columns = (
        Column("metric", text("metric"), numeric=False),
        Column("past", number("history_length", "d")),
        Column("facets", number("facets", "d")),
        *(Column(name, number(name, ".4f")) for name in ("none", "worst", "mean", "best")),
        Column("gain", number("gain", "+.4f")),
        *((Column("t", number("t", ".2f")), Column("p Holm", p_value("p_holm", 4))) if tested else ()),
    )
    caption = "mean over facets; past: questions asked before; gain: best - none; none: "
    caption += none + (_TESTED if tested else "")
    return DataTable("oracle", "What the best question would gain", caption, columns, rows, group="metric")


def gain_notes(gains: Mapping[str, Gains]) -> list[str]:
    """Notes on gains that are not over the original query alone, or not over all facets."""
    notes = []
    for metric, one in gains.items():
        if one.without_original:
            n = len(one.without_original)
            notes.append(
                f"{metric}: {'1 facet has' if n == 1 else f'{n:,} facets have'} no record of the original query alone "
                f"({one.without_original[0]}-0-0), so gains are over the same question without its answer"
            )
    for metric, one in gains.items():
        notes += [
            f"{metric}, {row['history_length']} past: only {row['facets_with_none']} of {row['facets']} facets have a "
            "record of the best question without its answer; none and gain are over these, the other columns over all"
            for row in one.oracle
            if 0 < row["facets_with_none"] < row["facets"]
        ]
    return notes


def question_gains_table(metric: str, gains: Gains) -> DataTable:
    """Every question's gain, the best first; those whose gain is not known at the end."""
    ordered = sorted(
        gains.questions, key=lambda row: -2.0 if row["gain"] is None else row["gain"], reverse=True
    )
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
    against = "the same question without its answer" if gains.without_original else "no question"
    caption = f"gain over {against}; n histories of that length; --json and --csv list every question"
    title = f"{metric}: what each question gains, from the best to the worst"
    rows = [{"metric": metric, **row} for row in ordered]
    name = f"questions_{metric}"
    return DataTable(name, title, caption, columns, rows, shown=QUESTIONS_SHOWN)

"""`results.jsonl` and `judgments/*.jsonl`: one line per finished instance, written, read and checked.

A line has an outcome, or an `error {step, kind, message}` with what was made before; a later line with the same id
supersedes an earlier one. Judges are independent: a failure of the scoring judge stands beside the answer in
results.jsonl, a failure of a further one in its own file. Version 0.11 and before recorded a failed instance's error
alone, whatever had failed (see `recovery`).

`LatestLines` finds the lines that count without holding them in memory: it tells ids apart by a 64-bit hash that
differs from process to process; that two of a million ids share one happens once in 10^7 files.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import accumulate, islice, repeat
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

from typing_extensions import TypeIs

from cts_async.engine.journal import placed_records, record_at
from cts_async.engine.journal_index import MAX_LINE
from cts_async.engine.step import step_key
from cts_async.errors import InputError, StepError
from cts_async.foreign_json import as_count, as_float, as_list, as_object, as_text, as_texts
from cts_async.records import (
    COVERAGES,
    UNKNOWN,
    ConversationTurn,
    Instance,
    Judgment,
    Nugget,
    NuggetMemo,
    Outcome,
    ToolUse,
    Trace,
    is_one_line,
    message,
)
from cts_async.runs.index import BLOCK, Columns, Index, id_hash, record_in
from cts_async.scorer import TOLERANCE, item_name, pairs_of, restore_score_100, score_of_labels, usual_score

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


Line = dict[str, Any]


def outcome_line(system: str, outcome: Outcome) -> Line:
    """The line of an answered instance; its score is None if nothing was judged.

    `questions` and `answers` are those of all turns; both are empty in mode "select". Without a search the line ends
    with what the run's last stage made.
    """
    instance, trace = outcome.instance, outcome.trace
    answers, query = [answer.text for answer in outcome.answers], outcome.rewritten_query
    line: Line = {
        "id": instance.id,
        "system": system,
        "fused_query": instance.intent,
        "blurred_query": instance.query,
    }
    if instance.domain:
        line["domain"] = instance.domain
    line |= {"k": outcome.k, "questions": outcome.questions}
    if trace is None:
        if answers:
            line["answers"] = answers
        if query:
            line["rewritten_query"] = query
        if outcome.further:
            line["further"] = outcome.further
        return line
    line["answers"] = answers
    line["rewritten_query"] = query
    line["answer"] = trace.answer
    line["answer_from"] = trace.answer_from
    if trace.asked is not None:
        line["asks"] = [
            {"question": ask.question, "reply": ask.reply, "turn": ask.turn} for ask in trace.asked.asks
        ]
    if trace.delivered is not None:
        line["injected_turn"] = trace.delivered.turn
    if outcome.asks_confidence:
        line["confidence"] = trace.confidence
    line["search"] = search_json(trace)
    if outcome.further:
        line["further"] = outcome.further
    return line | _scored(outcome)


def _scored(outcome: Outcome) -> Line:
    """The scoring judge's fields; after a failure there is its name, and nothing that looks like a score."""
    for judge, verdict in outcome.verdicts.items():
        if isinstance(verdict, StepError):
            return {"judge": judge}
        return judged(outcome.instance.nuggets, verdict)
    return judged(outcome.instance.nuggets, None)


def conversation_json(scheme: str, mode: str, turns: tuple[ConversationTurn, ...]) -> Line:
    """The additional fields of a conversation: `scheme`, `mode` and `turns`; none without turns."""
    if not turns:
        return {}
    return {"scheme": scheme, "mode": mode, "turns": [_turn(turn) for turn in turns]}


def _turn(turn: ConversationTurn) -> Line:
    """`{offered, types, reasoning, answers, chosen, query}`, without fields that the scheme or mode does not have."""
    line: Line = {
        "offered": list(turn.offered),
        "types": list(turn.types),
        "reasoning": turn.reasoning,
        "answers": [answer.text for answer in turn.answers],
        "chosen": turn.chosen,
        "query": turn.query,
    }
    return {name: value for name, value in line.items() if value not in ("", [], None)}


MAX_CAUSES = 20
"""Distinct tool failures that a line lists; the rest is summed up."""


COUNTED_AS: Final = {"search": "searches", "visit": "visits"}
"""The fields of a line for the tools that every search has; `others` has the rest by name."""


def search_json(trace: Trace) -> Line:
    """The counts of a search: model calls, calls of tools, failures."""
    kinds = Counter(turn.kind for turn in trace.turns)
    calls = {tool: kinds[tool] for tool in trace.tools.requests if tool not in COUNTED_AS}
    line: Line = {"model_calls": trace.model_calls}
    for tool, counted_as in COUNTED_AS.items():
        line[counted_as] = kinds[tool]
    if calls:
        line["others"] = calls
    line["forced"] = trace.forced
    if kinds["unanswered"]:
        line["unanswered"] = True
    if kinds["made_up"]:
        line["made_up"] = kinds["made_up"]
    if trace.asked is not None:
        line["turns"] = trace.asked.n_turns
        if trace.asked.n_refused:
            line["asks_refused"] = trace.asked.n_refused
        if trace.asked.n_early:
            line["early_answers"] = trace.asked.n_early
    line["tools"] = _tools(trace.tools)
    return line


def _tools(use: ToolUse) -> Line:
    """Requests by tool, the failed ones as rows {tool, host, reason, n}, and queries that found nothing."""
    causes = Counter(
        (failure.tool, failure.host[:100], failure.reason[:60]) for failure in use.failures
    ).most_common()
    failed: list[Line] = []
    for (tool, host, reason), n in causes[:MAX_CAUSES]:
        failed.append({"tool": tool, "host": host, "reason": reason, "n": n})
    # The usual tools first, whatever failed first: lines of equal searches are equal.
    n_other_failures = Counter(dict.fromkeys(COUNTED_AS, 0))
    for (tool, _, _), n in causes[MAX_CAUSES:]:
        n_other_failures[tool] += n
    for tool, n in n_other_failures.items():
        if n:
            failed.append({"tool": tool, "host": "", "reason": "other", "n": n})
    further_requests = {tool: n for tool, n in use.requests.items() if tool not in COUNTED_AS}
    line: Line = {}
    for tool, counted_as in COUNTED_AS.items():
        line[counted_as] = use.requests.get(tool, 0)
    line |= {"failed": failed, "lexical": use.lexical}
    if further_requests:
        line["others"] = further_requests
    # Absent from lines of earlier versions, which did not count them.
    if use.empty:
        line["empty"] = use.empty
    return line


def judged(nuggets: tuple[Nugget, ...], judgment: Judgment | None) -> Line:
    """The fields that the scorer reads: judge, nuggets with labels, score."""
    if judgment is None:
        return {"judge": None, "nuggets": None, "restore_score_100": None}
    label_by_id = dict(judgment.coverage)
    ids, weights, rows = _NUGGET_COLUMNS.get(nuggets)
    labels = tuple([label_by_id[id] for id in ids])
    labelled = [row[label] for row, label in zip(rows, labels, strict=True)]
    score = score_of_labels(weights, labels)
    return {"judge": judgment.judge, "nuggets": labelled, "restore_score_100": score}


class _NuggetColumns(NamedTuple):
    """Nuggets as lines of results have them: made once, and part of many lines, which nobody may change."""

    ids: tuple[str, ...]
    weights: tuple[float, ...]
    rows: tuple[Mapping[str, Line], ...]
    """For each nugget, by label, its object in a line."""


def _nugget_columns(nuggets: tuple[Nugget, ...]) -> _NuggetColumns:
    rows: list[dict[str, Line]] = []
    for nugget in nuggets:
        row: dict[str, Line] = {}
        for label in COVERAGES:
            row[label] = {"id": nugget.id, "weight": nugget.weight, "coverage": label}
        rows.append(row)
    ids = tuple([nugget.id for nugget in nuggets])
    weights = tuple([nugget.weight for nugget in nuggets])
    return _NuggetColumns(ids, weights, tuple(rows))


_NUGGET_COLUMNS: Final = NuggetMemo(_nugget_columns)


def answer_digest(query: str, answer: str) -> str:
    """16 hex digits over a query and an answer: identifies the answer of a verdict that is stored without it."""
    return step_key(query, answer)[:16]


def judged_fingerprint(line: Mapping[str, Any]) -> int:
    """`fingerprint_of` the answer that a line is a verdict on, by its recorded digest or its text; 0: unknown."""
    digest, answer = line.get("answer_digest"), line.get("answer")
    if not isinstance(digest, str) and isinstance(answer, str):
        digest = answer_digest(str(line.get("fused_query") or ""), answer)
    if not isinstance(digest, str):
        return 0
    return fingerprint_of(digest)


def fingerprint_of(digest: str) -> int:
    """A hex digest as a nonzero signed 64-bit number; 0 for an invalid digest."""
    try:
        return int.from_bytes(bytes.fromhex(digest[:16]), signed=True) or 1
    except ValueError:
        return 0


def about_same(mark: Any, mark_2: Any) -> Any:
    """Whether fingerprints (numbers or arrays) are of the same answer, as far as both are known."""
    return (mark == mark_2) | (mark == 0) | (mark_2 == 0)


def failure_line(system: str, instance: Instance, error: StepError) -> Line:
    """The line of an instance that failed for good, with its reason and without a score."""
    line: Line = {
        "id": instance.id,
        "system": system,
        "fused_query": instance.intent,
        "blurred_query": instance.query,
    }
    if instance.domain:
        line["domain"] = instance.domain
    line["error"] = error_json(error)
    return line


def error_json(error: StepError) -> Line:
    """The field `error` of a failure."""
    return {"step": error.step, "kind": error.kind, "message": str(error)}


def verdict_line(instance: Instance, judge: str, verdict: Judgment | StepError) -> Line:
    """A further judge's line on an answer of a run: its labels, or why it failed."""
    if isinstance(verdict, StepError):
        return failure_line("", instance, verdict) | {"judge": judge}
    return {"id": instance.id} | judged(instance.nuggets, verdict)


def read_results(path: Path) -> Iterator[Line]:
    """All intact lines in file order, including superseded ones."""
    return (line for _, line in placed_results(path, ()))


def latest_results(path: Path) -> dict[str, Line]:
    """The lines that count, by id, in order of first appearance."""
    return {line["id"]: line for line in read_results(path)}


def failed(line: Mapping[str, Any]) -> bool:
    """Whether a line records a failure."""
    return line.get("error") is not None


def answered(line: Mapping[str, Any]) -> bool:
    """Whether a line has an answer: a failure that has one is a failure of its judge alone."""
    return _has_answer(line.get("answer"), line.get("error"))


def _has_answer(answer: Any, error: Any) -> bool:
    # An empty answer that was accepted is judged, too; in a failure's line it says that there was none.
    return type(answer) is str and bool(answer or error is None)


# --- The form of a line: an editor or another program may have broken it


_Form = Callable[[Any], bool]
_LARGEST_WEIGHT: Final = 1e100
"""Far beyond any gold's weight; keeps the sum of a line's weights finite."""


def checked_results(path: Path) -> Iterator[Line]:
    """`read_results` with every field checked; raises InputError for an invalid one."""
    return (line for _, line in placed_results(path, _FORMS))


def placed_results(path: Path, fields: Iterable[str]) -> Iterator[tuple[int, Line]]:
    """The lines with their byte offsets; only the form of `fields` is checked."""
    forms = [(name, _FORMS[name][0]) for name in fields]
    for offset, line in placed_records(path):
        if type(line.get("id")) is not str:
            continue
        for name, form in forms:
            # Most lines lack most of these fields.
            if name in line and line[name] is not None and not form(line[name]):
                number, expected = line_number(path, offset), _FORMS[name][1]
                raise InputError(path, f"has to be {expected}", line=number, field=name)
        yield offset, line


def line_number(path: Path, offset: int) -> int:
    """The number, from 1, of the line at a byte offset: counted only for a message, so that a file is read once."""
    with path.open("rb") as file:
        return file.read(offset).count(b"\n") + 1


def _is_number(value: object) -> TypeIs[float]:
    return type(value) in (int, float)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _is_judged(value: Any) -> bool:
    """Nuggets that a score can be computed from; ids are unique."""
    if not isinstance(value, list):
        return False
    ids: set[str] = set()
    for nugget in value:
        if not isinstance(nugget, dict) or not isinstance(nugget.get("id"), str):
            return False
        weight = nugget.get("weight")
        if not _is_number(weight) or not 0 < weight <= _LARGEST_WEIGHT:
            return False
        if nugget.get("coverage") not in COVERAGES:
            return False
        ids.add(nugget["id"])
    return len(ids) == len(value)


def _is_asked(value: Any) -> bool:
    """Questions of the agent to the user, each in one of its turns."""
    if not isinstance(value, list):
        return False
    for ask in value:
        if not isinstance(ask, dict):
            return False
        if not isinstance(ask.get("question"), str) or not isinstance(ask.get("reply"), str):
            return False
        turn = ask.get("turn")
        if type(turn) is not int or turn < 1:
            return False
    return True


_FORMS: Final[Mapping[str, tuple[_Form, str]]] = {
    "questions": (_is_texts, "a list of texts"),
    "answers": (_is_texts, "a list of texts"),
    "judge": (lambda value: type(value) is str and is_one_line(value), "a text of one line"),
    "restore_score_100": (_is_number, "a number"),
    "nuggets": (
        _is_judged,
        "a list of {id, weight, coverage}, each id once, weights positive, coverage full, partial or none",
    ),
    "error": (lambda value: isinstance(value, dict), "an object {step, kind, message}"),
    "asks": (_is_asked, "a list of {question, reply, turn}, turns from 1"),
    "injected_turn": (lambda value: type(value) is int and value > 0, "the number of a turn, or null"),
}
ASKING_FIELDS: Final = ("questions", "answers", "error", "asks", "injected_turn")
"""Those that say what the user was asked, and when."""


# --- Scores: always those of the labels, whatever is stored


MOST_CONTRADICTIONS: Final = 3
"""Contradictions of a file that a sentence names; it counts the others."""
_OTHER_NUGGET_FIELDS: Final = ("per_nugget", "judgments", "results")
"""Where files that other programs judged have their labels."""


def score_of(line: Mapping[str, Any]) -> float | None:
    """The score of a line: that of its labels and weights; the stored one where it has no labels that can be read.

    None for a failure, and without either.
    """
    if failed(line):
        return None
    score = labelled_score(line)
    if score is not None:
        return score
    stored = line.get("restore_score_100")
    if not _is_number(stored):
        return None
    return float(stored)


def labelled_score(line: Mapping[str, Any]) -> float | None:
    """`restore_score_100` of a line's labels and weights; None without labels, or with some that cannot be read."""
    nuggets = line.get("nuggets")
    if nuggets:
        # Of a million lines nearly all have this form, and are scored without a look at each nugget.
        score = usual_score(nuggets)
        if score is not None:
            return score
    elif line.keys().isdisjoint(_OTHER_NUGGET_FIELDS):
        return None
    try:
        return restore_score_100(pairs_of(line).values())
    except ValueError:
        return None


def contradicts(line: Mapping[str, Any], score: float | None) -> bool:
    """Whether the score that is stored in a line is not `score`, that of its labels."""
    stored = line.get("restore_score_100")
    if stored is None or score is None:
        return False
    return not _is_number(stored) or not abs(score - stored) <= TOLERANCE


class Contradiction(NamedTuple):
    """A line whose stored score is not the score of its labels."""

    id: str
    stored: Any
    score: float


def contradiction_note(file: object, n: int, examples: Sequence[Contradiction]) -> str:
    """Say how many scores of a file contradict their labels, and which: the first of `n` as examples; "" for none."""
    if not n:
        return ""
    described = [
        f"{contradiction.id!r} says {_shown(contradiction.stored)}, its nuggets give {contradiction.score:.6g}"
        for contradiction in examples[:MOST_CONTRADICTIONS]
    ]
    if n > len(described):
        described.append(f"and {n - len(described):,} more")
    subject = "1 stored score contradicts its nuggets, and is"
    if n > 1:
        subject = f"{n:,} stored scores contradict their nuggets, and are"
    return f"{file}: {subject} recomputed: {'; '.join(described)}."


def _shown(stored: Any) -> str:
    """A stored score; of a file of unknown origin it may be anything."""
    if _is_number(stored):
        return f"{stored:.6g}"
    return repr(stored)[:40]


# --- The lines that count


HASHES: Final = "q"
"""The array type code of id hashes (int64)."""
Fingerprint: TypeAlias = Callable[[Mapping[str, Any]], int]
"""Identifies what a line is about by 64 bits; 0: unknown."""


def no_fingerprint(line: Mapping[str, Any]) -> int:
    """The fingerprint of lines whose subject cannot change."""
    return 0


def instance_name(line: Mapping[str, Any]) -> str | None:
    """The id of a line's instance; other people's files may identify it by its query alone."""
    id = line.get("id")
    if isinstance(id, str):
        return id
    try:
        return item_name(line)
    except ValueError:
        return None


def latest_rows(hashes: array[int] | memoryview) -> Array:
    """Indexes of the rows that count, one for each distinct hash, in order of first appearance.

    Row i belongs to the id with `hashes[i]`. Shape (ids,), int64; empty for no rows.
    """
    import numpy as np

    ids = np.asarray(hashes)
    ordered = np.sort(ids)
    superseded = (ordered[1:] == ordered[:-1]).any()
    del ordered  # as large as the indexes: holding both would be the peak of a summary
    if not superseded:  # skips the slower, larger argsort
        return np.arange(len(ids))
    order = np.argsort(ids, kind="stable")
    changes = ids[order[1:]] != ids[order[:-1]]
    last_rows = order[np.append(changes, True)]
    first_rows = order[np.insert(changes, 0, True)]
    return cast("Array", last_rows[np.argsort(first_rows)])


_FAILED: Final = 1
_ANSWERED: Final = 2
_LABELLED: Final = 4
_CONTRADICTED: Final = 8
_MAX_COUNT: Final = 65_535
_COLUMNS: Final = {
    "offsets": "int64",
    "lengths": "uint32",
    "ids": "int64",
    "scores": "float64",
    "asked": "uint16",
    "unknown": "uint16",
    "turns": "uint16",
    "flags": "uint8",
    "marks": "int64",
}
"""The columns of `ResultLines` by type."""
EVERY_COLUMN: Final = tuple(_COLUMNS)
SUMMARY_COLUMNS: Final = ("offsets", "ids", "scores", "asked", "unknown", "flags")
"""Those that a summary needs."""
_LOOKUP_COLUMNS: Final = ("offsets", "ids", "flags", "marks")


class ResultLines:
    """Lines of a results file as columns of equal length: those that count, in the order in which their ids first
    appear. A column that was not asked for is empty.
    """

    def __init__(self, columns: Mapping[str, Array], rows: Array | None = None) -> None:
        """Take the rows in that order; None for all as they are, without a copy."""
        import numpy as np

        chosen: dict[str, Array] = {}
        for name, kind in _COLUMNS.items():
            column = columns.get(name)
            if column is None:
                chosen[name] = np.empty(0, kind)
            elif rows is None:
                chosen[name] = column
            else:
                chosen[name] = column[rows]
        self.offsets = chosen["offsets"]
        self.lengths = chosen["lengths"]
        """Bytes, newline included."""
        self.ids = chosen["ids"]
        """`id_hash` of each; whoever reads a line checks its id."""
        self.scores = chosen["scores"]
        """`score_of` each; NaN if there is none."""
        self.asked = chosen["asked"]
        self.unknown = chosen["unknown"]
        self.turns = chosen["turns"]
        """The agent's model calls."""
        self.flags = chosen["flags"]
        self.marks = chosen["marks"]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def failed(self) -> Array:
        """Mask of the lines that record a failure."""
        return self._flagged(_FAILED)

    @property
    def answered(self) -> Array:
        """Mask of the lines that have an answer, judged or not."""
        return self._flagged(_ANSWERED)

    @property
    def contradicted(self) -> Array:
        """Mask of the lines whose stored score is not that of their labels."""
        return self._flagged(_CONTRADICTED)

    def _flagged(self, flag: int) -> Array:
        return (self.flags & flag).astype(bool)

    def row(self, id: str) -> int | None:
        """The row of an id, or None."""
        import numpy as np

        rows = np.flatnonzero(self.ids == id_hash(id))
        if not len(rows):
            return None
        return int(rows[0])

    def rows_of_hashes(self, hashes: Array) -> Array:
        """The row of each of these distinct hashes; -1 if it has no line."""
        import numpy as np

        rows = np.full(len(hashes), -1)
        _, places, found_rows = np.intersect1d(hashes, self.ids, assume_unique=True, return_indices=True)
        rows[places] = found_rows
        return rows


OnLine: TypeAlias = Callable[[int, Line], None]
"""Takes a line and its number among the lines of the file."""


class ResultsIndex(Index):
    """The only reader of results and of judges' files by columns. The last line of an id counts, in the place of its
    first.

    `advance` reads a file that is being written and may be anybody's: what is not of the right form counts as missing.
    `read_checked` reads the whole file as it is, and refuses such lines. `mark` identifies the answer that a line is
    about; `columns` are those that are kept.
    """

    def __init__(
        self,
        path: Path,
        mark: Fingerprint = no_fingerprint,
        block: int = BLOCK,
        *,
        columns: Sequence[str] = EVERY_COLUMN,
    ) -> None:
        self._kept = tuple(columns)
        self.kinds = tuple(_COLUMNS[name] for name in self._kept)
        super().__init__(path, block)
        self.judge: str | None = None
        """The first judge named by a line."""
        self._mark = mark
        # Built once: a million lines are cut to the columns that are kept.
        self._choose = itemgetter(*map(EVERY_COLUMN.index, self._kept))
        self._cached: tuple[Columns, int, ResultLines] | None = None
        """The columns, their length, and the lines that count among these."""

    @property
    def nbytes(self) -> int:
        return 2 * super().nbytes

    def _forget(self) -> None:
        super()._forget()
        self.judge = self._cached = None

    def lines(self) -> ResultLines:
        """The lines that count, as far as the file is indexed."""
        columns = self._columns
        cached = self._cached
        if cached is None or cached[0] is not columns or cached[1] != len(columns):
            by_name = dict(zip(self._kept, columns.all(), strict=True))
            ids = by_name["ids"]
            rows: Array | None = self._latest_rows(ids)
            if rows is not None and len(rows) == len(ids):
                rows = None  # nothing is superseded: the columns as they are
            cached = self._cached = (columns, len(ids), ResultLines(by_name, rows))
        return cached[2]

    def rows(self) -> Array:
        """The numbers of the lines that count, among all lines of the file."""
        return self._latest_rows(self._columns.all()[self._kept.index("ids")])

    def _latest_rows(self, ids: Array) -> Array:
        if not len(ids):
            return ids
        return latest_rows(ids.data)

    def lines_at(self, rows: Array) -> ResultLines:
        """The lines of these numbers, in this order."""
        return ResultLines(dict(zip(self._kept, self._columns.all(), strict=True)), rows)

    def read_checked(self, on_line: OnLine | None = None) -> None:
        """Index the whole file once, and show each line to `on_line`. Raises InputError for a line of another form."""
        self._read_whole(_CHECKED, on_line)

    def read_unchecked(self) -> None:
        """Index the whole file once, whatever the form of its fields; for columns without scores."""
        self._read_whole((), None)

    def _read_whole(self, fields: Sequence[str], on_line: OnLine | None) -> None:
        rows = self._whole_rows(fields, on_line)
        while batch := list(islice(rows, _BATCH)):
            self._columns.add(*zip(*batch, strict=True))

    def _whole_rows(self, fields: Sequence[str], on_line: OnLine | None) -> Iterator[tuple[Any, ...]]:
        scored = "scores" in self._kept
        for number, (offset, line) in enumerate(placed_results(self.path, fields)):
            score = None
            if scored and line.get("error") is None:
                nuggets = line.get("nuggets")
                if nuggets:
                    score = usual_score(nuggets)
                    if score is None:
                        score = self._checked_score(line)
                else:
                    score = line.get("restore_score_100")
            if on_line is not None:
                on_line(number, line)
            yield self._row(offset, 0, id_hash(line["id"]), line, score)

    def _checked_score(self, line: Line) -> float | None:
        """The score of labels that are not of the usual form. Raises InputError for those of a wrong one."""
        for _ in placed_results(self.path, ("nuggets",)):
            pass  # raises the error of the first line at fault, if there is any
        return labelled_score(line)

    def _rows(self, offset: int, block: bytes) -> Iterator[tuple[Any, ...]]:
        for raw in block.split(b"\n")[:-1]:
            line = record_in(raw)
            if line is not None:
                id = instance_name(line)
                if id is not None:
                    yield self._row(offset, len(raw) + 1, id_hash(id), line, score_of(line))
            offset += len(raw) + 1

    def _row(
        self, offset: int, length: int, id: int, line: Mapping[str, Any], score: float | None
    ) -> tuple[Any, ...]:
        """What the columns have of a line."""
        error, answers, search = line.get("error"), line.get("answers"), line.get("search")
        if self.judge is None and isinstance(line.get("judge"), str):
            self.judge = line["judge"]
        flags = 0
        if error is not None:
            flags |= _FAILED
        if _has_answer(line.get("answer"), error):
            flags |= _ANSWERED
        if line.get("nuggets") is not None:
            flags |= _LABELLED
        if score is None:
            score = math.nan
        elif line.get("restore_score_100") != score and contradicts(line, score):
            flags |= _CONTRADICTED
        n_answers = n_unknown = n_turns = 0
        if answers and isinstance(answers, list):
            n_answers = min(len(answers), _MAX_COUNT)
            n_unknown = min(answers.count(UNKNOWN), _MAX_COUNT)
        if search:
            n_turns = min(as_count(as_object(search).get("model_calls")), _MAX_COUNT)
        # In the order of EVERY_COLUMN.
        numbers = (offset, length, id, score, n_answers, n_unknown, n_turns, flags, self._mark(line))
        chosen: tuple[Any, ...] = self._choose(numbers)
        return chosen

    def _line_at(self, offset: int) -> Line | None:
        return record_at(self.path, offset)

    def contradictions(self, name: str, read: Callable[[int], Line | None] | None = None) -> str:
        """`contradiction_note` of the file, which is called `name`; the first such lines are read again for it.

        `read` gives the line at an offset, or None; by default files are opened whatever they are by now.
        """
        lines = self.lines()
        offsets = lines.offsets[lines.contradicted].tolist()
        examples: list[Contradiction] = []
        for offset in offsets[:MOST_CONTRADICTIONS]:
            line = (read or self._line_at)(offset)
            if line is None:
                continue
            score = labelled_score(line)
            if score is not None:  # else the file was changed meanwhile
                examples.append(
                    Contradiction(instance_name(line) or "", line.get("restore_score_100"), score)
                )
        return contradiction_note(name, len(offsets), examples)


_CHECKED: Final = ("judge", "answers", "restore_score_100", "error")
"""Fields whose form `read_checked` checks by itself; labels are checked by scoring them."""
_BATCH: Final = 4096
"""Lines whose numbers are held as Python objects before they go into the columns."""


@message
class VerdictColumns:
    """What a summary counts of a judge's results, lines of one file, without their texts. Picklable."""

    judge: str = ""
    ids: list[bytes] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    """NaN for a failure."""
    failures: dict[int, Line] = field(default_factory=dict)
    """By place, the results that are no verdicts: what is counted of them."""

    def add(self, line: Line) -> None:
        """Add the next result: a verdict on an answer, or a failure."""
        self.judge = line["judge"]
        if "error" in line:
            part = {name: line[name] for name in ("id", "judge", "error")}
            answer = line.get("answer")
            if isinstance(answer, str):
                part["answer"] = answer[:1]  # it is counted whether there is one
            self.failures[len(self.ids)] = part
        self.ids.append(line["id"].encode(errors="surrogatepass"))
        self.scores.append(line.get("restore_score_100", math.nan))


class WrittenResults(ResultsIndex):
    """The index of a file of judged answers that this process writes from its beginning: complete without reading it.

    A line has the score that was computed from its labels just before: it is not computed again.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, columns=SUMMARY_COLUMNS)
        self.size = 0
        """Bytes of the lines that were added."""
        self._added: list[tuple[Any, ...]] = []

    def add(self, line: Line, size: int) -> None:
        """Add the next line of the file, which has this many bytes: a verdict on an answer, or a failure."""
        if size >= MAX_LINE:
            return  # what reads the file leaves it out; by its length the file counts as one that has to be read
        id = id_hash(line["id"])
        if "error" in line:
            row = self._row(self.size, size, id, line, None)
        else:
            # In the order of SUMMARY_COLUMNS. Verdicts differ in nothing else.
            row = (self.size, id, line["restore_score_100"], 0, 0, _ANSWERED | _LABELLED)
            if self.judge is None:
                self.judge = line["judge"]
        self._added.append(row)
        self.size += size
        if len(self._added) >= _BATCH:
            self.settle()

    def add_together(self, verdicts: VerdictColumns, sizes: Sequence[int]) -> None:
        """Add the next lines of the file: what is counted of them, and how many bytes each has."""
        if max(sizes) >= MAX_LINE:
            return  # as in `add`
        *offsets, end = accumulate(sizes, initial=self.size)
        # Bytes hash as `id_hash` of their text.
        ids = list(map(hash, verdicts.ids))
        flags = [_ANSWERED | _LABELLED] * len(sizes)
        for place, failure in verdicts.failures.items():
            row = self._row(offsets[place], sizes[place], ids[place], failure, None)
            flags[place] = row[SUMMARY_COLUMNS.index("flags")]
        if self.judge is None:
            self.judge = verdicts.judge
        # In the order of SUMMARY_COLUMNS.
        self._added += zip(offsets, ids, verdicts.scores, repeat(0), repeat(0), flags)
        self.size = end
        if len(self._added) >= _BATCH:
            self.settle()

    def settle(self) -> None:
        """Move the lines that were added last into the columns."""
        if self._added:
            self._columns.add(*zip(*self._added, strict=True))
            self._added = []

    def failures(self) -> Iterator[tuple[int, Line]]:
        """The lines that record failures, with their numbers, read from the file."""
        import numpy as np

        by_name = dict(zip(self._kept, self._columns.all(), strict=True))
        for number in np.flatnonzero(by_name["flags"] & _FAILED).tolist():
            yield number, record_at(self.path, int(by_name["offsets"][number]))


class LatestLines:
    """The lines that count in a results file, as of construction, found by their ids; 25 bytes per id."""

    def __init__(self, path: Path, fingerprint: Fingerprint = no_fingerprint) -> None:
        import numpy as np

        self._path = path
        index = ResultsIndex(path, fingerprint, columns=_LOOKUP_COLUMNS)
        index.read_unchecked()
        lines = index.lines()
        order = np.argsort(lines.ids)
        self._ids, self._offsets = lines.ids[order], lines.offsets[order]
        self._flags, self._fingerprints = lines.flags[order], lines.marks[order]
        self.n_failed = int(np.count_nonzero(self._flags & _FAILED))
        self.n_answered = int(np.count_nonzero(self._flags & _ANSWERED))
        self.n_labelled = int(np.count_nonzero(self._flags & _LABELLED))

    def __len__(self) -> int:
        return len(self._ids)

    def failed(self, id: str) -> bool | None:
        """Whether the id's line is a failure; None without a line."""
        row = self._row(id)
        if row is None:
            return None
        return bool(self._flags[row] & _FAILED)

    def answered(self, id: str) -> bool:
        """Whether the id's line has an answer, judged or not."""
        row = self._row(id)
        return row is not None and bool(self._flags[row] & _ANSWERED)

    def lacks_labels(self, id: str) -> bool:
        """Whether the id's line has neither labels nor a failure."""
        row = self._row(id)
        return row is not None and not self._flags[row] & (_FAILED | _LABELLED)

    def outdated(self, id: str, fingerprint: int) -> bool:
        """Whether the id's line is about something else than `fingerprint`."""
        row = self._row(id)
        return row is not None and not about_same(self._fingerprints[row], fingerprint)

    def compared(
        self, hashes: array[int], fingerprints: array[int], *, but_failures: bool
    ) -> tuple[int, int]:
        """Number of ids (by `id_hash`) without a line, and of ids whose line is about something else; 0 without
        fingerprints.

        With `but_failures`, failures do not count as lines.
        """
        import numpy as np

        if not len(self._ids):
            return len(hashes), 0
        ids = np.asarray(hashes)
        rows = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        has_line = self._ids[rows] == ids
        if but_failures:
            has_line &= (self._flags[rows] & _FAILED) == 0
        n_outdated = 0
        if fingerprints:
            same = about_same(self._fingerprints[rows], np.asarray(fingerprints))
            n_outdated = int((has_line & ~same).sum())
        return int((~has_line).sum()), n_outdated

    def line(self, id: str) -> Line | None:
        """The id's line, read from the file; None without one."""
        row = self._row(id)
        if row is None:
            return None
        return record_at(self._path, int(self._offsets[row]))

    def _row(self, id: str) -> int | None:
        hashed = id_hash(id)
        row = bisect_left(self._ids.data, hashed)
        if row == len(self._ids) or self._ids[row] != hashed:
            return None
        return row


def stated_confidence(line: Mapping[str, Any]) -> float | None:
    """How sure the agent said it is of a line's answer, 0 to 100; None for no number, or one beyond that."""
    confidence = as_float(line.get("confidence"))
    if confidence is None or not 0 <= confidence <= 100:
        return None
    return confidence


# --- Parts of a line for people: of unknown origin, so what is of another type counts as missing


def turns_of(line: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The conversation of a line, turn by turn; without turns, each question with its answer."""
    turns = [as_object(turn) for turn in as_list(line.get("turns"))]
    if not turns:
        answers = as_texts(line.get("answers"))
        for place, question in enumerate(as_texts(line.get("questions"))):
            turns.append({"offered": [question], "answers": answers[place : place + 1]})
    rows: list[dict[str, Any]] = []
    for n, turn in enumerate(turns, start=1):
        chosen = turn.get("chosen")
        if not isinstance(chosen, int):
            chosen = None
        row: dict[str, Any] = {"n": n}
        row["offered"] = as_texts(turn.get("offered"))
        row["answers"] = as_texts(turn.get("answers"))
        row["chosen"] = chosen
        row["types"] = as_texts(turn.get("types"))
        row["reasoning"] = as_text(turn.get("reasoning")) or ""
        row["query"] = as_text(turn.get("query")) or ""
        rows.append(row)
    return rows


def asks_of(line: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The questions of the agent during its search {question, reply, turn}, in order; None where it could not ask."""
    if "asks" not in line:
        return None
    rows: list[dict[str, Any]] = []
    for ask in map(as_object, as_list(line["asks"])):
        row: dict[str, Any] = {"question": as_text(ask.get("question")) or ""}
        row["reply"] = as_text(ask.get("reply")) or ""
        row["turn"] = as_count(ask.get("turn"))
        rows.append(row)
    return rows


def nuggets_of(verdicts: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The nuggets {id, weight, text, coverage by judge} of verdicts by judge, in the order in which they are named."""
    rows: dict[str, dict[str, Any]] = {}
    for judge, verdict in verdicts.items():
        for nugget in map(as_object, as_list(verdict.get("nuggets"))):
            id, label = as_text(nugget.get("id")), as_text(nugget.get("coverage"))
            if id is None or label is None:
                continue
            if id not in rows:
                # Judges label the same gold: the weight and the text are those of the first that names a nugget.
                weight, text = as_float(nugget.get("weight")) or 1.0, as_text(nugget.get("text"))
                rows[id] = {"id": id, "weight": weight, "text": text, "coverage": {}}
            rows[id]["coverage"][judge] = label
    return list(rows.values())

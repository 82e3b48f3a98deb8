"""`results.jsonl` and `judgments/*.jsonl`: one line per finished instance, written, read and checked.

A line has an outcome, or an `error {step, kind, message}` with what was made before; a later line with the same id
supersedes an earlier one. Judges are independent: a failure of the scoring judge stands beside the answer in
results.jsonl, a failure of a further one in its own file. Version 0.11 and before recorded a failed instance's error
alone, whatever had failed (see `recovery`).

`LatestLines` finds the lines that count without holding them in memory: it tells ids apart by a 64-bit hash that
differs from process to process; that two of a million ids share one happens once in 10^7 files.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from cts_async.engine.journal import placed_records, record_at
from cts_async.engine.step import step_key
from cts_async.errors import InputError, StepError
from cts_async.records import (
    COVERAGES,
    ConversationTurn,
    Instance,
    Judgment,
    Nugget,
    Outcome,
    ToolUse,
    Trace,
    is_one_line,
)
from cts_async.scorer import restore_score_100

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
    line = {
        "id": instance.id,
        "system": system,
        "fused_query": instance.intent,
        "blurred_query": instance.query,
        "k": outcome.k,
        "questions": outcome.questions,
    }
    if trace is None:
        made = {"answers": answers, "rewritten_query": query}
        return {**line, **{name: value for name, value in made.items() if value}}
    return {
        **line,
        "answers": answers,
        "rewritten_query": query,
        "answer": trace.answer,
        "answer_from": trace.answer_from,
        "search": search_json(trace),
        **_scored(outcome),
    }


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
    if kinds["made_up"]:
        line["made_up"] = kinds["made_up"]
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
    rest = Counter(dict.fromkeys(COUNTED_AS, 0))
    for (tool, _, _), n in causes[MAX_CAUSES:]:
        rest[tool] += n
    for tool, n in rest.items():
        if n:
            failed.append({"tool": tool, "host": "", "reason": "other", "n": n})
    others = {tool: n for tool, n in use.requests.items() if tool not in COUNTED_AS}
    line: Line = {}
    for tool, counted_as in COUNTED_AS.items():
        line[counted_as] = use.requests.get(tool, 0)
    line |= {"failed": failed, "lexical": use.lexical}
    if others:
        line["others"] = others
    if use.empty:  # absent from lines of earlier versions, which did not count them
        line["empty"] = use.empty
    return line


def judged(nuggets: tuple[Nugget, ...], judgment: Judgment | None) -> Line:
    """The fields that the scorer reads: judge, nuggets with labels, score."""
    if judgment is None:
        return {"judge": None, "nuggets": None, "restore_score_100": None}
    labels = dict(judgment.coverage)
    return {
        "judge": judgment.judge,
        "nuggets": [
            {"id": nugget.id, "weight": nugget.weight, "coverage": labels[nugget.id]} for nugget in nuggets
        ],
        "restore_score_100": restore_score_100([(nugget.weight, labels[nugget.id]) for nugget in nuggets]),
    }


def answer_digest(query: str, answer: str) -> str:
    """16 hex digits over a query and an answer: identifies the answer of a verdict that is stored without it."""
    return step_key(query, answer)[:16]


def judged_fingerprint(line: Mapping[str, Any]) -> int:
    """`fingerprint_of` the answer that a line is a verdict on, by its recorded digest or its text; 0: unknown."""
    digest, answer = line.get("answer_digest"), line.get("answer")
    if not isinstance(digest, str) and isinstance(answer, str):
        digest = answer_digest(str(line.get("fused_query") or ""), answer)
    return fingerprint_of(digest) if isinstance(digest, str) else 0


def fingerprint_of(digest: str) -> int:
    """A hex digest as a nonzero signed 64-bit number; 0 for an invalid digest."""
    try:
        return int.from_bytes(bytes.fromhex(digest[:16]), signed=True) or 1
    except ValueError:
        return 0


def about_same(mark: Any, other: Any) -> Any:
    """Whether fingerprints (numbers or arrays) are of the same answer, as far as both are known."""
    return (mark == other) | (mark == 0) | (other == 0)


def failure_line(system: str, instance: Instance, error: StepError) -> Line:
    """The line of an instance that failed for good, with its reason and without a score."""
    return {
        "id": instance.id,
        "system": system,
        "fused_query": instance.intent,
        "blurred_query": instance.query,
        "error": error_json(error),
    }


def error_json(error: StepError) -> Line:
    """The field `error` of a failure."""
    return {"step": error.step, "kind": error.kind, "message": str(error)}


def verdict_line(instance: Instance, judge: str, verdict: Judgment | StepError) -> Line:
    """A further judge's line on an answer of a run: its labels, or why it failed."""
    if isinstance(verdict, StepError):
        return {**failure_line("", instance, verdict), "judge": judge}
    return {"id": instance.id, **judged(instance.nuggets, verdict)}


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
    answer = line.get("answer")
    # An empty answer that was accepted is judged, too; in a failure's line it says that there was none.
    return isinstance(answer, str) and bool(answer or not failed(line))


# --- The form of a line: an editor or another program may have broken it


_Form = Callable[[Any], bool]
_LARGEST_WEIGHT: Final = 1e100
"""Far beyond any gold's weight; keeps the sum of a line's weights finite."""


def checked_results(path: Path) -> Iterator[Line]:
    """`read_results` with every field checked; raises InputError for an invalid one."""
    return (line for _, line in placed_results(path, _FORMS))


def placed_results(path: Path, fields: Iterable[str]) -> Iterator[tuple[int, Line]]:
    """The lines with their byte offsets; only the form of `fields` is checked."""
    forms = [(field, *_FORMS[field]) for field in fields]
    for offset, line in placed_records(path):
        if not isinstance(line.get("id"), str):
            continue
        for field, form, expected in forms:
            value = line.get(field)
            if value is not None and not form(value):
                with path.open("rb") as file:
                    number = file.read(offset).count(b"\n") + 1
                raise InputError(path, f"has to be {expected}", line=number, field=field)
        yield offset, line


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _is_judged(value: Any) -> bool:
    """Nuggets that a score can be computed from; ids are unique."""
    return (
        isinstance(value, list)
        and all(
            isinstance(one, dict)
            and isinstance(one.get("id"), str)
            and one.get("coverage") in COVERAGES
            and _is_number(one.get("weight"))
            and 0 < one["weight"] <= _LARGEST_WEIGHT
            for one in value
        )
        and len({one["id"] for one in value}) == len(value)
    )


_FORMS: Final[Mapping[str, tuple[_Form, str]]] = {
    "questions": (_is_texts, "a list of texts"),
    "answers": (_is_texts, "a list of texts"),
    "judge": (lambda value: isinstance(value, str) and is_one_line(value), "a text of one line"),
    "restore_score_100": (_is_number, "a number"),
    "nuggets": (
        _is_judged,
        "a list of {id, weight, coverage}, each id once, weights positive, coverage full, partial or none",
    ),
    "error": (lambda value: isinstance(value, dict), "an object {step, kind, message}"),
}


# --- The lines that count


HASHES: Final = "q"
"""The array type code of id hashes (int64, as `hash` returns)."""


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
    last = order[np.append(changes, True)]
    first = order[np.insert(changes, 0, True)]
    return cast("Array", last[np.argsort(first)])


Fingerprint: TypeAlias = Callable[[Mapping[str, Any]], int]
"""Identifies what a line is about by 64 bits; 0: unknown."""


def no_fingerprint(line: Mapping[str, Any]) -> int:
    """The fingerprint of lines whose subject cannot change."""
    return 0


_FAILED: Final = 1
_ANSWERED: Final = 2
_LABELLED: Final = 4


class LatestLines:
    """The lines that count in a results file, as of construction; 25 bytes per id."""

    def __init__(self, path: Path, fingerprint: Fingerprint = no_fingerprint) -> None:
        import numpy as np

        self._path = path
        hashes, offsets, states, fingerprints = array(HASHES), array("q"), array("b"), array("q")
        for offset, line in placed_results(path, ()):
            hashes.append(hash(line["id"]))
            offsets.append(offset)
            state = _FAILED * failed(line) | _ANSWERED * answered(line)
            states.append(state | _LABELLED * (line.get("nuggets") is not None))
            fingerprints.append(fingerprint(line))
        ids, rows = np.asarray(hashes), latest_rows(hashes)
        rows = rows[np.argsort(ids[rows])]
        self._ids, self._offsets, self._states, self._fingerprints = (
            np.asarray(column)[rows] for column in (hashes, offsets, states, fingerprints)
        )
        self.n_failed = int(np.count_nonzero(self._states & _FAILED))
        self.n_answered = int(np.count_nonzero(self._states & _ANSWERED))
        self.n_labelled = int(np.count_nonzero(self._states & _LABELLED))

    def __len__(self) -> int:
        return len(self._ids)

    def failed(self, id: str) -> bool | None:
        """Whether the id's line is a failure; None without a line."""
        row = self._row(id)
        return None if row is None else bool(self._states[row] & _FAILED)

    def answered(self, id: str) -> bool:
        """Whether the id's line has an answer, judged or not."""
        row = self._row(id)
        return row is not None and bool(self._states[row] & _ANSWERED)

    def lacks_labels(self, id: str) -> bool:
        """Whether the id's line has neither labels nor a failure."""
        row = self._row(id)
        return row is not None and not self._states[row] & (_FAILED | _LABELLED)

    def outdated(self, id: str, fingerprint: int) -> bool:
        """Whether the id's line is about something else than `fingerprint`."""
        row = self._row(id)
        return row is not None and not about_same(self._fingerprints[row], fingerprint)

    def compared(
        self, hashes: array[int], fingerprints: array[int], *, but_failures: bool
    ) -> tuple[int, int]:
        """Number of ids without a line, and of ids whose line is about something else; 0 without fingerprints.

        With `but_failures`, failures do not count as lines.
        """
        import numpy as np

        if not len(self._ids):
            return len(hashes), 0
        wanted = np.asarray(hashes)
        rows = np.minimum(np.searchsorted(self._ids, wanted), len(self._ids) - 1)
        found = self._ids[rows] == wanted
        if but_failures:
            found &= (self._states[rows] & _FAILED) == 0
        same = about_same(self._fingerprints[rows], np.asarray(fingerprints)) if fingerprints else True
        return int((~found).sum()), int((found & np.logical_not(same)).sum())

    def line(self, id: str) -> Line | None:
        """The id's line, read from the file; None without one."""
        row = self._row(id)
        return None if row is None else record_at(self._path, int(self._offsets[row]))

    def _row(self, id: str) -> int | None:
        wanted = hash(id)
        row = bisect_left(self._ids.data, wanted)
        return row if row < len(self._ids) and self._ids[row] == wanted else None

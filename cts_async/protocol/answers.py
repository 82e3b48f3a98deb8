"""Answers that exist already and are to be judged: a finished run's, or somebody's candidates.

Answers are read twice and never held: once to check every line before anything starts, once to judge. Of each
a few bytes are kept meanwhile: its id's hash, and a digest of what a judge would be asked about it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from cts_async.datasets import (
    CandidateLine,
    FailedLine,
    GoldIndex,
    GoldRecord,
    open_dataset,
    read_candidates,
)
from cts_async.engine.run_dir import command_of, read_manifest
from cts_async.errors import InputError, RunStopped, StepError, UsageError
from cts_async.protocol.results import HASHES, LatestLines, answer_digest, first_repetition, mark_of
from cts_async.protocol.run_files import MANIFEST, RESULTS
from cts_async.protocol.run_folders import is_talk
from cts_async.records import Instance, Nugget
from cts_async.scorer import lacks_answer
from cts_async.values import value


@value
class Judging:
    """One answer to be judged, or the failure that stands in its place."""

    instance: Instance
    answer: str
    failure: StepError | None = None

    @property
    def digest(self) -> int:
        """64 bits of what a judge is asked, good within this process; 0 for a failure or an empty answer."""
        instance = self.instance
        if self.failure or not self.answer:
            return 0
        return _digest(instance.fused_query, _digest_of_texts(instance.nuggets), self.answer)

    @property
    def answer_digest(self) -> str:
        """What a verdict is recorded to be about; a failure's is that of an empty answer."""
        return answer_digest(self.instance.fused_query, self.answer)

    @property
    def mark(self) -> int:
        """`answer_digest` as a number, to be held against those of verdicts that are there."""
        return mark_of(self.answer_digest)


class NoAnswer(StepError):
    """There is no answer to judge: a failure, which is not a score of 0."""

    kind = "no_answer"
    step = "candidate"


class ReportedFailure(StepError):
    """A candidate whose own line reports an error that is not the lack of an answer. Never a score."""

    kind = "reported"
    step = "candidate"


Wanted = Callable[[str], bool]
"""Whether the answer with this id is to be judged."""


@dataclass(frozen=True, slots=True)
class Answers:
    """One system's answers, every line of which was checked.

    `stream(wanted)` reads those that are wanted from their file, as often as it is called. `ids` are the
    hashes of all their ids in order (see `latest`), `digests` beside them are `Judging.digest` (0: a failure).
    """

    stream: Callable[[Wanted], Iterator[Judging]]
    ids: array[int] = field(repr=False)
    digests: array[int] = field(repr=False)
    n_nuggets: array[int] = field(repr=False)
    marks: array[int] = field(repr=False, default_factory=lambda: array("q"))
    """Beside the ids, `Judging.mark`; empty where nobody will look at them."""
    n_unknown: int = 0
    """Answers that the gold does not know, and that are left out."""

    def __len__(self) -> int:
        return len(self.ids)

    def counted(self) -> Answers:
        """The same without what only counting needs: 12 bytes an answer less."""
        return replace(self, digests=array(HASHES), n_nuggets=array("I"))


# --- A finished run


def answers_of_run(run: Path, limit: int | None) -> Answers:
    """A run's answers with the nuggets of the dataset that its manifest names. Raises UsageError."""
    manifest = read_manifest(run)
    if manifest is None:
        raise InputError(run, "not a run directory: run.json not found")
    if is_talk(run):
        raise UsageError(f"{run}: conversations alone (cts converse): there is no answer in it to judge")
    data = manifest.get("data")
    command = command_of(manifest)
    if data is None and command.startswith("cts judge "):
        raise UsageError(
            f"{run}: candidates that cts judge has judged, no run; for another judge type that command again "
            f"with one more --judge: {command}"
        )
    if not isinstance(data, dict) or "spec" not in data:
        raise InputError(run / "run.json", "does not say which data the run was over", field="data")
    gold = Path(data["gold"]) if data.get("gold") else None
    try:
        dataset = open_dataset(
            data["spec"], gold, data.get("fields") or {}, skip_bad_gold=bool(data.get("skip_bad_gold"))
        )
    except InputError as error:
        raise UsageError(
            f"{run}: the data it was over cannot be read: {error}. Paths count from where the run was made: "
            "judge it from there"
        ) from None
    recorded = ((manifest.get("identity") or {}).get("data") or {}).get("sha256")
    if recorded is None:
        raise InputError(
            run / MANIFEST, "does not say which data the run was over", field="identity.data.sha256"
        )
    if dataset.sha256() != recorded:
        raise UsageError(f"{dataset.path} has changed since {run} was made: its answers belong to other data")
    lines = LatestLines(run / RESULTS)

    def stream(wanted: Wanted) -> Iterator[Judging]:
        judgeable = (one for one in dataset.instances() if one.nuggets and lines.failed(one.id) is False)
        for instance in islice(judgeable, limit):
            if wanted(instance.id) and (line := lines.line(instance.id)):
                if not isinstance(line.get("answer"), str):
                    raise InputError(run / RESULTS, f"of {instance.id!r} there is no text", field="answer")
                yield Judging(instance, line["answer"])

    if len(lines) == lines.n_failed:
        raise UsageError(f"{run}: no answers to judge yet")
    answers = _answers(
        stream, ((j.instance.id, j.digest, len(j.instance.nuggets), j.mark) for j in stream(_any))
    )
    if not answers:
        raise UsageError(f"{run}: its data has no nuggets: there is nothing to judge by")
    return answers


def _any(id: str) -> bool:
    return True


# --- Candidates


def answers_of_candidates(
    file: Path,
    gold: GoldIndex,
    fields: Mapping[str, str],
    limit: int | None,
    *,
    marked: bool,
    by_id: bool = False,
    empty_is_zero: bool = False,
) -> Answers:
    """The candidates of a file that join the gold. InputError for a bad line, an id twice, and for none.

    With `by_id`, an id joins whatever query stands beside it; that of the gold is the one that is judged by.
    An empty answer is a failure, or with `empty_is_zero` an answer that covers nothing, and so is one that is null.
    Where there are no verdicts yet that could be on other answers, marks need not be made: see `Answers.marks`.
    """

    def stream(wanted: Wanted) -> Iterator[Judging]:
        try:
            for line, name, record in islice(_joined(file, gold, fields, by_id=by_id), limit):
                if wanted(name):
                    yield _judging(line, name, record, by_id=by_id, empty_is_zero=empty_is_zero)
        except InputError as error:
            raise RunStopped(f"{error}; the file has changed since it was checked") from None

    seen = [0]
    answers = _answers(
        stream, _rows(_joined(file, gold, fields, seen, by_id=by_id), marked=marked, by_id=by_id), n_read=seen
    )
    if repeated := first_repetition(answers.ids):
        rows = [row for n, row in enumerate(_joined(file, gold, fields, by_id=by_id)) if n in repeated]
        (earlier, _, _), (line, name, _) = rows
        raise InputError(
            line.path, f"{name!r} already stands on line {earlier.line}", line=line.line, field="id"
        )
    if not answers:
        if not file.stat().st_size:
            raise InputError(file, "is empty; expected a candidate answer on each line")
        raise InputError(
            file,
            f"nothing in it can be joined with the gold {gold.path}, neither by id nor by fused_query; "
            "other names of fields are given with --field OURS=THEIRS",
        )
    return answers if limit is None else _first(answers, limit)


Joined = tuple[CandidateLine | FailedLine, str, GoldRecord]


def _joined(
    file: Path, gold: GoldIndex, fields: Mapping[str, str], seen: list[int] | None = None, *, by_id: bool
) -> Iterator[Joined]:
    """Every line that the gold knows, with its name and its record of gold; `seen[0]` counts all lines."""
    for line in read_candidates(file, fields):
        if seen is not None:
            seen[0] += 1
        id, query = _names(line)
        try:
            record = gold.find(id or None, None if by_id and id else query or None)
        except InputError as clash:
            problem = f"{clash.problem} (--join id joins by the id, whatever the query)"
            raise InputError(clash.path, problem, line=clash.line, field=clash.field) from None
        if record is not None:
            yield line, id or record.id or f"line {line.line}", record


def _names(line: CandidateLine | FailedLine) -> tuple[str, str]:
    if isinstance(line, FailedLine):
        return line.id, line.fused_query
    return line.candidate.id, line.candidate.fused_query


def _query(line: CandidateLine | FailedLine, record: GoldRecord, *, by_id: bool) -> str:
    """The intent that an answer is judged by."""
    own, golds = _names(line)[1], record.fused_query or ""
    return (golds or own) if by_id else (own or golds)


def _judging(
    line: CandidateLine | FailedLine, name: str, record: GoldRecord, *, by_id: bool, empty_is_zero: bool
) -> Judging:
    instance = Instance(name, _query(line, record, by_id=by_id), "", record.nuggets)
    if isinstance(line, FailedLine):
        failure = line.failure
        if not lacks_answer(failure.step, failure.kind):
            return Judging(instance, "", ReportedFailure(failure.message))
        return Judging(instance, "", None if empty_is_zero else NoAnswer(failure.message))
    if not line.candidate.answer and not empty_is_zero:
        return Judging(instance, "", NoAnswer("the candidate's answer is empty"))
    return Judging(instance, line.candidate.answer)


Row = tuple[str, int, int, int]
"""Name, digest, number of nuggets and mark of an answer."""


def _rows(joined: Iterator[Joined], *, marked: bool, by_id: bool) -> Iterator[Row]:
    """Each line's, without making its `Judging`."""
    texts: dict[int, int] = {}
    for line, name, record in joined:
        digest, answer = 0, ""
        query = _query(line, record, by_id=by_id)
        if isinstance(line, CandidateLine) and (answer := line.candidate.answer):
            told = texts.get(id(record))
            if told is None:
                told = texts[id(record)] = _digest_of_texts(record.nuggets)
            digest = _digest(query, told, answer)
        yield name, digest, len(record.nuggets), mark_of(answer_digest(query, answer)) if marked else 0


def _answers(
    stream: Callable[[Wanted], Iterator[Judging]],
    rows: Iterable[Row],
    n_read: list[int] | None = None,
) -> Answers:
    ids, digests, n_nuggets, marks = array(HASHES), array(HASHES), array("I"), array("q")
    for name, digest, n, mark in rows:
        ids.append(hash(name))
        digests.append(digest)
        n_nuggets.append(n)
        if mark:
            marks.append(mark)
    return Answers(stream, ids, digests, n_nuggets, marks, n_read[0] - len(ids) if n_read else 0)


def _first(answers: Answers, limit: int) -> Answers:
    return replace(
        answers,
        ids=answers.ids[:limit],
        digests=answers.digests[:limit],
        n_nuggets=answers.n_nuggets[:limit],
        marks=answers.marks[:limit],
    )


# --- What is asked more than once


def _digest(query: str, texts: int, answer: str) -> int:
    # 0 means that nothing is asked.
    return hash((query, texts, answer)) or 1


def _digest_of_texts(nuggets: tuple[Nugget, ...]) -> int:
    return hash(tuple([nugget.text for nugget in nuggets]))


class Repeats:
    """Which questions to a judge occur more than once among all answers; 8 bytes for each of those.

    Two different questions in a million that seem the same do no harm: a verdict is found by its whole key.
    """

    def __init__(self, systems: Sequence[Answers]) -> None:
        import numpy as np

        digests = np.sort(_column(systems, "digests", np.int64))
        first, end = np.searchsorted(digests, [0, 1])
        if first < end:  # failures
            digests = np.delete(digests, slice(first, end))
        again = digests[1:] == digests[:-1]
        self.n_asked = len(digests)
        """Answers to be judged: all but failures."""
        self.n_repeated = int(again.sum())
        """Of these, those that ask again what an earlier one asked."""
        self._repeated: Any = np.unique(digests[1:][again]).data

    def __contains__(self, judging: Judging) -> bool:
        repeated = self._repeated
        if not len(repeated):
            return False
        wanted = judging.digest
        row = bisect_left(repeated, wanted)
        return bool(row < len(repeated) and repeated[row] == wanted)


def calls_to_judge(systems: Sequence[Answers], repeats: Repeats, per_call: int) -> tuple[int, int]:
    """Calls that one judge would need for every answer by itself, and those that it needs for each question once."""
    import numpy as np

    n_nuggets = _column(systems, "n_nuggets", np.uint32)
    if n_nuggets.max(initial=0) <= per_call:
        return repeats.n_asked, repeats.n_asked - repeats.n_repeated
    digests = _column(systems, "digests", np.int64)
    asked = digests != 0
    calls = -(-n_nuggets[asked].astype(np.int64) // per_call)
    _, first = np.unique(digests[asked], return_index=True)
    return int(calls.sum()), int(calls[first].sum())


def _column(systems: Sequence[Answers], name: str, kind: Any) -> Any:
    import numpy as np

    columns = [np.frombuffer(getattr(one, name), kind) for one in systems if len(one)]
    if len(columns) == 1:
        return columns[0]
    return np.concatenate(columns) if columns else np.empty(0, kind)

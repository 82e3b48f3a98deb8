"""Existing answers that are to be judged: of a finished run, or candidates in a file.

Answers are read twice and never held in memory: once to check every line before anything starts, once to judge. In
between only a few bytes of each are kept: the hash of its id, and a digest of what a judge would be asked about it.
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
from cts_async.protocol.run_folders import is_conversation
from cts_async.records import Instance, Nugget
from cts_async.scorer import lacks_answer
from cts_async.values import value


@value
class Judging:
    """One answer to be judged, or the failure in its place."""

    instance: Instance
    answer: str
    failure: StepError | None = None

    @property
    def digest(self) -> int:
        """64 bits of what a judge is asked, valid in this process only; 0 for a failure or an empty answer."""
        instance = self.instance
        if self.failure or not self.answer:
            return 0
        return _digest(instance.fused_query, _digest_of_texts(instance.nuggets), self.answer)

    @property
    def answer_digest(self) -> str:
        """Identifies the answer in its verdicts; for a failure, that of an empty answer."""
        return answer_digest(self.instance.fused_query, self.answer)

    @property
    def mark(self) -> int:
        """`answer_digest` as a number, to be compared with those of existing verdicts."""
        return mark_of(self.answer_digest)


class NoAnswer(StepError):
    """There is no answer to judge. A failure, not a score of 0."""

    kind = "no_answer"
    step = "candidate"


class ReportedFailure(StepError):
    """A candidate whose line reports an error other than a missing answer. Never a score."""

    kind = "reported"
    step = "candidate"


Wanted = Callable[[str], bool]
"""Takes an id; whether its answer is to be judged."""


@dataclass(frozen=True, slots=True)
class Answers:
    """One system's answers; every line has been checked.

    `stream(wanted)` reads the wanted ones from their file, as often as it is called. `ids` are the hashes of all ids in
    order (see `results.HASHES`), `digests` at the same positions are `Judging.digest` (0: a failure).
    """

    stream: Callable[[Wanted], Iterator[Judging]]
    ids: array[int] = field(repr=False)
    digests: array[int] = field(repr=False)
    n_nuggets: array[int] = field(repr=False)
    marks: array[int] = field(repr=False, default_factory=lambda: array("q"))
    """`Judging.mark` at the positions of the ids; empty if there are no earlier verdicts to compare with."""
    n_unknown: int = 0
    """Answers left out because the gold does not have them."""

    def __len__(self) -> int:
        return len(self.ids)

    def counted(self) -> Answers:
        """The same without the arrays that only counting needs: saves 12 bytes an answer."""
        return replace(self, digests=array(HASHES), n_nuggets=array("I"))


# --- A finished run


def answers_of_run(run: Path, limit: int | None) -> Answers:
    """A run's answers with the nuggets of the dataset that its manifest records. Raises UsageError."""
    manifest = read_manifest(run)
    if manifest is None:
        raise InputError(run, "not a run directory: run.json not found")
    if is_conversation(run):
        raise UsageError(f"{run}: a run of cts converse has no answers to judge")
    data = manifest.get("data")
    command = command_of(manifest)
    if data is None and command.startswith("cts judge "):
        raise UsageError(
            f"{run}: holds candidates judged by cts judge, not a run; for another judge repeat that command "
            f"with one more --judge: {command}"
        )
    if not isinstance(data, dict) or "spec" not in data:
        raise InputError(run / "run.json", "does not record the data of the run", field="data")
    gold = Path(data["gold"]) if data.get("gold") else None
    try:
        dataset = open_dataset(
            data["spec"], gold, data.get("fields") or {}, skip_bad_gold=bool(data.get("skip_bad_gold"))
        )
    except InputError as error:
        raise UsageError(
            f"{run}: its data cannot be read: {error}. Paths are relative to the directory where the run was made: "
            "judge it from there"
        ) from None
    recorded = ((manifest.get("identity") or {}).get("data") or {}).get("sha256")
    if recorded is None:
        raise InputError(run / MANIFEST, "does not record the data of the run", field="identity.data.sha256")
    if dataset.sha256() != recorded:
        raise UsageError(
            f"{dataset.path} has changed since {run} was made, so its answers belong to other data"
        )
    lines = LatestLines(run / RESULTS)

    def stream(wanted: Wanted) -> Iterator[Judging]:
        judgeable = (one for one in dataset.instances() if one.nuggets and lines.failed(one.id) is False)
        for instance in islice(judgeable, limit):
            if wanted(instance.id) and (line := lines.line(instance.id)):
                if not isinstance(line.get("answer"), str):
                    raise InputError(
                        run / RESULTS, f"instance {instance.id!r} has no answer text", field="answer"
                    )
                yield Judging(instance, line["answer"])

    if len(lines) == lines.n_failed:
        raise UsageError(f"{run}: no answers to judge yet")
    answers = _answers(
        stream, ((j.instance.id, j.digest, len(j.instance.nuggets), j.mark) for j in stream(_any))
    )
    if not answers:
        raise UsageError(f"{run}: its data has no nuggets to judge by")
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
    """The candidates of a file that join the gold. InputError for an invalid line, a repeated id, or no candidate.

    With `by_id`, an id joins whatever its query is, and the gold's query is judged by. An empty or null answer is a
    failure, or with `empty_is_zero` an answer that covers nothing. `marked` fills `Answers.marks`, which only matter
    if there are earlier verdicts.
    """

    def stream(wanted: Wanted) -> Iterator[Judging]:
        try:
            for line, name, record in islice(_joined(file, gold, fields, by_id=by_id), limit):
                if wanted(name):
                    yield _judging(line, name, record, by_id=by_id, empty_is_zero=empty_is_zero)
        except InputError as error:
            raise RunStopped(f"{error}; the file was changed while it was being judged") from None

    seen = [0]
    answers = _answers(
        stream, _rows(_joined(file, gold, fields, seen, by_id=by_id), marked=marked, by_id=by_id), n_read=seen
    )
    if repeated := first_repetition(answers.ids):
        rows = [row for n, row in enumerate(_joined(file, gold, fields, by_id=by_id)) if n in repeated]
        (earlier, _, _), (line, name, _) = rows
        raise InputError(
            line.path, f"{name!r} is also the id of line {earlier.line}", line=line.line, field="id"
        )
    if not answers:
        if not file.stat().st_size:
            raise InputError(file, "is empty; expected a candidate answer on each line")
        raise InputError(
            file,
            f"no line can be joined with the gold {gold.path}, neither by id nor by fused_query; "
            "if its fields have other names, use --field OURS=THEIRS",
        )
    return answers if limit is None else _first(answers, limit)


Joined = tuple[CandidateLine | FailedLine, str, GoldRecord]


def _joined(
    file: Path, gold: GoldIndex, fields: Mapping[str, str], seen: list[int] | None = None, *, by_id: bool
) -> Iterator[Joined]:
    """Every line that joins the gold, with its id and gold record; `seen[0]` counts all lines."""
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
    """The intent query that the answer is judged by."""
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
"""Id, digest, number of nuggets and mark of an answer."""


def _rows(joined: Iterator[Joined], *, marked: bool, by_id: bool) -> Iterator[Row]:
    """The row of each line, without building a `Judging`, which would take most of the time."""
    texts: dict[int, int] = {}
    for line, name, record in joined:
        digest, answer = 0, ""
        query = _query(line, record, by_id=by_id)
        if isinstance(line, CandidateLine) and (answer := line.candidate.answer):
            nuggets = texts.get(id(record))
            if nuggets is None:
                nuggets = texts[id(record)] = _digest_of_texts(record.nuggets)
            digest = _digest(query, nuggets, answer)
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


# --- Repeated questions


def _digest(query: str, texts: int, answer: str) -> int:
    # 0 is reserved for answers without a question.
    return hash((query, texts, answer)) or 1


def _digest_of_texts(nuggets: tuple[Nugget, ...]) -> int:
    return hash(tuple([nugget.text for nugget in nuggets]))


class Repeats:
    """Which questions to a judge occur more than once among all answers; 8 bytes for each of those.

    A hash collision does no harm: the verdict itself is found by its whole key.
    """

    def __init__(self, systems: Sequence[Answers]) -> None:
        import numpy as np

        digests = np.sort(_column(systems, "digests", np.int64))
        first, end = np.searchsorted(digests, [0, 1])
        if first < end:  # failures
            digests = np.delete(digests, slice(first, end))
        again = digests[1:] == digests[:-1]
        self.n_asked = len(digests)
        """Answers to be judged, without failures."""
        self.n_repeated = int(again.sum())
        """Of these, the ones whose question an earlier one asks too."""
        self._repeated: Any = np.unique(digests[1:][again]).data

    def __contains__(self, judging: Judging) -> bool:
        repeated = self._repeated
        if not len(repeated):
            return False
        wanted = judging.digest
        row = bisect_left(repeated, wanted)
        return bool(row < len(repeated) and repeated[row] == wanted)


def calls_to_judge(systems: Sequence[Answers], repeats: Repeats, per_call: int) -> tuple[int, int]:
    """Calls of one judge for every answer on its own, and for every distinct question."""
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

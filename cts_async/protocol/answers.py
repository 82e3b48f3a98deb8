"""Existing answers that are to be judged: of a finished run, or candidates in a file.

Every line is checked before anything starts. Up to `KEPT_BYTES` and `KEPT_ANSWERS`, the answers are kept from then on
until they are judged. Larger files are read twice, and in between only a few bytes of each answer are kept: the hash of
its id, and a digest of what a judge would be asked about it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

from cts_async.config import JudgeConfig
from cts_async.datasets import (
    CandidateLine,
    FailedLine,
    GoldIndex,
    read_candidates,
)
from cts_async.datasets.candidates import candidate_fields, candidate_on
from cts_async.datasets.io import CSV_SUFFIXES, NumberedLine, byte_lines, unreadable
from cts_async.errors import InputError, RunStopped, StepError, UsageError
from cts_async.records import Instance, Nugget, NuggetMemo, value
from cts_async.runs.files import RESULTS, reopen_data
from cts_async.runs.index import id_hash
from cts_async.runs.manifest import DataFiles, require_manifest
from cts_async.runs.results import HASHES, LatestLines, answer_digest, fingerprint_of
from cts_async.scorer import lacks_answer


def _texts(nuggets: tuple[Nugget, ...]) -> tuple[str, ...]:
    return tuple([nugget.text for nugget in nuggets])


_TEXTS: Final = NuggetMemo(_texts)


@value
class Judging:
    """One answer to be judged, or the failure in its place."""

    instance: Instance
    answer: str
    failure: StepError | None = None

    @property
    def question_hash(self) -> int:
        """64 bits of what a judge is asked, valid in this process only; 0 for a failure or an empty answer."""
        if self.failure or not self.answer:
            return 0
        texts = _TEXTS.get(self.instance.nuggets)
        # 0 is the hash of what asks nothing.
        return hash((self.instance.judged_by, texts, self.answer)) or 1

    @property
    def answer_digest(self) -> str:
        """Identifies the answer in its verdicts; for a failure, that of an empty answer."""
        return answer_digest(self.instance.intent, self.answer)

    @property
    def fingerprint(self) -> int:
        """`answer_digest` as a number, to be compared with those of existing verdicts."""
        return fingerprint_of(self.answer_digest)


class NoAnswer(StepError):
    """There is no answer to judge. A failure, not a score of 0."""

    kind = "no_answer"
    step = "candidate"


class ReportedFailure(StepError):
    """A candidate whose line reports an error other than a missing answer. Never a score."""

    kind = "reported"
    step = "candidate"


_hashes: Final = partial(array, HASHES)

Wanted = Callable[[str], bool]
"""Takes an id; whether its answer is to be judged."""


def any_id(id: str) -> bool:
    """Want every answer of a stream."""
    return True


@dataclass(frozen=True, slots=True)
class Answers:
    """One system's answers; every line has been checked.

    `stream(wanted)` reads the wanted ones from their file, as often as it is called. `ids` are the hashes of all ids in
    order (see `results.HASHES`).
    """

    stream: Callable[[Wanted], Iterator[Judging]]
    ids: array[int] = field(default_factory=_hashes, repr=False)
    question_hashes: array[int] = field(default_factory=_hashes, repr=False)
    """`Judging.question_hash` at the positions of the ids."""
    fingerprints: array[int] = field(default_factory=_hashes, repr=False)
    """`Judging.fingerprint` at the positions of the ids; empty if there are no earlier verdicts to compare with."""
    n_unknown: int = 0
    """Answers left out because the gold does not have them."""
    n_absent: int = 0
    """Instances of the gold without an answer here: they are expected, and never judged."""
    lines: CandidateLines | None = None
    """The same answers as lines that are not parsed yet; None where not every line has an answer that is judged."""

    def __len__(self) -> int:
        return len(self.ids)

    def add(self, judging: Judging, *, with_fingerprint: bool) -> None:
        """Record an answer that `stream` has."""
        self.ids.append(id_hash(judging.instance.id))
        self.question_hashes.append(judging.question_hash)
        if with_fingerprint:
            self.fingerprints.append(judging.fingerprint)

    def without_question_hashes(self) -> Answers:
        """The same without what only `Repeats` needs: saves 8 bytes an answer."""
        return replace(self, question_hashes=_hashes())


# --- A finished run


def answers_of_run(run: Path, limit: int | None) -> Answers:
    """A run's answers with the nuggets of the dataset that its manifest records. Raises UsageError."""
    manifest = require_manifest(run)
    if not manifest.searches:
        stage = manifest.identity.stop_after
        kind = f"a run that stopped after {stage}" if stage else "a run of cts converse"
        raise UsageError(f"{run}: {kind} has no answers to judge")
    command = manifest.command
    if manifest.data == DataFiles() and command.startswith("cts judge "):
        raise UsageError(
            f"{run}: holds candidates judged by cts judge, not a run; for another judge repeat that command "
            f"with one more --judge: {command}"
        )
    try:
        dataset = reopen_data(manifest)
        gold = manifest.data.gold
        if gold and not Path(gold).exists():
            raise InputError(gold, "not found")
    except InputError as error:
        raise UsageError(
            f"{run}: its data cannot be read: {error}. Paths are relative to the directory where the run was made: "
            "judge it from there"
        ) from None
    lines = LatestLines(run / RESULTS)

    def judgeable() -> Iterator[Instance]:
        for instance in dataset.instances():
            # An answer that the run's own judge failed to label is an answer like all others.
            is_answered = lines.failed(instance.id) is False or lines.answered(instance.id)
            if instance.nuggets and is_answered:
                yield instance

    def stream(wanted: Wanted) -> Iterator[Judging]:
        for instance in islice(judgeable(), limit):
            line = lines.line(instance.id) if wanted(instance.id) else None
            if line is None:
                continue
            if not isinstance(line.get("answer"), str):
                raise InputError(
                    run / RESULTS, f"instance {instance.id!r} has no answer text", field="answer"
                )
            yield Judging(instance, line["answer"])

    if not lines.n_answered and len(lines) == lines.n_failed:
        raise UsageError(f"{run}: no answers to judge yet")
    answers = Answers(stream)
    for judging in stream(any_id):
        answers.add(judging, with_fingerprint=True)
    if not answers.ids:
        raise UsageError(f"{run}: its data has no nuggets to judge by")
    return answers


# --- Candidates

KEPT_BYTES: Final = 64_000_000
"""Bytes of all files whose answers are kept from the check until they are judged.

Of 18 MB of English JSON with 12,000 answers they took 22 MB. At most it is four times the file, where one character
outside Unicode's first plane makes a whole text as wide as itself.
"""
KEPT_ANSWERS: Final = 100_000
"""The most answers that are kept: beside its text each takes some 500 bytes, its query included."""


class KeptAnswers:
    """Which files are small enough to be read once: their answers are kept until they are judged, others read again."""

    def __init__(self) -> None:
        self._bytes_left = KEPT_BYTES
        self.n_left = KEPT_ANSWERS
        """Answers that can still be kept; counted down by whoever keeps them."""

    def of(self, file: Path) -> list[Judging] | None:
        """A list for the answers of a file; None if it is too large beside those before it.

        Raises InputError for a file that is not there.
        """
        try:
            size = file.stat().st_size
        except OSError as error:
            raise unreadable(file, error) from None
        if size > self._bytes_left:
            return None
        self._bytes_left -= size
        return []


def answers_of_candidates(
    file: Path, gold: GoldIndex, config: JudgeConfig, kept: KeptAnswers, *, with_fingerprints: bool
) -> Answers:
    """The candidates of a file that join the gold. InputError for an invalid line, a repeated id, or no candidate.

    `with_fingerprints` fills `Answers.fingerprints`, which only matter if there are earlier verdicts.
    """

    # The lines of the gold's records that have an answer.
    joined = set[int]()

    def judgings() -> Iterator[tuple[int, Judging | None]]:
        """Each line's number and answer; None for an answer that the gold does not have."""
        for line in read_candidates(file, config.fields):
            yield line.line, _judging(line, gold, config, joined)

    def stream(wanted: Wanted) -> Iterator[Judging]:
        joining = (judging for _, judging in judgings() if judging is not None)
        n_left = len(answers)
        try:
            for judging in islice(joining, config.limit):
                n_left -= 1
                if wanted(judging.instance.id):
                    yield judging
        except InputError as error:
            raise RunStopped(f"{error}; {CHANGED}") from None
        if n_left > 0:
            raise _fewer_answers(file, n_left)

    answers, n_unknown, n_failures = Answers(stream), 0, 0
    whole_file = kept.of(file)
    for _, judging in judgings():
        if judging is None:
            n_unknown += 1
        else:
            answers.add(judging, with_fingerprint=with_fingerprints)
            if judging.failure is not None:
                n_failures += 1
            if whole_file is not None:
                whole_file.append(judging)
                if len(whole_file) > kept.n_left:
                    whole_file = None
    _check_distinct(file, answers.ids, judgings)
    if not answers.ids:
        raise _no_candidate(file, gold)
    # By line: the index has a record by its id and again by its query.
    n_records = len({record.line for record in gold.records()})
    n_absent = n_records - len(joined)
    n_expected = len(answers) + n_absent
    for column in (answers.ids, answers.question_hashes, answers.fingerprints):
        del column[config.limit or len(column) :]
    if config.limit:  # a trial expects no more than it asks for
        n_expected = min(n_expected, config.limit)
    if whole_file is not None:
        kept.n_left -= len(whole_file)
        answers = replace(answers, stream=partial(_kept_answers, whole_file[: config.limit]))
    if n_unknown + n_failures == 0 and n_records <= MAX_SENT and file.suffix.lower() not in CSV_SUFFIXES:
        answers = replace(answers, lines=CandidateLines(file, gold, config, len(answers)))
    return replace(answers, n_unknown=n_unknown, n_absent=max(0, n_expected - len(answers)))


def _no_candidate(file: Path, gold: GoldIndex) -> InputError:
    if not file.stat().st_size:
        return InputError(file, "is empty; expected a candidate answer on each line")
    return InputError(
        file,
        f"no line can be joined with the gold {gold.path}, neither by id nor by fused_query; "
        "if its fields have other names, use --field OURS=THEIRS",
    )


MAX_SENT: Final = 1_024
"""Records of a gold that is sent to all workers, so that they parse candidates; the benchmark has 518, in 400 KB."""
CHANGED: Final = "the file was changed while it was being judged"


def _fewer_answers(file: Path, n_fewer: int) -> RunStopped:
    return RunStopped(f"{file}: has {n_fewer} answers fewer than before; {CHANGED}")


@dataclass(frozen=True, slots=True)
class CandidateLines:
    """The first `n` lines of a checked file, each a candidate that joins the gold: to be parsed where they are judged.

    Picklable.
    """

    file: Path
    gold: GoldIndex = field(repr=False)
    config: JudgeConfig = field(repr=False)
    n: int

    def __iter__(self) -> Iterator[NumberedLine]:
        """Yield the lines that are not blank. Raises RunStopped if the file was changed since it was checked."""
        n_left = self.n
        try:
            for line in byte_lines(self.file):
                if not n_left:
                    return
                if not line.raw.isspace():
                    n_left -= 1
                    yield line
        except InputError as error:
            raise RunStopped(f"{error}; {CHANGED}") from None
        if n_left:
            raise _fewer_answers(self.file, n_left)

    def reader(self) -> Callable[[NumberedLine], Judging]:
        """A function that parses a line. Raises RunStopped if the file was changed since it was checked."""
        fields = candidate_fields(self.file, self.config.fields)

        def judging_on(line: NumberedLine) -> Judging:
            try:
                candidate = candidate_on(fields, line)
                if candidate is not None:
                    judging = _judging(candidate, self.gold, self.config, set())
                    if judging is not None:
                        return judging
            except InputError as error:
                raise RunStopped(f"{error}; {CHANGED}") from None
            raise RunStopped(f"{self.file}: line {line.number} joins no line of the gold any more; {CHANGED}")

        return judging_on


def _kept_answers(kept: Sequence[Judging], wanted: Wanted) -> Iterator[Judging]:
    if wanted is any_id:
        yield from kept
        return
    for judging in kept:
        if wanted(judging.instance.id):
            yield judging


def _judging(
    line: CandidateLine | FailedLine, gold: GoldIndex, config: JudgeConfig, joined: set[int]
) -> Judging | None:
    """The line's answer with the gold's nuggets, or the failure that it reports; None if the gold does not have it.

    The line of the gold's record is added to `joined`.

    With `--join id`, an id joins whatever its query is, and the gold's query is judged by. An empty or null answer is a
    failure, or with `--empty-answers zero` an answer that covers nothing.
    """
    by_id, empty_is_zero = config.join == "id", config.empty_answers == "zero"
    failure, answer = None, ""
    if isinstance(line, FailedLine):
        id, query, failure = line.id, line.intent, line.failure
    else:
        id, query, answer = line.candidate.id, line.candidate.intent, line.candidate.answer
    joining_query = query or None
    if by_id and id:
        joining_query = None
    try:
        record = gold.find(id or None, joining_query)
    except InputError as clash:
        problem = f"{clash.problem} (--join id joins by the id, whatever the query)"
        raise InputError(clash.path, problem, line=clash.line, field=clash.field) from None
    if record is None:
        return None
    joined.add(record.line)
    gold_query = record.intent or ""
    judged_by = query or gold_query
    if by_id:
        judged_by = gold_query or query
    instance = Instance(id or record.id or f"line {line.line}", judged_by, "", record.nuggets)
    if failure is None:
        if answer or empty_is_zero:
            return Judging(instance, answer)
        return Judging(instance, "", NoAnswer("the candidate's answer is empty"))
    # A search that ended without an answer reports an error, and is as empty as an answer without text.
    if not lacks_answer(failure.step, failure.kind):
        return Judging(instance, "", ReportedFailure(failure.message))
    return Judging(instance, "", None if empty_is_zero else NoAnswer(failure.message))


def _check_distinct(
    file: Path, ids: array[int], judgings: Callable[[], Iterator[tuple[int, Judging | None]]]
) -> None:
    """Raise InputError for an id that an earlier line has, too."""
    import numpy as np

    ordered = np.sort(np.asarray(ids))
    repeated = set(ordered[1:][ordered[1:] == ordered[:-1]].tolist())
    if not repeated:
        return
    # Equal hashes are no proof: only the ids themselves are, and they are read a second time.
    line_by_id: dict[str, int] = {}
    for line, judging in judgings():
        if judging is None or id_hash(judging.instance.id) not in repeated:
            continue
        id = judging.instance.id
        earlier = line_by_id.setdefault(id, line)
        if earlier != line:
            raise InputError(file, f"{id!r} is also the id of line {earlier}", line=line, field="id")


class Repeats:
    """Which questions to a judge occur more than once among all answers; 8 bytes for each of those.

    A hash collision does no harm: the verdict itself is found by its whole key.
    """

    def __init__(self, systems: Sequence[Answers]) -> None:
        import numpy as np

        # An empty column in front: nothing cannot be concatenated.
        columns = [np.asarray(array(HASHES))]
        for answers in systems:
            columns.append(np.asarray(answers.question_hashes))
        hashes = np.concatenate(columns)
        hashes.sort()
        failures = slice(*np.searchsorted(hashes, [0, 1]))
        if failures.start < failures.stop:
            hashes = np.delete(hashes, failures)
        is_repeated = hashes[1:] == hashes[:-1]
        self.n_asked = len(hashes)
        """Answers to be judged, without failures."""
        self.n_repeated = int(is_repeated.sum())
        """Of these, the ones whose question an earlier one asks too."""
        self._repeated = array(HASHES, np.unique(hashes[1:][is_repeated]).tobytes())

    def __contains__(self, judging: Judging) -> bool:
        repeated = self._repeated
        if not repeated:
            return False
        wanted = judging.question_hash
        row = bisect_left(repeated, wanted)
        return bool(row < len(repeated) and repeated[row] == wanted)

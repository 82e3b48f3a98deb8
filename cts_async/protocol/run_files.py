"""The files of one run directory, held open by the one process that writes them.

run.json            identity (what determines the results), notes of the last command, sessions
steps.jsonl         the journal: one line for each executed step
results.jsonl       one line for each finished instance (judged candidates: per_item.jsonl)
judgments/          further judges' verdicts, a file for each judge
prompts/            the prompts as they were used
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Container, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from cts_async import __version__
from cts_async.engine.events import Events, JobsFound, Notice
from cts_async.engine.journal import AppendLog, Journal, journal_line, torn_path
from cts_async.engine.reuse import StepSource
from cts_async.engine.runner import Context, Job, interrupted
from cts_async.errors import RunStopped, UsageError, write_error
from cts_async.foreign_json import as_object
from cts_async.llm.redact import SECRETS
from cts_async.records import Instance
from cts_async.runs.directory import locked, write_json
from cts_async.runs.files import (
    JUDGMENTS,
    MANIFEST,
    PER_ITEM,
    PROMPTS,
    RESULTS,
    RUN_FILES,
    RUN_FOLDERS,
    SOURCES,
    STEPS,
    judgments_path,
)
from cts_async.runs.identity import differences, resumed_identity
from cts_async.runs.manifest import Manifest, manifest_or_empty, read_manifest
from cts_async.runs.results import (
    LatestLines,
    Line,
    VerdictColumns,
    WrittenResults,
    judged_fingerprint,
)
from cts_async.safe_files import check_writable, make_folder, open_folder, replace_file

EndedLines = Sequence[tuple[str | None, Line]]
"""What is recorded of a job that has ended: lines for the files of further judges by name, and with None its result.

The result comes last: an instance with a result is never done again, so nothing of it may be missing.
"""
SessionNotes = Callable[[], Mapping[str, Any]]
"""Called when a session ends, for whatever reason: further notes on that session."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What a command records in a run directory in addition to the results."""

    identity: Mapping[str, Any]
    """Everything that determines the results: a resumed run must agree with it."""
    notes: Mapping[str, Any]
    """May differ between sessions; the largest `n_expected` is kept."""
    prompts: Mapping[str, str]
    sources: Mapping[str, str] = field(default_factory=dict)
    """Sources of the roles that code of the user's plays, by file name."""
    changed_judges: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What changed of judges whose files of verdicts have to be set aside, see `with_judges`."""
    results: str = RESULTS
    option: str = ""
    """The command-line option that chooses the directory, for error messages; "" where its settings name it."""


class RecordedWork:
    """What the results and judgments of a run directory had when they were read: which work is left. Writes nothing.

    `finished` are the results; none where there is no such directory yet.
    """

    def __init__(self, directory: Path, results: str = RESULTS) -> None:
        self.directory = directory.absolute()
        self.results_path = directory / results
        self._verdicts: dict[str, LatestLines] = {}
        if results == PER_ITEM:
            # Candidates may change under the same id; the answers of a run cannot.
            self.finished = LatestLines(self.results_path, fingerprint=judged_fingerprint)
        else:
            self.finished = LatestLines(self.results_path)

    def needs_work(self, id: str, *, retry_failed: bool) -> bool:
        """Whether an instance had no result when the files were opened, or a failure to be tried again."""
        failed = self.finished.failed(id)
        return failed is None or (failed and retry_failed)

    def judges_left(
        self, instance: Instance, judges: Sequence[str], *, retry_failed: bool
    ) -> tuple[str, ...]:
        """The judges without a verdict on the instance's recorded answer, or with a failure to be tried again.

        Of `judges` the first is the scoring one, whose labels are in the results; each of the others has a file.
        """
        if not instance.nuggets or not judges:
            return ()
        id, (scoring, *further) = instance.id, judges
        lacking: list[str] = []
        if self.finished.lacks_labels(id) or (retry_failed and self.finished.failed(id)):
            lacking.append(scoring)
        for judge in further:
            failed = self._found_verdicts(judge).failed(id)
            if failed is None or (failed and retry_failed):
                lacking.append(judge)
        return tuple(lacking)

    def n_unjudged(
        self, instances: Callable[[], Iterator[Instance]], judges: Sequence[str], *, retry_failed: bool
    ) -> int:
        """Number of answers, their instances not counted as failed, that some judge has still to label."""
        verdicts_by_judge = [self._found_verdicts(judge) for judge in judges[1:]]
        fewest_verdicts = min(map(len, verdicts_by_judge), default=0)
        is_complete = self.finished.n_labelled == self.finished.n_answered == fewest_verdicts
        has_failures = any(verdicts.n_failed for verdicts in verdicts_by_judge)
        if is_complete and not (retry_failed and has_failures):
            return 0  # saves reading the data: the usual case
        n = 0
        for instance in instances():
            if not self.finished.answered(instance.id) or self.finished.failed(instance.id):
                continue
            if self.judges_left(instance, judges, retry_failed=retry_failed):
                n += 1
        return n

    def _found_verdicts(self, judge: str) -> LatestLines:
        """The verdicts of a further judge as they were when they were first looked at."""
        if judge not in self._verdicts:
            self._verdicts[judge] = self.judged(judge)
        return self._verdicts[judge]

    def judged(self, judge: str) -> LatestLines:
        """The verdicts of a further judge that are there already."""
        return LatestLines(judgments_path(self.directory, judge), judged_fingerprint)


class RunFiles(RecordedWork):
    """Journal, results and judgments of a run directory; `finished` is what was there when it was opened.

    A `journal` that several directories share is passed in, and closed by the caller. Raises UsageError where nothing
    can be written, and StorageFull where there is no space.
    """

    def __init__(
        self,
        directory: Path,
        *,
        results: str = RESULTS,
        sync: bool = False,
        journal: Journal | None = None,
        source: StepSource | None = None,
    ) -> None:
        """`source` has the steps of other runs that may be taken."""
        self.source = source
        self._sync = sync
        self._own_journal = journal is None
        try:
            self.journal = Journal(directory / STEPS, sync=sync) if journal is None else journal
            self._results = AppendLog(directory / results, sync=sync)
        except OSError as error:
            raise write_error(directory, error, verb="write there") from None
        self._judgments: dict[str, AppendLog] = {}
        self.written: WrittenResults | None = None
        """What a summary counts of the results that are written here, in the order of the file; None: it reads them."""
        RecordedWork.__init__(self, directory, results)

    def job(
        self,
        id: str,
        walk: Callable[[Context], Awaitable[Any]],
        lines_of: Callable[[Any], EndedLines],
        *,
        group: str = "",
        shared: bool = False,
    ) -> Job:
        """A job of this run, of its own group unless another is named.

        `walk` makes its steps; `lines_of` says what is recorded of their result, or of the StepError that ended them.
        """

        async def finish(ended: Any) -> None:
            for judge, line in lines_of(ended):
                if judge is None:
                    # Not waited for: if this line is lost, the journal's steps make it again.
                    data = journal_line(line)
                    if self.written is not None:
                        self.written.add(line, len(data))
                    await self._results.put_lines(data)
                else:
                    await self._log(judge).append(line)

        return Job(
            group or self.directory.name, id, self.journal, walk, finish, shared=shared, source=self.source
        )

    @property
    def may_have_steps(self) -> bool:
        """Whether a step may be finished already: in the journal, or in that of another run."""
        return len(self.journal) > 0 or self.source is not None

    async def add_results(
        self, lines: bytes | bytearray, sizes: Sequence[int], verdicts: VerdictColumns | None = None
    ) -> None:
        """Append results of other processes, each of so many bytes; `verdicts` is what a summary counts of them."""
        if verdicts is not None and self.written is not None:
            self.written.add_together(verdicts, sizes)
        await self._results.put_lines(lines)

    async def add_judgments(self, judge: str, lines: bytes | bytearray) -> None:
        """Append a further judge's lines of other processes."""
        await self._log(judge).append_lines(lines)

    def report_found(
        self, events: Events, n_expected: int, *, retry_failed: bool, n_unjudged: int = 0
    ) -> None:
        """Emit how many instances are finished already, and a notice for each damage of the journal.

        Of those without a failure, `n_unjudged` have still to be judged.
        """
        n_finished, n_failed = len(self.finished), self.finished.n_failed
        if retry_failed:  # then failures are work, too
            n_finished, n_failed = n_finished - n_failed, 0
        # A smaller --limit than before expects fewer than there are.
        n_finished = min(n_finished, n_expected) - n_unjudged
        events.emit(JobsFound(self.directory.name, n_finished, min(n_failed, n_finished)))
        for text in self.journal.report.notices(self.journal.path):
            events.emit(Notice(text))

    def close(self) -> None:
        """Write what is pending and close. Raises StorageFull if the disk refused it."""
        # Each is closed, also where the disk has refused another's last lines.
        with ExitStack() as logs:
            if self._own_journal:
                logs.callback(self.journal.close)
            for log in chain([self._results], self._judgments.values()):
                logs.callback(log.close)

    def _log(self, judge: str) -> AppendLog:
        if judge not in self._judgments:
            path = judgments_path(self.directory, judge)
            try:
                make_folder(self.directory, JUDGMENTS)
                self._judgments[judge] = AppendLog(path, sync=self._sync)
            except OSError as error:
                raise write_error(path, error) from None
        return self._judgments[judge]


@contextmanager
def open_run_files(
    directory: Path,
    record: RunRecord,
    *,
    sync: bool = False,
    journal: Journal | None = None,
    source: StepSource | None = None,
    session_notes: SessionNotes = dict,
) -> Iterator[RunFiles]:
    """Lock the directory, check that it is this run, record a session in the manifest, and open the files.

    Raises UsageError; StorageFull where there is no space.
    """
    with (
        recorded_session(directory, record, session_notes),
        closing(
            RunFiles(directory, results=record.results, sync=sync, journal=journal, source=source)
        ) as files,
    ):
        yield files


@contextmanager
def recorded_session(
    directory: Path, record: RunRecord, session_notes: SessionNotes = dict
) -> Iterator[None]:
    """`open_run_files` without the files: the lock, the prompts, and the manifest, which records this execution."""
    with locked(directory, place=record.option) as is_still_ours:
        check_files(directory)
        manifest = read_manifest(directory)
        identity: Mapping[str, Any] | None = record.identity
        if manifest is None:
            _check_no_results(directory, record.option)
            manifest = Manifest(directory=directory)
        else:
            identity = resumed_identity(manifest, record.identity)
        if identity is None:  # it was not when this command chose the directory
            raise UsageError(
                f"{directory}: another command has begun a run of other settings there just now; run the same command "
                "again"
            )
        # A session with a smaller --limit makes the run no smaller.
        expected = max(int(record.notes.get("n_expected", 0)), manifest.n_expected)
        session: dict[str, Any] = {"start": _stamp(), "end": None, "wall_s": None}
        sessions = list(manifest.raw_sessions)
        sessions.append(session)
        written: dict[str, Any] = {"identity": identity}
        written |= record.notes
        written["n_expected"] = expected
        written["version"] = __version__
        written["sessions"] = sessions
        write_json(directory / MANIFEST, written)
        began = time.monotonic()
        try:
            set_judgments_aside(directory, record.changed_judges)
            _write_texts(directory, PROMPTS, {f"{name}.txt": text for name, text in record.prompts.items()})
            # Code of the user's may have a key in it.
            _write_texts(
                directory, SOURCES, {name: SECRETS.text(text) for name, text in record.sources.items()}
            )
            yield
        except (RunStopped, asyncio.CancelledError) as reason:
            session["stopped"] = str(reason if isinstance(reason, RunStopped) else interrupted())
            raise
        finally:
            session.update(session_notes(), end=_stamp(), wall_s=round(time.monotonic() - began, 3))
            # The directory may have been replaced by another one meanwhile, as by a copy that was moved there.
            if is_still_ours():
                write_json(directory / MANIFEST, written)


def check_files(directory: Path) -> None:
    """Refuse a run in which one of our files is a symbolic link or not a regular file, before anything is written there.

    Also refuse a run that a cluster of version 0.7 left with parts of its journal unmerged. Raises UsageError.
    """
    # Opening such a file for writing is refused anyway, but possibly after calls were paid.
    paths = [directory / name for name in RUN_FILES]
    try:
        for name in RUN_FOLDERS:
            with suppress(FileNotFoundError), open_folder(directory / name) as folder:
                for entry in os.listdir(folder):
                    paths.append(directory / name / entry)
        for path in paths:
            check_writable(path)
            check_writable(torn_path(path))
    except OSError as error:
        raise write_error(error.filename or directory, error) from None
    if any((directory / "shards").glob("*.jsonl*")):
        raise UsageError(
            f"{directory / 'shards'}: steps of an interrupted cluster run that only cts-async==0.7.0 can merge; "
            "resume the run with that version first"
        )


def _check_no_results(directory: Path, option: str) -> None:
    """Refuse results without a manifest: resuming would take them for this run's own."""
    for name in (RESULTS, PER_ITEM):
        path = directory / name
        if not path.exists() or not path.stat().st_size:
            continue
        remedy = f"move {name} and {JUDGMENTS}/ away: the same command then rebuilds them from {STEPS}"
        if option:
            remedy = f"use another {option}, or {remedy}"
        raise UsageError(
            f"{directory} holds {name} but no {MANIFEST} that says which run it belongs to: {remedy}"
        )


def _write_texts(directory: Path, subfolder: str, texts: Mapping[str, str]) -> None:
    """Copy texts that a run was made with. Raises UsageError, StorageFull.

    The journal stores a prompt's name and fields, not its constant text again; two versions of a run can be compared.
    """
    if not texts:
        return
    folder = directory / subfolder
    try:
        make_folder(directory, subfolder)
        for name, text in texts.items():
            path, content = folder / name, text.encode(errors="replace")
            if not (path.exists() and path.read_bytes() == content):
                # No fsync: the next session writes again what a power cut takes.
                replace_file(path, content, sync=False)
    except OSError as error:
        raise write_error(folder, error) from None


def _stamp() -> str:
    # Finer than seconds: of two versions the one that was worked on last is the newest.
    return datetime.now(UTC).isoformat(timespec="milliseconds")


# --- Further judges of a finished run


@contextmanager
def open_finished_run(
    directory: Path,
    judges: Mapping[str, Mapping[str, Any]],
    notes: Mapping[str, Any],
    *,
    notify: Callable[[str], None],
    sync: bool = False,
    source: StepSource | None = None,
) -> Iterator[RunFiles]:
    """Lock a finished run to add judgments to it; its identity stays, the new judges and their prices are recorded.

    Of `notes`, `prices`, `tiers` and `embedded` are used; `notify` is told of judgments that are set aside. Raises as
    `set_judgments_aside` and `RunFiles`.
    """
    with locked(directory):
        check_files(directory)
        manifest = manifest_or_empty(directory)
        written = dict(manifest.raw)
        written["further_judges"], changed = with_judges(manifest, judges)
        for text in set_judgments_aside(directory, changed):
            notify(text)
        written["prices"] = dict(manifest.prices) | notes["prices"]
        if "tiers" in notes:
            written["tiers"] = as_object(manifest.raw.get("tiers")) | notes["tiers"]
        written["embedded"] = manifest.embedded or notes["embedded"]
        write_json(directory / MANIFEST, written)
        with closing(RunFiles(directory, sync=sync, source=source)) as files:
            yield files


def with_judges(
    manifest: Manifest, judges: Mapping[str, Mapping[str, Any]]
) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """The manifest's record of further judges, with `judges` (what determines their verdicts, by name) added.

    Also, by name, what changed of the judges whose file has verdicts of other settings: it has to be set aside, since a
    file has the verdicts of one judge only. A file of which nothing is recorded is accepted. Raises UsageError for a
    judge of the run itself whose settings were others: its verdicts belong to the run.
    """
    recorded = dict(manifest.further_judges)
    changed: dict[str, list[str]] = {}
    for name, settings in judges.items():
        path = judgments_path(manifest.directory, name)
        settings_in_run = _settings_in_run(manifest, name, settings.get("prompts") or ())
        before = recorded.get(name) or settings_in_run
        changes = list(differences(before, settings)) if before else []
        if changes and path.exists() and path.stat().st_size:
            if settings_in_run is not None:
                raise UsageError(
                    f"{path} has verdicts by another {name}, a judge of the run itself: {'; '.join(changes)}. Use "
                    "another name for the new judge, or repeat the run's own command, which makes a version of the run"
                )
            changed[name] = changes
        recorded[name] = settings
    return recorded, changed


def set_judgments_aside(directory: Path, changed: Mapping[str, Sequence[str]]) -> list[str]:
    """Keep the files of judges whose settings changed under other names; returns what the user should know.

    Their verdicts stay in the journal, too: going back to the earlier settings costs nothing. Raises UsageError.
    """
    notices: list[str] = []
    for name, changes in changed.items():
        path = judgments_path(directory, name)
        number = 1
        while (aside := path.with_name(f"{path.name}.{number}")).exists():
            number += 1
        try:
            with open_folder(path.parent):  # no link
                path.rename(aside)
        except OSError as error:
            raise write_error(path, error) from None
        notices.append(
            f"{path}: has verdicts by another {name} ({'; '.join(changes)}); it is kept as {aside.name}"
        )
    return notices


def _settings_in_run(manifest: Manifest, name: str, prompts_used: Container[str]) -> Mapping[str, Any] | None:
    """What determined the verdicts of a judge of the run itself; None if the run has no judge of that name.

    A run records the prompts of all its judges together: those that this one has now are compared.
    """
    if manifest.embedded:  # a run's identity names the embedded model by its file
        return None
    model = manifest.identity.models.get(f"judge {name}")
    if not model:
        return None
    prompts = {}
    for prompt, digest in manifest.identity.prompts.items():
        if prompt in prompts_used:
            prompts[prompt] = digest
    return {"model": model, "prompts": prompts}

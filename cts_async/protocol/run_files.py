"""The files of one run, held open by the one process that writes them."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from cts_async import __version__
from cts_async.engine.events import Events, JobsFound, Notice
from cts_async.engine.journal import AppendLog, Journal, torn_path
from cts_async.engine.run_dir import check_identity, differences, locked, read_manifest, write_json
from cts_async.engine.runner import interrupted
from cts_async.errors import RunStopped, UsageError, write_error
from cts_async.protocol.results import LatestLines, Line, judged_mark
from cts_async.safe_files import check_writable, make_folder, open_folder, replace_file

RESULTS, PER_ITEM, STEPS, MANIFEST, SUMMARY, JUDGMENTS, PROMPTS = (
    "results.jsonl",
    "per_item.jsonl",
    "steps.jsonl",
    "run.json",
    "summary.json",
    "judgments",
    "prompts",
)
_FILES: Final = (RESULTS, PER_ITEM, STEPS, MANIFEST, SUMMARY, "traces.jsonl", "live.json", "report.html")
_FOLDERS: Final = (JUDGMENTS, PROMPTS)


Also = Callable[[], Mapping[str, Any]]
"""Asked when a session ends, however it does: what else is noted of it."""


class RunFiles:
    """Journal, results and judgments of a run directory; `finished` is what was there when it was opened.

    A `journal` that several directories share is given, and closed by whoever gave it. Raises StorageFull, and
    UsageError where nothing can be written, StorageFull where there is no room.
    """

    def __init__(
        self,
        directory: Path,
        *,
        results: str = RESULTS,
        sync: bool = False,
        journal: Journal | None = None,
    ) -> None:
        self.directory = directory
        self.results_path = directory / results
        self._sync = sync
        self._own_journal = journal is None
        try:
            check_no_shards(directory)
            self.journal = Journal(directory / STEPS, sync=sync) if journal is None else journal
            self._results = AppendLog(self.results_path, sync=sync)
        except OSError as error:
            raise write_error(directory, error, verb="write there") from None
        self._judgments: dict[str, AppendLog] = {}
        # Answers of candidates may change under their ids; those of a run cannot.
        mark = {"mark": judged_mark} if results == PER_ITEM else {}
        self.finished = LatestLines(self.results_path, **mark)

    async def add_result(self, line: Line) -> None:
        """Record that an instance is finished. Its other judgments must have been added before.

        Nobody waits for the line to be written: the instance's steps are, and make it again.
        """
        await self._results.put(line)

    def needs_work(self, id: str, *, retry_failed: bool) -> bool:
        """Whether an instance had no result yet, or one that is to be tried again."""
        failed = self.finished.failed(id)
        return failed is None or (failed and retry_failed)

    async def add_judgment(self, judge: str, line: Line) -> None:
        await self._log(judge).append(line)

    async def add_lines(self, judge: str | None, lines: Sequence[bytes]) -> None:
        """`add_judgment` of a judge, or `add_result` where it is None, for lines as other processes made them."""
        if judge is None:
            await self._results.put_lines(b"".join(lines))
        else:
            await self._log(judge).append_lines(b"".join(lines))

    def tell(self, events: Events, n_expected: int, *, retry_failed: bool) -> None:
        """Say what was found: how many instances need no more work, and what was damaged."""
        failed = self.finished.n_failed
        finished = min(len(self.finished) - (failed if retry_failed else 0), n_expected)
        left_failed = 0 if retry_failed else min(failed, finished)
        events.emit(JobsFound(self.directory.name, finished, left_failed))
        for text in self.journal.report.notices(self.journal.path):
            events.emit(Notice(text))

    def judged(self, judge: str) -> LatestLines:
        """What a further judge has said already."""
        return LatestLines(judgments_path(self.directory, judge), judged_mark)

    def close(self) -> None:
        """Write what is pending and close. Raises StorageFull if the disk refused it."""
        logs: list[Journal | AppendLog] = [self._results, *self._judgments.values()]
        if self._own_journal:
            logs.insert(0, self.journal)
        with ExitStack() as closing:
            for log in logs:
                closing.callback(log.close)

    def _log(self, judge: str) -> AppendLog:
        if judge not in self._judgments:
            path = judgments_path(self.directory, judge)
            try:
                make_folder(self.directory, JUDGMENTS)
                self._judgments[judge] = AppendLog(path, sync=self._sync)
            except OSError as error:
                raise write_error(path, error) from None
        return self._judgments[judge]


def judgments_path(directory: Path, judge: str) -> Path:
    """Where a further judge's verdicts stand."""
    return directory / JUDGMENTS / f"{judge.replace('/', '_').replace(':', '_')}.jsonl"


def results_of(directory: Path) -> str:
    """The name of the results in a directory: a run's, or those of judged candidates."""
    judged = (directory / PER_ITEM).exists() and not (directory / RESULTS).exists()
    return PER_ITEM if judged else RESULTS


@contextmanager
def opened_files(
    directory: Path,
    identity: Mapping[str, Any],
    notes: Mapping[str, Any],
    *,
    prompts: Mapping[str, str],
    results: str = RESULTS,
    sync: bool = False,
    journal: Journal | None = None,
    place: str = "--name",
    also: Also = dict,
) -> Iterator[RunFiles]:
    """Lock the directory, check that it is this run, note a session in the manifest, and open the files.

    `notes` may differ between sessions; of `n_expected` the largest is kept. `place` is the option that chooses
    the directory. Raises UsageError; StorageFull where there is no room.
    """
    with noted(directory, identity, notes, prompts=prompts, place=place, also=also):
        files = RunFiles(directory, results=results, sync=sync, journal=journal)
        try:
            yield files
        finally:
            files.close()


@contextmanager
def noted(
    directory: Path,
    identity: Mapping[str, Any],
    notes: Mapping[str, Any],
    *,
    prompts: Mapping[str, str],
    place: str,
    also: Also = dict,
) -> Iterator[None]:
    """`opened_files` without the files: the lock, the manifest with a note of this command, the prompts."""
    with locked(directory, place=place) as lock:
        check_regular_files(directory)
        check_no_shards(directory)
        check_identity(directory, identity, place=place)
        manifest = read_manifest(directory)
        if manifest is None:
            _check_nothing_is_there(directory, place)
            manifest = {}
        expected = max(int(notes.get("n_expected", 0)), int(manifest.get("n_expected", 0)))
        sessions = manifest.get("sessions", [])
        session: dict[str, Any] = {"start": _stamp(), "end": None, "wall_s": None}
        manifest = {
            "identity": identity,
            **notes,
            "n_expected": expected,
            "version": __version__,
            "sessions": [*sessions, session],
        }
        write_json(directory / MANIFEST, manifest)
        began = time.monotonic()
        try:
            _keep_prompts(directory, prompts)
            yield
        except (RunStopped, asyncio.CancelledError) as reason:
            session["stopped"] = str(reason if isinstance(reason, RunStopped) else interrupted())
            raise
        finally:
            session.update(also(), end=_stamp(), wall_s=round(time.monotonic() - began, 3))
            if lock.holds():
                write_json(directory / MANIFEST, manifest)


def check_regular_files(directory: Path) -> None:
    """Refuse a run in which some file of ours is a symbolic link or no regular file, before anything is done there.

    Opening such a file for writing is refused anyway, but perhaps late. Raises UsageError.
    """
    own = [directory / name for name in _FILES]
    try:
        for name in _FOLDERS:
            with suppress(FileNotFoundError), open_folder(directory / name) as folder:
                own += (directory / name / entry for entry in os.listdir(folder))
        for path in own:
            check_writable(path)
            check_writable(torn_path(path))
    except OSError as error:
        raise write_error(error.filename or directory, error) from None


def check_no_shards(directory: Path) -> None:
    """Refuse a run that a cluster of version 0.7 left with parts of its journal unmerged. Raises UsageError."""
    if any((directory / "shards").glob("*.jsonl*")):
        raise UsageError(
            f"{directory / 'shards'}: steps of an interrupted cluster run that only cts-async==0.7.0 can merge; "
            "resume the run with that version first"
        )


def _check_nothing_is_there(directory: Path, place: str) -> None:
    """Refuse results of which nobody knows what they are of: resuming would take them for this run's own."""
    for name in (RESULTS, PER_ITEM):
        path = directory / name
        if path.exists() and path.stat().st_size:
            raise UsageError(
                f"{directory} holds {name} but no {MANIFEST} that says what it is of: choose another {place}, or move "
                f"{name} and {JUDGMENTS}/ aside: the same command makes them again from what {STEPS} has"
            )


def _keep_prompts(directory: Path, prompts: Mapping[str, str]) -> None:
    """Copy the prompts' text: the journal stores a prompt's name and fields, not its constant text again.

    Raises UsageError, StorageFull.
    """
    if not prompts:
        return
    folder = directory / PROMPTS
    try:
        make_folder(directory, PROMPTS)
        for name, text in prompts.items():
            path, content = folder / f"{name}.txt", text.encode()
            if not (path.exists() and path.read_bytes() == content):
                # What a power cut takes of them the next session writes again.
                replace_file(path, content, sync=False)
    except OSError as error:
        raise write_error(folder, error) from None


def _stamp() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


# --- Further judges' verdicts stand in files by their names, and the manifest says who has such a name.
#
# A model that takes over a name must not go on with its predecessor's file: verdicts of two would be one judge's.


FURTHER: Final = "further_judges"
"""The manifest's field with what determines each further judge's verdicts, by name."""


@contextmanager
def further_files(
    directory: Path,
    judges: Mapping[str, Mapping[str, Any]],
    prices: Mapping[str, Any],
    *,
    embedded: bool,
    sync: bool = False,
) -> Iterator[RunFiles]:
    """Lock a finished run to add judgments to it; its identity stays, the new judges and their prices are noted.

    Raises as `with_judges` and `RunFiles`.
    """
    with locked(directory):
        check_regular_files(directory)
        check_no_shards(directory)
        manifest = read_manifest(directory) or {}
        manifest[FURTHER] = with_judges(directory, manifest, judges)
        manifest["prices"] = {**manifest.get("prices", {}), **prices}
        manifest["embedded"] = bool(manifest.get("embedded")) or embedded
        write_json(directory / MANIFEST, manifest)
        files = RunFiles(directory, sync=sync)
        try:
            yield files
        finally:
            files.close()


def with_judges(
    directory: Path, manifest: Mapping[str, Any], judges: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """What the manifest notes of further judges, with `judges` (what determines their verdicts, by name) among them.

    UsageError where one's file has verdicts that something else determined; what nobody noted is taken as it is.
    """
    noted = dict(manifest.get(FURTHER) or {})
    for name, now in judges.items():
        path, before = judgments_path(directory, name), noted.get(name) or _of_the_run(manifest, name)
        told = list(differences(before, now)) if before else []
        if told and path.exists() and path.stat().st_size:
            raise UsageError(
                f"{path} has verdicts of another {name}: {'; '.join(told)}. "
                "Give the new one another name, or move that file aside to judge anew"
            )
        noted[name] = now
    return noted


def _of_the_run(manifest: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """What determined the verdicts of a judge that the run itself asked; None where it asked none of the name."""
    if manifest.get("embedded"):  # a run calls the embedded model by its file
        return None
    identity = manifest.get("identity") or {}
    model = (identity.get("models") or {}).get(f"judge {name}")
    prompts = {p: text for p, text in (identity.get("prompts") or {}).items() if p.startswith("judge.")}
    return {"model": model, "prompts": prompts} if model else None

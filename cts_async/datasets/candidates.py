"""Candidate answers from files: a release's `results/candidates/*.jsonl`, or our own `results.jsonl`."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cts_async.datasets.io import JSONL_SUFFIXES, Fields, Row, kind_of, read_rows, says_error
from cts_async.errors import InputError
from cts_async.records import Candidate, Failure
from cts_async.tagged_text import find_answer
from cts_async.values import value


@value
class CandidateLine:
    """A candidate and its position. Its `id` or `fused_query` may be "", but not both."""

    path: Path
    line: int
    candidate: Candidate


@dataclass(frozen=True, slots=True)
class FailedLine:
    """A line that reports why there is no answer: nothing to judge, and not a score of 0."""

    path: Path
    line: int
    id: str
    fused_query: str
    failure: Failure


def read_candidates(
    paths: Path | str | Iterable[Path | str], fields: Mapping[str, str] | None = None
) -> Iterator[CandidateLine | FailedLine]:
    """Stream the lines of files, glob patterns and directories, sorted by file name.

    A run directory stands for its `results.jsonl`, a directory of judged candidates for its `per_item.jsonl`, any other
    for its `*.jsonl`. Files are looked up at once (InputError if there are none); InputErrors about a line come when it
    is reached: no answer field, or neither an id nor a fused query. Answers are stripped of tags and thoughts, like the
    agent's (`find_answer`); an empty answer is an answer, a null one a failure.
    """
    return _stream(candidate_files(paths), fields)


def candidate_files(paths: Path | str | Iterable[Path | str]) -> tuple[Path, ...]:
    """Return the files that `read_candidates` reads, each once; InputError for a path or pattern without files."""
    given = [paths] if isinstance(paths, Path | str) else list(paths)
    found = [file for path in given for file in _expand(str(path))]
    if not found:
        raise InputError("candidates", "no file is named")
    distinct: dict[Path, Path] = {}
    for file in found:
        distinct.setdefault(file.resolve(), file)
    return tuple(distinct.values())


def _expand(path: str) -> list[Path]:
    if Path(path).is_dir():
        return _in_directory(Path(path))
    if Path(path).exists() or not glob.has_magic(path):
        return [Path(path)]
    found = [Path(match) for match in sorted(glob.glob(path, recursive=True)) if Path(match).is_file()]
    if not found:
        raise InputError(path, "the pattern matches no file")
    return found


def _in_directory(folder: Path) -> list[Path]:
    for name in ("results.jsonl", "per_item.jsonl"):
        if (folder / name).exists():
            return [folder / name]
    found = sorted(file for suffix in JSONL_SUFFIXES for file in folder.glob(f"*{suffix}"))
    if not found:
        raise InputError(folder, "is a directory without results.jsonl or any other *.jsonl")
    return found


def _stream(files: Iterable[Path], mapping: Mapping[str, str] | None) -> Iterator[CandidateLine | FailedLine]:
    for path in files:
        fields = Fields.of_data(path, mapping, plain_query=True)
        for line, row in read_rows(path):
            yield _plain(fields, row, line) or _candidate(fields, row, line)


def _plain(fields: Fields, row: Row, line: int) -> CandidateLine | None:
    """Return what `_candidate` returns for a line of three texts without an error, three times as fast; else None."""
    names = fields.names(row)
    row_id, query, answer = (
        row.get(names.get("id", "")),
        row.get(names.get("fused_query", "")),
        row.get(names.get("answer", "")),
    )
    if type(row_id) is str and type(query) is str and type(answer) is str and not row.get("error"):
        row_id, query = row_id.strip(), query.strip()
        if row_id and query:
            return CandidateLine(fields.path, line, Candidate(row_id, query, find_answer(answer)[0]))
    return None


def _candidate(fields: Fields, row: Row, line: int) -> CandidateLine | FailedLine:
    row_id = fields.identifier(row, line) or ""
    fused_query = fields.text_or_none(row, "fused_query", line) or ""
    if not row_id and not fused_query:
        raise fields.missing(row, "fused_query", line)
    failure = _failure(row, fields, line)
    if failure is not None:
        return FailedLine(fields.path, line, row_id, fused_query, failure)
    answer = fields.text_or_none(row, "answer", line)
    if answer is None:
        raise fields.missing(row, "answer", line)
    return CandidateLine(fields.path, line, Candidate(row_id, fused_query, find_answer(answer)[0]))


def _failure(row: Row, fields: Fields, line: int) -> Failure | None:
    error = row.get("error")
    if says_error(error):
        return _reported(error)
    if fields.name(row, "answer", line) is not None and fields.value(row, "answer", line) is None:
        return Failure("candidate", "no_answer", "the answer is null")
    return None


def _reported(error: object) -> Failure:
    if isinstance(error, dict):
        step, kind = str(error.get("step") or "candidate"), str(error.get("kind") or "failed")
        return Failure(step, kind, str(error.get("message") or ""))
    return Failure("candidate", "failed", error if isinstance(error, str) else f"error is {kind_of(error)}")

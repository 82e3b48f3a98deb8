"""The page of one instance: its line of the results, the verdicts on it, and the nuggets' texts from the gold."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cts_async.datasets.fields import Fields
from cts_async.datasets.gold import NuggetReader, normalise
from cts_async.datasets.io import CSV_SUFFIXES, read_csv
from cts_async.datasets.kinds.sample import GOLD as SAMPLE_GOLD
from cts_async.datasets.kinds.sample import sample_dir
from cts_async.errors import CTSError
from cts_async.records import language_of
from cts_async.report.added_words import segments
from cts_async.report.viewer.files import (
    Json,
    Stat,
    as_float,
    as_list,
    as_object,
    as_text,
    as_texts,
    is_serializable,
    line_at,
    opened,
    record_in,
    stat_of,
)
from cts_async.report.viewer.guard import NO_INSTANCE, Refused
from cts_async.report.viewer.index import Columns, Lines, id_hash, instance_name
from cts_async.report.viewer.run import Metadata, OpenRun
from cts_async.report.viewer.trace import (
    DAMAGED,
    Traces,
    journal_line,
    journal_lines,
    list_steps,
    n_steps,
    text_of,
)

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

Line: TypeAlias = Mapping[str, Any]

MAX_GOLD_BYTES: Final = 512 << 20
"""Larger files are not read to compare their digest."""
MAX_CSV_BYTES: Final = 16 << 20
"""Rows of a CSV file have no offsets, so they are kept in memory."""
_PIECE: Final = 1 << 20
_USUAL_GOLD: Final = (SAMPLE_GOLD, "gold_public_hard518.jsonl", "data/gold_public_hard518.jsonl")
"""Where datasets keep their gold, relative to their queries."""


class Instances:
    """Everything about single instances, in worker threads. Methods raise Refused."""

    def __init__(self) -> None:
        self._gold = GoldTexts()
        self.traces = Traces()

    def prepare(self, run: OpenRun) -> None:
        """Index the run's gold, and load the Chinese dictionary if its queries need it; both take a while."""
        self._gold.prepare(run.metadata)
        first = run.first()
        if first and language_of(as_text(first.get("rewritten_query")) or "") == "zh":
            segments("词", "词")
        run.prepared = True

    def page(self, run: OpenRun, id: str, beside: Sequence[str]) -> Json:
        """An instance's page; `beside` are the names of other runs over the same data."""
        lines = run.results.lines()
        found = run.find(lines, id)
        if found is None:
            raise Refused(404, NO_INSTANCE)
        row, line = found
        turns = _turns(line)
        blurred = as_text(line.get("blurred_query")) or ""
        # A conversation without an agent ends with a query that would be searched.
        rewritten = as_text(line.get("rewritten_query")) or (turns[-1]["query"] if turns else "") or None
        fused = as_text(line.get("fused_query")) or as_text(line.get("query")) or ""
        verdicts = dict(_verdicts(run, lines, row, line))
        search = line.get("search")
        return {
            "run": run.place.name,
            "id": id,
            "fused_query": fused,
            "blurred_query": blurred,
            "mode": as_text(line.get("mode")) or run.metadata.mode or "at-once",
            "scheme": as_text(line.get("scheme")) or run.metadata.scheme or "cts",
            "turns": turns,
            "rewritten_query": rewritten,
            "rewritten": segments(blurred, rewritten) if rewritten else [],
            "answer": as_text(line.get("answer")),
            "answer_from": as_text(line.get("answer_from")),
            "search": search if isinstance(search, dict) and is_serializable(search) else None,
            "scores": [_score(judge, verdict, run) for judge, verdict in verdicts.items()],
            "nuggets": _nuggets(verdicts, self._gold.of(run.metadata, id, fused)),
            "error": _error(line),
            "previous": _neighbour(run, lines, row - 1),
            "next": _neighbour(run, lines, row + 1),
            "beside": list(beside),
            # None while the journal is being indexed.
            "trace_turns": len(self.traces.events(run, id)) if run.journal_ready else None,
            "steps": n_steps(run, id),
        }

    def steps(self, run: OpenRun, id: str, after: int) -> Json:
        """A page of its steps."""
        return list_steps(run, id, after)

    def step(self, run: OpenRun, at: int) -> bytes:
        """The journal line at an offset."""
        line = journal_line(run, at)
        if record_in(line) is None:
            raise Refused(404, DAMAGED)
        return line

    def text(self, run: OpenRun, at: int, part: str) -> str:
        """One text of the journal line at an offset, whole."""
        record = record_in(journal_line(run, at))
        text = None if record is None else text_of(record, part)
        if text is None:
            raise Refused(404, "this journal line has no such text")
        return text

    def download(self, run: OpenRun, id: str) -> tuple[str, Iterator[bytes]]:
        """A file name, and an instance's journal lines."""
        if run.find(run.results.lines(), id) is None and not n_steps(run, id):
            raise Refused(404, NO_INSTANCE)
        return f"{run.place.name}-{id}", journal_lines(run, id)


def _verdicts(run: OpenRun, lines: Lines, row: int, line: Line) -> Iterator[tuple[str, Line]]:
    """Each judge's verdict on the answer, the scoring judge's first; failed and missing ones are left out."""
    for judge, index in run.judges().items():
        verdict = line if index is run.results else run.verdict(index, lines, row)
        if verdict is not None and verdict.get("error") is None and as_list(verdict.get("nuggets")):
            yield judge, verdict


def _score(judge: str, verdict: Line, run: OpenRun) -> Json:
    score = as_float(verdict.get("restore_score_100"))
    return {"judge": judge, "score": score, "smoke_test": run.metadata.embedded}


def _nuggets(verdicts: Mapping[str, Line], texts: GoldNuggets) -> list[Json]:
    """The nuggets in the order of the first judge who named them; nuggets that only the gold has come last."""
    rows: dict[str, Json] = {}
    for judge, verdict in verdicts.items():
        for nugget in map(as_object, as_list(verdict.get("nuggets"))):
            id, label = as_text(nugget.get("id")), as_text(nugget.get("coverage"))
            if id is None or label is None:
                continue
            if id not in rows:
                weight = as_float(nugget.get("weight")) or 1.0
                rows[id] = _nugget(id, weight, as_text(nugget.get("text")), texts.get(id))
            rows[id]["coverage"][judge] = label
    for id, known in texts.items():
        if id not in rows:
            rows[id] = _nugget(id, known.weight, known.text, known)
    return list(rows.values())


def _nugget(id: str, weight: float, text: str | None, known: GoldNugget | None) -> Json:
    sources = list(known.sources) if known else []
    return {
        "id": id,
        "weight": weight,
        "text": known.text if known else text,
        "sources": sources,
        "coverage": {},
    }


def _turns(line: Line) -> list[Json]:
    """The conversation turn by turn; without turns, each question with its answer."""
    turns = [as_object(turn) for turn in as_list(line.get("turns"))]
    if not turns:
        questions, answers = as_texts(line.get("questions")), as_texts(line.get("answers"))
        turns = [{"offered": [one], "answers": answers[n : n + 1]} for n, one in enumerate(questions)]
    return [_turn(n, turn) for n, turn in enumerate(turns, 1)]


def _turn(n: int, turn: Line) -> Json:
    chosen = turn.get("chosen")
    return {
        "n": n,
        "offered": as_texts(turn.get("offered")),
        "answers": as_texts(turn.get("answers")),
        "chosen": chosen if isinstance(chosen, int) else None,
        "types": as_texts(turn.get("types")),
        "reasoning": as_text(turn.get("reasoning")) or "",
        "query": as_text(turn.get("query")) or "",
    }


def _error(line: Line) -> Json | None:
    error = line.get("error")
    if error is None:
        return None
    known = as_object(error)
    step, kind, message = (as_text(known.get(name)) or "" for name in ("step", "kind", "message"))
    return {"step": step, "kind": kind or "failed", "message": message or (as_text(error) or "")}


def _neighbour(run: OpenRun, lines: Lines, row: int) -> str | None:
    if not 0 <= row < len(lines):
        return None
    line = run.line(run.results, int(lines.offsets[row]))
    return instance_name(line) if line else None


# --- Texts of nuggets


@dataclass(frozen=True, slots=True)
class GoldNugget:
    """A nugget's text and sources: their URLs, else their ids in the gold."""

    text: str
    weight: float
    sources: tuple[str, ...]


GoldNuggets: TypeAlias = Mapping[str, GoldNugget]
"""By nugget id."""


class GoldTexts:
    """The gold files that runs were scored by, by digest; 16 bytes of index a record.

    A manifest is a file of unknown origin and may name any path. So a file is shown only if its sha256 is the one
    that the manifest records, and nothing of it is shown but nuggets.
    """

    def __init__(self) -> None:
        self._files: dict[str, _GoldFile] = {}
        self._digests: dict[Path, tuple[Stat, str]] = {}
        self._lock = threading.Lock()

    def prepare(self, metadata: Metadata) -> None:
        """Find and index a run's gold."""
        self._file(metadata)

    def of(self, metadata: Metadata, id: str, query: str) -> GoldNuggets:
        """The nuggets of an instance; {} if the gold cannot be found or has changed."""
        file = self._file(metadata)
        if file is None:
            return {}
        try:
            return file.nuggets(id, query)
        except (CTSError, OSError, ValueError):
            return {}

    def _file(self, metadata: Metadata) -> _GoldFile | None:
        wanted = metadata.gold_digest
        if len(wanted) != hashlib.sha256().digest_size * 2:
            return None
        with self._lock:
            known = self._files.get(wanted)
            if known is not None and stat_of(known.path) == known.state:
                return known
            for path in _gold_paths(metadata):
                state = stat_of(path)
                if 0 < state.size <= MAX_GOLD_BYTES and self._digest(path, state) == wanted:
                    with suppress(CTSError, OSError, ValueError):
                        file = self._files[wanted] = _GoldFile(path, state, metadata.fields)
                        return file
            return None

    def _digest(self, path: Path, state: Stat) -> str:
        known = self._digests.get(path)
        if known is None or known[0] != state:
            known = self._digests[path] = (state, _sha256(path))
        return known[1]


def _gold_paths(metadata: Metadata) -> Iterator[Path]:
    """Where the manifest says, beside the queries, or in the sample data.

    Links are resolved first: data may lie behind links, and the digest proves that it is the right file.
    """
    for name in metadata.data_files:
        path = Path(os.path.realpath(os.path.expanduser(name.replace("\0", ""))))
        yield path
        yield from (Path(os.path.realpath(path.parent / usual)) for usual in _USUAL_GOLD)
    yield Path(os.path.realpath(sample_dir() / SAMPLE_GOLD))


def _sha256(path: Path) -> str:
    try:
        with opened(path) as fd, os.fdopen(os.dup(fd), "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


class _GoldFile:
    """One file, indexed by hashes of each record's id and query."""

    def __init__(self, path: Path, state: Stat, fields: Mapping[str, str]) -> None:
        self.path, self.state = path, state
        self._fields = Fields.of_gold(path, fields)
        self._rows: list[dict[str, Any]] | None = None
        """All rows of a CSV file, where a place is an index; else None, and a place is an offset."""
        if path.suffix.lower() in CSV_SUFFIXES:
            self._rows = [row for _, row in read_csv(path)] if state.size <= MAX_CSV_BYTES else []
        keys: list[int] = []
        places: list[int] = []
        for place, row in self._records():
            for name in self._names(row):
                keys.append(id_hash(name))
                places.append(place)
        self._index = Columns("int64", "int64")
        self._index.add(keys, places)

    def nuggets(self, id: str, query: str) -> GoldNuggets:
        """The record with this id, unless it has another query, else the record with this query. Raises CTSError."""
        wanted = f"q {normalise(query)}" if query else ""
        for name in filter(None, (f"i {id}", wanted)):
            for row in self._found(name):
                queries = [known for known in self._names(row) if known.startswith("q ")]
                if not wanted or not queries or wanted in queries:
                    urls = _source_urls(row.get("sources"))
                    return {
                        one.id: GoldNugget(
                            one.text, one.weight, tuple(urls.get(at, at) for at in one.source_ids)
                        )
                        for one in NuggetReader(self.path, self._fields).read(row, 1) or ()
                    }
        return {}

    def _found(self, name: str) -> Iterator[dict[str, Any]]:
        keys, places = self._index.all()
        for place in places[keys == id_hash(name)].tolist():
            row = self._record(place)
            if row is not None and name in self._names(row):
                yield row

    def _record(self, place: int) -> dict[str, Any] | None:
        if self._rows is not None:
            return self._rows[place]
        with opened(self.path) as fd:
            return record_in(line_at(fd, place))

    def _records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        if self._rows is not None:
            yield from enumerate(self._rows)
            return
        offset = 0
        with opened(self.path) as fd, os.fdopen(os.dup(fd), "rb", buffering=_PIECE) as file:
            for line in file:
                row = record_in(line)
                if row is not None:
                    yield offset, row
                offset += len(line)

    def _names(self, row: dict[str, Any]) -> list[str]:
        """`i ID` and `q QUERY` of a record."""
        try:
            id = self._fields.identifier(row, 1)
            query = self._fields.text_or_none(row, "fused_query", 1)
        except CTSError:
            return []
        named = [f"i {id}"] if id else []
        return [*named, f"q {normalise(query)}"] if query else named


def _source_urls(sources: Any) -> dict[str, str]:
    """URLs by the ids that a gold record gives its sources."""
    rows = [one for one in as_list(sources) if isinstance(one, dict)]
    return {str(one.get("id")): one["url"] for one in rows if isinstance(one.get("url"), str)}

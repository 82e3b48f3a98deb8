"""The page of one instance: its line of the results, the verdicts on it, and the nuggets' texts out of the gold."""

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
from cts_async.datasets.gold import normalise
from cts_async.datasets.nuggets import NuggetReader
from cts_async.datasets.rows import CSV_SUFFIXES, read_csv
from cts_async.datasets.sample import GOLD as SAMPLE_GOLD
from cts_async.datasets.sample import sample_dir
from cts_async.errors import CTSError
from cts_async.records import Nugget, language_of
from cts_async.report.added_words import segments
from cts_async.report.viewer.api_types import (
    Failed,
    InstancePage,
    JudgeScore,
    NuggetRow,
    StepList,
    TracePage,
    Turn,
)
from cts_async.report.viewer.files import (
    Stat,
    as_float,
    as_list,
    as_object,
    as_text,
    as_texts,
    can_be_shown,
    line_at,
    opened,
    record_in,
    stat_of,
)
from cts_async.report.viewer.guard import NO_INSTANCE, Refused
from cts_async.report.viewer.index import Columns, Lines, id_hash, name_of
from cts_async.report.viewer.run import About, OpenRun
from cts_async.report.viewer.trace import (
    DAMAGED,
    Telling,
    count_steps,
    line_of,
    lines_of,
    list_steps,
    text_at,
)

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

MAX_BYTES: Final = 512 << 20
"""More is not read through for a digest."""
MAX_CSV_BYTES: Final = 16 << 20
"""Records of a table have no offsets: a small one is held."""
_PIECE: Final = 1 << 20
_BESIDE: Final = (SAMPLE_GOLD, "gold_public_hard518.jsonl", "data/gold_public_hard518.jsonl")
"""Where datasets have their gold if nobody names it."""


@dataclass(frozen=True, slots=True)
class GoldText:
    """A nugget's text, and where its sources are: addresses, else their names in the gold."""

    text: str
    weight: float
    sources: tuple[str, ...]


Texts: TypeAlias = Mapping[str, GoldText]


class GoldTexts:
    """The gold files that runs were scored by, by digest; 16 bytes a record."""

    def __init__(self) -> None:
        self._files: dict[str, _GoldFile] = {}
        self._digests: dict[Path, tuple[Stat, str]] = {}
        self._looking = threading.Lock()

    def prepare(self, about: About) -> None:
        """Find and index a run's gold."""
        self._file(about)

    def of(self, about: About, id: str, query: str) -> Texts:
        """The nuggets of an instance by their ids; {} where the gold is not to be found, or is another one by now."""
        file = self._file(about)
        if file is None:
            return {}
        try:
            return file.texts(id, query)
        except (CTSError, OSError, ValueError):
            return {}

    def _file(self, about: About) -> _GoldFile | None:
        wanted = about.gold_digest
        if len(wanted) != hashlib.sha256().digest_size * 2:
            return None
        with self._looking:
            known = self._files.get(wanted)
            if known is not None and stat_of(known.path) == known.state:
                return known
            return self._found(about, wanted)

    def _found(self, about: About, wanted: str) -> _GoldFile | None:
        for path in _candidates(about):
            state = stat_of(path)
            if 0 < state.size <= MAX_BYTES and self._digest(path, state) == wanted:
                with suppress(CTSError, OSError, ValueError):
                    file = self._files[wanted] = _GoldFile(path, state, about.fields)
                    return file
        return None

    def _digest(self, path: Path, state: Stat) -> str:
        known = self._digests.get(path)
        if known is None or known[0] != state:
            known = self._digests[path] = (state, _sha256(path))
        return known[1]


def _candidates(about: About) -> Iterator[Path]:
    """Where the gold may lie: where the manifest says, beside the queries, or in the sample world."""
    for name in about.data_files:
        path = _followed(Path(os.path.expanduser(name.replace("\0", ""))))
        yield path
        yield from (_followed(path.parent / beside) for beside in _BESIDE)
    yield _followed(sample_dir() / SAMPLE_GOLD)


def _followed(path: Path) -> Path:
    """Data may lie behind links: their digest says that they are the right ones."""
    return Path(os.path.realpath(path))


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with opened(path) as fd:
            offset = 0
            while piece := os.pread(fd, _PIECE, offset):
                digest.update(piece)
                offset += len(piece)
    except OSError:
        return ""
    return digest.hexdigest()


class _GoldFile:
    """One file, indexed: the hash of each record's id and of its query, with where it begins."""

    def __init__(self, path: Path, state: Stat, fields: Mapping[str, str]) -> None:
        self.path, self.state = path, state
        self._fields = Fields.of_gold(path, fields)
        self._keys = Columns("int64", "int64")
        self._held: list[dict[str, Any]] = []
        """The rows of a table, and then what stands for an offset is a number of these."""
        self._is_table = path.suffix.lower() in CSV_SUFFIXES
        keys: list[int] = []
        places: list[int] = []
        for place, row in self._rows():
            for key in self._names(row):
                keys.append(id_hash(key))
                places.append(place)
        self._keys.add(keys, places)

    def texts(self, id: str, query: str) -> Texts:
        """By the id where that means this query here, else by the query. Raises CTSError for a record that is none."""
        asked = f"q {normalise(query)}" if query else ""
        for name in filter(None, (f"i {id}", asked)):
            for row in self._found(name):
                queries = [known for known in self._names(row) if known.startswith("q ")]
                if not asked or not queries or asked in queries:
                    return _texts(row, NuggetReader(self.path, self._fields).read(row, 1) or ())
        return {}

    def _found(self, name: str) -> Iterator[dict[str, Any]]:
        keys, places = self._keys.all()
        for place in places[keys == id_hash(name)].tolist():
            row = self._row(place)
            if row is not None and name in self._names(row):
                yield row

    def _row(self, place: int) -> dict[str, Any] | None:
        if self._is_table:
            return self._held[place]
        with opened(self.path) as fd:
            return record_in(line_at(fd, place))

    def _names(self, row: dict[str, Any]) -> list[str]:
        try:
            id = self._fields.identifier(row, 1)
            query = self._fields.text_or_none(row, "fused_query", 1)
        except CTSError:
            return []
        named = [f"i {id}"] if id else []
        return [*named, f"q {normalise(query)}"] if query else named

    def _rows(self) -> Iterator[tuple[int, dict[str, Any]]]:
        if self._is_table:
            if self.state.size <= MAX_CSV_BYTES:
                self._held = [row for _, row in read_csv(self.path)]
            yield from enumerate(self._held)
            return
        offset = 0
        with opened(self.path) as fd, os.fdopen(os.dup(fd), "rb", buffering=_PIECE) as file:
            for line in file:
                row = record_in(line)
                if row is not None:
                    yield offset, row
                offset += len(line)


def _texts(row: Mapping[str, Any], nuggets: tuple[Nugget, ...]) -> Texts:
    urls = _urls(row.get("sources"))
    return {
        nugget.id: GoldText(nugget.text, nugget.weight, tuple(urls.get(id, id) for id in nugget.source_ids))
        for nugget in nuggets
    }


def _urls(sources: Any) -> dict[str, str]:
    """Addresses by the names that a gold's record gives its sources."""
    if not isinstance(sources, list):
        return {}
    rows = [one for one in sources if isinstance(one, dict)]
    return {str(one.get("id")): one["url"] for one in rows if isinstance(one.get("url"), str)}


Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Counts:
    """How many events of a trace and steps an instance has; None while nobody knows."""

    events: int | None
    steps: int | None


def instance_page(
    run: OpenRun, id: str, gold: GoldTexts, counts: Counts, beside: Sequence[str]
) -> InstancePage:
    """Raises Refused where the run has no such instance."""
    lines = run.results.lines()
    found = run.find(lines, id)
    if found is None:
        raise Refused(404, NO_INSTANCE)
    row, line = found
    turns = _turns(line)
    blurred, rewritten = as_text(line.get("blurred_query")), _rewritten(line, turns)
    fused = as_text(line.get("fused_query")) or as_text(line.get("query")) or ""
    verdicts = dict(_verdicts(run, lines, row, line))
    searched = line.get("search")
    return {
        "run": run.place.name,
        "id": id,
        "fused_query": fused,
        "blurred_query": blurred or "",
        "mode": as_text(line.get("mode")) or run.about.mode or "at-once",
        "scheme": as_text(line.get("scheme")) or run.about.scheme or "cts",
        "turns": turns,
        "rewritten_query": rewritten,
        "rewritten": segments(blurred or "", rewritten) if rewritten else [],
        "answer": as_text(line.get("answer")),
        "answer_from": as_text(line.get("answer_from")),
        "search": searched if isinstance(searched, dict) and can_be_shown(searched) else None,
        "scores": [_score(judge, said, run) for judge, said in verdicts.items()],
        "nuggets": _nuggets(verdicts, gold.of(run.about, id, fused)),
        "error": _error(line),
        "previous": _neighbour(run, lines, row - 1),
        "next": _neighbour(run, lines, row + 1),
        "beside": list(beside),
        "trace_turns": counts.events,
        "steps": counts.steps,
    }


def _verdicts(run: OpenRun, lines: Lines, row: int, line: Line) -> Iterator[tuple[str, Line]]:
    """What each judge said of the answer, the scoring one first; none where one has not judged it, or failed."""
    for judge, index in run.judges().items():
        said = line if index is run.results else run.verdict(index, lines, row)
        if said is not None and said.get("error") is None and as_list(said.get("nuggets")):
            yield judge, said


def _score(judge: str, said: Line, run: OpenRun) -> JudgeScore:
    return {
        "judge": judge,
        "score": as_float(said.get("restore_score_100")),
        "smoke_test": run.about.embedded,
    }


def _nuggets(verdicts: Mapping[str, Line], texts: Texts) -> list[NuggetRow]:
    """The nuggets in the order of the gold, or of the first judge who named them."""
    rows: dict[str, NuggetRow] = {}
    for judge, said in verdicts.items():
        for nugget in map(as_object, as_list(said.get("nuggets"))):
            id, label = as_text(nugget.get("id")), as_text(nugget.get("coverage"))
            if id is None or label is None:
                continue
            known = texts.get(id)
            row = rows.setdefault(
                id,
                {
                    "id": id,
                    "weight": as_float(nugget.get("weight")) or 1.0,
                    "text": known.text if known else as_text(nugget.get("text")),
                    "sources": list(known.sources) if known else [],
                    "coverage": {},
                },
            )
            row["coverage"][judge] = label
    for id, known in texts.items():
        rows.setdefault(id, _unjudged(id, known.text, known.sources, known.weight))
    return list(rows.values())


def _unjudged(id: str, text: str, sources: Sequence[str], weight: float) -> NuggetRow:
    return {"id": id, "weight": weight, "text": text, "sources": list(sources), "coverage": {}}


def _rewritten(line: Line, turns: Sequence[Turn]) -> str | None:
    """The query that was searched, or would be: a conversation alone ends with one."""
    last = turns[-1]["query"] if turns else ""
    return as_text(line.get("rewritten_query")) or last or None


def _turns(line: Line) -> list[Turn]:
    """The conversation: its turns where there were some, else each question with its answer."""
    turns = [as_object(turn) for turn in as_list(line.get("turns"))]
    if turns:
        return [_turn(n, turn) for n, turn in enumerate(turns, 1)]
    questions, answers = as_texts(line.get("questions")), as_texts(line.get("answers"))
    return [
        _turn(n, {"offered": [question], "answers": answers[n - 1 : n]})
        for n, question in enumerate(questions, 1)
    ]


def _turn(n: int, turn: Line) -> Turn:
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


def _error(line: Line) -> Failed | None:
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
    return name_of(line) if line else None


class Inside:
    """Everything about instances, in worker threads. Methods raise Refused."""

    def __init__(self) -> None:
        self._gold = GoldTexts()
        self._telling = Telling()

    def prepare(self, run: OpenRun) -> None:
        """Have its gold and its language's words before somebody asks for an instance: they take a while."""
        self._gold.prepare(run.about)
        first = run.first()
        if first and language_of(as_text(first.get("rewritten_query")) or "") == "zh":
            segments("词", "词")
        run.prepared = True

    def instance(self, run: OpenRun, id: str, beside: Sequence[str]) -> InstancePage:
        """The instance, whole."""
        events = len(self._telling.events(run, id)) if run.journal_ready else None
        return instance_page(run, id, self._gold, Counts(events, count_steps(run, id)), beside)

    def trace(self, run: OpenRun, id: str, after: int) -> TracePage:
        """A page of its search."""
        return self._telling.trace(run, id, after)

    def steps(self, run: OpenRun, id: str, after: int) -> StepList:
        """A page of its steps."""
        return list_steps(run, id, after)

    def step(self, run: OpenRun, at: int) -> bytes:
        """A line of the journal."""
        line = line_of(run, at)
        if record_in(line) is None:
            raise Refused(404, DAMAGED)
        return line

    def text(self, run: OpenRun, at: int, part: str) -> str:
        """A long text, whole."""
        return text_at(run, at, part)

    def download(self, run: OpenRun, id: str) -> tuple[str, Iterator[bytes]]:
        """A name for a file, and the lines of an instance."""
        if run.find(run.results.lines(), id) is None and not count_steps(run, id):
            raise Refused(404, NO_INSTANCE)
        return f"{run.place.name}-{id}", lines_of(run, id)

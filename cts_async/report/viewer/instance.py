"""The page of one instance: its line of the results, the verdicts on it, the nuggets' texts from the gold, where points
were lost, and what was done before a failure."""

from __future__ import annotations

import csv
import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from cts_async.analysis.losses import Document, GoldNugget, Label, NuggetLoss, QueryForms, nugget_losses
from cts_async.analysis.stability import segments
from cts_async.datasets.gold import NuggetReader, normalise
from cts_async.datasets.io import CSV_SUFFIXES, Fields
from cts_async.datasets.kinds.sample import CORPUS as SAMPLE_CORPUS
from cts_async.datasets.kinds.sample import GOLD as SAMPLE_GOLD
from cts_async.datasets.kinds.sample import sample_dir
from cts_async.errors import CTSError
from cts_async.llm.parsing import Choice, Clarified, OneLine, QuestionList, ShortPhrase
from cts_async.protocol.conversation import QUERIES_OFFERED, form_of
from cts_async.protocol.judge import terms_of
from cts_async.protocol.results import about_same, failed, judged_fingerprint
from cts_async.records import COVERAGES, MODES, SCHEMES, Mode, Scheme, language_of
from cts_async.report.untrusted import as_float, as_list, as_object, as_text, as_texts, nuggets_of, turns_of
from cts_async.report.viewer.index import (
    NO_INSTANCE,
    Json,
    Refused,
    ResultLines,
    Stat,
    instance_name,
    is_serializable,
    opened,
    record_in,
    stat_of,
)
from cts_async.report.viewer.run import Metadata, OpenRun
from cts_async.report.viewer.trace import (
    Event,
    instance_records,
    journal_bytes,
    n_steps,
    search_events,
    whole_events,
)
from cts_async.search.backends.corpus import is_address
from cts_async.search.tools import read_hits

Line: TypeAlias = Mapping[str, Any]
T = TypeVar("T")

MAX_TRACE_BYTES: Final = 4_000_000
"""Of an instance in the journal, three times that of 20 long pages. Words of 20 MB take 4 s, before a page is shown."""
MAX_GOLD_BYTES: Final = 16 << 20
"""The gold is kept in memory; texts of nuggets from larger files are not shown."""
MAX_GOLD_FILES: Final = 4
MAX_CORPUS_BYTES: Final = 512 << 20
"""The addresses of a gold's sources are looked for in documents of up to this size: 1 to 2 s, once for a gold."""
_USUAL_GOLD: Final = (SAMPLE_GOLD, "gold_public_hard518.jsonl", "data/gold_public_hard518.jsonl")
"""Where datasets keep their gold, relative to their queries."""


def prepare(run: OpenRun, gold: GoldTexts) -> None:
    """Read the run's gold, and load the Chinese dictionary if its queries need it; both take a while."""
    gold.records(run.metadata)
    first = run.first()
    if first and language_of(as_text(first.get("rewritten_query")) or "") == "zh":
        segments("词", "词")
    run.prepared = True


def instance_page(run: OpenRun, id: str, gold: GoldTexts, beside: Sequence[str]) -> Json:
    """An instance's page; `beside` are the names of other runs over the same data. Raises Refused."""
    lines = run.results.lines()
    found = run.find(lines, id)
    if found is None:
        raise Refused(404, NO_INSTANCE)
    row, line = found
    if line.get("error") is not None:
        line = {**done_before(run, id), **line}
    turns = turns_of(line)
    blurred = as_text(line.get("blurred_query")) or ""
    # A conversation without an agent ends with a query that would be searched.
    rewritten = as_text(line.get("rewritten_query")) or (turns[-1]["query"] if turns else "") or None
    fused = as_text(line.get("fused_query")) or as_text(line.get("query")) or ""
    verdicts = dict(_verdicts(run, lines, row, line))
    texts = gold.of(run.metadata, id, fused)
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
        "scores": [
            {"judge": judge, "score": as_float(verdict.get("restore_score_100"))}
            for judge, verdict in verdicts.items()
        ],
        "nuggets": _nuggets(verdicts, texts, _losses(run, line, verdicts, texts)),
        "unasked": _unasked(_queries_of(line)),
        "error": _error(line),
        "judge_errors": list(_judge_errors(run, lines, row)),
        "previous": _neighbour(run, lines, row - 1),
        "next": _neighbour(run, lines, row + 1),
        "beside": list(beside),
        "caveat": run.metadata.caveat,
        # None while the journal is being indexed.
        "trace_turns": len(search_events(run, id)) if run.journal_ready else None,
        "steps": n_steps(run, id),
    }


def _verdicts(run: OpenRun, lines: ResultLines, row: int, line: Line) -> Iterator[tuple[str, Line]]:
    """Each judge's verdict on the answer, the scoring judge's first; failed, missing and other ones are left out."""
    answer = judged_fingerprint(line)
    for judge, index in run.judges().items():
        verdict = line if index is run.results else run.verdict(index, lines, row)
        if verdict is None or failed(verdict) or not as_list(verdict.get("nuggets")):
            continue
        if about_same(judged_fingerprint(verdict), answer):
            yield judge, verdict


def _judge_errors(run: OpenRun, lines: ResultLines, row: int) -> Iterator[Json]:
    """Why further judges failed to label the answer; a failure of the scoring judge is the page's `error`."""
    for judge, index in run.judges().items():
        verdict = None if index is run.results else run.verdict(index, lines, row)
        if verdict is not None and (error := _error(verdict)):
            yield {"judge": judge, **error}


def _losses(
    run: OpenRun, line: Line, verdicts: Mapping[str, Line], texts: GoldNuggets
) -> dict[str, NuggetLoss]:
    """What each nugget lost by the first judge, and where; {} while the journal is being indexed."""
    verdict = next(iter(verdicts.values()), None)
    if verdict is None or not run.journal_ready:
        return {}
    return {one.id: one for one in instance_losses(run, line, verdict, texts)}


def _nuggets(
    verdicts: Mapping[str, Line], texts: GoldNuggets, losses: Mapping[str, NuggetLoss]
) -> list[Json]:
    """The nuggets with texts and sources of the gold; those that only the gold has come last."""
    rows = {row["id"]: {**row, "loss": _loss(losses.get(row["id"]))} for row in nuggets_of(verdicts)}
    for id, known in texts.items():
        row = rows.setdefault(id, {"id": id, "weight": known.weight, "coverage": {}, "loss": None})
        row |= {"text": known.text, "sources": list(known.sources)}
    return [{"sources": [], **row} for row in rows.values()]


def _loss(loss: NuggetLoss | None) -> Json | None:
    if loss is None:
        return None
    at = loss.document
    shown = at and {"url": at.url, "title": at.title, "kind": at.kind, "event": at.event, "rank": at.rank}
    return {"points": loss.points, "stage": loss.stage, "document": shown}


def _error(line: Line) -> Json | None:
    error = line.get("error")
    if error is None:
        return None
    known = as_object(error)
    step, kind, message = (as_text(known.get(name)) or "" for name in ("step", "kind", "message"))
    return {"step": step, "kind": kind or "failed", "message": message or (as_text(error) or "")}


def _neighbour(run: OpenRun, lines: ResultLines, row: int) -> str | None:
    if not 0 <= row < len(lines):
        return None
    line = run.line(run.results, int(lines.offsets[row]))
    return instance_name(line) if line else None


# --- Texts of nuggets


GoldNuggets: TypeAlias = Mapping[str, GoldNugget]
"""By nugget id."""


@dataclass(frozen=True, slots=True)
class _GoldRecord:
    query: str
    """Normalised; "" if there is none."""
    nuggets: GoldNuggets


class GoldTexts:
    """The gold files that runs were scored by, by digest.

    A manifest is a file of unknown origin and may name any path. So a file is shown only if its sha256 is the one
    that the manifest records, and nothing of it is shown but nuggets.
    """

    def __init__(self) -> None:
        self._files: OrderedDict[tuple[str, str], Mapping[str, _GoldRecord]] = OrderedDict()
        """By the digests of the gold and of the documents that its sources are in."""
        self._others: dict[tuple[Path, str], Stat] = {}
        """Files that turned out not to have a digest."""
        self._lock = threading.Lock()

    def of(self, metadata: Metadata, id: str, query: str) -> GoldNuggets:
        """The nuggets of an instance; {} if the gold cannot be found or has changed.

        The record with this id counts, unless it has another query, else the record with this query.
        """
        records, wanted = self.records(metadata), normalise(query)
        for record in (records.get(f"i {id}"), records.get(f"q {wanted}")):
            if record and (not wanted or record.query in ("", wanted)):
                return record.nuggets
        return {}

    def records(self, metadata: Metadata) -> Mapping[str, _GoldRecord]:
        """A run's gold by id ("i ID") and by query ("q QUERY"), found and read at the first call."""
        digest = metadata.gold_digest
        key = digest, metadata.corpus_sha256
        with self._lock:
            if key not in self._files:
                for path in _gold_paths(metadata):
                    if (data := self._file(path, digest)) is not None:
                        records = _gold_records(path, data, metadata.fields)
                        self._files[key] = _with_addresses(records, metadata)
                        break
            while len(self._files) > MAX_GOLD_FILES:
                self._files.popitem(last=False)
            return self._files.get(key, {})

    def _file(self, path: Path, digest: str) -> bytes | None:
        """The contents of a file with this digest; None for any other file, which is read only once."""
        state = stat_of(path)
        if not 0 < state.size <= MAX_GOLD_BYTES or self._others.get((path, digest)) == state:
            return None
        with suppress(OSError), opened(path) as fd, open(fd, "rb", closefd=False) as file:
            data = file.read(MAX_GOLD_BYTES)
            if hashlib.sha256(data).hexdigest() == digest:
                return data
            self._others[path, digest] = state
        return None


def _gold_paths(metadata: Metadata) -> Iterator[Path]:
    """Where the manifest says, beside the queries, or in the sample data.

    Links are resolved first: data may lie behind links, and the digest proves that it is the right file.
    """
    for name in metadata.data_files:
        path = Path(os.path.realpath(os.path.expanduser(name.replace("\0", ""))))
        yield path
        yield from (Path(os.path.realpath(path.parent / usual)) for usual in _USUAL_GOLD)
    yield Path(os.path.realpath(sample_dir() / SAMPLE_GOLD))


def _gold_records(path: Path, data: bytes, fields: Mapping[str, str]) -> Mapping[str, _GoldRecord]:
    """The records of a gold file; damaged ones are left out."""
    finder = Fields.of_gold(path, fields)
    rows: Iterable[dict[str, Any] | None] = map(record_in, data.splitlines())
    if path.suffix.lower() in CSV_SUFFIXES:
        rows = csv.DictReader(data.decode("utf-8-sig", "replace").splitlines(keepends=True))
    found: dict[str, _GoldRecord] = {}
    for row in rows:
        with suppress(CTSError, ValueError):
            id, query = finder.identifier(row or {}, 1), finder.text_or_none(row or {}, "fused_query", 1)
            nuggets = NuggetReader(path, finder).read(row or {}, 1) or ()
            urls = _source_urls((row or {}).get("sources"))
            references = _references(finder.value(row or {}, "gold", 1))
            record = _GoldRecord(
                normalise(query or ""),
                {
                    one.id: GoldNugget(
                        one.text, one.weight, tuple(urls.get(at, at) for at in one.source_ids), references
                    )
                    for one in nuggets
                },
            )
            for name in filter(None, (id and f"i {id}", query and f"q {record.query}")):
                found.setdefault(name, record)
    return found


def _with_addresses(records: Mapping[str, _GoldRecord], metadata: Metadata) -> Mapping[str, _GoldRecord]:
    """Replace sources that are ids of documents, as data/README.md has them, by the addresses of these documents.

    One that no document has keeps its id, unless its intent's gold has one source and one reference: then that is it.
    """
    ids = {
        source
        for record in records.values()
        for nugget in record.nuggets.values()
        for source in nugget.sources
        if not is_address(source)
    }
    urls = _document_urls(metadata, ids) if ids else {}
    return {name: _placed(record, urls) for name, record in records.items()}


def _placed(record: _GoldRecord, urls: Mapping[str, str]) -> _GoldRecord:
    sources = {source for nugget in record.nuggets.values() for source in nugget.sources}
    references = {url for nugget in record.nuggets.values() for url in nugget.references}
    if len(sources) == len(references) == 1:
        urls = {**dict.fromkeys(sources, next(iter(references))), **urls}
    nuggets = {}
    for id, nugget in record.nuggets.items():
        addresses = tuple(
            source if is_address(source) else urls.get(source, source) for source in nugget.sources
        )
        nuggets[id] = replace(nugget, sources=addresses)
    return _GoldRecord(record.query, nuggets)


def _document_urls(metadata: Metadata, ids: Collection[str]) -> dict[str, str]:
    """The addresses of those documents that a run searched, by id; {} if they cannot be found or have changed.

    As with the gold, the digest in the manifest proves that a file is the right one.
    """
    named = os.path.expanduser(metadata.corpus_file.replace("\0", ""))
    for name in (named, str(sample_dir() / SAMPLE_CORPUS)):
        path = Path(os.path.realpath(name))
        if metadata.corpus_sha256 and 0 < stat_of(path).size <= MAX_CORPUS_BYTES:
            with suppress(OSError), opened(path) as fd, open(fd, "rb", closefd=False) as file:
                digest, urls = hashlib.sha256(), dict[str, str]()
                for line in file:
                    digest.update(line)
                    document = record_in(line) or {}
                    id, url = document.get("id"), document.get("url")
                    # Anybody's file, until its digest is known: an id may be a list, which no set can hold.
                    if isinstance(id, str) and isinstance(url, str) and id in ids:
                        urls[id] = url
                if digest.hexdigest() == metadata.corpus_sha256:
                    return urls
    return {}


def _source_urls(sources: Any) -> dict[str, str]:
    """URLs by the ids that a gold record gives its sources."""
    rows = [one for one in as_list(sources) if isinstance(one, dict)]
    return {str(one.get("id")): one["url"] for one in rows if isinstance(one.get("url"), str)}


def _references(gold: Any) -> tuple[str, ...]:
    """The URLs that a gold record gives for its intent as a whole; `gold` may be JSON in a text."""
    record = record_in(gold.encode(errors="replace")) if isinstance(gold, str) else gold
    return tuple(as_texts(as_object(record).get("reference_urls")))


# --- Where points were lost


def instance_losses(
    run: OpenRun, line: Mapping[str, Any], verdict: Mapping[str, Any], gold: Mapping[str, GoldNugget]
) -> tuple[NuggetLoss, ...]:
    """Attribute what the answer in `line`, a line of results, lost by `verdict`, a judge's line on it."""
    labels = [
        Label(row["id"], row["weight"], row["coverage"]["judge"])
        for row in nuggets_of({"judge": verdict})
        if row["coverage"]["judge"] in COVERAGES
    ]
    if not labels:
        return ()
    return nugget_losses(labels, gold, documents_of(run, str(line.get("id"))), _queries_of(line))


def _queries_of(line: Line) -> QueryForms:
    fused, blurred, rewritten = (
        as_text(line.get(f"{name}_query")) or "" for name in ("fused", "blurred", "rewritten")
    )
    return QueryForms(fused, blurred, rewritten)


def _unasked(queries: QueryForms) -> list[str]:
    """The passages of q* whose words neither q nor the searched query has, in the words of q*; [] without a search."""
    if not queries.searched or not queries.unasked:
        return []
    passages = segments(f"{queries.blurred}\n{queries.searched}", queries.fused)
    return [
        passage["text"].strip()
        for passage in passages
        if passage["added"] and queries.unasked & terms_of(passage["text"]).content
    ]


def documents_of(run: OpenRun, id: str) -> list[Document] | None:
    """The search results and pages of an instance, in order; None without any, and for more than `MAX_TRACE_BYTES`.

    What a custom agent fetched, or reports as its sources, counts as read by it.
    """
    if journal_bytes(run, id) > MAX_TRACE_BYTES:
        return None
    events = whole_events(run, id)
    if not any(event.kind in ("search", "visit", "page", "source") for event in events):
        return None
    found: list[Document] = []
    fetched: dict[str, str] = {}
    """Pages of which the agent reads only what was extracted for its goal."""
    extracts = any(event.kind == "visit" for event in events)
    for n, event in enumerate(events, 1):
        url, _, about = event.request.partition("\n")
        if event.kind == "search":
            found += _results(event, n)
        elif event.kind == "page" and extracts:
            fetched[url] = event.whole_text()
        elif event.kind in ("page", "visit") and event.step:
            title = as_text(as_object(event.step.record.get("response")).get("title")) or ""
            found.append(Document(url, title, event.whole_text(), "page", n, unread=fetched.get(url, "")))
        elif event.kind == "source":
            found.append(Document(url, about, event.text, "page", n))
    return found


def _results(event: Event, n: int) -> list[Document]:
    with suppress(CTSError):
        hits = read_hits(event.step.record.get("response")) if event.step else ()
        return [
            Document(hit.url, hit.title, hit.snippet, "snippet", n, rank) for rank, hit in enumerate(hits, 1)
        ]
    return []


# --- What was done before a failure


def done_before(run: OpenRun, id: str) -> dict[str, Any]:
    """The fields that a line of results would have, as far as successful steps of the journal give them."""
    found = _Replies(instance_records(run, id))
    scheme: Scheme = next((one for one in SCHEMES if one == run.metadata.scheme), "cts")
    mode: Mode = next((one for one in MODES if one == run.metadata.mode), "at-once")
    events = search_events(run, id)
    line = {
        "turns": list(
            _at_once(found, scheme, run.metadata.k or 0) if mode == "at-once" else _turns(found, scheme, mode)
        ),
        "rewritten_query": found.parsed("rewrite", OneLine().parse),
        "answer": events[-1].text if events and events[-1].kind == "answer" else None,
    }
    return {name: value for name, value in line.items() if value}


class _Replies:
    """The replies of successful steps by name, the latest of each."""

    def __init__(self, records: Iterator[Mapping[str, Any]]) -> None:
        self._texts = {
            as_text(one.get("step")) or "": as_text(as_object(one.get("response")).get("text")) or ""
            for one in records
            if one.get("ok") is True
        }

    def parsed(self, step: str, parse: Callable[[str], T]) -> T | None:
        """A reply read by its form; None if there is none, or none of that form."""
        with suppress(CTSError, ValueError):
            return parse(self._texts[step]) if step in self._texts else None
        return None

    def answers(self, turn: int) -> list[str]:
        """The user's answer at a turn, or to a question, from 1; [] without one."""
        answer = self.parsed(f"answer/{turn}", ShortPhrase().parse)
        return [answer.text] if answer else []


def _at_once(found: _Replies, scheme: Scheme, k: int) -> Iterator[dict[str, Any]]:
    """Each question with its answer."""
    questions = found.parsed("clarify", QuestionList(k).parse) or ()
    offer = found.parsed("clarify/1", form_of(scheme, "at-once", k).parse)
    for n, question in enumerate(offer.offered if offer else questions, 1):
        yield {"offered": [question], "answers": found.answers(n)}


def _turns(found: _Replies, scheme: Scheme, mode: Mode) -> Iterator[dict[str, Any]]:
    """The turns of a conversation, up to the first without an offer."""
    form = form_of(scheme, mode, QUERIES_OFFERED if mode == "select" else 1)
    for turn in count(1):
        offer: Clarified | None = found.parsed(f"clarify/{turn}", form.parse)
        if offer is None:
            return
        chosen = found.parsed(f"select/{turn}", Choice(offer.offered).parse) if mode == "select" else None
        query = found.parsed(f"reformulate/{turn}", OneLine().parse)
        yield {
            "offered": list(offer.offered),
            "types": list(offer.types),
            "reasoning": offer.reasoning,
            "answers": found.answers(turn),
            "chosen": chosen,
            "query": query if chosen is None else offer.offered[chosen],
        }

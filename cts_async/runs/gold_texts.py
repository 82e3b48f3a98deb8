"""Texts and sources of the nuggets that a run was scored by, from its gold, proven by the digest in the manifest."""

from __future__ import annotations

import csv
import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from cts_async.datasets.gold import NuggetReader, normalise
from cts_async.datasets.io import CSV_SUFFIXES, Fields
from cts_async.datasets.kinds import find_kind
from cts_async.datasets.kinds.sample import CORPUS as SAMPLE_CORPUS
from cts_async.datasets.kinds.sample import GOLD as SAMPLE_GOLD
from cts_async.datasets.kinds.sample import sample_dir
from cts_async.errors import CTSError
from cts_async.foreign_json import as_list, as_object, as_texts
from cts_async.runs.index import Stat, opened, record_in, stat_of
from cts_async.runs.manifest import Manifest
from cts_async.search.backends.corpus import is_address


@dataclass(frozen=True, slots=True)
class GoldNugget:
    """A nugget's text and sources: their URLs, else their ids in the gold."""

    text: str
    weight: float
    sources: tuple[str, ...]
    references: tuple[str, ...] = ()
    """The URLs that its intent's gold gives for all its nuggets together."""

    @property
    def placed(self) -> bool:
        """False if the gold names sources, and none of them by an address."""
        return not self.sources or any(is_address(source) for source in self.sources)


MAX_GOLD_BYTES: Final = 16 << 20
"""The gold is kept in memory; texts of nuggets from larger files are not shown."""


MAX_GOLD_FILES: Final = 4


MAX_CORPUS_BYTES: Final = 512 << 20
"""The addresses of a gold's sources are looked for in documents of up to this size: 1 to 2 s, once for a gold."""


_USUAL_GOLD: Final = (SAMPLE_GOLD, "gold_public_hard518.jsonl", "data/gold_public_hard518.jsonl")
"""Where datasets keep their gold, relative to their queries."""


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

    def nuggets(self, manifest: Manifest, id: str, query: str) -> GoldNuggets:
        """The nuggets of an instance; {} if the gold cannot be found or has changed.

        The record with this id counts, unless it has another query, else the record with this query.
        """
        records, query = self.records(manifest), normalise(query)
        for record in (records.get(f"i {id}"), records.get(f"q {query}")):
            # Two datasets may number their instances alike. Without a query the id alone has to do.
            if record is not None and (not query or record.query in ("", query)):
                return record.nuggets
        return {}

    def records(self, manifest: Manifest) -> Mapping[str, _GoldRecord]:
        """A run's gold by id ("i ID") and by query ("q QUERY"), found and read at the first call."""
        digest = manifest.gold_digest
        key = digest, manifest.identity.corpus_sha256
        # Held while a file is read: pages that are requested at the same time would each read it.
        with self._lock:
            if key not in self._files:
                for path in _gold_paths(manifest):
                    data = self._file(path, digest)
                    if data is not None:
                        records = _own_gold(path, manifest) or _gold_records(path, data, manifest.data.fields)
                        self._files[key] = _with_addresses(records, manifest)
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


def _gold_paths(manifest: Manifest) -> Iterator[Path]:
    """Where the manifest says, beside the queries, or in the sample data.

    Links are resolved first: data may lie behind links, and the digest proves that it is the right file.
    """
    for name in manifest.data_files:
        # A manifest may hold any text, and no function of `os.path` takes a NUL.
        path = Path(os.path.realpath(os.path.expanduser(name.replace("\0", ""))))
        yield path
        for usual_name in _USUAL_GOLD:
            yield Path(os.path.realpath(path.parent / usual_name))
    yield Path(os.path.realpath(sample_dir() / SAMPLE_GOLD))


def _own_gold(path: Path, manifest: Manifest) -> Mapping[str, _GoldRecord]:
    """The nuggets of a dataset whose main file has them in a form of its own; {} for any other, and a damaged one."""
    records: dict[str, _GoldRecord] = {}
    with suppress(CTSError):
        kind = find_kind(manifest.data.spec.partition(":")[0])
        if kind is None or kind.read_own_gold is None:
            return {}
        for instance in kind.read_own_gold(path):
            nuggets: dict[str, GoldNugget] = {}
            for nugget in instance.nuggets:
                nuggets[nugget.id] = GoldNugget(nugget.text, nugget.weight, nugget.source_ids)
            record = _GoldRecord(normalise(instance.intent), nuggets)
            records[f"i {instance.id}"] = records[f"q {record.query}"] = record
    return records


def _gold_records(path: Path, data: bytes, fields: Mapping[str, str]) -> Mapping[str, _GoldRecord]:
    """The records of a gold file; damaged ones are left out."""
    finder = Fields.of_gold(path, fields)
    rows: Iterable[dict[str, Any] | None] = map(record_in, data.splitlines())
    if path.suffix.lower() in CSV_SUFFIXES:
        rows = csv.DictReader(data.decode("utf-8-sig", "replace").splitlines(keepends=True))
    records: dict[str, _GoldRecord] = {}
    for row in rows:
        # A line that is no record counts as one without fields, which has no nuggets.
        fields_of_row = row or {}
        with suppress(CTSError, ValueError):
            id = finder.identifier(fields_of_row, 1)
            query = finder.text_or_none(fields_of_row, "fused_query", 1)
            record = _GoldRecord(normalise(query or ""), _nuggets_in(fields_of_row, path, finder))
            if id:
                records.setdefault(f"i {id}", record)
            if query:
                records.setdefault(f"q {record.query}", record)
    return records


def _nuggets_in(row: dict[str, Any], path: Path, finder: Fields) -> GoldNuggets:
    """The nuggets of a gold record. Raises CTSError or ValueError for a damaged one."""
    urls = _source_urls(row.get("sources"))
    references = _references(finder.value(row, "gold", 1))
    nuggets: dict[str, GoldNugget] = {}
    for nugget in NuggetReader(path, finder).read(row, 1) or ():
        sources = tuple(urls.get(source_id, source_id) for source_id in nugget.source_ids)
        nuggets[nugget.id] = GoldNugget(nugget.text, nugget.weight, sources, references)
    return nuggets


def _with_addresses(records: Mapping[str, _GoldRecord], manifest: Manifest) -> Mapping[str, _GoldRecord]:
    """Replace sources that are ids of documents, as data/README.md has them, by the addresses of these documents.

    One that no document has keeps its id, unless its intent's gold has one source and one reference: then that is it.
    """
    document_ids: set[str] = set()
    for record in records.values():
        for nugget in record.nuggets.values():
            document_ids.update(source for source in nugget.sources if not is_address(source))
    urls: dict[str, str] = {}
    # A corpus takes seconds to read.
    if document_ids:
        urls = _document_urls(manifest, document_ids)
    return {name: _placed(record, urls) for name, record in records.items()}


def _placed(record: _GoldRecord, urls: Mapping[str, str]) -> _GoldRecord:
    """Replace the record's sources by the addresses that `urls` has for them."""
    sources: set[str] = set()
    references: set[str] = set()
    for nugget in record.nuggets.values():
        sources.update(nugget.sources)
        references.update(nugget.references)
    if len(sources) == len(references) == 1:
        # Gold that lists one address for the whole intent means its one document, under whatever id.
        urls = dict(zip(sources, references, strict=True)) | dict(urls)
    nuggets: dict[str, GoldNugget] = {}
    for id, nugget in record.nuggets.items():
        addresses: list[str] = []
        for source in nugget.sources:
            if not is_address(source):
                source = urls.get(source, source)
            addresses.append(source)
        nuggets[id] = replace(nugget, sources=tuple(addresses))
    return _GoldRecord(record.query, nuggets)


def _document_urls(manifest: Manifest, ids: Collection[str]) -> dict[str, str]:
    """The addresses of those documents that a run searched, by id; {} if they cannot be found or have changed.

    As with the gold, the digest in the manifest proves that a file is the right one.
    """
    if not manifest.identity.corpus_sha256:
        return {}
    named_corpus = os.path.expanduser(manifest.data.corpus.replace("\0", ""))
    for name in (named_corpus, str(sample_dir() / SAMPLE_CORPUS)):
        path = Path(os.path.realpath(name))
        if 0 < stat_of(path).size <= MAX_CORPUS_BYTES:
            with suppress(OSError), opened(path) as fd, open(fd, "rb", closefd=False) as file:
                digest, urls = hashlib.sha256(), dict[str, str]()
                for line in file:
                    digest.update(line)
                    document = record_in(line) or {}
                    id, url = document.get("id"), document.get("url")
                    # Anybody's file, until its digest is known: an id may be a list, which no set can hold.
                    if isinstance(id, str) and isinstance(url, str) and id in ids:
                        urls[id] = url
                if digest.hexdigest() == manifest.identity.corpus_sha256:
                    return urls
    return {}


def _source_urls(sources: Any) -> dict[str, str]:
    """URLs by the ids that a gold record gives its sources."""
    urls: dict[str, str] = {}
    for source in as_list(sources):
        if isinstance(source, dict) and isinstance(source.get("url"), str):
            urls[str(source.get("id"))] = source["url"]
    return urls


def _references(gold: Any) -> tuple[str, ...]:
    """The URLs that a gold record gives for its intent as a whole."""
    record = gold
    # In a CSV file the field is JSON in a text.
    if isinstance(gold, str):
        record = record_in(gold.encode(errors="replace"))
    return tuple(as_texts(as_object(record).get("reference_urls")))

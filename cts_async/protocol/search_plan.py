"""Where a run's searches and visits go: chosen and checked before anything starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cts_async.config import RunConfig
from cts_async.datasets import sha256_of
from cts_async.engine.run_dir import read_manifest
from cts_async.errors import UsageError
from cts_async.protocol.run_files import STEPS
from cts_async.search.backends.addresses import AllowList
from cts_async.search.backends.base import EngineSpec, ReaderSpec
from cts_async.search.catalog import SearchCatalogue

CORPUS = "corpus"


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """A search engine, a page reader, and the runs whose journals take their place, if any.

    `corpus` are the documents to search or to visit, None where neither is done.
    """

    engine: EngineSpec
    reader: ReaderSpec
    corpus: Path | None = None
    corpus_sha256: str | None = None
    replayed: tuple[Path, ...] = ()
    replayed_sha256: tuple[str, ...] = ()

    @property
    def web(self) -> bool:
        """Whether pages come from elsewhere than a file on this machine."""
        return self.reader.kind != CORPUS

    @property
    def opened(self) -> list[EngineSpec | ReaderSpec]:
        """What is really asked, over a network: nothing that is replayed, and no documents."""
        specs: list[EngineSpec | ReaderSpec] = [self.engine, self.reader]
        return [] if self.replayed else [spec for spec in specs if spec.kind != CORPUS]

    @property
    def identity(self) -> dict[str, Any]:
        """What decides what searches and visits bring, as JSON values."""
        visit = dict(self.reader.identity)
        if self.reader.kind == "direct" and self.reader.allow:
            visit["allow"] = sorted(self.reader.allow)
        identity: dict[str, Any] = {"search": dict(self.engine.identity), "visit": visit}
        return {**identity, "replay": list(self.replayed_sha256)} if self.replayed else identity

    def mark(self, config: RunConfig) -> str:
        """What a run's name says of it: `+serper`, `+visit-direct` where that was asked for, `+replay`.

        "" for documents on this machine.
        """
        parts = [self.engine.name] if self.engine.kind != CORPUS else []
        parts += [f"visit-{self.reader.name}"] if config.visit and self.web else []
        parts += ["replay"] if self.replayed else []
        return "".join(f"+{part}" for part in parts)

    @property
    def notes(self) -> dict[str, Any]:
        """The same by the names that were asked for, for a manifest; `--replay` reads it again."""
        return {
            "search": self.engine.name,
            "visit": self.reader.name,
            "replay": [str(path) for path in self.replayed],
        }


def plan_search(
    config: RunConfig, catalogue: SearchCatalogue, environ: Mapping[str, str], documents: Path | None
) -> SearchPlan:
    """Choose engine and reader; `documents` are those of the data, which `--corpus` replaces.

    Raises UsageError.
    """
    journals = tuple(_journal(run) for run in config.replay)
    before = _notes_of(config.replay[0]) if config.replay else {}
    documents = config.corpus or documents
    engine = _engine(config, catalogue, before, documents)
    reader = catalogue.reader(config.visit or before.get("visit") or _reader_for(engine, environ))
    if config.allow_addresses:
        if reader.kind == CORPUS:
            raise UsageError(f"--allow-address is for pages of the web, and --visit is {reader.name}")
        reader = replace(reader, allow=(*reader.allow, *_addresses(config.allow_addresses)))
    corpus = _corpus(engine, reader, documents)
    return SearchPlan(
        engine=engine,
        reader=reader,
        corpus=corpus,
        corpus_sha256=sha256_of(corpus) if corpus else None,
        replayed=tuple(config.replay),
        replayed_sha256=tuple(sha256_of(path) for path in journals),
    )


def _engine(
    config: RunConfig, catalogue: SearchCatalogue, before: Mapping[str, str], documents: Path | None
) -> EngineSpec:
    name = config.search or before.get("search")
    if name is None and documents is None:
        raise UsageError(
            f"--data {config.data} has no documents of its own: name some with --corpus FILE.jsonl, "
            "or search the web with --search serper"
        )
    return catalogue.engine(name or CORPUS)


def _addresses(allowed: Sequence[str]) -> Sequence[str]:
    try:
        AllowList.parse(allowed)
    except ValueError as error:
        raise UsageError(f"--allow-address: {error}") from None
    return allowed


def _reader_for(engine: EngineSpec, environ: Mapping[str, str]) -> str:
    if engine.kind == CORPUS:
        return CORPUS
    return "jina" if environ.get("JINA_API_KEY", "").strip() else "direct"


def _corpus(engine: EngineSpec, reader: ReaderSpec, documents: Path | None) -> Path | None:
    """The documents that are needed; an entry of cts.toml may name its own."""
    paths = [spec.path or documents for spec in (engine, reader) if spec.kind == CORPUS]
    if None in paths:
        raise UsageError("there are no documents to search: name some with --corpus FILE.jsonl")
    if len(set(paths)) > 1:
        raise UsageError(f"--search {engine.name} and --visit {reader.name} name different documents")
    return paths[0] if paths else None


def _journal(run: Path) -> Path:
    journal = run / STEPS
    if not journal.is_file():
        raise UsageError(f"--replay {run}: no run there ({STEPS} is missing)")
    return journal


def _notes_of(run: Path) -> Mapping[str, str]:
    tools = (read_manifest(run) or {}).get("tools")
    return tools if isinstance(tools, dict) else {}


def check_replays(replayed: Sequence[Path], directories: Sequence[Path]) -> None:
    """A run cannot replay itself: its journal grows while it is read. Raises UsageError."""
    own = {directory.resolve() for directory in directories}
    for run in replayed:
        if run.resolve() in own:
            raise UsageError(f"--replay {run}: that is this run itself; give this one another --name")

"""The catalogue of search engines and page readers: names a user may ask for, and how each is opened.

Facts live in web.toml; `[search.NAME]` and `[visit.NAME]` in a user's cts.toml add to them or correct them
field by field. An `EngineSpec` or `ReaderSpec` is what the rest of the program sees.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from cts_async.errors import UsageError
from cts_async.search.backends.base import PageReader, SearchEngine
from cts_async.search.backends.specs import EngineSpec, HttpCall, ReaderSpec
from cts_async.search.web_tables import engine_spec, reader_spec
from cts_async.toml_tables import merged, override, read_tables, suggestion

if TYPE_CHECKING:
    import aiohttp

__all__ = [
    "SHIPPED",
    "EngineSpec",
    "HttpCall",
    "ReaderSpec",
    "SearchCatalogue",
    "load_search",
    "open_engine",
    "open_reader",
]

SHIPPED: Final = Path(__file__).with_name("web.toml")

_Spec = TypeVar("_Spec", EngineSpec, ReaderSpec)


@dataclass(frozen=True, slots=True)
class SearchCatalogue:
    """Search engines and page readers by name."""

    engines: Mapping[str, EngineSpec]
    readers: Mapping[str, ReaderSpec]

    def engine(self, name: str) -> EngineSpec:
        """The search engine called `name`; UsageError if there is none."""
        return _found(name, self.engines, "search engine")

    def reader(self, name: str) -> ReaderSpec:
        """The page reader called `name`; UsageError if there is none."""
        return _found(name, self.readers, "page reader")

    def missing_variables(
        self, specs: Iterable[EngineSpec | ReaderSpec], environ: Mapping[str, str]
    ) -> tuple[str, ...]:
        """The variables that have to be set before all of `specs` can be used, each once."""
        lacking = [spec.key_env for spec in specs if spec.key_env and not override(spec.key_env, environ)]
        return tuple(dict.fromkeys(lacking))


def load_search(user_file: Path | None = None) -> SearchCatalogue:
    """Read the shipped catalogue and, over it, the `[search.NAME]` and `[visit.NAME]` tables of `user_file`.

    InputError names the file, line and field of anything that is not understood.
    """
    shipped = read_tables(SHIPPED)
    engines = {name: engine_spec(name, row, SHIPPED) for name, row in shipped["search"].items()}
    readers = {name: reader_spec(name, row, SHIPPED) for name, row in shipped["visit"].items()}
    if user_file is None:
        return SearchCatalogue(engines, readers)
    user = read_tables(user_file)
    for name, row in user["search"].items():
        row = merged(shipped["search"].get(name), f"search.{name}", row, user_file)
        engines[name] = engine_spec(name, row, user_file)
    for name, row in user["visit"].items():
        row = merged(shipped["visit"].get(name), f"visit.{name}", row, user_file)
        readers[name] = reader_spec(name, row, user_file)
    return SearchCatalogue(engines, readers)


def open_engine(spec: EngineSpec, environ: Mapping[str, str], session: aiohttp.ClientSession) -> SearchEngine:
    """Give the search engine of `spec`, which asks through `session`, the caller's own.

    UsageError if its key is missing, or the documents of a corpus are.
    """
    if spec.kind == "corpus":
        from cts_async.search.backends.corpus import CorpusBackend

        return CorpusBackend(_documents(spec))
    key = _key(spec, environ)
    if spec.kind == "serper":
        from cts_async.search.backends.serper import Serper

        return Serper(spec, key, session)
    from cts_async.search.backends.http import HttpEngine

    return HttpEngine(spec, key, session)


def open_reader(spec: ReaderSpec, environ: Mapping[str, str], session: aiohttp.ClientSession) -> PageReader:
    """Give the page reader of `spec`. `session` is the caller's own; `direct` does without it.

    UsageError if its key is missing, or the documents of a corpus are.
    """
    if spec.kind == "corpus":
        from cts_async.search.backends.corpus import CorpusBackend

        return CorpusBackend(_documents(spec))
    if spec.kind == "direct":
        from cts_async.search.backends.direct import DirectReader

        return DirectReader(spec)
    key = _key(spec, environ)
    if spec.kind == "jina":
        from cts_async.search.backends.reader import JinaReader

        return JinaReader(spec, key, session)
    from cts_async.search.backends.http import HttpReader

    return HttpReader(spec, key, session)


def _found(name: str, specs: Mapping[str, _Spec], what: str) -> _Spec:
    if name not in specs:
        raise UsageError(f"unknown {what} {name!r}{suggestion(name, specs)}")
    return specs[name]


def _key(spec: EngineSpec | ReaderSpec, environ: Mapping[str, str]) -> str:
    """The key of `spec`, "" if it needs none."""
    key = override(spec.key_env, environ)
    if spec.key_env and not key:
        raise UsageError(f"{spec.name} needs a key: set {spec.key_env}")
    if not key.isprintable() or not key.isascii():
        raise UsageError(f"{spec.key_env} is no key: it has line breaks or the like inside")
    return key


def _documents(spec: EngineSpec | ReaderSpec) -> Path:
    if spec.path is None:
        raise UsageError(f"{spec.name} has no documents: name a file with --corpus, or as path in cts.toml")
    return spec.path

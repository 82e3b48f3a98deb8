"""The catalogue of search engines and page readers: names a user may ask for, and how each is opened.

Facts live in web.toml; `[search.NAME]` and `[visit.NAME]` in a user's cts.toml add to them or correct them
field by field. An `EngineSpec` or `ReaderSpec` is what the rest of the program sees.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cts_async.config import (
    KEYS_FROM_ENVIRONMENT,
    VARIABLE_PATTERN,
    address_problem,
    check_table_name,
    check_values,
    environment_override,
    field_error,
    merge_table,
    read_tables,
    row_error,
    suggestion,
)
from cts_async.errors import UsageError
from cts_async.search.backends.addresses import AllowList
from cts_async.search.backends.base import (
    EngineKind,
    EngineSpec,
    HttpCall,
    Method,
    PageReader,
    ReaderKind,
    ReaderSpec,
    SearchEngine,
)

if TYPE_CHECKING:
    import aiohttp


# --- Web tables


_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Count = Annotated[int, Field(gt=0)]
_Text = Annotated[str, Field(min_length=1)]
_PLACE = re.compile(r"\{(\w*)\}")


class _Row(BaseModel):
    """What a `[search.NAME]` and a `[visit.NAME]` table have in common."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)

    url: str = ""
    key_env: Annotated[str, Field(pattern=rf"^(?:{VARIABLE_PATTERN})?$")] = ""
    account: _Text | None = None
    requests_per_min: _Positive | None = None
    max_concurrency: _Count = 8
    timeout_s: _Positive = 20.0
    method: Method | None = None
    headers: dict[str, str] = Field(default_factory=dict)
    body: dict[str, Any] | None = None
    key_header: str = "Authorization"
    key_format: str = "Bearer {key}"
    path: str = ""


class _Fields(BaseModel):
    """Where a result has what; a path that leads nowhere gives an empty text."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)

    title: str = "title"
    url: _Text = "url"
    snippet: str = "snippet"
    date: str = "date"
    source: str = "source"


class _EngineRow(_Row):
    kind: EngineKind = "http"
    engine: str = ""
    params: dict[str, Any] = Field(default_factory=dict)
    zh_params: dict[str, Any] = Field(default_factory=dict)
    results: str = "results"
    fields_: _Fields = Field(default_factory=_Fields, alias="fields")


class _ReaderRow(_Row):
    kind: ReaderKind = "http"
    max_bytes: _Count = 5_000_000
    max_chars: _Count = 100_000
    text: str = ""
    title: str = ""
    max_redirects: Annotated[int, Field(ge=0, le=20)] = 5
    allow: list[str] = Field(default_factory=list)
    user_agent: str = ""


_ENGINE_FIELDS: Final = (*_EngineRow.model_fields.keys() - {"fields_"}, "fields")
_AnyRow = TypeVar("_AnyRow", _EngineRow, _ReaderRow)


def engine_spec(name: str, row: Mapping[str, Any], path: Path) -> EngineSpec:
    """Validate `[search.NAME]`, whose blame goes to `path`."""
    table = f"search.{name}"
    valid = _valid(_EngineRow, table, name, row, path, _ENGINE_FIELDS)
    if valid.kind == "http":
        _placed(valid, "query", table, path, ("query", "limit", "key"))
    return EngineSpec(
        kind=valid.kind,
        **_common(valid, name, path),
        engine=valid.engine,
        params=valid.params,
        zh_params=valid.zh_params,
        results=valid.results,
        fields=valid.fields_.model_dump(),
    )


def reader_spec(name: str, row: Mapping[str, Any], path: Path) -> ReaderSpec:
    """Validate `[visit.NAME]`, whose blame goes to `path`."""
    table = f"visit.{name}"
    valid = _valid(_ReaderRow, table, name, row, path, _ReaderRow.model_fields)
    if valid.kind == "http":
        _placed(valid, "url", table, path, ("url", "key"))
    try:
        AllowList.parse(valid.allow)
    except ValueError as error:
        raise field_error(path, table, "allow", str(error)) from None
    return ReaderSpec(
        kind=valid.kind,
        **_common(valid, name, path),
        max_bytes=valid.max_bytes,
        max_chars=valid.max_chars,
        text=valid.text,
        title=valid.title,
        max_redirects=valid.max_redirects,
        allow=tuple(valid.allow),
        user_agent=valid.user_agent,
    )


def _valid(
    model: type[_AnyRow], table: str, name: str, row: Mapping[str, Any], path: Path, known: Iterable[str]
) -> _AnyRow:
    check_table_name(name, "such a", path)
    check_values(table, row, path, key_place=True)
    try:
        valid = model.model_validate(row)
    except ValidationError as error:
        raise row_error(path, table, error.errors(include_input=False)[0], known) from None
    if "{key}" not in valid.key_format:
        raise field_error(path, table, "key_format", f"has no {{key}}; {KEYS_FROM_ENVIRONMENT}")
    optional = valid.kind in ("corpus", "direct")
    if problem := address_problem(_PLACE.sub("x", valid.url), optional=optional, query=True):
        raise field_error(path, table, "url", problem)
    if _PLACE.search(urlsplit(valid.url).netloc):
        raise field_error(path, table, "url", "no {place} can stand in its host")
    return valid


def _placed(valid: _Row, needed: str, table: str, path: Path, known: tuple[str, ...]) -> None:
    """Check that what is asked has a place in the request, and that the url has no places unheard of."""
    for place in _PLACE.findall(valid.url):
        if place not in known:
            raise field_error(path, table, "url", f"unknown place {{{place}}}{suggestion(place, known)}")
    if f"{{{needed}}}" not in f"{valid.url}{valid.body}":
        raise field_error(path, table, "url", f"has no {{{needed}}}, and neither has the body")


def _common(valid: _Row, name: str, path: Path) -> dict[str, Any]:
    """The fields that both kinds of spec have."""
    host = urlsplit(_PLACE.sub("x", valid.url)).netloc
    elsewhere = "{key}" in f"{valid.url}{valid.body}{valid.headers}"
    call = HttpCall(
        method=valid.method or ("GET" if valid.body is None else "POST"),
        headers=valid.headers,
        body=valid.body,
        key_header="" if elsewhere or not valid.key_env else valid.key_header,
        key_format=valid.key_format,
    )
    return {
        "name": name,
        "url": valid.url,
        "key_env": valid.key_env or None,
        "account": valid.account or valid.key_env or host or name,
        "requests_per_min": valid.requests_per_min,
        "max_concurrency": valid.max_concurrency,
        "timeout_s": valid.timeout_s,
        "call": call,
        "path": path.parent / valid.path if valid.path else None,
    }


# --- Catalog


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
        lacking = [
            spec.key_env for spec in specs if spec.key_env and not environment_override(spec.key_env, environ)
        ]
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
        row = merge_table(shipped["search"].get(name), f"search.{name}", row, user_file)
        engines[name] = engine_spec(name, row, user_file)
    for name, row in user["visit"].items():
        row = merge_table(shipped["visit"].get(name), f"visit.{name}", row, user_file)
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
        from cts_async.search.backends.services import Serper

        return Serper(spec, key, session)
    from cts_async.search.backends.services import HttpEngine

    return HttpEngine(spec, key, session)


def open_reader(spec: ReaderSpec, environ: Mapping[str, str], session: aiohttp.ClientSession) -> PageReader:
    """Give the page reader of `spec`. `session` is the caller's own; `direct` does without it.

    UsageError if its key is missing, or the documents of a corpus are.
    """
    if spec.kind == "corpus":
        from cts_async.search.backends.corpus import CorpusBackend

        return CorpusBackend(_documents(spec))
    if spec.kind == "direct":
        from cts_async.search.backends.fetch import DirectReader

        return DirectReader(spec)
    key = _key(spec, environ)
    if spec.kind == "jina":
        from cts_async.search.backends.services import JinaReader

        return JinaReader(spec, key, session)
    from cts_async.search.backends.services import HttpReader

    return HttpReader(spec, key, session)


def _found(name: str, specs: Mapping[str, _Spec], what: str) -> _Spec:
    if name not in specs:
        raise UsageError(f"unknown {what} {name!r}{suggestion(name, specs)}")
    return specs[name]


def _key(spec: EngineSpec | ReaderSpec, environ: Mapping[str, str]) -> str:
    """The key of `spec`, "" if it needs none."""
    key = environment_override(spec.key_env, environ)
    if spec.key_env and not key:
        raise UsageError(f"{spec.name} needs a key: set {spec.key_env}")
    if not key.isprintable() or not key.isascii():
        raise UsageError(f"{spec.key_env} is no key: it has line breaks or the like inside")
    return key


def _documents(spec: EngineSpec | ReaderSpec) -> Path:
    if spec.path is None:
        raise UsageError(f"{spec.name} has no documents: name a file with --corpus, or as path in cts.toml")
    return spec.path

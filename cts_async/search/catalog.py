"""The catalogue of search engines and page readers: names a user may ask for, and how each is opened.

Facts live in web.toml; `[search.NAME]` and `[visit.NAME]` tables in a user's cts.toml add to them or replace them
field by field. The rest of the program sees an `EngineSpec` or `ReaderSpec`. Tables are validated once, here:
whatever is not understood is an `InputError` that names file, line and field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
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

SHIPPED: Final = Path(__file__).with_name("web.toml")

_Spec = TypeVar("_Spec", EngineSpec, ReaderSpec)


@dataclass(frozen=True, slots=True)
class SearchCatalogue:
    """Search engines and page readers by name."""

    engines: Mapping[str, EngineSpec]
    readers: Mapping[str, ReaderSpec]

    def engine(self, name: str) -> EngineSpec:
        """Return the search engine called `name`; UsageError if there is none."""
        return _found(name, self.engines, "search engine")

    def reader(self, name: str) -> ReaderSpec:
        """Return the page reader called `name`; UsageError if there is none."""
        return _found(name, self.readers, "page reader")

    def missing_variables(
        self, specs: Iterable[EngineSpec | ReaderSpec], environ: Mapping[str, str]
    ) -> tuple[str, ...]:
        """Return the environment variables that `specs` need and that are not set, each once."""
        missing = [
            spec.key_env for spec in specs if spec.key_env and not environment_override(spec.key_env, environ)
        ]
        return tuple(dict.fromkeys(missing))


def load_search(user_file: Path | None = None) -> SearchCatalogue:
    """Read the shipped catalogue, and the `[search.NAME]` and `[visit.NAME]` tables of `user_file` on top of it."""
    shipped = read_tables(SHIPPED)
    user = read_tables(user_file) if user_file is not None else {}

    def specs(table: str, build: Callable[[str, Mapping[str, Any], Path], _Spec]) -> dict[str, _Spec]:
        found = {name: build(name, row, SHIPPED) for name, row in shipped[table].items()}
        if user_file is not None:
            for name, row in user[table].items():
                row = merge_table(shipped[table].get(name), f"{table}.{name}", row, user_file)
                found[name] = build(name, row, user_file)
        return found

    return SearchCatalogue(specs("search", _engine_spec), specs("visit", _reader_spec))


# --- Opening. Backends are imported when they are used: aiohttp, bm25s and jieba are slow to import.


def open_engine(spec: EngineSpec, environ: Mapping[str, str], session: aiohttp.ClientSession) -> SearchEngine:
    """Open the search engine of `spec`, which sends its requests through `session`, owned by the caller.

    UsageError if its key or the documents of its corpus are missing.
    """
    if spec.kind == "corpus":
        from cts_async.search.backends.corpus import CorpusBackend

        return CorpusBackend(_documents(spec))
    from cts_async.search.backends.services import HttpEngine, Serper

    backend = Serper if spec.kind == "serper" else HttpEngine
    return backend(spec, _key(spec, environ), session)


def open_reader(spec: ReaderSpec, environ: Mapping[str, str], session: aiohttp.ClientSession) -> PageReader:
    """Open the page reader of `spec`; as `open_engine`. `direct` makes its own sessions."""
    if spec.kind == "corpus":
        from cts_async.search.backends.corpus import CorpusBackend

        return CorpusBackend(_documents(spec))
    if spec.kind == "direct":
        from cts_async.search.backends.fetch import DirectReader

        return DirectReader(spec)
    from cts_async.search.backends.services import HttpReader, JinaReader

    backend = JinaReader if spec.kind == "jina" else HttpReader
    return backend(spec, _key(spec, environ), session)


def _found(name: str, specs: Mapping[str, _Spec], what: str) -> _Spec:
    if name not in specs:
        raise UsageError(f"unknown {what} {name!r}{suggestion(name, specs)}")
    return specs[name]


def _key(spec: EngineSpec | ReaderSpec, environ: Mapping[str, str]) -> str:
    """Return the key of `spec`, "" if it needs none."""
    key = environment_override(spec.key_env, environ)
    if spec.key_env and not key:
        raise UsageError(f"{spec.name} needs a key: set {spec.key_env}")
    if not key.isprintable() or not key.isascii():
        raise UsageError(
            f"{spec.key_env} is not a valid key: it contains line breaks or non-ASCII characters"
        )
    return key


def _documents(spec: EngineSpec | ReaderSpec) -> Path:
    if spec.path is None:
        raise UsageError(f"{spec.name} has no documents: name a file with --corpus, or as path in cts.toml")
    return spec.path


# --- Validation of the tables

_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Count = Annotated[int, Field(gt=0)]
_Text = Annotated[str, Field(min_length=1)]
_PLACEHOLDER = re.compile(r"\{(\w*)\}")


class _Row(BaseModel):
    """The fields that `[search.NAME]` and `[visit.NAME]` have in common."""

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
    """The path to each part within a result; a path that leads nowhere gives an empty text."""

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


def _engine_spec(name: str, row: Mapping[str, Any], path: Path) -> EngineSpec:
    """Validate `[search.NAME]` of the file `path`."""
    table = f"search.{name}"
    valid = _valid(_EngineRow, table, name, row, path, _ENGINE_FIELDS)
    if valid.kind == "http":
        _check_placeholders(valid, "query", table, path, ("query", "limit", "key"))
    own = valid.model_dump(include={"kind", "engine", "params", "zh_params", "results"})
    return EngineSpec(**_common(valid, name, path), **own, fields=valid.fields_.model_dump())


def _reader_spec(name: str, row: Mapping[str, Any], path: Path) -> ReaderSpec:
    """Validate `[visit.NAME]` of the file `path`."""
    table = f"visit.{name}"
    valid = _valid(_ReaderRow, table, name, row, path, _ReaderRow.model_fields)
    if valid.kind == "http":
        _check_placeholders(valid, "url", table, path, ("url", "key"))
    try:
        AllowList.parse(valid.allow)
    except ValueError as error:
        raise field_error(path, table, "allow", str(error)) from None
    names = {"kind", "max_bytes", "max_chars", "text", "title", "max_redirects", "user_agent"}
    return ReaderSpec(
        **_common(valid, name, path), **valid.model_dump(include=names), allow=tuple(valid.allow)
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
    if problem := address_problem(_PLACEHOLDER.sub("x", valid.url), optional=optional, query=True):
        raise field_error(path, table, "url", problem)
    if _PLACEHOLDER.search(urlsplit(valid.url).netloc):
        raise field_error(path, table, "url", "its host must not contain a {placeholder}")
    return valid


def _check_placeholders(valid: _Row, needed: str, table: str, path: Path, known: tuple[str, ...]) -> None:
    """Check that the url has known placeholders only, and that url or body has the `needed` one."""
    for name in _PLACEHOLDER.findall(valid.url):
        if name not in known:
            raise field_error(path, table, "url", f"unknown placeholder {{{name}}}{suggestion(name, known)}")
    if f"{{{needed}}}" not in f"{valid.url}{valid.body}":
        raise field_error(path, table, "url", f"has no {{{needed}}}, and neither has the body")


def _common(valid: _Row, name: str, path: Path) -> dict[str, Any]:
    """Return the arguments that both kinds of spec have in common."""
    host = urlsplit(_PLACEHOLDER.sub("x", valid.url)).netloc
    key_elsewhere = "{key}" in f"{valid.url}{valid.body}{valid.headers}"
    call = HttpCall(
        method=valid.method or ("GET" if valid.body is None else "POST"),
        headers=valid.headers,
        body=valid.body,
        key_header="" if key_elsewhere or not valid.key_env else valid.key_header,
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

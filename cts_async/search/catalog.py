"""The catalogue of search engines and page readers: names a user may ask for, and how each is reached.

Facts live in web.toml; `[search.NAME]` and `[visit.NAME]` tables in a user's cts.toml add to them or replace them
field by field. Tables are validated once, here: whatever is not understood is an InputError that names file, line and
field. The rest of the program sees an `EngineSpec` or `ReaderSpec`, which holds no key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cts_async.config import (
    KEYS_FROM_ENVIRONMENT,
    VARIABLE_PATTERN,
    address_problem,
    check_table,
    environment_override,
    field_error,
    merge_table,
    read_tables,
    row_error,
    suggestion,
)
from cts_async.errors import UsageError
from cts_async.search.backends.addresses import AllowList

SHIPPED: Final = Path(__file__).with_name("web.toml")

_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Count = Annotated[int, Field(gt=0)]
_Text = Annotated[str, Field(min_length=1)]
_PLACEHOLDER = re.compile(r"\{(\w*)\}")


class _Table(BaseModel):
    # A mistaken field may hold a key: errors do not repeat what stands in it.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)


class ServiceSpec(_Table):
    """What the tables `[search.NAME]` and `[visit.NAME]` have in common.

    `{query}`, `{limit}`, `{url}` and `{key}` in `url`, in header values and in the body's strings are replaced by
    their values; in the url they are percent-encoded.
    """

    kind: str
    table: ClassVar[str]
    """The first part of its tables' names."""
    placeholders: ClassVar[tuple[str, ...]]
    """Those known in a url; the first has to be in the url or the body."""
    name: str
    url: str = ""
    account: _Text = "none"
    """Entries with the same account share its limits. By default the key's variable, else the host."""
    key_env: Annotated[str, Field(pattern=rf"^(?:{VARIABLE_PATTERN})?$")] = ""
    """The environment variable of the key, "" if none is needed."""
    max_concurrency: _Count = 8
    timeout_s: _Positive = 20.0
    """Covers one whole answer; for `direct`, one attempt with all its redirects."""
    requests_per_min: _Positive | None = None
    method: Literal["GET", "POST"] = "GET"
    """By default POST if there is a body."""
    headers: dict[str, str] = Field(default_factory=dict)
    body: dict[str, Any] | None = None
    """Sent as JSON. A string that is `{limit}` and nothing else becomes a number."""
    key_header: str = "Authorization"
    """The header that carries the key in `key_format`; "" if `{key}` stands elsewhere or none is needed."""
    key_format: str = "Bearer {key}"
    path: Path | None = None
    """corpus: the documents; None for those of the run (`--corpus`)."""
    usd_per_1000: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Dollars for 1,000 queries or pages; None if unknown. Only forecasts use it."""
    price_source: str = ""
    """Where the price was found, and when."""

    @property
    def usd_per_request(self) -> float | None:
        """Dollars of a query or page, 0 for what this machine does by itself; None if unknown."""
        if self.usd_per_1000 is not None:
            return self.usd_per_1000 / 1000
        if self.kind in ("corpus", "direct"):
            return 0.0
        return None

    def missing_key(self, environ: Mapping[str, str]) -> str:
        """Return the environment variable of its key if that is not set, else ""."""
        if environment_override(self.key_env, environ):
            return ""
        return self.key_env


class HitFields(_Table):
    """Dotted path to each part within a result; a path that leads nowhere gives an empty text."""

    title: str = "title"
    url: _Text = "url"
    snippet: str = "snippet"
    date: str = "date"
    source: str = "source"


class EngineSpec(ServiceSpec):
    """A search engine."""

    table = "search"
    placeholders = ("query", "limit", "key")
    kind: Literal["serper", "http", "corpus"] = "http"
    engine: str = ""
    """The engine's proper name as the agent reads it, such as "Google"."""
    params: dict[str, Any] = Field(default_factory=dict)
    """serper: further fields of the request, such as `gl` (country) and `hl` (language)."""
    zh_params: dict[str, Any] = Field(default_factory=dict)
    """serper: the same for a query in Chinese, over `params`."""
    results: str = "results"
    """Dotted path from the answer to its list of results ("webPages.value"); "" if the answer is the list."""
    hit_fields: HitFields = Field(default_factory=HitFields, alias="fields")

    @property
    def identity(self) -> dict[str, Any]:
        """What determines the results, as JSON values. A step's key depends on it; limits are not part of it."""
        if self.kind == "serper":
            params, zh_params = dict(self.params), dict(self.zh_params)
            return {"kind": "serper", "url": self.url, "params": params, "zh": zh_params}
        if self.kind == "corpus":
            return {"kind": "corpus"}
        return {
            "kind": "http",
            "url": self.url,
            "body": self.body,
            "headers": dict(self.headers),
            "results": self.results,
            "fields": self.hit_fields.model_dump(),
        }


class ReaderSpec(ServiceSpec):
    """A page reader."""

    table = "visit"
    placeholders = ("url", "key")
    kind: Literal["jina", "direct", "http", "corpus"] = "http"
    max_bytes: _Count = 5_000_000
    """Limit of an answer, both as received and after decompression; a larger one is refused."""
    max_chars: _Count = 100_000
    """Limit of a page's text; a longer one is cut, with a note."""
    text: str = ""
    """http: dotted path from the answer to the page's text; "" if the answer is the text."""
    title: str = ""
    """http: dotted path to its title; "" if there is none."""
    max_redirects: Annotated[int, Field(ge=0, le=20)] = 5
    allow: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Hosts and networks of pages that may be private, and at any port ("wiki.lan", "10.1.0.0/16")."""
    user_agent: str = ""

    @property
    def identity(self) -> dict[str, Any]:
        """What determines the text, as JSON values. A step's key depends on it; limits are not part of it."""
        if self.kind == "corpus":
            return {"kind": "corpus"}
        identity: dict[str, Any] = {"kind": self.kind, "url": self.url}
        identity |= {"max_bytes": self.max_bytes, "max_chars": self.max_chars}
        if self.kind == "http":
            identity |= self.model_dump(include={"body", "headers", "text", "title"})
        return identity


_Spec = TypeVar("_Spec", EngineSpec, ReaderSpec)


@dataclass(frozen=True, slots=True)
class SearchCatalogue:
    """Search engines and page readers by name."""

    engines: Mapping[str, EngineSpec]
    readers: Mapping[str, ReaderSpec]

    def engine(self, name: str) -> EngineSpec:
        """Return the search engine called `name`; UsageError if there is none."""
        return _spec_called(name, self.engines, "search engine")

    def reader(self, name: str) -> ReaderSpec:
        """Return the page reader called `name`; UsageError if there is none."""
        return _spec_called(name, self.readers, "page reader")


def _spec_called(name: str, specs: Mapping[str, _Spec], title: str) -> _Spec:
    if name not in specs:
        table = next(iter(specs.values())).table
        hint = f"To add your own, put [{table}.mine] with its url into cts.toml"
        raise UsageError(f"unknown {title} {name!r}{suggestion(name, specs)}. {hint}")
    return specs[name]


def load_search(*user_files: Path | None) -> SearchCatalogue:
    """Read the shipped catalogue and, over it, the `[search]` and `[visit]` tables of each file (None: no file)."""
    files = [(SHIPPED, read_tables(SHIPPED))]
    for user_file in user_files:
        if user_file is not None:
            files.append((user_file, read_tables(user_file)))

    def specs(model: type[_Spec]) -> dict[str, _Spec]:
        rows: dict[str, dict[str, Any]] = {}
        valid: dict[str, _Spec] = {}
        for file, tables in files:
            for name, row in tables[model.table].items():
                rows[name] = merge_table(rows.get(name), f"{model.table}.{name}", row, file)
                # After each file, so that a mistake is reported with the file and line that made it.
                valid[name] = _valid(model, name, rows[name], file)
        return valid

    return SearchCatalogue(specs(EngineSpec), specs(ReaderSpec))


# --- Headers
#
# A table's headers are sent beside a key. One that frames the message, or belongs to the connection, could make a proxy
# or a server between take the rest of the request for another one, or send it to another host.

_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A token (RFC 9110, section 5.6.2)."""
_HEADER_VALUE: Final = re.compile(r"(?:[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?)?")
"""A field value (RFC 9110, section 5.5) of ASCII characters: what lies beyond is obsolete there."""
_RESERVED_HEADERS: Final = frozenset(
    {
        # Where the message goes and where it ends (RFC 9112, sections 3.2 and 6).
        "host",
        "content-length",
        "transfer-encoding",
        "content-encoding",
        "content-range",
        # Of one connection only (RFC 9110, section 7.6.1), and what asks for another protocol or an interim answer.
        "connection",
        "keep-alive",
        "te",
        "trailer",
        "upgrade",
        "http2-settings",
        "expect",
        "max-forwards",
    }
)
_RESERVED_PREFIX: Final = "proxy-"


def header_problem(name: str, value: str = "") -> str | None:
    """Return why a table must not send a header, without repeating its value; None if it may."""
    if not _HEADER_NAME.fullmatch(name):
        return "is not the name of a header: letters, digits and -"
    if name.lower() in _RESERVED_HEADERS or name.lower().startswith(_RESERVED_PREFIX):
        return "is a header of the connection: the client sets it itself"
    if not _HEADER_VALUE.fullmatch(value):
        return "must be one line of ASCII characters without space around it"
    return None


def _check_headers(spec: ServiceSpec, table: str, path: Path) -> None:
    """Check all that a table puts into the head of a request. Raises InputError."""
    seen: set[str] = set()
    for name, value in spec.headers.items():
        problem = header_problem(name, value)
        if problem is None and name.lower() in seen:
            problem = "is given twice"
        if problem:
            raise field_error(path, table, f"headers.{name}", problem)
        seen.add(name.lower())
    # Also key_format and user_agent end up in the head of a request.
    if spec.key_header:
        _check_header(path, table, "key_header", spec.key_header)
    _check_header(path, table, "key_format", value=spec.key_format)
    if isinstance(spec, ReaderSpec):
        _check_header(path, table, "user_agent", value=spec.user_agent)


def _check_header(path: Path, table: str, field: str, name: str = "x", value: str = "") -> None:
    """Raise InputError for a field that makes the name or the value of a header which must not be sent."""
    problem = header_problem(name, value)
    if problem:
        raise field_error(path, table, field, problem)


# --- Validation of the tables

_SERPER: Final[dict[str, Any]] = {
    "method": "POST",
    "body": {"q": "{query}", "num": "{limit}"},
    "key_header": "X-API-KEY",
    "key_format": "{key}",
    "results": "organic",
    "hit_fields": HitFields(url="link"),
}
"""Google's results through Serper; of the answer the `organic` results are used, as in WebDancer."""


def _valid(model: type[_Spec], name: str, row: Mapping[str, Any], path: Path) -> _Spec:
    """Validate a table of the file `path`; what it leaves out follows from its other fields."""
    table = f"{model.table}.{name}"
    check_table(table, row, path, key_place=True)
    fields = {field.alias or name for name, field in model.model_fields.items()} - {"name"}
    # The model has this field, but it is filled from the name of the table.
    if "name" in row:
        raise field_error(path, table, "name", f"unknown field{suggestion('name', fields)}")
    values = dict(row)
    values["name"] = name
    # Relative to the file that names it, wherever `cts` is started.
    if isinstance(row.get("path"), str):
        values["path"] = path.parent / row["path"]
    try:
        spec = model.model_validate(values)
    except ValidationError as error:
        raise row_error(path, table, error.errors(include_input=False)[0], fields) from None
    _check_headers(spec, table, path)
    if "{key}" not in spec.key_format:
        raise field_error(path, table, "key_format", f"has no {{key}}; {KEYS_FROM_ENVIRONMENT}")
    # With a text in each placeholder the template is an address that can be checked like any other.
    url = _PLACEHOLDER.sub("x", spec.url)
    problem = address_problem(url, optional=spec.kind in ("corpus", "direct"), query=True)
    if problem:
        raise field_error(path, table, "url", problem)
    # A query or an address that a model chose must not decide whom the key is sent to.
    if _PLACEHOLDER.search(urlsplit(spec.url).netloc):
        raise field_error(path, table, "url", "its host must not contain a {placeholder}")
    if spec.kind == "http":
        _check_placeholders(spec, table, path)
    if isinstance(spec, ReaderSpec):
        try:
            AllowList.parse(spec.allow)
        except ValueError as error:
            raise field_error(path, table, "allow", str(error)) from None
    return spec.model_copy(update=_derived_fields(spec, row, urlsplit(url).netloc))


def _check_placeholders(spec: ServiceSpec, table: str, path: Path) -> None:
    """Raise InputError for an unknown placeholder in the url, and where the first one that is known is missing."""
    for place in _PLACEHOLDER.findall(spec.url):
        if place not in spec.placeholders:
            problem = f"unknown placeholder {{{place}}}{suggestion(place, spec.placeholders)}"
            raise field_error(path, table, "url", problem)
    needed = spec.placeholders[0]
    if f"{{{needed}}}" not in f"{spec.url}{spec.body}":
        raise field_error(path, table, "url", f"has no {{{needed}}}, and neither has the body")


def _derived_fields(spec: ServiceSpec, row: Mapping[str, Any], host: str) -> dict[str, Any]:
    """The fields of a table that follow from its other fields where it leaves them out."""
    derived: dict[str, Any] = {
        "account": row.get("account") or spec.key_env or host or spec.name,
        "method": row.get("method") or "GET",
        "key_header": spec.key_header,
    }
    if spec.body is not None and not row.get("method"):
        derived["method"] = "POST"
    # The key is sent once, where the table puts it.
    if not spec.key_env or "{key}" in f"{spec.url}{spec.body}{spec.headers}":
        derived["key_header"] = ""
    if spec.kind == "serper":
        derived |= _SERPER
    return derived

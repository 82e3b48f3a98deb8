"""Tables of a TOML file that a person writes: reading them, and saying where a mistake stands.

Everything that is refused is an `InputError` that names the file, the line where it can be found, and the
field. A secret is refused wherever it could stand, and not repeated.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlsplit

from cts_async.errors import InputError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

__all__ = [
    "KEYS_COME",
    "TABLES",
    "VARIABLE",
    "address_problem",
    "check_values",
    "field_error",
    "line_of",
    "merged",
    "named",
    "override",
    "read_tables",
    "row_error",
    "secret_name",
    "suggestion",
]

TABLES: Final = ("models", "roles", "search", "visit")
"""The tables that a cts.toml may have, each read by the catalogue it belongs to."""
KEYS_COME: Final = "keys come from the environment: use key_env"
VARIABLE: Final = r"[A-Z_][A-Z0-9_]{0,63}"
"""What the name of an environment variable looks like, so that a key put there is noticed."""

MAX_DEPTH: Final = 32
"""Levels of nesting in a table: orjson writes 254, and the parser's own recursion ends at about 300."""
MAX_INTEGER: Final = 2**63 - 1
"""What JSON libraries write, and what servers read, as an integer."""

_NAME = re.compile(r"[\w.-]+")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRET_WORD = re.compile(
    r"auth(?:orization)?|bearer|cookies?|credentials?|jwt|pass(?:phrase|w(?:or)?d)|pwd|secrets?|signature"
)
"""A name with one of these words anywhere in it is a secret's."""
_SECRET_NOUN = re.compile(r"keys?|pass|sig|token")
"""A name that ends in one of these is, too: `X-Token`, but neither `max_tokens` nor `stop_token_ids`."""
_COMPOUND = re.compile(
    r"(?:access|api|auth|client|private|refresh|secret|session|shared|subscription)(?:keys?|token|secret)$"
)
_NO_SECRETS: Final = frozenset(
    {
        "prompt_cache_key",
        *(f"{of}_token" for of in ("bos", "cls", "eos", "mask", "pad", "sep", "stop", "unk")),
    }
)
"""Request parameters of common servers that only sound like one."""
_SECRET_VALUE = re.compile(
    r"(?:(?:bearer|basic|token)\s+|(?:sk|gh[po]|xox[bp])[-_])(?=\S*\d)[^\s{]{16}", re.IGNORECASE
)
"""What a key looks like, whatever its field is called: an authorization scheme, or a well-known prefix."""


def read_tables(path: Path) -> dict[str, dict[str, Any]]:
    """Each of `TABLES` in a file, perhaps empty; what is in them is not looked at."""
    data = _toml(path)
    for name, value in data.items():
        if name not in TABLES:
            raise InputError(path, f"unknown table{suggestion(name, TABLES)}", field=name)
        if not isinstance(value, dict):
            raise InputError(path, "expected a table", field=name)
    return {name: data.get(name, {}) for name in TABLES}


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(path, f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(path, "is not UTF-8 text") from error
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"at line (\d+)", str(error))
        raise InputError(path, f"not valid TOML: {error}", line=int(found[1]) if found else None) from error
    except RecursionError:
        raise InputError(path, f"is nested more than {MAX_DEPTH} levels deep") from None
    except ValueError:  # Python converts no number of more than 4,300 digits
        raise InputError(path, "not valid TOML: a number has too many digits") from None


def merged(shipped: Mapping[str, Any] | None, table: str, row: object, path: Path) -> dict[str, Any]:
    """A shipped table with the fields of the user's `[table]` over it."""
    if not isinstance(row, dict):
        raise InputError(path, "expected a table", field=table)
    return {**(shipped or {}), **row}


def named(name: str, what: str, path: Path) -> None:
    """Refuse a table's name that could not be an option's value or an account's."""
    if not _NAME.fullmatch(name):
        raise InputError(path, f"{what} name has letters, digits, dots, - and _ only", field=name)


def secret_name(name: str) -> bool:
    """Whether a field or URL parameter of this name holds a secret: `api_key`, `X-Token`, `clientSecret`, `sig`."""
    if name.lower() in _NO_SECRETS:
        return False
    words = [word.lower() for word in _WORD.findall(name)]
    if not words:
        return False
    found = [
        *map(_SECRET_WORD.fullmatch, words),
        _SECRET_NOUN.fullmatch(words[-1]),
        _COMPOUND.search(words[-1]),
    ]
    return any(found)


def check_values(table: str, row: Mapping[str, Any], path: Path, *, key_place: bool = False) -> None:
    """Check what stands in `[table]`, at any depth: no secret, and only what JSON can carry.

    With `key_place`, a value says by `{key}` where the key goes. Raises InputError, which does not repeat the value.
    """
    for field, name, value in _leaves(row, "", "", MAX_DEPTH):
        if problem := _value_problem(name, value, key_place=key_place):
            raise field_error(path, table, field, problem)


def _leaves(value: object, field: str, name: str, depth: int) -> Iterator[tuple[str, str, object]]:
    """Each value that is no table or array: its dotted field, the name it stands under, and itself.

    What is nested more than `depth` levels deep is given as it is.
    """
    if depth and isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, f"{field}.{key}" if field else key, key, depth - 1)
    elif depth and isinstance(value, list):
        for item in value:
            yield from _leaves(item, field, name, depth - 1)
    else:
        yield field, name, value


def _value_problem(name: str, value: object, *, key_place: bool) -> str | None:
    match value:
        case str():
            return _secret_problem(name, value, key_place=key_place)
        case bool():
            return None
        case int() if abs(value) > MAX_INTEGER:
            return "is an integer beyond 64 bits; write a smaller one, or text in quotes"
        case float() if not isfinite(value):
            return "must be a finite number"
        case int() | float():
            return None
        case dict() | list():
            return f"is nested more than {MAX_DEPTH} levels deep"
    return "is a date or a time; write it in quotes"


def _secret_problem(name: str, text: str, *, key_place: bool) -> str | None:
    """Why a string named `name` cannot stand in a file, None if it can."""
    if secret_name(name) and not (key_place and "{key}" in text):
        return f"{KEYS_COME}, and write {{key}} here" if key_place else KEYS_COME
    if _SECRET_VALUE.match(text):
        return f"looks like a key; {KEYS_COME}"
    if "://" not in text:
        return None
    try:
        parts = urlsplit(text)
    except ValueError:
        return None  # no address, whatever it is
    if parts.password:
        return f"must not carry a password; {KEYS_COME}"
    for parameter, value in parse_qsl(parts.query):
        if secret_name(parameter) and not (key_place and "{key}" in value):
            return f"{KEYS_COME}, and write {{key}} after {parameter}=" if key_place else KEYS_COME
    return None


def row_error(path: Path, table: str, error: ErrorDetails, known: Iterable[str]) -> InputError:
    """What pydantic says against `[table]`, whose fields are `known`, in one line."""
    key = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return field_error(path, table, key, f"unknown field{suggestion(key, known)}")
    if error["type"] == "string_pattern_mismatch":
        problem = "must be the NAME of an environment variable, in capitals, such as MY_API_KEY"
        return field_error(path, table, key, f"{problem}; {KEYS_COME}" if key == "key_env" else problem)
    message = error["msg"].removeprefix("Input ")
    return field_error(path, table, key, "is missing" if error["type"] == "missing" else message)


def field_error(path: Path, table: str, key: str, problem: str) -> InputError:
    """A problem with the field `key` of `[table]`."""
    return InputError(path, problem, line=line_of(path, table, key), field=f"{table}.{key}")


def line_of(path: Path, table: str, key: str) -> int | None:
    """The line on which `key` of `[table]` stands (the table's own if it is elsewhere); None if unknown."""
    found = None
    inside = False
    first = key.split(".")[0]
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), 1):
        if header := re.match(r"\s*\[([^\[\]]+)\]", line):
            name = re.sub(r"[\s\"']", "", header[1])
            inside = name == table
            found = number if name in (table, f"{table}.{first}") else found
        elif inside and re.match(rf"\s*[\"']?{re.escape(first)}[\"']?\s*[=.]", line):
            return number
    return found


def address_problem(url: str, *, optional: bool = False, query: bool = False) -> str | None:
    """What is wrong with an http(s) address; its text is not repeated, as it might hold a key.

    `optional` lets it be empty, `query` lets it have one.
    """
    if not url:
        return None if optional else "is missing: expected an http(s) address"
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return "is not an http(s) address"
    if not valid or re.search(r"\s", url):
        return "is not an http(s) address"
    if parts.username or parts.password or parts.fragment or (parts.query and not query):
        parts_named = "user names or fragments" if query else "user names, queries or fragments"
        return f"must not carry {parts_named}; {KEYS_COME}"
    return None


def override(variable: str | None, environ: Mapping[str, str]) -> str:
    """The trimmed value of an environment variable, "" if it is unset or there is none to look at."""
    return environ.get(variable, "").strip() if variable else ""


def suggestion(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'? known: ...`"""
    names = sorted(known)
    match = get_close_matches(name.lower(), names, n=1)
    return (f"; did you mean {match[0]!r}?" if match else ";") + f" known: {', '.join(names)}"

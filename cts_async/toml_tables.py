"""Tables of a TOML file that a person writes: reading them, and saying where a mistake stands.

Everything that is refused is an `InputError` that names the file, the line where it can be found, and the
field. A secret is refused wherever it could stand, and not repeated.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from cts_async.errors import InputError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

__all__ = [
    "KEYS_COME",
    "TABLES",
    "VARIABLE",
    "address_problem",
    "field_error",
    "line_of",
    "merged",
    "named",
    "override",
    "read_tables",
    "refuse_secrets",
    "row_error",
    "secret_name",
    "suggestion",
]

TABLES: Final = ("models", "roles", "search", "visit")
"""The tables that a cts.toml may have, each read by the catalogue it belongs to."""
KEYS_COME: Final = "keys come from the environment: use key_env"
VARIABLE: Final = r"[A-Z_][A-Z0-9_]{0,63}"
"""What the name of an environment variable looks like, so that a key put there is noticed."""

_SECRET = re.compile(r"(?:x[-_]?)?(?:api[-_]?)?key|secret|token|password|authorization|bearer", re.IGNORECASE)
_NAME = re.compile(r"[\w.-]+")


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


def merged(shipped: Mapping[str, Any] | None, table: str, row: object, path: Path) -> dict[str, Any]:
    """A shipped table with the fields of the user's `[table]` over it."""
    if not isinstance(row, dict):
        raise InputError(path, "expected a table", field=table)
    return {**(shipped or {}), **row}


def named(name: str, what: str, path: Path) -> None:
    """Refuse a table's name that could not be an option's value or an account's."""
    if not _NAME.fullmatch(name):
        raise InputError(path, f"{what} name has letters, digits, dots, - and _ only", field=name)


def secret_name(key: str) -> bool:
    """Whether a field of this name could only hold a key."""
    return _SECRET.fullmatch(key) is not None


def refuse_secrets(table: str, row: Mapping[str, Any], path: Path) -> None:
    """A key has no place among the fields of `[table]`, nor among its request parameters."""
    params = row.get("params")
    for key in (*row, *(params if isinstance(params, dict) else ())):
        if secret_name(key):
            raise field_error(path, table, key, KEYS_COME)


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

"""Finds the fields we mean in files that call them differently.

Names are compared without regard to case, spaces and hyphens; of several names that fit, the one that
stands first in ALIASES wins. What no alias covers is mapped by the user: `--field fused_query=OQ`, or
`--field answer=result.text` for a field inside an object. A mapping binds the queries or candidates file;
the gold file follows it where it has such a field, and strictly where it is written `gold.fused_query=OQ`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from cts_async.datasets.rows import Row
from cts_async.errors import InputError, UsageError

ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "id": ("id", "query_id", "qid", "item_id", "instance_id", "example_id", "sample_id", "idx", "index"),
    "fused_query": (
        *("fused_query", "fused", "query_fused", "fusedquery", "intent_query", "query_intent"),
        *("clear_query", "oq", "intent"),
    ),
    "blurred_query": (
        *("blurred_query", "blurred", "query_blurred", "blurredquery", "blur_query"),
        *("underspecified_query", "ambiguous_query", "bq"),
    ),
    "answer": (
        *("answer", "candidate_answer", "candidate", "final_answer", "model_answer", "prediction"),
        *("pred", "output", "response"),
    ),
    "questions": (
        *("questions", "clarification_questions", "clarifying_questions", "cqs", "clarification_question"),
        *("clarifying_question", "question", "cq"),
    ),
    "answers": (
        *("answers", "ua_answers", "user_answers", "clarification_answers", "answer", "ua_answer"),
        *("user_answer", "clarification_answer"),
    ),
    "gold": ("gold", "gold_json", "nuggets", "gold_nuggets", "golden_nuggets"),
    "nugget_id": ("id", "nugget_id", "nid"),
    "nugget_text": ("text", "nugget", "content", "nugget_text", "statement"),
    "nugget_weight": ("weight", "w", "importance", "nugget_weight"),
    "source_ids": ("source_ids", "sources", "source_id"),
}
"""Canonical field -> the names it goes by, best first."""

PLAIN_QUERY: Final = ("query", "question")
GOLD_PREFIX: Final = "gold."
_MANY: Final = 30


class Fields:
    """The canonical fields of one file's rows.

    `bound` maps canonical fields to the file's own names, which must be there; `tried` does the same but
    falls back on the aliases. With `plain_query` a field called just `query` or `question` may be the
    fused query, for files that hold no other.
    """

    def __init__(
        self,
        path: Path,
        bound: Mapping[str, str] | None = None,
        *,
        tried: Mapping[str, str] | None = None,
        plain_query: bool = False,
    ) -> None:
        self.path = path
        self._bound = bound or {}
        self._tried = tried or {}
        self._plain_query = plain_query
        self._shapes: dict[tuple[str, ...], dict[str, str]] = {}
        # Several fields of one row are asked for in turn: its shape is looked up once.
        self._row: Row = {}
        self._shape: dict[str, str] = {}

    @classmethod
    def of_data(cls, path: Path, mapping: Mapping[str, str] | None, *, plain_query: bool = False) -> Fields:
        """The fields of a queries or candidates file under the user's mapping."""
        return cls(path, _split(mapping)[0], plain_query=plain_query)

    @classmethod
    def of_gold(cls, path: Path, mapping: Mapping[str, str] | None) -> Fields:
        """The fields of a gold file: `gold.` mappings bind it, the others are tried."""
        data, gold = _split(mapping)
        return cls(path, gold, tried=data, plain_query=True)

    def names(self, row: Row) -> Mapping[str, str]:
        """What this row calls each field that it has."""
        if row is not self._row:
            self._row, self._shape = row, self._shape_of(row)
        return self._shape

    def name(self, row: Row, field: str, line: int) -> str | None:
        """What this row calls `field`; None if it has none. InputError if a mapped name is not there."""
        found = self.names(row).get(field)
        if found is None and field in self._bound:
            raise self.missing(row, field, line)
        return found

    def value(self, row: Row, field: str, line: int) -> object:
        """The value of `field`; None where it is absent or null."""
        name = self.name(row, field, line)
        if name is None:
            return None
        return row[name] if name in row else _walk(row, name)

    def text(self, row: Row, field: str, line: int) -> str:
        """The value of a field that must be there as non-empty text; outer white space is removed."""
        text = self.text_or_none(row, field, line)
        if text is None:
            raise self.missing(row, field, line)
        if not text:
            raise InputError(self.path, "is empty", line=line, field=self.name(row, field, line))
        return text

    def text_or_none(self, row: Row, field: str, line: int) -> str | None:
        """Like `text`, but None where the field is absent or null, and possibly empty."""
        value = self.value(row, field, line)
        if value is None:
            return None
        if not isinstance(value, str):
            problem = f"must be text, is {kind_of(value)}"
            raise InputError(self.path, problem, line=line, field=self.name(row, field, line))
        return value.strip()

    def identifier(self, row: Row, line: int, field: str = "id") -> str | None:
        """An id as text, whole numbers included; None where it is absent, null or empty."""
        value = self.value(row, field, line)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, str | int):
            problem = f"must be text or a whole number, is {kind_of(value)}"
            raise InputError(self.path, problem, line=line, field=self.name(row, field, line))
        return str(value).strip() or None

    def missing(self, row: Row, field: str, line: int) -> InputError:
        """The error for a needed field that this row does not have; lists those it has."""
        if (name := self._shapes.get(tuple(row), {}).get(field)) is not None:
            return InputError(self.path, "is null", line=line, field=name)
        if (theirs := self._bound.get(field)) is not None:
            problem = f"there is no {theirs!r}, which is mapped to it; the fields here are {listed(row)}"
        else:
            problem = f"is missing; the fields here are {listed(row)} (map one with --field {field}=NAME)"
        return InputError(self.path, problem, line=line, field=field)

    def _shape_of(self, row: Row) -> dict[str, str]:
        names = tuple(row)
        shape = self._shapes.get(names)
        if shape is None:
            if len(self._shapes) >= 64:
                self._shapes.clear()
            shape = self._shapes[names] = self._resolve(names)
        return shape

    def _resolve(self, names: tuple[str, ...]) -> dict[str, str]:
        folded = {_fold(name): name for name in reversed(names)}
        found = {field: self._find(field, names, folded) for field in ALIASES}
        return {field: name for field, name in found.items() if name is not None}

    def _find(self, field: str, names: tuple[str, ...], folded: Mapping[str, str]) -> str | None:
        if field in self._bound:
            return _mapped(self._bound[field], names, folded)
        if field in self._tried and (found := _mapped(self._tried[field], names, folded)):
            return found
        plain = PLAIN_QUERY if field == "fused_query" and self._plain_query else ()
        return next((folded[alias] for alias in (*ALIASES[field], *plain) if alias in folded), None)


def check_mapping(mapping: Mapping[str, str]) -> None:
    """UsageError if a mapping names a field that nothing here reads, or maps it to nothing."""
    for field, name in mapping.items():
        if field.removeprefix(GOLD_PREFIX) not in ALIASES:
            raise UsageError(f"--field {field}={name}: unknown field; the fields are {', '.join(ALIASES)}")
        if not name.strip():
            raise UsageError(f"--field {field}=: the file's own name is missing")


def _split(mapping: Mapping[str, str] | None) -> tuple[dict[str, str], dict[str, str]]:
    mapping = mapping or {}
    check_mapping(mapping)
    data = {field: name for field, name in mapping.items() if not field.startswith(GOLD_PREFIX)}
    gold = {
        field.removeprefix(GOLD_PREFIX): name
        for field, name in mapping.items()
        if field.startswith(GOLD_PREFIX)
    }
    return data, gold


_NO_ERROR: Final = frozenset({"", "false", "none", "null", "nan"})
"""How programs write into a table that there was no error; the scorer has the same words."""


def says_error(value: object) -> bool:
    """Whether what stands in a field `error` tells of one."""
    return value.strip().casefold() not in _NO_ERROR if isinstance(value, str) else bool(value)


def listed(names: Iterable[str]) -> str:
    """Name fields for a person: quoted, in order, the first thirty."""
    quoted = [repr(name if len(name) <= 40 else name[:39] + "…") for name in names]
    more = f" and {len(quoted) - _MANY} more" if len(quoted) > _MANY else ""
    return (", ".join(quoted[:_MANY]) or "none at all") + more


def short(value: object, most: int = 60) -> str:
    """Quote what stands in a file for a person: however long it is, at most about `most` characters of it."""
    if isinstance(value, str):
        return repr(value if len(value) <= most else value[: most - 1] + "…")
    quoted = repr(value)
    return quoted if len(quoted) <= most else quoted[: most - 1] + "…"


def kind_of(value: object) -> str:
    """What a JSON value is, for a sentence: "a number", "a list", ..."""
    if isinstance(value, bool):
        return "true or false"
    kinds: dict[type, str] = {
        str: "text",
        int: "a number",
        float: "a number",
        list: "a list",
        dict: "an object",
    }
    return kinds.get(type(value), "null")


def _fold(name: str) -> str:
    return name.strip().casefold().replace(" ", "_").replace("-", "_")


def _mapped(theirs: str, names: tuple[str, ...], folded: Mapping[str, str]) -> str | None:
    if theirs in names:
        return theirs
    if theirs.partition(".")[0] in names and "." in theirs:
        return theirs
    return folded.get(_fold(theirs))


def _walk(row: Row, dotted: str) -> object:
    value: object = row
    for part in dotted.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value

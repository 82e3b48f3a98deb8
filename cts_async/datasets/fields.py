"""Finds the canonical fields in files that use other names for them.

Names are compared without regard to case, spaces and hyphens; if several fit, the first one in ALIASES wins. The user
maps what no alias covers: `--field fused_query=OQ`, or `--field answer=result.text` for a field inside an object. A
mapping binds the queries or candidates file; the gold file follows it where it has such a field, and is bound by
`gold.fused_query=OQ`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from cts_async.datasets.io import Row
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
"""Canonical field -> the names that it may have, preferred ones first."""

PLAIN_QUERY: Final = ("query", "question")
GOLD_PREFIX: Final = "gold."
_MANY: Final = 30


class Fields:
    """The canonical fields of one file's rows, or of objects inside them.

    `bound` maps canonical fields to the file's own names, which must be there; `tried` does so but falls back on the
    aliases. With `plain_query` a field called `query` or `question` may be the fused query. Methods raise InputError;
    `within` is the path of the object inside its row ("gold.nuggets[0].").
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
        # Several fields are read of each row: its shape is looked up once.
        self._row: Row = {}
        self._shape: dict[str, str] = {}

    @classmethod
    def of_data(cls, path: Path, mapping: Mapping[str, str] | None, *, plain_query: bool = False) -> Fields:
        """Return the fields of a queries or candidates file under the user's mapping."""
        return cls(path, _split(mapping)[0], plain_query=plain_query)

    @classmethod
    def of_gold(cls, path: Path, mapping: Mapping[str, str] | None) -> Fields:
        """Return the fields of a gold file: `gold.` mappings bind it, the others are tried."""
        data, gold = _split(mapping)
        return cls(path, gold, tried=data, plain_query=True)

    def names(self, row: Row) -> Mapping[str, str]:
        """Return this row's own name of each field that it has."""
        if row is not self._row:
            self._row, self._shape = row, self._shape_of(row)
        return self._shape

    def name(self, row: Row, field: str, line: int, within: str = "") -> str | None:
        """Return this row's own name of `field`, None if it has none; a mapped name must be there."""
        found = self.names(row).get(field)
        if found is None and field in self._bound:
            raise self.missing(row, field, line, within)
        return found

    def value(self, row: Row, field: str, line: int, within: str = "") -> object:
        """Return the value of `field`; None if it is absent or null."""
        name = self.name(row, field, line, within)
        if name is None:
            return None
        return row[name] if name in row else _walk(row, name)

    def text(self, row: Row, field: str, line: int, within: str = "") -> str:
        """Return the value of a field that must be non-empty text, stripped."""
        text = self.text_or_none(row, field, line, within)
        if text is None:
            raise self.missing(row, field, line, within)
        if not text:
            raise self.error(row, field, line, "is empty", within)
        return text

    def text_or_none(self, row: Row, field: str, line: int, within: str = "") -> str | None:
        """Return the value of a text field, stripped and possibly empty; None if it is absent or null."""
        value = self.value(row, field, line, within)
        if value is None:
            return None
        if not isinstance(value, str):
            raise self.error(row, field, line, f"must be text, is {kind_of(value)}", within)
        return value.strip()

    def identifier(self, row: Row, line: int, field: str = "id", within: str = "") -> str | None:
        """Return an id (text or a whole number) as text; None if it is absent, null or empty."""
        value = self.value(row, field, line, within)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, str | int):
            problem = f"must be text or a whole number, is {kind_of(value)}"
            raise self.error(row, field, line, problem, within)
        return str(value).strip() or None

    def error(self, row: Row, field: str, line: int, problem: str, within: str = "") -> InputError:
        """Return the error for a bad value, under the row's own name of the field."""
        return InputError(self.path, problem, line=line, field=within + self.names(row).get(field, field))

    def missing(self, row: Row, field: str, line: int, within: str = "") -> InputError:
        """Return the error for a required field that this row does not have; it lists those it has."""
        if (name := self._shapes.get(tuple(row), {}).get(field)) is not None:
            return InputError(self.path, "is null", line=line, field=within + name)
        if (theirs := self._bound.get(field)) is not None:
            problem = f"there is no {theirs!r}, which is mapped to it; the fields here are {listed(row)}"
        else:
            problem = f"is missing; the fields here are {listed(row)} (map one with --field {field}=NAME)"
        return InputError(self.path, problem, line=line, field=within + field)

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
    """Raise UsageError if a mapping has an unknown field, or maps one to an empty name."""
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
"""What programs write into a table if there was no error; the scorer has the same words."""


def says_error(value: object) -> bool:
    """True if the value of a field `error` reports one."""
    return value.strip().casefold() not in _NO_ERROR if isinstance(value, str) else bool(value)


def listed(names: Iterable[str]) -> str:
    """Return the names of fields for a message: quoted, in order, the first thirty."""
    quoted = [repr(name if len(name) <= 40 else name[:39] + "…") for name in names]
    more = f" and {len(quoted) - _MANY} more" if len(quoted) > _MANY else ""
    return (", ".join(quoted[:_MANY]) or "none at all") + more


def short(value: object, most: int = 60) -> str:
    """Return a value of a file quoted for a message, cut to about `most` characters."""
    if isinstance(value, str):
        return repr(value if len(value) <= most else value[: most - 1] + "…")
    quoted = repr(value)
    return quoted if len(quoted) <= most else quoted[: most - 1] + "…"


def kind_of(value: object) -> str:
    """Return the kind of a JSON value for a message: "a number", "a list", ..."""
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

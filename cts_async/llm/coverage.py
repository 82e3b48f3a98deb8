"""The judge's reply: a coverage label for every nugget, read strictly."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, cast

import orjson

from cts_async.errors import UnusableOutput
from cts_async.llm.json_text import FoundJson, find_json, loads_or_none, split_thoughts, strip_thoughts
from cts_async.llm.parsing import PHRASES, literal, object_schema
from cts_async.records import COVERAGES, Coverage

MAX_NAMED: Final = 5
"""The most ids that are named in one problem."""


@dataclass(frozen=True, slots=True)
class CoverageList:
    """The judge's reply: `{"results": [{"id", "coverage"}]}` with every id of `ids` exactly once.

    Parses to (id, label) pairs in the order of `ids`, which must be distinct and not empty (ValueError). A bare array
    and a mapping `{"N1": "full"}` are accepted; case and space of a label do not matter. Anything missing, repeated,
    unknown or other than full, partial, none is a problem, never a label.

    A hostile candidate answer may contain a finished verdict, in the hope that the judge quotes it. So the reply has
    to be the verdict and nothing else: one JSON value, perhaps in a code fence, with each label once, after no more
    than a phrase that announces it (`_ANNOUNCEMENT`). Any other text around the JSON may be the judge's verdict in
    words, and the JSON only a quotation. So may a fence that is labelled with anything but a format (```quote).
    """

    # Unguessable ids instead of N1, N2, ... would change the key of every judging step and cost small judges accuracy:
    # of 72 easy labels, a model of 0.5 billion parameters got 62 right with plain ids, 56 with four hexadecimal digits.

    ids: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.ids or len(set(self.ids)) != len(self.ids):
            raise ValueError(f"nugget ids must be distinct and not empty: {self.ids!r}")

    @property
    def json_schema(self) -> dict[str, Any]:
        return _constraints(self.ids)[0]

    @property
    def grammar(self) -> str:
        """One line of JSON with fixed ids in a fixed order, where only the labels are free."""
        return _constraints(self.ids)[1]

    def parse(self, text: str) -> tuple[tuple[str, Coverage], ...]:
        ids = self.ids
        value = loads_or_none(text)
        # As counted, no key occurs twice: a parser silently takes the last.
        unique = text.count('"coverage"') == len(ids) and text.count('"results"') == 1 and "\\" not in text
        if unique and (exact := _exact_pairs(value, ids)) is not None:
            return exact
        found = _only_json(value if isinstance(value, str) else text)
        labels: dict[str, Coverage | None] = {}
        repeated: list[str] = []
        for key, label in _rows(found, text):
            if key in labels:
                repeated.append(key)
            labels[key] = _LABELS.get(label) or _label(label) if isinstance(label, str) else None
        if repeated or labels.keys() != frozenset(ids) or None in labels.values():
            raise UnusableOutput(_coverage_problem(ids, labels, repeated), text=text)
        if _labels_in(found, ids) > len(ids):
            raise UnusableOutput(f"{_ONLY_ONCE}, got more labels than ids", text=text)
        pairs = tuple([(key, labels[key]) for key in ids])
        return cast(tuple[tuple[str, Coverage], ...], pairs)


def _exact_pairs(value: Any, ids: tuple[str, ...]) -> tuple[tuple[str, Coverage], ...] | None:
    """The pairs of a reply in exactly the expected form and order; None for any other."""
    try:
        pairs = [(item["id"], _LABELS[item["coverage"]]) for item in value["results"]]
    except (TypeError, KeyError):
        return None
    return tuple(pairs) if len(value) == 1 and tuple([key for key, _ in pairs]) == ids else None


_ONLY_ONCE: Final = "expected the results once, as JSON and nothing else"
_ANNOUNCEMENT: Final = re.compile(PHRASES["announcement"], re.IGNORECASE | re.VERBOSE)
_FORMATS: Final = frozenset(PHRASES["fence_labels"])
_END: Final = re.compile(r"[\s`~.。]*")
_WORD: Final = re.compile(r"\w+")


def _only_json(text: str) -> FoundJson:
    """The JSON in a reply that consists of it. Raises UnusableOutput if there is other text that may have a meaning.

    Thoughts count as such at the very beginning only: further on, their tags may be quoted.
    """
    reply = split_thoughts(text)[1].strip("\ufeff \t\r\n")
    found = find_json(reply)
    alone = found.source == reply or (
        strip_thoughts(reply) == reply
        and found.label.lower() in _FORMATS
        and _ANNOUNCEMENT.fullmatch(found.before)
        and _END.fullmatch(found.after)
    )
    if not alone:
        raise UnusableOutput(f"{_ONLY_ONCE}, got other text beside it", text=text)
    return found


def _labels_in(found: FoundJson, ids: tuple[str, ...]) -> int:
    """The number of labels in the JSON, as values; in broken JSON one too many if it has other words.

    The repair may have dropped something that those words show.
    """
    if found.repaired:
        words = [_WORD.findall(_folded(text)) for text in (found.source, " ".join(ids))]
        own = set(words[0]) - {"results", "id", "coverage", *COVERAGES, *words[1]}
        return len(ids) + 1 if own else sum(word in _LABELS for word in words[0])
    # As pairs, so that a key that occurs twice is counted twice.
    waiting: list[Any] = [_as_pairs(found.source)]
    n = 0
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            n += _label(value) is not None
        elif isinstance(value, tuple):
            key, inner = value
            waiting += [inner] if key != "id" else []
        elif isinstance(value, list):
            waiting += value
    return n


_LABELS: Final[dict[str, Coverage]] = {label: label for label in COVERAGES}


def _label(text: str) -> Coverage | None:
    return _LABELS.get(_folded(text).strip())


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _rows(found: FoundJson, text: str) -> Iterable[tuple[str, object]]:
    """The (id, label) pairs of any of the accepted forms, in the order given."""
    value: Any = found.value
    if isinstance(value, dict) and "results" in value:
        if len(value) > 1:  # the results may be a quotation, and the verdict may follow
            raise UnusableOutput(f"{_ONLY_ONCE}, got other keys beside results", text=text)
        value = value["results"]
    if isinstance(value, dict):
        if value.keys() >= {"id", "coverage"}:
            return [(_id(value["id"]), value["coverage"])]
        return _mapping_rows(found)
    try:
        return [(_id(item["id"]), item.get("coverage")) for item in value]
    except (TypeError, KeyError, AttributeError):
        problem = 'expected {"results": [{"id": ..., "coverage": ...}, ...]}'
        raise UnusableOutput(f"{problem}, got an item without an id", text=text) from None


def _mapping_rows(found: FoundJson) -> list[tuple[str, object]]:
    """A mapping's pairs, also those of a key that occurs twice unless the JSON had to be repaired."""
    value: Any = found.value
    pairs = list(value.items()) if found.repaired else _as_pairs(found.source)
    if len(pairs) == 1 and pairs[0][0] == "results":
        results = pairs[0][1]
        pairs = list(results.items()) if isinstance(results, dict) else results
    return [(_id(key), label) for key, label in pairs]


def _as_pairs(source: str) -> Any:
    """Valid JSON with its objects as lists of pairs, and integers of any length as floats."""
    # Python refuses to convert more than 4,300 digits to an integer, which orjson reads.
    return json.loads(source, object_pairs_hook=list, parse_int=float)


def _id(value: object) -> str:
    if isinstance(value, str):
        return value.strip()
    return str(value) if isinstance(value, int) else orjson.dumps(value).decode()


def _coverage_problem(ids: tuple[str, ...], labels: dict[str, Coverage | None], repeated: list[str]) -> str:
    """All problems with the labels, in one sentence."""
    known = frozenset(ids)
    problems = [
        _named("missing ids", [key for key in ids if key not in labels]),
        _named("unknown ids", [key for key in labels if key not in known]),
        _named("ids given more than once", list(dict.fromkeys(repeated))),
        _named(
            "coverage is not full, partial or none for", [k for k in ids if k in labels and not labels[k]]
        ),
    ]
    return "expected every id exactly once; " + "; ".join(problem for problem in problems if problem)


def _named(what: str, ids: list[str]) -> str:
    """`what: a, b and 3 more`; "" for no ids."""
    shown = ", ".join(key if len(key) <= 40 else key[:39] + "…" for key in ids[:MAX_NAMED])
    more = f" and {len(ids) - MAX_NAMED} more" if len(ids) > MAX_NAMED else ""
    return f"{what}: {shown}{more}" if ids else ""


@lru_cache(maxsize=256)
def _constraints(ids: tuple[str, ...]) -> tuple[dict[str, Any], str]:
    """The JSON schema and the grammar of the labels for `ids`."""
    item = object_schema({"id": {"enum": list(ids)}, "coverage": {"enum": list(COVERAGES)}})
    results = {"type": "array", "items": item, "minItems": len(ids), "maxItems": len(ids)}
    heads = ['{"id":' + orjson.dumps(key).decode() + ',"coverage":"' for key in ids]
    opening = ['{"results":[' + heads[0], *('"},' + head for head in heads[1:])]
    rule = " label ".join(literal(part) for part in [*opening, '"}]}'])
    labels = " | ".join(f'"{label}"' for label in COVERAGES)
    return object_schema({"results": results}), f"root ::= {rule}\nlabel ::= {labels}\n"

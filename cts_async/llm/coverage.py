"""The judge's reply, read strictly: a coverage label for every nugget, or whether two answers are the same."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, cast

import orjson

from cts_async.errors import UnusableOutput, cut_end
from cts_async.llm.json_text import FoundJson, find_json, loads_or_none, split_thoughts, strip_thoughts
from cts_async.llm.parsing import PHRASES, literal, object_schema
from cts_async.records import COVERAGES, Coverage

MAX_NAMED: Final = 5
"""The most ids that are named in one problem."""
MAX_ID_CHARS: Final = 40
"""Characters of an id that are shown: a reply may name any."""


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
        # On the way of every call: nearly all replies end here.
        usual = _usual_form(ids).fullmatch(text)
        if usual is not None:
            usual_labels: Any = usual.groups()  # the pattern has no others
            return tuple(zip(ids, usual_labels, strict=True))
        value = loads_or_none(text)
        # Items may have further keys, such as a reason. As counted, none of ours occurs twice: a parser silently takes
        # the last.
        unique = text.count('"coverage"') == len(ids) and text.count('"results"') == 1 and "\\" not in text
        if unique:
            exact = _exact_pairs(value, ids)
            if exact is not None:
                return exact
        if isinstance(value, str):  # JSON that was written as JSON once more
            verdict = _only_json(value)
        else:
            verdict = _only_json(text)
        labels: dict[str, Coverage | None] = {}
        repeated: list[str] = []
        for key, label in _id_label_pairs(verdict, text):
            if key in labels:
                repeated.append(key)
            labels[key] = _label(label)
        if repeated or labels.keys() != frozenset(ids) or None in labels.values():
            raise UnusableOutput(_coverage_problem(ids, labels, repeated), text=text)
        if _count_labels(verdict, ids) > len(ids):
            raise UnusableOutput(f"{_ONLY_ONCE}, got more labels than ids", text=text)
        pairs = tuple([(key, labels[key]) for key in ids])
        return cast(tuple[tuple[str, Coverage], ...], pairs)


@lru_cache(maxsize=256)
def _usual_form(ids: tuple[str, ...]) -> re.Pattern[str]:
    """A reply in exactly the expected form and order, with any white space; its groups are the labels."""
    items: list[list[str]] = []
    for key in ids:
        name = re.escape(orjson.dumps(key).decode())
        items.append([r"\{", '"id"', ":", name, ",", '"coverage"', ":", _ANY_LABEL, r"\}", ","])
    items[-1].pop()
    tokens = [r"\{", '"results"', ":", r"\["]
    for item in items:
        tokens += item
    tokens += [r"\]", r"\}"]
    return re.compile(_SPACE + _SPACE.join(tokens) + _SPACE)


def _exact_pairs(value: Any, ids: tuple[str, ...]) -> tuple[tuple[str, Coverage], ...] | None:
    """The pairs of a reply in the expected order, whose items may have further keys; None for any other."""
    try:
        pairs = [(item["id"], _LABELS[item["coverage"]]) for item in value["results"]]
    except (TypeError, KeyError):
        return None
    if len(value) == 1 and tuple([key for key, _ in pairs]) == ids:
        return tuple(pairs)
    return None


_SPACE: Final = r"[ \t\r\n]*+"
_ANY_LABEL: Final = f'"({"|".join(COVERAGES)})"'
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
    verdict = find_json(reply)
    if verdict.source != reply and not (strip_thoughts(reply) == reply and _is_announced(verdict)):
        raise UnusableOutput(f"{_ONLY_ONCE}, got other text beside it", text=text)
    return verdict


def _is_announced(verdict: FoundJson) -> bool:
    """True if the text around the JSON can mean no more than that it is the verdict."""
    if verdict.label.lower() not in _FORMATS:
        return False
    return bool(_ANNOUNCEMENT.fullmatch(verdict.before) and _END.fullmatch(verdict.after))


def _count_labels(verdict: FoundJson, ids: tuple[str, ...]) -> int:
    """The number of labels in the JSON, as values; in broken JSON one too many if it has other words."""
    if verdict.repaired:
        words = _WORD.findall(_folded(verdict.source))
        expected = {"results", "id", "coverage", *COVERAGES, *_WORD.findall(_folded(" ".join(ids)))}
        if not expected.issuperset(words):
            # The repair may have dropped something that the other words show.
            return len(ids) + 1
        return sum(word in _LABELS for word in words)
    # As pairs, so that a key that occurs twice is counted twice.
    waiting: list[Any] = [_as_pairs(verdict.source)]
    n_labels = 0
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            n_labels += _label(value) is not None
        elif isinstance(value, tuple):
            key, inner = value
            # An id is no label, also where it is spelled like one.
            if key != "id":
                waiting.append(inner)
        elif isinstance(value, list):
            waiting += value
    return n_labels


@dataclass(frozen=True, slots=True)
class SameEntity:
    """The judge's reply on one answer: `{"same_entity": "yes"}` or `"no"`; parses to True for yes.

    As with `CoverageList` the reply has to be the verdict and nothing else, given once, in any case and width. The word
    alone is accepted, too. Anything else is a problem: neither a part of a sentence nor a failed reply is ever a "no".
    """

    @property
    def json_schema(self) -> dict[str, Any]:
        return object_schema({_SAME: {"enum": list(_VERDICTS)}})

    @property
    def grammar(self) -> str:
        return (
            f"root ::= {literal(_SAME_BEFORE)} verdict {literal(_SAME_AFTER)}\nverdict ::= {_VERDICT_RULE}\n"
        )

    def parse(self, text: str) -> bool:
        reply = split_thoughts(text)[1].strip("\ufeff \t\r\n")
        word = _folded(reply).strip(_AROUND_WORD)
        if word in _VERDICTS:
            return _VERDICTS[word]
        found = _only_json(text)
        verdict = None
        if isinstance(found.value, dict) and not found.repaired:
            # As pairs: a key that occurs twice is two verdicts, of which a parser silently takes the last.
            pairs = _as_pairs(found.source)
            if len(pairs) == 1 and pairs[0][0] == _SAME and isinstance(pairs[0][1], str):
                verdict = _VERDICTS.get(_folded(pairs[0][1]).strip())
        if verdict is None:
            raise UnusableOutput(
                f'expected {{"{_SAME}": "yes"}} or {{"{_SAME}": "no"}} and nothing else', text=text
            )
        return verdict


_SAME: Final = "same_entity"
_VERDICTS: Final[dict[str, bool]] = {"yes": True, "no": False}
_VERDICT_RULE: Final = " | ".join(f'"{word}"' for word in _VERDICTS)
_SAME_BEFORE: Final = '{"' + _SAME + '":"'
_SAME_AFTER: Final = '"}'
_AROUND_WORD: Final = " \t\r\n.。!\"'*`"
_LABELS: Final[dict[str, Coverage]] = {label: label for label in COVERAGES}


def _label(value: object) -> Coverage | None:
    """The label that a value is, in any case and width; None for anything else."""
    if not isinstance(value, str):
        return None
    return _LABELS.get(value) or _LABELS.get(_folded(value).strip())


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _id_label_pairs(verdict: FoundJson, text: str) -> Iterable[tuple[str, object]]:
    """The (id, label) pairs of any of the accepted forms, in the reply's order."""
    value: Any = verdict.value
    if isinstance(value, dict) and "results" in value:
        if len(value) > 1:  # the results may be a quotation, and the verdict may follow
            raise UnusableOutput(f"{_ONLY_ONCE}, got other keys beside results", text=text)
        value = value["results"]
    if isinstance(value, dict):
        if value.keys() >= {"id", "coverage"}:  # one nugget, whose object stands for the list
            return [(_id(value["id"]), value["coverage"])]
        return _mapping_pairs(verdict)
    try:
        return [(_id(item["id"]), item.get("coverage")) for item in value]
    except (TypeError, KeyError, AttributeError):
        problem = 'expected {"results": [{"id": ..., "coverage": ...}, ...]}'
        raise UnusableOutput(f"{problem}, got an item without an id", text=text) from None


def _mapping_pairs(verdict: FoundJson) -> list[tuple[str, object]]:
    """A mapping's pairs, also those of a key that occurs twice unless the JSON had to be repaired."""
    if verdict.repaired:
        pairs = list(cast(dict[str, Any], verdict.value).items())
    else:
        pairs = _as_pairs(verdict.source)
    if len(pairs) == 1 and pairs[0][0] == "results":
        pairs = pairs[0][1]
        if isinstance(pairs, dict):
            pairs = list(pairs.items())
    return [(_id(key), label) for key, label in pairs]


def _as_pairs(source: str) -> Any:
    """Valid JSON with its objects as lists of pairs, and integers of any length as floats."""
    # Python refuses to convert more than 4,300 digits to an integer, which orjson reads.
    return json.loads(source, object_pairs_hook=list, parse_int=float)


def _id(value: object) -> str:
    if isinstance(value, str):
        return value.strip()
    # Not by orjson, which refuses integers beyond 64 bits.
    if isinstance(value, int):
        return str(value)
    return orjson.dumps(value).decode()


def _coverage_problem(ids: tuple[str, ...], labels: dict[str, Coverage | None], repeated: list[str]) -> str:
    """All problems with the labels, in one sentence."""
    unlabelled = [key for key in ids if key in labels and not labels[key]]
    problems = {
        "missing ids": [key for key in ids if key not in labels],
        "unknown ids": [key for key in labels if key not in ids],
        "ids given more than once": list(dict.fromkeys(repeated)),
        "coverage is not full, partial or none for": unlabelled,
    }
    texts = [f"{problem}: {_list_ids(keys)}" for problem, keys in problems.items() if keys]
    return "expected every id exactly once; " + "; ".join(texts)


def _list_ids(ids: list[str]) -> str:
    """`a, b and 3 more`."""
    shown = ", ".join(cut_end(key, MAX_ID_CHARS) for key in ids[:MAX_NAMED])
    if len(ids) > MAX_NAMED:
        return f"{shown} and {len(ids) - MAX_NAMED} more"
    return shown


@lru_cache(maxsize=256)
def _constraints(ids: tuple[str, ...]) -> tuple[dict[str, Any], str]:
    """The JSON schema and the grammar of the labels for `ids`."""
    item = object_schema({"id": {"enum": list(ids)}, "coverage": {"enum": list(COVERAGES)}})
    results = {"type": "array", "items": item, "minItems": len(ids), "maxItems": len(ids)}
    between_labels: list[str] = []
    before = '{"results":['
    for key in ids:
        between_labels.append(before + '{"id":' + orjson.dumps(key).decode() + ',"coverage":"')
        before = '"},'
    between_labels.append('"}]}')
    rule = " label ".join(map(literal, between_labels))
    labels = " | ".join(f'"{label}"' for label in COVERAGES)
    return object_schema({"results": results}), f"root ::= {rule}\nlabel ::= {labels}\n"

"""The form of a golden reference: what servers can enforce of it, and how a reply becomes one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

import orjson

from cts_async.errors import UnusableOutput
from cts_async.llm.gbnf import literal
from cts_async.llm.json_text import find_json
from cts_async.protocol.gold_check import WEIGHTS, Gold, check_gold, folded, told
from cts_async.protocol.lexical import terms_of
from cts_async.protocol.sources import NumberedSource
from cts_async.search.terms import sentence_spans

MOST_NUGGETS: Final = 3
"""Of a model that is held to the grammar."""
MOST_QUOTES: Final = 12
QUOTE_CHARS: Final = 160
FEWEST_TERMS: Final = 3
"""A sentence with fewer says too little to be judged by."""

_FIXED_RULES: Final = r"""
weight ::= "1" | "2" | "3"
text ::= "\"" [A-Za-z0-9\u4E00-\u9FFF] [^"\\<\x00-\x1F\x7F]{4,80} "\""
"""


@dataclass(frozen=True, slots=True)
class GoldForm:
    """GOLD JSON over some sources (paper, prompt D); parses to a Gold that `check_gold` finds nothing wrong with.

    The grammar is for a model too small to write nuggets: it chooses them among the sources' own sentences, which are
    grounded by construction and never twice the same, and gives them weights. `sources` is not empty.
    """

    sources: tuple[NumberedSource, ...]
    name: ClassVar[str] = "gold"

    @property
    def json_schema(self) -> dict[str, Any]:
        return _schema([source.id for source in self.sources])

    @property
    def grammar(self) -> str | None:
        """None where no source has a sentence to choose."""
        return _grammar(_quotes(self.sources))

    def parse(self, text: str) -> Gold:
        found = find_json(text)
        if found.cut_off:
            raise UnusableOutput("expected one JSON object, but the reply is cut off", text=text)
        gold, problems = check_gold(found.value, self.sources)
        if problems:
            raise UnusableOutput(told(problems), text=text)
        return gold


def _schema(ids: list[str]) -> dict[str, Any]:
    texts = {"type": "array", "items": {"type": "string"}}
    nugget = {
        "id": {"type": "string", "minLength": 1},
        "text": {"type": "string", "minLength": 1},
        "weight": {"type": "integer", "enum": list(WEIGHTS)},
        "source_ids": {"type": "array", "items": {"enum": ids}, "minItems": 1},
    }
    fields: dict[str, Any] = {
        "query_intent": {"type": "string", "minLength": 1},
        "must_cover": texts,
        "missing_evidence": texts,
        "nuggets": {"type": "array", "items": _object(nugget), "minItems": 1},
        "reference_urls": texts,
        "unsupported_claims": texts,
        "notes": {"type": "string"},
    }
    return _object(fields)


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _quotes(sources: tuple[NumberedSource, ...]) -> list[tuple[str, str]]:
    """Pairs (sentence, id of its source): the sentences that can be nuggets, the sources taking turns."""
    of_each = [_sentences(source.text) for source in sources]
    turns = max((len(sentences) for sentences in of_each), default=0)
    chosen: dict[str, tuple[str, str]] = {}
    for turn in range(turns):
        for source, sentences in zip(sources, of_each, strict=True):
            if turn < len(sentences):
                chosen.setdefault(folded(sentences[turn]), (sentences[turn], source.id))
    return list(chosen.values())[:MOST_QUOTES]


def _sentences(text: str) -> list[str]:
    spans = sentence_spans(text, QUOTE_CHARS)
    sentences = [" ".join(text[start:end].split()) for start, end in spans]
    return [sentence for sentence in sentences if len(terms_of(sentence).content) >= FEWEST_TERMS]


def _grammar(quotes: list[tuple[str, str]]) -> str | None:
    """One line of JSON; nugget i may be any of the sentences i, i + n, i + 2n, ... so that no two are the same."""
    if not quotes:
        return None
    n = min(MOST_NUGGETS, len(quotes))
    nuggets = [literal(f'{{"id":"N{i}","text":') + f" said{i}" for i in range(1, n + 1)]
    opening = literal('{"query_intent":') + " text " + literal(',"must_cover":[') + " text "
    between = ' "," '.join(nuggets)
    closing = literal('],"reference_urls":[],"unsupported_claims":[],"notes":""}')
    head = opening + literal('],"missing_evidence":[],"nuggets":[')
    rules = [f"root ::= {head} {between} {closing}"]
    rules += [f"said{i + 1} ::= {' | '.join(_said(*quote) for quote in quotes[i::n])}" for i in range(n)]
    return "\n".join(rules) + _FIXED_RULES


def _said(sentence: str, source: str) -> str:
    """A nugget from its text on: the sentence is given, only the weight is free."""
    text, id = orjson.dumps(sentence).decode(), orjson.dumps(source).decode()
    return literal(text + ',"weight":') + " weight " + literal(f',"source_ids":[{id}]}}')

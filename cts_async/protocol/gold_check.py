"""What a golden reference is made of and has to be (paper, sections 3.3 and 4.2, prompt D): sources, check, grounding.

A source is one address with all texts that the search found there. Ids S1, S2, ... follow the order in which addresses
first appear, so they do not depend on the budget. A source that does not fit is left out or cut at its end, and the
selection records which ones and how much.

Only mechanical faults of the extractor's reply are repaired, such as a weight written "3", and each repair is recorded.
All other problems are reported to the extractor together, so that it can correct them in one reply.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest
from statistics import fmean
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import orjson

from cts_async.errors import UnusableOutput
from cts_async.llm.json_text import find_json
from cts_async.llm.parsing import literal, object_schema
from cts_async.protocol.judge import spelling, terms_of
from cts_async.protocol.views import NumberedSource
from cts_async.records import Nugget, Source, Turn
from cts_async.search.terms import sentence_spans

# --- Sources: the evidence of a search, within a budget

CUT: Final = " …"
"""Marks the end of a text that was cut."""
PAGE_WEIGHT: Final = 3
"""A page that the agent chose to read counts more than one search result of many."""


@dataclass(frozen=True, slots=True)
class SourceLimits:
    """Limits of the evidence; characters are those of texts, without ids, links and titles."""

    max_sources: int = 60
    chars_per_source: int = 4_000
    total_chars: int = 60_000
    """Some 15,000 tokens of English or 60,000 of Chinese: half of the context of the paper's extractor."""


SMALL: Final = SourceLimits(max_sources=4, chars_per_source=240, total_chars=800)
"""For the embedded model: its context of 4,096 tokens holds little more in Chinese."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The sources that the extractor sees, and what the limits left out."""

    sources: tuple[NumberedSource, ...]
    dropped: tuple[str, ...] = ()
    """Ids left out, least used first."""
    cut: tuple[tuple[str, int], ...] = ()
    """Ids whose text was shortened, with the number of characters cut."""


def collect(turns: Iterable[Turn]) -> tuple[NumberedSource, ...]:
    """All sources of a trace, one for each address (or text without an address), in order of appearance."""
    found: dict[str, list[tuple[int, Source]]] = {}
    for number, turn in enumerate(turns):
        for source in turn.sources:
            if source.text.strip():
                found.setdefault(source_key(source), []).append((number, source))
    return tuple(_evidence(f"S{n}", pieces) for n, pieces in enumerate(found.values(), 1))


def source_key(source: Source) -> str:
    """Distinguishes sources: the address, or without one the text."""
    return _writable(same_address(source.url) or source.text.strip())


def same_address(url: str) -> str:
    """An address normalised for comparison: without fragment and final slash, host in lower case."""
    try:
        parts = urlsplit(url.strip())
    except ValueError:  # a bracket that is no IPv6 address
        return url.strip()
    path = parts.path.rstrip("/")
    return urlunsplit((parts.scheme.lower(), parts.netloc.lower(), path, parts.query, ""))


def select(sources: Sequence[NumberedSource], limits: SourceLimits) -> Selection:
    """The most used sources that fit, in the given order of their ids, each shortened to its share of characters.

    The least used ones are dropped first, among equals the one found longest ago. At least one source is kept, if
    necessary shortened to the whole budget.
    """
    allowed = max(1, min(limits.chars_per_source, limits.total_chars))
    ranked = sorted(sources, key=lambda source: (-source.uses, -source.last))
    chosen_ids: set[str] = set()
    room = limits.total_chars
    for source in ranked[: max(1, limits.max_sources)]:
        size = min(len(source.text), allowed)
        if size <= room:
            chosen_ids.add(source.id)
            room -= size
    chosen = [source for source in sources if source.id in chosen_ids]
    return Selection(
        sources=tuple(_shortened(source, allowed) for source in chosen),
        dropped=tuple(source.id for source in reversed(ranked) if source.id not in chosen_ids),
        cut=tuple((source.id, len(source.text) - allowed) for source in chosen if len(source.text) > allowed),
    )


def source_lines(sources: Sequence[NumberedSource], *, small: bool = False) -> str:
    """The sources as text, one a line, so that no text can pass for another source.

    JSON objects, or with `small` only `S1: text`.
    """
    if small:
        return "\n".join(f"{source.id}: {' '.join(source.text.split())}" for source in sources)
    return "\n".join(orjson.dumps(source_json(source)).decode() for source in sources)


def source_json(source: NumberedSource) -> dict[str, Any]:
    """A source as recorded."""
    return {"id": source.id, "url": source.url, "title": source.title, "text": source.text}


def _evidence(id: str, pieces: Sequence[tuple[int, Source]]) -> NumberedSource:
    sources = [source for _, source in pieces]
    return NumberedSource(
        id=id,
        url=_writable(next((source.url.strip() for source in sources if source.url.strip()), "")),
        title=_writable(next((" ".join(s.title.split()) for s in sources if s.title.strip()), "")),
        text=_writable("\n".join(_distinct([source.text.strip() for source in sources]))),
        uses=sum(PAGE_WEIGHT if source.kind == "page" else 1 for source in sources),
        last=max(number for number, _ in pieces),
    )


def _writable(text: str) -> str:
    """The text with lone surrogates replaced, with which cut texts may end: UTF-8 cannot encode them."""
    return text.encode(errors="replace").decode()


def _distinct(texts: Sequence[str]) -> list[str]:
    """The texts in order, without those contained in another, such as a snippet of a page read later."""
    different = list(dict.fromkeys(texts))
    return [text for text in different if not any(text in other for other in different if other != text)]


def _shortened(source: NumberedSource, most: int) -> NumberedSource:
    if len(source.text) <= most:
        return source
    return replace(source, text=source.text[:most].rstrip() + CUT)


# --- The extractor's reply, checked

WEIGHTS: Final = (1, 2, 3)
"""3: core, 2: important, 1: supplemental (prompt D)."""
MAX_PROBLEMS: Final = 12
"""Problems that are reported to the extractor at once."""
MAX_NAMED: Final = 40
"""Characters of the extractor's text that a problem quotes."""

_WRITTEN_WEIGHTS: Final = {f"{weight}{end}": weight for weight in WEIGHTS for end in ("", ".0")}
_IDS: Final = re.compile(r"[^\s,;，；、\[\]()【】（）]+")
_SINGLE_URL: Final = re.compile(r"https?://\S+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class GoldReference:
    """The golden reference of one intent; the fields are those of the release's `gold` object."""

    query_intent: str
    must_cover: tuple[str, ...]
    missing_evidence: tuple[str, ...]
    nuggets: tuple[Nugget, ...]
    """Weights are 1, 2 or 3; every source id is one of the sources that the extractor was given."""
    reference_urls: tuple[str, ...]
    unsupported_claims: tuple[str, ...]
    notes: str
    repairs: tuple[str, ...] = ()
    """Repairs of the extractor's reply; not a field of the release."""


def check_gold(value: object, sources: Sequence[NumberedSource]) -> tuple[GoldReference, tuple[str, ...]]:
    """Parse an extractor's JSON value; returns the gold and its problems. It is valid only without problems."""
    reader = _Reader(sources)
    if isinstance(value, dict) and isinstance(value.get("gold"), dict):
        value = value["gold"]
    if not isinstance(value, dict):
        return reader.gold({}), ("expected one JSON object with query_intent, nuggets and the other fields",)
    return reader.gold(value), tuple(reader.problems)


def gold_json(gold: GoldReference) -> dict[str, Any]:
    """The `gold` object of the release's format."""
    return {
        "query_intent": gold.query_intent,
        "must_cover": list(gold.must_cover),
        "missing_evidence": list(gold.missing_evidence),
        "nuggets": [
            {"id": n.id, "text": n.text, "weight": int(n.weight), "source_ids": list(n.source_ids)}
            for n in gold.nuggets
        ],
        "reference_urls": list(gold.reference_urls),
        "unsupported_claims": list(gold.unsupported_claims),
        "notes": gold.notes,
    }


class _Reader:
    """Parses one object; collects problems for the extractor, and repairs."""

    def __init__(self, sources: Sequence[NumberedSource]) -> None:
        self._urls = {source.id: source.url for source in sources}
        # Everything that may refer to a source: the id in any case, its number alone, the address.
        self._ids = {source.id.removeprefix("S"): source.id for source in sources}
        self._ids |= {same_address(source.url): source.id for source in reversed(sources) if source.url}
        self._ids |= {source.id.casefold(): source.id for source in sources}
        self.problems: list[str] = []
        self._repaired: dict[str, list[str]] = {}

    def gold(self, value: Mapping[str, Any]) -> GoldReference:
        intent = self._text(value.get("query_intent"), "query_intent")
        if not intent:
            self.problems.append("query_intent is empty")
        must_cover, missing, unsupported = (
            self._texts(value.get(name), name)
            for name in ("must_cover", "missing_evidence", "unsupported_claims")
        )
        nuggets = self._nuggets(value.get("nuggets"))
        return GoldReference(
            query_intent=intent,
            must_cover=must_cover,
            missing_evidence=missing,
            nuggets=nuggets,
            reference_urls=self._reference_urls(value.get("reference_urls"), nuggets),
            unsupported_claims=unsupported,
            notes="\n".join(self._texts(value.get("notes"), "notes")),
            repairs=tuple(f"{what}: {', '.join(where)}" for what, where in self._repaired.items()),
        )

    def _nuggets(self, items: object) -> tuple[Nugget, ...]:
        if not isinstance(items, list) or not items:
            self.problems.append("nuggets must be a list with at least one nugget")
            return ()
        read = [self._nugget(item, f"nuggets[{n}]") for n, item in enumerate(items)]
        nuggets = [nugget for nugget in read if nugget]
        texts: dict[str, Nugget] = {}
        for nugget in nuggets:
            text = letters_only(nugget.text)
            first = texts.setdefault(text, nugget) if text else nugget
            if first is not nugget:
                self.problems.append(
                    f"nuggets {_short(first.id)} and {_short(nugget.id)} say the same; keep one"
                )
        for id, times in Counter(nugget.id for nugget in nuggets if nugget.id).items():
            if times > 1:
                self.problems.append(f"id {_short(id)} is given to {times} nuggets; ids must differ")
        return tuple(nuggets)

    def _nugget(self, item: object, place: str) -> Nugget | None:
        if not isinstance(item, dict):
            self.problems.append(f"{place} is not an object")
            return None
        id = item.get("id")
        if type(id) is int:
            self._note("id written as a number", place)
            id = str(id)
        id = self._text(id, f"{place}: id")
        if not id:
            self.problems.append(f"{place}: id is missing")
        place = f"{place} ({_short(id)})" if id else place
        text = self._text(item.get("text"), f"{place}: text")
        if not letters_only(text):
            self.problems.append(f"{place}: text is empty")
        weight = self._weight(item.get("weight"), place)
        return Nugget(id, text, weight, self._source_ids(item.get("source_ids"), place))

    def _weight(self, value: object, place: str) -> int:
        weight = _WRITTEN_WEIGHTS.get(str(value).strip())
        if weight is None:
            self.problems.append(f"{place}: weight must be 1, 2 or 3, is {_short(value)}")
        elif type(value) is not int:
            self._note(f"weight written as {'text' if isinstance(value, str) else 'a fraction'}", place)
        return weight or 1

    def _source_ids(self, value: object, place: str) -> tuple[str, ...]:
        given = value if isinstance(value, list) else [value]
        words = [word for entry in given if entry is not None for word in _references(entry)]
        ids = {word: self._source(word) for word in words}
        unknown = [_short(word) for word, id in ids.items() if id is None]
        known = tuple(dict.fromkeys(id for id in ids.values() if id is not None))
        if unknown:
            self.problems.append(
                f"{place}: no source is called {', '.join(unknown)} (the sources are {', '.join(self._urls)})"
            )
        elif not known:
            self.problems.append(f"{place}: source_ids is empty; a nugget needs at least one source")
        elif list(known) != value:
            self._note("source_ids put into form", place)
        return known

    def _reference_urls(self, value: object, nuggets: Sequence[Nugget]) -> tuple[str, ...]:
        """The URLs given, spelled as in the sources; without any, the URLs of the cited sources."""
        given = value if isinstance(value, list) else [] if value in (None, "") else [value]
        ids = [self._source(str(url)) for url in given]
        self.problems += [
            f"reference_urls: {_short(one)} is no URL of a source"
            for one, id in zip(given, ids, strict=True)
            if id is None
        ]
        urls = [self._urls[id] for id in ids if id is not None]
        if urls != given:
            self._note("given as the sources spell them", "reference_urls")
        if not given:
            cited = {id for nugget in nuggets for id in nugget.source_ids}
            urls = [url for id, url in self._urls.items() if id in cited]
            self._note("derived from the nuggets' sources", "reference_urls")
        return tuple(dict.fromkeys(url for url in urls if url))

    def _source(self, reference: str) -> str | None:
        """The id of the source that is referred to; None for an unknown one."""
        text = reference.strip()
        return self._ids.get(same_address(text) if _SINGLE_URL.fullmatch(text) else text.casefold())

    def _text(self, value: object, place: str) -> str:
        if value is None:
            return ""
        if not isinstance(value, str):
            self.problems.append(f"{place} must be text, is {_short(value)}")
            return ""
        return _clean(value)

    def _texts(self, value: object, place: str) -> tuple[str, ...]:
        """A list of texts without blank ones; a single text is a list of one."""
        items = value if isinstance(value, list) else [] if value is None else [value]
        if isinstance(value, str) and place != "notes":
            self._note("written as a text, not a list", place)
        texts = [self._text(item, f"{place}[{n}]") for n, item in enumerate(items)]
        return tuple(text for text in texts if text)

    def _note(self, repair: str, place: str) -> None:
        self._repaired.setdefault(repair, []).append(place)


def _references(value: object) -> list[str]:
    """The references in one entry of source_ids: `"S1, S2"` has two."""
    text = str(value).strip()
    is_one = not isinstance(value, str) or _SINGLE_URL.fullmatch(text)
    return [text] if is_one else _IDS.findall(text)


def _clean(text: str) -> str:
    """The text on one line, without control characters and lone surrogates."""
    words = "".join(" " if unicodedata.category(ch) in ("Cc", "Cs") else ch for ch in text)
    return " ".join(words.split())


def letters_only(text: str) -> str:
    """The text without case, width, punctuation and spaces; two nuggets must differ in it."""
    return "".join(ch for ch in unicodedata.normalize("NFKC", text).casefold() if ch.isalnum())


def _short(value: object) -> str:
    text = _clean(value if isinstance(value, str) else repr(value))
    return text if len(text) <= MAX_NAMED else text[: MAX_NAMED - 1] + "…"


# --- The form of the extractor's reply


MOST_NUGGETS: Final = 3
"""Nuggets of a reply that is constrained by the grammar."""
QUOTE_CHARS: Final = 160
FEWEST_TERMS: Final = 3
"""Content terms that a sentence needs to serve as a nugget."""

_FIXED_RULES: Final = r"""
weight ::= "1" | "2" | "3"
text ::= "\"" [A-Za-z0-9\u4E00-\u9FFF] [^"\\<\x00-\x1F\x7F]{4,80} "\""
"""


@dataclass(frozen=True, slots=True)
class GoldForm:
    """GOLD JSON over some sources (paper, prompt D); parses to a Gold without problems. `sources` is not empty.

    The grammar is for a model too small to write nuggets: it gives weights to sentences of the sources, which are
    grounded by construction.
    """

    sources: tuple[NumberedSource, ...]

    @property
    def json_schema(self) -> dict[str, Any]:
        return _schema([source.id for source in self.sources])

    @property
    def grammar(self) -> str | None:
        """None if no source has a suitable sentence."""
        return _grammar(_quotes(self.sources))

    def parse(self, text: str) -> GoldReference:
        found = find_json(text)
        if found.cut_off:
            raise UnusableOutput("expected one JSON object, but the reply is cut off", text=text)
        gold, problems = check_gold(found.value, self.sources)
        if problems:
            more = len(problems) - MAX_PROBLEMS
            rest = f"; and {more} more problems" if more > 0 else ""
            raise UnusableOutput("; ".join(problems[:MAX_PROBLEMS]) + rest, text=text)
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
        "nuggets": {"type": "array", "items": object_schema(nugget), "minItems": 1},
        "reference_urls": texts,
        "unsupported_claims": texts,
        "notes": {"type": "string"},
    }
    return object_schema(fields)


def _quotes(sources: tuple[NumberedSource, ...]) -> list[tuple[str, str]]:
    """Pairs (sentence, source id) of sentences that can be nuggets, taken from the sources in turn, all different."""
    of_each = [[(sentence, source.id) for sentence in _sentences(source.text)] for source in sources]
    chosen: dict[str, tuple[str, str]] = {}
    for quotes in zip_longest(*of_each):
        for quote in filter(None, quotes):
            chosen.setdefault(letters_only(quote[0]), quote)
    return list(chosen.values())[:MOST_NUGGETS]


def _sentences(text: str) -> list[str]:
    spans = sentence_spans(text, QUOTE_CHARS)
    sentences = [" ".join(text[start:end].split()) for start, end in spans]
    return [sentence for sentence in sentences if len(terms_of(sentence).content) >= FEWEST_TERMS]


def _grammar(quotes: list[tuple[str, str]]) -> str | None:
    """One line of JSON in which the intent, what has to be covered and the weights are free."""
    if not quotes:
        return None
    nuggets = []
    for n, (sentence, source) in enumerate(quotes, 1):
        text, id = orjson.dumps(sentence).decode(), orjson.dumps(source).decode()
        opening = literal(f'{{"id":"N{n}","text":{text},"weight":')
        nuggets.append(opening + " weight " + literal(f',"source_ids":[{id}]}}'))
    head = literal('{"query_intent":') + " text " + literal(',"must_cover":[') + " text "
    head += literal('],"missing_evidence":[],"nuggets":[')
    closing = literal('],"reference_urls":[],"unsupported_claims":[],"notes":""}')
    between = ' "," '.join(nuggets)
    return f"root ::= {head} {between} {closing}{_FIXED_RULES}"


# --- Grounding: is each nugget said by the sources it cites?
#
# A nugget has to be traceable to evidence (paper, section 4.2). Its recall is the share of its terms (see `lexical`)
# that occur in its cited sources together. This finds nuggets that were made up or cite the wrong source. It does not
# understand text: a negated or rearranged statement passes, and a nugget in another language than its source fails.

GROUNDED_AT: Final = 0.5
"""Recall from which a nugget counts as grounded, if none of its numbers is missing.

A faithful paraphrase changes one word in four to six, and a nugget names its subject, which a source may name only in
its title: a nugget with half of its words missing is more than a paraphrase.
"""


@dataclass(frozen=True, slots=True)
class Grounding:
    """How far a nugget's cited sources support it.

    `recall` is in [0, 1]; missing terms and numbers occur in no cited source, and are spelled as in the nugget.
    `better_source` is a source that is not cited and alone has a higher recall than all cited ones together.
    """

    id: str
    recall: float
    missing_terms: tuple[str, ...] = ()
    missing_numbers: tuple[str, ...] = ()
    better_source: str | None = None
    better_recall: float | None = None

    @property
    def grounded(self) -> bool:
        """Whether its sources have enough of its terms, and all of its numbers."""
        return self.recall >= GROUNDED_AT and not self.missing_numbers


def ground(nuggets: Sequence[Nugget], sources: Sequence[NumberedSource]) -> tuple[Grounding, ...]:
    """Check every nugget, in order, against the sources it cites; unknown source ids are ignored."""
    found = {source.id: terms_of(f"{source.title}\n{source.text}").every for source in sources}
    return tuple(_ground(nugget, found) for nugget in nuggets)


def _ground(nugget: Nugget, found: Mapping[str, frozenset[str]]) -> Grounding:
    terms = terms_of(nugget.text)
    wanted = terms.content or terms.every
    evidence = frozenset().union(*(found[id] for id in nugget.source_ids if id in found))
    recall = _recall(wanted, evidence)
    better = max(
        ((_recall(wanted, of), id) for id, of in found.items() if id not in nugget.source_ids),
        key=lambda pair: pair[0],
        default=(0.0, ""),
    )
    written = spelling(nugget.text)
    missing = [term for term in written if term not in evidence]
    return Grounding(
        id=nugget.id,
        recall=recall,
        missing_terms=tuple(written[term] for term in missing if term not in terms.numbers),
        missing_numbers=tuple(written[term] for term in missing if term in terms.numbers),
        better_source=better[1] if better[0] > recall else None,
        better_recall=better[0] if better[0] > recall else None,
    )


def _recall(wanted: frozenset[str], found: frozenset[str]) -> float:
    """The share of the terms that are said; 0 without terms: an empty statement is not grounded."""
    return len(wanted & found) / len(wanted) if wanted else 0.0


def grounding_json(checked: Sequence[Grounding]) -> dict[str, Any]:
    """The check as recorded: the mean recall and every nugget's result; `checked` is not empty."""
    return {
        "threshold": GROUNDED_AT,
        "mean": round(fmean(nugget.recall for nugget in checked), 4),
        "ungrounded": [nugget.id for nugget in checked if not nugget.grounded],
        "nuggets": [_json(nugget) for nugget in checked],
    }


def _json(one: Grounding) -> dict[str, Any]:
    """The fields that are not empty, rounded."""
    value = asdict(
        one, dict_factory=lambda pairs: {name: part for name, part in pairs if part not in (None, ())}
    )
    rounded = {name: round(part, 4) for name, part in value.items() if isinstance(part, float)}
    return value | rounded

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
from collections.abc import Iterable, Mapping, Sequence, Set
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
    sources_by_key: dict[str, list[tuple[int, Source]]] = {}
    for number, turn in enumerate(turns):
        for source in turn.sources:
            if source.text.strip():
                sources_by_key.setdefault(source_key(source), []).append((number, source))
    evidence = []
    for n, pieces in enumerate(sources_by_key.values(), 1):
        evidence.append(_evidence(f"S{n}", pieces))
    return tuple(evidence)


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
        if size <= room:  # a later and shorter one may still fit
            chosen_ids.add(source.id)
            room -= size
    chosen, cut = [], []
    for source in sources:
        if source.id in chosen_ids:
            chosen.append(_shortened(source, allowed))
            if len(source.text) > allowed:
                cut.append((source.id, len(source.text) - allowed))
    dropped = [source.id for source in reversed(ranked) if source.id not in chosen_ids]
    return Selection(tuple(chosen), tuple(dropped), tuple(cut))


def source_lines(sources: Sequence[NumberedSource], *, small: bool = False) -> str:
    """The sources as text, one a line, so that no text can pass for another source.

    JSON objects, or with `small` only `S1: text`.
    """
    lines = []
    for source in sources:
        if small:
            lines.append(f"{source.id}: {' '.join(source.text.split())}")
        else:
            lines.append(orjson.dumps(source_json(source)).decode())
    return "\n".join(lines)


def source_json(source: NumberedSource) -> dict[str, Any]:
    """A source as recorded."""
    return {"id": source.id, "url": source.url, "title": source.title, "text": source.text}


def _evidence(id: str, pieces: Sequence[tuple[int, Source]]) -> NumberedSource:
    """One source of its pieces, each with the number of the turn that found it; url and title are the first ones."""
    url = title = ""
    texts, uses, newest_turn = [], 0, 0
    for turn, source in pieces:
        url = url or source.url.strip()
        title = title or " ".join(source.title.split())
        texts.append(source.text.strip())
        uses += PAGE_WEIGHT if source.kind == "page" else 1
        newest_turn = max(newest_turn, turn)
    text = "\n".join(_without_contained(texts))
    return NumberedSource(id, _writable(url), _writable(title), _writable(text), uses, newest_turn)


def _writable(text: str) -> str:
    """The text with lone surrogates replaced, with which cut texts may end: UTF-8 cannot encode them."""
    return text.encode(errors="replace").decode()


def _without_contained(texts: Sequence[str]) -> list[str]:
    """The texts in order, without those contained in another, such as a snippet of a page read later."""
    distinct = list(dict.fromkeys(texts))
    whole = []
    for text in distinct:
        n_containing = sum(text in container for container in distinct)
        if n_containing == 1:  # itself
            whole.append(text)
    return whole


def _shortened(source: NumberedSource, max_chars: int) -> NumberedSource:
    if len(source.text) <= max_chars:
        return source
    return replace(source, text=source.text[:max_chars].rstrip() + CUT)


# --- The extractor's reply, checked

WEIGHTS: Final = (1, 2, 3)
"""3: core, 2: important, 1: supplemental (prompt D)."""
MAX_PROBLEMS: Final = 12
"""Problems that are reported to the extractor at once."""
MAX_NAMED: Final = 40
"""Characters of the extractor's text that a problem quotes."""

_WRITTEN_WEIGHTS: Final = {"1": 1, "2": 2, "3": 3, "1.0": 1, "2.0": 2, "3.0": 3}
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
    nuggets = []
    for nugget in gold.nuggets:
        # The release writes weights as integers.
        weight = int(nugget.weight)
        source_ids = list(nugget.source_ids)
        nuggets.append({"id": nugget.id, "text": nugget.text, "weight": weight, "source_ids": source_ids})
    return {
        "query_intent": gold.query_intent,
        "must_cover": list(gold.must_cover),
        "missing_evidence": list(gold.missing_evidence),
        "nuggets": nuggets,
        "reference_urls": list(gold.reference_urls),
        "unsupported_claims": list(gold.unsupported_claims),
        "notes": gold.notes,
    }


class _Reader:
    """Parses one object; collects problems for the extractor, and repairs."""

    def __init__(self, sources: Sequence[NumberedSource]) -> None:
        self._urls = {source.id: source.url for source in sources}
        # Everything that may refer to a source: its number alone, the address, the id in any case. Where two mean the
        # same words, the later of these counts, and of two sources with one address the first.
        self._ids = {source.id.removeprefix("S"): source.id for source in sources}
        for source in reversed(sources):
            if source.url:
                self._ids[same_address(source.url)] = source.id
        for source in sources:
            self._ids[source.id.casefold()] = source.id
        self.problems: list[str] = []
        self._repaired: dict[str, list[str]] = {}

    def gold(self, value: Mapping[str, Any]) -> GoldReference:
        intent = self._text(value.get("query_intent"), "query_intent")
        if not intent:
            self.problems.append("query_intent is empty")
        # In this order, in which the extractor is told of its mistakes, and repairs are recorded.
        must_cover = self._texts(value.get("must_cover"), "must_cover")
        missing_evidence = self._texts(value.get("missing_evidence"), "missing_evidence")
        unsupported_claims = self._texts(value.get("unsupported_claims"), "unsupported_claims")
        nuggets = self._nuggets(value.get("nuggets"))
        reference_urls = self._reference_urls(value.get("reference_urls"), nuggets)
        notes = "\n".join(self._texts(value.get("notes"), "notes"))
        repairs = [f"{repair}: {', '.join(places)}" for repair, places in self._repaired.items()]
        return GoldReference(
            query_intent=intent,
            must_cover=must_cover,
            missing_evidence=missing_evidence,
            nuggets=nuggets,
            reference_urls=reference_urls,
            unsupported_claims=unsupported_claims,
            notes=notes,
            repairs=tuple(repairs),
        )

    def _nuggets(self, items: object) -> tuple[Nugget, ...]:
        if not isinstance(items, list) or not items:
            self.problems.append("nuggets must be a list with at least one nugget")
            return ()
        nuggets: list[Nugget] = []
        for n, item in enumerate(items):
            nugget = self._nugget(item, f"nuggets[{n}]")
            if nugget is not None:
                nuggets.append(nugget)
        nugget_by_text: dict[str, Nugget] = {}
        for nugget in nuggets:
            text = letters_only(nugget.text)
            if not text:  # a problem of its own
                continue
            earlier = nugget_by_text.setdefault(text, nugget)
            if earlier is not nugget:
                self.problems.append(
                    f"nuggets {_short(earlier.id)} and {_short(nugget.id)} say the same; keep one"
                )
        for id, times in Counter(nugget.id for nugget in nuggets).items():
            if id and times > 1:
                self.problems.append(f"id {_short(id)} is given to {times} nuggets; ids must differ")
        return tuple(nuggets)

    def _nugget(self, item: object, place: str) -> Nugget | None:
        if not isinstance(item, dict):
            self.problems.append(f"{place} is not an object")
            return None
        id = item.get("id")
        if type(id) is int:  # True is an int, too
            self._note("id written as a number", place)
            id = str(id)
        id = self._text(id, f"{place}: id")
        if not id:
            self.problems.append(f"{place}: id is missing")
        else:
            place = f"{place} ({_short(id)})"
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
            form = "text" if isinstance(value, str) else "a fraction"
            self._note(f"weight written as {form}", place)
        return weight or 1

    def _source_ids(self, value: object, place: str) -> tuple[str, ...]:
        entries = value if isinstance(value, list) else [value]
        ids: dict[str, None] = {}
        unknown: dict[str, None] = {}
        for entry in entries:
            for reference in _references(entry):
                id = self._source(reference)
                if id is None:
                    unknown[reference] = None
                else:
                    ids[id] = None
        if unknown:
            words = ", ".join(map(_short, unknown))
            self.problems.append(
                f"{place}: no source is called {words} (the sources are {', '.join(self._urls)})"
            )
        elif not ids:
            self.problems.append(f"{place}: source_ids is empty; a nugget needs at least one source")
        elif list(ids) != value:
            self._note("source_ids put into form", place)
        return tuple(ids)

    def _reference_urls(self, value: object, nuggets: Sequence[Nugget]) -> tuple[str, ...]:
        """The URLs given, spelled as in the sources; without any, the URLs of the cited sources."""
        references: list[object] = []
        if isinstance(value, list):
            references = value
        elif value not in (None, ""):
            references = [value]
        urls = []
        for reference in references:
            id = self._source(str(reference))
            if id is None:
                self.problems.append(f"reference_urls: {_short(reference)} is no URL of a source")
            else:
                urls.append(self._urls[id])
        if urls != references:
            self._note("given as the sources spell them", "reference_urls")
        if not references:
            cited: set[str] = set()
            for nugget in nuggets:
                cited.update(nugget.source_ids)
            urls = [url for id, url in self._urls.items() if id in cited]
            self._note("derived from the nuggets' sources", "reference_urls")
        return tuple(dict.fromkeys(filter(None, urls)))

    def _source(self, reference: str) -> str | None:
        """The id of the source that is referred to; None for an unknown one."""
        text = reference.strip()
        if _SINGLE_URL.fullmatch(text):
            return self._ids.get(same_address(text))
        return self._ids.get(text.casefold())

    def _text(self, value: object, place: str) -> str:
        if value is None:
            return ""
        if not isinstance(value, str):
            self.problems.append(f"{place} must be text, is {_short(value)}")
            return ""
        return _clean(value)

    def _texts(self, value: object, place: str) -> tuple[str, ...]:
        """A list of texts without blank ones; a single text is a list of one."""
        if value is None:
            return ()
        items = value if isinstance(value, list) else [value]
        # The release's notes are one text.
        if isinstance(value, str) and place != "notes":
            self._note("written as a text, not a list", place)
        texts = []
        for n, item in enumerate(items):
            text = self._text(item, f"{place}[{n}]")
            if text:
                texts.append(text)
        return tuple(texts)

    def _note(self, repair: str, place: str) -> None:
        self._repaired.setdefault(repair, []).append(place)


def _references(value: object) -> list[str]:
    """The references in one entry of source_ids: `"S1, S2"` has two, null has none."""
    if value is None:
        return []
    text = str(value).strip()
    # An address may have any of the signs that stand between ids.
    if not isinstance(value, str) or _SINGLE_URL.fullmatch(text):
        return [text]
    return _IDS.findall(text)


def _clean(text: str) -> str:
    """The text on one line, without control characters and lone surrogates."""
    characters = list(text)
    for i, character in enumerate(characters):
        if unicodedata.category(character) in ("Cc", "Cs"):
            characters[i] = " "
    return " ".join("".join(characters).split())


def letters_only(text: str) -> str:
    """The text without case, width, punctuation and spaces; two nuggets must differ in it."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).casefold()))


def _short(value: object) -> str:
    """A value as a problem quotes it."""
    text = _clean(value if isinstance(value, str) else repr(value))
    if len(text) > MAX_NAMED:
        text = text[: MAX_NAMED - 1] + "…"
    return text


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
        json = find_json(text)
        if json.cut_off:
            raise UnusableOutput("expected one JSON object, but the reply is cut off", text=text)
        gold, problems = check_gold(json.value, self.sources)
        if problems:
            message = "; ".join(problems[:MAX_PROBLEMS])
            if len(problems) > MAX_PROBLEMS:
                message += f"; and {len(problems) - MAX_PROBLEMS} more problems"
            raise UnusableOutput(message, text=text)
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
    quote_by_letters: dict[str, tuple[str, str]] = {}
    for sentences in zip_longest(*(_sentences(source.text) for source in sources)):
        for source, sentence in zip(sources, sentences, strict=True):
            if sentence is not None:
                quote_by_letters.setdefault(letters_only(sentence), (sentence, source.id))
    return list(quote_by_letters.values())[:MOST_NUGGETS]


def _sentences(text: str) -> list[str]:
    """The sentences of a text that have enough content to be nuggets."""
    sentences = []
    for start, end in sentence_spans(text, QUOTE_CHARS):
        sentence = " ".join(text[start:end].split())
        if len(terms_of(sentence).content) >= FEWEST_TERMS:
            sentences.append(sentence)
    return sentences


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
    terms_by_source = {source.id: terms_of(f"{source.title}\n{source.text}").every for source in sources}
    return tuple(_ground(nugget, terms_by_source) for nugget in nuggets)


def _ground(nugget: Nugget, terms_by_source: Mapping[str, frozenset[str]]) -> Grounding:
    """Check one nugget against the terms of each source, by id."""
    terms = terms_of(nugget.text)
    # A nugget of nothing but stop words is checked by those.
    nugget_terms = terms.content or terms.every
    evidence: set[str] = set()
    better_source, better_recall = None, 0.0
    for id, source_terms in terms_by_source.items():
        if id in nugget.source_ids:
            evidence |= source_terms
            continue
        source_recall = _recall(nugget_terms, source_terms)
        if source_recall > better_recall:
            better_source, better_recall = id, source_recall
    recall = _recall(nugget_terms, evidence)
    missing_terms, missing_numbers = [], []
    for term, spelled in spelling(nugget.text).items():
        if term in evidence:
            continue
        if term in terms.numbers:
            missing_numbers.append(spelled)
        else:
            missing_terms.append(spelled)
    grounding = Grounding(nugget.id, recall, tuple(missing_terms), tuple(missing_numbers))
    if better_recall > recall:
        grounding = replace(grounding, better_source=better_source, better_recall=better_recall)
    return grounding


def _recall(nugget_terms: frozenset[str], evidence: Set[str]) -> float:
    """The share of the terms that are said; 0 without terms: an empty statement is not grounded."""
    if not nugget_terms:
        return 0.0
    return len(nugget_terms & evidence) / len(nugget_terms)


def grounding_json(checked: Sequence[Grounding]) -> dict[str, Any]:
    """The check as recorded: the mean recall and every nugget's result; `checked` is not empty."""
    return {
        "threshold": GROUNDED_AT,
        "mean": round(fmean(nugget.recall for nugget in checked), 4),
        "ungrounded": [nugget.id for nugget in checked if not nugget.grounded],
        "nuggets": list(map(_nugget_json, checked)),
    }


def _nugget_json(checked: Grounding) -> dict[str, Any]:
    """The fields that are not empty, rounded."""
    fields: dict[str, Any] = {}
    for name, value in asdict(checked).items():
        if isinstance(value, float):
            fields[name] = round(value, 4)
        elif value not in (None, ()):
            fields[name] = value
    return fields

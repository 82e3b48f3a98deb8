"""A baseline without any model: templates, spans of text and BM25. Deterministic, a few milliseconds an instance.

    cts run --all baseline

The Clarifier asks by template for what a query usually leaves open (the types of `analysis.question_types`), the User
Answerer quotes the part of the intent that is of the type asked for, the Rewriter appends the answers to the query, and
the agent quotes the best sentences of the first pages. It is a floor: a Clarifier that scores less is worse than three
fixed questions. Written with the public API only, it is also the example of a plug-in for every role.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from cts_async.analysis.question_types import QuestionType, read_question
from cts_async.custom import role
from cts_async.protocol.views import AnswererView, ClarifierView, RewriterView, SearchView
from cts_async.records import language_of
from cts_async.search.terms import pieces, present, query_terms, sentence_spans

VERSION: Final = "1"

# --- Clarifier

QUESTIONS: Final[Mapping[str, Mapping[QuestionType, str]]] = {
    "en": {
        "scope": "For which group of people or purpose do you need it?",
        "time": "Which date, season or time of day do you mean?",
        "region": "Which place do you mean?",
        "entity": "Which one exactly do you mean?",
        "criterion": "What standard or requirement must it meet?",
    },
    "zh": {
        "scope": "适用于什么人或什么用途？",
        "time": "您指什么时间或季节？",
        "region": "您指哪个地点？",
        "entity": "您具体指哪一种？",
        "criterion": "有什么标准？",
    },
}
"""One template for each type of question, in the order in which they are asked."""


@role("clarifier", version=VERSION)
async def ask(view: ClarifierView) -> list[str]:
    """The first `k` templates; those for what the query says already come last."""
    said = {kind for _, kind in spans(view.blurred_query) if kind in ("time", "region")}
    templates = QUESTIONS[language_of(view.blurred_query)]
    order = sorted(templates, key=said.__contains__)
    return [templates[kind] for kind in order[: view.k]]


# --- User Answerer

_PREPOSITION: Final = (
    "in|at|from|to|for|on|with|without|after|before|during|between|under|over|near|since|until|through|as"
)
_PHRASES: Final = re.compile(rf"[,;:?]\s*(?:and\s+)?|\s+(?=(?:{_PREPOSITION})\s)")
_LEADS: Final = re.compile(rf"(?:{_PREPOSITION})\s")
_CONDITION: Final = re.compile(r"(?:with|without|under|over)\s")
_TIME: Final = re.compile(
    r"\b(?:spring|summer|autumn|winter|seasons?|weekdays?|weekends?|(?:mon|tues|wednes|thurs|fri|satur|sun)days?|"
    r"(?:mid)?night|noon|mornings?|evenings?|years?|months?|weeks?|(?:19|20)\d\d|january|february|march|april|june|"
    r"july|august|september|october|november|december)\b",
    re.IGNORECASE,
)
_NAME: Final = re.compile(r"(?<!^)\b[A-Z]\w+|^[A-Z]\w+ [A-Z]\w+")
_ZH_BREAKS: Final = re.compile("[，、；：？和]")
_ZH_TYPES: Final[tuple[tuple[QuestionType, re.Pattern[str]], ...]] = (
    ("scope", re.compile("[人者孩岁]$|学生|子女|儿童|人群|团体|居民|家庭|家用")),
    ("time", re.compile(r"[季春夏秋冬月年节]$|^\d{4}$|凌晨|[早晚夜]|周末|工作日")),
    ("region", re.compile("[区市县镇村路街江河湖海山岛馆楼场站港园线]$")),
)
"""By the word that ends a span; the words before it belong to it."""


@role("answerer", version=VERSION)
async def answer(view: AnswererView) -> str:
    """The parts of the intent that are of a type that the question asks for; "unknown" if there is none."""
    asked = read_question(view.question).types
    found = [text for text, kind in spans(view.fused_query) if kind in asked]
    between = "" if language_of(view.fused_query) == "zh" else " "
    return between.join(dict.fromkeys(found)) or "unknown"


def spans(query: str) -> Iterator[tuple[str, QuestionType]]:
    """The parts of a query with their types, in order; one of two types comes twice."""
    return _chinese_spans(query) if language_of(query) == "zh" else _english_spans(query)


def _english_spans(query: str) -> Iterator[tuple[str, QuestionType]]:
    """Phrases that begin with a preposition or follow a comma."""
    for n, phrase in enumerate(filter(None, map(str.strip, _PHRASES.split(query)))):
        leads = _LEADS.match(phrase)
        kinds: list[QuestionType] = ["time"] if _TIME.search(phrase) else []
        if _NAME.search(phrase):
            kinds.append("region" if leads else "entity")
        if not kinds and leads:
            kinds.append("criterion" if _CONDITION.match(phrase) else "scope")
        for kind in kinds or ["entity" if n == 0 else "scope"]:
            yield phrase, kind


def _chinese_spans(query: str) -> Iterator[tuple[str, QuestionType]]:
    """Runs of words that end with a word of a type, or at a break."""
    for clause in _ZH_BREAKS.split(query):
        span = ""
        for word in pieces(clause):
            if word not in ("的", "在"):
                span += word
                kind = next((kind for kind, ending in _ZH_TYPES if ending.search(word)), None)
                if kind is None:
                    continue
            else:
                kind = "entity"
            if span:
                yield span, kind
            span = ""
        if span:
            yield span, "entity"


# --- Rewriter


@role("rewriter", version=VERSION)
async def rewrite(view: RewriterView) -> str:
    """The query and every answer that is known."""
    known = [reply for _, reply in view.pairs if reply != "unknown"]
    return " ".join(dict.fromkeys([view.blurred_query, *known]))


# --- Agent

PAGES: Final = 3
ANSWER_CHARS: Final = 500
_SENTENCE_CHARS: Final = 400


@role("agent", version=VERSION)
async def search_and_quote(view: SearchView, search: Any, visit: Any) -> str:
    """The sentences of the first pages that share most terms with the query, their titles included, in page order."""
    wanted = query_terms(view.query)
    sentences: list[tuple[float, int, int, str]] = []
    for rank, hit in enumerate((await search(view.query))[:PAGES]):
        page = await visit(hit.url)
        title = present(page.title, wanted)
        for place, (start, end) in enumerate(sentence_spans(page.text, _SENTENCE_CHARS)):
            sentence = page.text[start:end]
            shared = len(title | present(sentence, wanted))
            sentences.append((-shared / (1 + rank / 2), rank, place, sentence))
    quoted: list[tuple[int, int, str]] = []
    room = ANSWER_CHARS
    for _, rank, place, sentence in sorted(sentences):
        if len(sentence) <= room:
            quoted.append((rank, place, sentence))
            room -= len(sentence)
    return " ".join(sentence for _, _, sentence in sorted(quoted)) or "nothing was found"

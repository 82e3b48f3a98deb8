"""A baseline without any model: templates, spans of text and BM25. Deterministic, a few milliseconds an instance.

    cts run --all baseline

The Clarifier asks by template for what a query usually leaves open (the types of `analysis.question_types`), the User
Answerer quotes the part of the intent that is of the type asked for, the Rewriter appends the answers to the query, and
the agent quotes the best sentences of the first pages. Where it may ask the user, it does so while its query cannot
tell the first two pages apart. It is a floor: a Clarifier that scores less is worse than three fixed questions. Written
with the public API only, it is also the example of a plug-in for every role.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from cts_async.analysis.question_types import QuestionType, read_question
from cts_async.custom import role
from cts_async.protocol.views import AnswererView, AskingView, ClarifierView, RewriterView, SearchView
from cts_async.records import DONT_KNOW, Ask, language_of
from cts_async.search.backends import Page
from cts_async.search.terms import pieces, present, query_terms, sentence_spans

VERSION: Final = "1"
"""Part of the identity of runs, to be changed with any result; `protocol.custom.sources` has the digest beside it."""

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
    return questions_about(view.blurred_query)[: view.k]


def questions_about(query: str) -> list[str]:
    """All templates; those for what the query says already come last."""
    said = {kind for _, kind in spans(query) if kind in ("time", "region")}
    templates = QUESTIONS[language_of(query)]
    order = sorted(templates, key=said.__contains__)
    return [templates[kind] for kind in order]


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
    """The parts of the intent that are of a type that the question asks for; "unknown" if there is none.

    Where the user may say only yes or no, `yes_or_no`.
    """
    if view.replies == "yes-no":
        return yes_or_no(view.fused_query, view.question)
    asked = read_question(view.question).types
    found = [text for text, kind in spans(view.fused_query) if kind in asked]
    between = "" if language_of(view.fused_query) == "zh" else " "
    return between.join(dict.fromkeys(found)) or "unknown"


@cache
def _asking_terms() -> frozenset[str]:
    """Terms of a question that say nothing about what it asks for."""
    # At the first question, not at import: cutting Chinese loads a dictionary, half of what a start takes.
    english = "mean means meaning want need look looking search ask interested particular specifically please"
    chinese = "请 问 您 你 指 想 要 找 查 需要 是否 是不是"
    return frozenset(query_terms(english) + query_terms(chinese))


def yes_or_no(intent: str, question: str) -> str:
    """The user's reply to a question that yes or no answers.

    Yes if the intent says all that the question names. No if both name a time, a place, a purpose or a requirement, and
    these have no term in common. Of anything else the user does not know.
    """
    asking_terms = _asking_terms()
    asked_terms = [term for term in query_terms(question) if term not in asking_terms]
    if asked_terms and set(asked_terms) == present(intent, asked_terms):
        return "yes"
    intent_spans = list(spans(intent))
    for text, kind in spans(question):
        span_terms = [term for term in query_terms(text) if term not in asking_terms]
        alike = [intent_text for intent_text, intent_kind in intent_spans if intent_kind == kind]
        if span_terms and kind != "entity" and alike and not present(" ".join(alike), span_terms):
            return "no"
    return DONT_KNOW


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


_DO_YOU_MEAN: Final[Mapping[str, str]] = {"en": "Do you mean {}?", "zh": "您指的是{}吗？"}


@role("agent", version=VERSION)
async def search_and_quote(view: SearchView, search: Any, visit: Any, ask: Any) -> str:
    """The sentences of the first pages that share most terms with the query, their titles included, in page order.

    Where it may ask, it asks while the query cannot tell the first two pages apart, or the rules want more questions,
    and searches again with what it learns.
    """
    query = view.query
    pages = await _first_pages(query, (), search, visit)
    asks: list[Ask] = []
    refused: list[str] = []
    while isinstance(view, AskingView) and len(asks) < view.max_asks:
        asked_questions = [earlier.question for earlier in asks]
        questions = _questions_left(view, query, pages, asked_questions)
        if len(asks) >= view.min_asks and (not questions or not is_ambiguous(query, pages)):
            break
        if questions:
            question, subject = next(iter(questions.items()))
        else:
            # The rules want more questions than it has.
            question, subject = asked_questions[0], ""
        reply = await ask(question)
        asks.append(reply)
        if reply.unknown or (reply.reply == "no" and not subject):
            continue
        if reply.reply == "no":
            refused.append(subject)
        else:
            learned = subject or reply.reply
            query = " ".join(dict.fromkeys([query, learned]))
        pages = await _first_pages(query, refused, search, visit)
    return _quoted(query, pages)


def _questions_left(
    view: AskingView, query: str, pages: Sequence[Page], asked_questions: Sequence[str]
) -> dict[str, str]:
    """What it could ask next, best first, each with what it learns from a yes, "" for an open question."""
    subjects: dict[str, str] = {}
    if view.replies == "yes-no":
        subjects = yes_no_questions(query, pages)
    if not subjects:
        subjects = dict.fromkeys(questions_about(view.query), "")
    return {question: subject for question, subject in subjects.items() if question not in asked_questions}


def is_ambiguous(query: str, pages: Sequence[Page]) -> bool:
    """Whether the query cannot tell the first two pages apart: no more of its terms stand in the first."""
    terms = query_terms(query)
    shared = [len(present(f"{page.title}\n{page.text}", terms)) for page in pages[:2]]
    return len(shared) == 2 and shared[0] <= shared[1]


def yes_no_questions(query: str, pages: Sequence[Page]) -> dict[str, str]:
    """Questions that yes or no answers, each with its subject: what the pages' titles have and the query leaves open."""
    template = _DO_YOU_MEAN[language_of(query)]
    questions: dict[str, str] = {}
    for page in pages:
        for text, _ in spans(page.title):
            title_terms = query_terms(text)
            if present(query, title_terms) != set(title_terms):
                questions[template.format(text)] = text
    return questions


async def _first_pages(query: str, refused: Sequence[str], search: Any, visit: Any) -> list[Page]:
    """The first pages that a search finds, but for those whose titles have what the user does not mean."""
    pages: list[Page] = []
    for hit in await search(query):
        if any(text in hit.title for text in refused):
            continue
        pages.append(await visit(hit.url))
        if len(pages) == PAGES:
            break
    return pages


def _quoted(query: str, pages: Sequence[Page]) -> str:
    """The sentences that share most terms with the query, as many as an answer has room for."""
    terms = query_terms(query)
    sentences: list[tuple[float, int, int, str]] = []
    for rank, page in enumerate(pages):
        title = present(page.title, terms)
        for place, (start, end) in enumerate(sentence_spans(page.text, _SENTENCE_CHARS)):
            sentence = page.text[start:end]
            shared = len(title | present(sentence, terms))
            sentences.append((-shared / (1 + rank / 2), rank, place, sentence))
    quoted: list[tuple[int, int, str]] = []
    room = ANSWER_CHARS
    for _, rank, place, sentence in sorted(sentences):
        if len(sentence) <= room:
            quoted.append((rank, place, sentence))
            room -= len(sentence)
    return " ".join(sentence for _, _, sentence in sorted(quoted)) or "nothing was found"

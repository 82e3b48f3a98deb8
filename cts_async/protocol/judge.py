"""The coverage judges: a label for each nugget (paper, section 4.4.1 and prompt E).

A judge is anything with a name that labels a JudgeView: a model, or `lexical`, which needs no model.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Awaitable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain, pairwise
from typing import Final, Protocol, TypeAlias, TypeVar

from cts_async.engine.runner import Context
from cts_async.errors import UsageError
from cts_async.llm.coverage import CoverageList, SameEntity
from cts_async.protocol.roles import Role
from cts_async.protocol.views import JudgeView
from cts_async.records import (
    JUDGING,
    Coverage,
    JudgeForm,
    Judgment,
    Nugget,
    NuggetMemo,
    language_of,
    stated_answer,
)

T = TypeVar("T")

LEXICAL = "lexical"
REFERENCE_JUDGES: Final = (LEXICAL,)
"""Judges that compare words: a lower bound to read the others by, and no opinion of its own."""

SELF_PREFERENCE: Final = "LLM judges tend to prefer their own text (Panickssery et al. 2024)"
"""A. Panickssery, S. R. Bowman, S. Feng: "LLM Evaluators Recognize and Favor Their Own Generations", NeurIPS 2024."""

Labels: TypeAlias = tuple[tuple[str, Coverage], ...]


def self_judged_roles(judge: str, players: Mapping[str, str], models: Mapping[str, str]) -> tuple[str, ...]:
    """Return the roles in which a judge wrote what it judges: Clarifier, agent, both or none.

    `players` are names by role, `models` the ids of models at their providers by role. A player without an id is none.
    """
    judge_id = models.get(f"judge {judge}")
    roles = []
    for role in ("clarifier", "agent"):
        if role not in players or role not in models:
            continue
        # The same model may go by two names, and two prompts of one model are still the same writer.
        if players[role] == judge or models[role] == judge_id:
            roles.append(role)
    return tuple(roles)


class Judge(Protocol):
    @property
    def name(self) -> str: ...

    async def judge(self, ctx: Context, view: JudgeView) -> Judgment:
        """Label every nugget of the view exactly once."""


def nothing_covered(judge: str, nuggets: Sequence[Nugget]) -> Judgment:
    """The verdict on an empty answer, which needs no call."""
    return Judgment(judge, tuple((nugget.id, "none") for nugget in nuggets))


class ModelJudge:
    """A model with the strict rubric of prompt E.

    The question depends on the query, the nuggets' texts in their order and the answer, and on nothing else: it has
    numbers of its own (N1, N2, ...) instead of the gold's ids, and the step's key names no instance. So equal questions
    are one step for all instances. More nuggets than the model's `judge_nuggets` are asked about in several concurrent
    calls; if one fails, the verdict fails.
    """

    def __init__(self, name: str, role: Role, *, several_answers: bool = False) -> None:
        """With `several_answers` to each query the prompt up to the answer is repeated, and some caches are told so."""
        self.name, self.role = name, role
        self._repeated_before = ""
        if several_answers and role.model.spec.cache_marks:
            self._repeated_before = "candidate_answer"
        self._step = f"{JUDGING}{name}"
        self._briefs = NuggetMemo(partial(_brief_of, per_call=role.model.spec.judge_nuggets))

    async def judge(self, ctx: Context, view: JudgeView) -> Judgment:
        brief = self._briefs.get(view.nuggets)
        if len(brief.parts) == 1:
            labels = await self._ask(ctx, view, brief.parts[0])
        else:
            labels_by_call = await ctx.gather([partial(self._ask, ctx, view, part) for part in brief.parts])
            labels = tuple(chain.from_iterable(labels_by_call))
        return Judgment(self.name, brief.under_own_ids(labels))

    def _ask(self, ctx: Context, view: JudgeView, part: _Part) -> Awaitable[Labels]:
        return ctx.step(
            self.role.step(
                ctx,
                self._step,
                "judge",
                language_of(view.query),
                part.expect,
                on_record=("query", "nuggets", "candidate_answer"),
                shared=True,
                repeated_before=self._repeated_before,
                query=view.query,
                nuggets=part.text,
                candidate_answer=view.candidate_answer,
            )
        )


@dataclass(frozen=True, slots=True)
class MatchJudge:
    """A model that says whether an answer names the same entity as the only nugget: full if it does, else none.

    As with `ModelJudge` equal questions are one step for all instances.
    """

    name: str
    role: Role

    async def judge(self, ctx: Context, view: JudgeView) -> Judgment:
        (nugget,) = view.nuggets
        is_same = await ctx.step(
            self.role.step(
                ctx,
                f"{JUDGING}{self.name}",
                "match",
                language_of(view.query),
                SameEntity(),
                on_record=("query", "correct_answer", "candidate_answer"),
                shared=True,
                query=view.query,
                correct_answer=stated_answer(nugget),
                candidate_answer=view.candidate_answer,
            )
        )
        label: Coverage = "full" if is_same else "none"
        return Judgment(self.name, ((nugget.id, label),))


def check_form(
    form: JudgeForm, judges: Sequence[str], custom: Container[str], nuggets: Iterable[int]
) -> None:
    """Raise UsageError for what the form "match" cannot judge; `nuggets` are the numbers of nuggets of instances."""
    if form != "match":
        return
    for judge in judges:
        if judge in custom:
            raise UsageError(
                f"{judge} is code of yours, which labels nuggets: use --judge-form nuggets, or a model as --judge"
            )
    if any(number != 1 for number in nuggets):
        raise UsageError(
            "--judge-form match needs exactly one nugget for each instance, the right answer: use --judge-form nuggets"
        )


@dataclass(frozen=True, slots=True)
class _Part:
    """The nuggets of one call, and the form of the reply."""

    text: str
    expect: CoverageList


@dataclass(frozen=True, slots=True)
class _Brief:
    """Nuggets as text, split into calls in the order of the gold."""

    parts: tuple[_Part, ...]
    ids: tuple[str, ...] | None
    """The gold's own ids; None if they equal the numbers that the judge reads."""

    def under_own_ids(self, labels: Labels) -> Labels:
        if self.ids is None:
            return labels
        return tuple(zip(self.ids, [label for _, label in labels], strict=True))


def _brief_of(nuggets: tuple[Nugget, ...], per_call: int) -> _Brief:
    ids = tuple(nugget.id for nugget in nuggets)
    numbers = tuple(f"N{n}" for n in range(1, len(nuggets) + 1))
    parts = []
    for i, text in enumerate(nuggets_by_call(nuggets, per_call)):
        start = i * per_call
        parts.append(_Part(text, CoverageList(numbers[start : start + per_call])))
    return _Brief(tuple(parts), None if ids == numbers else ids)


@dataclass(frozen=True, slots=True)
class LexicalJudge:
    """Term recall: deterministic, no calls (see below)."""

    name: str = LEXICAL
    form: JudgeForm = "nuggets"

    async def judge(self, ctx: Context, view: JudgeView) -> Judgment:
        answer_terms = terms_of(view.candidate_answer).every
        labels = []
        for nugget in view.nuggets:
            if self.form == "match":
                label, recall = lexical_coverage(stated_answer(nugget), answer_terms)
                # Right or wrong: an answer that lacks a word of a name is wrong.
                label = "full" if label == "full" and recall == 1.0 else "none"
            else:
                label, _ = lexical_coverage(nugget.text, answer_terms)
            labels.append((nugget.id, label))
        return Judgment(self.name, tuple(labels))


def nuggets_by_call(nuggets: Sequence[Nugget], per_call: int) -> list[str]:
    """The nuggets as a judge reads them, numbered, one a line: a text for each call."""
    # On one line each: a line break in a nugget could pass for another nugget.
    lines = [f"N{n}: {' '.join(nugget.text.split())}" for n, nugget in enumerate(nuggets, 1)]
    return ["\n".join(lines[start : start + per_call]) for start in range(0, len(lines), per_call)]


# --- Judging without a model: term recall in the manner of POURPRE
#
# POURPRE (Lin & Demner-Fushman, 2005, "Automatically Evaluating Answers to Definition Questions") scores a
# nugget by the share of its terms that occur in the answer. Here the answer is taken as a whole, terms
# count once and equally (the paper's idf weights are left out), and the share becomes one of the coverage
# judge's three labels. It is deterministic, costs nothing and suits smoke tests, baselines and sanity
# checks of an LLM judge. It does not understand: a negated, contradicted or rearranged statement
# has the same terms, and neither synonyms nor spelled-out numbers ("twelve", "十二", 1.2万) are recognised.
#
# What a term is:
#
# - English and other alphabets: words in lower case without accents, minus a short stop list, reduced by
#   `_stem`. "not", "no" and "without" are kept as terms.
# - Numbers, of either width: 1,200 = 1200 = １，２００, 2.50 = 2.5, 05 = 5. A time such as 14:30 is one term; a
#   date such as 2024-03-05, 2024.3.5 or 2024年3月5日 is its three numbers.
# - Chinese: the pairs of neighbouring characters of each unbroken run, a lone character being its own term;
#   the commonest function characters break a run. Pairs need no dictionary.

FULL_AT: Final = 0.75
"""Recall from which a nugget counts as fully covered.

An atomic nugget has some four to twelve terms, and a faithful paraphrase changes about one word in four
to six. In Chinese one changed word of two characters costs three pairs, which is a quarter of twelve.
"""

PARTIAL_AT: Final = 0.4
"""Recall from which a nugget counts as partially covered.

A third of a nugget's terms often merely name the topic, which any answer on it repeats; "partial" asks
for the core statement, hence for more than that, while up to half may be the qualifiers that it lacks.
"""

_HAN: Final = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_TOKEN: Final = re.compile(
    rf"""
    (?P<number>
        [0-9]{{1,2}}:[0-9]{{2}}(?::[0-9]{{2}})?(?![0-9])        # 14:30
      | [0-9]{{1,3}}(?:,[0-9]{{3}})+(?:\.[0-9]+)?(?![0-9])      # 1,200.5
      | [0-9]+(?:\.[0-9]+)*                                     # 12, 3.5 and the dotted 3.5.1
    )[年月日号]?
  | (?P<han>[{_HAN}]+)
  | (?P<word>[^\W\d_{_HAN}][^\W_{_HAN}]*|%)
    """,
    re.VERBOSE,
)
_STARTS_WITH_HAN: Final = re.compile(f"[{_HAN}]")
_TOKENS: Final = re.compile(re.sub(r"\(\?P<\w+>", "(?:", _TOKEN.pattern), re.VERBOSE)
"""The same without names: found all at once."""
_GROUPING_COMMA: Final = re.compile("(?<=[０-９])，(?=[０-９]{3}(?![０-９]))")
_ACCENTS: Final = re.compile("[\u0300-\u036f]+")
_FUNCTION_CHARACTERS: Final = re.compile("[的了是在和与及或于而也被把吗呢吧啊]")
_STOP_TEXT: Final = """
    a an the and or but if then than so as of at by for from in into on onto to up with about over under
    is am are was were be been being do does did done has have had having can could may might must shall
    should will would it its he she they them his her their theirs him we us our you your i me my this that
    these those there here who whom whose which what when where why how also such some any each s t d ll re
    ve m
"""
_STOP_WORDS: Final = frozenset(_STOP_TEXT.split())
_VOWEL: Final = re.compile("[aeiouy]")


@dataclass(frozen=True, slots=True)
class Terms:
    """What a text is made of: `content` counts, `numbers` are critical, `every` also has the empty words."""

    content: frozenset[str]
    numbers: frozenset[str]
    every: frozenset[str]


def lexical_coverage(nugget_text: str, answer_terms: frozenset[str]) -> tuple[Coverage, float]:
    """Return (label, recall): the share in [0, 1] of the nugget's distinct terms that are among the `answer_terms`.

    These are the `Terms.every` of the answer. The label is "full" from `FULL_AT`, "partial" from `PARTIAL_AT`, else
    "none". A nugget some of whose numbers are missing is "partial" at most: a critical qualifier is missing. A nugget of
    nothing but stop words is judged by those; one without any word, and an empty answer, give ("none", 0.0).
    """
    nugget = _nugget_terms(nugget_text)
    terms = nugget.content or nugget.every
    if not terms:
        return "none", 0.0
    recall = len(terms & answer_terms) / len(terms)
    if recall < PARTIAL_AT:
        return "none", recall
    if recall >= FULL_AT and nugget.numbers <= answer_terms:
        return "full", recall
    return "partial", recall


def terms_of(text: str) -> Terms:
    """Take a text apart; an empty one gives no terms."""
    content: set[str] = set()
    numbers: set[str] = set()
    empty: set[str] = set()
    for token in set(_TOKENS.findall(_normalised(text))):
        # English has few different words, and each is taken apart once; numbers and runs of Chinese are many.
        terms = _cached_token_terms(token) if token.isascii() and token.isalpha() else _token_terms(token)
        content.update(terms.content)
        numbers.update(terms.numbers)
        empty.update(terms.every)
    content |= numbers
    return Terms(frozenset(content), frozenset(numbers), frozenset(content | empty))


def terms_among(text: str, terms: frozenset[str]) -> frozenset[str]:
    """Return those of the `terms` that the text has, as `terms_of(text).every` has them, several times faster."""
    tokens = set(_TOKENS.findall(_normalised(text)))
    runs = [token for token in tokens if _STARTS_WITH_HAN.match(token)]
    # Chinese terms are looked for in the text itself, instead of taking it apart into pairs.
    chinese = " ".join(runs)
    present = {term for term in _chinese_among(terms) if term in chinese}
    other_tokens = tokens.difference(runs)
    return terms & present.union(*map(_cached_terms, other_tokens))


@lru_cache(maxsize=64)
def _chinese_among(terms: frozenset[str]) -> tuple[str, ...]:
    """The Chinese terms; cached, since many texts are searched for the same ones."""
    return tuple(filter(is_chinese, terms))


def is_chinese(term: str) -> bool:
    """True for a term of Chinese characters, usually a pair."""
    return _STARTS_WITH_HAN.match(term) is not None


def _all_terms(token: str) -> frozenset[str]:
    """All terms of a token that is not Chinese."""
    terms = _token_terms(token)
    return terms.content | terms.numbers | terms.every


def spelling(text: str) -> dict[str, str]:
    """How the text writes each of its content terms, in order: `{"citi": "cities", "1200": "1,200"}`."""
    spelled: dict[str, str] = {}
    for token in _TOKEN.finditer(_normalised(text)):
        han, word, number = token["han"], token["word"], token["number"]
        if han:
            for pair in sorted(_pairs(han), key=han.index):
                spelled.setdefault(pair, pair)
        elif word:
            if word not in _STOP_WORDS:
                spelled.setdefault(_stem(word), word)
        else:
            numbers = _numbers(number)
            for term in numbers:
                # The parts of a date have no spelling of their own.
                spelled.setdefault(term, number if len(numbers) == 1 else term)
    return spelled


def _token_terms(token: str) -> Terms:
    """One token's terms; `every` has the empty ones only."""
    match = _TOKEN.fullmatch(token)
    assert match
    han, word, number = match["han"], match["word"], match["number"]
    if han:
        # A lone character of a run may be another text's term.
        return Terms(frozenset(_pairs(han)), _NONE, frozenset(han))
    if not word:
        return Terms(_NONE, frozenset(_numbers(number)), _NONE)
    stem = frozenset((_stem(word),))
    if word in _STOP_WORDS:
        return Terms(_NONE, _NONE, stem)
    return Terms(stem, _NONE, _NONE)


_NONE: Final[frozenset[str]] = frozenset()
_cached_token_terms: Final = lru_cache(maxsize=8192)(_token_terms)
_cached_terms: Final = lru_cache(maxsize=8192)(_all_terms)
# Many answers are judged by the same nuggets.
_nugget_terms: Final = lru_cache(maxsize=8192)(terms_of)


def _normalised(text: str) -> str:
    """Fold case, width, accents and bold marks. A full-width comma stays a break unless it groups digits."""
    text = text.lower().replace("**", "")
    if text.isascii():
        return text
    folded = unicodedata.normalize("NFKD", _GROUPING_COMMA.sub(",", text).replace("，", "、"))
    return unicodedata.normalize("NFC", _ACCENTS.sub("", folded))


def _pairs(han: str) -> set[str]:
    """Give the terms of an unbroken run of Chinese characters."""
    pairs: set[str] = set()
    for run in _FUNCTION_CHARACTERS.split(han):
        if len(run) == 1:
            pairs.add(run)
        pairs.update(map("".join, pairwise(run)))
    return pairs


def _numbers(digits: str) -> list[str]:
    """Give the numbers in a number token: one, or the parts of a date or version such as 2024.03.05."""
    parts = [digits]
    if digits.count(".") > 1:
        parts = digits.split(".")
    return list(map(_canonical_number, parts))


def _canonical_number(digits: str) -> str:
    """Give one spelling per number or time: no thousands separators, no zeros that mean nothing."""
    if ":" in digits:
        if digits[0] == "0" and digits[1] != ":":
            return digits[1:]
        return digits
    whole, _, fraction = digits.replace(",", "").partition(".")
    whole, fraction = whole.lstrip("0") or "0", fraction.rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole


def _stem(word: str) -> str:
    """Take the commonest English endings off a lower-case word, so that its forms meet; not a real stem.

    Plural -ies, -es, -s (Harman's S-stemmer), then -ing or -ed after a vowel, a last -e, the second of
    a doubled last consonant, and -y becomes -i: cities = city = citi, planned = planning = plan,
    makes = making = mak. Words with digits or letters beyond a-z are left alone.
    """
    if word == "%":
        return "percent"
    if len(word) < 3 or not (word.isascii() and word.isalpha()):
        return word
    return _without_last_letter(_without_suffix(_singular(word)))


def _singular(word: str) -> str:
    if len(word) < 4 or word.endswith(("ss", "us")):
        return word
    if word.endswith("ies") and word[-4] not in "ae":  # neither "aies" nor "eies"
        return word[:-3] + "y"
    return word.removesuffix("s")


def _without_suffix(word: str) -> str:
    for suffix in ("ing", "ed"):
        stem = word.removesuffix(suffix)
        if stem == word or len(stem) < 2 or word.endswith("eed"):
            continue
        if _VOWEL.search(stem):  # "sing" is no form of "s"
            return stem
    return word


def _without_last_letter(word: str) -> str:
    if len(word) > 2 and word[-1] == "e":
        word = word[:-1]
    if word[-1] == word[-2] and word[-1] not in "aeiou":
        return word[:-1]
    if len(word) > 2 and word[-1] == "y":
        return word[:-1] + "i"
    return word

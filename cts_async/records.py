"""The nouns of clarify-then-search: plain frozen values that every room may import.

Names follow the paper (Huang et al., KDD 2026): the hidden intent query q* is `fused_query`, the
underspecified query q is `blurred_query`, the rewritten query q-hat is `rewritten_query`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal
from unicodedata import category

Coverage = Literal["full", "partial", "none"]
Scheme = Literal["cts", "standard", "at-standard", "cot", "at-cot"]
Mode = Literal["at-once", "respond", "select"]
EmptyAnswers = Literal["fail", "zero"]
AmbiguityType = Literal["semantic", "generalize", "specify"]
Language = Literal["en", "zh"]
AgentPrompt = Literal["native", "en", "zh", "query"]

COVERAGES: Final[tuple[Coverage, ...]] = ("full", "partial", "none")
SCHEMES: Final[tuple[Scheme, ...]] = ("cts", "standard", "at-standard", "cot", "at-cot")
"""How a Clarifier is prompted: as the benchmark does, and the four schemes of AT-CoT (SIGIR 2025, table 2)."""
MODES: Final[tuple[Mode, ...]] = ("at-once", "respond", "select")
"""How it talks with the user: all questions at once (CTS), one question a turn, or reformulated queries to
choose from at each turn (AT-CoT, section 4.2)."""
AGENT_PROMPTS: Final[tuple[AgentPrompt, ...]] = ("native", "en", "zh", "query")
"""The deep-search agent's prompt: the one format that WebDancer was trained on, English, Chinese, or English or
Chinese as the query is."""
AMBIGUITY_TYPES: Final[tuple[AmbiguityType, ...]] = ("semantic", "generalize", "specify")
"""The action-based taxonomy of AT-CoT (table 1)."""
UNKNOWN: Final = "unknown"
"""What the User Answerer says when the intent does not specify what was asked (paper, section 3.2)."""


_IDEOGRAPH: Final = re.compile("[㐀-鿿豈-﫿]")


@dataclass(frozen=True, slots=True)
class Nugget:
    """One atomic, judgeable statement of the gold, with its importance (paper, section 4.2).

    `weight` is 3 (core), 2 (important) or 1 (supplemental); releases may carry other positive numbers.
    `source_ids` name the evidence it was drawn from; empty where a release leaves them out.
    """

    id: str
    text: str
    weight: float
    source_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Instance:
    """A pair (q*, q). `nuggets` is empty where no gold exists: such an instance can run but not be scored."""

    id: str
    fused_query: str
    blurred_query: str
    nuggets: tuple[Nugget, ...] = ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """An answer somebody produced for `fused_query`, to be judged against that intent's nuggets."""

    id: str
    fused_query: str
    answer: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The User Answerer's reply to one question; `unknown` where the intent does not say."""

    text: str
    unknown: bool


@dataclass(frozen=True, slots=True)
class ConversationTurn:
    """One turn of a conversation by an AT-CoT scheme or mode.

    `offered` are the questions put to the user, or in mode "select" the reformulated queries shown; `types` the
    ambiguity types that the Clarifier said apply ("at-cot" only) and `reasoning` what it thought ("" for schemes
    that do not). `answers` is one for each question asked; `chosen` the offered query that the user picked, from
    0 (None outside "select"). `query` is the query as it stands after this turn; "" where nobody asked for it.
    """

    offered: tuple[str, ...]
    types: tuple[AmbiguityType, ...] = ()
    reasoning: str = ""
    answers: tuple[Answer, ...] = ()
    chosen: int | None = None
    query: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """A piece of evidence that a search brought: a result's snippet, or what a visited page said."""

    url: str
    title: str
    text: str
    kind: Literal["snippet", "page"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One event of a deep-search trace, in order.

    `kind` is "think", "search", "visit", "invalid" (a call nobody could read), "repeated" (a call made
    before, not made again), "made_up" (a tool response that the model wrote itself, cut with all that follows it
    before anything was made of it), "dropped" (an earlier tool response left out of the conversation, for which
    there was no room; `request` names the turn that it answered), "forced" (the budget or the room was
    spent and the answer demanded) or "answer"; `request` is what the agent asked of a tool and `text` what
    was thought, returned or answered. `sources` are what a tool call brought, as data.
    """

    kind: Literal["think", "search", "visit", "invalid", "repeated", "made_up", "dropped", "forced", "answer"]
    text: str
    request: str = ""
    sources: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolFailure:
    """A query or a page that a tool could not bring. `host` is who was asked (of a search: its engine) and
    `reason` a short stable word such as "timeout" or "http 404"."""

    tool: Literal["search", "visit"]
    host: str
    reason: str


@dataclass(frozen=True, slots=True)
class ToolUse:
    """Queries that were searched and pages that were visited, failed ones counted, and those failures.

    `lexical` are pages read by their words because the model that should have read them could not.
    """

    searches: int = 0
    visits: int = 0
    failures: tuple[ToolFailure, ...] = ()
    lexical: int = 0


@dataclass(frozen=True, slots=True)
class Trace:
    """What a deep-search agent did for one query, and the answer it ended with.

    `answer_from` says how the answer was found: "tag" (closed), "open_tag" (never closed) or
    "last_turn" (no tag at all); section 4.3 of the paper asks for these fallbacks.
    """

    turns: tuple[Turn, ...]
    answer: str
    answer_from: Literal["tag", "open_tag", "last_turn"]
    model_calls: int
    forced: bool
    tools: ToolUse = ToolUse()


@dataclass(frozen=True, slots=True)
class Judgment:
    """A judge's coverage label for each nugget, in the order of the gold (paper, section 4.4.1)."""

    judge: str
    coverage: tuple[tuple[str, Coverage], ...]
    """Pairs (nugget id, label), each nugget exactly once."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an instance has no outcome. A failure is never a score."""

    step: str
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """All that one instance's walk through the protocol produced."""

    instance: Instance
    k: int
    questions: tuple[str, ...]
    answers: tuple[Answer, ...]
    rewritten_query: str
    trace: Trace
    judgments: tuple[Judgment, ...]
    """The scoring judge's first; empty where nothing was judged."""
    turns: tuple[ConversationTurn, ...] = ()
    """The conversation as it went, for every scheme and mode but the benchmark's own; empty there."""


def language_of(text: str) -> Language:
    """Give "zh" if the text holds a CJK ideograph, else "en": the language of a query decides its prompts."""
    return "en" if text.isascii() or _IDEOGRAPH.search(text) is None else "zh"


def is_one_line(name: str) -> bool:
    """Whether a name has no control characters and no line breaks: what is printed of it could be typed again."""
    return not any(category(character) in ("Cc", "Zl", "Zp") for character in name)

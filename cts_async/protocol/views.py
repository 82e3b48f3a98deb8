"""What each role may see (paper, section 3.2). A role receives its view and nothing else.

The closed book is a property of these types: a field that a role must not know does not exist here.
Only the User Answerer and the judges hold the intent, and neither speaks to the Rewriter or the agent
except through an answer to a question that was asked.
"""

from __future__ import annotations

from dataclasses import dataclass

from cts_async.protocol.sources import NumberedSource
from cts_async.records import Nugget


@dataclass(frozen=True, slots=True)
class ClarifierView:
    """The Clarifier sees the underspecified query q and how many questions it may ask."""

    blurred_query: str
    k: int


@dataclass(frozen=True, slots=True)
class AnswererView:
    """The User Answerer sees the intent q* and ONE question, never the other questions or answers."""

    fused_query: str
    question: str


@dataclass(frozen=True, slots=True)
class RewriterView:
    """The Rewriter sees q and the elicited pairs (question, answer)."""

    blurred_query: str
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class SearchView:
    """The deep-search agent sees one query: q-hat (or q for `orig`, q* for `gold`)."""

    query: str


@dataclass(frozen=True, slots=True)
class VisitView:
    """The page reader sees a goal that the agent named, and one page."""

    goal: str
    page: str


@dataclass(frozen=True, slots=True)
class JudgeView:
    """The coverage judge sees the intent, its nuggets and the candidate answer."""

    query: str
    nuggets: tuple[Nugget, ...]
    candidate_answer: str


@dataclass(frozen=True, slots=True)
class ExtractorView:
    """The nugget extractor sees the intent, the agent's answer to it, and the sources that the agent found."""

    query: str
    answer: str
    sources: tuple[NumberedSource, ...]

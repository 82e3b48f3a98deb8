"""What each role may see (paper, section 3.2). A role receives its view and nothing else.

The closed book is a property of these types: a field that a role must not know does not exist here.
Only the user (who answers, responds or selects) and the judges hold the intent, and neither speaks to the
Clarifier, the Rewriter or the agent except through an answer to a question that was asked, or a choice among
queries that were offered.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cts_async.records import Nugget, ReplyForm, value


@dataclass(frozen=True, slots=True)
class Exchange:
    """One turn of a conversation as both sides saw it: what was offered, and what the user said to it.

    A question and its answer; or in mode "select" the queries offered, and the one that was chosen.
    """

    offered: tuple[str, ...]
    reply: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """C in AT-CoT's equations 1 to 4: the query that began it, and the turns so far."""

    first_query: str
    exchanges: tuple[Exchange, ...] = ()

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The questions asked so far, each with its answer."""
        pairs = []
        for exchange in self.exchanges:
            for question in exchange.offered:
                pairs.append((question, exchange.reply))
        return tuple(pairs)


@dataclass(frozen=True, slots=True)
class ClarifierView:
    """The Clarifier sees the underspecified query q and how many questions it may ask.

    Only in mode "respond" are there `pairs` too: what it has asked before, and the answers.
    """

    blurred_query: str
    k: int
    pairs: tuple[tuple[str, str], ...] | None = None


@dataclass(frozen=True, slots=True)
class AnswererView:
    """The User Answerer sees the intent q* and ONE question, never the other questions or answers.

    Only in mode "respond" is that question a turn of a `conversation`, which the user remembers as well.
    """

    fused_query: str
    question: str
    conversation: Conversation | None = None
    replies: ReplyForm = "open"
    """In which form the user has to reply."""

    @property
    def pairs(self) -> tuple[tuple[str, str], ...] | None:
        """The earlier questions of the conversation, each with its answer; None without a conversation."""
        if self.conversation is None:
            return None
        return self.conversation.pairs


@dataclass(frozen=True, slots=True)
class TurnView:
    """The Clarifier of an AT-CoT scheme sees q, its own earlier turns with what the user said, and how many to give."""

    blurred_query: str
    """The query as it stands: q, or in mode "select" the one chosen last."""
    conversation: Conversation
    k: int


@dataclass(frozen=True, slots=True)
class SelectorView:
    """The selecting user sees the intent q*, the conversation so far and the queries offered now."""

    fused_query: str
    conversation: Conversation
    offered: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReformulatorView:
    """The reformulator sees the conversation, which begins with q."""

    conversation: Conversation


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
class AskingView(SearchView):
    """An agent that may ask the user sees its query, and how often it may and has to ask; the replies as it asks."""

    max_asks: int
    min_asks: int
    replies: ReplyForm


@dataclass(frozen=True, slots=True)
class VisitView:
    """The page reader sees a goal that the agent named, and one page."""

    goal: str
    page: str


@value
class JudgeView:
    """The coverage judge sees the intent (or the question that is graded), its nuggets and the candidate answer."""

    query: str
    nuggets: tuple[Nugget, ...]
    candidate_answer: str


@dataclass(frozen=True, slots=True)
class NumberedSource:
    """A source with its id; `text` is all that the search found there, in order, `uses` how often it was used."""

    id: str
    url: str
    title: str
    text: str
    uses: int = field(default=1, compare=False)
    last: int = field(default=0, compare=False)
    """The last turn that found it, from 0."""


@dataclass(frozen=True, slots=True)
class ExtractorView:
    """The nugget extractor sees the intent, the agent's answer to it, and the sources that the agent found."""

    query: str
    answer: str
    sources: tuple[NumberedSource, ...]

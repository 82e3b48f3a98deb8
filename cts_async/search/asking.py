"""Asking the user during a search: the questions of one search, within its rules, and answers given at some turn.

Whoever searches holds an `AskSession`, and of the user nothing but what it says: the intent stays with the `User`.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Final, Protocol

import anyio

from cts_async.engine.runner import Context
from cts_async.records import Answer, Ask, AskLog, AskRules

ASK_STEP: Final = "search/ask/"
"""The replies to an agent are steps search/ask/N, from 1 for each search."""
MAX_QUESTION_CHARS: Final = 1_000
"""A longer question is cut: the user reads one short question, and not a text that an agent sends along."""


class User(Protocol):
    """Who has the intent, and answers one question about it."""

    async def reply(self, ctx: Context, question: str, step: str) -> Answer:
        """Return the reply to a question, as a durable step. Raises StepError: a failed reply is none."""


class NoQuestionsLeft(Exception):
    """The rules allow no further question."""


class AskSession:
    """The questions of one search."""

    def __init__(self, user: User, rules: AskRules) -> None:
        self._user, self.rules = user, rules
        self.asks: list[Ask] = []
        self.n_refused = self.n_early = 0
        """As in AskLog."""
        self._replies: dict[str, tuple[str, str]] = {}
        """Each reply with the name of its step, by question, normalised."""
        self._one_at_a_time = anyio.Lock()

    @property
    def n_left(self) -> int:
        """Number of questions that may still be asked."""
        return self.rules.max_asks - len(self.asks)

    @property
    def n_missing(self) -> int:
        """Number of questions that have still to be asked before an answer."""
        return max(0, self.rules.min_asks - len(self.asks))

    async def ask(self, ctx: Context, question: str, turn: int) -> tuple[Ask, str]:
        """Ask in the turn `turn`; returns the reply, and the name of the step that has it.

        An equal question gets the reply that the user gave before. Raises NoQuestionsLeft, StepError.
        """
        # Code of the user's may ask side by side: the questions are counted and numbered as they come.
        async with self._one_at_a_time:
            if self.n_left <= 0:
                self.n_refused += 1
                raise NoQuestionsLeft
            normalised = normalised_question(question)
            if normalised not in self._replies:
                step = f"{ASK_STEP}{len(self._replies) + 1}"
                answer = await self._user.reply(ctx, question, step)
                self._replies[normalised] = answer.text, step
            reply, step = self._replies[normalised]
            ask = Ask(question, reply, turn)
            self.asks.append(ask)
            return ask, step

    def log(self, n_turns: int) -> AskLog:
        """What was asked in a search of so many turns."""
        return AskLog(tuple(self.asks), n_turns, self.n_refused, self.n_early)


def normalised_question(question: str) -> str:
    """The question's letters and digits, case and width folded, with single spaces: equal texts are one question."""
    folded = unicodedata.normalize("NFKC", question).casefold()
    letters = "".join(sign for sign in folded if sign.isalnum() or sign.isspace())
    return " ".join(letters.split())


@dataclass(frozen=True, slots=True)
class Injection:
    """Answers that were elicited before the search, given to the agent when a share of its turns is used up."""

    text: str
    share: float
    """From 0 (before its first turn) to below 1."""

    def is_due(self, n_used: int, max_turns: int) -> bool:
        """Whether it is given before the next turn, after `n_used` of at most `max_turns`."""
        # Not n_used >= share * max_turns: 0.55 * 20 is 11.000000000000002, and 11 / 20 is exactly what 0.55 is.
        return n_used / max_turns >= self.share

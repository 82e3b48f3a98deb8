"""The user whom an agent may ask during its search, and the answers that are given to it at some turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cts_async.config import RunConfig
from cts_async.engine.runner import Context
from cts_async.errors import UsageError
from cts_async.protocol.conversation import Answerer
from cts_async.protocol.roles import qa_pairs
from cts_async.protocol.views import AnswererView, RewriterView
from cts_async.records import ASK_TIMES, Answer, AskRules, Language, ReplyForm, language_of
from cts_async.search.asking import Injection


@dataclass(frozen=True, slots=True)
class InstanceUser:
    """The user of one instance: the User Answerer with the intent, who sees one question at a time."""

    answerer: Answerer
    intent: str
    replies: ReplyForm

    async def reply(self, ctx: Context, question: str, step: str) -> Answer:
        """The reply to one question. Raises StepError: a failed reply is neither "no" nor unknown."""
        return await self.answerer.answer(
            ctx, AnswererView(self.intent, question, replies=self.replies), step
        )


_INTRODUCTION: dict[Language, str] = {
    "en": "The user was asked before your search, and answered:",
    "zh": "搜索之前已向用户提问，用户的回答如下：",
}


def injection_of(view: RewriterView, share: float) -> Injection:
    """The pairs that were elicited before the search, for the agent, when a share of its turns is used up."""
    language = language_of(view.blurred_query)
    return Injection(f"{_INTRODUCTION[language]}\n{qa_pairs(view, language)}", share)


def asks_json(rules: AskRules) -> dict[str, Any]:
    """The rules as a run's identity records them."""
    return {"max": rules.max_asks, "min": rules.min_asks, "replies": rules.replies}


def check_asking(config: RunConfig) -> None:
    """Raise UsageError for options of asking that are out of range, or cannot go together."""
    if not config.ask:
        raise UsageError(f"--ask: name one of {', '.join(ASK_TIMES)}")
    if config.max_asks < 1:
        raise UsageError(f"--max-asks {config.max_asks}: must be 1 or more; --ask never is for none")
    if not 0 <= config.min_asks <= config.max_asks:
        raise UsageError(
            f"--min-asks {config.min_asks}: must be from 0 to the most that may be asked, --max-asks {config.max_asks}"
        )
    for share in config.inject_at:
        if not 0 <= share < 1:
            problem = f"--inject-at {share:g}: must be a share of the agent's turns, from 0 to below 1"
            if 1 < share < 100:
                problem += f"; {share:g} % are {share / 100:g}"
            raise UsageError(problem)
    _check_before(config)
    if config.asks_during_search:
        _check_during(config)
    elif config.ask_rules != AskRules():
        raise UsageError(
            "--max-asks, --min-asks and --replies are of questions during the search: add --ask during, or both"
        )


def _check_before(config: RunConfig) -> None:
    """Raise UsageError for options of asking before the search that its systems do not have, or nobody has."""
    if config.given_rewrites and (config.inject_at or "both" in config.ask):
        option = "--ask both"
        if config.inject_at:
            option = "--inject-at"
        raise UsageError(
            f"{option}: the queries of --rewrites have no questions and answers of before the search; give --questions "
            "in the place of --rewrites, or --ask during"
        )
    if config.inject_at and "before" not in config.ask:
        raise UsageError("--inject-at gives the agent what was asked before its search: add --ask before")
    if config.inject_at and (config.schemes, config.modes) != (("cts",), ("at-once",)):
        raise UsageError(
            "--inject-at gives answers to questions asked at once: leave out --scheme and --mode"
        )
    named = [name for name in config.models if name not in ("local", config.every_role)]
    if named and not config.asks_before_search:
        raise UsageError(
            f"--model {named[0]}: nobody asks before the search with --ask {','.join(config.ask)}; choose who searches "
            "and asks with --agent, or add --ask before, or both"
        )


def _check_during(config: RunConfig) -> None:
    """Raise UsageError for options that a search with questions cannot have."""
    if config.stop_after:
        raise UsageError(f"--stop-after {config.stop_after}: there is no search to ask in: leave out --ask")
    if config.answers:
        raise UsageError(
            f"--answers {config.answers}: people answered other questions than an agent asks: leave it out, or --ask"
        )

"""Clarify-then-search, as the paper's figure 1 draws it.

    q --Clarifier--> questions --User Answerer (q*)--> answers --Rewriter (q)--> q-hat
    q-hat --deep search--> answer --coverage judge (nuggets of q*)--> restore_score_100

Given questions take the Clarifier's place, given rewritten queries the whole first line's, and a run may stop after any
stage of it. By another scheme or mode the first line is a conversation (`conversation`), and q-hat what it ends with.
Ordinary async code: each role's call is a durable step, so running it again is resuming it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from cts_async.engine.runner import Context
from cts_async.protocol.conversation import (
    Participants,
    TurnClarifier,
    answer_all,
    answered_questions,
    converse,
    rewrite,
)
from cts_async.protocol.given import Given
from cts_async.protocol.judge import Judge, nothing_covered
from cts_async.protocol.roles import Clarifier, Searcher
from cts_async.protocol.systems import System
from cts_async.protocol.views import ClarifierView, JudgeView, SearchView
from cts_async.records import Instance, Judgment, Outcome, Stage


@dataclass(frozen=True, slots=True)
class Cast:
    """Who plays which role. Only the Clarifier varies between compared systems (paper, table 1)."""

    participants: Participants
    searcher: Searcher
    judges: tuple[Judge, ...]
    """The first one's labels are the score; empty: nothing is judged."""
    given: Mapping[str, Given] = field(default_factory=dict)
    """Questions, or rewritten queries, that are given, by label."""
    stop_after: Stage | None = None
    """The last stage of a run without a search."""


async def clarify_then_search(
    ctx: Context, cast: Cast, clarifier: Clarifier, instance: Instance, k: int
) -> Outcome:
    """A Clarifier with a budget of `k` questions (paper, section 5.3)."""
    questions = await clarifier.clarify(ctx, ClarifierView(instance.blurred_query, k))
    if cast.stop_after == "questions":
        return Outcome(instance, k, questions)
    answers = await answer_all(ctx, cast.participants, instance, questions)
    if cast.stop_after == "answers":
        return Outcome(instance, k, questions, answers)
    q_hat = await rewrite(ctx, cast.participants, instance, questions, answers)
    outcome = Outcome(instance, k, questions, answers, q_hat)
    return outcome if cast.stop_after == "rewrite" else await _search(ctx, cast, outcome)


async def converse_then_search(
    ctx: Context, cast: Cast, clarifier: TurnClarifier, instance: Instance, system: System
) -> Outcome:
    """A Clarifier by another scheme or mode: the query of the last turn is searched."""
    turns = await converse(ctx, cast.participants, clarifier, instance, system, every_turn=False)
    questions, answers = answered_questions(turns)
    outcome = Outcome(instance, system.k, questions, answers, turns[-1].query, turns=turns)
    return await _search(ctx, cast, outcome)


async def search_only(ctx: Context, cast: Cast, instance: Instance, system: System) -> Outcome:
    """Nobody asks: the agent on q itself (`orig`), on q* (`gold`), or on a rewritten query that is given."""
    if system.kind == "rewrites":
        (query,) = cast.given[system.clarifier].texts[instance.id]
    else:
        query = instance.blurred_query if system.kind == "orig" else instance.fused_query
    return await _search(ctx, cast, Outcome(instance, 0, (), rewritten_query=query))


async def judge_answer(
    ctx: Context, judges: tuple[Judge, ...], instance: Instance, answer_text: str
) -> tuple[Judgment, ...]:
    """Every judge's labels for one answer; none where the instance has no nuggets. An empty one covers nothing."""
    if not instance.nuggets:
        return ()
    if not answer_text:
        return tuple(nothing_covered(judge.name, instance.nuggets) for judge in judges)
    view = JudgeView(instance.fused_query, instance.nuggets, answer_text)
    return tuple(await ctx.gather([partial(judge.judge, ctx, view) for judge in judges]))


async def _search(ctx: Context, cast: Cast, outcome: Outcome) -> Outcome:
    """Search what asking has led to, and judge the answer."""
    trace = await cast.searcher.search(ctx, SearchView(outcome.rewritten_query))
    judgments = await judge_answer(ctx, cast.judges, outcome.instance, trace.answer)
    return replace(outcome, trace=trace, judgments=judgments)

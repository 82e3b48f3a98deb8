"""Clarify-then-search, as the paper's figure 1 draws it.

    q --Clarifier--> questions --User Answerer (q*)--> answers --Rewriter (q)--> q-hat
    q-hat --deep search--> answer --coverage judge (nuggets of q*)--> restore_score_100

The agent may ask the user, too, during its search; or it is given the answers as they are, at some turn (`asking`).
Given questions take the Clarifier's place, given rewritten queries the whole first line's, and a run may stop after any
stage of it. By another scheme or mode the first line is a conversation (`conversation`), and q-hat what it ends with.
Ordinary async code: each role's call is a durable step, so running it again is resuming it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from cts_async.engine.runner import Context
from cts_async.errors import ProviderGone, StepError
from cts_async.protocol.asking import InstanceUser, injection_of
from cts_async.protocol.conversation import (
    Participants,
    TurnClarifier,
    answer_all,
    answered_questions,
    converse,
    made_before,
    rewrite,
)
from cts_async.protocol.given import Given
from cts_async.protocol.judge import LEXICAL, Judge, nothing_covered
from cts_async.protocol.roles import Clarifier, Searcher
from cts_async.protocol.systems import System
from cts_async.protocol.views import AskingView, ClarifierView, JudgeView, RewriterView, SearchView
from cts_async.records import Instance, Judgment, Outcome, Stage, Verdicts
from cts_async.search.asking import Injection
from cts_async.search.confidence import with_confidence


@dataclass(frozen=True, slots=True)
class Cast:
    """Who plays which role. Only the Clarifier varies between compared systems (paper, table 1)."""

    participants: Participants
    searcher: Searcher
    asking_searcher: Searcher
    """The same agent, where it may ask the user."""
    judges: tuple[Judge, ...]
    """The first one's labels are the score; empty: nothing is judged."""
    given: Mapping[str, Given] = field(default_factory=dict)
    """Questions, or rewritten queries, that are given, by label."""
    stop_after: Stage | None = None
    """The last stage of a run without a search."""
    asks_confidence: bool = False
    """Whether an agent says how sure it is of its answer, in its last line."""

    @property
    def scoring(self) -> str:
        """The name of the judge whose labels are the score; "" where nothing is judged."""
        if not self.judges:
            return ""
        return self.judges[0].name


async def with_further(ctx: Context, walk: Callable[[Context], Awaitable[Outcome]]) -> Outcome:
    """The outcome of a walk, or what it had reached when it failed, with the further fields of its roles' replies."""
    try:
        outcome = await walk(ctx)
    except StepError as error:
        if ctx.further and isinstance(error.reached, Outcome):
            error.reached = replace(error.reached, further=ctx.further)
        raise
    return replace(outcome, further=ctx.further) if ctx.further else outcome


async def clarify_then_search(
    ctx: Context, cast: Cast, clarifier: Clarifier, instance: Instance, system: System
) -> Outcome:
    """A Clarifier with a budget of k questions (paper, section 5.3)."""
    questions = await clarifier.clarify(ctx, ClarifierView(instance.query, system.k))
    outcome = Outcome(instance, system.k, questions)
    if cast.stop_after == "questions":
        return outcome
    with made_before(outcome):
        answers = await answer_all(ctx, cast.participants, instance, questions)
    outcome = replace(outcome, answers=answers)
    if cast.stop_after == "answers":
        return outcome
    if system.inject_at is not None:
        texts = [answer.text for answer in answers]
        view = RewriterView(instance.query, tuple(zip(questions, texts, strict=True)))
        outcome = replace(outcome, rewritten_query=instance.query)
        return await _search(ctx, cast, outcome, system, injection_of(view, system.inject_at))
    with made_before(outcome):
        q_hat = await rewrite(ctx, cast.participants, instance, questions, answers)
    outcome = replace(outcome, rewritten_query=q_hat)
    if cast.stop_after == "rewrite":
        return outcome
    return await _search(ctx, cast, outcome, system)


async def converse_then_search(
    ctx: Context, cast: Cast, clarifier: TurnClarifier, instance: Instance, system: System
) -> Outcome:
    """A Clarifier by another scheme or mode: the query of the last turn is searched."""
    turns = await converse(ctx, cast.participants, clarifier, instance, system, every_turn=False)
    questions, answers = answered_questions(turns)
    outcome = Outcome(instance, system.k, questions, answers, turns[-1].query, turns=turns)
    return await _search(ctx, cast, outcome, system)


async def search_only(ctx: Context, cast: Cast, instance: Instance, system: System) -> Outcome:
    """Nobody asks before the search: the agent on q itself (`orig`, and where it asks itself), on q* (`gold`), or on a
    rewritten query that is given.
    """
    if system.kind == "rewrites":
        (query,) = cast.given[system.clarifier].texts[instance.id]
    elif system.kind == "gold":
        query = instance.intent
    else:
        query = instance.query
    return await _search(ctx, cast, Outcome(instance, 0, (), rewritten_query=query), system)


async def judge_answer(
    ctx: Context, judges: tuple[Judge, ...], instance: Instance, answer_text: str
) -> dict[str, Judgment | StepError | None]:
    """Every judge's verdict on one answer, each by itself; none where the instance has no nuggets.

    A judge that fails, or whose provider is gone, changes nothing for the others. Where the providers of all judges are
    gone that ask a model, their RunStopped is raised. An empty answer covers nothing.
    """
    verdicts: dict[str, Judgment | StepError | None] = {}
    if not instance.nuggets:
        return verdicts
    if not answer_text:
        for judge in judges:
            verdicts[judge.name] = nothing_covered(judge.name, instance.nuggets)
        return verdicts
    view = JudgeView(instance.judged_by, instance.nuggets, answer_text)
    n_asking = sum(judge.name != LEXICAL for judge in judges)
    calls = []
    for judge in judges:
        # Apart, an outage of one judge's provider stops that judge alone.
        part = ctx.apart(f"judge {judge.name}") if n_asking > 1 else ctx
        calls.append(partial(judge.judge, part, view))
    gone: list[ProviderGone] = []
    for judge, ended in zip(judges, await ctx.settle(calls), strict=True):
        if isinstance(ended, ProviderGone):
            gone.append(ended)
            verdicts[judge.name] = None  # neither a label nor a failure: it is made later
        else:
            verdicts[judge.name] = ended
    # There is no sense in paying for more answers while nobody judges them.
    if gone and len(gone) == n_asking:
        raise gone[0]
    return verdicts


async def judge_recorded(
    ctx: Context, judges: tuple[Judge, ...], scoring: str, instance: Instance, answer_text: str
) -> Outcome:
    """The verdicts on a recorded answer that these judges have still to give."""
    verdicts = await judge_answer(ctx, judges, instance, answer_text)
    return _judged(Outcome(instance, 0, ()), verdicts, scoring)


async def _search(
    ctx: Context, cast: Cast, outcome: Outcome, system: System, injection: Injection | None = None
) -> Outcome:
    """Search what asking has led to, and judge the answer. In some systems the agent may ask the user itself."""
    query, asks = outcome.rewritten_query, system.asks
    with made_before(outcome):
        if asks is None:
            trace = await cast.searcher.search(ctx, SearchView(query), injection=injection)
        else:
            view = AskingView(query, asks.max_asks, asks.min_asks, asks.replies)
            user = InstanceUser(cast.participants.answerer, outcome.instance.intent, asks.replies)
            trace = await cast.asking_searcher.search(ctx, view, user=user, injection=injection)
    # Code of the user's may state it as a model does.
    if cast.asks_confidence and trace.confidence is None:
        trace = with_confidence(trace)
    verdicts = await judge_answer(ctx, cast.judges, outcome.instance, trace.answer)
    outcome = replace(outcome, trace=trace, asks_confidence=cast.asks_confidence)
    return _judged(outcome, verdicts, cast.scoring)


def _judged(outcome: Outcome, verdicts: Verdicts, scoring: str) -> Outcome:
    """`outcome` with its verdicts. Raises the scoring judge's failure, which takes the outcome along."""
    outcome = replace(outcome, verdicts=verdicts)
    failure = verdicts.get(scoring)
    if isinstance(failure, StepError):
        failure.reached = outcome
        raise failure
    return outcome

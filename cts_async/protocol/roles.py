"""A role: a model that is given a prompt, the fields of its view, and a form to answer in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from cts_async.engine.runner import Context
from cts_async.engine.step import RetryPolicy, step_key
from cts_async.llm.model import Model
from cts_async.llm.parsing import Expect, OneLine, QuestionList, ShortPhrase
from cts_async.protocol.prompts import PromptSet
from cts_async.protocol.views import AnswererView, ClarifierView, RewriterView, SearchView
from cts_async.records import AgentPrompt, Answer, Language, Trace, language_of
from cts_async.search.agent import Agent

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Role:
    """Who speaks (a model) and from which prompts."""

    model: Model
    prompts: PromptSet

    async def ask(
        self,
        ctx: Context,
        step: str,
        prompt: str,
        language: Language,
        expect: Expect[T],
        *,
        on_record: Sequence[str] = (),
        shared: bool = False,
        policy: RetryPolicy | None = None,
        **fields: Any,
    ) -> T:
        """Render `prompt` with `fields`, ask, and read the reply as `expect`; remembered as `step`.

        The fields named in `on_record` stand verbatim in the run's data or results already: the journal
        gets one digest of them instead of their text (see `request_json`). A `shared` step is the same
        step for every instance that asks the same; all its fields have to be `on_record`. `policy` is the
        step's own patience, e.g. how often the model is asked again; None: the runner's.
        """
        rendered = self.prompts.get(prompt, language, self.model.spec.prompt_size)
        values = {name: str(value) for name, value in fields.items()}
        digest = _digest(values, on_record) if on_record else ""
        request = _request(rendered.name, values, on_record, digest)
        # The prompt's text and its fields determine the messages; a digest that is there is not made twice.
        # What many instances share is told apart by all of it.
        key_on = [rendered.sha256, digest if shared else request] if on_record else None
        messages = rendered.render(**values)
        return await self.model.ask(
            ctx, step, messages, expect, request=request, key_on=key_on, shared=shared, policy=policy
        )


def request_json(prompt: str, values: Mapping[str, str], on_record: Sequence[str] = ()) -> dict[str, Any]:
    """A role's request as the journal has it: `{"prompt", "fields", "on_record"}`, empty parts left out.

    `fields` are the texts that stand nowhere else. `on_record` are 16 hex digits over the others by name,
    enough to prove which text of the data it was: compute them again from there and compare.
    """
    return _request(prompt, values, on_record, _digest(values, on_record) if on_record else "")


def _request(prompt: str, values: Mapping[str, str], on_record: Sequence[str], digest: str) -> dict[str, Any]:
    new = {name: value for name, value in values.items() if name not in on_record}
    request: dict[str, Any] = {"prompt": prompt}
    if new:
        request["fields"] = new
    if digest:
        request["on_record"] = digest[:16]
    return request


def _digest(values: Mapping[str, str], on_record: Sequence[str]) -> str:
    return step_key({name: values[name] for name in on_record})


# --- The Clarifier: k short questions from q alone, best first (paper, prompt A).


async def clarify(ctx: Context, clarifier: Role, view: ClarifierView) -> tuple[str, ...]:
    """Exactly `view.k` non-empty, distinct questions."""
    return await clarifier.ask(
        ctx,
        "clarify",
        "clarify",
        language_of(view.blurred_query),
        QuestionList(view.k),
        blurred_query=view.blurred_query,
        k=view.k,
    )


# --- The user who answers: one short phrase from q* for one question, or `unknown`.


class Answerer(Protocol):
    """Who answers the Clarifier's questions in the place of the user."""

    async def answer(self, ctx: Context, view: AnswererView, turn: int) -> Answer:
        """The answer to question number `turn` (from 1) of the instance that `ctx` works on.

        In mode "respond" the view has the conversation so far; who answers from a list need not look at it.
        """


@dataclass(frozen=True, slots=True)
class ModelAnswerer:
    """The User Answerer as CTS has it (prompt B): a model that knows the intent, and of the rest one question."""

    role: Role

    async def answer(self, ctx: Context, view: AnswererView, turn: int) -> Answer:
        """A short phrase from q*, or `unknown`."""
        return await self.role.ask(
            ctx,
            f"answer/{turn}",
            "answer",
            language_of(view.fused_query),
            ShortPhrase(),
            on_record=("clear_query",),
            clear_query=view.fused_query,
            clarification_question=view.question,
        )


# --- The Rewriter: one retrieval-ready sentence from q and the elicited pairs (paper, prompt C).


_LABELS: dict[Language, tuple[str, str]] = {"en": ("Question", "Answer"), "zh": ("问题", "回答")}


async def rewrite(ctx: Context, rewriter: Role, view: RewriterView) -> str:
    """The rewritten query q-hat: one non-empty line."""
    language = language_of(view.blurred_query)
    return await rewriter.ask(
        ctx,
        "rewrite",
        "rewrite",
        language,
        OneLine(),
        blurred_query=view.blurred_query,
        qa_pairs=qa_pairs(view, language),
    )


def qa_pairs(view: RewriterView, language: Language) -> str:
    """The pairs as numbered lines of text."""
    asked, answered = _LABELS[language]
    return "\n".join(
        f"{asked} {i}: {question}\n{answered} {i}: {reply}"
        for i, (question, reply) in enumerate(view.pairs, 1)
    )


# --- Deep search as a role: its prompt around the agent's loop.


@dataclass(frozen=True, slots=True)
class DeepSearch:
    """The agent with its prompts; `current_date` (YYYY-MM-DD) and `prompt` are fixed for a whole run."""

    agent: Agent
    prompts: PromptSet
    current_date: str
    prompt: AgentPrompt = "query"

    async def search(self, ctx: Context, view: SearchView, *, anew: bool = False) -> Trace:
        """Search until there is an answer, or the budget of model calls is spent; `anew` as in `Agent.run`."""
        language = self.prompt if self.prompt in ("en", "zh") else language_of(view.query)
        prompt = self.prompts.agent(self.prompt, view.query, self.agent.model.spec.prompt_size)
        fields = {"question": view.query, "current_date": self.current_date}
        request = {"prompt": prompt.name, "fields": fields}
        opening = prompt.render(**fields)
        return await self.agent.run(ctx, view.query, opening, language, request, retry_failures=anew)

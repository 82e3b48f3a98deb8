"""Roles: a model with its prompts, and the steps of Clarifier, Rewriter, deep search and page reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from cts_async.engine.runner import Context
from cts_async.engine.step import RetryPolicy, Step, step_key
from cts_async.errors import RejectedError, UnusableOutput
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.model import FIRST_PER_BYTE, Model, ModelCall
from cts_async.llm.params import output_limit
from cts_async.llm.parsing import Expect, OneLine, QuestionList
from cts_async.protocol.prompts import PromptSet
from cts_async.protocol.views import AskingView, ClarifierView, RewriterView, SearchView, VisitView
from cts_async.records import AgentPrompt, AskRules, Language, Trace, language_of
from cts_async.search.agent import Agent
from cts_async.search.asking import AskSession, Injection, User
from cts_async.search.backends import Page
from cts_async.search.evidence import Evidence, EvidenceForm

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Role:
    """A model, the prompts it is used with, and request parameters that override the model's own."""

    model: Model
    prompts: PromptSet
    params: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of this role that are sent over the model's own, and determine its steps."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of this role that are sent where the model's entry does not set them."""

    def step(
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
        repeated_before: str = "",
        **fields: Any,
    ) -> Step[T]:
        """The durable step that renders `prompt` with `fields`, asks the model, and parses the reply as `expect`.

        The fields named in `on_record` are stored verbatim in the run's data or results already: the journal gets one
        digest of them instead of their text (see `request_json`). A `shared` step is one step for all instances that
        ask the same; all its fields have to be `on_record`. `policy` overrides the runner's retries for this step.
        Where further steps will repeat the prompt up to one of its fields, `repeated_before` names that.
        """
        rendered = self.prompts.get(prompt, language, self.model.spec.prompt_size)
        values: dict[str, str] = {}
        for name, value in fields.items():
            values[name] = str(value)
        digest = _digest(values, on_record) if on_record else None
        request = request_json(rendered.name, values, on_record, digest)
        key_on = None
        if on_record:
            # The prompt's text and its fields determine the messages, so the key need not contain the messages. A shared
            # step is keyed on the full digest: 16 hex digits are too few to tell apart the questions of all instances.
            key_on = [rendered.sha256, digest if shared else request]
        messages = rendered.render(**values)
        repeated_chars = 0
        if repeated_before:
            repeated_chars = rendered.chars_before(repeated_before, **values)
        return self.model.step(
            ctx,
            ModelCall(
                step,
                messages,
                expect,
                request,
                key_on=key_on,
                params=self.params,
                defaults=self.defaults,
                shared=shared,
                policy=policy,
                repeated_chars=repeated_chars,
            ),
        )


def request_json(
    prompt: str, values: Mapping[str, str], on_record: Sequence[str] = (), digest: str | None = None
) -> dict[str, Any]:
    """A role's request as the journal stores it: `{"prompt", "fields", "on_record"}`, without empty parts.

    `fields` are the texts that are stored nowhere else. `on_record` are 16 hex digits over the others by name: computed
    again from the data, they prove which texts were sent. `digest` is that digest, if the caller has it already.
    """
    request: dict[str, Any] = {"prompt": prompt}
    # Of a judge's question, which is asked a million times, all are on record.
    if len(on_record) < len(values):
        request["fields"] = {name: value for name, value in values.items() if name not in on_record}
    if on_record:
        request["on_record"] = (digest or _digest(values, on_record))[:16]
    return request


def _digest(values: Mapping[str, str], on_record: Sequence[str]) -> str:
    texts = values
    if len(on_record) < len(values):
        texts = {name: values[name] for name in on_record}
    return step_key(texts)


class Clarifier(Protocol):
    """Asks the questions of the benchmark's own scheme, all at once."""

    async def clarify(self, ctx: Context, view: ClarifierView) -> tuple[str, ...]:
        """Exactly `view.k` non-empty, distinct questions."""


@dataclass(frozen=True, slots=True)
class ModelClarifier:
    """The Clarifier of CTS (prompt A): a model that sees q and k."""

    role: Role

    async def clarify(self, ctx: Context, view: ClarifierView) -> tuple[str, ...]:
        return await ctx.step(
            self.role.step(
                ctx,
                "clarify",
                "clarify",
                language_of(view.blurred_query),
                QuestionList(view.k),
                blurred_query=view.blurred_query,
                k=view.k,
            )
        )


_LABELS: dict[Language, tuple[str, str]] = {"en": ("Question", "Answer"), "zh": ("问题", "回答")}


class Rewriter(Protocol):
    """Turns q and the answers to questions about it into one query."""

    async def rewrite(self, ctx: Context, view: RewriterView) -> str:
        """The rewritten query q-hat: one non-empty line."""


@dataclass(frozen=True, slots=True)
class ModelRewriter:
    """The Rewriter of CTS (prompt C): a model that sees q and the pairs."""

    role: Role

    async def rewrite(self, ctx: Context, view: RewriterView) -> str:
        language = language_of(view.blurred_query)
        return await ctx.step(
            self.role.step(
                ctx,
                "rewrite",
                "rewrite",
                language,
                OneLine(),
                blurred_query=view.blurred_query,
                qa_pairs=qa_pairs(view, language),
            )
        )


def qa_pairs(view: RewriterView, language: Language) -> str:
    """The pairs as numbered lines of text."""
    question_label, answer_label = _LABELS[language]
    lines = []
    for n, (question, answer) in enumerate(view.pairs, 1):
        lines += [f"{question_label} {n}: {question}", f"{answer_label} {n}: {answer}"]
    return "\n".join(lines)


class Searcher(Protocol):
    """A deep-search agent."""

    async def search(
        self,
        ctx: Context,
        view: SearchView,
        *,
        retry_failures: bool = False,
        user: User | None = None,
        injection: Injection | None = None,
    ) -> Trace:
        """Search until there is an answer; `retry_failures` and `injection` as in `Agent.run`.

        With an AskingView the `user` may be asked.
        """


@dataclass(frozen=True, slots=True)
class DeepSearch:
    """The search agent with its prompts; `current_date` (YYYY-MM-DD) and `prompt` are the same for a whole run."""

    agent: Agent
    prompts: PromptSet
    current_date: str
    prompt: AgentPrompt = "query"

    async def search(
        self,
        ctx: Context,
        view: SearchView,
        *,
        retry_failures: bool = False,
        user: User | None = None,
        injection: Injection | None = None,
    ) -> Trace:
        language = self.prompt if self.prompt in ("en", "zh") else language_of(view.query)
        prompt = self.prompts.agent(self.prompt, view.query, self.agent.model.spec.prompt_size)
        fields = {"question": view.query, "current_date": self.current_date}
        request = {"prompt": prompt.name, "fields": fields}
        opening = prompt.render(**fields)
        session = None
        if isinstance(view, AskingView) and user is not None:
            session = AskSession(user, AskRules(view.max_asks, view.min_asks, view.replies))
        return await self.agent.run(
            ctx,
            view.query,
            opening,
            language,
            request,
            retry_failures=retry_failures,
            session=session,
            injection=injection,
        )


# --- The page reader: a model extracts from a page what concerns the agent's goal (WebDancer's visit)

PAGE_TOKENS: Final = 20_000
"""Maximum of estimated tokens of a page; the rest is left out, with a note to the model."""
MAX_PAGE_TOKENS: Final = 95_000
"""The same for Tongyi DeepResearch (`shorter_pages`), which counts them with another model's tokenizer."""
SHORTER: Final = 0.7
"""What is left of a page that could not be read, as a share of its characters."""
SHORTER_TRIES: Final = 3
AROUND_TOKENS: Final = 700
"""Tokens of the prompt without the page."""
_CUT: Final = "\n(The page goes on; the rest is left out here.)"


@dataclass(frozen=True, slots=True)
class PageVisitor:
    """Reads pages with a model."""

    role: Role
    whole_pages: bool = False
    """Give it all of a page that its context has room for; else PAGE_TOKENS."""
    shorter_pages: bool = False
    """Give it MAX_PAGE_TOKENS at most, and where it cannot read them, less: SHORTER_TRIES times."""

    async def extract(self, ctx: Context, step: str, page: Page, goal: str) -> Evidence:
        """Read a page, or its first `page_tokens`, as a durable step."""
        text = f"{page.title}\n\n{page.text}" if page.title else page.text
        limit = page_tokens(self.role.model.spec, whole=self.whole_pages)
        if self.shorter_pages:
            limit = min(limit or MAX_PAGE_TOKENS, MAX_PAGE_TOKENS)
        if limit is not None:
            text = cut(text, limit)
        if not self.shorter_pages:
            return await ctx.step(self._reading(ctx, step, text, goal))
        return await self._read_shorter(ctx, step, text, goal)

    def _reading(self, ctx: Context, step: str, text: str, goal: str) -> Step[Evidence]:
        view = VisitView(goal, text)
        # The journal (the agent's turn, the page's step) or the documents have goal and page already.
        return self.role.step(
            ctx,
            step,
            "visit",
            language_of(goal),
            EvidenceForm(),
            on_record=("goal", "page"),
            goal=view.goal,
            page=view.page,
        )

    async def _read_shorter(self, ctx: Context, step: str, text: str, goal: str) -> Evidence:
        """Read a page, and less of it where that fails for a reason that may lie in its length."""
        readings = [self._reading(ctx, step, text, goal)]
        for _ in range(SHORTER_TRIES):
            text = text[: int(len(text) * SHORTER)]
            readings.append(self._reading(ctx, step, text, goal))
        # A failure is not remembered. A resumed search must not try again, and perhaps read, a longer part than the one
        # that was read: the agent has continued from that.
        for reading in readings:
            if await ctx.recall(reading.key) is not None:
                return await ctx.step(reading)
        for reading in readings[:-1]:
            try:
                return await ctx.step(reading)
            except (UnusableOutput, RejectedError):
                continue
        return await ctx.step(readings[-1])


def page_tokens(spec: ModelSpec, *, whole: bool = False) -> int | None:
    """Estimated tokens of a page that fit into the model's context, at most PAGE_TOKENS unless `whole`.

    None: as many as it has, since the catalogue names no context.
    """
    limit = None if whole else PAGE_TOKENS
    if spec.context_tokens is None:
        return limit
    reply = output_limit(spec.params) or AROUND_TOKENS
    room = max(AROUND_TOKENS, spec.context_tokens - reply - AROUND_TOKENS)
    return room if limit is None else min(limit, room)


def cut(text: str, tokens: int) -> str:
    """The first so many estimated tokens of `text`, with a note if it is longer."""
    max_bytes = int(tokens / FIRST_PER_BYTE)
    data = text.encode(errors="replace")
    if len(data) <= max_bytes:
        return text
    # A character that the cut goes through is left out.
    return data[:max_bytes].decode(errors="ignore") + _CUT

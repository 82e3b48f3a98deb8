"""A model in use: asks one question as a durable step, and parses the reply into what the step expects."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, TypeVar

from cts_async.engine.events import Events, Notice, Usage
from cts_async.engine.lane import Lane
from cts_async.engine.runner import Context
from cts_async.engine.step import Executed, Prices, RetryPolicy, Step, step_key
from cts_async.errors import ContentRefused, UnusableOutput
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.client import Client
from cts_async.llm.json_text import split_thoughts
from cts_async.llm.messages import (
    ChatRequest,
    Constraint,
    Message,
    Reply,
    TokenCeiling,
    TokenEstimate,
    n_bytes,
)
from cts_async.llm.parsing import Expect
from cts_async.llm.responses import LENGTH, STOP

T = TypeVar("T")

_OUTPUT_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
UNCONSTRAINED = Constraint()
NO_PARAMS: Mapping[str, Any] = MappingProxyType({})
QUOTED_CHARS = 2000
"""How much of an unusable reply is quoted when the model is asked again."""


class Model:
    """A catalogue entry bound to its client and to its account's lane."""

    def __init__(
        self, spec: ModelSpec, client: Client, lane: Lane, served: ServedModels | None = None
    ) -> None:
        self.spec, self.lane = spec, lane
        self._client, self._served = client, served
        self._tokens = TokenEstimate()
        self._ceiling: TokenCeiling | None = None  # made when a budget first asks for it
        self.prices = prices_of(spec)

    async def ask(
        self,
        ctx: Context,
        step: str,
        messages: Sequence[Message],
        expect: Expect[T],
        *,
        request: Any,
        key_on: Any = None,
        params: Mapping[str, Any] | None = None,
        shared: bool = False,
        policy: RetryPolicy | None = None,
    ) -> T:
        """Ask the model, or return the reply that the journal has; a `shared` step is the same for all instances.

        `request` is what is new in the messages, for the journal. `key_on` stands for the messages in the step's key
        where that is cheaper (a digest of a long conversation); by default they do. Thoughts at the beginning of a
        reply are separated from it, unless they belong to its form (see `Expect`). `policy` is the step's own retry
        policy; None: the runner's. Raises as `Context.step`.
        """
        if self.spec.text_params and expect.json_schema is None:
            params = {**self.spec.text_params, **(params or {})}
        params = params or NO_PARAMS
        own = self.spec.sent(params)
        limit = output_limit(own)
        constraint = self._constraint(expect)
        key = step_key(
            step,
            None if shared else ctx.job.id,
            self.spec.api,
            self.spec.model,
            messages if key_on is None else key_on,
            own,
            constraint.json_schema,
            constraint.grammar,
        )
        size = n_bytes(messages)

        async def execute(unusable: UnusableOutput | None) -> Executed:
            sent = (*messages, *_repair_turns(unusable)) if unusable else messages
            reply = await self._client.chat(self.spec, ChatRequest(sent, constraint, params))
            if reply.usage:
                self._tokens.learn(step, len(sent), n_bytes(sent) if unusable else size, reply.usage)
                if self._ceiling:
                    self._ceiling.learn(step, sent, reply.usage)
            return Executed(self._response(reply, expect), reply.usage, reply.quotas)

        def most(unusable: UnusableOutput | None) -> Usage:
            if self._ceiling is None:
                self._ceiling = TokenCeiling()
            return self._ceiling.of(step, (*messages, *_repair_turns(unusable)), limit)

        return await ctx.step(
            Step(
                name=step,
                key=key,
                execute=execute,
                decode=lambda response: _parse(response, expect),
                request=request,
                model=self.spec.model,
                lane=self.lane,
                tokens=self._tokens.total(step, len(messages), size),
                reserved=self._tokens.reserved(len(messages), size, limit),
                most=most,
                policy=policy,
                prices=self.prices,
            )
        )

    def _response(self, reply: Reply, expect: Expect[Any]) -> dict[str, Any]:
        """What the journal stores of a reply; fields with their usual value are left out."""
        keep = getattr(expect, "keeps_thoughts", False)
        thoughts, text = ("", reply.text) if keep else split_thoughts(reply.text)
        response: dict[str, Any] = {"text": text}
        if reply.reasoning or thoughts:
            response["reasoning"] = "\n\n".join(filter(None, (reply.reasoning, thoughts)))
        if reply.finish_reason != STOP:
            response["finish_reason"] = reply.finish_reason
        if reply.refused:
            response["refused"] = reply.refused
        if reply.model and reply.model != self.spec.model:
            response["served_model"] = reply.model
            if self._served:
                self._served.note_served(self.spec.model, reply.model)
        if reply.dropped:
            response["dropped"] = list(reply.dropped)
            if self._served:
                self._served.note_dropped(self.spec.model, reply.dropped)
        return response

    def _constraint(self, expect: Expect[Any]) -> Constraint:
        """What this server can enforce of the expected form."""
        if self.spec.structured == "llama" and expect.grammar:
            return Constraint(grammar=expect.grammar)
        return UNCONSTRAINED if self.spec.structured == "none" else Constraint(expect.json_schema)


def prices_of(spec: ModelSpec) -> Prices | None:
    """A model's prices as the catalogue has them; None unless it has both."""
    if spec.input_usd_per_mtok is None or spec.output_usd_per_mtok is None:
        return None
    return Prices(spec.input_usd_per_mtok, spec.output_usd_per_mtok)


def output_limit(params: Mapping[str, Any]) -> int | None:
    """The most tokens that a reply may have by a request's parameters; None where they set no limit."""
    if not params:
        return None
    limits = [params[name] for name in _OUTPUT_LIMITS if isinstance(params.get(name), int)]
    return max(limits, default=None)


def _parse(response: Mapping[str, Any], expect: Expect[T]) -> T:
    """The value in a stored reply, whose reasoning is ignored. Raises ContentRefused or UnusableOutput."""
    if "refused" in response:
        raise ContentRefused(response["refused"])
    text = response["text"]
    if response.get("finish_reason") == LENGTH:
        where = "" if text.strip() else " before its answer began"
        raise UnusableOutput(f"the reply was cut off by its token limit{where}; be shorter", text=text)
    if not text.strip():
        only = "all reasoning and no answer" if response.get("reasoning") else "empty"
        raise UnusableOutput(f"the reply was {only}", text=text)
    try:
        return expect.parse(text)
    except RecursionError:
        raise UnusableOutput("the reply is nested too deeply", text=text) from None


def _repair_turns(unusable: UnusableOutput | None) -> tuple[Message, ...]:
    """The turns that follow an unusable reply: the reply itself, and what was wrong with it."""
    if unusable is None:
        return ()
    complaint = (
        f"Your reply could not be used: {unusable.problem}. Answer again, in exactly the form asked for."
    )
    quoted: Message = {"role": "assistant", "content": unusable.text[:QUOTED_CHARS] or "(empty)"}
    return (quoted, {"role": "user", "content": complaint})


# --- Which model replied --------------------------------------------------------------------------------
# Providers retire models, reroute names, and say so only in the reply.

_MONTH: Final = r"(?:0[1-9]|1[0-2])"
_SNAPSHOT: Final = re.compile(
    rf"""[-@:.](?:
        20\d\d-?{_MONTH}-?\d\d      # 2025-12-11, 20250929
        | \d\d{_MONTH}\d\d          # 251211
        | \d\d{_MONTH} | {_MONTH}\d\d | {_MONTH}-\d\d   # 2507, 0905, 05-06
        | 0\d\d                     # 001
        | latest
    )""",
    re.VERBOSE,
)


@lru_cache(maxsize=256)
def is_other_model(requested: str, served: str) -> bool:
    """True if `served`, by a reply's own word, is another model than the one requested; False for an empty word.

    A snapshot is the same model: its name with a date or a numbered release behind it (`gpt-5.2` served by
    `gpt-5.2-2025-12-11`), and `NAME-latest` requests any of them. Case and folders in front (`models/`, `openai/`) do
    not matter.
    """
    wanted, given = _bare_name(requested), _bare_name(served)
    if not given or given == wanted:
        return False
    wanted = wanted.removesuffix("-latest")
    return not (given == wanted or (given.startswith(wanted) and _SNAPSHOT.fullmatch(given, len(wanted))))


def _bare_name(name: str) -> str:
    return name.strip().rpartition("/")[2].lower()


def printable(name: str) -> str:
    """A model's name as it may be printed: a server may call itself anything."""
    return "".join(c if c.isprintable() else "?" for c in name[:80])


class ServedModels:
    """Emits one notice for every model that replies in place of another, or without a parameter it refuses."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._noticed: set[str] = set()

    def note_served(self, requested: str, served: str) -> None:
        """A reply to a request for `requested` names `served` as its model."""
        if is_other_model(requested, served):
            self._notice(f"{printable(requested)} was requested, {printable(served)} replies")

    def note_dropped(self, requested: str, parameters: Sequence[str]) -> None:
        """A reply to a request for `requested` was made without `parameters`, which the server refuses."""
        for name in parameters:
            self._notice(f"{printable(requested)} refuses the parameter {name}: sent without it")

    def _notice(self, text: str) -> None:
        if text not in self._noticed:
            self._noticed.add(text)
            self._events.emit(Notice(text))

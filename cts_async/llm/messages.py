"""What is said to a model and what comes back, whatever the provider's own spelling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from cts_async.engine.events import Usage
from cts_async.engine.quota import Quotas
from cts_async.values import value

Message = Mapping[str, str]
"""`{"role": "system" | "user" | "assistant", "content": text}`."""


@value
class Constraint:
    """A form the reply should have, for servers that can enforce one: a JSON schema or a GBNF grammar."""

    json_schema: Mapping[str, Any] | None = None
    grammar: str | None = None


@value
class ChatRequest:
    """One chat completion; `params` are request fields such as temperature, over the model's own."""

    messages: Sequence[Message]
    constraint: Constraint = field(default_factory=Constraint)
    params: Mapping[str, Any] = field(default_factory=dict)


@value
class Reply:
    """A model's answer. `finish_reason` is one of `endings`, or what else the provider says."""

    text: str
    model: str
    """The model that answered, by its own word; empty where it does not say."""
    finish_reason: str
    usage: Usage | None
    quotas: Quotas | None = None
    """What the answer said of the account's limits."""
    reasoning: str = ""
    """What the provider gave apart from the text as the model's reasoning."""
    refused: str = ""
    """Why there is no answer, where the model or a content filter refused; `text` is none then."""
    dropped: tuple[str, ...] = ()
    """Request parameters that were not sent because this server has refused them."""


MAX_TOKENS_SAID: Final = 20_000_000
"""More than any model reads or writes at once: as a debt it would hold its account up for hours."""


def charged(input_tokens: int, output_tokens: int) -> Usage | None:
    """What a provider says it charged; None for what nobody can have been charged."""
    sane = 0 <= input_tokens <= MAX_TOKENS_SAID and 0 <= output_tokens <= MAX_TOKENS_SAID
    return Usage(input_tokens, output_tokens) if sane else None

"""What is said to a model and what comes back, whatever the provider's own spelling.

How many tokens a call will be charged: an estimate that learns from the provider's own `usage`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from math import ceil
from typing import Any, Final

from cts_async.engine.events import Usage
from cts_async.engine.ratelimit import Quotas
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


FIRST_PER_BYTE = 0.25
"""Tokens per UTF-8 byte before anything is known: four letters, or a third more than one ideograph."""
FIRST_OUTPUT = 256.0
PER_MESSAGE = 8.0
WEIGHT = 0.1
"""Weight of the newest observation in the moving averages."""
LEAST_PER_BYTE = 0.5
"""Twice what English has; Chinese has about a third."""
EXTRA_INPUT = 64.0
FIRST_MOST_OUTPUT, LEAST_MOST_OUTPUT = 4096, 1024
"""Tokens of a reply without a limit: at most so many while none was seen, and never reckoned with fewer."""


class TokenEstimate:
    """One model's tokens per byte of prompt, and its usual length of reply for each kind of step."""

    def __init__(self) -> None:
        self._per_byte = FIRST_PER_BYTE
        self._output: dict[str, float] = {}

    def of(self, step: str, messages: Sequence[Message]) -> float:
        """Tokens of prompt and reply together."""
        return input_tokens(messages, self._per_byte) + self._output.get(_kind(step), FIRST_OUTPUT)

    def reserved(self, messages: Sequence[Message], max_output: int | None) -> float:
        """Tokens of prompt and longest reply together; 0 where the request sets no limit to it."""
        return input_tokens(messages, self._per_byte) + max_output if max_output else 0.0

    def learn(self, step: str, messages: Sequence[Message], usage: Usage) -> None:
        """Take in what a call was really charged."""
        seen = (usage.input_tokens - PER_MESSAGE * len(messages)) / max(1, _bytes(messages))
        self._per_byte += WEIGHT * (max(0.05, seen) - self._per_byte)
        kind = _kind(step)
        before = self._output.get(kind, float(usage.output_tokens))
        self._output[kind] = before + WEIGHT * (usage.output_tokens - before)


class TokenCeiling:
    """One model's cautious upper estimates: what a call may be charged, for a budget that must not be crossed.

    Of the prompt: half again the most tokens per byte seen so far, at least LEAST_PER_BYTE, and EXTRA_INPUT for
    what a server adds of its own. Of the reply: its limit if the request has one, else twice the longest reply
    to this kind of step so far.
    """

    def __init__(self) -> None:
        self._per_byte = LEAST_PER_BYTE
        self._output: dict[str, int] = {}

    def of(self, step: str, messages: Sequence[Message], max_output: int | None) -> Usage:
        """The most that a call is expected to be charged; `max_output` is the request's own limit."""
        most_input = EXTRA_INPUT + input_tokens(messages, self._per_byte)
        if max_output is None:
            seen = self._output.get(_kind(step))
            max_output = FIRST_MOST_OUTPUT if seen is None else max(LEAST_MOST_OUTPUT, 2 * seen)
        return Usage(ceil(most_input), max_output)

    def learn(self, step: str, messages: Sequence[Message], usage: Usage) -> None:
        """Take in what a call was really charged."""
        seen = (usage.input_tokens - EXTRA_INPUT - PER_MESSAGE * len(messages)) / max(1, _bytes(messages))
        self._per_byte = max(self._per_byte, 1.5 * seen)
        kind = _kind(step)
        self._output[kind] = max(self._output.get(kind, 0), usage.output_tokens)


def input_tokens(messages: Sequence[Message], per_byte: float = FIRST_PER_BYTE) -> float:
    """Estimated tokens of a prompt."""
    return PER_MESSAGE * len(messages) + per_byte * _bytes(messages)


def _kind(step: str) -> str:
    return step.split("/", 1)[0]


def _bytes(messages: Sequence[Message]) -> int:
    size = 0
    for message in messages:
        text = message["content"]
        size += len(text) if text.isascii() else len(text.encode())
    return size

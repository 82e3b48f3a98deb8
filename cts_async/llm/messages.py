"""Chat requests and replies, whatever the provider's own spelling, and how many tokens they take."""

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
    """A form that a server should enforce on the reply: a JSON schema or a GBNF grammar."""

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
    """A model's reply. `finish_reason` is STOP, LENGTH or REFUSED of `responses`, or any other word of the provider."""

    text: str
    model: str
    """The model that replied, by its own word; empty where it does not say."""
    finish_reason: str
    usage: Usage | None
    quotas: Quotas | None = None
    """The account's limits as the response's headers name them."""
    reasoning: str = ""
    """The model's reasoning where the provider returns it apart from the text."""
    refused: str = ""
    """Why there is no answer, where the model or a content filter refused; `text` is not one then."""
    dropped: tuple[str, ...] = ()
    """Request parameters that were left out because this server has refused them before."""


MAX_USAGE_TOKENS: Final = 20_000_000
"""More than any model reads or writes at once: a wrong number as large as this would block its account for hours."""


def plausible_usage(input_tokens: int, output_tokens: int) -> Usage | None:
    """The usage that a provider reports; None for numbers that cannot be true."""
    plausible = 0 <= input_tokens <= MAX_USAGE_TOKENS and 0 <= output_tokens <= MAX_USAGE_TOKENS
    return Usage(input_tokens, output_tokens) if plausible else None


# --- Token estimates ------------------------------------------------------------------------------------

FIRST_PER_BYTE = 0.25
"""Tokens per UTF-8 byte before any usage was seen: four letters a token, or four ideographs in three tokens."""
FIRST_OUTPUT = 256.0
PER_MESSAGE = 8.0
WEIGHT = 0.1
"""Weight of the newest observation in the moving averages."""
LEAST_PER_BYTE = 0.5
"""Twice what English has; Chinese has about a third."""
EXTRA_INPUT = 64.0
FIRST_MOST_OUTPUT, LEAST_MOST_OUTPUT = 4096, 1024
"""Upper estimates of a reply without a limit: before any was seen, and never less than the second."""


class TokenEstimate:
    """One model's tokens per byte of prompt and usual reply length by kind of step, learned from `usage`."""

    def __init__(self) -> None:
        self._per_byte = FIRST_PER_BYTE
        self._output: dict[str, float] = {}

    def total(self, step: str, n_messages: int, n_bytes: int) -> float:
        """Tokens of prompt and reply together."""
        return self._prompt(n_messages, n_bytes) + self._output.get(_kind(step), FIRST_OUTPUT)

    def reserved(self, n_messages: int, n_bytes: int, max_output: int | None) -> float:
        """Tokens of prompt and longest reply together; 0 where the request does not limit the reply."""
        return self._prompt(n_messages, n_bytes) + max_output if max_output else 0.0

    def learn(self, step: str, n_messages: int, n_bytes: int, usage: Usage) -> None:
        """Update the averages with what a call was charged."""
        seen = (usage.input_tokens - PER_MESSAGE * n_messages) / max(1, n_bytes)
        self._per_byte += WEIGHT * (max(0.05, seen) - self._per_byte)
        kind = _kind(step)
        before = self._output.get(kind, float(usage.output_tokens))
        self._output[kind] = before + WEIGHT * (usage.output_tokens - before)

    def _prompt(self, n_messages: int, n_bytes: int) -> float:
        return PER_MESSAGE * n_messages + self._per_byte * n_bytes


class TokenCeiling:
    """One model's upper estimates: the most that a call may be charged, for a budget that must not be exceeded.

    Of the prompt: half again the most tokens per byte seen so far, at least LEAST_PER_BYTE, and EXTRA_INPUT for what
    a server adds of its own. Of the reply: its limit if the request has one, else twice the longest reply to this
    kind of step so far.
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
        """Update the estimates with what a call was charged."""
        seen = (usage.input_tokens - EXTRA_INPUT - PER_MESSAGE * len(messages)) / max(1, n_bytes(messages))
        self._per_byte = max(self._per_byte, 1.5 * seen)
        kind = _kind(step)
        self._output[kind] = max(self._output.get(kind, 0), usage.output_tokens)


def input_tokens(messages: Sequence[Message], per_byte: float = FIRST_PER_BYTE) -> float:
    """Estimated tokens of a prompt."""
    return PER_MESSAGE * len(messages) + per_byte * n_bytes(messages)


def n_bytes(messages: Sequence[Message]) -> int:
    """UTF-8 bytes of the messages' contents."""
    size = 0
    for message in messages:
        text = message["content"]
        size += len(text) if text.isascii() else len(text.encode())
    return size


def _kind(step: str) -> str:
    return step.split("/", 1)[0]

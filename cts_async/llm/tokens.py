"""How many tokens a call will be charged: an estimate that learns from the provider's own `usage`."""

from __future__ import annotations

from collections.abc import Sequence

from cts_async.engine.events import Usage
from cts_async.llm.messages import Message

FIRST_PER_BYTE = 0.25
"""Tokens per UTF-8 byte before anything is known: four letters, or a third more than one ideograph."""
FIRST_OUTPUT = 256.0
PER_MESSAGE = 8.0
WEIGHT = 0.1
"""Weight of the newest observation in the moving averages."""


class TokenEstimate:
    """One model's tokens per byte of prompt, and its usual length of reply for each kind of step."""

    def __init__(self) -> None:
        self._per_byte = FIRST_PER_BYTE
        self._output: dict[str, float] = {}

    def of(self, step: str, messages: Sequence[Message]) -> float:
        """Tokens of prompt and reply together."""
        return self._input(messages) + self._output.get(_kind(step), FIRST_OUTPUT)

    def learn(self, step: str, messages: Sequence[Message], usage: Usage) -> None:
        """Take in what a call was really charged."""
        seen = (usage.input_tokens - PER_MESSAGE * len(messages)) / max(1, _bytes(messages))
        self._per_byte += WEIGHT * (max(0.05, seen) - self._per_byte)
        kind = _kind(step)
        before = self._output.get(kind, float(usage.output_tokens))
        self._output[kind] = before + WEIGHT * (usage.output_tokens - before)

    def _input(self, messages: Sequence[Message]) -> float:
        return PER_MESSAGE * len(messages) + self._per_byte * _bytes(messages)


def _kind(step: str) -> str:
    return step.split("/", 1)[0]


def _bytes(messages: Sequence[Message]) -> int:
    texts = [message["content"] for message in messages]
    return sum([len(text) if text.isascii() else len(text.encode()) for text in texts])

"""The pieces that assumptions about steps are made of: prompts as they will be sent, and texts of a length."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from cts_async.llm.messages import FIRST_PER_BYTE, Message, input_tokens
from cts_async.protocol.effort import SENDING_S, TOKENS_PER_S, Work, effort_of
from cts_async.protocol.plan import Plan
from cts_async.protocol.systems import System
from cts_async.records import Instance, language_of

AROUND = 10.0
"""Tokens of the JSON around a list."""


def work_of(
    plan: Plan, system: System, kind: str, model: str, inputs: Sequence[float], output: float
) -> Work:
    """One step of an instance: `inputs` are its prompts' tokens over a sample, `output` its reply's."""
    each = effort_of(plan.specs[model], 1.0, fmean(inputs) if inputs else 0.0, output)
    return Work(system.label, kind, model, 1.0, each, SENDING_S + output / TOKENS_PER_S, in_a_row=1.0)


def prompt_tokens(
    plan: Plan, model: str, name: str, instance: Instance, *, language_from: str = "", **fields: object
) -> float:
    """Tokens of a role's prompt, rendered; its language is that of q, or of `language_from`."""
    language = language_of(language_from or instance.blurred_query)
    prompt = plan.prompts.get(name, language, plan.specs[model].prompt_size)
    messages: tuple[Message, ...] = prompt.render(**fields)
    return input_tokens(messages)


def filler(tokens: float, like: str) -> str:
    """Text of so many tokens in the language of `like`."""
    letter = "字" if language_of(like) == "zh" else "x"
    return letter * round(tokens / per_char(like))


def per_char(like: str) -> float:
    """Tokens of a character in the language of `like`."""
    return FIRST_PER_BYTE * (3 if language_of(like) == "zh" else 1)

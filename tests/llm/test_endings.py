"""Every provider's word for how a reply ended means one of four things."""

from __future__ import annotations

import pytest

from cts_async.llm.responses import ABORTED, LENGTH, REFUSED, STOP, finish_reason


@pytest.mark.parametrize(
    ("reason", "meaning"),
    [
        ("stop", STOP),
        ("STOP", STOP),  # Gemini
        ("end_turn", STOP),  # Anthropic
        ("stop_sequence", STOP),
        ("eos_token", STOP),  # TGI
        (None, STOP),
        ("", STOP),
        ("length", LENGTH),
        ("max_tokens", LENGTH),  # Anthropic
        ("MAX_TOKENS", LENGTH),  # Gemini
        ("model_length", LENGTH),  # Mistral
        ("model_context_window_exceeded", LENGTH),
        ("content_filter", REFUSED),
        ("refusal", REFUSED),
        ("SAFETY", REFUSED),
        ("BLOCKLIST", REFUSED),
        ("content_filter: SPII", REFUSED),
        ("sensitive", REFUSED),  # Zhipu
        ("abort", ABORTED),  # vLLM, SGLang
        ("insufficient_system_resource", ABORTED),  # DeepSeek
        ("pause_turn", ABORTED),  # Anthropic
        ("tool_calls", "tool_calls"),
        (3, "3"),
    ],
)
def test_a_reason_has_one_meaning(reason: object, meaning: str) -> None:
    assert finish_reason(reason) == meaning

"""Finish reasons in providers' responses."""

from __future__ import annotations

import pytest

from cts_async.llm.responses import ABORTED, LENGTH, REFUSED, STOP, finish_reason


@pytest.mark.parametrize(
    ("reason", "meaning"),
    [
        *((reason, STOP) for reason in ("stop", "STOP", "end_turn", "stop_sequence", "eos_token", None, "")),
        *((reason, LENGTH) for reason in ("length", "max_tokens", "MAX_TOKENS", "model_length")),
        ("model_context_window_exceeded", LENGTH),
        *((reason, REFUSED) for reason in ("content_filter", "refusal", "SAFETY", "BLOCKLIST", "sensitive")),
        ("content_filter: SPII", REFUSED),
        *((reason, ABORTED) for reason in ("abort", "insufficient_system_resource", "pause_turn")),
        ("tool_calls", "tool_calls"),
        (3, "3"),
    ],
)
def test_finish_reason_has_one_meaning(reason: object, meaning: str) -> None:
    assert finish_reason(reason) == meaning

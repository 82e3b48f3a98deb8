"""Servers that cut prompts are noticed, and odd tokenizers and usage are not taken for one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.llm.prompt_cuts import PromptCuts, cut_prompt_text


def seen(calls: Sequence[tuple[int, int]]) -> list[int | None]:
    """What each call of (bytes, tokens) says."""
    cuts = PromptCuts()
    return [cuts.add(n_bytes, tokens) for n_bytes, tokens in calls]


def growing(context: int, per_byte: float = 0.25) -> list[tuple[int, int]]:
    """Conversations of 4,000 to 40,000 bytes at a server with so many tokens of context."""
    sizes = [4_000 * turn for turn in range(1, 11)]
    return [(size, min(context, round(per_byte * size))) for size in sizes]


def test_plateau_of_different_prompts_is_a_cut() -> None:
    # 4,000 to 16,000 bytes are counted in full: 0.25 tokens a byte. The third of 4,096 is 28,000 bytes long.
    found = seen(growing(4096))
    assert found[:6] == [None] * 6
    assert found[6:] == [7000, 8000, 9000, 10_000]
    assert cut_prompt_text("fake", 4096, 10_344) == (
        "fake: the server counted 4,096 of about 10,300 tokens and cuts prompts; set its context or context_tokens"
    )


def test_longer_prompts_that_count_less_than_a_shorter_one_are_cut() -> None:
    # Ollama leaves out whole messages: what remains of 40,000 bytes is below its context of 4,096.
    whole = [(4_000, 1000), (8_000, 2000), (16_000, 4000)]
    assert seen([*whole, (40_000, 3000), (44_000, 2900), (48_000, 3100)])[3:] == [None, None, 12_000]


@pytest.mark.parametrize(
    "calls",
    [
        [(size, 100) for size in range(1_000, 50_000, 1_000)],  # the same number whatever is sent
        [(size, 4096) for size in range(1_000, 50_000, 1_000)],
        [(size, 0) for size in range(1_000, 50_000, 1_000)],
        [(4_000, 1000), *[(16_000, 4096)] * 9],  # the same prompt again
        growing(10**9),
        # Chinese with an old tokenizer (0.7 tokens a byte), then long English pages (0.2).
        [*((size, size * 7 // 10) for size in range(600, 3_000, 100)), *growing(10**9, 0.2)],
        # Cached tokens are counted apart: only what is new in each turn.
        [(4_000 * turn, 900 + turn) for turn in range(1, 11)],
        # Short prompts of a judge, some of which are counted the same.
        [(700, 200), (800, 210), (900, 210), (1_000, 210), (1_100, 200)],
        # Counted in blocks of 64 tokens.
        [(size, (size // 4) // 64 * 64) for size in range(2_000, 9_000, 50)],
    ],
)
def test_odd_usage_and_tokenizers_are_no_cut(calls: Sequence[tuple[int, int]]) -> None:
    assert seen(calls) == [None] * len(calls)


@given(st.lists(st.tuples(st.integers(300, 60_000), st.floats(0.18, 0.7))))
def test_no_honest_server_is_accused(prompts: list[tuple[int, float]]) -> None:
    # Another tokenizer's share for each text, as if every prompt were in another language: no ties, nothing thin.
    calls = [(size, round(share * size)) for size, share in prompts]
    distinct = {tokens: (size, tokens) for size, tokens in calls}
    assert seen(list(distinct.values())) == [None] * len(distinct)

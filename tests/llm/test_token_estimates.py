"""The estimate of what a call will be charged, by hand."""

from __future__ import annotations

import pytest

from cts_async.engine.events import Usage
from cts_async.llm.apis import Message
from cts_async.llm.model import TokenCeiling, TokenEstimate, input_tokens, n_bytes


def total(estimate: TokenEstimate, step: str, messages: tuple[Message, ...]) -> float:
    return estimate.total(step, len(messages), n_bytes(messages))


def learn(estimate: TokenEstimate, step: str, messages: tuple[Message, ...], usage: Usage) -> None:
    estimate.learn(step, len(messages), n_bytes(messages), usage)


ASK = ({"role": "user", "content": "x" * 400},)


def test_a_first_guess_is_a_quarter_token_a_byte_and_a_usual_reply() -> None:
    assert total(TokenEstimate(), "judge/x", ASK) == 8 + 100 + 256


def test_ideographs_count_by_their_bytes() -> None:
    estimate = TokenEstimate()
    assert total(estimate, "judge/x", ({"role": "user", "content": "轮渡" * 50},)) == 8 + 75 + 256


def test_estimate_converges_to_the_charge() -> None:
    estimate = TokenEstimate()
    for _ in range(100):
        learn(estimate, "judge/x", ASK, Usage(208, 40))
    assert total(estimate, "judge/x", ASK) == pytest.approx(248, rel=0.01)


def test_kinds_of_steps_have_replies_of_their_own() -> None:
    estimate = TokenEstimate()
    learn(estimate, "answer/1", ASK, Usage(108, 3))
    learn(estimate, "search/turn/1", ASK, Usage(108, 300))
    assert total(estimate, "answer/2", ASK) == pytest.approx(111)
    assert total(estimate, "search/turn/7", ASK) == pytest.approx(408)
    assert total(estimate, "rewrite", ASK) == pytest.approx(108 + 256)


def test_odd_usage_never_makes_an_estimate_negative() -> None:
    estimate = TokenEstimate()
    for _ in range(100):
        learn(estimate, "rewrite", ASK, Usage(0, 0))
    assert total(estimate, "rewrite", ASK) > 0


def test_no_messages_cost_only_the_reply() -> None:
    estimate = TokenEstimate()
    learn(estimate, "rewrite", (), Usage(5, 5))
    assert total(estimate, "rewrite", ()) == 5


def test_a_prompt_by_itself_has_no_reply() -> None:
    assert input_tokens(ASK) == 8 + 100
    assert input_tokens(ASK, per_byte=0.5) == 8 + 200


# --- The most that a call may be charged


def test_a_ceiling_is_twice_as_much_text_and_the_replys_own_limit() -> None:
    # 64 for what the server adds, 8 for the message, half a token for each of 400 bytes.
    assert TokenCeiling().of("judge/x", ASK, 300) == Usage(272, 300)


def test_without_a_limit_it_is_twice_the_longest_reply_seen() -> None:
    ceiling = TokenCeiling()
    assert ceiling.of("judge/x", ASK, None).output_tokens == 4096
    ceiling.learn("judge/x", ASK, Usage(100, 900))
    ceiling.learn("judge/x", ASK, Usage(100, 20))
    assert ceiling.of("judge/y", ASK, None).output_tokens == 1800
    assert ceiling.of("clarify", ASK, None).output_tokens == 4096
    ceiling.learn("clarify", ASK, Usage(100, 20))
    assert ceiling.of("clarify", ASK, None).output_tokens == 1024


def test_a_ceiling_rises_with_the_densest_prompt_seen_and_never_falls() -> None:
    ceiling = TokenCeiling()
    ceiling.learn("judge/x", ASK, Usage(64 + 8 + 400, 1))  # a token a byte
    assert ceiling.of("judge/x", ASK, 10).input_tokens == 64 + 8 + 600
    ceiling.learn("judge/x", ASK, Usage(64 + 8 + 40, 1))
    assert ceiling.of("judge/x", ASK, 10).input_tokens == 64 + 8 + 600

"""What of the judges' prompts comes from a provider's cache, and in which order candidates are judged for that."""

from __future__ import annotations

from pathlib import Path

import pytest
from cached_judging import judge_world, write_world

from cts_async.protocol.rejudge import _in_blocks

OPENAI = """
[models.mine]
base_url = "https://a.example/v1"
model = "m"
requests_per_min = 6
max_concurrency = 4
input_usd_per_mtok = 1.0
output_usd_per_mtok = 0.0
cached_input_usd_per_mtok = 0.1
"""
ANTHROPIC = OPENAI.replace("[models.mine]", '[models.mine]\napi = "anthropic"') + (
    "cache_write_usd_per_mtok = 1.25\ncache_marks = true\n"
)


def test_blocks_are_taken_of_each_target_in_turn_until_all_have_ended() -> None:
    streams = [iter("abcde"), iter("ABC"), iter("12")]
    assert "".join(_in_blocks(streams, 2)) == "abAB12" + "cdC" + "e"  # type: ignore[arg-type]
    assert list(_in_blocks([], 2)) == []


@pytest.mark.parametrize("table", [OPENAI, ANTHROPIC])
def test_candidates_of_one_instance_find_its_prompt_in_the_cache(tmp_path: Path, table: str) -> None:
    """40 instances at six a minute: target after target, the next answer to a query comes seven minutes later."""
    write_world(tmp_path, instances=40, systems=3)
    before = judge_world(tmp_path, table, target_after_target=True)
    after = judge_world(tmp_path, table)
    assert before.cached_share == 0.0
    # Two of three answers find the beginning, which is most of a prompt of about 2,000 tokens.
    assert 0.45 < after.cached_share < 0.6
    assert after.input_tokens == before.input_tokens
    assert after.usd < before.usd
    # As fast as before: the limit binds.
    assert after.took_s == pytest.approx(before.took_s, rel=0.02)

"""A build's plan: distinct intents, the paper's models unless others are named, evidence that suits the extractor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gold_world import write_world
from hypothesis import given
from hypothesis import strategies as st

from cts_async.config import GoldConfig
from cts_async.errors import UsageError
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol.gold.build import GoldPlan, intents_of, plan_gold
from cts_async.protocol.gold.sources import SourceLimits
from cts_async.records import Instance

KEYS = {"OPENAI_API_KEY": "sk-x", "QIANFAN_API_KEY": "sk-y", "WEBDANCER_BASE_URL": "http://127.0.0.1:9/v1"}


def planned(folder: Path, *, gold: dict[str, Any] | None = None, **run: Any) -> GoldPlan:
    data, corpus = write_world(folder)
    options = {"data": str(data), "corpus": corpus, "runs_dir": folder / "runs", **run}
    config = GoldConfig(**{"out": folder / "GOLD.jsonl", **options, **(gold or {})})
    return plan_gold(config, load_catalogue(run.get("config_file")), KEYS)


def test_intents_are_told_apart_by_their_words_not_their_spaces() -> None:
    rows = [Instance("a", "x  y", "1"), Instance("b", "z", "2"), Instance("c", " x y", "3")]
    assert [(one.id, one.ids) for one in intents_of(rows)] == [("a", ("a", "c")), ("b", ("b",))]


@given(st.lists(st.sampled_from(["x", "x ", "ｘ", "y", "z"]), max_size=20))
def test_every_instance_belongs_to_exactly_one_intent(queries: list[str]) -> None:
    intents = intents_of(Instance(str(n), query, "q") for n, query in enumerate(queries))
    ids = [id for intent in intents for id in intent.ids]
    assert sorted(ids, key=int) == [str(n) for n in range(len(queries))]
    assert [intent.id for intent in intents] == [intent.ids[0] for intent in intents]


def test_the_paper_s_agent_and_extractor_are_the_default(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    assert plan.players(plan.system) == {"agent": "webdancer", "extractor": "ernie"}
    assert plan.specs.keys() == {"webdancer", "ernie"}  # no Clarifier, no support, no judge
    assert plan.directory == tmp_path / "runs" / "world-goldbuild"
    assert plan.limits == SourceLimits()


def test_an_option_wins_over_all_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "cts.toml"
    file.write_text('[roles]\nextractor = "gpt"\n')
    assert planned(tmp_path, config_file=file).extractor == "gpt"
    assert planned(tmp_path, config_file=file, every_role="ernie").extractor == "ernie"
    assert planned(tmp_path, config_file=file, every_role="ernie", extractor="gpt").extractor == "gpt"


def test_limits_that_are_named_win_over_those_that_suit(tmp_path: Path) -> None:
    limits = planned(tmp_path, gold={"max_sources": 7, "total_chars": 900}).limits
    assert limits == SourceLimits(max_sources=7, chars_per_source=4000, total_chars=900)


def test_the_identity_has_the_models_the_prompts_and_the_evidence_but_no_gold(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    identity = plan.identity(plan.system)
    assert identity["system"] == "goldbuild"
    assert identity["models"].keys() == {"agent", "extractor"}
    assert {"gold.en", "gold.zh", "agent.native"} <= identity["prompts"].keys()
    assert not any(name.startswith(("judge", "clarify")) for name in identity["prompts"])
    assert identity["data"]["gold_sha256"] is None


def test_an_unknown_extractor_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown model 'nobody'"):
        planned(tmp_path, extractor="nobody")

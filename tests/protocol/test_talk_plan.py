"""A plan of conversations: which instances, who plays whom, where each run stands, what determines it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_clariq import ROWS, clariq_file
from talk_world import write_talk_world

from cts_async.config import BudgetConfig, ConverseConfig
from cts_async.errors import UsageError
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol.converse import ConversePlan, plan_conversations, selected
from cts_async.records import Instance

KEYS = {"OPENAI_API_KEY": "sk-x", "QIANFAN_API_KEY": "sk-y"}


def planned(
    folder: Path, environ: dict[str, str] = KEYS, talk: dict[str, Any] | None = None, **run: Any
) -> ConversePlan:
    data, _ = write_talk_world(folder)
    asked = {
        "data": str(data),
        "models": ("gpt",),
        "ks": (3,),
        "schemes": ("cot",),
        "modes": ("respond",),
    } | run
    config = ConverseConfig(runs_dir=folder / "runs", **asked, **(talk or {}))
    return plan_conversations(config, load_catalogue(run.get("config_file")), environ)


def ids(plan: ConversePlan) -> list[str]:
    return [instance.id for instance in plan.instances()]


def test_topics_are_distinct_queries_and_intents_are_counted_in_each(tmp_path: Path) -> None:
    assert ids(planned(tmp_path)) == ["1-1", "1-2", "2-1", "1-3", "3-1"]
    assert ids(planned(tmp_path, talk={"topics": 2})) == ["1-1", "1-2", "2-1", "1-3"]
    assert ids(planned(tmp_path, talk={"intents": 1})) == ["1-1", "2-1", "3-1"]
    assert ids(planned(tmp_path, talk={"topics": 1, "intents": 2})) == ["1-1", "1-2"]
    assert ids(planned(tmp_path, talk={"topics": 2}, limit=3)) == ["1-1", "1-2", "2-1"]


@given(st.lists(st.sampled_from("abc"), max_size=20), st.integers(1, 4), st.integers(1, 4))
def test_no_more_is_selected_than_was_asked_for(queries: list[str], topics: int, intents: int) -> None:
    every = [Instance(str(n), f"star {n}", q) for n, q in enumerate(queries)]
    taken = list(selected(every, ConverseConfig(topics=topics, intents=intents)))
    by_query = {q: [one for one in taken if one.blurred_query == q] for q in queries}
    assert len([q for q in by_query if by_query[q]]) == min(topics, len(set(queries)))
    assert all(len(some) in (0, min(intents, queries.count(q))) for q, some in by_query.items())
    assert taken == [one for one in every if one in taken]


def test_every_scheme_has_a_run_in_every_mode(tmp_path: Path) -> None:
    plan = planned(tmp_path, schemes=("standard", "at-cot"), modes=("respond", "select", "at-once"))
    names = [directory.name for directory in plan.systems.values()]
    assert names == [
        "talks-talk-gpt-standard-respond-k3",
        "talks-talk-gpt-standard-select-k3",
        "talks-talk-gpt-standard-k5",
        "talks-talk-gpt-at-cot-respond-k3",
        "talks-talk-gpt-at-cot-select-k3",
        "talks-talk-gpt-at-cot-k5",
    ]
    assert [plan.n_expected(system) for system in plan.systems] == [5, 5, 3, 5, 5, 3]


def test_another_user_is_another_run_but_not_where_nobody_is_asked(tmp_path: Path) -> None:
    plan = planned(tmp_path, support="gpt", modes=("respond", "at-once"))
    assert [directory.name for directory in plan.systems.values()] == [
        "talks-talk-gpt-cot-respond-k3+support-gpt",
        "talks-talk-gpt-cot-k5",
    ]


def test_questions_asked_at_once_need_no_user(tmp_path: Path) -> None:
    plan = planned(tmp_path, {"OPENAI_API_KEY": "sk-x"}, modes=("at-once",))
    (system,) = plan.systems
    assert plan.players(system) == {"clarifier": "gpt"}
    assert sorted(plan.prompt_texts(system)) == ["cot.en", "cot.small.en", "cot.small.zh", "cot.zh"]
    with pytest.raises(UsageError, match=r"QIANFAN_API_KEY \(support: ernie\).*\(--model, --support, --all"):
        planned(tmp_path, {"OPENAI_API_KEY": "sk-x"}, modes=("at-once", "respond"))


def test_a_run_is_what_was_said_not_what_is_searched(tmp_path: Path) -> None:
    plan = planned(tmp_path, modes=("select",))
    (system,) = plan.systems
    identity = plan.identity(system)
    assert (identity["task"], identity["scheme"], identity["mode"], identity["k"]) == (
        "talk",
        "cot",
        "select",
        3,
    )
    assert identity["models"].keys() == {"clarifier", "support"}
    assert {name.split(".")[0] for name in identity["prompts"]} == {"cot_queries", "select_query"}
    assert not identity.keys() & {"tools", "corpus_sha256", "agent"}
    assert identity == planned(tmp_path, modes=("select",), talk={"topics": 1}).identity(system)


def test_every_file_of_the_data_is_part_of_what_a_run_is(tmp_path: Path) -> None:
    clariq_file(tmp_path / "train.tsv", ROWS[:-1])
    clariq_file(tmp_path / "dev.tsv", ROWS[-1:])
    before = planned(tmp_path, data=f"clariq:{tmp_path}")
    # What reports compare with when they open the data again.
    assert before.data_identity["sha256"] == before.dataset.sha256()
    clariq_file(tmp_path / "dev.tsv", (ROWS[-1].replace("write?", "read?"),))
    assert planned(tmp_path, data=f"clariq:{tmp_path}").data_identity != before.data_identity


def test_dollars_are_limited_only_where_prices_are_known(tmp_path: Path) -> None:
    file = tmp_path / "cts.toml"
    file.write_text('[models.mine]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "mine-1"\n')
    limited = {"config_file": file, "budget": BudgetConfig(max_usd=1.0)}
    with pytest.raises(UsageError, match="--max-usd needs the price of mine"):
        planned(tmp_path, models=("mine",), support="mine", **limited)

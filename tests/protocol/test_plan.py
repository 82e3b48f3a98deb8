"""Where searches and visits go: options, then what a replayed run did, then what there is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cts_async.config import RunConfig
from cts_async.errors import InputError, UsageError
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol.forecast import forecast
from cts_async.protocol.plan import Plan, SearchPlan, make_plan, plan_search
from cts_async.search.catalog import load_search

JINA = {"JINA_API_KEY": "k"}


def searching(
    environ: dict[str, str] | None = None, documents: Path | None = None, **options: Any
) -> SearchPlan:
    return plan_search(RunConfig(**options), load_search(), environ or {}, documents)


def planned(
    tmp_path: Path,
    environ: dict[str, str],
    *,
    keyless: bool = False,
    keys_elsewhere: bool = False,
    **options: Any,
) -> Plan:
    config = tmp_path / "cts.toml"
    config.write_text(
        '[models.m]\nbase_url = "http://a.example/v1"\nmodel = "m-1"\n'
        '[models.reader]\nbase_url = "http://b.example/v1"\nmodel = "r-1"\ncontext_tokens = 4096\n'
    )
    asked = RunConfig(models=("m",), every_role="m", limit=2, runs_dir=tmp_path / "runs", config_file=config)
    return make_plan(
        replace(asked, **options),
        load_catalogue(config),
        environ,
        keyless=keyless,
        keys_elsewhere=keys_elsewhere,
    )


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    path = tmp_path / "docs.jsonl"
    path.write_text('{"id": "d", "url": "https://a.example", "title": "t", "text": "x"}\n')
    return path


@pytest.mark.parametrize(
    ("environ", "reader"), [({}, "direct"), (JINA, "jina"), ({"JINA_API_KEY": " "}, "direct")]
)
def test_the_web_is_read_through_jina_where_its_key_is_set(
    environ: dict[str, str], reader: str, documents: Path
) -> None:
    made = searching(environ, documents, search="serper")
    assert (made.engine.name, made.reader.name, made.corpus) == ("serper", reader, None)
    assert made.web


def test_keys_of_tools_are_missed_together_with_those_of_models(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        planned(tmp_path, {}, models=("gpt",), every_role="gpt", search="serper", visit="jina")
    for said in (
        "OPENAI_API_KEY (model, support",
        "SERPER_API_KEY (tools: serper)",
        "JINA_API_KEY (tools: jina)",
    ):
        assert said in str(raised.value)


def test_where_others_have_the_keys_only_addresses_are_missed(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"models": ("gpt",), "every_role": "gpt", "search": "serper", "visit": "jina"}
    made = planned(tmp_path, {}, keys_elsewhere=True, **asked)
    assert {spec.key_env for spec in made.specs.values()} == {"OPENAI_API_KEY"}
    assert made.specs["gpt"].base_url == planned(tmp_path, {}, keyless=True, **asked).specs["gpt"].base_url
    with pytest.raises(
        UsageError, match=r"^missing in the environment: WEBDANCER_BASE_URL \(agent: webdancer\)"
    ):
        planned(tmp_path, {}, keys_elsewhere=True, **asked, agent="webdancer")


@pytest.mark.parametrize(
    ("options", "reader"),
    [
        ({}, None),
        ({"visit_model": "reader"}, "reader"),
        ({"search": "serper"}, "m"),
        (
            {"search": "serper", "support": "reader", "every_role": None, "agent": "m", "judges": ("m",)},
            "reader",
        ),
        ({"search": "serper", "visit_model": "lexical"}, None),
    ],
)
def test_pages_of_the_web_are_read_by_the_support_model_and_documents_by_their_words(
    tmp_path: Path, options: dict[str, Any], reader: str | None
) -> None:
    made = planned(tmp_path, {}, keyless=True, **options)
    (orig, *_) = made.systems
    assert made.roles.visit == reader
    assert made.players(orig).get("visit") == reader
    assert ("visit.en" in made.identity(orig)["prompts"]) == (reader is not None)


def test_a_model_s_context_bounds_the_conversation(tmp_path: Path) -> None:
    assert planned(tmp_path, {}).settings.max_input_tokens is None
    assert planned(tmp_path, {}, agent="reader").settings.max_input_tokens == 4096
    dancer = planned(tmp_path, {"WEBDANCER_BASE_URL": "http://c.example/v1"}, agent="webdancer")
    assert dancer.settings.max_input_tokens == 58_000
    # Of 4,096 tokens a reply may have 1,200.
    local = planned(tmp_path, {}, agent="local")
    assert local.settings.max_input_tokens == 2896


def test_a_forecast_counts_pages_read_and_what_tools_are_asked(tmp_path: Path) -> None:
    made = forecast(planned(tmp_path, {}, keyless=True, search="serper", visit="jina", visit_model="reader"))
    # Ten turns of twenty, nine of them with a call: 4.5 pages of 3,396 tokens (4,096 less 700), 4.5 queries.
    visits = {work.system: work for work in made.work if work.kind == "visit"}
    assert visits["orig"].model == "reader"
    assert (visits["orig"].steps, visits["orig"].in_a_row) == (2 * 4.5, 4.5)
    # Reply without a limit: 700 tokens are kept for it, and 700 for the prompt around the page.
    assert 4096 - 1400 < visits["orig"].each.input_tokens < 4096 - 700
    assert visits["orig"].each.output_tokens == 350
    lanes = {lane.name: lane for lane in made.lanes}
    assert lanes["serper"].effort.calls == lanes["jina"].effort.calls == 2 * 2 * 4.5
    assert lanes["jina"].under["requests/min"] == pytest.approx(18 / 500 * 60)
    assert any("reader reads in one call" in said for said in made.assumptions)


# --- Run directories of a trial with the embedded model and of what is run after it, in the same folder of runs.


@pytest.fixture
def embedded(tmp_path: Path) -> dict[str, str]:
    """An environment with an embedded model that nobody starts."""
    file = tmp_path / "tiny.gguf"
    file.write_bytes(b"GGUF")
    return {"CTS_LOCAL_MODEL": str(file)}


def names(config: RunConfig, environ: dict[str, str]) -> list[str]:
    plan = make_plan(config, load_catalogue(None), environ, keyless=True)
    return [directory.name for directory in plan.systems.values()]


def test_the_embedded_models_trial_leaves_the_usual_names_to_what_follows(embedded: dict[str, str]) -> None:
    trial, real = names(RunConfig(), embedded), names(RunConfig(models=("gpt",), ks=(3,)), embedded)
    assert trial == ["sample-orig+all-local", "sample-local-k1"]
    assert real == ["sample-orig", "sample-gpt-k3"]


def test_a_system_is_called_the_same_whatever_it_is_compared_with(embedded: dict[str, str]) -> None:
    alone = names(RunConfig(models=("local",)), embedded)
    with_gpt = names(RunConfig(models=("local", "gpt")), embedded)
    # Beside a hosted Clarifier the paper's models answer, search and judge for the embedded one, too.
    assert with_gpt == [
        "sample-orig",
        "sample-local-k1+support-ernie+agent-webdancer+judge-ernie",
        "sample-gpt-k1",
    ]
    assert not set(alone) & set(with_gpt)


# --- Nuggets per call: part of a run's identity only where it changes what is asked


def identity(folder: Path, judge_nuggets: str) -> dict[str, object]:
    table = '[models.m]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m-1"\n'
    (folder / "cts.toml").write_text(table + judge_nuggets)
    asked = RunConfig(models=("m",), every_role="m", references=(), limit=8)
    plan = make_plan(asked, load_catalogue(folder / "cts.toml"), {})
    (system,) = plan.systems
    return plan.identity(system)


def test_a_split_that_never_happens_is_nobody_s_business(tmp_path: Path) -> None:
    """No instance of the sample world has as many as 19 nuggets."""
    assert identity(tmp_path, "") == identity(tmp_path, "judge_nuggets = 19")
    assert "nuggets_per_call" not in identity(tmp_path, "")


def test_a_split_that_happens_is_part_of_what_the_run_is(tmp_path: Path) -> None:
    assert identity(tmp_path, "judge_nuggets = 2")["nuggets_per_call"] == {"m": 2}


@pytest.mark.parametrize("wrong", ["0", "-1", "1.5", '"many"'])
def test_at_least_one_nugget_is_asked_about_at_once(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(InputError, match=r"cts\.toml:4.*judge_nuggets"):
        identity(tmp_path, f"judge_nuggets = {wrong}")


def test_private_addresses_are_for_direct_fetches_and_part_of_what_a_run_is() -> None:
    allowed = searching(search="serper", visit="direct", allow_addresses=("wiki.lan", "10.0.0.0/8"))
    assert allowed.reader.allow == ("wiki.lan", "10.0.0.0/8")
    assert allowed.identity["visit"]["allow"] == ["10.0.0.0/8", "wiki.lan"]
    through_jina = searching(JINA, search="serper", allow_addresses=("wiki.lan",))
    assert through_jina.reader.allow == ("wiki.lan",)
    with pytest.raises(UsageError, match="--allow-address applies to web pages only, but --visit is corpus"):
        searching(search="corpus", allow_addresses=("wiki.lan",))
    with pytest.raises(UsageError, match="--allow-address: .*neither a host nor a network"):
        searching(search="serper", allow_addresses=("10.0.0.0/99",))

"""The agent's mode: who has which by default, what a run records of it, and which runs are resumed."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

import cts_async
from cts_async.config import RunConfig
from cts_async.errors import UsageError
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol import plan as planning
from cts_async.protocol.forecast import forecast
from cts_async.protocol.plan import Plan, make_plan
from cts_async.runs.manifest import manifest_of
from cts_async.runs.settings import setting_of, settings_agree
from cts_async.search.tools import AGENT_MODES, ALL_SWITCHES, SWITCHES, TONGYI_SWITCHES
from cts_async.tables.forecast import forecast_json

ENVIRON = {"WEBDANCER_BASE_URL": "http://127.0.0.1:9/v1", "TONGYI_BASE_URL": "http://127.0.0.1:9/v1"}
ALL_ON = dict.fromkeys(SWITCHES, True)
TONGYI = {
    **dict.fromkeys(
        ("whole_evidence", "whole_pages", "free_end", "whole_snippets", "blank_before_snippet"), True
    ),
    **dict.fromkeys(("raw_addresses", "bare_queries", "plain_pages", "first_call", "demand_in_place"), True),
    **dict.fromkeys(("local_results", "shorter_pages"), True),
}


def planned(tmp_path: Path, *, table: str = "", **options: Any) -> Plan:
    """A plan in which `m` plays everybody but the agent, which is webdancer."""
    config = tmp_path / "cts.toml"
    config.write_text(f'[models.m]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m-1"\n{table}')
    asked = RunConfig(
        models=("m",),
        every_role="m",
        agent="webdancer",
        limit=2,
        runs_dir=tmp_path / "runs",
        config_file=config,
    )
    return make_plan(replace(asked, **options), load_catalogue(config), ENVIRON)


def recorded(plan: Plan) -> dict[str, Any]:
    """The agent in the identity of the plan's first system."""
    agent = plan.identity(next(iter(plan.systems)))["agent"]
    return {name: value for name, value in agent.items() if name in ALL_SWITCHES}


def test_webdancer_runs_as_published_and_every_other_agent_in_strict_mode(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    assert recorded(plan) == ALL_ON
    # 20 calls are the demo's default, and those that it was always given here.
    assert plan.settings.max_turns == 20
    assert recorded(planned(tmp_path, agent="m")) == {}


def test_as_published_preset_has_the_agent_mode_and_strict_can_be_typed(tmp_path: Path) -> None:
    assert recorded(planned(tmp_path, agent="m", as_published=True)) == ALL_ON
    assert recorded(planned(tmp_path, agent="m", as_published=True, agent_mode="strict")) == {}
    assert recorded(planned(tmp_path, agent_mode="strict")) == {}
    assert recorded(planned(tmp_path, agent="m", agent_mode="as-published")) == ALL_ON


def test_each_switch_can_be_set_by_itself_as_an_option_and_in_the_catalogue(tmp_path: Path) -> None:
    settings = ("free_end=false", "whole-pages=False")
    typed = planned(tmp_path, agent_settings=settings)
    assert recorded(typed) == {name: True for name in SWITCHES if name not in ("free_end", "whole_pages")}
    assert typed.settings.mode == "mixed"
    table = '[models.webdancer]\nagent = { mode = "strict", free_end = true }\n'
    assert recorded(planned(tmp_path, table=table)) == {"free_end": True}
    assert recorded(planned(tmp_path, table=table, agent_settings=("free_end=false",))) == {}


@pytest.mark.parametrize(
    ("options", "table", "problem"),
    [
        ({"agent_settings": ("free_ends=true",)}, "", "did you mean 'free_end'"),
        ({"agent_settings": ("free_end",)}, "", "write free_end=true or free_end=false"),
        ({"agent_settings": ("free_end=true", "free-end=False")}, "", "free_end: typed as true and as false"),
        ({"agent_settings": ("max_turns=3",)}, "", "no switch is called 'max_turns'"),
        ({}, '[models.webdancer]\nagent = { mode = "published" }\n', "agent.mode in cts.toml is 'published'"),
        ({}, "[models.webdancer]\nagent = { free_end = 1 }\n", "agent.free_end in cts.toml is 1"),
        (
            {},
            "[models.webdancer]\nagent = { free_ends = true }\n",
            "agent.free_ends .* did you mean 'free_end'",
        ),
        (
            {},
            '[models.webdancer]\nagent = { max_turns = "9" }\n',
            "agent.max_turns .* whole number, 1 or more",
        ),
        ({}, "[models.webdancer]\nagent = { max_turns = 0 }\n", "agent.max_turns .* whole number, 1 or more"),
        ({}, "[models.webdancer]\nagent = { page_chars = true }\n", "agent.page_chars .* number, 0 or more"),
        (
            {},
            "[models.webdancer]\nagent = { max_minutes = 0 }\n",
            "agent.max_minutes in cts.toml is 0; write a",
        ),
        ({}, '[models.webdancer]\nagent = { max_minutes = "9" }\n', "agent.max_minutes in cts.toml is '9'"),
    ],
)
def test_mistakes_in_modes_and_switches_are_one_clear_error(
    tmp_path: Path, options: dict[str, Any], table: str, problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        planned(tmp_path, table=table, **options)


def test_mode_is_said_and_recorded_only_where_it_is_not_strict(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    system = next(iter(plan.systems))
    assert plan.notes(system)["agent_mode"] == "as-published"
    assert f"Agent mode as-published: {', '.join(SWITCHES)}." in plan.remarks
    strict = planned(tmp_path, agent_mode="strict")
    assert "agent_mode" not in strict.notes(system)
    assert not [remark for remark in strict.remarks if "gent mode" in remark]


def begun(plan: Plan) -> None:
    """Begin the runs of a plan as an earlier version of this package recorded them."""
    for system, directory in plan.systems.items():
        directory.mkdir(parents=True)
        manifest: dict[str, Any] = {"version": "0.13.0", "n_expected": 2, "sessions": []}
        manifest["identity"] = plan.identity(system)
        manifest["players"] = plan.players(system)
        number = plan.versions[system].number
        if number > 1:
            manifest["run_version"] = number
        (directory / "run.json").write_bytes(orjson.dumps(manifest))


def test_run_that_was_begun_in_strict_mode_is_finished_so_and_says_so(tmp_path: Path) -> None:
    before = planned(tmp_path, agent_mode="strict", date="2026-11-20")
    begun(before)
    resumed = planned(tmp_path)
    assert recorded(resumed) == {}
    assert resumed.systems == before.systems
    assert resumed.current_date == "2026-11-20"
    assert [remark for remark in resumed.remarks if "finished so; --agent-mode as-published makes" in remark]
    # Who asks for the mode gets it, in a version of its own.
    typed = planned(tmp_path, agent_mode="as-published")
    assert recorded(typed) == ALL_ON
    assert {directory.name[-3:] for directory in typed.systems.values()} == {".v2"}
    assert recorded(planned(tmp_path, new=True)) == ALL_ON
    # So does who types a switch of it: to leave all the others off would be another agent than the one described.
    answering = planned(tmp_path, agent_settings=("free_end=false",))
    assert recorded(answering) == {name: True for name in SWITCHES if name != "free_end"}


def test_run_as_published_is_resumed_though_a_strict_one_stands_beside_it(tmp_path: Path) -> None:
    begun(planned(tmp_path, agent_mode="strict", date="2026-11-20"))
    published = planned(tmp_path, agent_mode="as-published", date="2026-11-20")
    begun(published)
    resumed = planned(tmp_path)
    assert recorded(resumed) == ALL_ON
    assert resumed.systems == published.systems


def test_strict_run_with_other_settings_is_no_reason_to_leave_the_mode(tmp_path: Path) -> None:
    begun(planned(tmp_path, agent_mode="strict", date="2026-11-20", max_turns=7))
    assert recorded(planned(tmp_path)) == ALL_ON


def test_date_is_beijing_s_as_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock(planning.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            # 17:30 in London: half past one of the next day in Beijing.
            return planning.datetime(2026, 11, 26, 17, 30, tzinfo=tz)

    monkeypatch.setattr(planning, "datetime", Clock)
    assert planned(tmp_path).current_date == "2026-11-27"
    assert planned(tmp_path, date="2026-11-01").current_date == "2026-11-01"


def test_gold_is_built_in_strict_mode_unless_the_mode_is_typed(tmp_path: Path) -> None:
    from cts_async.config import GoldConfig
    from cts_async.protocol.gold import plan_gold

    config = tmp_path / "cts.toml"
    config.write_text('[models.m]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m-1"\n')
    asked = GoldConfig(
        out=tmp_path / "gold.jsonl",
        every_role="m",
        agent="webdancer",
        runs_dir=tmp_path / "runs",
        config_file=config,
    )
    for mode, switches in ((None, {}), ("as-published", ALL_ON)):
        plan = plan_gold(replace(asked, agent_mode=mode), load_catalogue(config), os.environ | ENVIRON)
        assert recorded(plan) == switches


def test_tongyi_has_the_mode_and_the_budgets_of_its_authors(tmp_path: Path) -> None:
    plan = planned(tmp_path, agent="tongyi")
    agent = plan.identity(next(iter(plan.systems)))["agent"]
    assert recorded(plan) == TONGYI
    assert (agent["max_turns"], agent["max_minutes"], agent["max_input_tokens"]) == (100, 150, 110 * 1024)
    assert (plan.settings.mode, plan.agent_prompt) == ("tongyi", "tongyi")
    # What the run is compared with: its own mode is what its authors published.
    assert recorded(planned(tmp_path, agent="tongyi", as_published=True)) == TONGYI
    assert recorded(planned(tmp_path, agent="tongyi", agent_mode="as-published")) == ALL_ON
    assert recorded(planned(tmp_path, agent="m", agent_mode="tongyi")) == TONGYI
    mixed = planned(tmp_path, agent="m", agent_settings=("first_call=true",))
    assert (mixed.settings.mode, recorded(mixed)) == ("mixed", {"first_call": True})
    # Runs of versions without such a limit are those that have none.
    assert "max_minutes" not in mixed.identity(next(iter(mixed.systems)))["agent"]


def test_modes_differ_in_every_switch() -> None:
    assert [AGENT_MODES["tongyi"][name] for name in TONGYI_SWITCHES] == [True] * len(TONGYI_SWITCHES)
    assert [AGENT_MODES["strict"][name] for name in SWITCHES] == [False] * len(SWITCHES)
    assert [AGENT_MODES["as-published"][name] for name in SWITCHES] == [True] * len(SWITCHES)


def test_runs_of_different_modes_are_not_compared_as_one_setting(tmp_path: Path) -> None:
    settings: list[dict[str, str]] = []
    modes: list[dict[str, Any]] = [
        {"agent_mode": "strict"},
        {"agent_mode": "as-published"},
        {"agent_mode": "strict", "agent_settings": ("free_end=true",)},
    ]
    for number, options in enumerate(modes):
        plan = planned(tmp_path, runs_dir=tmp_path / str(number), date="2026-11-20", **options)
        begun(plan)
        settings.append(setting_of(manifest_of(next(iter(plan.systems.values())))))
    assert [setting["agent mode"] for setting in settings] == ["strict", "as-published", "free_end"]
    assert not settings_agree(settings[0], settings[1])
    # A run of 0.13 has recorded no mode, and is strict.
    assert settings_agree(settings[0], settings[0])


def test_switches_that_nothing_here_depends_on_are_named(tmp_path: Path) -> None:
    """The documents of the sample are on disk, and read by their words unless a model is named for that."""

    def idle(**options: Any) -> list[str]:
        remarks = planned(tmp_path, **options).remarks
        return [remark for remark in remarks if remark.startswith("Without effect here")]

    by_words = "no model reads pages; see --visit-model"
    web = "bare_queries (for Serper only), plain_pages (for Jina only)"
    assert idle() == [f"Without effect here: whole_evidence, whole_pages ({by_words}), {web}."]
    assert idle(visit_model="m") == [f"Without effect here: {web}."]
    assert idle(agent_mode="strict", agent_settings=("free_end=true",)) == []
    begun(planned(tmp_path, agent_mode="strict"))
    # It is finished in strict mode, in which no switch is on.
    assert idle() == []


def test_forecast_has_uncut_evidence_only_where_a_model_reads_pages(tmp_path: Path) -> None:
    # Half the calls bring 10 results of 320 characters; the others passages of 4,300, or uncut evidence of 2,300.
    for options, chars in (({}, "3,750"), ({"visit_model": "m"}, "2,750")):
        assumptions = forecast(planned(tmp_path, **options), {}).assumptions
        assert [text for text in assumptions if f"each tool gives back {chars} characters" in text]


def test_plan_says_the_mode_and_forecasts_its_texts(tmp_path: Path) -> None:
    # Ten results of 240 characters and 80 around them; a visit 4,000 and 300, or uncut about 2,000 and 300.
    for mode, chars in (("strict", (3_200 + 4_300) / 2), ("as-published", (3_200 + 2_300) / 2)):
        plan = planned(tmp_path, agent_mode=mode)
        assert plan.toolbox.response_chars(plan.settings) == chars
        result = forecast_json(plan, forecast(plan, {}), {})
        if mode == "strict":
            assert "agent_mode" not in result
        else:
            assert (result["agent_mode"], result["agent_switches"]) == (mode, list(SWITCHES))


def test_preset_that_was_begun_with_a_strict_agent_is_finished_so(tmp_path: Path) -> None:
    begun(planned(tmp_path, agent="m", as_published=True, agent_mode="strict", date="2026-11-20"))
    assert recorded(planned(tmp_path, agent="m", as_published=True)) == {}


def test_python_call_names_its_parameter_for_a_wrong_switch(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"agent_settings"):
        cts_async.run("baseline", agent_settings="free_ends=true", agent="local", runs_dir=tmp_path)

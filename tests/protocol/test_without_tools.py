"""An agent without tools: it answers from what it knows, needs no documents, and is a system of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from interactcomp_runs import N, config_file, run_tasks
from written_files import read_lines

from cts_async.config import RunConfig
from cts_async.engine.journal import read_records
from cts_async.errors import UsageError
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol.audit import audit_run
from cts_async.protocol.forecast import forecast
from cts_async.protocol.plan import make_plan
from cts_async.protocol.prompts import FOLDERS_BY_TOOLS, load_prompts, open_prompts, shipped_folder
from cts_async.search.toolbox import Toolbox, every_tool, open_toolbox
from cts_async.search.turn_format import InvalidCall, RequestedCall


def test_agent_without_tools_answers_in_one_call_and_needs_no_documents(tmp_path: Path) -> None:
    runs, _ = run_tasks(tmp_path, references=("orig",), tools=("none",), corpus=None)
    run = runs["orig"]
    assert run.name == "interactcomp-orig+all-fake+tools-none"
    identity = json.loads((run / "run.json").read_text())["identity"]
    assert (identity["agent_tools"], identity["corpus_sha256"]) == ({}, None)
    lines = list(read_lines(run / "results.jsonl"))
    assert len(lines) == N
    for line in lines:
        assert "error" not in line
        assert line["search"] | {"tools": None} == {
            "model_calls": 1,
            "searches": 0,
            "visits": 0,
            "forced": False,
            "tools": None,
        }
    steps = {record["step"] for record in read_records(run / "steps.jsonl")}
    assert steps == {"search/turn/1", "judge/fake"}
    prompt = (run / "prompts" / "agent.en.txt").read_text()
    assert "tool_call" not in prompt
    assert "Confidence: NN" in prompt
    audit = audit_run(run, f"interactcomp:{tmp_path / 'tasks.jsonl'}")
    assert (audit.held, audit.n_held) == (True, N), audit.findings


def test_plan_without_tools_forecasts_one_call_a_search(tmp_path: Path) -> None:
    config = RunConfig(models=(), every_role="fake", tools=("none",), search="serper", data="sample")
    plan = make_plan(config, load_catalogue(config_file(tmp_path, "http://127.0.0.1:9")), {})
    # A search engine without its key is no obstacle: nobody asks it.
    assert plan.search.opened == []
    assert [steps.steps for steps in forecast(plan).work if steps.kind == "search"] == [plan.n_instances]


@pytest.mark.parametrize("names", FOLDERS_BY_TOOLS)
def test_prompts_of_agents_that_cannot_search_say_nothing_of_searching(names: tuple[str, ...]) -> None:
    toolbox = Toolbox(tuple(tool for tool in every_tool().tools if tool.name in names))
    if toolbox.names != names:
        pytest.skip("this tool is not there yet")
    prompts = open_prompts([], {}, toolbox=toolbox)
    usual = load_prompts()
    agents = [name for name in usual.prompts if name.startswith("agent.")]
    folder = shipped_folder() / FOLDERS_BY_TOOLS[names]
    assert sorted(path.stem for path in folder.iterdir()) == sorted(agents)
    for name in prompts.prompts:
        assert (prompts.prompts[name].sha256 != usual.prompts[name].sha256) == (name in agents)
    for name in agents:
        assert '"name": "search"' not in prompts.text(name)
        assert '"name": "visit"' not in prompts.text(name)


def test_none_is_named_alone_and_a_call_without_tools_is_told_so() -> None:
    with pytest.raises(UsageError, match="name it alone"):
        open_toolbox(("search", "none"))
    with pytest.raises(UsageError, match="name one tool at least, or none"):
        open_toolbox(())
    call = open_toolbox(("none",)).read(RequestedCall("search", {"query": "x"}, "raw"))
    assert call == InvalidCall("there is no tool 'search'; there are no tools; answer", "raw")

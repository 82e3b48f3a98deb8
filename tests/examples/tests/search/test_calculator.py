"""The calculator of an agent: from its prompt to what people see of its calls."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from cts_async.search.toolbox.calculator import CalculatorCall
from golden_world import WORLD, cts, reply, unpack, write_config
from viewer_server import viewer

from cts_async.errors import ToolError
from cts_async.llm.apis import Message
from cts_async.protocol.prompts import load_prompts
from cts_async.search.toolbox import open_toolbox
from cts_async.search.turn_format import InvalidCall, parse_turn

TOOLBOX = open_toolbox(("search", "calculator"))
RUN = (
    "-m alpha -k 1 --no-orig --support support --agent support --judge support --data hard518:queries.csv "
    "--gold gold.jsonl --corpus docs.jsonl --date 2026-11-22 --limit 2 --tools search,calculator"
)


def call_of(arguments: object, name: str = "calculator") -> object:
    written = json.dumps({"name": name, "arguments": arguments})
    (call,) = parse_turn(f"<tool_call>{written}</tool_call>").calls
    return TOOLBOX.read(call)


def test_call_is_read_leniently() -> None:
    right = CalculatorCall("(3 + 4) * 2")
    assert call_of({"expression": "(3 + 4) * 2"}) == right
    assert call_of("(3 + 4)\n* 2", "calc") == right
    assert call_of({}) == InvalidCall(
        "calculator needs one expression", '{"name": "calculator", "arguments": {}}'
    )


@pytest.mark.parametrize(
    ("expression", "result"), [("(3 + 4) * 2", "14"), ("-1 / 8", "-0.125"), ("1e3 - 0.5", "999.5")]
)
async def test_result_is_exact(expression: str, result: str) -> None:
    assert await CalculatorCall(expression)._compute() == result


@pytest.mark.parametrize(
    ("expression", "reason"),
    [("1 / 0", "division by zero"), ("2 +", "no arithmetic"), ("open('x')", "no arithmetic")],
)
async def test_what_is_no_arithmetic_fails_by_its_reason(expression: str, reason: str) -> None:
    with pytest.raises(ToolError) as failed:
        await CalculatorCall(expression)._compute()
    assert failed.value.reason == reason


@pytest.mark.parametrize(
    ("language", "words"), [("en", "Compute an arithmetic expression."), ("zh", "计算一个算术表达式。")]
)
def test_prompts_name_it_in_both_languages(language: Any, words: str) -> None:
    prompts = load_prompts(toolbox=TOOLBOX)
    assert words in prompts.get("agent", language).text
    assert '"name": "visit", "description"' not in prompts.get("agent", language).text
    assert '{"name": "calculator", "arguments"' in prompts.get("agent", language, "small").text


def says(model: str, messages: Sequence[Message]) -> str:
    """Calculate twice, once in vain, before the answer."""
    opening = messages[0]["content"]
    if "</tools>" not in opening:
        return reply(model, messages)
    assert "Compute an arithmetic expression." in opening
    if len(messages) > 2:
        assert "20" in messages[-1]["content"]
        assert "division by zero" in messages[-1]["content"]
        return "<think>So it is.</think><answer>Twenty.</answer>"
    expressions = ("(2 + 3) * 4", "1 / 0")
    calls = [json.dumps({"name": "calculator", "arguments": {"expression": one}}) for one in expressions]
    return "<think>I calculate.</think>" + "".join(f"<tool_call>{call}</tool_call>" for call in calls)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A run whose agent has the calculator, as the only one of the current folder."""
    folder = tmp_path_factory.mktemp("calculator")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        unpack("0.7.0", folder, *WORLD)
        write_config(folder)
        done = cts("run", *RUN.split(), says=says)
        assert done.exit_code == 0, done.output + done.stderr
        assert "calculations worked: 50 % (division by zero" in " ".join(done.output.split())
        (made,) = (folder / "runs").iterdir()
        yield made


def test_forecast_counts_its_calls(run: Path) -> None:
    planned = cts("plan", *RUN.replace("--limit 2", "--limit 3").split())
    assert planned.exit_code == 0, planned.output
    assert "search, calculator, each called equally often" in " ".join(planned.output.split())


def test_run_records_and_counts_its_calls(run: Path) -> None:
    assert run.name.endswith("+tools-search-calculator")
    identity = json.loads((run / "run.json").read_text("utf-8"))["identity"]
    assert identity["agent_tools"] == {"search": "1", "calculator": "1"}
    for line in (run / "results.jsonl").read_text("utf-8").splitlines():
        search = json.loads(line)["search"]
        assert (search["searches"], search["visits"], search["others"]) == (0, 0, {"calculator": 2})
        failed = {"tool": "calculator", "host": "", "reason": "division by zero", "n": 1}
        assert (search["tools"]["others"], search["tools"]["failed"]) == ({"calculator": 2}, [failed])


def test_summary_and_report_say_how_it_worked(run: Path) -> None:
    health = json.loads((run / "summary.json").read_text("utf-8"))["tool_health"]
    assert health["others"] == {"calculator": {"asked": 4, "failed": 2, "worked": 0.5}}
    reported = cts("report", str(run), "--tables", "tables")
    assert reported.exit_code == 0, reported.output
    assert "calculations,4,2,0.5" in Path("tables", "tool_health.csv").read_text("utf-8")


def test_viewer_shows_its_calls_under_its_label(run: Path) -> None:
    with viewer(run.parent) as asker:
        listed = asker.get("instances", run=run.name)["rows"]
        id = listed[0]["id"]
        page = asker.get("instance", run=run.name, id=id)
        events = asker.get("trace", run=run.name, id=id, after=0)["turns"]
    assert page["tools"]["calculator"] == {"symbol": "=", "en": "Calculation", "zh": "计算"}
    assert page["search"]["others"] == {"calculator": 2}
    calculated = [
        (event["request"], event["text"], event["failed"])
        for event in events
        if event["kind"] == "calculator"
    ]
    assert calculated == [("(2 + 3) * 4", "20", ""), ("1 / 0", "", "division by zero")]


def test_finished_run_is_found_again_and_audited(run: Path) -> None:
    before = (run / "steps.jsonl").read_bytes()

    def nobody(model: str, messages: Sequence[Message]) -> str:
        raise AssertionError("nothing is left to ask")

    again = cts("run", *RUN.split(), "-q", says=nobody)
    assert again.exit_code == 0, again.output
    assert (run / "steps.jsonl").read_bytes() == before
    audited = cts("audit", str(run))
    assert audited.exit_code == 0, audited.output

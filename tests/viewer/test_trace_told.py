"""A search told again from its journal is the search that the agent made."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from made_runs import Row, made_run
from viewer_server import Asker, viewer

from cts_async.analysis.run_losses import documents_of
from cts_async.engine.journal import Journal
from cts_async.engine.runner import Context, Job, Runner
from cts_async.engine.step import Executed, Step, step_key
from cts_async.errors import ToolError, UnusableOutput
from cts_async.llm.model import ModelCall
from cts_async.records import Trace
from cts_async.runs.open_run import OpenRun, Place, viewed_manifest
from cts_async.search.agent import Agent
from cts_async.search.backends import Hit, Page
from cts_async.search.tools import AgentSettings, Tools

OPENING = ({"role": "system", "content": "find"}, {"role": "user", "content": "User: when?"})
ANSWER = "<think>known</think><answer>At nine.</answer>"
LONG = "汉" * 5_000


def search(*queries: str) -> str:
    call = json.dumps({"name": "search", "arguments": {"query": list(queries)}})
    return f"<think>look for {queries[0]}</think><tool_call>{call}</tool_call>"


def visit(*urls: str, goal: str = "time") -> str:
    call = json.dumps({"name": "visit", "arguments": {"url": list(urls), "goal": goal}})
    return f"<think>read</think><tool_call>{call}</tool_call>"


class Script:
    """A model that says its lines in order, each as a step of the journal."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)
        self.spec = SimpleNamespace(structured="none", cache_marks=False)

    async def ask(self, ctx: Context, call: ModelCall[Any]) -> str:
        async def execute(unusable: UnusableOutput | None) -> Executed:
            return Executed({"text": self.lines.pop(0)})

        said = Step(
            name=call.step,
            key=step_key(call.step, call.key_on),
            execute=execute,
            decode=lambda response: str(call.expect.parse(response["text"])),
            request=call.request,
            notes=call.notes,
        )
        return await ctx.step(said)


class Web:
    """Pages that exist, and everything else that fails."""

    name, engine = "web", ""

    async def search(self, query: str, limit: int) -> list[Hit]:
        if query.startswith("broken"):
            raise ToolError("the index is gone", reason="http 500", host="web")
        return [Hit("1", "https://a.example/1", "Ferry", f"about {query}", 1.0)]

    async def fetch(self, url: str) -> Page:
        if "missing" in url:
            raise ToolError("no such page", reason="http 404", host="a.example")
        return Page("1", url, "Ferry", LONG if "long" in url else "The ferry leaves at nine. It is blue.")


def made_search(folder: Path, *lines: str, records_pages: bool = True, **limits: int) -> tuple[Path, Trace]:
    """A run whose only instance "s1" was searched so; and the agent's own trace."""
    run = made_run(folder, label="orig", rows=[Row("s1", answer="At nine.")])
    settings, ended = AgentSettings(**limits), []
    tools = Tools(Web(), Web(), "digest", settings, records_pages=records_pages)
    agent = Agent(Script(*lines), tools, settings)  # type: ignore[arg-type]

    async def finish(result: Any) -> None:
        ended.append(result)

    async def main() -> None:
        journal = Journal(run / "steps.jsonl")
        job = Job(
            "run", "s1", journal, lambda ctx: agent.run(ctx, "q", OPENING, "en", {"prompt": "agent"}), finish
        )
        await Runner().run([job])
        journal.close()

    asyncio.run(main())
    (trace,) = ended
    assert isinstance(trace, Trace), trace
    return run, trace


def told(asker: Asker, run: Path) -> list[dict[str, Any]]:
    """All events, page by page."""
    events: list[dict[str, Any]] = []
    after: int | None = 0
    while after is not None:
        page = asker.get("trace", run=run.name, id="s1", after=after)
        events += page["turns"]
        after = page["next"]
    assert page["total"] == len(events) == asker.get("instance", run=run.name, id="s1")["trace_turns"]
    assert [event["n"] for event in events] == list(range(1, len(events) + 1))
    return events


INVALID = "<think>hm</think><tool_call>{not json</tool_call>"


SEARCHES = pytest.mark.parametrize(
    ("lines", "limits"),
    [
        ([search("ferry"), visit("https://a.example/1"), ANSWER], {}),
        (["<think>easy</think>It is nine."], {}),
        ([search("ferry"), search("ferry"), search("ferry"), search("ferry"), ANSWER], {}),
        ([search("ferry"), visit("https://a.example/1"), ANSWER], {"max_turns": 3}),
        ([INVALID, search("broken"), visit("https://a.example/missing"), ANSWER], {}),
        ([search("ferry " + "x" * n) for n in range(300, 304)] + [ANSWER], {"max_input_tokens": 850}),
    ],
)


@SEARCHES
def test_its_events_are_the_agents_own(tmp_path: Path, lines: list[str], limits: dict[str, int]) -> None:
    run, trace = made_search(tmp_path, *lines, **limits)
    with viewer(tmp_path) as asker:
        events = [event for event in told(asker, run) if event["kind"] != "page"]
    assert [event["kind"] for event in events] == [turn.kind for turn in trace.turns]
    for event, turn in zip(events, trace.turns, strict=True):
        if event["kind"] in ("think", "answer", "forced"):
            assert event["text"] == turn.text
        if event["kind"] in ("search", "dropped"):
            assert event["request"] == turn.request


@SEARCHES
@pytest.mark.parametrize("records_pages", [True, False])
def test_events_are_the_same_without_the_notes_of_the_agent(
    tmp_path: Path, lines: list[str], limits: dict[str, int], records_pages: bool
) -> None:
    """Versions up to 0.12 noted nothing of what became of their calls."""
    run, _ = made_search(tmp_path, *lines, records_pages=records_pages, **limits)
    with viewer(tmp_path) as asker:
        noted = told(asker, run)
    steps = run / "steps.jsonl"
    records = [json.loads(line) for line in steps.read_text("utf-8").splitlines()]
    for record in records:
        record.pop("notes", None)
    steps.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    with viewer(tmp_path) as asker:
        replayed = told(asker, run)
    for event in (*noted, *replayed):
        event.pop("at")
    assert replayed == noted


def test_notes_tell_what_became_of_each_call(tmp_path: Path) -> None:
    run, _ = made_search(tmp_path, INVALID, search("broken", "ferry"), visit("https://a.example/1"), ANSWER)
    records = [json.loads(line) for line in (run / "steps.jsonl").read_text("utf-8").splitlines()]
    notes = {}
    for record in records:
        if "calls" in record.get("notes", {}):
            notes[record["step"]] = record["notes"]["calls"]
    keys = {record["step"]: record["key"] for record in records}
    page = keys["search/tool/3.1/page/1"]
    assert notes == {
        "search/turn/2": [{"kind": "invalid", "request": "{not json", "failed": "not a JSON object"}],
        "search/turn/3": [
            {"kind": "search", "request": "broken", "failed": "the index is gone"},
            {"kind": "search", "request": "ferry", "record": keys["search/tool/2.1/query/2"]},
        ],
        "search/turn/4": [
            {"kind": "page", "request": "https://a.example/1", "record": page},
            {"kind": "visit", "request": "https://a.example/1\ntime", "record": page, "limit": 4000},
        ],
    }


def test_a_visit_shows_the_page_and_what_was_read_of_it(tmp_path: Path) -> None:
    run, _ = made_search(tmp_path, visit("https://a.example/1", "https://a.example/missing"), ANSWER)
    with viewer(tmp_path) as asker:
        _, page, read, lost, *_ = told(asker, run)
    assert (page["kind"], page["request"], page["text"][:10]) == ("page", "https://a.example/1", "The ferry ")
    assert (read["kind"], read["request"]) == ("visit", "https://a.example/1\ntime")
    assert read["text"].startswith("The ferry leaves at nine. It is blue.\n\nFerry: ")
    assert (lost["kind"], lost["failed"]) == ("visit", "no such page")


def test_pages_that_lie_on_the_disk_have_only_their_reading(tmp_path: Path) -> None:
    run, _ = made_search(tmp_path, visit("https://a.example/1"), ANSWER, records_pages=False)
    with viewer(tmp_path) as asker:
        _, read, *_ = told(asker, run)
    assert read["kind"] == "visit"
    assert read["text"].startswith("The ferry leaves at nine.")


def test_a_query_that_was_remembered_shows_the_hits_of_its_first_time(tmp_path: Path) -> None:
    run, _ = made_search(tmp_path, search("ferry"), search("boat", "ferry"), ANSWER)
    with viewer(tmp_path) as asker:
        found = [event for event in told(asker, run) if event["kind"] == "search"]
    assert [event["request"] for event in found] == ["ferry", "boat", "ferry"]
    assert found[0]["at"] == found[2]["at"]
    assert not any(event["failed"] for event in found)


def test_long_text_is_cut_and_available_in_full(tmp_path: Path) -> None:
    run, _ = made_search(tmp_path, visit("https://a.example/long"), ANSWER)
    with viewer(tmp_path) as asker:
        _, page, *_ = told(asker, run)
        assert (len(page["text"]), page["length"]) == (4_000, 5_000)
        whole = asker.api("text", run=run.name, id="s1", n=page["n"])
        assert whole.body.decode() == LONG
        assert whole.headers["Content-Type"] == "text/plain; charset=utf-8"
        for event in told(asker, run):
            same = asker.api("text", run=run.name, id="s1", n=event["n"])
            assert same.body.decode()[:4_000] == event["text"]


def test_unknown_event_or_line_is_refused(tmp_path: Path) -> None:
    run, _ = made_search(tmp_path, ANSWER)
    with viewer(tmp_path) as asker:
        for n in ("", 0, 9, 10**17):
            assert asker.api("text", run=run.name, id="s1", n=n).status == 404, n
        for at in (1, 10**18):
            assert asker.api("step", run=run.name, at=at).status == 404
        assert asker.api("text", run=run.name, id="s1", n="-1").status == 400


def test_raw_steps_are_listed_and_served_verbatim(tmp_path: Path) -> None:
    run, _ = made_search(tmp_path, search("ferry"), ANSWER)
    lines = (run / "steps.jsonl").read_bytes().splitlines()
    with viewer(tmp_path) as asker:
        listed = asker.get("steps", run=run.name, id="s1")
        assert [step["step"] for step in listed["steps"]] == [
            *("search/turn/1", "search/tool/1.1/query/1", "search/turn/2"),
        ]
        assert (listed["total"], listed["next"]) == (3, None)
        raw = [asker.api("step", run=run.name, at=step["at"]).body for step in listed["steps"]]
        assert raw == lines
        assert [step["bytes"] for step in listed["steps"]] == [len(line) for line in lines]
        assert asker.get("steps", run=run.name, id="s1", after=2)["steps"][0]["n"] == 3
        assert asker.api("download", run=run.name, id="s1").body.splitlines() == lines


def test_repeated_step_shows_its_latest_record(tmp_path: Path) -> None:
    run, _ = made_search(tmp_path, "<answer>first</answer>")
    line = json.loads((run / "steps.jsonl").read_bytes())
    line["response"]["text"] = "<answer>second</answer>"
    with (run / "steps.jsonl").open("a") as file:
        file.write('{"key": damaged\n' + json.dumps(line) + "\n")
    with viewer(tmp_path) as asker:
        (event,) = told(asker, run)
    assert event["text"] == "second"


def test_its_documents_are_what_the_agent_had_before_it(tmp_path: Path) -> None:
    url = "https://a.example/1"
    run, trace = made_search(tmp_path, search("ferry"), visit(url, "https://a.example/missing"), ANSWER)
    manifest = viewed_manifest(run)
    assert manifest is not None
    opened = OpenRun(Place(run.name, run), manifest, run / "steps.jsonl")
    opened.viewed = True
    while opened.advance(1):
        pass
    found = documents_of(opened, "s1")
    assert found is not None
    shown = [source for turn in trace.turns for source in turn.sources]
    assert [(one.url, one.title, one.text, one.kind) for one in found] == [
        (source.url, source.title, source.text, source.kind) for source in shown
    ]
    # think, search, think, page, visit, visit (failed): the page was read for its goal.
    assert [(one.event, one.rank, one.unread) for one in found] == [
        (2, 1, ""),
        (5, 0, "The ferry leaves at nine. It is blue."),
    ]
    assert documents_of(opened, "s2") is None

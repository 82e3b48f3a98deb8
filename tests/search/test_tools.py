"""The agent's tools piece by piece: records, reports to the agent, retries."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import anyio
import orjson
import pytest
from virtual_time import run_virtual

from cts_async.engine.journal import Journal, read_records
from cts_async.engine.lane import Lane, LaneLimits
from cts_async.engine.runner import Context, Job, Runner
from cts_async.engine.step import RetryPolicy
from cts_async.errors import (
    ProviderRefused,
    RejectedError,
    StepError,
    TimedOut,
    ToolError,
    TransientError,
    UnusableOutput,
)
from cts_async.records import Source, ToolFailure, ToolUse
from cts_async.search.backends import Hit, Page
from cts_async.search.evidence import Evidence
from cts_async.search.toolbox import ToolCall, ToolResult, ToolWork
from cts_async.search.toolbox.search import SearchCall
from cts_async.search.toolbox.visit import VisitCall
from cts_async.search.tools import (
    AGENT_MODES,
    AgentSettings,
    Recorded,
    Tools,
    hit_row,
    read_hits,
    reason_of,
    recorded_settings,
)

# --- The agent's tools piece by piece: records, reports to the agent, retries

IMPATIENT = RetryPolicy(max_transient=0, patience_s=0.0)


class Web:
    """A page for every address; the words in queries and addresses say what goes wrong. Counts what it is asked."""

    name, engine = "web", "Google"

    def __init__(self) -> None:
        self.searched: list[str] = []
        self.fetched: list[str] = []
        self.well = False

    async def search(self, query: str, limit: int) -> list[Hit]:
        self.searched.append(query)
        await anyio.sleep(0.02 if query == "slow" else 0)
        self._fail(query)
        return [Hit("1", f"https://x/{query}", f"About {query}", "A snippet.", 1.0, date="2024")][:limit]

    async def fetch(self, url: str) -> Page:
        self.fetched.append(url)
        self._fail(url)
        return Page("1", url, "Rome", "The Colosseum was built in 80 AD.")

    def _fail(self, what: str) -> None:
        if self.well:
            return
        if "bad" in what:
            raise ToolError(f"nothing at {what}", reason="http 404", host="x")
        if "flaky" in what:
            raise TimedOut("no answer")
        if "unpaid" in what:
            raise ProviderRefused("out of credit")


class Reading:
    """A model that reads pages; it fails as often as it is told to."""

    def __init__(self, *errors: StepError) -> None:
        self.errors, self.asked = list(errors), []

    async def extract(self, ctx: Context, step: str, page: Page, goal: str) -> Evidence:
        self.asked.append((step, page.url, goal))
        if self.errors:
            raise self.errors.pop(0)
        return Evidence("Built in 80 AD.", "It is old.")


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "steps.jsonl"


def tools_of(web: Web, **options: Any) -> Tools:
    settings = AgentSettings(page_chars=300)
    return Tools(web, web, "identity", settings, page_retry=IMPATIENT, **options)


def use(journal: Path, box: Tools, *calls: ToolCall, lost: Any = None) -> list[ToolResult]:
    """What each call brings, in a session of its own over `journal`; raises what ends the run."""
    results: list[ToolResult] = []

    async def walk(ctx: Context) -> None:
        for i, call in enumerate(calls, 1):
            results.append(await call.execute(ToolWork(ctx, box, f"1.{i}", earlier=lost or {})))

    async def finish(ended: object) -> None:
        if isinstance(ended, BaseException):
            raise ended

    async def main() -> None:
        opened = Journal(journal)
        lanes = [lane for lane in (box.engine_lane, box.reader_lane) if lane]
        try:
            await Runner(lanes, policy=IMPATIENT).run([Job("run", "q1", opened, walk, finish)])
        finally:
            opened.close()

    asyncio.run(main())
    return results


def steps(journal: Path, *, ok: bool = True) -> list[str]:
    return [record["step"] for record in read_records(journal) if record["ok"] is ok]


# --- Searching


def test_queries_are_separate_steps_reported_in_order(journal: Path) -> None:
    (result,) = use(journal, tools_of(Web()), SearchCall(("slow", "quick")))
    first, second = result.text.split("\n=======\n")
    assert first.startswith("A Google search for 'slow' found 1 results:")
    assert second.startswith("A Google search for 'quick'")
    assert sorted(steps(journal)) == ["search/tool/1.1/query/1", "search/tool/1.1/query/2"]
    assert result.sources[0] == Source("https://x/slow", "About slow", "A snippet.", "snippet")
    assert result.use == ToolUse({"search": 2})


def test_results_are_recorded_as_rows_and_replayed_identically(journal: Path) -> None:
    web = Web()
    before = use(journal, tools_of(web), SearchCall(("ferry",)))
    (record,) = read_records(journal)
    assert record["request"] == {"query": "ferry"}
    assert record["response"] == {"hits": [["https://x/ferry", "About ferry", "A snippet.", "2024"]]}
    assert use(journal, tools_of(web), SearchCall(("ferry",))) == before
    assert web.searched == ["ferry"]


def test_only_failed_query_is_tried_again(journal: Path) -> None:
    web = Web()
    (result,) = use(journal, tools_of(web), SearchCall(("good", "bad")))
    assert result.text.endswith("\n=======\nError: the search for 'bad' failed: nothing at bad.")
    assert result.use == ToolUse({"search": 2}, failures=(ToolFailure("search", "x", "http 404"),))
    assert result.unrecorded == {"query/2": {"error": "nothing at bad", "reason": "http 404", "host": "x"}}
    web.well = True
    # What the agent was told stays so where it has continued from it; else the query is tried again.
    assert use(journal, tools_of(web), SearchCall(("good", "bad")), lost=result.unrecorded) == [result]
    assert web.searched == ["good", "bad"]
    (again,) = use(journal, tools_of(web), SearchCall(("good", "bad")))
    assert "Error" not in again.text
    assert web.searched == ["good", "bad", "bad"]


def test_refused_account_stops_the_run(journal: Path) -> None:
    lane = Lane("web", LaneLimits())
    with pytest.raises(ProviderRefused, match="out of credit"):
        use(journal, tools_of(Web(), engine_lane=lane), SearchCall(("unpaid",)))
    assert lane.stopped


# --- Visiting


def test_page_is_fetched_once_however_often_it_is_read(journal: Path) -> None:
    web = Web()
    goals = [VisitCall(("https://x/1",), goal) for goal in ("when", "who")]
    result, _ = use(journal, tools_of(web), *goals)
    assert "Evidence in page:\nThe Colosseum was built in 80 AD.\n" in result.text
    (source,) = result.sources
    assert (source.url, source.title, source.kind) == ("https://x/1", "Rome", "page")
    assert "80 AD" in source.text
    assert result.use == ToolUse({"visit": 1})
    use(journal, tools_of(web), *goals, VisitCall(("https://x/1#part",), "where"))
    assert web.fetched == ["https://x/1"]
    (record,) = read_records(journal)
    assert record["response"]["text"] == "The Colosseum was built in 80 AD."


def test_bad_page_does_not_affect_others(journal: Path) -> None:
    web = Web()
    (result,) = use(journal, tools_of(web), VisitCall(("https://x/bad", "https://x/2"), "when"))
    first, second = result.text.split("\n=======\n")
    assert first == "Error: the visit to https://x/bad failed: nothing at https://x/bad."
    assert second.startswith("The useful information in https://x/2")
    assert result.use == ToolUse({"visit": 2}, failures=(ToolFailure("visit", "x", "http 404"),))
    assert steps(journal) == ["search/tool/1.1/page/2"]
    assert steps(journal, ok=False) == ["search/tool/1.1/page/1"]


@pytest.mark.parametrize("error", [UnusableOutput("no JSON"), RejectedError("content refused", status=400)])
def test_page_unreadable_for_model_is_read_lexically(journal: Path, error: StepError) -> None:
    web = Web()
    (result,) = use(journal, tools_of(web, extractor=Reading(error)), VisitCall(("https://x/1",), "when"))
    assert "The Colosseum was built in 80 AD." in result.text
    assert "no model could read this page" in result.text
    assert result.use == ToolUse({"visit": 1}, lexical=1)
    # What was told stays so where the agent has gone on from it; else the model is asked again. No second fetch.
    reading = Reading()
    assert use(
        journal, tools_of(web, extractor=reading), VisitCall(("https://x/1",), "when"), lost=result.unrecorded
    )
    assert reading.asked == []
    use(journal, tools_of(web, extractor=reading), VisitCall(("https://x/1",), "when"))
    assert len(reading.asked) == len(web.fetched) == 1


def test_only_evidence_of_local_documents_is_recorded(journal: Path) -> None:
    web = Web()
    box = tools_of(web, records_pages=False)
    before = use(journal, box, VisitCall(("https://x/1",), "when"))
    (record,) = read_records(journal)
    assert set(record["response"]) == {"title", "evidence", "summary"}
    assert use(journal, box, VisitCall(("https://x/1",), "when")) == before
    assert web.fetched == ["https://x/1"]


def test_interruption_after_fetch_does_not_fetch_again(journal: Path) -> None:
    web = Web()

    class Killed(Reading):
        async def extract(self, *_: object) -> Evidence:
            raise ProviderRefused("gone")

    call = VisitCall(("https://x/1",), "when")
    with pytest.raises(ProviderRefused):
        use(journal, tools_of(web, extractor=Killed()), call)
    assert steps(journal) == ["search/tool/1.1/page/1"]
    reading = Reading()
    (result,) = use(journal, tools_of(web, extractor=reading), call)
    assert result.sources == (Source("https://x/1", "Rome", "Built in 80 AD.\n\nIt is old.", "page"),)
    assert reading.asked == [("visit/1.1/1", "https://x/1", "when")]
    assert web.fetched == ["https://x/1"]


# --- Limits


def test_searches_obey_the_limit_of_their_account(tmp_path: Path) -> None:
    """Thirteen queries at twelve a minute: the first at once, the last after a minute."""

    class Quick(Web):
        async def search(self, query: str, limit: int) -> list[Hit]:
            self.searched.append(query)
            return []

    async def main() -> float:
        web, lane = Quick(), Lane("web", LaneLimits(requests_per_min=12))
        box, opened = tools_of(web, engine_lane=lane), Journal(tmp_path / "steps.jsonl")

        async def walk(ctx: Context) -> None:
            call = SearchCall(tuple(f"{ctx.job.id} {i}" for i in range(13)))

            await call.execute(ToolWork(ctx, box, "1.1"))

        async def finish(_: object) -> None:
            return

        loop = asyncio.get_running_loop()
        await Runner([lane], clock=loop.time).run([Job("run", "q1", opened, walk, finish)])
        opened.close()
        assert len(web.searched) == 13
        return loop.time()

    assert 60 <= run_virtual(main) <= 62


# --- Data


def test_row_omits_trailing_empty_cells_and_cuts_long_ones() -> None:
    hit = Hit("7", "https://x", "T", "", 3.0, source="S")
    assert hit_row(hit) == ["https://x", "T", "", "", "S"]
    assert hit_row(Hit("", "", "", "", 0.0)) == [""]
    (read,) = read_hits({"hits": [["https://x", "T"]]})
    assert (read.url, read.title, read.snippet, read.date, read.source) == ("https://x", "T", "", "", "")
    row = hit_row(Hit("7", "https://x", "T" * 5000, "s" * 100_000, 1.0, "d" * 5000, "e" * 5000))
    assert [len(cell) for cell in row] == [9, 300, 1000, 300, 300]


@pytest.mark.parametrize("response", [{}, None, {"hits": 3}, {"hits": [["1", "2", "3", "4", "5", "6"]]}, []])
def test_invalid_recorded_hits_are_unusable(response: object) -> None:
    with pytest.raises(UnusableOutput):
        read_hits(response)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ToolError("x", reason="too large"), "too large"),
        (TimedOut("x"), "timeout"),
        (TransientError("x", status=503), "http 503"),
        (TransientError("x"), "connection"),
        (RejectedError("x", status=400), "http 400"),
        (UnusableOutput("x"), "unusable_output"),
    ],
)
def test_reasons_are_short_and_stable(error: StepError, reason: str) -> None:
    assert reason_of(error) == reason


# --- Searches and visits from the journals of earlier runs: whoever asked, however an address is spelled


def query(text: str, *titles: str, instance: str = "q1", ok: bool = True) -> dict[str, Any]:
    rows = [[f"https://x/{title}", title, "A snippet."] for title in titles]
    return record("query", {"query": text}, {"hits": rows}, instance, ok)


def page(url: str, text: str, *, final: str = "", instance: str = "q1") -> dict[str, Any]:
    return record("page", {"url": url}, {"url": final or url, "title": "T", "text": text}, instance, True)


def record(kind: str, request: Any, response: Any, instance: str, ok: bool) -> dict[str, Any]:
    step = f"search/tool/1.1/{kind}/1"
    known = {"key": "0" * 32, "ok": ok, "instance": instance, "step": step, "request": request}
    return {**known, "response": response} if ok else {**known, "error": {"kind": "tool", "message": "x"}}


def recorded_journal(folder: Path, *records: Any, name: str = "steps.jsonl") -> Path:
    path = folder / name
    path.write_bytes(b"".join(orjson.dumps(one) + b"\n" for one in records))
    return path


async def test_replayed_query_is_found_by_text_for_any_instance(tmp_path: Path) -> None:
    recorded = Recorded(
        [recorded_journal(tmp_path, query("other", "B"), query("ferry  times", "A", "C", instance="q9"))]
    )
    hits = await recorded.search("ferry times", 10)
    assert [(hit.url, hit.title, hit.snippet) for hit in hits] == [
        ("https://x/A", "A", "A snippet."),
        ("https://x/C", "C", "A snippet."),
    ]
    assert [hit.title for hit in await recorded.search("ferry times", 1)] == ["A"]


async def test_page_is_found_in_every_spelling_of_its_address_and_of_its_final_one(tmp_path: Path) -> None:
    recorded = Recorded(
        [recorded_journal(tmp_path, page("https://x.org/a", "Old text.", final="https://y.org/b"))]
    )
    for url in ("https://x.org/a", "http://X.org/a/", "x.org/a#part", "https://x.org/%61", "https://y.org/b"):
        assert (await recorded.fetch(url)).text == "Old text."


async def test_exact_address_is_preferred_over_similar_ones(tmp_path: Path) -> None:
    both = [page("https://x.org/a", "first"), page("https://x.org/a/", "second")]
    recorded = Recorded([recorded_journal(tmp_path, *both)])
    assert (await recorded.fetch("https://x.org/a/")).text == "second"
    assert (await recorded.fetch("http://x.org/a")).text == "first"


async def test_earliest_record_of_the_first_journal_counts(tmp_path: Path) -> None:
    journals = [
        recorded_journal(tmp_path, query("q", "A"), query("q", "B"), name="1.jsonl"),
        recorded_journal(tmp_path, query("q", "C"), query("only here", "D"), name="2.jsonl"),
    ]
    recorded = Recorded(journals)
    assert [hit.title for hit in await recorded.search("q", 5)] == ["A"]
    assert [hit.title for hit in await recorded.search("only here", 5)] == ["D"]


@pytest.mark.parametrize("ask", ["search", "fetch"])
async def test_unrecorded_query_or_page_is_a_tool_error(tmp_path: Path, ask: str) -> None:
    recorded = Recorded([recorded_journal(tmp_path, query("failed", ok=False))])
    with pytest.raises(ToolError, match="not recorded") as missed:
        await (recorded.search("failed", 5) if ask == "search" else recorded.fetch("https://x.org/a"))
    assert missed.value.reason == "not recorded"
    assert missed.value.host == ("replay" if ask == "search" else "x.org")


async def test_other_records_and_damaged_lines_are_ignored(tmp_path: Path) -> None:
    evidence = record(
        "page", {"url": "https://x/e"}, {"title": "T", "evidence": "E", "summary": "S"}, "q", True
    )
    turn = {
        "key": "1" * 32,
        "ok": True,
        "step": "search/turn/1",
        "response": {"text": '"step":"search/tool/'},
    }
    path = recorded_journal(
        tmp_path, turn, evidence, {**query("q"), "response": 3}, {"step": "search/tool/1"}
    )
    with path.open("ab") as file:
        file.write(b'{"step":"search/tool/ broken\n' + orjson.dumps(query("good", "A")) + b"\n")
        file.write(orjson.dumps(query("torn", "B")))
    recorded = Recorded([path])
    assert [hit.title for hit in await recorded.search("good", 5)] == ["A"]
    for missing in ("q", "torn"):
        with pytest.raises(ToolError):
            await recorded.search(missing, 5)
    with pytest.raises(ToolError):
        await recorded.fetch("https://x/e")


# --- Tools of other packages


@dataclass(frozen=True, slots=True)
class Spelling(ToolCall):
    """A call of a tool that spells a word backwards; `broken` raises what no tool should."""

    tool: ClassVar[str] = "spelling"
    word: str

    @property
    def request(self) -> str:
        return self.word

    async def execute(self, work: ToolWork) -> ToolResult:
        return await work.answer(self, {"word": self.word}, self._spell)

    async def _spell(self) -> str:
        if self.word == "broken":
            raise KeyError(self.word)
        return self.word[::-1]


def test_answer_of_a_tool_is_a_step_of_its_own(journal: Path) -> None:
    web = Web()
    (result,) = use(journal, tools_of(web), Spelling("ferry"))
    assert (result.text, result.use) == ("yrref", ToolUse({"spelling": 1}))
    assert steps(journal) == ["search/tool/1.1"]
    (again,) = use(journal, tools_of(web), Spelling("ferry"))
    assert (again.text, steps(journal)) == ("yrref", ["search/tool/1.1"])


def test_exception_of_a_tool_is_told_to_the_agent_and_ends_no_run(journal: Path) -> None:
    (result,) = use(journal, tools_of(Web()), Spelling("broken"))
    assert result.text == "Error: spelling 'broken' failed: KeyError: 'broken'."
    assert result.use == ToolUse({"spelling": 1}, (ToolFailure("spelling", "", "broken tool"),))
    (repeated,) = use(journal, tools_of(Web()), Spelling("broken"), lost=result.unrecorded)
    assert repeated.text == result.text


# --- Uncut, as published


def test_evidence_of_a_model_and_snippets_are_uncut_where_the_settings_say_so(journal: Path) -> None:
    class Verbose:
        async def extract(self, ctx: Context, step: str, page: Page, goal: str) -> Evidence:
            return Evidence("e" * 5_000, "s" * 5_000)

    call = VisitCall(("https://a.example/1",), "when")
    uncut = replace(
        tools_of(Web(), extractor=Verbose()), settings=AgentSettings(page_chars=300, whole_evidence=True)
    )
    (result,) = use(journal, uncut, call)
    assert ("e" * 5_000 in result.text, "s" * 5_000 in result.text) == (True, True)
    (result,) = use(journal.with_name("strict.jsonl"), tools_of(Web(), extractor=Verbose()), call)
    # 300 characters of evidence; of the summary half of that, but 300 at least.
    assert (result.text.count("e" * 300), "e" * 301 in result.text, "s" * 301 in result.text) == (
        1,
        False,
        False,
    )
    hit = Hit("7", "https://x", "T", "s" * 3_000, 1.0)
    assert len(hit_row(hit)[2]) == 1_000
    assert len(hit_row(hit, whole_snippet=True)[2]) == 3_000


def test_settings_are_recorded_with_the_switches_that_are_on_alone() -> None:
    strict = AgentSettings().as_json()
    assert list(strict) == [
        "max_turns",
        "max_input_tokens",
        "results_per_query",
        "snippet_chars",
        "page_chars",
        "think_chars",
        "answer_chars",
        "urls_offered",
        "repeat_question",
    ]
    settings = AgentSettings(free_end=True, max_turns=7)
    assert settings.as_json() == strict | {"max_turns": 7, "free_end": True}
    assert settings.mode == "mixed"
    assert AgentSettings(**AGENT_MODES["as-published"]).mode == "as-published"
    assert recorded_settings(settings.as_json()) == settings
    # From a file that anybody may have changed.
    assert recorded_settings({"max_turns": "9", "free_end": 1, "unknown": 2}) == AgentSettings()

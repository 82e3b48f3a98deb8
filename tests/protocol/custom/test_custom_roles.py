"""Roles of the user's own in whole runs: functions, commands and endpoints, well and badly behaved."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from custom_roles import (
    COMMAND,
    FUNCTION,
    KEY,
    clarify_over_http,
    command,
    endpoint,
    play,
    played,
    played_by,
    script,
)
from fake_provider import FakeProvider, Settings

from cts_async.config import RunConfig
from cts_async.engine.events import Event, Events, Notice
from cts_async.engine.journal import read_records
from cts_async.errors import ProviderDown, ProviderRefused, UsageError
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol.custom.players import THREAD
from cts_async.protocol.custom.sources import custom_role
from cts_async.protocol.plan import make_plan
from cts_async.protocol.run import open_resources, open_search
from cts_async.runs.manifest import manifest_of

PROVIDER = Settings()


def without_label(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in line.items() if name != "system"} for line in lines]


def test_a_function_a_command_and_an_endpoint_give_the_same_results(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("function", "command", "endpoint")]
    for folder in folders:
        folder.mkdir()
    function = played(folders[0], f"{script(folders[0], 'my_lab.py', FUNCTION)}:ask", FakeProvider(PROVIDER))
    process = played(folders[1], command(script(folders[1], "ask.py", COMMAND)), FakeProvider(PROVIDER))
    http = played_by(folders[2], clarify_over_http)
    assert [line["questions"][0].split(" do ")[0] for line in function] == ["Which time"] * 4
    assert without_label(function) == without_label(process) == without_label(http)
    assert {line["system"] for line in function} == {"my_lab.ask-k2"}
    assert {line["system"] for line in process} == {"ask.py-k2"}


def test_models_asked_by_a_function_are_recorded_and_counted(tmp_path: Path) -> None:
    played(tmp_path, f"{script(tmp_path, 'my_lab.py', FUNCTION)}:ask", FakeProvider(PROVIDER))
    records = list(read_records(tmp_path / "runs/run/steps.jsonl"))
    asked = [record for record in records if record["step"] == "clarify/llm/1"]
    assert len(asked) == 4
    assert all(record["model"] == "fake-1" and record["usage"]["input"] > 0 for record in asked)


KILLED = (
    FUNCTION
    + """
import os, pathlib

_ask = ask

@role("clarifier", version="3")
async def ask(view, llm):
    questions = await _ask(view, llm)
    with open(pathlib.Path(__file__).with_name("calls.txt"), "a") as file:
        file.write(view.blurred_query + "\\n")
    return questions
"""
)


def test_a_killed_run_repeats_no_call_that_had_ended(tmp_path: Path) -> None:
    """Killed in the middle, then finished by the same command: each ended call of function and model happened once."""
    script(tmp_path, "my_lab.py", KILLED)
    run = (
        "import sys; sys.path[:0] = ['tests']\n"
        "from pathlib import Path; from custom_roles import played; from fake_provider import FakeProvider, Settings\n"
        f"played(Path({str(tmp_path)!r}), {str(tmp_path / 'my_lab.py')!r} + ':ask', "
        "FakeProvider(Settings(latency_s=0.1)), limit=28, in_flight=2)"
    )
    process = subprocess.Popen([sys.executable, "-c", run], stderr=subprocess.DEVNULL)
    results = tmp_path / "runs/run/results.jsonl"
    until = time.monotonic() + 60
    while time.monotonic() < until and not (results.exists() and results.read_bytes().count(b"\n") >= 6):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    ended = {record["key"] for record in read_records(tmp_path / "runs/run/steps.jsonl")}
    assert 0 < len(results.read_bytes().splitlines()) < 28
    provider = FakeProvider(PROVIDER)
    lines = played(tmp_path, f"{tmp_path / 'my_lab.py'}:ask", provider, limit=28, in_flight=2)
    assert len(lines) == 28
    keys = [record["key"] for record in read_records(tmp_path / "runs/run/steps.jsonl")]
    assert len(keys) == len(set(keys))
    assert ended < set(keys)
    calls = (tmp_path / "calls.txt").read_text().splitlines()
    assert len(calls) <= 28 + 2  # at most what was in flight
    model_steps = sum(
        record["step"] == "clarify/llm/1" for record in read_records(tmp_path / "runs/run/steps.jsonl")
    )
    assert model_steps == 28


def test_a_changed_file_makes_a_version(tmp_path: Path) -> None:
    path = script(tmp_path, "my_lab.py", FUNCTION)
    played(tmp_path, f"{path}:ask", FakeProvider(PROVIDER), limit=1)
    other = tmp_path / "other"
    other.mkdir()
    changed = script(other, "my_lab.py", FUNCTION + "# changed\n")
    played(tmp_path, f"{changed}:ask", FakeProvider(PROVIDER), limit=1)
    assert manifest_of(tmp_path / "runs/run.v2").changed == ("clarifier (my_lab.ask)",)


BAD_IMPORTS = """
import asyncio, sys, time
from cts_async import role

class Panic(BaseException):
    "As extension modules in Rust raise it."

class Hostile:
    def __repr__(self):
        raise ValueError("no repr")
    __str__ = __eq__ = __hash__ = __bool__ = __repr__

class HostileList(list):
    def __iter__(self):
        raise ValueError("no items")

def recurse_for_ever():
    return recurse_for_ever()

"""
FOR_EVER = "while True:\n            try: {}\n            except Exception: pass"
BAD_BODIES = {
    "async def raises(view)": 'raise ValueError("no idea about islands")',
    "def exits(view)": 'sys.exit("giving up")',
    "async def hangs(view)": "await asyncio.sleep(60)",
    "def hangs_in_a_thread(view)": "time.sleep(60)",
    "async def waits_for_a_thread_that_hangs(view)": "await asyncio.to_thread(time.sleep, 30)",
    "def stops_an_iteration(view)": "return next(iter(()))",
    "async def returns_one(view)": 'return ["What?"]',
    "async def returns_a_number(view)": "return 7",
    "async def asks_nobody(view, llm)": 'await llm("hello", model="nobody-knows-it")',
    "async def is_cancelled_by_itself(view)": "raise asyncio.CancelledError",
    "async def panics(view)": r'raise Panic("out of \x1b[31m cheese \ud800")',
    "def panics_in_a_thread(view)": 'raise BaseExceptionGroup("several", [Panic("out of cheese")])',
    "async def recurses(view)": "return recurse_for_ever()",
    "async def returns_an_object(view)": "return Hostile()",
    "async def returns_a_hostile_list(view)": 'return HostileList("ab")',
    "async def returns_a_long_number(view)": "return 10**10_000",
    "async def returns_too_much(view)": 'return ["x" * 200_000, "y"]',
    "async def cancels_its_task(view)": "asyncio.current_task().cancel()",
    "async def asks_nobody_for_ever(view, llm)": FOR_EVER.format(
        'await llm("hello", model="nobody-knows-it")'
    ),
    "def asks_nobody_for_ever_in_a_thread(view, llm)": FOR_EVER.format(
        'llm("hello", model="nobody-knows-it")'
    ),
    "async def fails_for_ever(view, llm)": FOR_EVER.format(
        'await llm("hello", model="fake", temperature=object())'
    ),
}
"""By head: what the function does for the first query; of any other it asks two good questions."""
TIMED = ("hangs", "waits")


def bad_functions() -> str:
    """A file of clarifiers, each of which fails for the first query of the sample."""
    text = BAD_IMPORTS
    for head, body in BAD_BODIES.items():
        name = head.removeprefix("async ").removeprefix("def ")
        limit = ", timeout_s=0.2" if name.startswith(TIMED) else ""
        text += f'@role("clarifier"{limit})\n{head}:\n    if view.blurred_query.startswith("Brack"):\n'
        text += f'        {body}\n    return ["What?", "Where?"]\n\n'
    return text


BAD = bad_functions()


@pytest.mark.parametrize(
    ("function", "kind", "message"),
    [
        ("raises", "role", "ValueError: no idea about islands (my_lab.py:23)"),
        ("exits", "role", "SystemExit: giving up"),
        ("hangs", "timeout", "no reply within 0.2 s"),
        ("hangs_in_a_thread", "timeout", "no reply within 0.2 s"),
        ("waits_for_a_thread_that_hangs", "timeout", "no reply within 0.2 s"),
        ("stops_an_iteration", "role", "RuntimeError: raised StopIteration"),
        ("returns_one", "unusable_output", "exactly 2 strings, got 1; "),
        ("returns_one", "unusable_output", "returns_one returned ['"),
        ("returns_a_number", "unusable_output", "expected a list of questions, got int: "),
        ("asks_nobody", "role", "unknown model 'nobody-knows-it'"),
        ("is_cancelled_by_itself", "role", "CancelledError"),
        ("panics", "role", "panics: Panic: out of [31m cheese (my_lab.py:"),
        ("panics_in_a_thread", "role", "BaseExceptionGroup: several (1 sub-exception)"),
        ("recurses", "role", "RecursionError: maximum recursion depth exceeded"),
        ("returns_an_object", "unusable_output", "expected a list of questions, got Hostile"),
        ("returns_a_hostile_list", "role", "ValueError: no items"),
        ("returns_a_long_number", "unusable_output", "expected a list of questions, got int"),
        ("returns_too_much", "unusable_output", "expected at most 200,000 characters, got 200,008"),
        ("cancels_its_task", "role", "CancelledError"),
        ("asks_nobody_for_ever", "role", "unknown model 'nobody-knows-it'"),
        ("asks_nobody_for_ever_in_a_thread", "role", "unknown model 'nobody-knows-it'"),
        ("fails_for_ever", "role", "50 requests in a row failed (the last: fake: the request cannot be sent"),
    ],
)
def test_a_function_that_fails_harms_its_own_instance_only(
    tmp_path: Path, function: str, kind: str, message: str
) -> None:
    path = script(tmp_path, "my_lab.py", BAD)
    began = time.monotonic()
    lines = played(tmp_path, f"{path}:{function}", FakeProvider(PROVIDER))
    assert time.monotonic() - began < 25
    failed = [line for line in lines if "error" in line]
    assert [line["blurred_query"] for line in failed] == ["Brack Island ferry timetable"]
    assert failed[0]["error"]["kind"] == kind
    assert message in failed[0]["error"]["message"]
    assert len(lines) == 4
    if function == "hangs_in_a_thread":  # it does not keep the process from ending
        hung = [thread for thread in threading.enumerate() if thread.name == THREAD]
        assert hung
        assert all(thread.daemon for thread in hung)


PATIENT = """
import asyncio
from cts_async import role

@role("clarifier", timeout_s=0.3)
async def ask(view, llm):
    await llm("hello", model="fake")
    if view.blurred_query.startswith("Brack"):
        await asyncio.sleep(60)
    return ["What?", "Where?"]
"""


def test_time_that_a_model_takes_does_not_count_as_the_functions(tmp_path: Path) -> None:
    """The model takes 1 s of a function that may take 0.3 s; the one that then hangs is found out all the same."""
    path = script(tmp_path, "my_lab.py", PATIENT)
    lines = played(tmp_path, f"{path}:ask", FakeProvider(Settings(latency_s=1.0)))
    failed = [line for line in lines if "error" in line]
    assert [line["blurred_query"] for line in failed] == ["Brack Island ferry timetable"]
    assert "no reply within 0.3 s" in failed[0]["error"]["message"]


PRINTING = """
from cts_async import role

@role("clarifier")
async def prints(view):
    print("{}" * 20)
    return ["What?", "Where?"]
"""


def test_what_a_function_prints_goes_to_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = script(tmp_path, "my_lab.py", PRINTING)
    assert len(played(tmp_path, f"{path}:prints", FakeProvider(PROVIDER))) == 4
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "{}{}" in captured.err


MEDDLING = """
import os, subprocess, sys
from cts_async import role

os.chdir("/")

@role("clarifier")
async def ask(view):
    print("3")
    if view.blurred_query.startswith("Brack"):
        os.chdir("/")
        os.write(1, b"1")
        subprocess.run(["echo", "2"])
        sys.stdout.close()
        os.close(1)
        os.fork()
    return ["What?", "Where \\ud83d?"]
"""


@pytest.mark.alone
def test_function_that_meddles_with_the_process_changes_nothing_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It leaves the folder, writes to standard output in three ways, closes it, forks, and cuts an emoji in two."""
    monkeypatch.chdir(tmp_path)
    script(tmp_path, "my_lab.py", MEDDLING)
    lines = played(tmp_path, "my_lab.py:ask", FakeProvider(PROVIDER), runs_dir=Path("runs"))
    assert [line.get("error") for line in lines] == [None] * 4
    assert [line["questions"] for line in lines] == [["What?", "Where ??"]] * 4
    print("the results")
    captured = capfd.readouterr()
    assert captured.out == "the results\n"
    assert captured.err.count("3\n") == 4
    assert "2\n" in captured.err
    assert Path.cwd() == tmp_path


def test_function_plays_in_a_process_without_standard_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    path = script(tmp_path, "my_lab.py", FUNCTION)
    lines = played(tmp_path, f"{path}:ask", FakeProvider(PROVIDER))
    assert [line.get("error") for line in lines] == [None] * 4
    assert sys.stdout is None


LEAVING = """
import os
from cts_async import role

@role("clarifier")
def ask(view):
    os.chdir("/")
    return ["What?", "Where?"]
"""
STRICT = """
from cts_async import role

@role("judge")
def literally(view):
    return {nugget.id: "none" for nugget in view.nuggets}
"""


def test_files_are_complete_whatever_folder_a_function_goes_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script(tmp_path, "my_lab.py", LEAVING)
    script(tmp_path, "strict.py", STRICT)
    options = {"runs_dir": Path("runs"), "judges": ("strict.py:literally", "lexical")}
    lines = played(tmp_path, "my_lab.py:ask", FakeProvider(PROVIDER), **options)
    assert [line.get("error") for line in lines] == [None] * 4
    run = tmp_path / "runs/run"
    assert len((run / "judgments/lexical.jsonl").read_bytes().splitlines()) == 4
    (session,) = json.loads((run / "run.json").read_bytes())["sessions"]
    assert session["end"]


DYING = """
import json, os, pathlib, sys

deaths = pathlib.Path(__file__).with_name("deaths.txt")
for n, line in enumerate(sys.stdin):
    died = len(deaths.read_text()) if deaths.exists() else 0
    if died < MOST:
        deaths.write_text("x" * (died + 1))
        print("out of cheese", file=sys.stderr)
        sys.exit(3)
    print("a stray line")
    print(json.dumps({"id": json.loads(line)["id"], "questions": ["What?", "Where?"]}), flush=True)
"""


def test_a_command_that_dies_is_started_again(tmp_path: Path) -> None:
    path = script(tmp_path, "ask.py", DYING.replace("MOST", "2"))
    seen: list[Event] = []
    lines = played(tmp_path, command(path), FakeProvider(PROVIDER), events=Events(seen.append))
    assert [line.get("error") for line in lines] == [None] * 4
    assert (tmp_path / "deaths.txt").read_text() == "xx"
    assert [event for event in seen if isinstance(event, Notice) and "a stray line" in event.text]


def test_a_command_that_dies_three_times_in_a_row_stops_its_system(tmp_path: Path) -> None:
    path = script(tmp_path, "ask.py", DYING.replace("MOST", "1000"))
    with pytest.raises(ProviderDown, match=r"died 3 times in a row \(exit status 3: out of cheese\)"):
        played(tmp_path, command(path), FakeProvider(PROVIDER))
    assert (tmp_path / "deaths.txt").read_text() == "xxx"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("missing.py:ask", "missing.py: no such file"),
        ("my_lab.py:nothing", "my_lab.py has no function 'nothing'"),
        ("my_lab.py", "functions with @role('clarifier'); name the function"),
        ("broken.py:ask", "cannot be imported: SyntaxError"),
        ("raises.py:ask", "cannot be imported: RuntimeError: at import (raises.py:1)"),
        ("wrong.py:ask", r"has the parameters (view, k); a clarifier takes (view), and by name llm"),
        ("other.py:judge", "judge() is a judge, and cannot play the clarifier"),
        ("exec:", "no command after 'exec:'"),
        ("exec:./not-there", "./not-there is not an executable file"),
        ("exec:'x", "No closing quotation"),
        ("http://user:pw@127.0.0.1/x", "must not carry user names"),
        ("no.such.module:ask", "cannot be imported: ModuleNotFoundError"),
    ],
)
def test_a_name_that_cannot_play_is_one_line_and_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    script(tmp_path, "my_lab.py", BAD)
    script(tmp_path, "broken.py", "def ask(:\n")
    script(tmp_path, "raises.py", "raise RuntimeError('at import')\n")
    script(tmp_path, "wrong.py", "def ask(view, k):\n    return []\n")
    script(
        tmp_path, "other.py", "from cts_async import role\n@role('judge')\ndef judge(view):\n    return {}\n"
    )
    with pytest.raises(UsageError) as caught:
        played(tmp_path, name, FakeProvider(PROVIDER))
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "runs").exists()


WEB = {"search": "s", "visit": "direct"}


@pytest.mark.parametrize(
    ("options", "reader"),
    [
        ({}, None),  # refused
        ({"visit_model": "fake"}, "fake"),
        ({"visit_model": "lexical"}, ""),
        ({"agent": "baseline"}, ""),  # it is given the pages whole
    ],
)
def test_code_in_the_supporting_role_reads_no_pages(
    tmp_path: Path, options: dict[str, Any], reader: str | None
) -> None:
    config = script(
        tmp_path,
        "cts.toml",
        '[models.fake]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "f"\n'
        '[search.s]\nurl = "http://127.0.0.1:9/?q={query}"\n',
    )
    asked = {
        "models": ("baseline",),
        "support": "baseline",
        "agent": "fake",
        "judges": ("lexical",),
        "limit": 1,
    }
    run = RunConfig(**{**asked, **WEB, **options}, config_file=config, runs_dir=tmp_path / "runs")

    async def opened() -> str:
        plan = make_plan(run, load_catalogue(config), {})
        async with open_resources(plan, {}, Events()) as resources, open_search(plan, resources):
            return plan.roles.visit or ""

    if reader is None:
        with pytest.raises(
            UsageError, match=r"^baseline is code of yours, and reads no pages for fake: name a model"
        ):
            asyncio.run(opened())
    else:
        assert asyncio.run(opened()) == reader


@pytest.mark.parametrize("role", ["clarifier", "answerer", "rewriter", "agent", "judge"])
def test_only_an_agent_is_given_search_and_pages(tmp_path: Path, role: str) -> None:
    """In whatever form it comes: a function of another role that takes them is refused before the run."""
    asked: list[Mapping[str, Any]] = []
    replies = {
        "clarifier": lambda view: {"questions": ["a?", "b?"]},
        "answerer": lambda view: {"answer": "unknown"},
        "rewriter": lambda view: {"query": view["blurred_query"]},
        "agent": lambda view: {"answer": "nothing"},
        "judge": lambda view: {"results": [{"id": one["id"], "coverage": "none"} for one in view["nuggets"]]},
    }

    async def answer(request: Mapping[str, Any]) -> Mapping[str, Any]:
        asked.append(request)
        if role != "agent":
            base = request["base_url"].removesuffix("/v1")
            async with aiohttp.ClientSession() as session:
                for path, body in (("search", {"q": "x"}), ("visit", {"url": "https://a.org/"})):
                    async with session.post(f"{base}/{path}", json=body) as response:
                        assert response.status == 403
        return {"id": request["id"], **replies[role](request["view"])}

    (line,) = played_by(tmp_path, answer, role=role, limit=1)
    assert "error" not in line
    given = {frozenset(request) - {"id", "role", "view", "base_url"} for request in asked}
    assert given == {frozenset({"search_url", "visit_url"} if role == "agent" else ())}
    script(tmp_path, "takes.py", "def play(view, search, visit):\n    pass\n")
    if role == "agent":
        assert custom_role(f"{tmp_path}/takes.py:play", "agent").kind == "function"
    else:
        with pytest.raises(UsageError, match="takes \\(view\\), and by name llm"):
            custom_role(f"{tmp_path}/takes.py:play", role)


DEEP: Any = "x"
for _ in range(300):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    "reply", [{"questions": DEEP}, {"id": DEEP}, {"error": {"kind": "permanent", "message": DEEP}}]
)
def test_an_endpoint_that_nests_its_reply_deeply_fails_its_own_instance(tmp_path: Path, reply: Any) -> None:
    async def deep(request: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"id": request["id"], **reply}

    (line,) = played_by(tmp_path, deep, limit=1)
    assert line["error"]["kind"] == "unusable_output"
    assert line["error"]["message"].endswith("nested deeper than 100 levels")


def test_an_endpoint_that_is_down_stops_the_run_and_loses_nothing(tmp_path: Path) -> None:
    async def down() -> None:
        async with endpoint(clarify_over_http) as url:
            pass
        await play(tmp_path, url, FakeProvider(PROVIDER), max_outage_s=0.2)

    with pytest.raises(ProviderDown, match="has been down"):
        asyncio.run(down())


def test_an_endpoint_is_asked_again_after_an_error_and_a_reply_of_the_wrong_shape(tmp_path: Path) -> None:
    replies: list[Any] = [
        503,
        {"questions": "What?"},
        {"answer": "x"},
        {"error": {"kind": "transient", "message": "busy"}},
    ]

    async def answer(asked: dict[str, Any]) -> Any:
        good = {"id": asked["id"], "questions": ["What?", "Where?"]}
        return replies.pop() if replies else good

    (line,) = played_by(tmp_path, answer, limit=1)
    assert line["questions"] == ["What?", "Where?"]
    (record,) = [one for one in read_records(tmp_path / "runs/run/steps.jsonl") if one["step"] == "clarify"]
    kinds = [attempt["kind"] for attempt in record["failed_attempts"]]
    assert kinds == ["transient", "unusable_output", "unusable_output", "transient"]


def test_an_endpoint_that_mixes_up_its_replies_is_asked_again(tmp_path: Path) -> None:
    asked: list[str] = []

    async def confused(request: Any) -> Any:
        asked.append(request["id"])
        id = "another" if len(asked) == 1 else request["id"]
        return {"id": id, "questions": ["What?", f"Where, {len(asked)}?"]}

    (line,) = played_by(tmp_path, confused, limit=1)
    assert line["questions"] == ["What?", "Where, 2?"]
    assert b"the reply has another request's id" in (tmp_path / "runs/run/steps.jsonl").read_bytes()


def test_time_that_a_model_takes_does_not_count_as_an_endpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model takes 1 s of an endpoint that may take 0.4 s."""
    soon = lambda *args: replace(custom_role(*args), timeout_s=0.4)  # noqa: E731
    monkeypatch.setattr("cts_async.protocol.custom.sources.custom_role", soon)
    lines = played_by(tmp_path, clarify_over_http, FakeProvider(Settings(latency_s=1.0)), limit=2)
    assert [line.get("error") for line in lines] == [None, None]


def test_a_permanent_error_fails_the_instance_with_its_message(tmp_path: Path) -> None:
    async def answer(asked: dict[str, Any]) -> Any:
        return {"id": asked["id"], "error": {"kind": "permanent", "message": "policy\nforbids it"}}

    (line,) = played_by(tmp_path, answer, limit=1)
    assert line["error"]["kind"] == "rejected"
    assert "policy forbids it" in line["error"]["message"]


LEAKS = """
import os
from cts_async import role

@role("clarifier")
async def returns_it(view):
    return [f"Is it {os.environ['FAKE_KEY']}?", "Where?"]

@role("clarifier")
async def raises_it(view):
    raise ValueError(os.environ["FAKE_KEY"])
"""


@pytest.mark.parametrize("function", ["returns_it", "raises_it"])
def test_a_key_that_a_function_reveals_is_written_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    monkeypatch.setenv("FAKE_KEY", KEY)
    path = script(tmp_path, "my_lab.py", LEAKS)
    lines = played(tmp_path, f"{path}:{function}", FakeProvider(PROVIDER), limit=1)
    assert "(key)" in str(lines)
    written = [one for one in (tmp_path / "runs").rglob("*") if one.is_file()]
    assert not [one for one in written if KEY.encode() in one.read_bytes()]


SWALLOWS = """
from cts_async import role

@role("clarifier")
async def falls_back(view, llm):
    try:
        await llm("hello", model="nobody-knows-it")
    except Exception:
        pass
    return ["What?", "Where?"]

@role("clarifier")
async def goes_on(view, llm):
    while True:
        try:
            reply = await llm(f"about {view.blurred_query}", model="fake")
            return ["What?", "Where?"]
        except Exception:
            continue
"""


def test_a_function_that_catches_every_error_hides_no_unknown_model(tmp_path: Path) -> None:
    path = script(tmp_path, "my_lab.py", SWALLOWS)
    (line,) = played(tmp_path, f"{path}:falls_back", FakeProvider(PROVIDER), limit=1)
    assert "unknown model 'nobody-knows-it'" in line["error"]["message"]


def test_a_function_that_catches_every_error_does_not_outlive_the_run(tmp_path: Path) -> None:
    """The provider accepts no key, so the run stops; the function asks again for ever, and records nothing."""
    path = script(tmp_path, "my_lab.py", SWALLOWS)
    with pytest.raises(ProviderRefused):
        played(tmp_path, f"{path}:goes_on", FakeProvider(Settings(key="another")), limit=2)
    records = [record["step"] for record in read_records(tmp_path / "runs/run/steps.jsonl")]
    assert "clarify" not in records

"""Code of the user's that asks the user during its search: functions, threads, commands and endpoints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from asking_runs import INTENT, QUERY, Models, asked_run, endpoint_run, planned
from custom_roles import command, script

from cts_async.engine.journal import read_records
from cts_async.errors import UsageError

FUNCTION = """
async def find(view, search, visit, ask):
    (hit,) = await search(view.query)
    season = await ask("Which season?")
    page = await visit(hit.url)
    whom = await ask("For whom?")
    return f"{page.text} {season.reply} {season.unknown} {whom.reply} {whom.unknown}"
"""

THREAD = FUNCTION.replace("async ", "").replace("await ", "")

COMMAND = """
import json, sys, urllib.request

def post(address, **body):
    request = urllib.request.Request(address, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        return json.load(response)

for line in sys.stdin:
    request = json.loads(line)
    (hit,) = post(request["search_url"], q=request["view"]["query"])["organic"]
    season = post(request["ask_url"], question="Which season?")
    page = post(request["visit_url"], url=hit["link"])
    whom = post(request["ask_url"], question="For whom?")
    answer = f"{page['text']} {season['reply']} {season['unknown']} {whom['reply']} {whom['unknown']}"
    print(json.dumps({"id": request["id"], "answer": answer}), flush=True)
"""


def winter_only(question: str) -> str:
    """The reply of a user who knows the season, and nothing else."""
    return "winter" if "season" in question else "unknown"


def line_of(run: Path) -> dict[str, Any]:
    (line,) = (run / "results.jsonl").read_bytes().splitlines()
    parsed: dict[str, Any] = orjson.loads(line)
    return parsed


@pytest.mark.parametrize("form", ["function", "thread", "command"])
def test_code_asks_between_its_searches_and_is_given_the_replies(tmp_path: Path, form: str) -> None:
    if form == "command":
        agent = command(script(tmp_path, "find.py", COMMAND))
    else:
        agent = f"{script(tmp_path, 'find.py', FUNCTION if form == 'function' else THREAD)}:find"
    models = Models([], winter_only)
    run = asked_run(tmp_path, models, agent=agent)
    line = line_of(run)
    assert line["answer"].endswith("Bicycles travel free. winter False unknown True")
    # The search and the visit are turns, too, and the answer is the last one.
    assert line["asks"] == [
        {"question": "Which season?", "reply": "winter", "turn": 2},
        {"question": "For whom?", "reply": "unknown", "turn": 4},
    ]
    assert line["search"]["turns"] == 5
    steps = [record["step"] for record in read_records(run / "steps.jsonl")]
    assert [step for step in steps if "/ask/" in step] == ["search/ask/1", "search/ask/2"]
    # The user sees the intent and one question; the code was sent its view.
    assert [INTENT in asked[-1]["content"] for asked in models.user] == [True, True]
    (record,) = [record for record in read_records(run / "steps.jsonl") if record["step"] == "search"]
    assert record["request"]["view"] == {"query": QUERY, "max_asks": 3, "min_asks": 0, "replies": "open"}


ASKS_ON = """
async def find(view, ask):
    said = []
    for n in range(getattr(view, "max_asks", 0) + 1):
        try:
            said.append((await ask(f"What of {n}?")).reply)
        except Exception as error:
            said.append(str(error))
    return "; ".join(said)
"""


def test_question_beyond_the_most_is_refused_and_counted(tmp_path: Path) -> None:
    agent = f"{script(tmp_path, 'find.py', ASKS_ON)}:find"
    models = Models([], lambda question: "yes")
    line = line_of(asked_run(tmp_path, models, agent=agent, max_asks=2))
    assert line["answer"] == "yes; yes; no question is left: 2 may be asked"
    assert line["search"]["asks_refused"] == 1
    assert len(models.user) == 2


def test_function_that_takes_ask_is_told_so_where_it_may_not(tmp_path: Path) -> None:
    agent = f"{script(tmp_path, 'find.py', ASKS_ON)}:find"
    models = Models([])
    line = line_of(asked_run(tmp_path, models, agent=agent, ask=("never",), references=("orig",)))
    assert line["answer"] == "this agent may not ask the user: --ask during, or both, allows it"
    assert "asks" not in line
    assert models.user == []


def test_function_without_ask_is_refused_where_it_is_to_ask(tmp_path: Path) -> None:
    agent = f"{script(tmp_path, 'find.py', 'def find(view, search): return view.query')}:find"
    with pytest.raises(
        UsageError, match="find: takes no `ask`, and so cannot ask the user during its search"
    ):
        planned(tmp_path, agent=agent)
    assert planned(tmp_path, agent=agent, ask=("never",), references=("orig",)).systems


ASKS_NO_TEXT = """
async def find(view, ask):
    said = []
    for question in (None, 7, ["A?", "B?"], "  "):
        try:
            said.append((await ask(question)).reply)
        except Exception as error:
            said.append(str(error))
    return "; ".join(said)
"""


def test_question_that_is_no_text_is_refused_and_not_counted(tmp_path: Path) -> None:
    agent = f"{script(tmp_path, 'find.py', ASKS_NO_TEXT)}:find"
    models = Models([])
    line = line_of(asked_run(tmp_path, models, agent=agent))
    assert line["answer"] == (
        "the question has to be a text, not NoneType; the question has to be a text, not int; "
        "the question has to be a text, not list; the question is empty"
    )
    assert (line["asks"], line["search"]["turns"], models.user) == ([], 1, [])


async def _asks_wrongly(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Gives the statuses and texts of what it was answered as its answer."""
    address = request["base_url"].removesuffix("/v1") + "/ask"
    bodies: list[Mapping[str, Any]] = [{}, {"question": " "}, {"question": "A?"}, {"question": "B?"}]
    answers = []
    async with aiohttp.ClientSession() as session:
        for body in bodies:
            async with session.post(address, json=body) as response:
                answer = await response.json()
                message = answer.get("error", {}).get("message", answer)
                answers.append([response.status, message])
    return {"id": request["id"], "answer": orjson.dumps([sorted(request), answers]).decode()}


def test_gateway_says_what_is_wrong_with_a_question(tmp_path: Path) -> None:
    models = Models([], lambda question: "unknown")
    fields, answers = orjson.loads(
        line_of(endpoint_run(tmp_path, models, _asks_wrongly, max_asks=1))["answer"]
    )
    assert "ask_url" in fields
    assert answers == [
        [400, "question is required"],
        [400, "question is required"],
        [200, {"reply": "unknown", "unknown": True, "left": 0}],
        [400, "no question is left: 1 may be asked"],
    ]


def test_gateway_refuses_questions_of_an_agent_that_may_not_ask(tmp_path: Path) -> None:
    models = Models([])
    run = endpoint_run(tmp_path, models, _asks_wrongly, ask=("never",), references=("orig",))
    fields, answers = orjson.loads(line_of(run)["answer"])
    assert "ask_url" not in fields
    refusal = [400, "this agent may not ask the user: --ask during, or both, allows it"]
    assert answers[2:] == [refusal, refusal]


HIDES = """
async def find(view, ask):
    try:
        await ask("In winter?")
    except Exception:
        pass
    return "no"
"""


@pytest.mark.parametrize("form", ["function", "endpoint"])
def test_failed_reply_ends_the_instance_whatever_the_code_makes_of_it(tmp_path: Path, form: str) -> None:
    models = Models([], lambda question: "Possibly, but not always.")
    if form == "function":
        agent = f"{script(tmp_path, 'find.py', HIDES)}:find"
        line = line_of(asked_run(tmp_path, models, agent=agent, replies="yes-no"))
    else:
        line = line_of(endpoint_run(tmp_path, models, _asks_wrongly, replies="yes-no"))
    assert line["error"]["step"] == "search/ask/1"
    assert line["error"]["kind"] == "unusable_output"
    assert "expected exactly yes, no or i don't know" in line["error"]["message"]
    # Asked again as often as any reply of another form, and the agent is not called again for it.
    assert len(models.user) == 4


TOO_EARLY = """
async def find(view, ask):
    if not MARKER.exists():
        MARKER.touch()
        await ask("Which season?")
        return "too early"
    return " ".join([(await ask(question)).reply for question in ("Which season?", "For whom?")])
"""


def test_answer_before_the_least_questions_is_asked_for_again(tmp_path: Path) -> None:
    marker = f"import pathlib\nMARKER = pathlib.Path({str(tmp_path / 'begun')!r})\n"
    agent = f"{script(tmp_path, 'find.py', marker + TOO_EARLY)}:find"
    models = Models([], winter_only)
    line = line_of(asked_run(tmp_path, models, agent=agent, min_asks=2))
    assert line["answer"] == "winter unknown"
    assert [ask["turn"] for ask in line["asks"]] == [1, 2]
    # The first question of the second attempt is the journal's.
    assert len(models.user) == 2


def test_interrupted_call_asks_the_user_nothing_again(tmp_path: Path) -> None:
    agent = f"{script(tmp_path, 'find.py', FUNCTION)}:find"
    run = asked_run(tmp_path, Models([], winter_only), agent=agent)
    line = line_of(run)
    # As after a kill between the visit and the last question: neither that nor the call itself is in the journal.
    (run / "results.jsonl").unlink()
    steps = (run / "steps.jsonl").read_bytes().splitlines(keepends=True)
    (run / "steps.jsonl").write_bytes(b"".join(steps[:-2]))
    again = Models([], winter_only)
    assert asked_run(tmp_path, again, agent=agent) == run
    assert line_of(run) == line
    (asked,) = again.user
    assert "For whom?" in asked[-1]["content"]


ROLES = """
from cts_async import role

@role("agent")
async def find(view, ask):
    return (await ask("Which season?")).reply

@role("answerer")
def know(view):
    return "in winter"
"""


@pytest.mark.parametrize("support", [None, "know"])
def test_code_that_asks_needs_neither_clarifier_nor_rewriter(tmp_path: Path, support: str | None) -> None:
    lab = str(script(tmp_path, "lab.py", ROLES))
    options: dict[str, Any] = {"models": (lab,), "every_role": lab, "agent": None, "support": None}
    if support is not None:
        options = {"agent": f"{lab}:find", "support": f"{lab}:{support}"}
    assert line_of(asked_run(tmp_path, Models([]), **options))["answer"] == "in winter"

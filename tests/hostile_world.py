"""A run in which everything that anybody writes attacks whoever shows it: data, models, documents, names.

Each of HOSTILE is put where text goes: queries, questions, answers, thoughts, titles and texts of pages, nuggets, a
server's message, ids and folder names. What shows it as text runs nothing, loads nothing and turns nothing round.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from example_world import play, write_models
from fake_roles import field_of, role_of

from cts_async.config import RunConfig
from cts_async.errors import RejectedError
from cts_async.llm.apis import Message

SCRIPT = "<script>alert('script')</script>"
IMAGE = '<img src=x onerror="alert(1)">'
SVG = "</textarea></title><svg/onload=alert(2)>"
LINK = "[click](javascript:alert(3)) <a href='javascript:alert(4)'>here</a>"
BIDI = "\u202etxt.exe\u202c \u2066left\u2069 \u200bzero\u200b width"
CONTROL = "nul\x00 bell\x07 escape\x1b[31m red\x1b[0m backspace\x08"
TEMPLATE = "${alert(5)} {{7*7}} %3Cscript%3E &lt;b&gt; &#60;i&#62;"
LONG = "W" * 400
HOSTILE: Sequence[str] = (SCRIPT, IMAGE, SVG, LINK, BIDI, CONTROL, TEMPLATE, LONG)
ALL = " ".join(HOSTILE[:-1])

IDS: Sequence[str] = (
    IMAGE,
    "../../../../etc/passwd",
    "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "a&b=c?d#e/f",
    "'\"><script>alert(6)</script>",
)
"""Ids of the instances; the last one fails."""
NAME = "<img src=x onerror=alert(7)> & 'quoted' \u202eemosdnah"
"""The run's folder, and nearly its system."""
EVIL_PAGE = "javascript:alert(document.domain)"
TRACKER = "http://tracker.invalid/pixel.png"
"""An address that no page may ever ask for by itself."""


def play_hostile(folder: Path) -> Path:
    """Play it into `folder`/runs; give the run's directory, whose lines are in the order of IDS."""
    world = folder / "hostile-world"
    _write_world(world)
    config = RunConfig(
        models=("hostile",),
        every_role="hostile",
        ks=(2,),
        references=(),
        in_flight=1,
        data=f"sample:{world}",
        runs_dir=folder / "runs",
        name=NAME,
        config_file=write_models(folder, ("hostile",)),
        command=f"cts run {ALL}",
    )
    (directory,) = play(config, say)
    _rename_system(directory)
    return directory


def say(model: str, messages: Sequence[Message]) -> str:
    """What a model says that was taken over, in the form that its role asks for."""
    asked = messages[1]["content"]
    role = role_of(asked)
    if role == "clarify":
        return json.dumps([f"{SCRIPT} {IMAGE}?", f"{SVG} {LINK} {BIDI} {LONG}?"])
    if role == "answer":
        return f"{IMAGE} {BIDI}"
    if role == "rewrite":
        return f"{field_of(asked, 'blurred_query')} {SCRIPT} {TEMPLATE}"
    if role == "judge":
        return json.dumps({"results": [{"id": "N1", "coverage": "partial"}]})
    return _agent(messages)


def _agent(messages: Sequence[Message]) -> str:
    if IDS[-1] in messages[1]["content"]:
        raise RejectedError(f"HTTP 400: {ALL}", status=400)
    told = [message["content"] for message in messages[2:] if message["role"] == "user"]
    if not told:
        return _call(f"{ALL} {LONG}", "search", {"query": [f"ferry {IMAGE}"]})
    if len(told) == 1:
        return _call(SCRIPT, "visit", {"url": [EVIL_PAGE, "https://evil.example/page"], "goal": SVG})
    if len(told) == 2:
        return f"<think>{IMAGE}</think>\n<tool_call>\n{{not json {SCRIPT}\n</tool_call>"
    return f"<think>{TEMPLATE}</think>\n<answer>\n{ALL}\n\n{LONG}\n![pixel]({TRACKER})\n</answer>"


def _call(thought: str, tool: str, arguments: Mapping[str, Any]) -> str:
    call = json.dumps({"name": tool, "arguments": arguments}, ensure_ascii=False)
    return f"<think>{thought}</think>\n<tool_call>\n{call}\n</tool_call>"


def _write_world(world: Path) -> None:
    world.mkdir(parents=True)
    queries = [
        {"id": id, "fused_query": f"the ferry {n} {ALL} {id}", "blurred_query": f"ferry {n} {SCRIPT} {id}"}
        for n, id in enumerate(IDS)
    ]
    nugget = {"id": "N1", "text": f"{ALL} {LONG}", "weight": 2, "source_ids": [EVIL_PAGE, IMAGE]}
    gold = [
        {"id": query["id"], "fused_query": query["fused_query"], "gold": {"nuggets": [nugget]}}
        for query in queries
    ]
    pages = [
        {"id": "d1", "url": EVIL_PAGE, "title": f"ferry {IMAGE}", "text": f"ferry {ALL} {LONG}"},
        {"id": "d2", "url": "https://evil.example/page", "title": f"ferry {SCRIPT}", "text": f"ferry {SVG}"},
        {"id": "d3", "url": f"data:text/html,{SCRIPT}", "title": BIDI, "text": f"ferry {TRACKER}"},
    ]
    for name, rows in (("queries", queries), ("gold", gold), ("corpus", pages)):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (world / f"{name}.jsonl").write_text(text, encoding="utf-8")


def _rename_system(directory: Path) -> None:
    """Give the system a name that no cts.toml would allow: a run's files may come from anywhere."""
    for name in ("run.json", "results.jsonl"):
        path = directory / name
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace('"hostile-k2"', json.dumps(f"{IMAGE}{BIDI}-k2")), encoding="utf-8")

"""What the steps of a journal took, read without what they requested."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cts_async.engine.journal import journal_line
from cts_async.runs.cut_prompts import CutPrompts
from cts_async.runs.journal import Spent, spent_by

KEY = "0123456789abcdef0123456789abcdef"


def step(request: Any, **fields: Any) -> dict[str, Any]:
    """A finished call of a model in the form of a journal."""
    record = {"key": KEY, "ok": True, "instance": "q1", "step": "judge/gpt", "model": "gpt-1"}
    record |= {"request": request, "response": {"text": "yes", "served_model": "gpt-1-snapshot"}}
    return record | {"latency_s": 0.5, "usage": {"input": 30, "output": 4}, "time": 1.0} | fields


def spent(directory: Path, *lines: bytes) -> Spent:
    path = directory / "steps.jsonl"
    path.write_bytes(b"".join(lines))
    return spent_by(path, lambda _: "")[""]


@pytest.mark.parametrize(
    "request_",
    [
        {"prompt": "judge.en", "on_record": "12ab"},
        {"messages": [{"role": "user", "content": '","response":{"text":"no"},"usage":{"input":9}'}]},
        {"messages": [{"role": "user", "response": "no", "usage": {"input": 9, "output": 9}}]},
        {"params": {"tools": [{"request": 1, "response": 2}, {"a": {"b": {}}, "response": {"text": "no"}}]}},
        {"response": {"text": "no"}},
        {"messages": [], "response": {"text": "no"}, "usage": {"input": 9, "output": 9}},
        None,
        "text",
    ],
)
def test_what_a_step_took_is_the_same_whatever_it_requested(tmp_path: Path, request_: Any) -> None:
    of_steps = spent(tmp_path, journal_line(step(request_)), journal_line(step(request_, notes={"after": 1})))
    assert (of_steps.steps, of_steps.calls, of_steps.latency_s) == (2, 2, 1.0)
    assert of_steps.tokens == {"gpt-1": {"input": 60, "output": 8}}
    assert of_steps.served == {"gpt-1": {"gpt-1-snapshot": 2}}


def test_damaged_and_torn_lines_are_not_counted(tmp_path: Path) -> None:
    line = journal_line(step({"prompt": "judge.en"}))
    of_steps = spent(tmp_path, line, line.replace(b'"usage":{', b'"usage":{{'), line[:-1])
    assert (of_steps.steps, of_steps.tokens) == (1, {"gpt-1": {"input": 30, "output": 4}})


def test_fields_in_another_order_are_read(tmp_path: Path) -> None:
    record = step({"response": {"text": "no"}})
    line = json.dumps(dict(reversed(record.items()))).encode() + b"\n"
    assert spent(tmp_path, line).tokens == {"gpt-1": {"input": 30, "output": 4}}


def test_turns_of_an_agent_keep_what_shows_that_it_left_prompts_out_itself(tmp_path: Path) -> None:
    """Equal counts of growing prompts are a server's cut, unless the agent has left responses out."""

    def turns(request: dict[str, Any]) -> list[bytes]:
        lines = []
        for number, tokens in enumerate((1_000, 4_000, 4_000, 4_000, 4_000), 1):
            usage = {"input": tokens, "output": 4}
            response = {"text": "x" * 8_000}
            record = step(request, step=f"search/turn/{number}", usage=usage, response=response)
            lines.append(journal_line(record))
        return lines

    # After turn 1, counted in full as 1,000, four times 8,000 bytes follow: 1,000 + 0.25 * 32,000 = 9,000.
    cuts = spent(tmp_path, *turns({"after": "k"})).cuts.by_model()
    assert cuts == {"gpt-1": CutPrompts(4_000, 9_000, 3)}
    assert spent(tmp_path, *turns({"after": "k", "dropped": [2]})).cuts.by_model() == {}


def test_latency_per_instance_includes_calls_of_reused_steps(tmp_path: Path) -> None:
    """q1 took 0.5 s elsewhere and 0.5 s here, q2 3 s and q3 2 s elsewhere: the median of 1, 3 and 2 is 2."""
    of_steps = spent(
        tmp_path,
        journal_line(step(None, reused="v1")),
        journal_line(step(None)),
        journal_line(step(None, instance="q2", latency_s=3.0, reused="v1")),
        journal_line(step(None, instance="q3", latency_s=2.0, reused="v1")),
    )
    assert of_steps.latency_per_instance_s() == 2.0
    assert of_steps.latency_s == 0.5

"""Bytes and tokens of a judgement: a real `cts judge` of short answers and of typical ones, by a canned model."""

from __future__ import annotations

import asyncio
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.shared.endpoint import NUGGET_IDS, judge_reply
from benchmarks.shared.judging import prose
from cts_async.config import JudgeConfig
from cts_async.engine.events import Events, Usage
from cts_async.llm.catalog import load_catalogue
from cts_async.llm.client import Client
from cts_async.llm.messages import Reply
from cts_async.protocol.forecast import foresee
from cts_async.protocol.judge_plan import JudgePlan, plan_judging
from cts_async.protocol.rejudge import run_judging

QUERIES, QUERY_CHARS, NUGGET_CHARS = 100, 160, 70
MODEL = "judge-1"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of candidates: their answers' length."""

    name: str
    answer_chars: int


SHORT, TYPICAL = Kind("short", 80), Kind("typical", 1500)
KINDS = (SHORT, TYPICAL)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of one judgement in each file, and tokens of its call."""

    candidate: float
    result: float
    step: float
    input_tokens: float
    output_tokens: float


def write_world(folder: Path, kind: Kind, n: int) -> None:
    """gold.jsonl, `n` candidates in candidates.jsonl, and a model in cts.toml; the same every time."""
    with (folder / "gold.jsonl").open("w") as out:
        for i in range(QUERIES):
            nuggets = [
                {"id": id, "text": prose(f"n/{i}/{id}", NUGGET_CHARS), "weight": 1 + j % 3}
                for j, id in enumerate(NUGGET_IDS)
            ]
            row = {"id": f"g{i}", "fused_query": _query(i), "gold": {"nuggets": nuggets}}
            out.write(json.dumps(row) + "\n")
    with (folder / "candidates.jsonl").open("w") as out:
        for i in range(n):
            answer = prose(f"a/{i}", kind.answer_chars)
            row = {"id": f"c{i:09d}", "fused_query": _query(i % QUERIES), "answer": answer}
            out.write(json.dumps(row) + "\n")
    (folder / "cts.toml").write_text(
        f'[models.m]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "{MODEL}"\n', encoding="utf-8"
    )


def planned(folder: Path) -> JudgePlan:
    """Judging them, checked."""
    asked = JudgeConfig(
        judges=("m",),
        gold=folder / "gold.jsonl",
        candidates=str(folder / "candidates.jsonl"),
        out=folder / "judged",
    )
    return plan_judging(asked, load_catalogue(folder / "cts.toml"), {})


def sizes(kind: Kind, n: int = 300) -> Sizes:
    """Judge `n` candidates of a kind, and look at the files."""
    with tempfile.TemporaryDirectory() as name, patch.object(Client, "chat", chat):
        folder = Path(name)
        write_world(folder, kind, n)
        plan = planned(folder)
        each = foresee(plan).judges[0].work.each
        asyncio.run(run_judging(plan, {}, Events()))
        out = folder / "judged"
        return Sizes(
            candidate=_each(folder / "candidates.jsonl", n),
            result=_each(out / "per_item.jsonl", n),
            step=_each(out / "steps.jsonl", n),
            input_tokens=each.input_tokens,
            output_tokens=each.output_tokens,
        )


async def chat(self: Client, spec: Any, request: Any) -> Reply:
    return _REPLY


_REPLY = Reply(json.loads(judge_reply())["choices"][0]["message"]["content"], MODEL, "stop", Usage(1000, 100))


def _each(file: Path, n: int) -> float:
    lines = file.read_bytes().count(b"\n")
    if lines != n:
        raise RuntimeError(f"{file.name} has {lines} lines for {n} candidates")
    return file.stat().st_size / n


def _query(i: int) -> str:
    return f"{prose(f'q/{i}', QUERY_CHARS)} {i}"

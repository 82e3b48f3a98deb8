"""Whatever stands in a run's files, everything is answered or refused, and what is answered is JSON."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from cts_async.report.viewer.guard import Refused
from cts_async.report.viewer.library import Library
from cts_async.report.viewer.pages import Answers

IDS = ("a", "b", "汉")
CALLS = (
    '<think>a</think><tool_call>{"name":"search","arguments":{"query":["x"]}}</tool_call>'
    '<tool_call>{"name":"visit","arguments":{"url":["http://a/"],"goal":"g"}}</tool_call>'
)
DEEP: Any = json.loads('{"a":' * 300 + "1" + "}" * 300)
PARTS = ("text", "hits", "reading", "evidence", "lexical/20/x", "thought/1", "answer", "demand", "reasoning")
STEPS = (
    *("search/turn/{}", "search/tool/{}.1/query/1", "search/tool/{}.2/page/1", "visit/{}.2/1"),
    *("search/told/{}", "search/tool/{}.1", "clarify"),
)


class Mess:
    """Files that look like a run's, but for what stands in about half of their fields."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def value(self, depth: int = 0) -> Any:
        plain = [None, True, 1, -5, 1e300, 2**60, "x", "unknown", "汉字<b>\0", DEEP]
        if depth < 3 and self.rng.random() < 0.4:
            names = (
                "id",
                "text",
                "error",
                "nuggets",
                "step",
                "kind",
                "url",
                "coverage",
                "weight",
                "identity",
            )
            inner = [self.value(depth + 1) for _ in range(3)]
            return (
                inner if self.rng.random() < 0.5 else dict(zip(self.rng.sample(names, 3), inner, strict=True))
            )
        return self.rng.choice(plain)

    def object(self, usual: dict[str, Any]) -> dict[str, Any]:
        return {
            name: self.value() if self.rng.random() < 0.4 else value
            for name, value in usual.items()
            if self.rng.random() < 0.9
        }

    def manifest(self) -> Any:
        data = self.object({"name": "d", "sha256": "a" * 64, "gold_sha256": "b" * 64})
        identity = {"system": "s", "k": 1, "data": data, "judges": ["e"], "task": "talk", "candidates": "c"}
        sessions = [self.object({"start": "s", "end": "e", "wall_s": 1.0})]
        where = self.object({"path": "p", "gold": "g\0", "fields": {"id": "x"}})
        usual = {
            "n_expected": 3,
            "sessions": sessions,
            "embedded": True,
            "data": where,
            "journal": "../steps.jsonl",
        }
        return self.object({**usual, "identity": self.object(identity), "command": "cts judge --gold x"})

    def line(self) -> Any:
        turns = [self.object({"offered": ["x"], "answers": ["y"], "query": "z", "chosen": 0})]
        usual = {
            "fused_query": "q",
            "blurred_query": "b",
            "questions": ["a"],
            "answers": ["unknown"],
            "turns": turns,
        }
        judged = {"judge": "e", "nuggets": [self.object({"id": "N1", "weight": 1, "coverage": "full"})]}
        said = {"rewritten_query": "汉字 b c", "answer": "ans", "search": {"model_calls": 1}, "error": None}
        id = self.rng.choice(IDS)
        return self.object(
            {"id": id, **usual, **judged, **said, "restore_score_100": 50, "answer_digest": "ab" * 8}
        )

    def step(self) -> Any:
        usual = {"key": "0" * 32, "ok": True, "instance": self.rng.choice(IDS)}
        request = self.object({"query": "x", "url": "http://a/", "demand": "d", "dropped": ["search/turn/1"]})
        texts = {"text": CALLS, "hits": [["u", "t", "s"]], "title": "t", "url": "u", "reasoning": "r"}
        response = self.object({**texts, "evidence": "e", "summary": "s", "1/query/1": {"error": "e"}})
        numbers = {
            "usage": {"input": 1, "output": self.value()},
            "latency_s": 1.0,
            "attempts": 1,
            "time": 1.0,
        }
        step = self.rng.choice(STEPS).format(self.rng.randrange(1, 4))
        return self.object(
            {**usual, "step": step, "request": request, "response": response, **numbers, "error": None}
        )

    def write(self, run: Path) -> None:
        (run / "judgments").mkdir(parents=True)
        (run / "run.json").write_text(json.dumps(self.manifest()))
        results = self.rng.choice(("results.jsonl", "per_item.jsonl"))
        _written(run / results, [*(self.line() for _ in range(6)), self.value()])
        _written(run / "judgments" / "j.jsonl", [self.line() for _ in range(4)])
        _written(run / "steps.jsonl", [self.step() for _ in range(25)])
        scores = {"e": self.object({"n_scored": 1, "mean": 1.0, "p50": 1.0, "p90": 1.0})}
        summary = {"judges": scores, "judge": "e", "n_scored": 1, "n_unjudged": 0, "n_failed": 0}
        (run / "summary.json").write_text(
            json.dumps(self.object({**summary, "cost_usd": 1.0, "x": self.value()}))
        )


def _written(path: Path, lines: Sequence[Any]) -> None:
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1 << 32))
def test_a_run_of_nonsense_is_answered_or_refused(seed: int) -> None:
    with TemporaryDirectory() as folder:
        Mess(seed).write(Path(folder) / "r")
        answers = Answers(Library(Path(folder)))
        orjson.dumps(answers.runs({}))
        for name, answer in answers.by_name().items():
            for more in ({}, {"text": "汉"}, {"sort": "-score", "min": "1"}, {"unknown": "some", "at": "0"}):
                for id in IDS:
                    with suppress(Refused):
                        said = answer({"run": "r", "id": id, **more})
                        assert isinstance(said, bytes) or orjson.dumps(said), name
        for part in PARTS:
            with suppress(Refused):
                assert isinstance(answers.text({"run": "r", "at": "0", "part": part}), str)
        with suppress(Refused):
            assert all(line.endswith(b"\n") for line in answers.download({"run": "r", "id": "a"})[1])

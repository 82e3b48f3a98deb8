"""A run of very many instances, written as the engine writes one but without running it: seconds, not hours.

Two rules: each line has the fields of a real run's line, in their order, with texts of about the length that real
models write; and instances lie in the journal as they do in a run, `IN_FLIGHT` of them mixed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, Final

import orjson

from cts_async.datasets.io import sha256_of
from cts_async.scorer import restore_score_100

K, JUDGE, MODEL, SYSTEM = 2, "ernie", "model-1", "gpt-k2"
STEPS: Final = 10
"""Of each instance: clarify, 2 answers, rewrite, 3 turns with 2 searches between them, judge."""
IN_FLIGHT: Final = 16
LONG_TURNS, LONG_THOUGHT, LONG_PAGE = 80, 50_000, 200_000
"""The instance with the long trace: turns, and characters of each one's thought and of the page it reads; 20 MB."""

LABELS = ("full", "partial", "none")
WEIGHTS = (3.0, 2.0, 1.0)
TOWNS = ("Saltmere", "Millwharf", "Brack Island", "Kettle Bridge", "云汐", "Osk")
THOUGHT = (
    "The question asks for a fact that one page alone will hardly settle, so I compare what I found. " * 2
)
SNIPPET = "Between November and March the timetable is short: one ferry at 09:40 and one at 14:20, in fair weather. "
ANSWER = "The ferry leaves the old harbour at nine and again at noon, daily except on Mondays in winter. " * 3


@dataclass(frozen=True, slots=True)
class BigRun:
    """`runs` is the folder of runs, `name` the run in it, `long_id` the instance with the long trace."""

    runs: Path
    name: str
    n: int
    steps: int
    long_id: str


def write_big_run(folder: Path, n: int, *, long_turns: int = LONG_TURNS) -> BigRun:
    """Write `folder`/world (queries and gold) and one finished run over it in `folder`/runs."""
    run = BigRun(folder / "runs", f"world-{SYSTEM}", n, (n - 1) * STEPS + 6 + 2 * long_turns, id_of(n // 2))
    directory = run.runs / run.name
    directory.mkdir(parents=True)
    _write_world(folder / "world", n)
    (directory / "run.json").write_bytes(orjson.dumps(_manifest(folder / "world", n)))
    with (directory / "results.jsonl").open("wb") as results:
        for i in range(n):
            _put(results, _result(i))
    with (directory / "steps.jsonl").open("wb") as steps:
        for first in range(0, n, IN_FLIGHT):
            batch = [i for i in range(first, min(n, first + IN_FLIGHT)) if i != n // 2]
            for make in _WALK:
                for i in batch:
                    _put(steps, make(i))
            if n // 2 in range(first, first + IN_FLIGHT):
                for line in _long_walk(n // 2, long_turns):
                    _put(steps, line)
    return run


def id_of(i: int) -> str:
    return f"q{i:06d}"


def steps_of(first: int, n: int) -> Iterator[dict[str, Any]]:
    """The journal's records of `n` instances, from the number `first` on, `IN_FLIGHT` of them mixed."""
    for begin in range(first, first + n, IN_FLIGHT):
        for make in _WALK:
            for i in range(begin, min(first + n, begin + IN_FLIGHT)):
                yield make(i)


def key_of(i: int, step: str) -> str:
    """The key of a step of instance `i`."""
    return blake2b(f"{i}/{step}".encode(), digest_size=16).hexdigest()


def blurred(i: int) -> str:
    return f"{TOWNS[i % len(TOWNS)]} ferry number {i}"


def fused(i: int) -> str:
    return f"winter weekday times and fares of the {blurred(i)} for a family of {i % 7 + 2}"


def score_of(i: int) -> float:
    """What the judge gives instance `i`."""
    return restore_score_100(list(zip(WEIGHTS, _labels(i), strict=True)))


def _labels(i: int) -> tuple[str, str, str]:
    return LABELS[i % 3], LABELS[i // 3 % 3], LABELS[i // 9 % 3]


def _put(file: BinaryIO, line: dict[str, Any]) -> None:
    file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))


# --- The data and the results ---


def _write_world(directory: Path, n: int) -> None:
    directory.mkdir()
    with (directory / "queries.jsonl").open("wb") as queries, (directory / "gold.jsonl").open("wb") as gold:
        for i in range(n):
            _put(queries, {"id": id_of(i), "fused_query": fused(i), "blurred_query": blurred(i)})
            nuggets = [
                {
                    "id": f"N{j}",
                    "text": f"Fact {j} about the {blurred(i)}.",
                    "weight": w,
                    "source_ids": ["S1"],
                }
                for j, w in enumerate(WEIGHTS, 1)
            ]
            _put(gold, {"id": id_of(i), "fused_query": fused(i), "gold": {"nuggets": nuggets}})


def _manifest(world: Path, n: int) -> dict[str, Any]:
    data = {
        "name": "world",
        "sha256": sha256_of(world / "queries.jsonl"),
        "gold_sha256": sha256_of(world / "gold.jsonl"),
    }
    session = {"start": "2026-11-21T06:00:00+00:00", "end": "2026-11-21T12:00:00+00:00", "wall_s": 21600.0}
    model = {"model": MODEL, "api": "openai", "params": {}}
    roles = ("clarifier", "support", "agent", f"judge {JUDGE}")
    return {
        "identity": {
            "system": SYSTEM,
            "k": K,
            "data": data,
            "models": dict.fromkeys(roles, model),
            "judges": [JUDGE],
            "seed": 0,
        },
        "command": f"cts run -m gpt -k {K} --data sample:{world}",
        "data": {"spec": f"sample:{world}", "path": f"{world}/queries.jsonl", "gold": None, "fields": {}},
        "players": {"clarifier": "gpt", "support": "ernie", "agent": "webdancer", f"judge {JUDGE}": JUDGE},
        "embedded": False,
        "n_expected": n,
        "version": "0.4.0",
        "sessions": [session],
    }


def _result(i: int) -> dict[str, Any]:
    """The line of results.jsonl; one in 500 failed."""
    head = {"id": id_of(i), "system": SYSTEM, "fused_query": fused(i), "blurred_query": blurred(i)}
    if i % 500 == 499:
        return {
            **head,
            "error": {"step": "search/turn/3", "kind": "timeout", "message": "no answer in 300 s"},
        }
    nuggets = [
        {"id": f"N{j}", "weight": weight, "coverage": label}
        for j, (weight, label) in enumerate(zip(WEIGHTS, _labels(i), strict=True), 1)
    ]
    return {
        **head,
        "k": K,
        "questions": _questions(i),
        "answers": _answers(i),
        "rewritten_query": f"{blurred(i)} {_answers(i)[0]}",
        "answer": ANSWER,
        "answer_from": "tag",
        "search": {"model_calls": 3, "searches": 2, "visits": 0, "forced": False},
        "judge": JUDGE,
        "nuggets": nuggets,
        "restore_score_100": score_of(i),
    }


def _questions(i: int) -> list[str]:
    return [f"Which season of the {blurred(i)} do you mean?", "Do you travel alone or with a family?"]


def _answers(i: int) -> list[str]:
    return ["winter", "unknown" if i % 4 == 0 else f"a family of {i % 7 + 2}"]


# --- The journal ---


def _step(i: int, name: str, request: Any, response: Any, *, tool: bool = False) -> dict[str, Any]:
    record: dict[str, Any] = {
        "key": key_of(i, name),
        "ok": True,
        "instance": id_of(i),
        "step": name,
    }
    if not tool:
        record["model"] = MODEL
    record.update(request=request, response=response, latency_s=0.8123)
    if not tool:
        record["usage"] = {"input": 284, "output": 96}
    record["time"] = 1795235534.123
    return record


def _clarify(i: int) -> dict[str, Any]:
    asked = {"prompt": "clarify.en", "fields": {"blurred_query": blurred(i), "k": str(K)}}
    return _step(i, "clarify", asked, {"text": json.dumps(_questions(i), ensure_ascii=False)})


def _answer(i: int, n: int) -> dict[str, Any]:
    asked = {"clarification_question": _questions(i)[n - 1]}
    request = {"prompt": "answer.en", "fields": asked, "on_record": "3b54999bc857271c"}
    return _step(i, f"answer/{n}", request, {"text": _answers(i)[n - 1]})


def _rewrite(i: int) -> dict[str, Any]:
    pairs = "\n".join(
        f"Question {n}: {question}\nAnswer {n}: {answer}"
        for n, (question, answer) in enumerate(zip(_questions(i), _answers(i), strict=True), 1)
    )
    request = {"prompt": "rewrite.en", "fields": {"blurred_query": blurred(i), "qa_pairs": pairs}}
    return _step(i, "rewrite", request, {"text": f"{blurred(i)} {_answers(i)[0]}"})


def _turn(i: int, n: int, text: str) -> dict[str, Any]:
    opening = {
        "prompt": "agent.en",
        "fields": {"question": f"{blurred(i)} {_answers(i)[0]}", "current_date": "2026-11-21"},
    }
    request = opening if n == 1 else {"after": f"search/turn/{n - 1}"}
    return _step(i, f"search/turn/{n}", request, {"text": text})


def _asks(tool: str, arguments: dict[str, Any], thought: str = THOUGHT) -> str:
    call = json.dumps({"name": tool, "arguments": arguments}, ensure_ascii=False)
    return f"<think>{thought}</think>\n<tool_call>\n{call}\n</tool_call>"


def _search(i: int, n: int) -> dict[str, Any]:
    hits = [
        [f"https://harbour.example/ferries/{i}/{row}", f"The {blurred(i)}, page {row}", SNIPPET]
        for row in (1, 2, 3)
    ]
    name = f"search/tool/{n}.1/query/1"
    return _step(i, name, {"query": blurred(i)}, {"hits": hits}, tool=True)


def _judged(i: int) -> dict[str, Any]:
    results = [{"id": f"N{j}", "coverage": label} for j, label in enumerate(_labels(i), 1)]
    request = {"prompt": "judge.en", "on_record": "8f1b999bc857271c"}
    return _step(i, f"judge/{JUDGE}", request, {"text": json.dumps({"results": results})})


def _final() -> str:
    return f"<think>{THOUGHT}</think>\n<answer>{ANSWER}</answer>"


_WALK: Final[tuple[Callable[[int], dict[str, Any]], ...]] = (
    _clarify,
    lambda i: _answer(i, 1),
    lambda i: _answer(i, 2),
    _rewrite,
    lambda i: _turn(i, 1, _asks("search", {"query": [blurred(i)]})),
    lambda i: _search(i, 1),
    lambda i: _turn(i, 2, _asks("search", {"query": [blurred(i)]})),
    lambda i: _search(i, 2),
    lambda i: _turn(i, 3, _final()),
    _judged,
)


def _long_walk(i: int, turns: int) -> Iterator[dict[str, Any]]:
    """The instance that thinks aloud and reads whole books."""
    yield from (make(i) for make in _WALK[:4])
    thought = (THOUGHT * (LONG_THOUGHT // len(THOUGHT) + 1))[:LONG_THOUGHT]
    page = ((SNIPPET + "\n") * (LONG_PAGE // len(SNIPPET) + 1))[:LONG_PAGE]
    for n in range(1, turns + 1):
        url = f"https://harbour.example/books/{n}"
        yield _turn(i, n, _asks("visit", {"url": [url], "goal": "winter times"}, thought))
        response = {"url": url, "title": f"Book {n}", "text": f"{page}\nThe end of book {n}."}
        yield _step(i, f"search/tool/{n}.1/page/1", {"url": url}, response, tool=True)
    yield _turn(i, turns + 1, _final())
    yield _judged(i)

"""Runs of systems that ask before, during and never, small enough to work every number out on paper.

| | a | b | c | d | e | f | g | h | when it asks |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
| orig | 0 | 20 | 100 | 40 | 40 | failed | 10 | 30 | never |
| gpt-k1 | 40 | 60 | 100 | 20 | 35 | 50 | 30 | 45 | before, one question each |
| orig+ask3 | 60 | 50 | 100 | 40 | 40 | 70 | failed | unscored | during, see DURING |
| orig+ask5-yesno | 20 | 20 | 100 | | | | | | during: once on a, with replies of one word |
| gpt-k1+ask3 | 70 | 60 | | | | | | | both; during only on a |
| gpt-k1+inject0 | 50 | 55 | | | | | | | before; given before the first turn |
| gpt-k1+inject50 | 30 | 20 | | | | | | | before; given at half of the turns, on b never |
| gold | 100 | 80 | 100 | 40 | 90 | 70 | 50 | 60 | told everything |
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from made_runs import Row, changed_manifest, made_run

QUERIES = {"d": "waterproof hiking boots"}
QUESTION = "What exactly?"
ANSWERS = ("Oslo", "2024", "unknown", "hiking boots", "by bus", "red", "unknown", "by train")
ORIG: Mapping[str, float] = {"a": 0, "b": 20, "c": 100, "d": 40, "e": 40, "g": 10, "h": 30}
BEFORE: Mapping[str, float] = {"a": 40, "b": 60, "c": 100, "d": 20, "e": 35, "f": 50, "g": 30, "h": 45}
GOLD: Mapping[str, float] = {"a": 100, "b": 80, "c": 100, "d": 40, "e": 90, "f": 70, "g": 50, "h": 60}

Ask = tuple[str, str, int]
"""Question, reply, turn."""
DURING: Mapping[str, tuple[float | None, Sequence[Ask], int]] = {
    "a": (60, [("Which city?", "Oslo", 1)], 4),
    "b": (50, [("Which year?", "2024", 2), ("which  YEAR", "2024", 3)], 4),  # the same question again
    "c": (100, [("For whom?", "unknown", 3)], 4),
    "d": (40, [("Which boots?", "Hiking boots", 4)], 4),  # the query says so
    "e": (40, [], 4),
    "f": (70, [("Which one?", "the red one", 1)], 2),
    "h": (None, [("How?", "by train", 1)], 4),
}
"""Score, questions and number of turns of orig+ask3 by instance; g failed."""


def asking_runs(folder: Path) -> Path:
    """Write all of them into a folder; give that folder."""
    made_run(folder, label="orig", rows=[_row(id, score) for id, score in ORIG.items()] + [_failed("f")])
    made_run(folder, label="gold", rows=[_row(id, score) for id, score in GOLD.items()])
    made_run(folder, label="gpt-k1", rows=[_asked(id, score) for id, score in BEFORE.items()])
    rows = [_row(id, score) for id, (score, _, _) in DURING.items()] + [_failed("g")]
    run = made_run(folder, label="orig+ask3", rows=rows, k=0, clarifier="")
    asks_by_id = {id: asking_fields(asks, n_turns) for id, (_, asks, n_turns) in DURING.items()}
    add_asking(run, asks_by_id, max_asks=3)
    rows = [_row("a", 20), _row("b", 20), _row("c", 100)]
    run = made_run(folder, label="orig+ask5-yesno", rows=rows, k=0, clarifier="")
    once = asking_fields([("Is it Oslo?", "yes", 2)], 8, asks_refused=2, early_answers=1)
    nothing = asking_fields([], 3)
    add_asking(run, {"a": once, "b": nothing, "c": nothing}, max_asks=5, replies="yes-no")
    run = made_run(folder, label="gpt-k1+ask3", rows=[_asked("a", 70), _asked("b", 60)], k=1, clarifier="gpt")
    once = asking_fields([("Which city?", "Oslo", 1)], 2)
    add_asking(run, {"a": once, "b": asking_fields([], 2)}, max_asks=3)
    run = made_run(
        folder, label="gpt-k1+inject0", rows=[_asked("a", 50), _asked("b", 55)], k=1, clarifier="gpt"
    )
    at_once = {"search": {"turns": 4}, "injected_turn": 1}
    add_asking(run, {"a": at_once, "b": at_once}, inject_at=0)
    run = made_run(
        folder, label="gpt-k1+inject50", rows=[_asked("a", 30), _asked("b", 20)], k=1, clarifier="gpt"
    )
    delivered = {"search": {"turns": 4}, "injected_turn": 3}
    too_late = {"search": {"turns": 2}, "injected_turn": None}
    add_asking(run, {"a": delivered, "b": too_late}, inject_at=0.5)
    return folder


def _row(id: str, score: float | None) -> Row:
    return Row(id, score=score, blurred_query=QUERIES.get(id, ""))


def _asked(id: str, score: float) -> Row:
    answer = ANSWERS["abcdefgh".index(id)]
    return Row(id, [QUESTION], [answer], score=score, blurred_query=QUERIES.get(id, ""))


def _failed(id: str) -> Row:
    return Row(id, error="search")


def asking_fields(asks: Sequence[Ask], n_turns: int, **counts: int) -> dict[str, Any]:
    """What a line of results has of a search in which the agent may ask."""
    questions = [{"question": question, "reply": reply, "turn": turn} for question, reply, turn in asks]
    return {"asks": questions, "search": {"turns": n_turns} | counts}


def add_asking(
    run: Path,
    fields_by_id: Mapping[str, Mapping[str, Any]],
    *,
    max_asks: int = 0,
    replies: str = "open",
    inject_at: float | None = None,
) -> None:
    """Add to a made run what it says of asking: the rules in run.json, and fields to its lines."""
    with changed_manifest(run) as manifest:
        if max_asks:
            manifest["identity"]["asks"] = {"max": max_asks, "min": 0, "replies": replies}
            manifest["identity"]["agent_tools"] = {"search": "1", "visit": "1", "ask": "1"}
        if inject_at is not None:
            manifest["identity"]["inject_at"] = inject_at
    path = run / "results.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for line in lines:
        line.update(fields_by_id.get(line["id"], {}))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")

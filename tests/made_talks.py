"""Run directories of conversations written by hand, small enough to work every number out on paper."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cts_async.runs.conversations import ConversationRun, read_conversation_run
from cts_async.search.backends import Ranked


def made_talk(
    folder: Path,
    *,
    scheme: str,
    mode: str = "respond",
    rows: Mapping[str, Sequence[Mapping[str, Any]]],
    queries: Mapping[str, str] | None = None,
    failed: Sequence[str] = (),
    clarifier: str = "gpt",
    data: str = "made",
    k: int = 3,
) -> Path:
    """Write run.json and results.jsonl into a directory of `folder`; give its path.

    `rows` are turns by instance id, as results.jsonl has them; `queries` the blurred ones by id.
    """
    label = f"{clarifier}-{scheme}-{mode}-k{k}"
    directory = folder / f"{data}-talk-{label}"
    directory.mkdir(parents=True)
    manifest = {
        "identity": {
            "system": label,
            "task": "talk",
            "k": k,
            "scheme": scheme,
            "mode": mode,
            "data": {"name": data},
        },
        "players": {"clarifier": clarifier, "support": "ernie"},
        "n_expected": len(rows) + len(failed),
        "sessions": [],
    }
    (directory / "run.json").write_text(json.dumps(manifest))
    named = {id: (queries or {}).get(id, f"the query of {id}") for id in (*rows, *failed)}
    lines: list[dict[str, Any]] = [
        {
            "id": id,
            "system": label,
            "fused_query": f"the intent of {id}",
            "blurred_query": named[id],
            "k": k,
            "scheme": scheme,
            "mode": mode,
            "questions": [],
            "answers": [],
            "turns": list(turns),
        }
        for id, turns in rows.items()
    ]
    error = {"step": "clarify/1", "kind": "unusable", "message": "no JSON"}
    lines += [{"id": id, "system": label, "blurred_query": named[id], "error": error} for id in failed]
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    (directory / "results.jsonl").write_text(text, encoding="utf-8")
    return directory


# --- Three systems, three intents, two turns each, and what their queries find: MRR@10 by hand

INTENTS = {str(n): "q" for n in range(3)}
QRELS = {id: {"cat": 1} for id in INTENTS}
RANKED = {
    "q": [Ranked("os", 2.0), Ranked("cat", 1.0)],
    "good": [Ranked("cat", 1.0)],
    "bad": [Ranked("os", 1.0)],
}


def talk(folder: Path, scheme: str, mode: str, *queries: str) -> ConversationRun:
    """A system whose query after each turn is the same for every intent."""
    turns = [{"offered": ["Which?"], "query": query} for query in queries]
    return read_conversation_run(
        made_talk(folder, scheme=scheme, mode=mode, rows=dict.fromkeys(INTENTS, turns), k=2)
    )


def three_talks(folder: Path) -> list[ConversationRun]:
    return [
        talk(folder, "standard", "respond", "q", "bad"),
        talk(folder, "at-cot", "respond", "good", "good"),
        talk(folder, "at-cot", "select", "good", "bad"),
    ]

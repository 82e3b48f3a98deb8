"""A folder of runs of every kind that the viewer shows, with scores and texts that a test can know by heart."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from example_world import play_examples
from hostile_world import play_hostile
from made_runs import Row, made_run
from made_talks import made_talk

from cts_async.config import JudgeConfig
from cts_async.datasets.kinds.sample import sample_dir
from cts_async.engine.events import Events
from cts_async.engine.journal import read_records
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol.rejudge import plan_judging, run_judging

LIST = "made-gpt-k2"
"""The run to page through: see `listed_rows`."""
N_LISTED = 120
SMOKE = "smoke-local-k1"
TALK = "made-talk-gpt-at-cot-respond-k3"
JUDGED = "judged"
DAMAGED = "no-run"
GOOD_K3, POOR_K3, ORIG = (f"sample-{label}+all-made-up" for label in ("made-up-a-k3", "made-up-b-k3", "orig"))


def make_views(folder: Path) -> Path:
    """Make them all; give the folder of runs."""
    runs = folder / "runs"
    play_examples(folder)
    play_hostile(folder)
    made_run(runs, label="gpt-k2", rows=listed_rows())
    made_run(runs, label="orig", rows=[Row(f"q{i:03d}", score=10.0) for i in range(N_LISTED)])
    made_run(runs, label="local-k1", rows=[Row("q000", score=31.0)], data="smoke", embedded=True)
    made_talk(runs, scheme="at-cot", rows={"t1": _turns()}, queries={"t1": "jaguar speed"})
    judge_candidates(folder / "candidates.jsonl", runs / JUDGED)
    (runs / DAMAGED).mkdir()
    (runs / DAMAGED / "run.json").write_text("{")
    return runs


def judge_candidates(candidates: Path, out: Path) -> None:
    """`cts judge --lexical` on two answers that anybody may have written to instances of the sample world.

    The first one is the text of its nuggets N1 and N2, which weigh 3 + 2 of 13, and has N3, which weighs 2, in
    part: (3 + 2 + 1) / 13 = 46.15 of 100. The second one says nothing.
    """
    gold = sample_dir() / "gold.jsonl"
    first, second = list(read_records(gold))[:2]
    texts = [nugget["text"] for nugget in first["gold"]["nuggets"][:2]]
    rows = [{"id": first["id"], "answer": " ".join(texts)}, {"id": second["id"], "answer": "I do not know."}]
    candidates.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    asked = JudgeConfig(judges=("lexical",), gold=gold, candidates=str(candidates), out=out)
    asyncio.run(run_judging(plan_judging(asked, load_catalogue(None), {}), {}, Events()))


def listed_rows() -> list[Row]:
    """Instance i of N_LISTED has the score i modulo 101; every tenth from 9 on failed, so 12 of them have none.

    The second answer is unknown where i is even, both where 4 divides i. The query of instance 77 alone speaks of
    a "zeppelin", that of 78 of a 飞艇.
    """
    rows = []
    for i in range(N_LISTED):
        rare = {77: " zeppelin", 78: " 飞艇"}.get(i, "")
        rows.append(
            Row(
                f"q{i:03d}",
                questions=("Which year?", "Which city?"),
                answers=("unknown" if i % 4 == 0 else "2024", "unknown" if i % 2 == 0 else "Berlin"),
                score=float(i % 101),
                blurred_query=f"rules for topic {i}{rare}",
                fused_query=f"rules for topic {i}{rare} in Berlin in 2024",
                rewritten_query=f"rules for topic {i} in Berlin",
                error="search/turn/2" if i % 10 == 9 else "",
            )
        )
    return rows


def _turns() -> list[dict[str, object]]:
    return [
        {
            "offered": ["Do you mean the animal or the car?"],
            "types": ["Semantic"],
            "reasoning": "The word has two senses, and nothing says which one is meant.",
            "answers": ["the animal"],
            "query": "jaguar animal speed",
        },
        {"offered": ["Top speed or usual speed?"], "types": ["Specify"], "answers": ["unknown"]},
    ]

"""A call of a custom role as a step: its key, and what the journal has of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, cast

from cts_async.engine.journal import Journal, read_records
from cts_async.engine.runner import Context, Job, Runner
from cts_async.protocol.custom.calls import Call, CustomPlayer, Host
from cts_async.protocol.custom.sources import CustomRole
from cts_async.protocol.custom.wire import View
from cts_async.protocol.views import AnswererView, JudgeView
from cts_async.records import Nugget

NUGGETS = (Nugget("N1", "It sails – at nine.", 3.0), Nugget("N2", "It is blue.", 1.5, ("S1",)))
VIEW = JudgeView("When does it sail?", NUGGETS, "At nine.")
LABELS = [{"id": "N1", "coverage": "full"}, {"id": "N2", "coverage": "none"}]


def player_of(role: CustomRole, reply: Any) -> CustomPlayer:
    async def perform(call: Call, view: View) -> Any:
        return reply

    return CustomPlayer(role, perform, cast(Host, None))


def results_and_records(directory: Path, walks: Mapping[str, Any]) -> tuple[list[Any], list[dict[str, Any]]]:
    """What the jobs of these ids returned, and the journal's records."""
    results: list[Any] = []

    async def finish(result: Any) -> None:
        results.append(result)

    async def main() -> None:
        journal = Journal(directory / "steps.jsonl")
        jobs = [Job("run", id, journal, walk, finish, shared=True) for id, walk in walks.items()]
        await Runner().run(jobs, in_flight=[1])
        journal.close()

    asyncio.run(main())
    return results, list(read_records(directory / "steps.jsonl"))


def digest(value: Any) -> str:
    """The digest of a step's determinants: BLAKE2b over their JSON, sorted and compact."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return blake2b(text.encode(), digest_size=16).hexdigest()


def test_key_of_a_verdict_is_the_digest_of_judge_and_view_whose_texts_are_not_repeated(
    tmp_path: Path,
) -> None:
    player = player_of(CustomRole("my.py:judge", "judge", "function", "my.judge", "2", "ab12"), LABELS)

    async def judge(ctx: Context) -> Any:
        return (await player.judge(ctx, VIEW)).coverage

    # The second one has equal nuggets in another tuple: the same question.
    async def judge_again(ctx: Context) -> Any:
        view = JudgeView(VIEW.query, (*NUGGETS,), VIEW.candidate_answer)
        return (await player.judge(ctx, view)).coverage

    results, records = results_and_records(tmp_path, {"q1": judge, "q2": judge_again})
    assert results == [(("N1", "full"), ("N2", "none"))] * 2
    (record,) = records
    view = {
        "query": "When does it sail?",
        "nuggets": [
            {"id": "N1", "text": "It sails – at nine.", "weight": 3.0},
            {"id": "N2", "text": "It is blue.", "weight": 1.5},
        ],
        "candidate_answer": "At nine.",
    }
    identity = {"custom": "function", "name": "my.judge", "version": "2", "sha256": "ab12"}
    assert record["key"] == digest(["judge/my.judge", None, identity, view])
    assert record["request"] == {"custom": "my.judge"}
    assert record["response"] == {"text": json.dumps({"results": LABELS}, separators=(",", ":"))}


def test_request_of_an_answerer_has_its_question_and_only_a_digest_of_the_intent(tmp_path: Path) -> None:
    player = player_of(CustomRole("my.py:answer", "answerer", "function", "my.answer", "", "ab12"), "nine")

    async def answer(ctx: Context) -> Any:
        view = AnswererView("When does the ferry sail?", "Which ferry?")
        return (await player.answer(ctx, view, "answer/1")).text

    results, (record,) = results_and_records(tmp_path, {"q1": answer})
    assert results == ["nine"]
    view = {"fused_query": "When does the ferry sail?", "question": "Which ferry?"}
    identity = {"custom": "function", "name": "my.answer", "version": "", "sha256": "ab12"}
    assert record["key"] == digest(["answer/1", "q1", identity, view])
    assert record["request"] == {
        "custom": "my.answer",
        "view": {"question": "Which ferry?"},
        "on_record": digest([{"fused_query": "When does the ferry sail?"}])[:16],
    }

"""What workers make of pieces: the very lines that one process writes."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benches import done_at_a_bench, lines_of
from fake_provider import FakeProvider, Settings

from cts_async.cluster import campaign, judging
from cts_async.cluster.judging import JudgingPieces
from cts_async.config import JudgeConfig, RunConfig
from cts_async.datasets.kinds.sample import sample_dir
from cts_async.engine.events import Events
from cts_async.errors import UsageError
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol.judge_plan import JudgePlan, plan_judging
from cts_async.protocol.plan import Plan, make_plan
from cts_async.protocol.rejudge import opened_verdicts, run_judging
from cts_async.protocol.run import opened_runs, run_campaign
from cts_async.protocol.run_files import PER_ITEM, RESULTS, judgments_path

N = 6
KEYS = {"FAKE_KEY": "sk-0123456789"}


def configured(directory: Path, url: str) -> Path:
    config = directory / "cts.toml"
    tables = [
        f'[models.{name}]\nbase_url = "{url}"\nmodel = "{name}-1"\nkey_env = "FAKE_KEY"\n'
        for name in ("fake", "other")
    ]
    config.write_text("\n".join(tables))
    return config


def planned(directory: Path, config: Path, folder: str) -> Plan:
    asked = RunConfig(
        models=("fake",),
        ks=(1, 2),
        every_role="fake",
        judges=("fake", "other"),
        limit=N,
        runs_dir=directory / folder,
    )
    return replace(make_plan(asked, load_catalogue(config), KEYS), current_date="2033-01-15")


def test_instances_give_the_lines_of_a_local_run(tmp_path: Path) -> None:
    async def main() -> None:
        async with FakeProvider(Settings(unknown_share=0.5)) as provider:
            config = configured(tmp_path, provider.url)
            local, apart = planned(tmp_path, config, "local"), planned(tmp_path, config, "apart")
            await run_campaign(local, KEYS, Events())
            with opened_runs(apart, Events()) as files:
                pieces = list(campaign.pieces_of(apart, files, again=False))
                trade = campaign.trade_of(apart)
                written = await done_at_a_bench(trade, pieces, lambda n: None, tmp_path / "steps.jsonl", KEYS)
        assert [piece.seq for piece in pieces] == list(range(3 * N))
        assert [piece.place for piece in pieces[:3]] == [0, 1, 2]
        for place, directory in enumerate(local.systems.values()):
            assert written[place, None] == lines_of(directory / RESULTS)
            assert written[place, "other"] == lines_of(judgments_path(directory, "other"))
            assert written[place, "lexical"] == lines_of(judgments_path(directory, "lexical"))

    asyncio.run(main())


def answers(directory: Path) -> Path:
    """Answers to the first intents: two the same, one empty, one failed."""
    gold = [json.loads(line) for line in (sample_dir() / "gold.jsonl").read_text().splitlines()][:N]
    texts: list[Any] = [
        "Ferries leave at nine.",
        "Ferries leave at nine.",
        "",
        None,
        "By train.",
        "Nobody knows.",
    ]
    rows = [
        {"id": f"a{i}", "fused_query": gold[0 if i < 2 else i]["fused_query"], "answer": text}
        for i, text in enumerate(texts)
    ]
    path = directory / "answers.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def planned_judging(directory: Path, config: Path, out: str) -> JudgePlan:
    asked = JudgeConfig(
        judges=("fake", "other", "lexical"),
        gold=sample_dir() / "gold.jsonl",
        candidates=str(answers(directory)),
        out=directory / out,
    )
    return plan_judging(asked, load_catalogue(config), KEYS)


@pytest.mark.parametrize("most_parts", [judging.MOST_PARTS, 2])
def test_verdicts_give_the_lines_of_a_local_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_parts: int
) -> None:
    monkeypatch.setattr(judging, "MOST_PARTS", most_parts)

    async def main() -> None:
        async with FakeProvider(Settings()) as provider:
            config = configured(tmp_path, provider.url)
            local, apart = (
                planned_judging(tmp_path, config, "local"),
                planned_judging(tmp_path, config, "apart"),
            )
            await run_judging(local, KEYS, Events())
            asked = len(provider.seen)
            with opened_verdicts(apart, Events()) as files:
                made = JudgingPieces(apart, files, Events(), again=False)
                pieces = [piece for stream in made.streams() for piece in stream]
                trade = judging.trade_of(apart)
                written = await done_at_a_bench(trade, pieces, made.part, tmp_path / "steps.jsonl", KEYS)
            assert len(provider.seen) == 2 * asked
        assert written[0, None] == lines_of(tmp_path / "local" / PER_ITEM)
        for judge in ("other", "lexical"):
            assert written[0, judge] == lines_of(judgments_path(tmp_path / "local", judge))

    asyncio.run(main())


def test_answers_that_ask_the_same_have_the_same_number_for_a_judge(tmp_path: Path) -> None:
    plan = planned_judging(tmp_path, configured(tmp_path, "http://127.0.0.1:9/v1"), "out")
    with opened_verdicts(plan, Events()) as files:
        made = JudgingPieces(plan, files, Events(), again=False)
        fake, other, lexical = [list(stream) for stream in made.streams()]
    assert fake[0].same == fake[1].same != 0
    assert fake[0].same != other[0].same
    assert [piece.same for piece in fake[2:]] == [0] * (N - 2)
    assert not any(piece.same for piece in lexical)
    assert fake[0].parts == fake[1].parts == other[0].parts != fake[4].parts


def test_the_first_pieces_of_all_judges_are_equally_old(tmp_path: Path) -> None:
    plan = planned_judging(tmp_path, configured(tmp_path, "http://127.0.0.1:9/v1"), "out")
    with opened_verdicts(plan, Events()) as files:
        streams = JudgingPieces(plan, files, Events(), again=False).streams()
        seqs = [[piece.seq for piece in stream] for stream in streams]
    assert seqs[0] == [0, 3, 6, 9, 12, 15]
    assert seqs[1][:2] == [1, 4]
    assert len({seq for of in seqs for seq in of}) == sum(map(len, seqs))


def test_a_key_that_is_missing_where_the_worker_is_is_named_and_travels_never(tmp_path: Path) -> None:
    config = configured(tmp_path, "http://127.0.0.1:9/v1")
    trade = campaign.trade_of(planned(tmp_path, config, "runs"))

    async def main() -> None:
        await done_at_a_bench(trade, [], lambda n: None, tmp_path / "steps.jsonl", {})

    with pytest.raises(
        UsageError, match=r"^node \S+ has no FAKE_KEY: start ray there with it in the environment$"
    ):
        asyncio.run(main())
    assert KEYS["FAKE_KEY"] not in repr(trade)


def test_beside_other_judges_the_lexical_one_only_fills_the_pauses(tmp_path: Path) -> None:
    config = configured(tmp_path, "http://127.0.0.1:9/v1")
    trade = judging.trade_of(planned_judging(tmp_path, config, "out"))

    async def main() -> list[int]:
        async with trade.opened(KEYS, Events(), lambda *account: None, workers=2) as bench:  # type: ignore[arg-type]
            return [bench.width(stream) for stream in range(3)]

    # 256 places: one process has 384 in flight, and so has each of two workers, since demand moves between them.
    assert asyncio.run(main()) == [384, 384, 1]

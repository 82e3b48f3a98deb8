"""What workers make of tasks: the very lines that one process writes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import pickle
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from fake_provider import FakeProvider, Settings

from cts_async.cluster.work import (
    CampaignWork,
    JudgingWork,
    NeededFile,
    Task,
    Work,
    campaign_tasks,
    judging_tasks,
    tasks_in,
)
from cts_async.config import JudgeConfig, RunConfig
from cts_async.datasets.kinds.sample import sample_dir
from cts_async.engine.events import Events
from cts_async.engine.journal import Journal
from cts_async.engine.lane import Lane, LaneLimits
from cts_async.engine.runner import Job, Runner
from cts_async.errors import ParameterRefused, RateLimited, StepError, UnusableOutput, UsageError
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol import answers as answers_module
from cts_async.protocol.plan import Plan, make_plan
from cts_async.protocol.rejudge import JudgePlan, open_verdicts, plan_judging, run_judging
from cts_async.protocol.run import open_runs, run_plan
from cts_async.runs.files import PER_ITEM, RESULTS, judgments_path
from cts_async.search.backends.fetch import HostUnavailable

N = 6
KEYS = {"FAKE_KEY": "sk-0123456789"}


WrittenAt = Mapping[tuple[int, str | None], list[bytes]]
"""Lines by their place and judge, sorted."""


async def done_at_a_bench(
    work: Work,
    tasks: Iterable[Task],
    journal: Path,
    environ: Mapping[str, str],
) -> WrittenAt:
    """The lines of `tasks`; each is pickled as it would travel, and done by one engine."""
    written: defaultdict[tuple[int, str | None], list[bytes]] = defaultdict(list)
    events = Events()

    travelled: Work = pickle.loads(pickle.dumps(work))
    lane_of = lambda account, name, limits: Lane(name, limits, events)  # noqa: E731
    async with travelled.opened(environ, events, lane_of, workers=1) as bench:
        book = Journal(journal)

        def job(task: Task) -> Job:
            task = bench.read(pickle.loads(pickle.dumps(task)))

            async def finish(ended: object) -> None:
                for judge, line in bench.lines_of(task, ended):
                    written[task.run, judge].append(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))

            walk = bench.walk_of(task)
            return Job(task.group, task.id, book, walk, finish, shared=task.question != 0)

        await Runner(bench.lanes, in_flight=bench.in_flight[0]).run(map(job, tasks))
        book.close()
    return {where: sorted(lines) for where, lines in written.items()}


def lines_of(path: Path) -> list[bytes]:
    """A file's lines, sorted."""
    return sorted(path.read_bytes().splitlines(keepends=True))


def configured(directory: Path, url: str) -> Path:
    config = directory / "cts.toml"
    tables = [
        f'[models.{name}]\nbase_url = "{url}"\nmodel = "{name}-1"\nkey_env = "FAKE_KEY"\n'
        for name in ("fake", "other")
    ]
    config.write_text("\n".join(tables))
    return config


def planned(directory: Path, config: Path, folder: str, **options: Any) -> Plan:
    asked = RunConfig(
        models=("fake",),
        ks=(1, 2),
        every_role="fake",
        judges=("fake", "other"),
        limit=N,
        runs_dir=directory / folder,
    )
    asked = replace(asked, **options)
    return replace(make_plan(asked, load_catalogue(config), KEYS), current_date="2033-01-15")


@pytest.mark.parametrize("refusing", ["", "fake-1", "other-1"])
def test_instances_give_the_lines_of_a_local_run(tmp_path: Path, refusing: str) -> None:
    """Also where one judge fails on some answers."""
    fails = {"refuses": "judge", "refusing_model": refusing, "refuses_about": "primary school"}

    async def main() -> None:
        async with FakeProvider(Settings(unknown_share=0.5, **(fails if refusing else {}))) as provider:
            config = configured(tmp_path, provider.url)
            local, apart = planned(tmp_path, config, "local"), planned(tmp_path, config, "apart")
            await run_plan(local, KEYS, Events())
            with open_runs(apart, Events()) as files:
                tasks = list(campaign_tasks(apart, files))
                work = CampaignWork.from_plan(apart)
                written = await done_at_a_bench(work, tasks, tmp_path / "steps.jsonl", KEYS)
        assert [task.seq for task in tasks] == list(range(3 * N))
        assert [task.run for task in tasks[:3]] == [0, 1, 2]
        for place, directory in enumerate(local.systems.values()):
            assert written[place, None] == lines_of(directory / RESULTS)
            assert any(b'"judge/' in line for line in written[place, None]) == (refusing == "fake-1")
            assert written[place, "other"] == lines_of(judgments_path(directory, "other"))
            assert written[place, "lexical"] == lines_of(judgments_path(directory, "lexical"))

    asyncio.run(main())


@pytest.mark.parametrize("max_turns", [1, 20])
def test_workers_search_as_published_like_a_local_run(tmp_path: Path, max_turns: int) -> None:
    """Also where every search ends without an answer: the fake agent needs two turns."""
    options = {"agent_mode": "as-published", "max_turns": max_turns, "ks": (1,)}

    async def main() -> None:
        async with FakeProvider(Settings()) as provider:
            config = configured(tmp_path, provider.url)
            local = planned(tmp_path, config, "local", **options)
            apart = planned(tmp_path, config, "apart", **options)
            await run_plan(local, KEYS, Events())
            with open_runs(apart, Events()) as files:
                tasks = list(campaign_tasks(apart, files))
                work = CampaignWork.from_plan(apart)
                written = await done_at_a_bench(work, tasks, tmp_path / "steps.jsonl", KEYS)
        for place, directory in enumerate(local.systems.values()):
            lines = lines_of(directory / RESULTS)
            assert written[place, None] == lines
            assert [b'"no_answer"' in line for line in lines] == [max_turns == 1] * N

    asyncio.run(main())


def answers(directory: Path) -> Path:
    """Answers to the first intents: two the same, one empty, one missing, one with an error reported."""
    gold = [json.loads(line) for line in (sample_dir() / "gold.jsonl").read_text().splitlines()][:N]
    texts = [*["Ferries leave at nine."] * 2, "", None, "By train.", "Nobody knows."]
    rows = [
        {"id": f"a{i}", "fused_query": gold[0 if i < 2 else i]["fused_query"], "answer": text}
        for i, text in enumerate(texts)
    ]
    rows[4] = {**rows[4], "answer": "", "error": "timed out"}
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


def judged_lines(folder: Path) -> WrittenAt:
    """What a run that judges one file of candidates has written: `fake` beside the candidates, others alone."""
    lines = {(0, None): lines_of(folder / PER_ITEM)}
    for judge in ("other", "lexical"):
        lines[0, judge] = lines_of(judgments_path(folder, judge))
    return lines


def test_verdicts_give_the_lines_of_a_local_run(tmp_path: Path) -> None:
    async def main() -> None:
        async with FakeProvider(Settings()) as provider:
            config = configured(tmp_path, provider.url)
            local, apart = (planned_judging(tmp_path, config, out) for out in ("local", "apart"))
            await run_judging(local, KEYS, Events())
            asked = len(provider.seen)
            with open_verdicts(apart, Events()) as files:
                streams = judging_tasks(apart, files, Events())
                tasks = list(tasks_in(task for stream in streams for task in stream))
                work = JudgingWork.from_plan(apart)
                written = await done_at_a_bench(work, tasks, tmp_path / "steps.jsonl", KEYS)
            assert len(provider.seen) == 2 * asked
        assert written == judged_lines(tmp_path / "local")

    asyncio.run(main())


def test_lines_that_workers_parse_give_the_lines_of_a_local_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a file that is too large to be kept until its answers are judged."""
    monkeypatch.setattr(answers_module, "KEPT_BYTES", 0)
    gold = [json.loads(line) for line in (sample_dir() / "gold.jsonl").read_text().splitlines()]
    texts = ["By train.", "<think>Hm.</think><answer>By ferry.</answer>", "渡轮", "Nobody knows."]
    rows = [
        json.dumps({"id": f"a{i}", "fused_query": gold[i]["fused_query"], "answer": text})
        for i, text in enumerate(texts)
    ]
    (tmp_path / "candidates.jsonl").write_text("\ufeff" + "\n\n".join(rows) + "\n \n")

    async def main() -> None:
        async with FakeProvider(Settings()) as provider:
            config = configured(tmp_path, provider.url)
            local, apart = (
                plan_judging(
                    JudgeConfig(
                        judges=("fake", "other", "lexical"),
                        gold=sample_dir() / "gold.jsonl",
                        candidates=str(tmp_path / "candidates.jsonl"),
                        out=tmp_path / out,
                        limit=3,
                    ),
                    load_catalogue(config),
                    KEYS,
                )
                for out in ("local", "apart")
            )
            await run_judging(local, KEYS, Events())
            asked = len(provider.seen)
            with open_verdicts(apart, Events()) as files:
                dealt = pickle.loads(pickle.dumps(list(map(list, judging_tasks(apart, files, Events())))))
                assert [len(block) for blocks in dealt for block in blocks] == [3, 3, 3]
                tasks = list(tasks_in(block for blocks in dealt for block in blocks))
                assert [task.seq for task in tasks] == [0, 3, 6, 1, 4, 7, 2, 5, 8]
                assert [task.id for task in tasks] == ["line 1", "line 3", "line 5"] * 3
                work = JudgingWork.from_plan(apart)
                written = await done_at_a_bench(work, tasks, tmp_path / "steps.jsonl", KEYS)
            assert len(provider.seen) == 2 * asked
        assert written == judged_lines(tmp_path / "local")

    asyncio.run(main())


def test_tasks_of_judges_are_equally_old_and_those_with_the_same_question_have_its_number(
    tmp_path: Path,
) -> None:
    plan = planned_judging(tmp_path, configured(tmp_path, "http://127.0.0.1:9/v1"), "out")
    with open_verdicts(plan, Events()) as files:
        fake, other, lexical = (list(tasks_in(stream)) for stream in judging_tasks(plan, files, Events()))
    assert [task.seq for task in fake] == [0, 3, 6, 9, 12, 15]
    assert [task.seq for task in other[:2]] == [1, 4]
    seqs = [task.seq for task in (*fake, *other, *lexical)]
    assert len(set(seqs)) == len(seqs)
    assert fake[0].question == fake[1].question != 0
    assert fake[0].question != other[0].question
    assert [task.question for task in fake[2:]] == [0] * (N - 2)
    assert not any(task.question for task in lexical)


def test_missing_key_is_named_and_keys_never_travel(tmp_path: Path) -> None:
    config = configured(tmp_path, "http://127.0.0.1:9/v1")
    work = CampaignWork.from_plan(planned(tmp_path, config, "runs"))

    async def main() -> None:
        await done_at_a_bench(work, [], tmp_path / "steps.jsonl", {})

    with pytest.raises(UsageError, match="^no FAKE_KEY in the environment of its Ray: "):
        asyncio.run(main())
    assert KEYS["FAKE_KEY"] not in repr(work)


def test_lexical_judge_has_one_task_in_flight_next_to_others(tmp_path: Path) -> None:
    config = configured(tmp_path, "http://127.0.0.1:9/v1")
    work = JudgingWork.from_plan(planned_judging(tmp_path, config, "out"))

    def lane_of(account: str, name: str, limits: LaneLimits) -> Lane:
        return Lane(name, limits)

    async def main() -> tuple[list[int], bool]:
        async with work.opened(KEYS, Events(), lane_of, workers=2) as bench:
            return list(bench.in_flight), bench.is_one_step

    # 256 places: one process has 384 in flight, and so has each of two workers, since demand moves between them.
    assert asyncio.run(main()) == ([384, 384, 1], True)


def test_file_that_is_missing_or_differs_on_a_machine_is_refused(tmp_path: Path) -> None:
    here = tmp_path / "documents.jsonl"
    needed = NeededFile(here, hashlib.sha256(b"text").hexdigest())
    for content in (None, "other"):
        if content:
            here.write_text(content)
        with pytest.raises(UsageError, match=r"documents\.jsonl is missing here, or is not the file"):
            needed.check()
    here.write_text("text")
    needed.check()


@pytest.mark.parametrize(
    "error",
    [
        ParameterRefused("no top_p here", parameter="top_p", status=400),
        RateLimited("slower", retry_after_s=2.0, status=429),
        UnusableOutput("expected JSON", text="hm"),
        HostUnavailable("h: no answer", "timeout", "h", 3.0),
    ],
)
def test_failure_travels_with_all_its_fields(error: StepError) -> None:
    error.step = "judge"
    received = pickle.loads(pickle.dumps(error))
    assert (type(received), str(received)) == (type(error), str(error))
    assert received.__dict__ == error.__dict__

"""What travels between head and workers together: questions, and verdicts whose nuggets are packed once."""

from __future__ import annotations

import asyncio
import pickle
from array import array
from dataclasses import fields
from pathlib import Path

import pytest
from small_cluster import Cluster, SmallWork, World
from virtual_time import run_virtual

from cts_async.cluster import work, worker
from cts_async.cluster.limits import (
    Failure,
    Grant,
    PermitRequests,
    Records,
    RemoteAccount,
    RemoteBudget,
    Reports,
    Requests,
    Reserve,
)
from cts_async.cluster.work import GoldPacker, LineTasks, Task
from cts_async.cluster.worker import (
    EndedLines,
    EndedTasks,
    Lookup,
    RemoteJournal,
    Replies,
    Setup,
    WorkerTurn,
    WorkerUpdate,
)
from cts_async.datasets.io import NumberedLine
from cts_async.engine import journal as journals
from cts_async.engine.account import LaneLimits
from cts_async.engine.events import Cost, EndedSums, Notice
from cts_async.engine.journal import journal_line
from cts_async.engine.ratelimit import Quota, Quotas
from cts_async.engine.reuse import ReuseRule
from cts_async.errors import StepError
from cts_async.protocol.answers import Judging, NoAnswer
from cts_async.protocol.rejudge import PendingVerdict, UnreadVerdict
from cts_async.records import Instance, Nugget
from cts_async.runs.journal import SpentPart
from cts_async.runs.results import VerdictColumns

NUGGETS = (Nugget("n1", "Oslo lies at a fjord", 3.0, ("s1",)), Nugget("n2", "奥斯陆", 1.0))


def verdict(
    id: str, nuggets: tuple[Nugget, ...], failure: StepError | None = None, query: str = "which ferries?"
) -> PendingVerdict:
    instance = Instance(id, "ferries to Oslo", "ferries", nuggets, query, "Travel")
    return PendingVerdict("gpt", 2, Judging(instance, f"answer {id}", failure), scoring=True)


@pytest.mark.parametrize("nuggets", [NUGGETS, ()])
def test_packed_verdict_arrives_as_it_was(nuggets: tuple[Nugget, ...]) -> None:
    sent = verdict("a", nuggets)
    assert pickle.loads(pickle.dumps(GoldPacker().pack(sent))) == sent


def test_packed_failure_arrives_with_its_fields() -> None:
    packed = GoldPacker().pack(verdict("a", NUGGETS, NoAnswer("the answer is null")))
    failure = pickle.loads(pickle.dumps(packed)).judging.failure
    assert (type(failure), str(failure), failure.step) == (NoAnswer, "the answer is null", "candidate")


def test_nuggets_are_pickled_once_for_the_answers_to_a_question() -> None:
    packer = GoldPacker()
    other = (Nugget("n1", "Bergen", 2.0),)
    first, second, third = (
        packer.pack(verdict(id, nuggets)) for id, nuggets in (("a", NUGGETS), ("b", NUGGETS), ("c", other))
    )
    assert first.nuggets is second.nuggets
    assert pickle.loads(third.nuggets) == other
    arrived = [pickle.loads(pickle.dumps(packed)).judging.instance for packed in (first, second)]
    assert arrived[0].nuggets is arrived[1].nuggets, "a worker unpacks them once, too"


def test_nuggets_of_instances_long_ago_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "PACKED_GOLD", 2)
    packer = GoldPacker()
    for n in range(5):
        nuggets = (Nugget(f"n{n}", "text", 1.0),)
        assert pickle.loads(packer.pack(verdict("a", nuggets, query=f"q{n}")).nuggets) == nuggets
    assert len(packer._packed) == 2


@pytest.mark.parametrize(
    ("n_workers", "question_s", "reply_s"),
    [(1, 0.003, 0.003), (2, 0.005, 0.003), (8, 0.02, 0.008), (40, 0.04, 0.04), (256, 0.256, 0.256)],
)
def test_questions_and_replies_wait_for_others_by_the_number_of_workers(
    n_workers: int, question_s: float, reply_s: float
) -> None:
    setup = Setup("w1", n_workers, SmallWork(World()))
    assert (setup.batch_s, setup.reply_batch_s) == (question_s, reply_s)


def test_turn_ends_at_once_when_half_of_the_tasks_wait_for_the_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By time alone a turn would end after 5 s, and a job takes eight turns or more."""
    monkeypatch.setattr(worker, "BATCH_S", 5.0)
    monkeypatch.setattr(worker, "TURN_S", 5.0)
    took_s: dict[float, float] = {}
    for enough in (0.5, 100.0):
        monkeypatch.setattr(worker, "ENOUGH", enough)
        cluster = Cluster(tmp_path / str(enough), n=40, width=8)
        cluster.folder.mkdir()

        async def run(cluster: Cluster = cluster) -> float:
            await cluster.run(2)
            return asyncio.get_running_loop().time()

        took_s[enough] = run_virtual(run)
        assert len(cluster.results()) == 40
        assert cluster.paid_twice() == 0
    assert took_s[0.5] < 0.6 * took_s[100.0]


def test_record_of_a_task_of_one_step_travels_with_its_result() -> None:
    """Nobody answers here: a record that waited for an answer would be the only line of its update."""

    step = {"instance": "s/q1", "step": "judge/m", "model": "m", "latency_s": 0.5}
    asked, failed = {"key": "k1", "ok": True} | step, {"key": "k2", "ok": False} | step

    async def main() -> tuple[Records, int]:
        requests = Requests(lambda: None)
        journal = RemoteJournal(0, requests, waits=False)
        async with asyncio.timeout(5):
            await journal.append(asked)
            await journal.append(failed)
        assert journal.find("k1") == asked
        assert journal.find("k2") is None, "a failed step is executed again"
        return requests.records[0], requests.n_unsent

    lines = [journal_line(asked), journal_line(failed)]
    records, n_unsent = asyncio.run(main())
    assert (records.numbers, records.keys, n_unsent) == ([], ["k1", None], 0)
    assert (bytes(records.lines), list(records.sizes)) == (b"".join(lines), list(map(len, lines)))
    assert records.part is not None
    assert (records.part.is_whole, records.part.system, records.part.instances) == (True, "s", ["s/q1"] * 2)
    assert (records.part.spent.steps, records.part.spent.calls, records.part.spent.latency_s) == (1, 2, 1.0)


@pytest.mark.parametrize("waits", [False, True])
def test_record_that_could_not_be_read_back_is_refused_as_in_one_process(
    monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    monkeypatch.setattr(journals, "MAX_LINE", 99)

    async def main() -> None:
        requests = Requests(lambda: None)
        journal = RemoteJournal(0, requests, waits=waits)
        with pytest.raises(StepError, match="the record of this step has 1.. bytes, of at most 99"):
            await journal.append({"key": "k1", "ok": True, "response": "x" * 99})
        assert (requests.records, journal.find("k1")) == ({}, None)

    asyncio.run(main())


def test_record_of_a_longer_task_waits_for_the_head() -> None:
    async def main() -> dict[int, Records]:
        requests = Requests(lambda: None)
        journal = RemoteJournal(0, requests, waits=True)
        appending = asyncio.create_task(journal.append({"key": "k1", "ok": True}))
        await asyncio.sleep(0)
        assert requests.n_unsent == 1
        assert not appending.done()
        (number,) = requests.records[0].numbers
        requests.answer({number: None}, (), 0.0)
        await appending
        return requests.records

    line = b'{"key":"k1","ok":true}\n'
    assert asyncio.run(main()) == {0: Records([1], ["k1"], bytearray(line), [len(line)])}


@pytest.mark.parametrize("n_looking", [1, 3])
def test_step_that_was_executed_while_others_looked_for_it_is_found(n_looking: int) -> None:
    """The head has answered before the step was executed, and the answers arrive after the job has ended."""
    record = {"key": "k1", "ok": True, "instance": "q1", "step": "judge/m", "model": "m"}

    async def main() -> None:
        requests = Requests(lambda: None)
        journal = RemoteJournal(0, requests, waits=False)
        looking = []
        for _ in range(n_looking):
            lookup = journal.find_at_head("q2", "k1", ReuseRule.SAMPLED, None)
            looking.append(asyncio.create_task(lookup))
        await asyncio.sleep(0)
        await journal.append(record)
        journal.keep(["k1"])
        for number, _ in requests.unsent:
            requests.answer({number: None}, (), 0.0)
            await asyncio.sleep(0)
        assert await asyncio.gather(*looking) == [record] * n_looking
        assert journal.find("k1") is None, "it is forgotten when nobody looks for it any more"
        assert not journal._looked_for
        assert not journal._to_forget

    asyncio.run(main())


def test_budget_of_a_worker_remembers_only_the_calls_under_way() -> None:
    async def main() -> None:
        requests = Requests(lambda: None)
        budget = RemoteBudget(requests, None)
        costs = [Cost(1, 5.0), Cost(1, 5.0), Cost(1, 6.0)]
        reserving = [asyncio.create_task(budget.reserve(i, cost)) for i, cost in enumerate(costs)]
        await asyncio.sleep(0)
        requests.answer(dict.fromkeys((1, 2, 3)), (), 0.0)
        await asyncio.gather(*reserving)
        for cost in costs:
            budget.settle(cost, Cost(1, 1.0))
        assert sorted(requests.settled) == [(number, Cost(1, 1.0)) for number in (1, 2, 3)]
        assert not budget._numbers

    asyncio.run(main())


def filled_part() -> SpentPart:
    part = SpentPart()
    part.add(
        {
            "ok": True,
            "instance": "s/q1",
            "step": "judge/m",
            "model": "m",
            "latency_s": 0.5,
            "usage": {"input": 3},
        }
    )
    # Hashes of instances do not travel.
    part.spent._instances = array("q")
    return part


def filled_update() -> WorkerUpdate:
    """An update with something in each field."""
    verdicts = VerdictColumns()
    verdicts.add({"id": "奥斯陆", "judge": "m", "restore_score_100": 37.5})
    verdicts.add({"id": "\ud800", "judge": "m", "error": {"kind": "no_answer"}, "answer": "Hm."})
    lines = EndedLines(verdicts=verdicts)
    lines.add(b"{}\n")
    sums = EndedSums("g", jobs=2, failed=1, lanes={"gpt"}, usd=0.25)
    reports = Reports({1: 0.1}, [2], [0.2], [None], {2: Quotas(Quota(60.0))}, {3: Failure(0.3)})
    return WorkerUpdate(
        7,
        requests=((1, Lookup(0, "k", ReuseRule.FIXED, "q1")), (2, Reserve(3, Cost(1, 5.0, 0.1)))),
        permits={"a": PermitRequests([1], [2], [3.0], ["k"], [4.0])},
        records={0: Records([1], ["k", None], bytearray(b"{}\n{}\n"), [3, 3], filled_part())},
        withdrawn=(4,),
        reports={"a": reports},
        settled=((5, Cost(1)),),
        ended=EndedTasks([1, 2], ["i1", "i2"], {}, {0: lines}, {(0, "m"): lines}),
        events=(Notice("slower"),),
        sums=(sums,),
        accounts=(RemoteAccount("a", "gpt", LaneLimits(60.0)),),
        crash="Traceback",
        over=True,
    )


def filled_turn() -> WorkerTurn:
    line = NumberedLine(3, 20, b"{}\n")
    block = LineTasks(Task(4, "g", "", 0, None), 2, UnreadVerdict("m", 0, line, True), [line, line])
    replies = Replies(7, {1: None, 2: b"{}"}, (Grant(-0.25, 0.5, True, False, [3, 4]),))
    return WorkerTurn(replies, (Task(1, "g", "i1", 0, None, deaths=2), block), "stopped", True, True)


def test_messages_arrive_as_they_were() -> None:
    update, turn = filled_update(), filled_turn()
    empty = WorkerUpdate(0)
    for field in fields(update):
        assert field.name == "stopped" or getattr(update, field.name) != getattr(empty, field.name)
    for sent in (update, turn):
        # Compared as text, since not a number is no equal of itself.
        assert repr(pickle.loads(pickle.dumps(sent, protocol=5))) == repr(sent)

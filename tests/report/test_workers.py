"""The processes that share a command's work, in words."""

from __future__ import annotations

import pytest
from made_live import cluster, live, part, worker

from cts_async.report.live import LiveFile, LiveWorker
from cts_async.report.live_screen import MANY, line_of, one_by_one, worker_state, workers_line, workers_of


def shared(*workers: LiveWorker, wanted: int = 2, address: str = "ray://head:10001") -> LiveFile:
    return live([part("a", 4)], **cluster(workers, wanted, address))


W1, W2 = worker("w1"), worker("w2", host="node-b", in_hand=4)
LOST = worker("w0", state="lost", note="its process died", in_hand=5)


def test_where_nobody_shares_the_work_nothing_is_said_of_workers() -> None:
    alone = live([part("a", 4)])
    assert workers_of(alone) == []
    assert line_of(alone) == "4/10 instances, 0 calls, 0 tokens"


def test_a_plain_line_has_one_word_about_workers() -> None:
    assert line_of(shared(W1, W2)) == "4/10 instances, 0 calls, 0 tokens, 2 workers"
    assert line_of(shared(W1, LOST, wanted=3)).endswith("0 tokens, 1 of 3 workers")
    assert line_of(shared(W1, wanted=1)).endswith("0 tokens, 1 worker")
    assert line_of(shared(worker("w1", state="starting"))).endswith("0 of 2 workers")


def test_all_of_them_are_one_line() -> None:
    assert workers_line(shared(W1, W2)) == "2 workers on 2 hosts; 12 tasks in hand; ray://head:10001"
    assert workers_line(shared(W1, W1, address="")) == "2 workers on this machine; 16 tasks in hand"


def test_those_that_are_not_well_are_counted_and_tasks_of_the_lost_are_nobodys() -> None:
    silent = worker("w3", heard_s=7.3, in_hand=1)
    line = workers_line(shared(LOST, W1, silent, address="ray"))
    assert line == "2 workers on 1 host, 1 lost, 1 silent; 9 tasks in hand; ray"
    late = worker("w3", state="starting", host="", in_hand=0)
    line = workers_line(shared(LOST, W1, late, address=""))
    assert line == "1 of 2 workers on this machine, 1 lost, 1 starting; 8 tasks in hand"
    there = shared(W1, worker("w2", state="idle", in_hand=0), worker("w3", state="ended", in_hand=0))
    assert workers_line(there) == "3 workers on 1 host; 8 tasks in hand, 1 idle, 1 ended; ray://head:10001"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "working"),
        ({"heard_s": 5.0}, "working"),
        ({"heard_s": 5.6}, "silent for 6 s"),
        ({"state": "starting", "heard_s": 9.0}, "starting"),
        ({"state": "ended", "heard_s": 900.0}, "ended"),
        ({"state": "lost", "heard_s": 900.0}, "lost"),
        ({"state": "lost", "note": "its process died"}, "lost: its process died"),
    ],
)
def test_each_says_what_it_does_and_why_it_does_nothing(fields: dict[str, object], words: str) -> None:
    assert worker_state(worker("w1", **fields)) == words


def names(workers: list[LiveWorker]) -> str:
    return " ".join(one["name"] for one in workers)


def test_all_that_are_there_have_a_line_and_of_the_lost_the_last_ones() -> None:
    lost = [worker(f"l{n}", state="lost") for n in range(5)]
    there = shared(*lost, W1, W2)
    assert names(one_by_one(there, 10)) == "w1 w2 l2 l3 l4"
    assert names(one_by_one(there, 3)) == "w1 w2 l4"
    assert names(one_by_one(there, 2)) == "w1 w2"
    assert names(one_by_one(there, 1)) == "l4"
    assert [one_by_one(there, room) for room in (0, -1)] == [[], []]


def test_of_many_only_those_that_are_not_well_have_a_line() -> None:
    well = [worker(f"w{n}") for n in range(MANY)]
    silent = worker("s", heard_s=6.0)
    assert one_by_one(shared(*well), 1000) == []
    assert names(one_by_one(shared(*well, silent, LOST), 1000)) == "s w0"
    assert names(one_by_one(shared(*well, *[silent] * 4, LOST), 1000)) == "s s s"
    assert len(one_by_one(shared(*well[1:]), 1000)) == MANY - 1

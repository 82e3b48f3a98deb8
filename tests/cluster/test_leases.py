"""Dealing tasks to workers: each is done once, small leases, and what is lost is dealt again."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator

from hypothesis import given
from hypothesis import strategies as st

from cts_async.cluster.work import MAX_DEATHS, Leases, LineTasks, Task, tasks_in
from cts_async.datasets.io import NumberedLine
from cts_async.protocol.rejudge import UnreadVerdict


def tasks(n: int, n_questions: int = 0) -> Iterator[Task]:
    for seq in range(n):
        question = seq % n_questions + 1 if n_questions else 0
        yield Task(seq, f"g{seq % 2}", f"i{seq}", 0, None, question=question)


def blocks(n: int, size: int) -> Iterator[LineTasks]:
    """Blocks of `size` lines, which are numbered from 1; every third number is a task's of this stream."""
    lines = [NumberedLine(i + 1, 10 * i, b"%d\n" % i) for i in range(n)]
    for i in range(0, n, size):
        shared = Task(3 * i, "g0", "", 1, None)
        yield LineTasks(shared, 3, UnreadVerdict("gpt", 1, lines[i], True), lines[i : i + size])


def seqs(dealt: Iterable[Task | LineTasks]) -> list[int]:
    return [task.seq for task in tasks_in(dealt)]


def leases(n: int, *workers: str, n_questions: int = 0, in_flight: int = 2) -> Leases:
    made = Leases(tasks(n, n_questions), clock=lambda: 0.0)
    for worker in workers:
        made.joined(worker, in_flight)
    return made


def test_worker_gets_its_work_in_flight_and_a_quarter_in_reserve_oldest_first() -> None:
    dealing = leases(100, "a", "b")
    assert seqs(dealing.deal("a")) == [0, 1, 2]
    assert seqs(dealing.deal("b")) == [3, 4, 5]
    assert dealing.deal("a") == []


def test_last_tasks_are_shared_evenly() -> None:
    dealing = leases(5, "a", "b", in_flight=4)
    assert [seqs(dealing.deal(worker)) for worker in "ab"] == [[0, 1, 2], [3, 4]]


def test_lost_tasks_are_dealt_first_and_marked_as_resumed() -> None:
    dealing = leases(100, "a", "b")
    dealing.deal("a")
    dealing.deal("b")
    dealing.ended("a", [1])
    assert seqs(dealing.lost("a")) == [0, 2]
    dealing.ended("b", [3, 4, 5])
    again = dealing.deal("b")
    assert seqs(again) == [0, 2, 6]
    assert [task.resumed for task in tasks_in(again)] == [True, True, False]


def test_task_that_workers_die_of_comes_last_and_alone() -> None:
    dealing = leases(4)
    for n in range(MAX_DEATHS):
        dealing.joined(f"w{n}", 1)
        assert seqs(dealing.deal(f"w{n}"))[0] == 0
        dealing.ended(f"w{n}", [1, 2])
        dealing.lost(f"w{n}")
    dealing.joined("x", 1)
    assert seqs(dealing.deal("x")) == [3]
    assert dealing.deal("x") == [], "not beside another"
    dealing.ended("x", [3])
    assert seqs(dealing.deal("x")) == [0]
    dealing.ended("x", [0])
    assert dealing.over


def test_dropped_group_is_not_dealt() -> None:
    dealing = leases(8, "a")
    dealing.deal("a")
    dealing.drop("g1")
    assert sorted(dealing.ended("a", [1, 0, 2])) == [0, 1, 2], "what was begun may end"
    assert seqs(dealing.deal("a")) == [4, 6]
    dealing.ended("a", [4, 6])
    assert dealing.over


def test_block_is_split_by_what_a_worker_has_room_for() -> None:
    dealing = Leases(blocks(7, 5), clock=lambda: 0.0)
    dealing.joined("a", 2)
    dealing.joined("b", 2)
    (first,) = dealing.deal("a")
    assert list(tasks_in([pickle.loads(pickle.dumps(first))])) == [
        Task(
            3 * i, "g0", f"line {i + 1}", 1, UnreadVerdict("gpt", 1, NumberedLine(i + 1, 10 * i, line), True)
        )
        for i, line in enumerate([b"0\n", b"1\n", b"2\n"])
    ]
    assert [seqs([task]) for task in dealing.deal("b")] == [[9, 12], [15]]
    assert dealing.n_held("b") == 3
    dealing.ended("a", [3])
    assert seqs(dealing.deal("a")) == [18]


def test_lines_of_a_lost_block_are_dealt_one_by_one() -> None:
    dealing = Leases(blocks(4, 4), clock=lambda: 0.0)
    dealing.joined("a", 4)
    assert seqs(dealing.deal("a")) == [0, 3, 6, 9]
    dealing.ended("a", [3])
    assert seqs(dealing.lost("a")) == [0, 6, 9]
    dealing.joined("b", 4)
    dealt = dealing.deal("b")
    assert [(task.seq, task.id, task.resumed, task.deaths) for task in tasks_in(dealt)] == [
        (0, "line 1", True, 1),
        (6, "line 3", True, 1),
        (9, "line 4", True, 1),
    ]
    assert len(dealt) == 3


@given(
    st.integers(0, 40),
    st.integers(0, 3),
    st.integers(0, 7),
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["deal", "end", "lose"])), max_size=120),
)
def test_every_task_ends_once_whatever_happens(
    n: int, n_questions: int, block: int, steps: list[tuple[int, str]]
) -> None:
    """With a `block`, tasks are lines in blocks of so many; they have no questions."""
    stream = blocks(n, block) if block else tasks(n, n_questions)
    dealing = Leases(stream, clock=lambda: 0.0)
    names = [f"w{i}" for i in range(4)]
    held: dict[str, dict[int, Task]] = {}
    ever_held: dict[int, Task] = {}
    ended: list[int] = []
    finish = [(i % 4, act) for i in range(4 * n + 8) for act in ("deal", "end")]
    for which, act in steps + finish:
        name = names[which]
        if name not in held:
            dealing.joined(name, 2)
            held[name] = {}
        if act == "deal":
            dealt = dealing.deal(name)
            held[name] |= {task.seq: task for task in tasks_in(dealt)}
            assert list(tasks_in(pickle.loads(pickle.dumps(dealt)))) == list(tasks_in(dealt))
            ever_held |= held[name]
            at = [{task.question for task in had.values()} - {0} for had in held.values()]
            assert sum(map(len, at)) == len(set().union(*at)), "a question is with one worker"
        elif act == "end" and held[name]:
            seq = min(held[name])
            del held[name][seq]
            ended += dealing.ended(name, [seq])
        elif act == "lose":
            assert sorted(seqs(dealing.lost(name))) == sorted(held.pop(name))
    assert sorted(ended) == [3 * i if block else i for i in range(n)]
    assert dealing.over
    for seq, task in ever_held.items():
        if block:
            i = seq // 3
            assert task.payload.line == NumberedLine(i + 1, 10 * i, b"%d\n" % i)

"""What is noted of a session's workers."""

from __future__ import annotations

from cts_async.engine.worker_status import WorkerStatus, census


def test_those_that_worked_are_counted_the_lost_apart_and_a_host_once() -> None:
    workers = [
        WorkerStatus("w1", "node-a", 11, "working"),
        WorkerStatus("w2", "node-a", 12, "ended"),
        WorkerStatus("w3", "node-b", 13, "lost"),
        WorkerStatus("w4", "node-c", 14, "idle"),
        WorkerStatus("w5", "", 0, "starting"),
    ]
    assert census(workers) == {"workers": 3, "hosts": 2, "lost": 1}
    assert census([]) == {"workers": 0, "hosts": 0, "lost": 0}

"""Batches of requests in the progress of a command: on its screen, in its plain line, and as the events tell them."""

from __future__ import annotations

from made_live import live, part

from cts_async.engine.events import BatchesInUse, BatchStatus
from cts_async.watch.live import LiveBatch, LiveFile, is_live
from cts_async.watch.progress import Progress, RunGroup
from cts_async.watch.screen import LiveScreen, progress_line


def batch(number: int, n_done: int = 0, state: str = "in_progress") -> LiveBatch:
    return {
        "model": "gpt",
        "id": f"batch_{number}",
        "state": state,
        "n_requests": 1000,
        "n_done": n_done,
        "n_failed": 2,
        "since": 460.0,
    }


def screen(state: LiveFile, width: int = 80, height: int = 20) -> list[str]:
    return [line.plain for line in LiveScreen([state]).lines(width, height)]


def test_screen_has_a_line_for_each_batch_with_its_provider_counts() -> None:
    """Handed in at 460, looked at at 1060: ten minutes ago."""
    state = live([part("judged", 0)], batches=[batch(1, 250), batch(2, state="validating")])
    assert is_live(state)
    lines = screen(state)
    assert lines[1:4] == [
        "batch        state             done  failed  since",
        "gpt batch_1  in_progress  250/1,000       2  10:00",
        "gpt batch_2  validating     0/1,000       2  10:00",
    ]
    assert ", 2 batches: 250 of 2,000 requests done" in progress_line(state)


def test_many_batches_share_the_screen_with_the_totals() -> None:
    state = live([part("judged", 0)], batches=[batch(number) for number in range(1, 9)])
    lines = screen(state, height=12)
    assert [line.split()[1] for line in lines if line.startswith("gpt batch_")] == [
        f"batch_{number}" for number in range(1, 6)
    ]
    assert "3 more batches" in lines
    assert lines[-1] == "0 calls, 0 tokens, 1:00 so far"


def test_events_of_batches_become_those_that_have_not_ended() -> None:
    statuses = [
        BatchStatus("gpt", "batch_1", "completed", 10, 9, 1, 5.0, ended=True),
        BatchStatus("gpt", "", "looked for", 7, 0, 0, 6.0),
    ]
    progress = Progress([RunGroup("judged", 10, ())], clock=lambda: 0.0, wall=lambda: 100.0)
    assert "batches" not in progress.live()
    progress(BatchesInUse("gpt", lambda: statuses))
    assert progress.live()["batches"] == [
        {
            "model": "gpt",
            "id": "",
            "state": "looked for",
            "n_requests": 7,
            "n_done": 0,
            "n_failed": 0,
            "since": 6.0,
        }
    ]

"""What was sent lately is known late rather than early, and not for longer than it matters."""

from __future__ import annotations

from cts_async.cluster.sent_log import SentLog


def test_entries_are_dated_at_the_end_of_their_slot() -> None:
    log = SentLog(60.0)  # slots of a tenth of a second
    log.add(0.02, 1.0, 10.0)
    log.add(0.07, 1.0, 5.0)
    log.add(0.31, 1.0, 1.0)
    (first, requests, tokens), (second, *_) = log.entries()
    assert (round(first, 6), requests, tokens) == (0.1, 2.0, 15.0)
    assert round(second, 6) == 0.4


def test_what_has_left_the_window_is_forgotten() -> None:
    log = SentLog(60.0)
    log.add(0.0, 1.0, 0.0)
    log.add(59.0, 1.0, 0.0)
    assert len(log.entries()) == 2
    log.add(70.0, 1.0, 0.0)
    assert [round(at, 6) for at, *_ in log.entries()] == [59.0, 70.0]

"""What was added in the last minute."""

from __future__ import annotations

from cts_async.report.pace import LastMinute


def test_in_the_first_minute_it_is_all_there_is() -> None:
    sent = LastMinute(100.0, 0)
    assert sent.grown(110.0, 7) == 7
    assert sent.grown(160.0, 20) == 20


def test_what_is_longer_ago_than_a_minute_is_left_out() -> None:
    sent = LastMinute(0.0, 0)
    for second in range(1, 301):  # two a second
        grown = sent.grown(float(second), 2 * second)
    assert grown == 120
    # A pause: nothing is added for a minute.
    assert sent.grown(360.0, 600) == 0


def test_looking_often_changes_nothing_and_keeps_little() -> None:
    sent = LastMinute(0.0, 0)
    for look in range(10_000):
        grown = sent.grown(look / 100, look // 100)
    assert grown in (60, 61)
    assert len(sent._readings) <= 130

"""What goes on, in words and short numbers."""

from __future__ import annotations

import pytest
from made_live import lane, live, part, scored

from cts_async.engine.events import CircuitChanged, LanePaused, LimitLearned, Notice, Stopping
from cts_async.report.live_words import labels, line_of, lines_of, mean_of, notable, number, short, state_of
from cts_async.report.text import duration


def test_line_shows_progress_effort_and_time_left() -> None:
    told = live([part("a", 9, 14, calls=1, tokens=950)])
    assert line_of(told) == "9/14 instances, 1 call, 950 tokens"
    told = live(
        [part("a", 9, 14, n_failed=1, calls=1, replayed=1, retries=2, tokens=1000, **scored(54.2, 3.1))],
        eta_s=750.0,
    )
    assert line_of(told) == (
        "9/14 instances, 1 call, 1 replayed, 2 retries, 1 failed, 1.0k tokens, 12:30 left; mean 54.2 ± 3.1"
    )


def test_of_several_runs_each_has_its_mean() -> None:
    told = live([part("d-orig", 3, **scored(40, 2)), part("d-gpt-k1", 3, **scored(50, 2)), part("d-kimi")])
    assert line_of(told) == "6/30 instances, 0 calls, 0 tokens; orig 40.0 ± 2.0, gpt-k1 50.0 ± 2.0"


def test_of_very_many_runs_the_line_stays_short() -> None:
    told = live([part(f"d-gpt-k{k}", 3, **scored(40, 2)) for k in range(1, 13)])
    assert line_of(told) == "36/120 instances, 0 calls, 0 tokens"


def test_line_shows_the_limits_of_a_budget() -> None:
    told = live(
        [part("run", 0, 4)], spent_usd=0.52, spent_calls=4, spent_tokens=6000.0, max_calls=10, max_usd=2.0
    )
    assert line_of(told) == "0/4 instances, 0 calls, 0 tokens, $0.52 of $2.00, 4 of 10 calls"
    told = live([part("run", 0, 4)], spent_tokens=6000.0, max_tokens=12_000.0)
    assert line_of(told) == "0/4 instances, 0 calls, 0 tokens, 6,000 of 12,000 tokens"


def test_line_without_a_budget_shows_dollars_of_this_session() -> None:
    assert line_of(live([part("a")], spent_usd=0.123456)) == "0/10 instances, 0 calls, 0 tokens, $0.1235"


def test_line_names_the_provider_it_waits_for() -> None:
    told = live([part("a", note="waiting for gpt"), part("b", note="waiting for gpt")])
    assert line_of(told).endswith("0 tokens, waiting for gpt")


def test_a_smoke_test_says_so_beside_its_mean() -> None:
    assert mean_of(part("a", **scored(26.56, 1.0), smoke_test=True)) == "26.6 ± 1.0 (smoke test)"
    assert mean_of(part("a", mean=26.56)) == "26.6"


def test_interval_wider_than_the_scale_is_not_shown() -> None:
    """Of two scores 25 and 41.7: half of it is 12.7 * 8.3 = 105.9."""
    assert mean_of(part("a", **scored(33.3, 105.9, n=2))) == "33.3"
    assert mean_of(part("a", **scored(50.0, 50.0))) == "50.0 ± 50.0"
    assert mean_of(part("a", smoke_test=True)) == ""


def test_plain_lines_have_one_for_each_run_and_provider() -> None:
    busy = lane("gpt", in_flight=3, waiting=7, calls_per_min=1180.0, calls_allowed=1200.0, answers_429=2)
    told = live([part("a", 4, 10, n_failed=1, eta_s=65.0, **scored(50, 5))], [busy], pid=7)
    assert list(lines_of(told)) == [
        "process 7, running for 1:00: 4/10 instances, 0 calls, 1 failed, 0 tokens",
        "a: 4/10, 1 failed, mean 50.0 ± 5.0, 1:05 left",
        "gpt: 3 in flight, 7 waiting, 1,180 calls/min of 1,200, 0 tokens/min, 429s 2",
    ]


def test_from_another_shell_one_sees_that_a_run_is_stopping_and_why() -> None:
    lines = list(lines_of(live([part("a", 4)], pid=7, note="stopping: interrupted")))
    assert lines[:2] == [
        "process 7, running for 1:00: 4/10 instances, 0 calls, 0 tokens",
        "stopping: interrupted",
    ]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, ""),
        ({"paused_s": 12.3}, "waiting 12 s"),
        ({"open_s": 34.0, "reason": "HTTP 503"}, "outage, next probe in 34 s: HTTP 503"),
        ({"open_s": 0.0, "reason": "HTTP 503"}, "outage, probing: HTTP 503"),
        ({"reason": "HTTP 401"}, "gone: HTTP 401"),
        ({"open_s": 34.0, "reason": "gpt: HTTP 503"}, "outage, next probe in 34 s: HTTP 503"),
        ({"reason": "gpt: HTTP 401"}, "gone: HTTP 401"),
    ],
)
def test_held_back_provider_shows_the_reason(fields: dict[str, object], words: str) -> None:
    assert state_of(lane("gpt", **fields)) == words


def test_notable_events_are_sentences() -> None:
    learned = "gpt: the server reports a limit of 1,200 requests per minute"
    assert notable(LimitLearned("gpt", "requests", 1200.0)) == learned
    assert notable(Notice("line 3 is damaged")) == "line 3 is damaged"
    assert notable(LanePaused("gpt", 0.5)) is None
    assert notable(CircuitChanged("gpt", open=True, reason="503")) == "gpt: outage, waiting (503)"
    assert notable(CircuitChanged("gpt", open=True, reason="gpt: 503")) == "gpt: outage, waiting (503)"
    assert notable(Stopping("no money")) == "stopping: no money"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        *((0, "0"), (950, "950"), (999.6, "1.0k"), (1200, "1.2k"), (9_949, "9.9k"), (12_345, "12k")),
        *((999_400, "999k"), (999_600, "1.0M"), (3_440_000, "3.4M"), (2e9, "2.0G")),
    ],
)
def test_numbers_are_short(value: float, said: str) -> None:
    assert short(value) == said


def test_small_numbers_are_written_in_full() -> None:
    assert [number(value) for value in (0, 1180, 9_999.4, 9_999.6)] == ["0", "1,180", "9,999", "10k"]


def test_durations_read_as_on_a_clock() -> None:
    assert [duration(s) for s in (None, 0.4, 65, 3599.6, 7507)] == ["", "0:00", "1:05", "1:00:00", "2:05:07"]


def test_labels_drop_common_words() -> None:
    names = ["qulac-talk-gpt-cot-select-k3+support-kimi", "qulac-talk-gpt-at-cot-respond-k3+support-kimi"]
    assert list(labels(names).values()) == ["cot-select-k3", "at-cot-respond-k3"]
    assert labels(["qulac-orig+agent-a", "qulac-gpt-k1+all-a"]) == {
        "qulac-orig+agent-a": "orig+agent-a",
        "qulac-gpt-k1+all-a": "gpt-k1+all-a",
    }
    assert labels(["qulac-gpt-k1+all-a"]) == {"qulac-gpt-k1+all-a": "qulac-gpt-k1+all-a"}
    assert labels(["a", "a-b"]) == {"a": "a", "a-b": "a-b"}

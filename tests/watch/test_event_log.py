"""The lines of --log and --verbose: what they say, and what never gets into them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cts_async.engine.events import (
    AttemptFailed,
    BudgetUsed,
    CircuitChanged,
    Cost,
    Event,
    GroupHeldUp,
    JobEnded,
    JobsFound,
    LaneInUse,
    LanePaused,
    LaneStatus,
    LimitLearned,
    Notice,
    StepEnded,
    Stopping,
    Usage,
)
from cts_async.errors import RejectedError, UsageError
from cts_async.llm.redact import SECRETS
from cts_async.watch.event_log import MAX_CHARS, LogFile, event_line, logging_to, verbose_to

KEY = "sk-log-7Yw2Qm9XkR4tV8zB"
LANE = LaneStatus("gpt", 1, 0, 8, 1, 0.0, 500.0, None, 0, 0.0, None, "", False)
FAILURE = RejectedError("HTTP 400: no")
FAILURE.step = "rewrite"

LINES: list[tuple[Event, str]] = [
    (
        StepEnded("r-k1", "s01", "clarify", "gpt", False, 1.234, Usage(120, 30), 0.0005),
        "r-k1 s01 clarify: 1.23 s, 120 + 30 tokens, $0.00050 (gpt)",
    ),
    (
        StepEnded("r-k1", "s01", "rewrite", "gpt", True, 0.0, Usage(9, 9)),
        "r-k1 s01 rewrite: from the journal",
    ),
    (StepEnded("r-k1", "s01", "search/tool/1", "", False, 0.5, Usage()), "r-k1 s01 search/tool/1: 0.50 s"),
    (
        AttemptFailed("r-k1", "s01", "judge", "gpt", "rate_limited", "gpt: HTTP 429: slow down", 1.25),
        "r-k1 s01 judge (gpt): retry in 1.2 s: rate_limited: gpt: HTTP 429: slow down",
    ),
    (
        AttemptFailed("r-k1", "s\n\x1b[2J", "judge", "", "rejected", f"you sent {KEY}", None),
        "r-k1 s??[2J judge: no further attempt: rejected: you sent (key)",
    ),
    (JobEnded("r-k1", "s01", None), "r-k1 s01: done"),
    (JobEnded("r-k1", "s02", FAILURE), "r-k1 s02: failed at rewrite: rejected: HTTP 400: no"),
    (JobsFound("r-k1", 3, 1), "r-k1: 3 instances done before, 1 of them failed"),
    (JobsFound("r-k1", 0), ""),
    (LaneInUse("gpt", lambda: LANE), "gpt: first request; 500 requests a minute, 8 at once for now"),
    (LanePaused("gpt", 0.25), "gpt: rate limited (429), pausing 0.2 s"),
    (LimitLearned("gpt", "tokens", 30_000), "gpt: the server reports a limit of 30,000 tokens per minute"),
    (CircuitChanged("gpt", open=True, reason="503"), "gpt: outage, waiting (503)"),
    (GroupHeldUp("r-k1", "gpt"), "r-k1: waiting for gpt"),
    (Stopping("a budget is spent"), "stopping: a budget is spent"),
    (Notice("hello"), "hello"),
    (BudgetUsed(Cost(), None, None, None), ""),
]


def test_each_event_is_a_line_without_keys_and_control_characters() -> None:
    SECRETS.add(KEY)
    assert [event_line(event) for event, _ in LINES] == [line for _, line in LINES]
    long = AttemptFailed("g", "i", "s", "", "k", "x" * 9_000, None)
    assert len(event_line(long)) == MAX_CHARS
    shown: list[str] = []
    tell = verbose_to(shown.append)
    for event, _ in LINES:
        tell(event)
    everybody = ("outage", "limit of", "stopping", "hello")
    expected = [line for _, line in LINES if line and not any(word in line for word in everybody)]
    assert [line[9:] for line in shown] == expected, "the others are notices already"


def test_log_is_appended_with_times_and_never_through_a_link(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    for _ in range(2):
        with logging_to(path, pytest.fail) as log:
            log._wall = lambda: 1_924_959_845.5
            log(Stopping("Ctrl-C"))
            log(Notice("on"))
    assert path.read_text().splitlines()[:2] == [
        "2030-12-31T15:04:05.500Z WARN stopping: Ctrl-C",
        "2030-12-31T15:04:05.500Z INFO on",
    ]
    assert len(path.read_text().splitlines()) == 6
    (tmp_path / "link").symlink_to(path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    own = (tmp_path / "run" / "steps.jsonl", "is among a run's own files")
    for place, problem in (
        own,
        (tmp_path / "link", "is a symbolic link"),
        (tmp_path / "no/log", "No such file"),
    ):
        with pytest.raises(UsageError, match=problem), logging_to(place, pytest.fail):
            pass


def test_full_disk_ends_the_log_with_one_notice() -> None:
    notices: list[str] = []
    log = LogFile(os.open("/dev/full", os.O_WRONLY), notices.append)
    for _ in range(3):
        log(Notice("on"))
    assert notices == ["logging stopped: cannot write (No space left on device)"]

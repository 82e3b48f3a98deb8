"""What is shown while a run goes on, from the events it emits."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from cts_async.cli import main
from cts_async.cli.progress import Tally, labels, notable, shown
from cts_async.engine.events import (
    AttemptFailed,
    CircuitChanged,
    GroupHeldUp,
    JobEnded,
    JobsFound,
    JobStarted,
    LimitLearned,
    Notice,
    StepEnded,
    Usage,
)
from cts_async.errors import ProviderRefused, RejectedError


def test_a_resumed_run_begins_where_it_stopped() -> None:
    tally = Tally({"a": 10, "b": 4})
    tally.take(JobsFound("a", 7))
    assert tally.line() == "7/14 instances, 0 calls, 0.0k tokens"
    tally.take(JobEnded("a", "q8", None, None))
    tally.take(JobEnded("b", "q1", None, RejectedError("no")))
    tally.take(StepEnded("a", "q8", "clarify", "gpt", False, 0.5, Usage(900, 100)))
    tally.take(StepEnded("a", "q8", "rewrite", "gpt", True, 0.0, Usage()))
    tally.take(StepEnded("a", "q8", "search/tool/1", "", False, 0.1, Usage()))
    assert tally.line() == "9/14 instances, 1 calls, 1 remembered, 1 failed, 1.0k tokens"


def test_what_happens_all_the_time_is_only_counted() -> None:
    routine = [
        JobStarted("a", "q1"),
        JobEnded("a", "q1", None, None),
        StepEnded("a", "q1", "clarify", "gpt", False, 0.5, Usage()),
    ]
    assert [notable(event) for event in routine] == [None, None, None]
    learned = "gpt: its answers name a limit of 1,200 requests a minute"
    assert notable(LimitLearned("gpt", "requests", 1200.0)) == learned
    assert notable(Notice("line 3 is damaged")) == "line 3 is damaged"


def test_a_bar_says_whom_its_run_waits_for() -> None:
    tally = Tally({"orig": 2, "gpt-k1": 2})
    tally.take(StepEnded("orig", "q1", "search/turn/1", "webdancer", False, 0.5, Usage()))
    tally.take(AttemptFailed("gpt-k1", "q1", "answer/1", "ernie", "transient", "503", 1.0))
    assert (tally.note("orig"), tally.note("gpt-k1")) == ("", "")
    tally.take(CircuitChanged("ernie", open=True, reason="503"))
    assert (tally.note("orig"), tally.note("gpt-k1")) == ("", "waiting for ernie")
    tally.take(CircuitChanged("ernie", open=False, reason="back"))
    assert tally.note("gpt-k1") == ""


def test_a_bar_that_will_not_move_says_why_beside_what_failed() -> None:
    tally = Tally({"gpt-k1": 2})
    tally.take(JobEnded("gpt-k1", "q1", None, RejectedError("no")))
    tally.take(CircuitChanged("ernie", open=True, reason="503"))
    tally.take(GroupHeldUp("gpt-k1", "ernie"))
    assert tally.note("gpt-k1") == "1 failed, held up: ernie is gone"


def test_a_finished_run_waits_for_nobody() -> None:
    tally = Tally({"orig": 1})
    tally.take(StepEnded("orig", "q1", "search/turn/1", "webdancer", False, 0.5, Usage()))
    tally.take(JobEnded("orig", "q1", None, None))
    tally.take(CircuitChanged("webdancer", open=True, reason="503"))
    assert tally.note("orig") == ""


HOSTILE = "gpt: HTTP 401: \x1b]0;owned\x07\x1b[2Jno\x9b1A"


def test_names_are_told_apart_by_what_they_do_not_share() -> None:
    names = ["qulac-talk-gpt-cot-select-k3+support-kimi", "qulac-talk-gpt-at-cot-respond-k3+support-kimi"]
    assert list(labels(names).values()) == ["cot-select-k3", "at-cot-respond-k3"]
    assert labels(["qulac-orig+agent-a", "qulac-gpt-k1+all-a"]) == {
        "qulac-orig+agent-a": "orig+agent-a",
        "qulac-gpt-k1+all-a": "gpt-k1+all-a",
    }
    assert labels(["qulac-gpt-k1+all-a"]) == {"qulac-gpt-k1+all-a": "qulac-gpt-k1+all-a"}
    assert labels(["a", "a-b"]) == {"a": "a", "a-b": "a-b"}


@pytest.mark.parametrize("runs", [1, 2])
def test_counts_are_seen_on_80_columns_however_long_the_names(runs: int) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, color_system=None)
    names = [f"qulac-talk-gpt-{scheme}-respond-k3+support-kimi" for scheme in ("at-standard", "cot")][:runs]
    with shown(console, dict.fromkeys(names, 717)) as told:
        told(JobsFound(names[0], 123))
        told(StepEnded(names[0], "1-1", "clarify/1", "gpt", True, 0.0, Usage()))
        told(AttemptFailed(names[0], "1-1", "answer/1", "kimi", "transient", "503", 1.0))
        told(CircuitChanged("kimi", open=True, reason="503"))
    last = out.getvalue().rpartition("kimi: outage")[2]
    for wanted in ("123/717", "waiting for kimi", "0 calls, 1 remembered, 1 retries, 0.0k tokens"):
        assert wanted in last
    assert ("at-standard-respond-k3 " in last) is (runs == 2)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_server_s_words_never_move_the_cursor(terminal: bool) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, color_system=None, width=100)
    with shown(console, {"a": 1}, quiet=False) as bars:
        bars(CircuitChanged("gpt", open=True, reason=HOSTILE))
    assert "?]0;owned??[2Jno?1A" in out.getvalue()
    assert "\x1b]" not in out.getvalue()
    assert "\x9b" not in out.getvalue()


def test_nor_do_they_in_the_line_that_ends_a_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(**_: object) -> None:
        raise ProviderRefused(HOSTILE)

    monkeypatch.setattr(main, "app", refused)
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 75
    assert capsys.readouterr().err == "cts: gpt: HTTP 401: ?]0;owned??[2Jno?1A\n"

"""What is shown on a command's own terminal while it runs, from the events it emits."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from cts_async.cli import main
from cts_async.cli.drive import LINE_EVERY_S, STILL_HERE_S, PlainLines, shown
from cts_async.engine.events import AttemptFailed, CircuitChanged, JobEnded, JobsFound, StepEnded, Usage
from cts_async.errors import ProviderRefused
from cts_async.report.progress import Progress, RunGroup

HOSTILE = "gpt: HTTP 401: \x1b]0;owned\x07\x1b[2Jno\x9b1A"


def doing(*names: str, n: int = 717) -> Progress:
    return Progress([RunGroup(name, n, ()) for name in names])


@pytest.mark.parametrize("runs", [1, 2])
def test_counts_are_seen_on_80_columns_however_long_the_names(runs: int) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, height=24, color_system=None)
    names = [f"qulac-talk-gpt-{scheme}-respond-k3+support-kimi" for scheme in ("at-standard", "cot")][:runs]
    told = doing(*names)
    with shown(console, told):
        told(JobsFound(names[0], 123))
        told(StepEnded(names[0], "1-1", "clarify/1", "gpt", True, 0.0, Usage()))
        told(AttemptFailed(names[0], "1-1", "answer/1", "kimi", "transient", "503", 1.0))
        told(CircuitChanged("kimi", open=True, reason="503"))
    last = out.getvalue().rpartition("kimi: outage")[2]
    for wanted in ("123/717", "waiting for kimi", "0 calls, 1 replayed, 1 retry, 0 tokens"):
        assert wanted in last
    assert ("at-standard-respond" in last) is (runs == 2)


def test_the_screen_is_gone_when_the_command_has_ended_and_what_was_said_stays() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, height=24, color_system=None)
    told = doing("a")
    with shown(console, told):
        told(CircuitChanged("kimi", open=True, reason="503"))
    assert out.getvalue().count("kimi: outage, waiting (503)") == 1
    # One line for the bar and one for what it took: both are erased.
    assert out.getvalue().rpartition("0 tokens")[2].count("\x1b[2K") >= 2


def test_a_window_that_became_narrower_leaves_no_pieces_behind() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=120, height=24, color_system=None)
    told = doing("qulac-talk-gpt-at-standard-respond-k3")
    with shown(console, told):
        console.width = 50
    # A bar's line of 79 columns was wrapped by the terminal: one more line is erased than was drawn.
    assert "\x1b[2K\x1b[1A" in out.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_a_server_s_words_never_move_the_cursor(terminal: bool) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, color_system=None, width=100)
    told = doing("a", n=1)
    with shown(console, told):
        told(CircuitChanged("gpt", open=True, reason=HOSTILE))
    assert "?]0;owned??[2Jno?1A" in out.getvalue()
    assert "\x1b]" not in out.getvalue()
    assert "\x9b" not in out.getvalue()


def test_a_terminal_that_cannot_move_its_cursor_gets_plain_lines() -> None:
    out = io.StringIO()
    told = doing("a")
    with shown(Console(file=out, force_terminal=True, _environ={"TERM": "dumb"}), told):
        told(CircuitChanged("gpt", open=True, reason="503"))
    assert out.getvalue() == "gpt: outage, waiting (503)\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_what_was_said_last_is_seen_whatever_ends_the_command(terminal: bool) -> None:
    out = io.StringIO()
    told = doing("a")
    console = Console(file=out, force_terminal=terminal, width=80, height=24)

    def interrupted() -> None:
        with shown(console, told):
            told(CircuitChanged("gpt", open=True, reason="503"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert out.getvalue().count("gpt: outage, waiting (503)") == 1


def test_quiet_says_nothing() -> None:
    out = io.StringIO()
    told = doing("a")
    with shown(Console(file=out, force_terminal=True), told, quiet=True):
        told(CircuitChanged("gpt", open=True, reason="503"))
    assert out.getvalue() == ""


class Plain:
    """Plain lines on a clock that is moved by hand."""

    def __init__(self) -> None:
        self.out, self.now = io.StringIO(), 0.0
        self.told = Progress([RunGroup("a", 4, ())], clock=lambda: self.now)
        console = Console(file=self.out, width=60, color_system=None)
        self.lines = PlainLines(console, self.told, clock=lambda: self.now)

    def after(self, seconds: float) -> list[str]:
        """What is said when so much time has passed."""
        self.now += seconds
        self.lines.tick()
        said = self.out.getvalue()
        self.out.seek(0)
        self.out.truncate()
        return said.splitlines()


def test_where_there_is_no_terminal_a_line_comes_every_few_seconds() -> None:
    plain = Plain()
    assert plain.after(LINE_EVERY_S - 1) == []
    assert plain.after(1) == ["0/4 instances, 0 calls, 0 tokens"]
    plain.told(JobEnded("a", "q1", None, None))
    assert plain.after(1) == []
    assert plain.after(LINE_EVERY_S) == ["1/4 instances, 0 calls, 0 tokens"]


def test_news_comes_at_once_and_counts_as_a_line() -> None:
    plain = Plain()
    plain.told(CircuitChanged("gpt", open=True, reason="503"))
    assert plain.after(LINE_EVERY_S - 1) == ["gpt: outage, waiting (503)"]
    assert plain.after(LINE_EVERY_S - 1) == []


def test_where_nothing_moves_it_says_so_once_a_minute() -> None:
    plain = Plain()
    assert len(plain.after(LINE_EVERY_S)) == 1
    assert plain.after(STILL_HERE_S - 1) == []
    assert plain.after(1) == ["0/4 instances, 0 calls, 0 tokens"]


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

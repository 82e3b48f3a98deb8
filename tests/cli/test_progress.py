"""What a command shows on its own terminal while it runs, from the events it emits."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from cts_async.cli import main
from cts_async.cli.drive import LINE_EVERY_S, STILL_HERE_S, PlainLines, shown
from cts_async.engine.events import AttemptFailed, CircuitChanged, JobEnded, JobsFound, StepEnded, Usage
from cts_async.errors import ProviderRefused
from cts_async.watch.progress import Progress, RunGroup

HOSTILE = "gpt: HTTP 401: \x1b]0;owned\x07\x1b[2Jno\x9b1A"
HARMLESS = "?]0;owned??[2Jno?1A"


def progress_of(*names: str, n: int = 717) -> Progress:
    return Progress([RunGroup(name, n, ()) for name in names])


def console_of(width: int = 80, *, terminal: bool = True) -> tuple[Console, io.StringIO]:
    """A console of 24 lines, and what is printed on it."""
    out = io.StringIO()
    return Console(file=out, force_terminal=terminal, width=width, height=24, color_system=None), out


@pytest.mark.parametrize("runs", [1, 2])
def test_counts_are_visible_on_80_columns_however_long_the_names(runs: int) -> None:
    console, out = console_of()
    names = [f"qulac-talk-gpt-{scheme}-respond-k3+support-kimi" for scheme in ("at-standard", "cot")][:runs]
    progress = progress_of(*names)
    with shown(console, progress):
        progress(JobsFound(names[0], 123))
        progress(StepEnded(names[0], "1-1", "clarify/1", "gpt", True, 0.0, Usage()))
        progress(AttemptFailed(names[0], "1-1", "answer/1", "kimi", "transient", "503", 1.0))
        progress(CircuitChanged("kimi", open=True, reason="503"))
    assert out.getvalue().count("kimi: outage, waiting (503)") == 1, "the notice stays"
    last = out.getvalue().rpartition("kimi: outage")[2]
    for wanted in ("123/717", "waiting for kimi", "0 calls, 1 replayed, 1 retry, 0 tokens"):
        assert wanted in last
    assert ("at-standard-respond" in last) is (runs == 2)
    # The screen is erased at the end: at least one line for the bar and one for the counts.
    assert last.rpartition("0 tokens")[2].count("\x1b[2K") >= 2


def test_narrowed_window_is_left_without_remnants() -> None:
    console, out = console_of(120)
    with shown(console, progress_of("qulac-talk-gpt-at-standard-respond-k3")):
        console.width = 50
    # A bar's line of 79 columns was wrapped by the terminal: one more line is erased than was drawn.
    assert "\x1b[2K\x1b[1A" in out.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_last_notice_is_shown_without_control_characters_after_an_interrupt(terminal: bool) -> None:
    console, out = console_of(100, terminal=terminal)
    progress = progress_of("a", n=1)

    def interrupted() -> None:
        with shown(console, progress):
            progress(CircuitChanged("gpt", open=True, reason=HOSTILE))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert out.getvalue().count(HARMLESS) == 1
    assert "\x1b]" not in out.getvalue()
    assert "\x9b" not in out.getvalue()


def test_dumb_terminal_gets_plain_lines_and_quiet_nothing() -> None:
    for quiet, said in ((False, "gpt: outage, waiting (503)\n"), (True, "")):
        out, progress = io.StringIO(), progress_of("a")
        console = Console(file=out, force_terminal=True, _environ={"TERM": "dumb"})
        with shown(console, progress, quiet=quiet):
            progress(CircuitChanged("gpt", open=True, reason="503"))
        assert out.getvalue() == said


def test_plain_lines_appear_every_few_seconds_or_once_a_minute_without_change() -> None:
    out, now = io.StringIO(), 0.0
    progress = Progress([RunGroup("a", 4, ())], clock=lambda: now)
    lines = PlainLines(Console(file=out, width=60, color_system=None), progress, clock=lambda: now)

    def after(seconds: float) -> list[str]:
        """What is printed when so much time has passed."""
        nonlocal now
        now += seconds
        before = len(out.getvalue())
        lines.tick()
        return out.getvalue()[before:].splitlines()

    assert after(LINE_EVERY_S - 1) == []
    assert after(1) == ["0/4 instances, 0 calls, 0 tokens"]
    progress(JobEnded("a", "q1", None))
    assert after(1) == []
    assert after(LINE_EVERY_S) == ["1/4 instances, 0 calls, 0 tokens"]
    progress(CircuitChanged("gpt", open=True, reason="503"))
    assert after(LINE_EVERY_S - 1) == ["gpt: outage, waiting (503)"], "a notice comes at once"
    assert after(LINE_EVERY_S - 1) == [], "and counts as a line"
    silent_s = LINE_EVERY_S - 1
    assert after(STILL_HERE_S - silent_s - 1) == []
    assert len(after(1)) == 1


def test_error_at_the_end_has_no_control_characters(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(**_: object) -> None:
        raise ProviderRefused(HOSTILE)

    monkeypatch.setattr(main, "app", refused)
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 75
    assert capsys.readouterr().err == f"cts: gpt: HTTP 401: {HARMLESS}\n"

"""The results on a terminal: every system under every judge, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from cts_async.analysis.bootstrap import Difference, paired_difference
from cts_async.report.agreement import sentence, together
from cts_async.report.folded import Folded
from cts_async.report.plain import plain
from cts_async.report.served_models import other_models
from cts_async.report.summary import JudgeScores, RunSummary
from cts_async.report.whole_table import print_whole
from cts_async.scorer import Summary

TITLE = "restore_score_100"
HEADINGS = ("mean", "Δ orig [95 % CI]", "p50", "p90", "scored", "failed")
WIDE = 100
SMOKE_TEST = (
    "Smoke test: a role was played by the small embedded model. Its scores show that everything works; "
    "they say nothing about clarification."
)


def print_results(console: Console, summaries: Sequence[RunSummary]) -> None:
    """A table of restore_score_100 with differences to `orig`, what each system cost, how judges agree, failures.

    From WIDE columns on the cost stands in the table, else in lines of its own, so that 80 are enough.
    """
    wide = console.width >= WIDE
    table = Table(
        title=TITLE,
        title_justify="left",
        header_style="bold",
        box=SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1 if wide else 0),
        pad_edge=False,
    )
    table.add_column("system", overflow="fold", min_width=8)
    table.add_column("judge", overflow="fold", min_width=7)
    for heading in (*HEADINGS, *(("calls", "time") if wide else ())):
        table.add_column(heading, justify="right", no_wrap=True)
    orig = next((s for s in summaries if s.label == "orig"), None)
    for summary in summaries:
        effort = (str(summary.spent.calls), _duration(summary.wall_s)) if wide else ()
        for label, *cells in _rows(summary, orig if orig is not summary else None):
            table.add_row(Folded(label), *cells, *(effort if label else ()))
        table.add_section()
    print_whole(console, table)
    if not wide:
        for summary in summaries:
            effort_text = f"{summary.spent.calls} calls in {_duration(summary.wall_s)}"
            console.print(f"{summary.label}: {effort_text}", markup=False, highlight=False, soft_wrap=True)
    for line in other_models(summaries):
        console.print(line, style="yellow", markup=False, highlight=False, soft_wrap=True)
    for agreement in together(one for summary in summaries for one in summary.beside):
        console.print(f"{sentence(agreement)}.", markup=False, highlight=False, soft_wrap=True)
    _print_tool_health(console, summaries)
    print_failures(console, summaries)


def _rows(summary: RunSummary, orig: RunSummary | None) -> Iterator[tuple[str, ...]]:
    """A row of text for each judge; the system's label stands in the first one only."""
    if not summary.judges:
        scored = f"0/{summary.n_expected}"
        yield summary.label, "not judged", "-", "-", "-", "-", scored, str(len(summary.failures))
    for i, scores in enumerate(summary.judges):
        delta = difference_to(scores, orig)
        yield ("" if i else summary.label), scores.judge, *_cells(scores.summary, delta)


def difference_to(scores: JudgeScores, orig: RunSummary | None) -> Difference | None:
    """The same judge's paired difference over the instances that both systems have a score for."""
    baseline = next((j for j in orig.judges if j.judge == scores.judge), None) if orig else None
    if baseline is None:
        return None
    return paired_difference(*scores.scores.paired(baseline.scores))


def _cells(summary: Summary, delta: Difference | None) -> tuple[str, ...]:
    return (
        _number(summary.mean),
        f"{delta.mean:+.1f} [{delta.low:+.1f}, {delta.high:+.1f}]" if delta else "-",
        _number(summary.p50),
        _number(summary.p90),
        f"{summary.n_scored}/{summary.n_expected}",
        str(summary.n_failed),
    )


def _print_tool_health(console: Console, summaries: Sequence[RunSummary]) -> None:
    """A line for each system and tool of which something failed: scores fall with it."""
    for summary in summaries:
        for text in summary.tools.lines():
            # Hosts and reasons come from web pages and servers: nothing in them reaches the terminal but text.
            shown = plain(f"{summary.label}: {text}")
            console.print(shown, style="yellow", markup=False, highlight=False, soft_wrap=True)


def print_failures(console: Console, summaries: Sequence[RunSummary], most: int = 10) -> None:
    """The first failures with their reasons, how many more there are, and how they are tried again."""
    n_failed = sum(len(s.failures) for s in summaries)
    for summary, line in islice(((s, line) for s in summaries for line in s.failures), most):
        error = line["error"]
        console.print(
            plain(f"failed: {summary.directory.name} {line['id']} at {error['step']}: {error['message']}"),
            style="red",
            markup=False,
            highlight=False,
        )
    if n_failed > most:
        console.print(f"... and {n_failed - most} more in results.jsonl", style="red")
    if n_failed:
        console.print("The same command with --retry-failed tries these again.")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"

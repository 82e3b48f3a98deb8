"""The results on a terminal: every system under every judge, side by side."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from cts_async.analysis.bootstrap import Difference, paired_difference
from cts_async.report.summary import JudgeScores, RunSummary
from cts_async.scorer import Summary

SMOKE_TEST = (
    "Smoke test: a role was played by the small embedded model. Its scores show that everything works; "
    "they say nothing about clarification."
)


def print_results(console: Console, summaries: Sequence[RunSummary]) -> None:
    """A table of restore_score_100 with differences to `orig`, then failures."""
    table = Table(title="restore_score_100", title_justify="left", header_style="bold")
    for heading in ("system", "judge"):
        table.add_column(heading)
    for heading in ("mean", "Δ orig [95 % CI]", "p50", "p90", "scored", "failed", "expected"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("calls", "time"):
        table.add_column(heading, justify="right")
    orig = next((s for s in summaries if s.label == "orig"), None)
    for summary in summaries:
        for i, scores in enumerate(summary.judges):
            effort = (str(summary.spent.calls), _duration(summary.wall_s)) if i == 0 else ("", "")
            label = summary.label if i == 0 else ""
            delta = difference_to(scores, orig if orig is not summary else None)
            table.add_row(label, scores.judge, *_cells(scores.summary, delta), *effort)
        if not summary.judges:
            counts = ("-", "-", "-", "-", "0", str(len(summary.failures)), str(summary.n_expected))
            table.add_row(
                summary.label, "not judged", *counts, str(summary.spent.calls), _duration(summary.wall_s)
            )
        table.add_section()
    console.print(table)
    _print_failures(console, summaries)


def difference_to(scores: JudgeScores, orig: RunSummary | None) -> Difference | None:
    """The same judge's paired difference over the instances that both systems have a score for."""
    baseline = next((j for j in orig.judges if j.judge == scores.judge), None) if orig else None
    if baseline is None:
        return None
    both = [id for id in scores.scores if id in baseline.scores]
    return paired_difference([scores.scores[id] for id in both], [baseline.scores[id] for id in both])


def _cells(summary: Summary, delta: Difference | None) -> tuple[str, ...]:
    return (
        _number(summary.mean),
        f"{delta.mean:+.1f} [{delta.low:+.1f}, {delta.high:+.1f}]" if delta else "-",
        _number(summary.p50),
        _number(summary.p90),
        str(summary.n_scored),
        str(summary.n_failed),
        str(summary.n_expected),
    )


def _print_failures(console: Console, summaries: Sequence[RunSummary], most: int = 10) -> None:
    failures = [(s, line) for s in summaries for line in s.failures]
    for summary, line in failures[:most]:
        error = line["error"]
        console.print(
            f"failed: {summary.directory.name} {line['id']} at {error['step']}: {error['message']}",
            style="red",
            markup=False,
            highlight=False,
        )
    if len(failures) > most:
        console.print(f"... and {len(failures) - most} more in results.jsonl", style="red")
    if failures:
        console.print("The same command with --retry-failed tries these again.")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"

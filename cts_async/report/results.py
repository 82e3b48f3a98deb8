"""The results on a terminal: every system under every judge, side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import islice

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from cts_async.analysis.resampling import Difference, paired_difference
from cts_async.llm.model import is_other_model, printable
from cts_async.protocol.results import Line
from cts_async.protocol.run_files import JUDGMENTS, PER_ITEM, RESULTS, results_of
from cts_async.report.summary import JudgeScores, RunSummary, agreement_sentence, pooled_agreements
from cts_async.report.tables import SHORT_MARK, SHORT_NOTE, Folded, print_whole, with_interval
from cts_async.report.text import duration, plain
from cts_async.scorer import Summary

# Models that answered in place of the one asked for, and parameters that servers refused. A reply that does not name its
# model counts as the model asked for.


def other_models(summaries: Sequence[RunSummary]) -> Iterator[str]:
    """Yield a line for each (requested, served) pair of different models, over all runs."""
    replies: Counter[str] = Counter()
    others: dict[tuple[str, str], Counter[str]] = {}
    for summary in summaries:
        for asked, served in summary.spent.served.items():
            replies[asked] += served.total()
            for model, n in served.items():
                if is_other_model(asked, model):
                    others.setdefault((asked, model), Counter())[summary.label] += n
    for (asked, model), runs in others.items():
        share = f"{runs.total()} of {replies[asked]} replies"
        yield f"Another model: {printable(model)} gave {share} that {printable(asked)} was asked for ({', '.join(runs)})"


def dropped_parameters(summaries: Sequence[RunSummary]) -> Iterator[str]:
    """Yield a line for each model and parameter that its server refused, over all runs."""
    replies: Counter[tuple[str, str]] = Counter()
    of: Counter[str] = Counter()
    for summary in summaries:
        for model, dropped in summary.spent.dropped.items():
            replies.update({(model, name): n for name, n in dropped.items()})
        of.update({model: served.total() for model, served in summary.spent.served.items()})
    for (model, name), n in replies.items():
        yield f"Without {printable(name)}: {printable(model)} refuses it, {n} of {of[model]} replies were made without"


# Scores, costs and failures

TITLE = "restore_score_100"
HEADINGS = ("mean", "Δ orig [95 % CI]", "p50", "p90", "scored", "failed")
WIDE = 100
MOST_FAILURES = 10
RETRIED = "The same command with --retry-failed retries these."
SMOKE_TEST = (
    "Smoke test: a role was played by the small embedded model. Its scores show that everything works; "
    "they say nothing about clarification."
)


def print_results(console: Console, summaries: Sequence[RunSummary]) -> None:
    """Print scores, then failures: the result of a command that made runs."""
    print_scores(console, summaries)
    print_failures(console, summaries)


def print_judged(console: Console, summaries: Sequence[RunSummary], judges: Collection[str]) -> None:
    """Print scores, then failures: the result of a command that had answers judged by these judges.

    Instances that failed in their runs are only counted: they have no answer, and the runs' own command retries them.
    """
    print_scores(console, summaries)
    runs = [one for one in summaries if results_of(one.directory) == RESULTS]
    _print_some(console, [(one, one.failures) for one in summaries if one not in runs], PER_ITEM, RETRIED)
    further = [(one, own.failures) for one in summaries for own in one.judges if own.judge in judges]
    _print_some(console, further, JUDGMENTS, "The same command retries these.")
    if n := sum(len(one.failures) for one in runs):
        instances = "1 instance" if n == 1 else f"{n:,} instances"
        text = f"Not judged: {instances} that failed in the runs; the runs' command with --retry-failed retries them."
        console.print(text, highlight=False, soft_wrap=True)


def print_scores(console: Console, summaries: Sequence[RunSummary]) -> None:
    """Print restore_score_100 with differences to orig, costs, agreement of judges and failures of tools.

    From WIDE columns on costs are columns of the table, else separate lines, so that 80 columns are enough.
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
    short = False
    for summary in summaries:
        effort = (str(summary.spent.calls), duration(summary.wall_s)) if wide else ()
        for label, judge, *cells in _rows(summary, orig if orig is not summary else None):
            short = short or cells[1].endswith(SHORT_MARK)
            # Names in a run's files are untrusted text.
            table.add_row(Folded(plain(label)), Folded(plain(judge)), *cells, *(effort if label else ()))
        table.add_section()
    print_whole(console, table)
    if short:
        _say(console, SHORT_NOTE)
    _print_failed_as_0(console, summaries)
    if not wide:
        for summary in summaries:
            _say(console, f"{summary.label}: {summary.spent.calls} calls in {duration(summary.wall_s)}")
    for line in (*other_models(summaries), *dropped_parameters(summaries)):
        _say(console, line, "yellow")
    for agreement in pooled_agreements(one for summary in summaries for one in summary.judge_pairs):
        _say(console, f"{agreement_sentence(agreement)}.")
    _print_tool_health(console, summaries)


def _print_failed_as_0(console: Console, summaries: Sequence[RunSummary]) -> None:
    """Print the means with failures counted as 0, and warn if systems have different numbers of scores."""
    counts: dict[str, set[int]] = {}
    for summary in summaries:
        for scores in summary.judges:
            of = scores.summary
            counts.setdefault(scores.judge, set()).add(of.n_scored)
            if of.n_failed and of.mean_failed_as_0 is not None:
                _say(
                    console,
                    f"{summary.label}, {scores.judge}: mean {of.mean:.2f} over {of.n_scored} scored; "
                    f"{of.mean_failed_as_0:.2f} with {of.n_failed} failed counted as 0.",
                )
    if differing := [judge for judge, ns in counts.items() if len(ns) > 1]:
        _say(
            console,
            f"n differs between systems ({', '.join(differing)}): their means are over different instances; Δ is over "
            "the instances that both have.",
            "yellow",
        )


def _rows(summary: RunSummary, orig: RunSummary | None) -> Iterator[tuple[str, ...]]:
    """Yield a row of text for each judge; only the first has the system's label."""
    if not summary.judges:
        scored = f"0/{summary.n_expected}"
        yield summary.label, "not judged", "-", "-", "-", "-", scored, str(len(summary.failures))
    for i, scores in enumerate(summary.judges):
        delta = difference_to(scores, orig)
        yield ("" if i else summary.label), scores.judge, *_cells(scores.summary, delta)


def difference_to(scores: JudgeScores, orig: RunSummary | None) -> Difference | None:
    """Estimate the same judge's paired difference over the instances that both systems have a score for.

    Pairs are resampled in the order of their scores, so that the result does not depend on what finished first.
    """
    import numpy as np

    baseline = next((j for j in orig.judges if j.judge == scores.judge), None) if orig else None
    if baseline is None:
        return None
    own, theirs = scores.scores.paired(baseline.scores)
    order = np.lexsort((theirs, own))
    return paired_difference(own[order], theirs[order])


def _cells(summary: Summary, delta: Difference | None) -> tuple[str, ...]:
    return (
        _number(summary.mean),
        with_interval(delta.mean, delta.low, delta.high, "+.1f", short=delta.too_short) if delta else "-",
        _number(summary.p50),
        _number(summary.p90),
        f"{summary.n_scored}/{summary.n_expected}",
        str(summary.n_failed),
    )


def _print_tool_health(console: Console, summaries: Sequence[RunSummary]) -> None:
    """Print a line for each system and tool with failures, which lower scores."""
    for summary in summaries:
        for text in summary.tools.lines():
            # Hosts and reasons come from web pages and servers: untrusted text.
            _say(console, f"{summary.label}: {text}", "yellow")


def print_failures(console: Console, summaries: Sequence[RunSummary]) -> None:
    """Print the first failures with their reasons, how many more there are, and how to retry them."""
    _print_some(console, [(one, one.failures) for one in summaries], RESULTS, RETRIED)


def _print_some(
    console: Console, failures: Sequence[tuple[RunSummary, Sequence[Line]]], where: str, then: str
) -> None:
    """Print the first MOST_FAILURES, the file (`where`) with all of them, and how to retry them (`then`)."""
    n_failed = sum(len(lines) for _, lines in failures)
    for summary, line in islice(((one, line) for one, lines in failures for line in lines), MOST_FAILURES):
        error = line["error"]
        text = plain(f"failed: {summary.directory.name} {line['id']} at {error['step']}: {error['message']}")
        console.print(text, style="red", markup=False, highlight=False)
    if n_failed > MOST_FAILURES:
        console.print(f"... and {n_failed - MOST_FAILURES} more in {where}", style="red")
    if n_failed:
        console.print(then)


def _say(console: Console, text: str, style: str = "") -> None:
    """Print a line of untrusted text, without markup or control characters."""
    console.print(plain(text), style=style, markup=False, highlight=False, soft_wrap=True)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"

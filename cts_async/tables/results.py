"""The results on a terminal: every system under every judge, side by side."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, Final

from rich.console import Console

from cts_async.analysis.retrieval import TurnRetrieval
from cts_async.analysis.stats import Difference, paired_difference
from cts_async.analysis.summary import JudgeScores, RunSummary, pooled_agreements
from cts_async.analysis.tool_health import MOST, ranked
from cts_async.llm.model import is_other_model, printable_name
from cts_async.records import MADE_UP, SMOKE_TEST, Caveat, caveats_in
from cts_async.runs.cut_prompts import cut_prompt_lines
from cts_async.runs.files import JUDGMENTS, PER_ITEM, RESULTS, results_of
from cts_async.runs.finished import ORIG
from cts_async.runs.results import Line
from cts_async.tables.output import counted, duration, plain, print_plainly
from cts_async.tables.summary import agreement_sentence, cost_fields, cost_text
from cts_async.tables.table import (
    Column,
    DataTable,
    Row,
    estimate,
    interval_fields,
    marked,
    number,
    number_columns,
    print_table,
    text,
    text_columns,
    with_caveats,
    with_short_note,
)

MOST_FAILURES: Final = 10
RETRIED: Final = "The same command with --retry-failed retries these."
CAVEATS: Final[Mapping[Caveat, str]] = {
    SMOKE_TEST: "Smoke test: a role was played by the small embedded model. Its scores show that everything works; "
    "they say nothing about clarification.",
    MADE_UP: "Made up: scripts played every role (cts demo). No number here is a model's score.",
}
"""What every display of such scores says."""


def caveats_of(summaries: Iterable[RunSummary]) -> tuple[Caveat, ...]:
    """The caveats of runs."""
    return caveats_in(one.manifest.caveat for one in summaries)


def print_results(console: Console, summaries: Sequence[RunSummary]) -> None:
    """Print scores, then failures: the result of a command that made runs."""
    print_scores(console, summaries)
    print_failures(console, summaries)


def print_unsearched(console: Console, summaries: Sequence[RunSummary]) -> None:
    """Print how far runs without a search got, then failures."""
    table = replace(conversations_table(summaries), name="asked", title="Asked, without a search")
    print_table(console, table)
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
    if n := sum(one.n_unanswered for one in runs):
        print_plainly(
            console,
            f"Not judged: {n:,} failed in the runs; the runs' command with --retry-failed retries them.",
        )


def print_scores(console: Console, summaries: Sequence[RunSummary]) -> None:
    """Print restore_score_100 with differences to orig, costs, agreement of judges and failures of tools."""
    for notice in tool_notices([(one.label, one) for one in summaries]):
        print_plainly(console, notice, "bold red")
    print_table(console, scores_table(summaries))
    if any(one.spent.calls for one in summaries):
        calls = (f"{one.label} {one.spent.calls:,}" for one in summaries)
        print_plainly(console, f"Calls: {', '.join(calls)}")
        latencies = ((one.label, one.spent.latency_per_instance_s()) for one in summaries if one.n_done)
        if seconds := [f"{label} {of:,.1f} s" for label, of in latencies if of is not None]:
            print_plainly(console, f"Latency per instance (median): {', '.join(seconds)}")
    else:
        print_plainly(console, "No model was called.")
    if len({one.wall_s for one in summaries}) == 1:  # else they are not of one command
        print_plainly(console, f"Wall clock of the command, all attempts: {duration(summaries[0].wall_s)}")
    for line in _remarks(summaries):
        print_plainly(console, line, "yellow")
    for agreement in pooled_agreements(one for summary in summaries for one in summary.judge_pairs):
        print_plainly(console, f"{agreement_sentence(agreement)}.")


def tool_notices(runs: NamedRuns) -> Iterator[str]:
    """Yield a sentence for each run whose searches or visits nearly all failed: it stands above the scores."""
    for name, run in runs:
        yield from (f"{name}: {notice}." for notice in run.tools.notices())


def scores_table(summaries: Sequence[RunSummary]) -> DataTable:
    """The table of results, with a row for each system and judge."""
    rows = []
    for one in summaries:
        orig = _orig_of(one, summaries)
        nothing = {"mean": None, "p50": None, "p90": None, **interval_fields("delta", None)}
        n_scored, n_failed = f"0/{one.n_expected}", len(one.failures)
        unjudged = {**nothing, "judge": "not judged", "scored": n_scored, "failed": n_failed}
        judged = [_row(scores, orig if orig is not one else None) for scores in one.judges]
        rows += [{"system": one.label, **row} for row in judged or [unjudged]]
    columns = (
        *(Column(name, text(name), numeric=False) for name in ("system", "judge")),
        Column("mean", number("mean", ".2f")),
        Column("Δ orig [95 % CI]", estimate("delta", "+.1f")),
        *(Column(name, number(name, ".2f"), optional=True) for name in ("p50", "p90")),
        *(Column(name, text(name)) for name in ("scored", "failed")),
    )
    if any("judge_failed" in row for row in rows):
        rows = [{**row, "judge_failed": row.get("judge_failed", 0)} for row in rows]
        columns = (*columns, Column("by the judge", text("judge_failed")))
    table = DataTable(
        "results", "restore_score_100", with_short_note("", rows), columns, rows, group="system"
    )
    return with_caveats(table, caveats_of(summaries))


def _orig_of(run: RunSummary, summaries: Sequence[RunSummary]) -> RunSummary | None:
    """Return the run of orig that differences of `run` are to: if several agents have played it, that of its own."""
    origs = [one for one in summaries if one.label == ORIG]
    if len(origs) > 1:
        origs = [one for one in origs if one.manifest.agent == run.manifest.agent]
    return next(iter(origs), None)


def _row(scores: JudgeScores, orig: RunSummary | None) -> dict[str, Any]:
    of = scores.summary
    return {
        "judge": scores.judge,
        "mean": of.mean,
        "p50": of.p50,
        "p90": of.p90,
        "scored": f"{of.n_scored}/{of.n_expected}",
        "failed": of.n_failed,
        **({"judge_failed": scores.n_judge_failed} if scores.n_judge_failed else {}),
        **interval_fields("delta", difference_to(scores, orig)),
    }


def difference_to(scores: JudgeScores, orig: RunSummary | None) -> Difference | None:
    """Estimate the same judge's paired difference over the instances that both systems have a score for.

    Pairs are resampled in the order of orig's scores, that of the ids: as `cts compare` does, whatever finished first.
    """
    baseline = next((j for j in orig.judges if j.judge == scores.judge), None) if orig else None
    if baseline is None:
        return None
    theirs, own = baseline.paired(scores)
    return paired_difference(own, theirs)


def _remarks(summaries: Sequence[RunSummary]) -> Iterator[str]:
    """Yield what a reader of the scores has to know. Names, hosts and reasons in them are untrusted text."""
    counts: dict[str, set[int]] = defaultdict(set)
    for summary in summaries:
        for scores in summary.judges:
            of = scores.summary
            counts[scores.judge].add(of.n_scored)
            if of.n_failed and of.mean is not None:
                means = (
                    f"mean {of.mean:.2f}; {of.mean_failed_as_0:.2f} with {of.n_failed} failed counted as 0"
                )
                yield f"{summary.label}, {scores.judge}: {means}."
        for judge, n in summary.unjudged.items():
            yield (
                f"{summary.label}: {judge} has still to judge {counted(n, 'answer')}; "
                "the same command adds its verdicts."
            )
    if differing := [judge for judge, ns in counts.items() if len(ns) > 1]:
        yield (
            f"n differs between systems ({', '.join(differing)}): their means are over different instances; Δ is over "
            "the instances that both have."
        )
    for summary in summaries:
        for sentence in summary.contradictions:
            yield f"{summary.directory}/{sentence}"
    yield from other_models(summaries)
    yield from dropped_parameters(summaries)
    for summary in summaries:
        yield from (f"{summary.label}: {line}" for line in cut_prompt_lines(summary.spent.cuts.by_model()))
    for summary in summaries:
        yield from (f"{summary.label}: {line}" for line in summary.tools.lines())


def other_models(summaries: Sequence[RunSummary]) -> Iterator[str]:
    """Yield a line for each model that answered in place of the requested one, over all runs.

    A reply that does not name its model counts as the requested one's.
    """
    for asked, served in _replies(summaries).items():
        for model, n in served.items():
            if is_other_model(asked, model):
                share = f"{n} of {served.total()} replies"
                yield f"Another model answered: {printable_name(model)} gave {share} for {printable_name(asked)}"


def dropped_parameters(summaries: Sequence[RunSummary]) -> Iterator[str]:
    """Yield a line for each model and parameter that its server refused, over all runs."""
    dropped: Counter[tuple[str, str]] = Counter()
    for summary in summaries:
        for model, parameters in summary.spent.dropped.items():
            dropped.update({(model, name): n for name, n in parameters.items()})
    replies = _replies(summaries)
    for (model, name), n in dropped.items():
        shown = printable_name(name)
        affected = f"{n} of {replies[model].total()} replies were made without"
        saved = f'drops = ["{shown}"] in its table of cts.toml saves the refused request'
        yield f"Without {shown}: {printable_name(model)} refuses it, {affected} ({saved})"


def _replies(summaries: Sequence[RunSummary]) -> dict[str, Counter[str]]:
    """Count replies by requested model and by the model that answered."""
    replies: dict[str, Counter[str]] = defaultdict(Counter)
    for summary in summaries:
        for asked, served in summary.spent.served.items():
            replies[asked] += served
    return replies


def print_failures(console: Console, summaries: Sequence[RunSummary]) -> None:
    """Print the first failures with their reasons, how many more there are, and how to retry them.

    A judge's failure on an answer is one of that judge: other judges' labels for it stand.
    """
    failures = [(one, lines) for one in summaries for lines in one.own_failures]
    _print_some(console, failures, f"{RESULTS} and {JUDGMENTS}/", RETRIED)


def _print_some(
    console: Console, failures: Sequence[tuple[RunSummary, Sequence[Line]]], where: str, then: str
) -> None:
    """Print the first MOST_FAILURES, the file (`where`) with all of them, and how to retry them (`then`)."""
    n_failed = sum(len(lines) for _, lines in failures)
    for summary, line in islice(((one, line) for one, lines in failures for line in lines), MOST_FAILURES):
        error = line["error"]
        found = f"failed: {summary.directory.name} {line['id']} at {error['step']}: {error['message']}"
        print_plainly(console, plain(found), "red")
    if n_failed > MOST_FAILURES:
        print_plainly(console, f"... and {n_failed - MOST_FAILURES} more in {where}", "red")
    if n_failed:
        print_plainly(console, then)


# --- Runs of conversations without scores (cts converse)


@dataclass(frozen=True, slots=True)
class ConversationReport:
    """Tables to print and to write as JSON, with notes on how to read them."""

    tables: tuple[DataTable, ...]
    notes: tuple[str, ...]
    retrieved: tuple[TurnRetrieval, ...] = ()
    """Turn by turn, of each Clarifier; none without documents."""
    judgments: str = ""
    """What was searched and who judged; "" without documents."""


def conversations_table(summaries: Sequence[RunSummary]) -> DataTable:
    """How the conversations of whole runs went and what they cost."""
    rows = [
        {
            "run": str(one.directory),
            "system": one.label,
            "done": one.n_done,
            "failed": len(one.failures),
            "expected": one.n_expected,
            "unknown_rate": one.unknown_rate,
            "calls": one.spent.calls,
            "tokens": sum(sum(used.values()) for used in one.spent.tokens.values()),
            **cost_fields(one),
        }
        for one in summaries
    ]
    columns = (
        Column("system", text("system"), numeric=False),
        Column("done", lambda row: f"{row['done']}/{row['expected']}"),
        Column("failed", text("failed")),
        Column("unknown", number("unknown_rate", ".1%")),
        Column("calls", number("calls", ",")),
        Column("tokens", number("tokens", ",")),
        Column("cost", cost_text),
    )
    caption = "unknown: answers of the user that the intent does not give"
    return DataTable("conversations", "Conversations", caption, columns, rows)


# --- Tables of whole runs: who played, cost, failures, tools

NamedRuns = Sequence[tuple[str, RunSummary]]
"""Runs, each with its distinct name."""
MOST_KINDS: Final = 200
"""Kinds of failures that are listed, the most frequent first."""
_MESSAGE_CHARS: Final = 200
_ROLES: Final = ("clarifier", "support", "agent")


def runs_table(runs: NamedRuns) -> DataTable:
    """The runs: when, over which data, by whom, and how far they got."""
    rows = [_run_row(name, run) for name, run in runs]
    columns = (
        *text_columns("system"),
        Column("started", _day("began"), numeric=False),
        Column("ended", _day("ended"), numeric=False),
        *text_columns("data", *_ROLES, "judges"),
        Column("done", lambda row: f"{row['done']}/{row['expected']}"),
        *number_columns(failed="d", missing="d"),
    )
    caption = "done: instances with an outcome; missing: no line yet, the run is not over"
    return DataTable("what_was_run", "Runs, and who played", caption, columns, rows)


def _run_row(name: str, run: RunSummary) -> Row:
    manifest = run.manifest
    n_failed = len(run.failures)
    return {
        "system": marked(name, manifest.caveat),
        "directory": str(run.directory),
        "began": manifest.started or None,
        "ended": manifest.last_session.end or None,
        "data": manifest.identity.data.name or None,
        **{role: manifest.players.get(role) for role in _ROLES},
        "judges": ", ".join(scores.judge for scores in run.judges) or None,
        "done": run.n_done,
        "failed": n_failed,
        "missing": max(0, run.n_expected - manifest.n_absent - run.n_done - n_failed),
        "expected": run.n_expected,
    }


def effort_table(runs: NamedRuns) -> DataTable:
    """Cost of the runs, with the mean of their scoring judge."""
    rows = [_effort_row(name, run) for name, run in runs]
    whole = dict.fromkeys(("calls", "failed_attempts", "input_tokens", "output_tokens"), ",")
    columns = (
        *text_columns("system"),
        *number_columns(mean=".2f", **whole),
        Column("cost", cost_text),
        Column("usd per instance", number("usd_per_instance", ".4f")),
        Column("s per instance", number("latency_per_instance_s", ".1f")),
        Column("command, h", number("hours", ".2f")),
    )
    caption = (
        "mean: of the scoring judge, over the system's own instances. s per instance: latency of an instance's calls, "
        "summed; median. command: wall clock of all attempts, shared by the systems of a command"
    )
    return DataTable("effort", "Cost and time", caption, columns, rows)


def _effort_row(name: str, run: RunSummary) -> Row:
    spent = run.spent
    cost = spent.cost_usd(run.manifest.prices)
    finished = run.n_done + len(run.failures)
    return {
        "system": name,
        "mean": run.judges[0].summary.mean if run.judges else None,
        "calls": spent.calls,
        "failed_attempts": spent.failed_attempts,
        "input_tokens": sum(used["input"] for used in spent.tokens.values()),
        "output_tokens": sum(used["output"] for used in spent.tokens.values()),
        **cost_fields(run),
        "latency_per_instance_s": spent.latency_per_instance_s(),
        "usd_per_instance": cost / finished if cost is not None and finished else None,
        "hours": run.wall_s / 3600,
    }


def failures_table(runs: NamedRuns) -> DataTable:
    """Failures by step and kind, the most frequent first, each with one example."""
    causes = [row for name, run in runs for row in _failures_of(name, run)]
    rows = sorted(causes, key=lambda row: -row["n"])[:MOST_KINDS]
    columns = (
        *text_columns("system", "step", "kind"),
        *number_columns(n="d"),
        *text_columns("example"),
    )
    caption = (
        f"counted apart, never as a score; all are listed in {RESULTS}, those of further judges in {JUDGMENTS}/. "
        "A judge's failure leaves the answer and the other judges' labels as they are"
    )
    return DataTable("failures", "Failures by kind", caption, columns, rows)


def _failures_of(name: str, run: RunSummary) -> Iterator[Row]:
    counts, examples = Counter[tuple[str, str]](), dict[tuple[str, str], str]()
    for line in chain.from_iterable(run.own_failures):
        error = line["error"]
        step = str(error.get("step") or "").partition("/")[0]
        cause = step, str(error.get("kind") or "failed")
        counts[cause] += 1
        example = f"{line['id']}: {error.get('message', '')}"[:_MESSAGE_CHARS]
        examples[cause] = min(example, examples.get(cause, example))
    for (step, kind), n in ranked(counts):
        yield {"system": name, "step": step, "kind": kind, "n": n, "example": examples[step, kind]}


def health_table(runs: NamedRuns) -> DataTable:
    """The share of searches and visits that worked; no rows if nothing was searched."""
    rows = [
        {
            "system": name,
            "tool": word,
            "asked": run.tools.asked.get(tool, 0),
            "failed": run.tools.n_failed(tool),
            "worked": run.tools.share(tool),
        }
        for name, run in runs
        for tool, word in run.tools.tools().items()
        if run.tools.asked.get(tool)
    ]
    columns = (*text_columns("system", "tool"), *number_columns(asked=",", failed=",", worked=".1%"))
    caption = "queries searched and pages visited by the agent, and those that failed"
    return DataTable("tool_health", "Searches and visits", caption, columns, rows)


def causes_table(runs: NamedRuns) -> DataTable:
    """The most frequent causes of failed searches and visits of each run."""
    rows = [
        {"system": name, "tool": tool, "host": host, "reason": reason, "n": n}
        for name, run in runs
        for (tool, host, reason), n in ranked(run.tools.failed)[:MOST]
    ]
    columns = (*text_columns("system", "tool", "host", "reason"), *number_columns(n=","))
    caption = f"at most {MOST} causes a run"
    return DataTable("tool_failures", "Searches and visits that failed", caption, columns, rows)


def served_table(runs: NamedRuns) -> DataTable:
    """The models that answered, as servers named them, if that is not only the requested one."""
    rows = [
        {"system": name, "asked": asked, "served": served, "replies": n}
        for name, run in runs
        for asked, by in sorted(run.spent.served.items())
        if set(by) != {asked}
        for served, n in ranked(by)
    ]
    columns = (*text_columns("system", "asked", "served"), *number_columns(replies=","))
    caption = "as servers call what answered"
    return DataTable("served_models", "Models that answered", caption, columns, rows)


def _day(key: str) -> Callable[[Row], str]:
    """Show a time without seconds and zone: "2026-11-21 10:00"."""
    return lambda row: str(row[key])[:16].replace("T", " ") if row[key] else "-"

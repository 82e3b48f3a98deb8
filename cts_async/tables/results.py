"""The results on a terminal: every system under every judge, side by side."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
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
from cts_async.runs.manifest import ORIG
from cts_async.runs.results import Line
from cts_async.tables.output import counted, duration, plain, print_plainly
from cts_async.tables.summary import agreement_sentence, cost_fields, cost_text
from cts_async.tables.table import (
    MISSING,
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

Failures = tuple[RunSummary, Sequence[Line]]
"""Failures of one run, or of one judge of it: lines of its files."""
MOST_FAILURES: Final = 10
RETRIED: Final = "The same command with --retry-failed retries these."
ENDS_AGAIN: Final = (
    "Searches that ended without an answer end so again. In a new version, --agent-setting free_end=false demands one, "
    "and --max-turns N allows more calls."
)
"""What helps against failures that a retry repeats, since all turns of these searches are recorded."""
CAVEATS: Final[Mapping[Caveat, str]] = {
    SMOKE_TEST: "Smoke test: a role was played by the small embedded model. Its scores show that everything works; "
    "they say nothing about clarification.",
    MADE_UP: "Made up: scripts played every role (cts demo). No number here is a model's score.",
}
"""What every display of such scores says."""


def caveats_of(summaries: Iterable[RunSummary]) -> tuple[Caveat, ...]:
    """The caveats of runs."""
    return caveats_in(summary.manifest.caveat for summary in summaries)


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
    of_candidates: list[Failures] = []
    of_judges: list[Failures] = []
    n_unanswered = 0
    for summary in summaries:
        if results_of(summary.directory) == RESULTS:
            n_unanswered += summary.n_unanswered
        else:
            of_candidates.append((summary, summary.failures))
        for scores in summary.judges:
            if scores.judge in judges:
                of_judges.append((summary, scores.failures))
    _print_first(console, of_candidates, PER_ITEM, RETRIED)
    _print_first(console, of_judges, JUDGMENTS, "The same command retries these.")
    if n_unanswered:
        print_plainly(
            console,
            f"Not judged: {n_unanswered:,} failed in the runs; the runs' command with --retry-failed retries them.",
        )


def print_scores(console: Console, summaries: Sequence[RunSummary]) -> None:
    """Print restore_score_100 with differences to orig, costs, agreement of judges and failures of tools."""
    # Above the scores: where no search worked, they say nothing of the Clarifiers.
    for notice in tool_notices([(summary.label, summary) for summary in summaries]):
        print_plainly(console, notice, "bold red")
    print_table(console, scores_table(summaries))
    n_calls = 0
    calls: list[str] = []
    for summary in summaries:
        n_calls += summary.spent.calls
        calls.append(f"{summary.label} {summary.spent.calls:,}")
    if n_calls:
        print_plainly(console, f"Calls: {', '.join(calls)}")
        shares = ", ".join(_cached_shares(summaries))
        if shares:
            print_plainly(console, f"Input read from caches: {shares}")
        tiers = ", ".join(_tier_shares(summaries))
        if tiers:
            print_plainly(console, f"Tokens charged in cheaper tiers: {tiers}")
        latencies = ", ".join(_latencies(summaries))
        if latencies:
            print_plainly(console, f"Latency per instance (median): {latencies}")
    else:
        print_plainly(console, "No model was called.")
    # The systems of a command share its wall clock; runs with different ones are not of one command.
    if len({summary.wall_s for summary in summaries}) == 1:
        print_plainly(console, f"Wall clock of the command, all attempts: {duration(summaries[0].wall_s)}")
    for line in _remarks(summaries):
        print_plainly(console, line, "yellow")
    pairs = chain.from_iterable(summary.judge_pairs for summary in summaries)
    for agreement in pooled_agreements(pairs):
        print_plainly(console, f"{agreement_sentence(agreement)}.")


def _cached_shares(summaries: Sequence[RunSummary]) -> Iterator[str]:
    """The share of the tokens sent that came from caches, of the systems that had any."""
    for summary in summaries:
        n_cached = summary.spent.cached_tokens
        if n_cached:
            yield f"{summary.label} {n_cached / summary.spent.input_tokens:.0%}"


def _tier_shares(summaries: Sequence[RunSummary]) -> Iterator[str]:
    """The share of all tokens that was charged in each tier, of the systems that had any."""
    for summary in summaries:
        n_tokens = summary.spent.total_tokens
        for tier, n_in_tier in summary.spent.tokens_by_tier().items():
            if n_tokens:
                yield f"{summary.label} {n_in_tier / n_tokens:.0%} {printable_name(tier)}"


def _latencies(summaries: Sequence[RunSummary]) -> Iterator[str]:
    for summary in summaries:
        seconds = summary.spent.latency_per_instance_s()
        if summary.n_done and seconds is not None:
            yield f"{summary.label} {seconds:,.1f} s"


def tool_notices(runs: NamedRuns) -> Iterator[str]:
    """Yield a sentence for each run whose searches or visits nearly all failed: it stands above the scores."""
    for name, run in runs:
        for notice in run.notices():
            yield f"{name}: {notice}."


def scores_table(summaries: Sequence[RunSummary]) -> DataTable:
    """The table of results, with a row for each system and judge."""
    rows: list[dict[str, Any]] = []
    for summary in summaries:
        orig = _orig_of(summary, summaries)
        # A run less itself would be printed as "no difference".
        if orig is summary:
            orig = None
        for scores in summary.judges:
            rows.append({"system": summary.label} | _scores_row(scores, orig))
        if not summary.judges:
            rows.append({"system": summary.label} | _unjudged_row(summary))
    columns = list(text_columns("system", "judge"))
    columns.append(Column("mean", number("mean", ".2f")))
    columns.append(Column("Δ orig [95 % CI]", estimate("delta", "+.1f")))
    # The first to go on a terminal of 80 columns.
    columns.append(Column("p50", number("p50", ".2f"), optional=True))
    columns.append(Column("p90", number("p90", ".2f"), optional=True))
    columns.append(Column("scored", text("scored")))
    columns.append(Column("failed", text("failed")))
    # Of the failed ones: an answer that a judge failed to label stands, and other judges' labels for it count.
    if any("judge_failed" in row for row in rows):
        for row in rows:
            row.setdefault("judge_failed", 0)
        columns.append(Column("by the judge", text("judge_failed")))
    table = DataTable(
        "results", "restore_score_100", with_short_note("", rows), columns, rows, group="system"
    )
    return with_caveats(table, caveats_of(summaries))


def _orig_of(run: RunSummary, summaries: Sequence[RunSummary]) -> RunSummary | None:
    """Return the run of orig that differences of `run` are to: if several agents have played it, that of its own."""
    origs = [summary for summary in summaries if summary.label == ORIG]
    if len(origs) == 1:
        return origs[0]
    # The agent alone must not make the difference.
    for orig in origs:
        if orig.manifest.agent == run.manifest.agent:
            return orig
    return None


def _scores_row(scores: JudgeScores, orig: RunSummary | None) -> dict[str, Any]:
    summary = scores.summary
    row: dict[str, Any] = {
        "judge": scores.judge,
        "mean": summary.mean,
        "p50": summary.p50,
        "p90": summary.p90,
        "scored": f"{summary.n_scored}/{summary.n_expected}",
        "failed": summary.n_failed,
    }
    if scores.n_judge_failed:
        row["judge_failed"] = scores.n_judge_failed
    return row | interval_fields("delta", difference_to(scores, orig))


def _unjudged_row(run: RunSummary) -> dict[str, Any]:
    row: dict[str, Any] = {"mean": None, "p50": None, "p90": None}
    row |= interval_fields("delta", None)
    row["judge"] = "not judged"
    row["scored"] = f"0/{run.n_expected}"
    row["failed"] = len(run.failures)
    return row


def difference_to(scores: JudgeScores, orig: RunSummary | None) -> Difference | None:
    """Estimate the same judge's paired difference over the instances that both systems have a score for.

    Pairs are resampled in the order of orig's scores, that of the ids: as `cts compare` does, whatever finished first.
    """
    if orig is None:
        return None
    for orig_scores in orig.judges:
        if orig_scores.judge == scores.judge:
            # By the same judge only: else it would be a difference of judges, not of systems.
            of_orig, of_system = orig_scores.paired(scores)
            return paired_difference(of_system, of_orig)
    return None


def _remarks(summaries: Sequence[RunSummary]) -> Iterator[str]:
    """Yield what a reader of the scores has to know. Names, hosts and reasons in them are untrusted text."""
    counts: dict[str, set[int]] = defaultdict(set)
    for summary in summaries:
        for by_judge in summary.judges:
            scores = by_judge.summary
            counts[by_judge.judge].add(scores.n_scored)
            if scores.n_failed and scores.mean is not None:
                yield (
                    f"{summary.label}, {by_judge.judge}: mean {scores.mean:.2f}; {scores.mean_failed_as_0:.2f} with "
                    f"{scores.n_failed} failed counted as 0."
                )
        for judge, n in summary.unjudged.items():
            yield (
                f"{summary.label}: {judge} has still to judge {counted(n, 'answer')}; "
                "the same command adds its verdicts."
            )
    differing = [judge for judge, ns in counts.items() if len(ns) > 1]
    if differing:
        yield (
            f"n differs between systems ({', '.join(differing)}): their means are over different instances; Δ is over "
            "the instances that both have."
        )
    for summary in summaries:
        yield from _asks_line(summary)
    for summary in summaries:
        for sentence in summary.contradictions:
            yield f"{summary.directory}/{sentence}"
    yield from other_models(summaries)
    yield from dropped_parameters(summaries)
    yield from replies_without_usage(summaries)
    yield from other_tiers(summaries)
    for summary in summaries:
        for line in cut_prompt_lines(summary.spent.cuts.by_model()):
            yield f"{summary.label}: {line}"
    for summary in summaries:
        for line in summary.tools.lines():
            yield f"{summary.label}: {line}"


def _asks_line(summary: RunSummary) -> Iterator[str]:
    """Say how often the agent of a run asked the user; nothing where it may not, or has not searched yet."""
    asks = summary.asks
    if asks is None or asks.per_search is None:
        return
    parts = [f"{counted(asks.n_asks, 'question')} during the search, {asks.per_search:.2f} an instance"]
    if asks.unknown_share is not None:
        parts.append(f"{asks.unknown_share:.1%} of the replies unknown")
    if asks.n_refused:
        parts.append(f"{counted(asks.n_refused, 'question')} beyond those allowed")
    if asks.n_early:
        parts.append(f"{counted(asks.n_early, 'answer')} sent back")
    yield f"{summary.label}: {'; '.join(parts)}."


def other_models(summaries: Sequence[RunSummary]) -> Iterator[str]:
    """Yield a line for each model that answered in place of the requested one, over all runs.

    A reply that does not name its model counts as the requested one's.
    """
    for requested, served in _replies(summaries).items():
        for model, n in served.items():
            if is_other_model(requested, model):
                share = f"{n} of {served.total()} replies"
                yield f"Another model answered: {printable_name(model)} gave {share} for {printable_name(requested)}"


def dropped_parameters(summaries: Sequence[RunSummary]) -> Iterator[str]:
    """Yield a line for each model and parameter that its server refused, over all runs."""
    dropped: Counter[tuple[str, str]] = Counter()
    for summary in summaries:
        for model, parameters in summary.spent.dropped.items():
            for name, n in parameters.items():
                dropped[model, name] += n
    replies = _replies(summaries)
    for (model, name), n in dropped.items():
        parameter = printable_name(name)
        affected = f"{n} of {replies[model].total()} replies were made without"
        remedy = f'drops = ["{parameter}"] in its table of cts.toml saves the refused request'
        yield f"Without {parameter}: {printable_name(model)} refuses it, {affected} ({remedy})"


def replies_without_usage(summaries: Sequence[RunSummary]) -> Iterator[str]:
    """Yield a line for each model some of whose replies named no tokens, over all runs."""
    counts: Counter[str] = Counter()
    for summary in summaries:
        for model, n_by_kind in summary.spent.without_usage.items():
            counts[model] += n_by_kind.total()
    for model, n in counts.items():
        share = f"{n:,} of the replies of {printable_name(model)} name none"
        yield f"Tokens unknown: {share}; tokens and dollars are of the others"


def other_tiers(summaries: Sequence[RunSummary]) -> Iterator[str]:
    """Yield a line for each model and tier that served replies which were asked for in another one, over all runs."""
    counts: Counter[tuple[str, str]] = Counter()
    for summary in summaries:
        for model, tiers in summary.spent.other_tiers.items():
            for tier, n in tiers.items():
                counts[model, tier] += n
    replies = _replies(summaries)
    for (model, tier), n in counts.items():
        share = f"{n} of {replies[model].total()} replies"
        yield (
            f"Not in the tier asked for: {share} of {printable_name(model)} (by their word: {printable_name(tier)}); "
            "they are priced as such, in full unless that tier has a price"
        )


def _replies(summaries: Sequence[RunSummary]) -> dict[str, Counter[str]]:
    """Count replies by requested model and by the model that answered."""
    replies: dict[str, Counter[str]] = defaultdict(Counter)
    for summary in summaries:
        for requested, served in summary.spent.served.items():
            replies[requested] += served
    return replies


def print_failures(console: Console, summaries: Sequence[RunSummary]) -> None:
    """Print the first failures with their reasons, how many more there are, and how to retry them.

    A judge's failure on an answer is one of that judge: other judges' labels for it stand.
    """
    failures: list[Failures] = []
    n_failed = n_open = 0
    for summary in summaries:
        for lines in summary.own_failures:
            failures.append((summary, lines))
            n_failed += len(lines)
        # With --empty-answers zero such a search is no failure.
        if summary.manifest.raw_identity.get("empty_answers") != "zero":
            n_open += summary.n_open_searches
    remedies = []
    if n_failed > n_open:
        remedies.append(RETRIED)
    if n_open:
        remedies.append(ENDS_AGAIN)
    _print_first(console, failures, f"{RESULTS} and {JUDGMENTS}/", " ".join(remedies))


def _print_first(console: Console, failures: Sequence[Failures], file: str, remedy: str) -> None:
    """Print the first MOST_FAILURES, the file with all of them, and how to retry them."""
    n_failed = 0
    for summary, lines in failures:
        # Lines are read from the file when they are looked at: no more of them than are printed.
        for line in lines[: max(0, MOST_FAILURES - n_failed)]:
            error = line["error"]
            text = f"failed: {summary.directory.name} {line['id']} at {error['step']}: {error['message']}"
            print_plainly(console, plain(text), "red")
        n_failed += len(lines)
    if n_failed > MOST_FAILURES:
        print_plainly(console, f"... and {n_failed - MOST_FAILURES} more in {file}", "red")
    if n_failed:
        print_plainly(console, remedy)


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
    rows: list[dict[str, Any]] = []
    for summary in summaries:
        row: dict[str, Any] = {
            "run": str(summary.directory),
            "system": summary.label,
            "done": summary.n_done,
            "failed": len(summary.failures),
            "expected": summary.n_expected,
            "unknown_rate": summary.unknown_rate,
            "calls": summary.spent.calls,
            "tokens": 0,
        }
        for tokens in summary.spent.tokens.values():
            row["tokens"] += tokens.total()
        rows.append(row | cost_fields(summary))
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
    columns = list(text_columns("system"))
    columns.append(Column("started", _day("began"), numeric=False))
    columns.append(Column("ended", _day("ended"), numeric=False))
    columns += text_columns("data", *_ROLES, "judges")
    columns.append(Column("done", lambda row: f"{row['done']}/{row['expected']}"))
    columns += number_columns(failed="d", missing="d")
    caption = "done: instances with an outcome; missing: no line yet, the run is not over"
    return DataTable("what_was_run", "Runs, and who played", caption, columns, rows)


def _run_row(name: str, run: RunSummary) -> Row:
    manifest = run.manifest
    n_failed = len(run.failures)
    row: dict[str, Any] = {
        "system": marked(name, manifest.caveat),
        "directory": str(run.directory),
        "began": manifest.started or None,
        "ended": manifest.last_session.end or None,
        "data": manifest.identity.data.name or None,
    }
    for role in _ROLES:
        row[role] = manifest.players.get(role)
    row["judges"] = ", ".join(scores.judge for scores in run.judges) or None
    row["done"] = run.n_done
    row["failed"] = n_failed
    # Instances of the gold that have no candidate are expected, but no run would ever bring them.
    row["missing"] = max(0, run.n_expected - manifest.n_absent - run.n_done - n_failed)
    row["expected"] = run.n_expected
    return row


def effort_table(runs: NamedRuns) -> DataTable:
    """Cost of the runs, with the mean of their scoring judge."""
    rows = [_effort_row(name, run) for name, run in runs]
    columns = list(text_columns("system"))
    columns += number_columns(mean=".2f", calls=",", failed_attempts=",", input_tokens=",", output_tokens=",")
    if any("cached_tokens" in row for row in rows):
        columns += number_columns(cached_tokens=",")
    columns.append(Column("cost", cost_text))
    columns.append(Column("usd per instance", number("usd_per_instance", ".4f")))
    columns.append(Column("s per instance", number("latency_per_instance_s", ".1f")))
    columns.append(Column("command, h", number("hours", ".2f")))
    caption = (
        "mean: of the scoring judge, over the system's own instances. s per instance: latency of an instance's calls, "
        "summed; median. command: wall clock of all attempts, shared by the systems of a command"
    )
    return DataTable("effort", "Cost and time", caption, columns, rows)


def _effort_row(name: str, run: RunSummary) -> Row:
    spent = run.spent
    row: dict[str, Any] = {"system": name, "mean": None}
    if run.judges:
        row["mean"] = run.judges[0].summary.mean
    row["calls"] = spent.calls
    row["failed_attempts"] = spent.failed_attempts
    row["input_tokens"] = row["output_tokens"] = 0
    for tokens in spent.tokens.values():
        row["input_tokens"] += tokens["input"]
        row["output_tokens"] += tokens["output"]
    # A column of its own only where a provider's cache was of use.
    if spent.cached_tokens:
        row["cached_tokens"] = spent.cached_tokens
    row |= cost_fields(run)
    row["latency_per_instance_s"] = spent.latency_per_instance_s()
    # Failed instances have cost something, too.
    row["usd_per_instance"] = None
    cost = spent.cost_usd(run.manifest.prices)
    n_finished = run.n_done + len(run.failures)
    if cost is not None and n_finished:
        row["usd_per_instance"] = cost / n_finished
    row["hours"] = run.wall_s / 3600
    return row


def failures_table(runs: NamedRuns) -> DataTable:
    """Failures by step and kind, the most frequent first, each with one example."""
    causes: list[Row] = []
    for name, run in runs:
        causes += _failures_of(name, run)
    causes.sort(key=lambda row: -row["n"])
    rows = causes[:MOST_KINDS]
    columns = text_columns("system", "step", "kind") + number_columns(n="d") + text_columns("example")
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
        # The same results give the same report, in whatever order they were written.
        examples[cause] = min(example, examples.get(cause, example))
    for (step, kind), n in ranked(counts):
        yield {"system": name, "step": step, "kind": kind, "n": n, "example": examples[step, kind]}


def health_table(runs: NamedRuns) -> DataTable:
    """The share of searches and visits that worked; no rows if nothing was searched."""
    rows: list[Row] = []
    for name, run in runs:
        for tool, word in run.tools.tools().items():
            n_asked = run.tools.asked.get(tool, 0)
            if n_asked:
                n_failed, worked = run.tools.n_failed(tool), run.tools.share(tool)
                rows.append(
                    {"system": name, "tool": word, "asked": n_asked, "failed": n_failed, "worked": worked}
                )
    columns = text_columns("system", "tool") + number_columns(asked=",", failed=",", worked=".1%")
    caption = "queries searched and pages visited by the agent, and those that failed"
    return DataTable("tool_health", "Searches and visits", caption, columns, rows)


def causes_table(runs: NamedRuns) -> DataTable:
    """The most frequent causes of failed searches and visits of each run."""
    rows: list[Row] = []
    for name, run in runs:
        for (tool, host, reason), n in ranked(run.tools.failed)[:MOST]:
            rows.append({"system": name, "tool": tool, "host": host, "reason": reason, "n": n})
    columns = text_columns("system", "tool", "host", "reason") + number_columns(n=",")
    caption = f"at most {MOST} causes a run"
    return DataTable("tool_failures", "Searches and visits that failed", caption, columns, rows)


def served_table(runs: NamedRuns) -> DataTable:
    """The models that answered, as servers named them, if that is not only the requested one."""
    rows: list[Row] = []
    for name, run in runs:
        for requested, replies in sorted(run.spent.served.items()):
            if set(replies) == {requested}:
                continue
            for served, n in ranked(replies):
                rows.append({"system": name, "asked": requested, "served": served, "replies": n})
    columns = text_columns("system", "asked", "served") + number_columns(replies=",")
    caption = "as servers call what answered"
    return DataTable("served_models", "Models that answered", caption, columns, rows)


def _day(key: str) -> Callable[[Row], str]:
    """Show a time without seconds and zone: "2026-11-21 10:00"."""

    def show(row: Row) -> str:
        if not row[key]:
            return MISSING
        return str(row[key])[:16].replace("T", " ")

    return show

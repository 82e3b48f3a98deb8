"""`summary.json`, and what tables and commands print of a run's summary: costs, agreement of judges, notices."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import Any, Final

from cts_async import __version__, scorer
from cts_async.analysis.compare import Agreement
from cts_async.analysis.summary import AskCounts, RunSummary, pooled_agreements
from cts_async.analysis.tool_health import ranked
from cts_async.records import MADE_UP, SMOKE_TEST, Caveat
from cts_async.runs.cut_prompts import CutPrompts
from cts_async.runs.directory import write_json
from cts_async.runs.files import SUMMARY, results_of
from cts_async.runs.index import NO_FILE, read_object, stat_of
from cts_async.runs.journal import journal_of
from cts_async.runs.manifest import Manifest
from cts_async.runs.open_run import judgment_files
from cts_async.tables.output import counted, dollars

_COPY_NS: Final = 2_000_000_000
"""Copying a run changes the order of modification times by up to this."""


def write_summary(summary: RunSummary) -> dict[str, Any]:
    """Write `summary.json`, which also names the version that wrote it, and return what it says of the run."""
    value = summary_json(summary)
    write_json(summary.directory / SUMMARY, {"version": __version__} | value)
    return value


def read_current_summary(manifest: Manifest) -> Mapping[str, Any] | None:
    """The content of a run's `summary.json`; None where there is none, or where results or steps are newer."""
    # Without links in it, which `opened` follows nowhere.
    directory = manifest.directory.resolve()
    state = stat_of(directory / SUMMARY)
    if state == NO_FILE:
        return None
    paths = [directory / results_of(directory), journal_of(manifest)[0].resolve()]
    paths += judgment_files(directory)
    for path in paths:
        if stat_of(path).mtime_ns > state.mtime_ns + _COPY_NS:
            return None
    try:
        return read_object(directory / SUMMARY)
    except ValueError:
        return None


def summary_json(summary: RunSummary) -> dict[str, Any]:
    """Return what `summary.json` says of a run."""
    spent = summary.spent
    known_cost, unpriced = spent.known_cost(summary.manifest.prices)
    judge = None
    scores = scorer.summarise([], len(summary.failures), summary.n_expected, n_unjudged=summary.n_done)
    if summary.judges:
        judge, scores = summary.judges[0].judge, summary.judges[0].summary
    value: dict[str, Any] = {"n": scores.n_scored}
    value |= asdict(scores)
    value["judge"] = judge
    value["judges"] = {}
    judge_failures: dict[str, int] = {}
    for by_judge in summary.judges:
        value["judges"][by_judge.judge] = asdict(by_judge.summary)
        if by_judge.n_judge_failed:
            judge_failures[by_judge.judge] = by_judge.n_judge_failed
    # Of each judge's n_failed; only where there are any.
    if judge_failures:
        value["judge_failures"] = judge_failures
    value["agreement"] = list(map(asdict, pooled_agreements(summary.judge_pairs)))
    value["ua_unknown_rate"] = summary.unknown_rate
    value["all_unknown_rate"] = summary.all_unknown_rate
    # How much of the rate is not the exact word, which alone counts with --as-published.
    value["unknown_paraphrased"] = spent.paraphrased
    value["calls"] = spent.calls
    value["failed_attempts"] = spent.failed_attempts
    value["tokens"] = {model: dict(used) for model, used in sorted(spent.tokens.items())}
    value["served_models"] = _ranked_by_model(spent.served)
    if spent.dropped:
        value["dropped_parameters"] = _ranked_by_model(spent.dropped)
    if spent.other_tiers:
        value["other_tiers"] = _ranked_by_model(spent.other_tiers)
    if spent.without_usage:
        value["replies_without_usage"] = _ranked_by_model(spent.without_usage)
    value |= _cut_prompts_json(spent.cuts.by_model())
    value["priced_usd"] = known_cost
    value["unpriced_models"] = len(unpriced)
    value["latency_per_instance_s"] = spent.latency_per_instance_s()
    # Models without a price, and replies without usage, are not free: a sum without them is no cost.
    value["cost_usd"] = None
    if not unpriced:
        value["cost_usd"] = known_cost
    if spent.reused is not None:
        value["reused"] = _reused_json(summary)
    value["wall_s"] = round(summary.wall_s, 3)
    if summary.open_share is not None:
        value["unanswered"] = {"n": summary.n_open_searches, "share": summary.open_share}
    if summary.calibration is not None:
        value["confidence"] = summary.calibration.as_json()
    if summary.asks is not None:
        value["asks"] = _asks_json(summary.asks)
    value["tool_health"] = summary.tools.as_json()
    value |= notices_json(summary)
    # Stored scores that their labels contradict; all means here are of the labels.
    if summary.contradictions:
        value["contradictions"] = list(summary.contradictions)
    value |= caveats_json([summary.manifest.caveat])
    return value


def _reused_json(summary: RunSummary) -> dict[str, Any]:
    """The steps that were taken from other runs beside those that the run executed itself, and what they cost there."""
    spent, reused = summary.spent, summary.spent.reused
    assert reused is not None
    known_cost, unpriced = reused.known_cost(summary.manifest.prices)
    return {
        "steps": reused.steps,
        "of_steps": reused.steps + spent.steps,
        "calls": reused.calls,
        "tokens": {model: dict(used) for model, used in sorted(reused.tokens.items())},
        "priced_usd": known_cost,
        "unpriced_models": len(unpriced),
    }


def _asks_json(asks: AskCounts) -> dict[str, Any]:
    """The questions during the search; the rates of unknown answers are of those before it."""
    return {
        "n": asks.n_asks,
        "per_instance": asks.per_search,
        "unknown_share": asks.unknown_share,
        "without_question": asks.n_silent,
        "refused": asks.n_refused,
        "early_answers": asks.n_early,
    }


def _ranked_by_model(counts: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    ranks: dict[str, dict[str, int]] = {}
    for model, by_name in sorted(counts.items()):
        ranks[model] = dict(ranked(by_name))
    return ranks


def notices_json(summary: RunSummary) -> dict[str, list[str]]:
    """Return `notices`: what has to be read before the scores; no field where there is nothing."""
    notices = summary.notices()
    if not notices:
        return {}
    return {"notices": notices}


def _cut_prompts_json(cuts: Mapping[str, CutPrompts]) -> dict[str, Any]:
    """The field for models whose server cuts prompts; none where nothing says so."""
    if not cuts:
        return {}
    by_model: dict[str, Any] = {}
    for model, cut in sorted(cuts.items()):
        by_model[model] = cut._asdict()
    return {"cut_prompts": by_model}


def caveats_json(caveats: Collection[Caveat]) -> dict[str, bool]:
    """The fields of JSON outputs; `made_up` only where it holds."""
    fields = {"smoke_test": SMOKE_TEST in caveats}
    if MADE_UP in caveats:
        fields["made_up"] = True
    return fields


def cost_fields(run: RunSummary) -> dict[str, Any]:
    """Return the fields of a row that `cost_text` reads."""
    known_cost, unpriced = run.spent.known_cost(run.manifest.prices)
    fields: dict[str, Any] = {"priced_usd": known_cost, "unpriced_models": len(unpriced), "cost_usd": None}
    if not unpriced:
        fields["cost_usd"] = known_cost
    return fields


def cost_text(row: Mapping[str, Any]) -> str:
    """Format the cost in the fields of `cost_fields`."""
    return dollars(row["priced_usd"], row["unpriced_models"])


def agreement_sentence(agreement: Agreement) -> str:
    """Describe an agreement: `lexical agrees with ernie on 71.2 % of 3,108 nuggets (Cohen's kappa 0.451, ...); ...`

    Nuggets of distinct answers are counted apart if some answers are the same: their labels are copies. Scores are left
    out where their correlation is not defined, as that of a single answer.
    """
    if agreement.exact is None:
        return f"{agreement.other} and {agreement.judge} have no judged nugget in common"
    nuggets, answers = counted(agreement.n_nuggets, "nugget"), counted(agreement.n_answers, "answer")
    if agreement.n_distinct < agreement.n_nuggets:
        nuggets += f", {agreement.n_distinct:,} of them of distinct answers"
    in_answers, scores = f" in {answers}", ""
    if agreement.score_r is not None:
        in_answers, scores = "", f"; scores of {answers} correlate by {agreement.score_r:.3f}"
    return (
        f"{agreement.other} agrees with {agreement.judge} on {100 * agreement.exact:.1f} % of {nuggets}{in_answers} "
        f"(Cohen's kappa {_figure(agreement.kappa)}, quadratic {_figure(agreement.kappa_quadratic)}){scores}"
    )


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}"

"""A gold build summarised and printed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console

from cts_async.analysis.summary import RunSummary, summarise_run
from cts_async.errors import InputError
from cts_async.runs.files import RESULTS
from cts_async.runs.results import Line, failed, read_results
from cts_async.tables.output import plain, print_plainly
from cts_async.tables.results import print_failures
from cts_async.tables.summary import caveats_json
from cts_async.tables.table import print_facts

MOST_SUSPECTS = 10
MOST_TERMS = 6


@dataclass(frozen=True, slots=True)
class GoldSummary:
    """A build: its run, and `values`, the content of summary.json and `--json`."""

    run: RunSummary
    values: Mapping[str, Any]


def summarise_gold(directory: Path) -> GoldSummary:
    """Summarise a build. Raises InputError if the directory is not one, or for a malformed line."""
    lines: dict[str, Line] = {}
    for line in read_results(directory / RESULTS):
        lines.pop(line["id"], None)  # a later line supersedes an earlier one
        if not failed(line):
            # Answers and sources are long: only the rest is held.
            parts = ("id", "gold", "grounding", "evidence", "repairs")
            lines[line["id"]] = {name: line.get(name) for name in parts}
    run = summarise_run(directory)
    try:
        return GoldSummary(run, _values(run, list(lines.values())))
    except (KeyError, TypeError):
        problem = "has a damaged line: move this file away, and the same command makes it again"
        raise InputError(directory / RESULTS, problem) from None


def _values(run: RunSummary, lines: list[Line]) -> dict[str, Any]:
    """Counts over the intents that have gold; failures are counted apart. Means of nothing are None."""
    nuggets: list[dict[str, Any]] = []
    per_intent: list[int] = []
    recalls: list[float] = []
    suspects: list[dict[str, Any]] = []
    n_limited = n_repaired = 0
    for line in lines:
        nuggets += line["gold"]["nuggets"]
        per_intent.append(len(line["gold"]["nuggets"]))
        for grounded_nugget in line["grounding"]["nuggets"]:
            recalls.append(grounded_nugget["recall"])
        suspects += _suspects(line)
        n_limited += bool(line["evidence"]["dropped"] or line["evidence"]["cut"])
        n_repaired += bool(line["repairs"])
    suspects.sort(key=_most_suspect_first)
    # Not every suspect is ungrounded: some have a better source than the one they cite.
    n_grounded, n_better_elsewhere = len(nuggets), 0
    for suspect in suspects:
        n_grounded -= not suspect["grounded"]
        n_better_elsewhere += suspect["better_source"] is not None
    grounded_share = None
    if nuggets:
        grounded_share = round(n_grounded / len(nuggets), 4)
    weights: Counter[int] = Counter()
    n_sources: list[int] = []
    for nugget in nuggets:
        weights[nugget["weight"]] += 1
        n_sources.append(len(nugget["source_ids"]))
    values = {
        "n_expected": run.n_expected,
        "n_done": len(lines),
        "n_failed": len(run.failures),
        "nuggets": len(nuggets),
        "nuggets_per_intent": {
            "mean": _mean(per_intent),
            "min": min(per_intent, default=None),
            "max": max(per_intent, default=None),
        },
        # The three weights of the release, also those that no nugget has.
        "weights": {str(weight): weights[weight] for weight in (3, 2, 1)},
        "sources_per_nugget": _mean(n_sources),
        "grounding": {
            "mean": _mean(recalls),
            "grounded": n_grounded,
            "grounded_share": grounded_share,
            "better_elsewhere": n_better_elsewhere,
        },
        "repaired": n_repaired,
        "evidence_limited": n_limited,
        "suspicious": suspects,
        "calls": run.spent.calls,
        "failed_attempts": run.spent.failed_attempts,
        "tokens": {model: dict(tokens) for model, tokens in run.spent.tokens.items()},
        "cost_usd": run.spent.cost_usd(run.manifest.prices),
        "wall_s": round(run.wall_s, 3),
    }
    return values | caveats_json([run.manifest.caveat])


def _suspects(line: Line) -> Iterator[dict[str, Any]]:
    """The nuggets that their cited sources do not support, or that another source supports better."""
    grounding = line["grounding"]
    for nugget in grounding["nuggets"]:
        grounded = nugget["id"] not in grounding["ungrounded"]
        if not grounded or "better_source" in nugget:
            yield {
                "intent": line["id"],
                "nugget": nugget["id"],
                "recall": nugget["recall"],
                "grounded": grounded,
                "missing_terms": nugget.get("missing_terms", []),
                "missing_numbers": nugget.get("missing_numbers", []),
                "better_source": nugget.get("better_source"),
                "better_recall": nugget.get("better_recall"),
            }


def _most_suspect_first(suspect: Mapping[str, Any]) -> tuple[bool, float]:
    """Ungrounded ones first, by recall; then the others by how much better another source is."""
    if not suspect["grounded"]:
        return False, suspect["recall"]
    better = (suspect["better_recall"] or 0.0) - suspect["recall"]
    return True, -better


def _mean(numbers: list[float] | list[int]) -> float | None:
    if not numbers:
        return None
    return round(fmean(numbers), 4)


def print_gold(console: Console, summary: GoldSummary) -> None:
    """Print the table, the most suspicious nuggets, and failures."""
    print_facts(console, "static gold", _facts(summary.values))
    suspects = summary.values["suspicious"]
    for suspect in suspects[:MOST_SUSPECTS]:
        style = "yellow"
        if suspect["grounded"]:
            style = "dim"
        print_plainly(console, _suspect_line(suspect), style)
    if len(suspects) > MOST_SUSPECTS:
        n_unlisted = len(suspects) - MOST_SUSPECTS
        print_plainly(console, f"... and {n_unlisted} more, each with its `grounding` in the gold file")
    print_failures(console, [summary.run])


def _facts(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    n, per_intent, grounding = values["nuggets"], values["nuggets_per_intent"], values["grounding"]
    yield "intents done", f"{values['n_done']}/{values['n_expected']}"
    yield "intents failed", str(values["n_failed"])
    if n:
        spread = f"mean {per_intent['mean']:.2f}, min {per_intent['min']}, max {per_intent['max']}"
        yield "nuggets per intent", f"{spread} ({n} in all)"
        weights: list[str] = []
        for weight, count in values["weights"].items():
            weights.append(f"{weight}: {count} ({count / n:.0%})")
        yield "nuggets by weight", ", ".join(weights)
        yield "sources per nugget", f"{values['sources_per_nugget']:.2f}"
        yield "grounding, mean recall", f"{grounding['mean']:.3f}"
        grounded = grounding["grounded"]
        yield "grounded", f"{grounded}/{n} ({grounded / n:.1%}), {n - grounded} below"
        yield "better in another source", str(grounding["better_elsewhere"])
        yield "evidence cut or dropped", f"{values['evidence_limited']} intents"
        yield "replies repaired", f"{values['repaired']} intents"
    yield "calls", str(values["calls"])


def _suspect_line(suspect: Mapping[str, Any]) -> str:
    """`suspicious: q1 N2, recall 0.33, missing 1997, museum; better in S4 (0.90)`"""
    text = "suspicious"
    # Its own source supports it, and another one does so better.
    if suspect["grounded"]:
        text = "look at"
    text += f": {suspect['intent']} {suspect['nugget']}, recall {suspect['recall']:.2f}"
    missing = suspect["missing_numbers"] + suspect["missing_terms"]
    if missing:
        text += f", missing {' '.join(missing[:MOST_TERMS])}"
    if len(missing) > MOST_TERMS:
        text += f" and {len(missing) - MOST_TERMS} more"
    if suspect["better_source"] is not None:
        text += f"; better in {suspect['better_source']} ({suspect['better_recall']:.2f})"
    return plain(text)

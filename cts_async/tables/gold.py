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
    found: dict[str, Line | None] = {}
    for line in read_results(directory / RESULTS):
        # Answers and sources are long: only the rest is held.
        parts = ("id", "gold", "grounding", "evidence", "repairs")
        found[line["id"]] = None if failed(line) else {name: line.get(name) for name in parts}
    run = summarise_run(directory)
    try:
        return GoldSummary(run, _values(run, [line for line in found.values() if line]))
    except (KeyError, TypeError):
        problem = "has a damaged line: move this file away, and the same command makes it again"
        raise InputError(directory / RESULTS, problem) from None


def _values(run: RunSummary, lines: list[Line]) -> dict[str, Any]:
    """Counts over the intents that have gold; failures are counted apart. Means of nothing are None."""
    nuggets = [nugget for line in lines for nugget in line["gold"]["nuggets"]]
    per_intent = [len(line["gold"]["nuggets"]) for line in lines]
    suspects = sorted((suspect for line in lines for suspect in _suspects(line)), key=_most_suspect_first)
    n_grounded = len(nuggets) - sum(not suspect["grounded"] for suspect in suspects)
    weights = Counter(nugget["weight"] for nugget in nuggets)
    return {
        "n_expected": run.n_expected,
        "n_done": len(lines),
        "n_failed": len(run.failures),
        "nuggets": len(nuggets),
        "nuggets_per_intent": {
            "mean": _mean(per_intent),
            "min": min(per_intent, default=None),
            "max": max(per_intent, default=None),
        },
        "weights": {str(weight): weights[weight] for weight in (3, 2, 1)},
        "sources_per_nugget": _mean([len(nugget["source_ids"]) for nugget in nuggets]),
        "grounding": {
            "mean": _mean([one["recall"] for line in lines for one in line["grounding"]["nuggets"]]),
            "grounded": n_grounded,
            "grounded_share": round(n_grounded / len(nuggets), 4) if nuggets else None,
            "better_elsewhere": sum(suspect["better_source"] is not None for suspect in suspects),
        },
        "repaired": sum(bool(line["repairs"]) for line in lines),
        "evidence_limited": sum(
            bool(line["evidence"]["dropped"] or line["evidence"]["cut"]) for line in lines
        ),
        "suspicious": suspects,
        "calls": run.spent.calls,
        "failed_attempts": run.spent.failed_attempts,
        "tokens": {model: dict(used) for model, used in run.spent.tokens.items()},
        "cost_usd": run.spent.cost_usd(run.manifest.prices),
        "wall_s": round(run.wall_s, 3),
        **caveats_json([run.manifest.caveat]),
    }


def _suspects(line: Line) -> Iterator[dict[str, Any]]:
    """The nuggets that their cited sources do not support, or that another source supports better."""
    grounding = line["grounding"]
    for one in grounding["nuggets"]:
        grounded = one["id"] not in grounding["ungrounded"]
        if not grounded or "better_source" in one:
            yield {
                "intent": line["id"],
                "nugget": one["id"],
                "recall": one["recall"],
                "grounded": grounded,
                **{name: one.get(name, []) for name in ("missing_terms", "missing_numbers")},
                **{name: one.get(name) for name in ("better_source", "better_recall")},
            }


def _most_suspect_first(suspect: Mapping[str, Any]) -> tuple[bool, float]:
    """Ungrounded ones first, by recall; then the others by how much better another source is."""
    better = (suspect["better_recall"] or 0.0) - suspect["recall"]
    return suspect["grounded"], -better if suspect["grounded"] else suspect["recall"]


def _mean(numbers: list[float] | list[int]) -> float | None:
    return round(fmean(numbers), 4) if numbers else None


def print_gold(console: Console, summary: GoldSummary) -> None:
    """Print the table, the most suspicious nuggets, and failures."""
    print_facts(console, "static gold", _facts(summary.values))
    suspects = summary.values["suspicious"]
    for suspect in suspects[:MOST_SUSPECTS]:
        style = "dim" if suspect["grounded"] else "yellow"
        print_plainly(console, _suspect_line(suspect), style)
    if len(suspects) > MOST_SUSPECTS:
        more = len(suspects) - MOST_SUSPECTS
        print_plainly(console, f"... and {more} more, each with its `grounding` in the gold file")
    print_failures(console, [summary.run])


def _facts(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    n, per_intent, grounding = values["nuggets"], values["nuggets_per_intent"], values["grounding"]
    yield "intents done", f"{values['n_done']}/{values['n_expected']}"
    yield "intents failed", str(values["n_failed"])
    if n:
        spread = f"mean {per_intent['mean']:.2f}, min {per_intent['min']}, max {per_intent['max']}"
        yield "nuggets per intent", f"{spread} ({n} in all)"
        weights = (f"{weight}: {count} ({count / n:.0%})" for weight, count in values["weights"].items())
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
    missing = [*suspect["missing_numbers"], *suspect["missing_terms"]]
    text = f"{'look at' if suspect['grounded'] else 'suspicious'}: {suspect['intent']} {suspect['nugget']}"
    text += f", recall {suspect['recall']:.2f}"
    if missing:
        more = f" and {len(missing) - MOST_TERMS} more" if len(missing) > MOST_TERMS else ""
        text += f", missing {' '.join(missing[:MOST_TERMS])}{more}"
    if suspect["better_source"] is not None:
        text += f"; better in {suspect['better_source']} ({suspect['better_recall']:.2f})"
    return plain(text)

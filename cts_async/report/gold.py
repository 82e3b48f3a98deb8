"""A gold build summarised and printed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from cts_async.engine.run_dir import write_json
from cts_async.protocol.gold.files import not_as_built
from cts_async.protocol.results import Line, failed, read_results
from cts_async.protocol.run_files import RESULTS, SUMMARY
from cts_async.report.results import print_failures
from cts_async.report.summary import RunSummary, summarise_run
from cts_async.report.text import plain

# Summary of a gold build, computed from its run directory alone


@dataclass(frozen=True, slots=True)
class Suspect:
    """A nugget that its cited sources do not support, or that another source supports better."""

    intent: str
    nugget: str
    recall: float
    grounded: bool
    missing_terms: tuple[str, ...]
    missing_numbers: tuple[str, ...]
    better_source: str | None
    better_recall: float | None


@dataclass(frozen=True, slots=True)
class GoldSummary:
    """Counts over the intents that have gold; failures are counted apart. Means of nothing are None."""

    run: RunSummary
    per_intent: tuple[int, ...]
    """Number of nuggets of each intent, in the order of the results."""
    weights: Mapping[int, int]
    """Number of nuggets with weight 3, 2, 1."""
    n_cited: int
    """Citations of sources, over all nuggets."""
    recall_sum: float
    suspects: tuple[Suspect, ...]
    """Ungrounded ones first, by recall; then the others by how much better another source is."""
    n_repaired: int
    n_limited: int
    """Intents whose evidence was cut to fit the budget."""

    @property
    def n_nuggets(self) -> int:
        return sum(self.per_intent)

    @property
    def n_grounded(self) -> int:
        return self.n_nuggets - sum(not suspect.grounded for suspect in self.suspects)

    @property
    def n_better_elsewhere(self) -> int:
        return sum(suspect.better_source is not None for suspect in self.suspects)


def summarise_gold(directory: Path) -> GoldSummary:
    """Summarise a build. Raises InputError if the directory is not one, or for a malformed line."""
    parts: dict[str, _Part | None] = {}
    for line in read_results(directory / RESULTS):
        try:
            parts[line["id"]] = None if failed(line) else _part(line)
        except (KeyError, TypeError):
            raise not_as_built(directory / RESULTS, line["id"]) from None
    done = [part for part in parts.values() if part]
    suspects = sorted((suspect for part in done for suspect in part.suspects), key=_most_suspect_first)
    weights = Counter(weight for part in done for weight in part.weights)
    return GoldSummary(
        run=summarise_run(directory),
        per_intent=tuple(len(part.weights) for part in done),
        weights={weight: weights[weight] for weight in (3, 2, 1)},
        n_cited=sum(part.n_cited for part in done),
        recall_sum=sum(part.recall_sum for part in done),
        suspects=tuple(suspects),
        n_repaired=sum(part.repaired for part in done),
        n_limited=sum(part.limited for part in done),
    )


def gold_summary_json(summary: GoldSummary) -> dict[str, Any]:
    """Return the content of `summary.json` and `--json`."""
    run, n = summary.run, summary.n_nuggets
    per_intent = summary.per_intent
    return {
        "n_expected": run.n_expected,
        "n_done": len(per_intent),
        "n_failed": len(run.failures),
        "nuggets": n,
        "nuggets_per_intent": {
            "mean": _share(n, len(per_intent)),
            "min": min(per_intent, default=None),
            "max": max(per_intent, default=None),
        },
        "weights": {str(weight): count for weight, count in summary.weights.items()},
        "sources_per_nugget": _share(summary.n_cited, n),
        "grounding": {
            "mean": _share(summary.recall_sum, n),
            "grounded": summary.n_grounded,
            "grounded_share": _share(summary.n_grounded, n),
            "better_elsewhere": summary.n_better_elsewhere,
        },
        "repaired": summary.n_repaired,
        "evidence_limited": summary.n_limited,
        "suspicious": [asdict(suspect) for suspect in summary.suspects],
        "calls": run.spent.calls,
        "failed_attempts": run.spent.failed_attempts,
        "tokens": {model: dict(used) for model, used in run.spent.tokens.items()},
        "cost_usd": run.spent.cost_usd(run.manifest.get("prices", {})),
        "wall_s": round(run.wall_s, 3),
        "smoke_test": bool(run.manifest.get("embedded")),
    }


def write_gold_summary(summary: GoldSummary) -> dict[str, Any]:
    """Write `summary.json` and return its content."""
    value = gold_summary_json(summary)
    write_json(summary.run.directory / SUMMARY, value)
    return value


@dataclass(frozen=True, slots=True)
class _Part:
    """The counts of one intent's line."""

    weights: tuple[int, ...]
    n_cited: int
    recall_sum: float
    suspects: tuple[Suspect, ...]
    repaired: bool
    limited: bool


def _part(line: Line) -> _Part:
    nuggets, grounding = line["gold"]["nuggets"], line["grounding"]
    return _Part(
        weights=tuple(nugget["weight"] for nugget in nuggets),
        n_cited=sum(len(nugget["source_ids"]) for nugget in nuggets),
        recall_sum=sum(checked["recall"] for checked in grounding["nuggets"]),
        suspects=tuple(_suspects(line["id"], grounding["nuggets"], grounding["ungrounded"])),
        repaired=bool(line["repairs"]),
        limited=bool(line["evidence"]["dropped"] or line["evidence"]["cut"]),
    )


def _suspects(intent: str, checked: Sequence[Line], ungrounded: Sequence[str]) -> list[Suspect]:
    return [
        Suspect(
            intent=intent,
            nugget=one["id"],
            recall=one["recall"],
            grounded=one["id"] not in ungrounded,
            missing_terms=tuple(one.get("missing_terms", ())),
            missing_numbers=tuple(one.get("missing_numbers", ())),
            better_source=one.get("better_source"),
            better_recall=one.get("better_recall"),
        )
        for one in checked
        if one["id"] in ungrounded or "better_source" in one
    ]


def _most_suspect_first(suspect: Suspect) -> tuple[bool, float]:
    better = (suspect.better_recall or 0.0) - suspect.recall
    return suspect.grounded, -better if suspect.grounded else suspect.recall


def _share(part: float, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


# The build on a terminal

MOST_SUSPECTS = 10
MOST_TERMS = 6


def print_gold(console: Console, summary: GoldSummary) -> None:
    """Print the table, the most suspicious nuggets, and failures."""
    table = Table(
        title="static gold", title_justify="left", box=SIMPLE_HEAD, show_edge=False, show_header=False
    )
    table.add_column("", no_wrap=True)
    table.add_column("", overflow="fold")
    for row in _rows(summary):
        table.add_row(*row)
    console.print(table)
    _print_suspects(console, summary)
    print_failures(console, [summary.run])


def _rows(summary: GoldSummary) -> Iterator[tuple[str, str]]:
    run, n, per_intent = summary.run, summary.n_nuggets, summary.per_intent
    yield "intents done", f"{len(per_intent)}/{run.n_expected}"
    yield "intents failed", str(len(run.failures))
    if per_intent:
        spread = f"mean {n / len(per_intent):.2f}, min {min(per_intent)}, max {max(per_intent)}"
        yield "nuggets per intent", f"{spread} ({n} in all)"
        weights = (f"{weight}: {count} ({count / n:.0%})" for weight, count in summary.weights.items())
        yield "nuggets by weight", ", ".join(weights)
        yield "sources per nugget", f"{summary.n_cited / n:.2f}"
        yield "grounding, mean recall", f"{summary.recall_sum / n:.3f}"
        n_weak = n - summary.n_grounded
        yield "grounded", f"{summary.n_grounded}/{n} ({summary.n_grounded / n:.1%}), {n_weak} below"
        yield "better in another source", str(summary.n_better_elsewhere)
        yield "evidence cut or dropped", f"{summary.n_limited} intents"
        yield "replies repaired", f"{summary.n_repaired} intents"
    yield "calls", str(run.spent.calls)


def _print_suspects(console: Console, summary: GoldSummary) -> None:
    suspects = summary.suspects
    for suspect in suspects[:MOST_SUSPECTS]:
        console.print(
            _suspect_line(suspect),
            style="dim" if suspect.grounded else "yellow",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    if len(suspects) > MOST_SUSPECTS:
        console.print(
            f"... and {len(suspects) - MOST_SUSPECTS} more, each with its `grounding` in the gold file",
            markup=False,
            highlight=False,
        )


def _suspect_line(suspect: Suspect) -> str:
    """`suspicious: q1 N2, recall 0.33, missing 1997, museum; better in S4 (0.90)`"""
    missing = (*suspect.missing_numbers, *suspect.missing_terms)
    parts = [f"{'look at' if suspect.grounded else 'suspicious'}: {suspect.intent} {suspect.nugget}"]
    parts.append(f"recall {suspect.recall:.2f}")
    if missing:
        more = f" and {len(missing) - MOST_TERMS} more" if len(missing) > MOST_TERMS else ""
        parts.append(f"missing {' '.join(missing[:MOST_TERMS])}{more}")
    text = ", ".join(parts)
    if suspect.better_source is not None and suspect.better_recall is not None:
        text += f"; better in {suspect.better_source} ({suspect.better_recall:.2f})"
    return plain(text)

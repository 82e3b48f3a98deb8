"""A build of gold on a terminal: how many nuggets, how heavy, how well grounded, and which to look at."""

from __future__ import annotations

from collections.abc import Iterator

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from cts_async.report.gold_summary import GoldSummary, Suspect
from cts_async.report.plain import plain

MOST_SUSPECTS = MOST_FAILURES = 10
MOST_TERMS = 6
SMOKE_TEST = (
    "Smoke test: a role was played by the small embedded model. This gold shows that everything works; "
    "it is no reference to score anybody by."
)


def print_gold(console: Console, summary: GoldSummary) -> None:
    """The table, then the most suspicious nuggets, then failures."""
    table = Table(
        title="static gold", title_justify="left", box=SIMPLE_HEAD, show_edge=False, show_header=False
    )
    table.add_column("", no_wrap=True)
    table.add_column("", overflow="fold")
    for row in _rows(summary):
        table.add_row(*row)
    console.print(table)
    _print_suspects(console, summary)
    _print_failures(console, summary)


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
            _told(suspect),
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


def _told(suspect: Suspect) -> str:
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


def _print_failures(console: Console, summary: GoldSummary) -> None:
    failures = summary.run.failures
    for line in failures[:MOST_FAILURES]:
        error = line["error"]
        text = plain(f"failed: {line['id']} at {error['step']}: {error['message']}")
        console.print(text, style="red", markup=False, highlight=False, soft_wrap=True)
    if len(failures) > MOST_FAILURES:
        console.print(f"... and {len(failures) - MOST_FAILURES} more in results.jsonl", style="red")
    if failures:
        console.print("The same command with --retry-failed tries these again.")

"""`cts score`: the standalone scorer as a command."""

from __future__ import annotations

import typer

HELP = """Score judged files: restore_score_100 and its summary, from results.jsonl, per_item.jsonl or judgments/*.jsonl.

A run directory stands for its results.jsonl. Options are the scorer's: --gold G, --json.

Example: cts score runs/sample-local-k1
"""


def score(context: typer.Context) -> None:
    from pathlib import Path

    from cts_async import scorer

    arguments = [
        str(Path(word) / "results.jsonl") if not word.startswith("-") and Path(word).is_dir() else word
        for word in context.args
    ]
    raise typer.Exit(scorer.main(arguments))


score.__doc__ = HELP

"""`cts score`: the standalone scorer as a command."""

from __future__ import annotations

from pathlib import Path

import typer

HELP = """Score judged files: restore_score_100 and its summary, from results.jsonl, per_item.jsonl or judgments/*.jsonl.

A run directory stands for its results.jsonl. Options are the scorer's: --gold G, --json.

Example: cts score runs/sample-local-k1
"""


def score(context: typer.Context) -> None:
    from cts_async import scorer

    arguments = [
        str(Path(word) / "results.jsonl") if not word.startswith("-") and Path(word).is_dir() else word
        for word in context.args
    ]
    status = scorer.main(arguments)
    if any(_is_smoke_test(Path(word).parent) for word in arguments if not word.startswith("-")):
        from cts_async.report.table import SMOKE_TEST

        typer.echo(SMOKE_TEST, err=True)
    raise typer.Exit(status)


score.__doc__ = HELP


def _is_smoke_test(directory: Path) -> bool:
    """Whether a file's run was played by the embedded model."""
    from cts_async.engine.run_dir import read_manifest

    manifest = read_manifest(directory) if directory.is_dir() else None
    return bool(manifest and manifest.get("embedded"))

"""`cts score`: the standalone scorer as a command."""

from __future__ import annotations

from pathlib import Path

import typer

HELP = """Score judged files: restore_score_100 and its summary, from results.jsonl, per_item.jsonl or judgments/*.jsonl.

Also from .csv and .tsv (a row for each judged nugget, or for each item's score), and gzipped. A directory
stands for its results.jsonl or per_item.jsonl, or for those one level below; patterns are expanded.
Options are the scorer's: --gold G, --json.

Example: cts score runs/sample-local-k1 'outputs/*/per_item.jsonl'
"""


def score(context: typer.Context) -> None:
    from cts_async import scorer
    from cts_async.errors import EXIT_USAGE

    status = scorer.main(context.args)
    words = [word for word in context.args if status != EXIT_USAGE and not word.startswith("-")]
    if any(_is_smoke_test(Path(file).parent) for word in words for file in scorer.judged_files(word)):
        from cts_async.report.table import SMOKE_TEST

        typer.echo(SMOKE_TEST, err=True)
    raise typer.Exit(status)


score.__doc__ = HELP


def _is_smoke_test(directory: Path) -> bool:
    """Whether a file's run was played by the embedded model."""
    from cts_async.engine.run_dir import read_manifest

    manifest = read_manifest(directory) if directory.is_dir() else None
    return bool(manifest and manifest.get("embedded"))

"""`cts score`: the standalone scorer as a command."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from cts_async.cli import options


def score(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Judged files; see above.")],
    gold: Annotated[
        Path | None, typer.Option(help="Take the nuggets' weights from this gold (JSONL).")
    ] = None,
    skip_bad_gold: options.SkipBadGold = False,
    empty_answers: options.EmptyAnswersOption = "fail",
    as_json: options.AsJson = False,
) -> None:
    """Score judged files: restore_score_100 and its summary, from results.jsonl, per_item.jsonl or judgments/*.jsonl.

    Reads .csv and .tsv too (one row for each judged nugget, or for each item's score), and gzipped files. A directory
    stands for its results.jsonl or per_item.jsonl, or for those one level below; patterns are expanded. Exit code 1 if
    items failed.

    Example: cts score runs/sample-local-k1 'outputs/*/per_item.jsonl'
    """
    from cts_async import scorer
    from cts_async.errors import EXIT_OK, EXIT_SOME_FAILED, UsageError

    try:
        rows = scorer.score_files(
            _judged(files), gold, _remark, skip_bad_gold=skip_bad_gold, empty_is_zero=empty_answers == "zero"
        )
    except scorer.BadInput as problem:
        raise UsageError(str(problem)) from None
    typer.echo(scorer.as_json(rows) if as_json else scorer.table(rows))
    if any(_is_smoke_test(Path(file).parent) for file, _ in rows):
        from cts_async.report.results import SMOKE_TEST

        typer.echo(SMOKE_TEST, err=True)
    raise typer.Exit(EXIT_SOME_FAILED if any(summary.n_failed for _, summary in rows) else EXIT_OK)


def _judged(words: Iterable[str]) -> list[str]:
    """Return the judged files among those named: without built gold and conversations, which have no scores.

    Raises UsageError if there are only conversations.
    """
    from cts_async import scorer
    from cts_async.errors import UsageError
    from cts_async.protocol.run_files import REPORT, is_conversation, is_gold_build

    named = [file for word in words for file in scorer.judged_files(word)]
    files = [file for file in named if Path(file).name != REPORT] or named
    folders = {file: Path(file).parent for file in files}
    judged = [file for file in files if not (is_gold_build(folders[file]) or is_conversation(folders[file]))]
    if files and all(map(is_conversation, folders.values())):
        raise UsageError(f"{files[0]}: conversations alone (cts converse): there is no answer in it to score")
    return judged or files


def _remark(line: str) -> None:
    typer.echo(f"cts: {line}", err=True)


def _is_smoke_test(directory: Path) -> bool:
    """True if run.json beside a file says that the embedded model played; False if it is missing or unreadable."""
    from cts_async.engine.run_dir import read_manifest
    from cts_async.errors import CTSError

    try:
        manifest = read_manifest(directory)
    except CTSError:
        return False
    return bool(manifest and manifest.get("embedded"))

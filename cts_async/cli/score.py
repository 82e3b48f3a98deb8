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
    from cts_async.protocol.run_files import manifest_of

    def remark(line: str) -> None:
        typer.echo(f"cts: {line}", err=True)

    try:
        rows = scorer.score_files(
            _judged(files), gold, remark, skip_bad_gold=skip_bad_gold, empty_is_zero=empty_answers == "zero"
        )
    except scorer.BadInput as problem:
        raise UsageError(str(problem)) from None
    typer.echo(scorer.as_json(rows) if as_json else scorer.table(rows))
    if any(manifest_of(Path(file).parent).get("embedded") for file, _ in rows):
        from cts_async.report.results import SMOKE_TEST

        typer.echo(SMOKE_TEST, err=True)
    raise typer.Exit(EXIT_SOME_FAILED if any(summary.n_failed for _, summary in rows) else EXIT_OK)


def _judged(words: Iterable[str]) -> list[str]:
    """Return the judged files among those named: without built gold and runs without a search, which have no scores.

    Raises UsageError if there is nothing else.
    """
    from cts_async import scorer
    from cts_async.errors import UsageError
    from cts_async.protocol.run_files import REPORT, has_no_answers, is_gold_build

    named = [file for word in words for file in scorer.judged_files(word)]
    files = [file for file in named if Path(file).name != REPORT] or named
    answered = [file for file in files if not has_no_answers(Path(file).parent)]
    if files and not answered:
        raise UsageError(
            f"{files[0]}: there is no answer in it to score (cts converse and --stop-after search nothing)"
        )
    return [file for file in answered if not is_gold_build(Path(file).parent)] or files

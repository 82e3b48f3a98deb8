"""`cts score`: the standalone scorer as a command."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from cts_async.cli import options


def score(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE", help="Judged files, directories or patterns.", **options.RUNS),
    ],
    gold: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Take the weights of the nuggets from this gold file (JSONL)."),
    ] = None,
    skip_bad_gold: options.SkipBadGold = False,
    all_versions: options.AllVersions = False,
    empty_answers: options.EmptyAnswersOption = "fail",
    as_json: options.AsJson = False,
) -> None:
    """Compute restore_score_100 and its summary from judged files: results.jsonl, per_item.jsonl, judgments/*.jsonl.

    Example: cts score runs/sample-local-k1 'outputs/*/per_item.jsonl'

    Also reads gzipped files, .csv and .tsv (a row for each judged nugget, or for each item's score). For a directory,
    its results.jsonl or per_item.jsonl is read, or those one level below: of a folder or a quoted pattern the newest
    version of each run. Exit code 1 if items failed.

    Files of your own need at least these fields (the gold is that of cts judge):

    \b
    labels.jsonl
    {"id":"q1","results":[{"id":"N1","coverage":"full"}]}
    {"id":"q2","results":[{"id":"N1","coverage":"none"}]}
    gold.jsonl
    {"id":"q1","query":"ferry","nuggets":[{"id":"N1","text":"at 9","weight":3}]}
    {"id":"q2","query":"bikes","nuggets":[{"id":"N1","text":"free","weight":1}]}

    Example: cts score labels.jsonl --gold gold.jsonl
    """
    from cts_async import scorer
    from cts_async.errors import EXIT_OK, EXIT_SOME_FAILED, UsageError
    from cts_async.records import caveats_in
    from cts_async.runs.manifest import manifest_of

    # The scorer imports nothing of the package, so it can be copied and run alone: it is told where remarks go.
    def remark(line: str) -> None:
        typer.echo(f"cts: {scorer.printable(line)}", err=True)

    try:
        rows = scorer.score_files(
            _judged(files, remark, all_versions=all_versions),
            gold,
            remark,
            skip_bad_gold=skip_bad_gold,
            empty_is_zero=empty_answers == "zero",
        )
    except scorer.BadInput as problem:
        raise UsageError(str(problem)) from None
    if as_json:
        typer.echo(scorer.as_json(rows))
    else:
        typer.echo(scorer.table(rows))
    caveats = caveats_in(manifest_of(Path(file).parent).caveat for file, _ in rows)
    if caveats:
        from cts_async.tables.results import CAVEATS

        # Standard output is the scorer's alone, as where it is run without the package.
        for caveat in caveats:
            typer.echo(CAVEATS[caveat], err=True)
    if any(summary.n_failed for _, summary in rows):
        raise typer.Exit(EXIT_SOME_FAILED)
    raise typer.Exit(EXIT_OK)


def _judged(words: Iterable[str], on_note: Callable[[str], None], *, all_versions: bool) -> list[str]:
    """Return the judged files among those named: without built gold and runs without a search, which have no scores.

    Of folders and patterns those of the newest versions of runs. Raises UsageError if there is nothing else.
    """
    from cts_async import scorer
    from cts_async.errors import UsageError
    from cts_async.runs.files import REPORT, has_no_answers, is_gold_build

    matched: dict[str, bool] = {}
    for word in words:
        named = Path(word)
        for file in scorer.judged_files(word):
            # A file of a run that was named, or itself; not one of a folder of runs.
            by_path = named.exists() and (named == Path(file) or named == _run_of(file))
            matched[file] = matched.get(file, False) or by_path
    # A pattern such as runs/* matches reports, too; a report that is named alone is refused by the scorer.
    files = [file for file in matched if Path(file).name != REPORT] or list(matched)
    if not all_versions:
        files = _without_older_versions(files, matched, on_note)
    answered = [file for file in files if not has_no_answers(_run_of(file))]
    if files and not answered:
        raise UsageError(
            f"{files[0]}: has no answers to score (runs of cts converse and --stop-after search nothing)"
        )
    return [file for file in answered if not is_gold_build(_run_of(file))] or files


def _run_of(file: str) -> Path:
    """The directory of the run that a judged file belongs to."""
    from cts_async.runs.files import JUDGMENTS

    folder = Path(file).parent
    if folder.name == JUDGMENTS:
        return folder.parent
    return folder


def _without_older_versions(
    files: Sequence[str], by_path: Mapping[str, bool], on_note: Callable[[str], None]
) -> list[str]:
    from cts_async.runs.selection import RunPath, without_older_versions

    runs: dict[Path, RunPath] = {}
    for file in files:
        run = _run_of(file)
        was_named = run in runs and runs[run].by_path
        runs[run] = RunPath(run, named=True, by_path=was_named or by_path[file])
    shown = {run.path for run in without_older_versions(list(runs.values()), on_note)}
    return [file for file in files if _run_of(file) in shown]

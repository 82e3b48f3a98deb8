"""The files of `cts report`: checks the options, then computes everything, then writes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from cts_async.analysis.retrieval import TurnRetrieval
from cts_async.errors import UsageError
from cts_async.pages.contents import Gathered, all_tables, gather, open_instances, open_talks
from cts_async.pages.plots import Drawn, check_export, figures, write_figures
from cts_async.pages.report import Origin, ReportContents, write_report
from cts_async.runs.files import REPORT
from cts_async.tables.output import counted, plain
from cts_async.tables.paper import APPENDIX, NAME, results_table, write_paper_files
from cts_async.tables.table import DataTable, with_free_names


def make_report(
    runs: Sequence[str],
    origin: Origin,
    *,
    out: Path | None = None,
    tables: Path | None = None,
    plots: Path | None = None,
    formats: Sequence[str] = (),
    **settings: Any,
) -> Iterator[str]:
    """Write the report, tables and plots; yield a line about each. Raises UsageError, StorageFull.

    `settings` are those of `gather`.
    """
    for option, folder in (("--tables", tables), ("--plots", plots)):
        if folder is not None and folder.is_file():
            raise UsageError(f"{folder}: is a file; name a folder with {option}")
    if out is not None:
        _check_writable(out)
    # After what was typed: a wrong path is mended sooner than a missing browser.
    if plots is not None:
        check_export(formats)
    gathered = gather(runs, **settings)
    if out is None:
        out = default_path(gathered)
        _check_writable(out)
    opened, notes = open_instances(gathered)
    opened += tuple(open_talks(gathered))
    drawn = _figures(gathered)
    contents = ReportContents(gathered, all_tables(gathered), drawn, opened, notes)
    write_report(out, contents, origin)
    n_figures = counted(len(drawn.figures), "figure")
    n_tables = counted(len(contents.tables), "table")
    n_opened = counted(sum(len(run.instances) for run in opened), "instance")
    yield plain(f"{out}: {n_figures}, {n_tables}, {n_opened} opened")
    for note in gathered.notes:
        yield plain(note)
    if tables is not None:
        yield plain(_write_tables(tables, contents, origin.command))
    if plots is not None:
        images = write_figures(drawn.figures, plots, formats)
        yield plain(f"{plots}: {n_figures} in {counted(len(images), 'file')}")


def _write_tables(folder: Path, contents: ReportContents, command: str) -> str:
    """Write the tables for a paper; return a line about them."""
    gathered = contents.gathered
    # The paper's own table first, and everything else in an appendix.
    main: list[DataTable] = []
    if gathered.compared:
        main.append(results_table(gathered.compared, gathered.names))
    tables = [grouped.table for grouped in contents.tables]
    appendix = list(with_free_names(tables, used_names=(NAME, APPENDIX)))
    files = write_paper_files(folder, main, appendix, command)
    tex_files = [f"{table.name}.tex" for table in main]
    tex_files.append(f"{APPENDIX}.tex")
    n_tables = counted(len(appendix), "table")
    return f"{folder}: {n_tables} in {counted(len(files), 'file')}, for a paper {' and '.join(tex_files)}"


def default_path(gathered: Gathered) -> Path:
    """Return report.html in the run, or in the folder that the runs have in common."""
    folders: list[Path] = []
    for path in gathered.run_paths:
        if path.is_dir():
            folders.append(path)
        else:
            folders.append(path.parent)
    if len(folders) == 1:
        return folders[0] / REPORT
    common = Path(os.path.commonpath([folder.resolve() for folder in folders]))
    # As a person would type it.
    if common.is_relative_to(Path.cwd()):
        common = common.relative_to(Path.cwd())
    return common / REPORT


def _figures(gathered: Gathered) -> Drawn:
    turns: Sequence[TurnRetrieval] = ()
    judgments = ""
    if gathered.talk_report:
        turns, judgments = gathered.talk_report.retrieved, gathered.talk_report.judgments
    embedded: set[str] = set()
    for talk in gathered.talks:
        if talk.manifest.embedded:
            embedded.add(str(talk.manifest.players.get("clarifier")))
    return figures(
        gathered.compared,
        gathered.diagnosis,
        summaries=gathered.summaries,
        turns=turns,
        judgments=judgments,
        embedded_talks=embedded,
    )


def _check_writable(out: Path) -> None:
    """Raise UsageError for a path that cannot be written, before anything is computed."""
    if out == Path("-"):
        raise UsageError("--out -: a report is written to a file; name one, such as report.html")
    if out.is_dir():
        raise UsageError(
            f"{out}: is a folder; name a file in it with --out, such as {quote(str(out / REPORT))}"
        )
    if not out.parent.is_dir():
        raise UsageError(f"{out}: the folder {out.parent} does not exist; choose another path with --out")
    # A new file needs a folder that can be written.
    target = out.parent
    if out.exists():
        target = out
    if not os.access(target, os.W_OK):
        raise UsageError(f"{out}: cannot be written; choose another path with --out")

"""The files of `cts report`: checks the options, then computes everything, then writes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from cts_async.errors import UsageError
from cts_async.pages.contents import Gathered, all_tables, gather, open_instances, open_talks
from cts_async.pages.plots import Drawn, check_export, figures, write_figures
from cts_async.pages.report import Origin, ReportContents, write_report
from cts_async.runs.files import REPORT
from cts_async.tables.output import counted, plain
from cts_async.tables.paper import APPENDIX, NAME, results_table, write_paper_files
from cts_async.tables.table import with_free_names


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
    if plots is not None:
        check_export(formats)  # after what was typed: a wrong path is mended sooner than a missing browser
    gathered = gather(runs, **settings)
    out = out or default_path(gathered)
    _check_writable(out)
    opened, notes = open_instances(gathered)
    opened += tuple(open_talks(gathered))
    drawn = _figures(gathered)
    contents = ReportContents(gathered, all_tables(gathered), drawn, opened, notes)
    write_report(out, contents, origin)
    n_figures, n_opened = len(drawn.figures), sum(len(run.instances) for run in opened)
    parts = (
        counted(n_figures, "figure"),
        counted(len(contents.tables), "table"),
        f"{counted(n_opened, 'instance')} opened",
    )
    yield plain(f"{out}: {', '.join(parts)}")
    for note in gathered.notes:
        yield plain(note)
    if tables is not None:
        main = [results_table(gathered.compared, gathered.names)] if gathered.compared else []
        full = list(with_free_names((one.table for one in contents.tables), taken=(NAME, APPENDIX)))
        written = write_paper_files(tables, main, full, origin.command)
        yield plain(
            f"{tables}: {counted(len(full), 'table')} in {counted(len(written), 'file')}, for a paper "
            f"{' and '.join(f'{name}.tex' for name in (*(one.name for one in main), APPENDIX))}"
        )
    if plots is not None:
        written = write_figures(drawn.figures, plots, formats)
        yield plain(f"{plots}: {counted(n_figures, 'figure')} in {counted(len(written), 'file')}")


def default_path(gathered: Gathered) -> Path:
    """Return report.html in the run, or in the folder that the runs have in common."""
    folders = [path if path.is_dir() else path.parent for path in gathered.named]
    if len(folders) == 1:
        return folders[0] / REPORT
    common = Path(os.path.commonpath([folder.resolve() for folder in folders]))
    near = common.relative_to(Path.cwd()) if common.is_relative_to(Path.cwd()) else common
    return near / REPORT


def _figures(gathered: Gathered) -> Drawn:
    talked = gathered.talked
    embedded = (talk.manifest for talk in gathered.talks if talk.manifest.embedded)
    return figures(
        gathered.compared,
        gathered.diagnosis,
        summaries=gathered.summaries,
        turns=talked.retrieved if talked else (),
        judgments=talked.judgments if talked else "",
        embedded_talks={str(manifest.players.get("clarifier")) for manifest in embedded},
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
    if not os.access(out if out.exists() else out.parent, os.W_OK):
        raise UsageError(f"{out}: cannot be written; choose another path with --out")

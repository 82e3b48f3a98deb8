"""The files of `cts report`: checks the options, then computes everything, then writes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from shlex import quote
from typing import Any

from cts_async.analysis.retrieval import TurnRetrieval
from cts_async.errors import UsageError
from cts_async.pages.contents import (
    MASKED,
    Gathered,
    all_tables,
    gather,
    masked,
    open_instances,
    open_talks,
    restriction_lines,
)
from cts_async.pages.plots import Drawn, Figure, check_export, figures, write_figures
from cts_async.pages.report import GROUP_MARK, Origin, ReportContents, write_report
from cts_async.runs.files import REPORT
from cts_async.tables.output import counted, plain
from cts_async.tables.paper import APPENDIX, NAME, results_table, write_paper_files
from cts_async.tables.table import DataTable, in_sections, with_free_names

_PAGE_START = b"<!doctype html>"


def make_report(
    runs: Sequence[str],
    origin: Origin,
    *,
    out: Path | None = None,
    tables: Path | None = None,
    plots: Path | None = None,
    formats: Sequence[str] = (),
    mask: bool = False,
    **settings: Any,
) -> Iterator[str]:
    """Write the report, tables and plots; yield a line about each. Raises UsageError, StorageFull.

    With `mask` none of them has a text of the data, or one that was made of it: queries, answers, nuggets. `settings`
    are those of `gather`.
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
    contents = _contents(gathered, mask=mask)
    write_report(out, contents, origin)
    drawn_figures = [figure for group in contents.groups for figure in group.drawn.figures]
    n_opened_instances = 0
    n_all_tables = 0
    for group in contents.groups:
        n_all_tables += len(group.tables)
        n_opened_instances += sum(len(run.instances) for run in group.opened)
    n_figures = counted(len(drawn_figures), "figure")
    n_tables = counted(n_all_tables, "table")
    n_opened = counted(n_opened_instances, "instance")
    yield plain(f"{out}: {n_figures}, {n_tables}, {n_opened} opened")
    for restriction in dict.fromkeys(chain.from_iterable(map(restriction_lines, gathered.groups))):
        yield plain(restriction)
    for note in gathered.common_notes:
        yield plain(note)
    for gathered_group in gathered.groups:
        prefix = ""
        if gathered_group.heading:
            prefix = f"{gathered_group.heading}: "
        for note in gathered_group.notes:
            yield plain(prefix + note)
    if tables is not None:
        yield plain(_write_tables(tables, contents, origin.command))
    if plots is not None:
        chinese = [figure for group in contents.groups for figure in group.drawn.in_chinese]
        images = write_figures(drawn_figures + chinese, plots, formats)
        n_written = counted(len(drawn_figures) + len(chinese), "figure")
        yield plain(f"{plots}: {n_written} in {counted(len(images), 'file')}")


def _contents(gathered: Gathered, *, mask: bool) -> ReportContents:
    """Draw the figures, make the tables and open the instances of each group."""
    names_in_use: set[str] = set()
    contents: list[ReportContents] = []
    for number, group in enumerate(gathered.groups, start=1):
        opened, notes = open_instances(group)
        opened += tuple(open_talks(group))
        if mask:
            opened, notes = tuple(map(masked, opened)), (*notes, MASKED)
        drawn = _figures(group)
        if group.heading:
            drawn = _of_group(drawn, group.heading, number)
        contents.append(
            ReportContents(group, all_tables(group, names_in_use, mask=mask), drawn, opened, notes)
        )
    first, *others = contents
    return replace(first, others=tuple(others))


def _of_group(drawn: Drawn, heading: str, number: int) -> Drawn:
    """Name the group in the titles of its figures, and number the names of all but the first group's."""
    figures = [_figure_of_group(figure, heading, number) for figure in drawn.figures]
    chinese = [_figure_of_group(figure, heading, number) for figure in drawn.in_chinese]
    return replace(drawn, figures=tuple(figures), in_chinese=tuple(chinese))


def _figure_of_group(figure: Figure, heading: str, number: int) -> Figure:
    name = figure.name
    if number > 1:
        name += f"{GROUP_MARK}{number}"
    return replace(figure, name=name, title=f"{figure.title} ({heading})")


def _write_tables(folder: Path, contents: ReportContents, command: str) -> str:
    """Write the tables for a paper; return a line about them."""
    # The paper's own table first, and everything else in an appendix.
    sections: list[tuple[str, list[DataTable]]] = []
    for group in contents.groups:
        if group.gathered.compared:
            table = results_table(group.gathered.compared, group.gathered.names)
            sections.append((group.gathered.compared.marked_heading, [table]))
    main: list[DataTable] = []
    if len(sections) > 1:
        main = in_sections(sections)
    elif sections:
        main = sections[0][1]
    tables = [grouped.table for group in contents.groups for grouped in group.tables]
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
    if out.is_file() and not _may_be_replaced(out):
        raise UsageError(f"{out}: exists and is not an HTML page; choose another path with --out")
    # A new file needs a folder that can be written.
    target = out.parent
    if out.exists():
        target = out
    if not os.access(target, os.W_OK):
        raise UsageError(f"{out}: cannot be written; choose another path with --out")


def _may_be_replaced(out: Path) -> bool:
    """True for a page, by its name or its start, and an empty file: a slip such as `--out gold.jsonl` costs no data."""
    if out.suffix.lower() in (".html", ".htm"):
        return True
    try:
        with out.open("rb") as file:
            start = file.read(len(_PAGE_START))
    except OSError:
        return True  # reported as a file that cannot be written
    return not start or start.lower() == _PAGE_START

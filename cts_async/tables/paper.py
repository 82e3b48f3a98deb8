"""Tables for a paper: the main one, a row for each system, in words for readers of papers; and any table as LaTeX."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from math import ceil
from pathlib import Path
from typing import Final

from rich.cells import cell_len

from cts_async.analysis.compare import Judged, Standing, compare_over_common
from cts_async.analysis.stats import ALPHA
from cts_async.safe_files import atomic_writer
from cts_async.tables.comparison import (
    BEST,
    OWN_NOTE,
    RunsCompared,
    references_of,
    system_name,
)
from cts_async.tables.output import counted, visible
from cts_async.tables.results import CAVEATS
from cts_async.tables.table import (
    NO_DIFFERENCE,
    NO_INTERVAL,
    SHORT_MARK,
    Column,
    DataTable,
    Row,
    best_cells,
    bold_legend,
    csv_text,
    interval_notes,
    make_table_folder,
    markdown,
    number,
    text,
    with_caveats,
    written_rows,
)

NAME: Final = "results"
"""The name of its files."""


def results_table(found: RunsCompared, names: Mapping[str, str]) -> DataTable:
    """Scores under the first judge, with differences to the baseline and their tests. `names` are for readers.

    Mean, difference and test of a line are over the same instances, those that all systems have, and `n` counts them.
    Without such an instance each line has its own n, and there are no differences.
    """
    judged, baseline = found.judged[0], found.baseline
    if judged.n_differs and judged.standings[0].n_common:
        judged = compare_over_common(
            found.board, judged.judge, baseline, against_baseline=found.against_baseline, seed=found.seed
        )
    elif judged.n_differs:
        baseline = ""
        alone = (replace(one, gain=None, p_holm=None) for one in judged.standings)
        judged = replace(judged, baseline="", standings=tuple(alone), pairs=())
    references = references_of(found.board)
    rows = [{**_main_row(one), "reference": one.system in references} for one in judged.ranked]
    columns = [
        Column("System", system_name, numeric=False),
        Column("k", text("k")),
        Column("Mean", number("mean", "z.1f"), rank=BEST),
    ]
    if baseline:
        columns += [Column("Difference [95 % CI]", _gain_cell), Column("p (Holm)", _p_cell)]
    columns.append(Column("n", text("n")))
    table = DataTable(
        NAME,
        "Restore score (0 to 100, higher is better)",
        " ".join(_main_caption(found, judged, names)),
        columns,
        rows,
        group="reference",
        remarks=tuple(_main_remarks(found, judged, rows)),
    )
    return with_caveats(table, found.caveats)


def _main_row(one: Standing) -> Row:
    gain = one.gain
    low, high = (gain and gain.interval) or (None, None)
    return {
        "system": _without_k(one.system, one.k),
        "k": one.k or None,
        "mean": one.scores.mean,
        "judge_is": "+".join(one.judge_is) or None,
        "best_or_tied": one.best,
        "difference": gain.mean if gain else None,
        "low": low,
        "high": high,
        "n_differ": gain.n_differ if gain else None,
        "too_short": bool(low is not None and gain and gain.too_short),
        "no_difference": bool(gain and gain.nowhere),
        "p_holm": one.p_holm,
        "n": one.scores.n_scored,
    }


def _without_k(label: str, k: int) -> str:
    """A system's name without its k, which has a column: `GPT-5.2 (k=3)` or `gpt-k3+support-kimi`."""
    for ending in (f" (k={k})", f"-k{k}") if k else ():
        head, found, tail = label.rpartition(ending)
        if found:
            return head + tail
    return label


def _gain_cell(row: Row) -> str:
    if row["difference"] is None:
        return "-"
    if row["no_difference"]:
        return NO_DIFFERENCE
    difference = f"{row['difference']:+z.1f}"
    if row["low"] is None:
        return f"{difference} {NO_INTERVAL}"
    return f"{difference} [{row['low']:z.1f}, {row['high']:z.1f}]{SHORT_MARK if row['too_short'] else ''}"


def _p_cell(row: Row) -> str:
    p = row["p_holm"]
    return "-" if p is None else "<0.001" if p < 0.0005 else f"{p:.3f}"


def _main_caption(found: RunsCompared, judged: Judged, names: Mapping[str, str]) -> Iterator[str]:
    """Yield sentences; `judged` are the numbers of the table, over instances that may be fewer than those of `found`."""
    data = next((entrant.data.name for entrant in found.board.entrants if entrant.data.name), "")
    of = f" of {names.get(data, data)}" if data else ""
    by = f"judged by {names.get(judged.judge, judged.judge)}"
    common = judged.standings[0].n_common
    if judged.n_differs:
        yield f"Mean over each system's own n instances{of}, {by}."
    elif found.judged[0].n_differs:
        yield f"All numbers are over the n = {common} instances{of} that all systems have, {by}."
    else:
        yield f"Mean over n = {common} instances{of}, {by}."
    if judged.baseline:
        n_tests = len(judged.pairs)
        family = f"the {n_tests} tests of all pairs"
        if found.against_baseline or n_tests == 1:
            family = counted(n_tests, "test")
        yield (
            f"Difference: mean paired difference to {judged.baseline}, with a 95 % bootstrap confidence interval. "
            f"p: paired permutation test, corrected by Holm's method for {family}."
        )
    if any(one.best is False for one in judged.standings):
        references = references_of(found.board)
        apart = " and ".join(one.system for one in judged.ranked if one.system in references)
        rivals = f" of a system that clarifies (not {apart})" if apart else ""
        yield f"Bold: the highest mean{rivals}, and every mean that no test separates from it (p > {ALPHA})."
    elif judged.tied:
        yield f"No mean is bold, since no test separates any from the highest one (p > {ALPHA})."
    if judged.untestable:
        untestable = ", ".join(standing.system for standing in judged.untestable)
        yield f"Too few instances differ for any test to tell the highest mean from that of {untestable}."


def _main_remarks(found: RunsCompared, judged: Judged, rows: Sequence[Row]) -> Iterator[str]:
    if judged.n_differs:
        yield "No instance has a score in all systems, so there are no differences."
    elif found.judged[0].n_differs:
        scored = (f"{one.system} {one.scores.n_scored}" for one in found.judged[0].standings)
        yield f"Instances with a score: {', '.join(scored)}."
    if failed := [
        f"{one.system}: {one.scores.n_failed} of {one.scores.n_expected}"
        for one in judged.standings
        if one.scores.n_failed
    ]:
        yield f"Failed instances have no score: {'; '.join(failed)}."
    yield from interval_notes(standing.gain for standing in judged.standings if standing.gain)
    if any(row["judge_is"] for row in rows):
        yield OWN_NOTE
    for caveat in found.caveats:
        yield CAVEATS[caveat]


# --- LaTeX: table environments for documents that use booktabs (wide ones: graphicx, too)


APPENDIX: Final = "appendix"
"""The name of the file of all full tables."""
PAGE_LINES: Final = 36
"""Lines of one float; a longer table continues in the next, since a float does not break across pages."""
_MAX_FLOATS: Final = 12
"""Tables between two \\\\clearpage: LaTeX holds 18 unplaced floats by default."""
_WIDE: Final = 63
"""Characters, two for each gap, that a column of 84 mm holds at this size; of more the table may have to shrink."""
_LONG_TEXT: Final = 40
"""Characters of a cell from which on a column breaks its lines."""
_PART: Final = 15
"""Characters of a long word between two places where a line may break."""
_MISSING: Final = "-"
"""What `tables.text` and `tables.number` show for None; set as an en dash."""

_LIGATURE: Final = re.compile(r"([-',])(?=\1)")
_UNLABELLED: Final = re.compile(r"[^A-Za-z0-9:.-]")
_SIGN: Final = re.compile(r"(?<![\w}])-(?=[.\d])")
_SPACES: Final = re.compile(r"[^\S\u00a0\u202f]+")
_BOUND: Final = re.compile(r"(?<=\d) (?=%)|(?<=\b[A-Za-zα-ω]) (?=[=≤<>] )|(?<=[=≤<>]) (?=\d)")
"""Spaces of `95 %` and `n = 28`, where no line breaks."""
_NUMBERED: Final = re.compile(r"^Table \d+\. ")
_NEEDS_UNICODE: Final = re.compile(r"[^\x00-\u017f‘’“”„–—•€™]")
"""Characters that pdfLaTeX knows no command for."""


def write_paper_files(
    folder: Path, main: Sequence[DataTable], full: Sequence[DataTable], command: str
) -> list[Path]:
    """Write `main` tables as .tex, `full` ones as .md, .tex and .csv and all in APPENDIX.tex; return the paths.

    Every .tex file begins with `command`, which makes it again. All texts are formatted before the first file is
    written, each atomically. Creates the folder if necessary. Raises UsageError, StorageFull.
    """
    texts = {f"{table.name}.tex": latex([table], command) for table in main}
    for table in full:
        texts[f"{table.name}.md"] = markdown(table)
        texts[f"{table.name}.tex"] = latex([table], command)
        texts[f"{table.name}.csv"] = csv_text(table)
    texts[f"{APPENDIX}.tex"] = latex(full, command)
    make_table_folder(folder)
    for name, content in texts.items():
        with atomic_writer(folder / name) as file:
            file.write(content.encode(errors="replace"))
    return [folder / name for name in texts]


def latex(tables: Sequence[DataTable], command: str = "") -> str:
    """Format `table` environments with captions and labels, below comments on what they need. All text is escaped."""
    floats = [one for table in tables for one in _floats(table)]
    text = "".join(
        f"\n\\clearpage{one}" if place and place % _MAX_FLOATS == 0 else one
        for place, one in enumerate(floats)
    )
    packages = "{booktabs,graphicx}" if "\\resizebox" in text else "{booktabs}"
    comments = [f"% Made by: {_one_line(command)}"] if command else []
    comments.append(f"% Needs \\usepackage{packages}.")
    if _NEEDS_UNICODE.search(text):
        comments.append(
            "% Has letters that pdfLaTeX cannot set: use XeLaTeX or LuaLaTeX, for Chinese with \\usepackage{ctex}."
        )
    return "\n".join(comments) + text


def _floats(table: DataTable) -> Iterator[str]:
    """One `table` environment for each page of rows; the first carries the label, the last the remarks."""
    rows, headings = written_rows(table), [column.heading for column in table.columns]
    best = best_cells(rows, table.columns)
    cells = [[column.show(row).strip() for column in table.columns] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(headings, *cells, strict=True)]
    columns = "".join(map(_alignment, table.columns, widths))
    wide = sum(width + 2 for width in widths) > _WIDE
    pages = list(_pages([max(1, *(ceil(cell_len(cell) / _LONG_TEXT) for cell in row)) for row in cells]))
    for place, (start, end) in enumerate(pages):
        label = "" if place else f"\\label{{tab:{_UNLABELLED.sub(_label_word, table.name)}}}"
        remarks = (*bold_legend(table, best), *table.remarks)
        notes = " ".join(map(typeset, remarks)) if end == len(rows) else ""
        lines = [
            "\n\\begin{table}[tbp]",
            "\\centering",
            f"\\caption{{{_caption(table)}{' (continued)' if place else ''}}}{label}",
            "\\smallskip",  # most classes leave no space below a caption
            "\\footnotesize",
            "\\setlength{\\tabcolsep}{3pt}",
            *(["\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%"] if wide else []),
            f"\\begin{{tabular}}{{@{{}}{columns}@{{}}}}",
            "\\toprule",
            " & ".join(map(typeset, headings)) + " \\\\",
            "\\midrule",
            *_typeset_rows(table, rows, cells, best, range(start, end)),
            "\\bottomrule",
            "\\end{tabular}" + "}" * wide,
            *([f"\\par\\smallskip\\parbox{{\\linewidth}}{{\\footnotesize {notes}}}"] if notes else []),
            "\\end{table}",
        ]
        yield "\n".join(lines) + "\n"


def _pages(heights: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of rows that fill at most PAGE_LINES, from the number of lines of each."""
    start = lines = 0
    for place, height in enumerate(heights):
        if place > start and lines + height > PAGE_LINES:
            yield start, place
            start, lines = place, 0
        lines += height
    yield start, len(heights)


def _alignment(column: Column, width: int) -> str:
    if column.numeric:
        return "r"
    return "p{0.5\\linewidth}" if width > _LONG_TEXT else "l"


def _typeset_rows(
    table: DataTable,
    rows: Sequence[Row],
    cells: Sequence[Sequence[str]],
    best: Container[tuple[int, int]],
    places: Iterable[int],
) -> Iterator[str]:
    before = None
    for i in places:
        if before is not None and table.group and rows[i][table.group] != rows[before][table.group]:
            yield "\\midrule"
        shown = ["--" if cell == _MISSING else _breakable(cell) for cell in cells[i]]
        yield (
            " & ".join(f"\\textbf{{{cell}}}" if (i, j) in best else cell for j, cell in enumerate(shown))
            + " \\\\"
        )
        before = i


def _breakable(cell: str) -> str:
    """Typeset a cell; in a long one lines may also break within words, such as addresses."""
    if cell_len(cell) <= _LONG_TEXT:
        return typeset(cell)
    words = (
        "\\allowbreak{}".join(_escaped(word[i : i + _PART]) for i in range(0, len(word), _PART))
        for word in _signed(cell).split(" ")
    )
    return " ".join(words)


def _caption(table: DataTable) -> str:
    """Title and caption in one, without the paper's number of a table, which LaTeX gives, and names of fields."""
    title, caption = _NUMBERED.sub("", table.title).rstrip("."), table.caption.rstrip(".")
    between = "; " if caption[:1].islower() else ". "
    text = between.join(part for part in (title, caption) if part).replace(
        "restore_score_100", "restore score"
    )
    return typeset(f"{text[:1].upper()}{text[1:]}.")


def typeset(text: str) -> str:
    """Escape a text of one line: whatever it holds, LaTeX shows it and runs nothing."""
    return _escaped(_signed(text))


def _signed(text: str) -> str:
    """The text in one line with minus signs, and with fixed spaces where no line may break."""
    return _BOUND.sub("\u00a0", _SIGN.sub("−", _one_line(text)))


def _escaped(text: str) -> str:
    separated = _LIGATURE.sub(r"\1\0", text)  # "--" is no dash
    escaped = separated.translate(_latex_characters()).replace("\0", "{}")
    # At the start of a row a bracket or a star would belong to the line break before it.
    return f"{{{escaped[0]}}}{escaped[1:]}" if escaped.startswith(("[", "*")) else escaped


@cache
def _latex_characters() -> dict[int, str]:
    """Read latex.tsv: how characters are written in LaTeX."""
    lines = Path(__file__).with_name("latex.tsv").read_text(encoding="utf-8").split("\n")
    return {ord(character): written for character, written in (line.split("\t") for line in lines if line)}


def _label_word(unusual: re.Match[str]) -> str:
    """Replace a character in a label, so that names in Chinese stay distinct."""
    return "-" if unusual[0].isascii() else f"-{ord(unusual[0]):x}"


def _one_line(text: str) -> str:
    return visible(_SPACES.sub(" ", text).strip())

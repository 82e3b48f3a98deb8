"""Tables for a paper: the main one, a row for each system, in words for readers of papers; and any table as LaTeX."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from math import ceil
from pathlib import Path
from typing import Any, Final

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
    MISSING,
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
    section_ranges,
    text,
    with_caveats,
    written_rows,
)

NAME: Final = "results"
"""The name of its files."""


def results_table(compared: RunsCompared, names: Mapping[str, str]) -> DataTable:
    """Scores under the first judge, with differences to the baseline and their tests. `names` are for readers.

    Mean, difference and test of a line are over the same instances, those that all systems have, and `n` counts them.
    Without such an instance each line has its own n, and there are no differences.
    """
    judged, baseline = compared.judged[0], compared.baseline
    # A line of 0.11 could mix three counts: its mean, its difference and its test were over different instances.
    if judged.n_differs and judged.standings[0].n_common:
        judged = compare_over_common(
            compared.board,
            judged.judge,
            baseline,
            against_baseline=compared.against_baseline,
            seed=compared.seed,
        )
    elif judged.n_differs:
        baseline = ""
        judged = _without_gains(judged)
    references = references_of(compared.board)
    rows: list[dict[str, Any]] = []
    for standing in judged.ranked:
        row = _main_row(standing)
        row["reference"] = standing.system in references
        rows.append(row)
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
        " ".join(_main_caption(compared, judged, names)),
        columns,
        rows,
        group="reference",
        remarks=tuple(_main_remarks(compared, judged, rows)),
    )
    return with_caveats(table, compared.caveats)


def _without_gains(judged: Judged) -> Judged:
    standings = [replace(standing, gain=None, p_holm=None) for standing in judged.standings]
    return replace(judged, baseline="", standings=tuple(standings), pairs=())


def _main_row(standing: Standing) -> dict[str, Any]:
    row: dict[str, Any] = {
        "system": _without_k(standing.system, standing.k),
        "k": standing.k or None,
        "mean": standing.scores.mean,
        "judge_is": "+".join(standing.judge_is) or None,
        "best_or_tied": standing.best,
        "difference": None,
        "low": None,
        "high": None,
        "n_differ": None,
        "too_short": False,
        "no_difference": False,
        "p_holm": standing.p_holm,
        "n": standing.scores.n_scored,
    }
    gain = standing.gain
    if gain is None:
        return row
    row["difference"] = gain.mean
    row["n_differ"] = gain.n_differ
    row["no_difference"] = gain.nowhere
    # None below 5 instances, or where all of them have the same value: `difference` stands alone then.
    if gain.interval is not None:
        row["low"], row["high"] = gain.interval
        row["too_short"] = gain.too_short
    return row


def _without_k(label: str, k: int) -> str:
    """A system's name without its k, which has a column: `GPT-5.2 (k=3)` or `gpt-k3+support-kimi`."""
    if not k:
        return label
    for ending in (f" (k={k})", f"-k{k}"):
        name, separator, settings = label.rpartition(ending)
        if separator:
            return name + settings
    return label


def _gain_cell(row: Row) -> str:
    if row["difference"] is None:
        return "-"
    if row["no_difference"]:
        return NO_DIFFERENCE
    difference = f"{row['difference']:+z.1f}"
    if row["low"] is None:
        return f"{difference} {NO_INTERVAL}"
    cell = f"{difference} [{row['low']:z.1f}, {row['high']:z.1f}]"
    if row["too_short"]:
        cell += SHORT_MARK
    return cell


def _p_cell(row: Row) -> str:
    p = row["p_holm"]
    if p is None:
        return MISSING
    if p < 0.0005:  # would be printed as 0.000
        return "<0.001"
    return f"{p:.3f}"


def _main_caption(compared: RunsCompared, judged: Judged, names: Mapping[str, str]) -> Iterator[str]:
    """Yield sentences; `judged` are the numbers of the table, perhaps over fewer instances than those of `compared`."""
    instances = "instances"
    for entrant in compared.board.entrants:
        if entrant.data.name:
            instances = f"instances of {names.get(entrant.data.name, entrant.data.name)}"
            break
    judge = names.get(judged.judge, judged.judge)
    n_common = judged.standings[0].n_common
    if judged.n_differs:
        yield f"Mean over each system's own n {instances}, judged by {judge}."
    elif compared.judged[0].n_differs:
        yield f"All numbers are over the n = {n_common} {instances} that all systems have, judged by {judge}."
    else:
        yield f"Mean over n = {n_common} {instances}, judged by {judge}."
    if judged.baseline:
        n_tests = len(judged.pairs)
        family = f"the {n_tests} tests of all pairs"
        if compared.against_baseline or n_tests == 1:
            family = counted(n_tests, "test")
        yield (
            f"Difference: mean paired difference to {judged.baseline}, with a 95 % bootstrap confidence interval. "
            f"p: paired permutation test, corrected by Holm's method for {family}."
        )
    if any(standing.best is False for standing in judged.standings):
        highest = "the highest mean"
        references = references_of(compared.board)
        # gold searches the intent itself, so that a mean above the bold one is no surprise.
        not_competing = [standing.system for standing in judged.ranked if standing.system in references]
        if not_competing:
            highest += f" of a system that clarifies (not {' and '.join(not_competing)})"
        yield f"Bold: {highest}, and every mean that no test separates from it (p > {ALPHA})."
    elif judged.tied:
        yield f"No mean is bold, since no test separates any from the highest one (p > {ALPHA})."
    if judged.untestable:
        untestable = ", ".join(standing.system for standing in judged.untestable)
        yield f"Too few instances differ for any test to tell the highest mean from that of {untestable}."


def _main_remarks(compared: RunsCompared, judged: Judged, rows: Sequence[Row]) -> Iterator[str]:
    if judged.n_differs:
        yield "No instance has a score in all systems, so there are no differences."
    elif compared.judged[0].n_differs:
        # The numbers are over the common instances; this is where each system's own n stands.
        counts: list[str] = []
        for standing in compared.judged[0].standings:
            counts.append(f"{standing.system} {standing.scores.n_scored}")
        yield f"Instances with a score: {', '.join(counts)}."
    failures: list[str] = []
    for standing in judged.standings:
        scores = standing.scores
        if scores.n_failed:
            failures.append(f"{standing.system}: {scores.n_failed} of {scores.n_expected}")
    if failures:
        yield f"Failed instances have no score: {'; '.join(failures)}."
    yield from interval_notes(standing.gain for standing in judged.standings if standing.gain)
    if any(row["judge_is"] for row in rows):
        yield OWN_NOTE
    for caveat in compared.caveats:
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
    texts: dict[str, str] = {}
    for table in main:
        texts[f"{table.name}.tex"] = latex([table], command)
    for table in full:
        texts[f"{table.name}.md"] = markdown(table)
        texts[f"{table.name}.tex"] = latex([table], command)
        texts[f"{table.name}.csv"] = csv_text(table)
    texts[f"{APPENDIX}.tex"] = latex(full, command)
    make_table_folder(folder)
    paths: list[Path] = []
    for name, content in texts.items():
        path = folder / name
        with atomic_writer(path) as file:
            # A name of a file may hold half a character, which UTF-8 cannot.
            file.write(content.encode(errors="replace"))
        paths.append(path)
    return paths


def latex(tables: Sequence[DataTable], command: str = "") -> str:
    """Format `table` environments with captions and labels, below comments on what they need. All text is escaped."""
    text = ""
    n_floats = 0
    for table in tables:
        for environment in _floats(table):
            if n_floats and n_floats % _MAX_FLOATS == 0:
                text += "\n\\clearpage"
            text += environment
            n_floats += 1
    # booktabs suffices for the main table; only wide ones take graphicx.
    comments: list[str] = []
    if command:
        comments.append(f"% Made by: {_one_line(command)}")
    packages = "{booktabs}"
    if "\\resizebox" in text:
        packages = "{booktabs,graphicx}"
    comments.append(f"% Needs \\usepackage{packages}.")
    if _NEEDS_UNICODE.search(text):
        comments.append(
            "% Has letters that pdfLaTeX cannot set: use XeLaTeX or LuaLaTeX, for Chinese with \\usepackage{ctex}."
        )
    return "\n".join(comments) + text


def _floats(table: DataTable) -> Iterator[str]:
    """One `table` environment for each page of rows; the first carries the label, the last the remarks."""
    rows = written_rows(table)
    headings = [column.heading for column in table.columns]
    best = best_cells(table, rows)
    cells: list[list[str]] = []
    heights: list[int] = []
    widths = list(map(cell_len, headings))
    for row in rows:
        texts = [column.show(row).strip() for column in table.columns]
        cells.append(texts)
        lengths = list(map(cell_len, texts))
        heights.append(max(1, ceil(max(lengths) / _LONG_TEXT)))
        widths = list(map(max, widths, lengths))
    columns = "".join(map(_alignment, table.columns, widths))
    is_wide = sum(widths) + 2 * len(widths) > _WIDE
    for start, end in _pages(heights):
        caption = f"\\caption{{{_caption(table)}}}\\label{{tab:{_UNLABELLED.sub(_label_word, table.name)}}}"
        if start > 0:
            caption = f"\\caption{{{_caption(table)} (continued)}}"
        lines = [
            "\n\\begin{table}[tbp]",
            "\\centering",
            caption,
            "\\smallskip",  # most classes leave no space below a caption
            "\\footnotesize",
            "\\setlength{\\tabcolsep}{3pt}",
        ]
        # TeX compares it with the line, whose width is that of the document's class.
        if is_wide:
            lines.append("\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%")
        lines += [
            f"\\begin{{tabular}}{{@{{}}{columns}@{{}}}}",
            "\\toprule",
            " & ".join(map(typeset, headings)) + " \\\\",
            "\\midrule",
        ]
        lines += _typeset_rows(table, rows, cells, best, range(start, end))
        lines.append("\\bottomrule")
        if is_wide:
            lines.append("\\end{tabular}}")
        else:
            lines.append("\\end{tabular}")
        remarks = chain(bold_legend(table, best), table.remarks)
        notes = " ".join(map(typeset, remarks))
        if notes and end == len(rows):
            lines.append(f"\\par\\smallskip\\parbox{{\\linewidth}}{{\\footnotesize {notes}}}")
        lines.append("\\end{table}")
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
    if width > _LONG_TEXT:
        return "p{0.5\\linewidth}"
    return "l"


def _typeset_rows(
    table: DataTable,
    rows: Sequence[Row],
    cells: Sequence[Sequence[str]],
    best: Container[tuple[int, int]],
    places: Iterable[int],
) -> Iterator[str]:
    section_starts: set[int] = set()
    if table.section:
        section_starts = {start for start, _ in section_ranges(table, rows)}
    previous = None
    for i in places:
        # A page that begins within a section repeats its heading.
        if i in section_starts or (table.section and previous is None):
            if previous is not None:
                yield "\\midrule"
            heading = typeset(str(rows[i][table.section]))
            yield f"\\multicolumn{{{len(table.columns)}}}{{@{{}}l}}{{\\emph{{{heading}}}}} \\\\"
        elif previous is not None and table.group and rows[i][table.group] != previous[table.group]:
            yield "\\midrule"
        shown: list[str] = []
        for j, cell in enumerate(cells[i]):
            typeset_cell = _breakable(cell)
            if cell == MISSING:
                typeset_cell = "--"  # an en dash
            if (i, j) in best:
                typeset_cell = f"\\textbf{{{typeset_cell}}}"
            shown.append(typeset_cell)
        yield " & ".join(shown) + " \\\\"
        previous = rows[i]


def _breakable(cell: str) -> str:
    """Typeset a cell; in a long one lines may also break within words, such as addresses."""
    if cell_len(cell) <= _LONG_TEXT:
        return typeset(cell)
    words: list[str] = []
    for word in _signed(cell).split(" "):
        # Cut before it is escaped: no command of LaTeX is torn.
        parts: list[str] = []
        for start in range(0, len(word), _PART):
            parts.append(_escaped(word[start : start + _PART]))
        words.append("\\allowbreak{}".join(parts))
    return " ".join(words)


def _caption(table: DataTable) -> str:
    """Title and caption in one, without the paper's number of a table, which LaTeX gives, and names of fields."""
    title, caption = _NUMBERED.sub("", table.title).rstrip("."), table.caption.rstrip(".")
    text = title or caption
    if title and caption[:1].islower():
        text = f"{title}; {caption}"
    elif title and caption:
        text = f"{title}. {caption}"
    text = text.replace("restore_score_100", "restore score")
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
    if escaped.startswith(("[", "*")):
        return f"{{{escaped[0]}}}{escaped[1:]}"
    return escaped


@cache
def _latex_characters() -> dict[int, str]:
    """Read latex.tsv: how characters are written in LaTeX."""
    characters: dict[int, str] = {}
    for line in Path(__file__).with_name("latex.tsv").read_text(encoding="utf-8").split("\n"):
        if line:
            character, command = line.split("\t")
            characters[ord(character)] = command
    return characters


def _label_word(unusual: re.Match[str]) -> str:
    """Replace a character in a label, so that names in Chinese stay distinct."""
    if unusual[0].isascii():
        return "-"
    return f"-{ord(unusual[0]):x}"


def _one_line(text: str) -> str:
    return visible(_SPACES.sub(" ", text).strip())

"""Tables as Markdown, LaTeX and CSV files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from cts_async.report.tables import Column, DataTable, Row, csv_text, make_folder, written_rows
from cts_async.report.text import visible
from cts_async.safe_files import atomic_writer

_MARKDOWN: Final = re.compile(r"([\\`*_{}\[\]<>#|~&!$])")
_LATEX: Final = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "{": r"\{",
        "}": r"\}",
        "$": r"\$",
        "&": r"\&",
        "#": r"\#",
        "%": r"\%",
        "_": r"\_",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        '"': '{"}',
        "`": r"\textasciigrave{}",
        "Δ": r"$\Delta$",
        "α": r"$\alpha$",
        "κ": r"$\kappa$",
        "τ": r"$\tau$",
        "≤": r"$\leq$",
        "≥": r"$\geq$",
        "−": "$-$",
        "†": r"$\dagger$",
        "‡": r"$\ddagger$",
        "×": r"$\times$",
        "–": "--",
        "…": r"\ldots{}",
        "�": "?",
    }
)
_LIGATURE: Final = re.compile(r"([-',])(?=\1)")
_UNLABELLED: Final = re.compile(r"[^A-Za-z0-9:.-]")
_SIGN: Final = re.compile(r"(?<![\w}])-(?=[.\d])")


def markdown(table: DataTable) -> str:
    """Format the printed rows as GitHub Markdown, under title and caption, with remarks below. All text is escaped."""
    aligned = " | ".join("---:" if column.numeric else ":---" for column in table.columns)
    lines = [
        f"**{_marked_down(table.title)}**" + (f" {_marked_down(table.caption)}" if table.caption else ""),
        "",
        _row(_marked_down(column.heading) for column in table.columns),
        f"| {aligned} |",
    ]
    best = _best(table)
    for i, row in enumerate(written_rows(table)):
        cells = (_marked_down(column.show(row)) for column in table.columns)
        lines.append(_row(f"**{cell}**" if (i, j) in best else cell for j, cell in enumerate(cells)))
    for remark in table.remarks:
        lines += ["", _marked_down(remark)]
    return "\n".join(lines) + "\n"


def latex(table: DataTable) -> str:
    """Format a `table` environment with caption and label, for documents that use booktabs. All text is escaped.

    Chinese passes through: it takes XeLaTeX or LuaLaTeX with a Chinese font (ctex, xeCJK).
    """
    caption = _typeset(". ".join(part.rstrip(".") for part in (table.title, table.caption) if part) + ".")
    lines = [
        "% needs \\usepackage{booktabs}",
        "\\begin{table}",
        "\\centering",
        f"\\caption{{{caption}}}",
        f"\\label{{tab:{_UNLABELLED.sub(_label_word, table.name)}}}",
        f"\\begin{{tabular}}{{{''.join('r' if column.numeric else 'l' for column in table.columns)}}}",
        "\\toprule",
        " & ".join(_typeset(column.heading) for column in table.columns) + " \\\\",
        "\\midrule",
        *_typeset_rows(table),
        "\\bottomrule",
        "\\end{tabular}",
        *(f"\\par\\smallskip {{\\footnotesize {_typeset(remark)}}}" for remark in table.remarks),
        "\\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _typeset_rows(table: DataTable) -> Iterator[str]:
    rows, best = written_rows(table), _best(table)
    following = [*(b for _, b in pairwise(rows)), None]
    for i, (row, after) in enumerate(zip(rows, following, strict=True)):
        cells = [_typeset(column.show(row).strip()) for column in table.columns]
        shown = [f"\\textbf{{{cell}}}" if (i, j) in best else cell for j, cell in enumerate(cells)]
        yield " & ".join(shown) + " \\\\"
        if after is not None and table.group and after[table.group] != row[table.group]:
            yield "\\midrule"


def best_cells(rows: Sequence[Row], columns: Sequence[Column]) -> frozenset[tuple[int, int]]:
    """Return (row, column) of the best values of each ranked column; equals are all best, a single value is not."""
    found = set()
    for j, column in enumerate(columns):
        ranks = [column.rank(row) if column.rank else None for row in rows]
        there = [rank for rank in ranks if rank is not None]
        if len(there) > 1:
            found |= {(i, j) for i, rank in enumerate(ranks) if rank == max(there)}
    return frozenset(found)


def _best(table: DataTable) -> frozenset[tuple[int, int]]:
    return best_cells(written_rows(table), table.columns)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _marked_down(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", _one_line(text))


def _typeset(text: str) -> str:
    plain = _LIGATURE.sub(r"\1\0", _SIGN.sub("−", _one_line(text)))  # a sign becomes a minus, "--" no dash
    typeset = plain.translate(_LATEX).replace("\0", "{}")
    # At the start of a row a bracket or a star would belong to the line break before it.
    return f"{{{typeset[0]}}}{typeset[1:]}" if typeset.startswith(("[", "*")) else typeset


def _label_word(unusual: re.Match[str]) -> str:
    """Replace a character in a label, so that names in Chinese stay distinct."""
    return "-" if unusual[0].isascii() else f"-{ord(unusual[0]):x}"


def _one_line(text: str) -> str:
    return visible(" ".join(text.split()))


def write_table_files(folder: Path, tables: Iterable[DataTable]) -> list[Path]:
    """Write each table that has rows as .md, .tex and .csv, every file atomically; return the paths.

    All texts are formatted before the first file is written. Creates the folder if necessary. Raises UsageError,
    StorageFull.
    """
    texts = {name: text for table in tables if table.rows for name, text in _texts(table).items()}
    make_folder(folder)
    for name, text in texts.items():
        with atomic_writer(folder / name) as file:
            file.write(text.encode(errors="replace"))
    return [folder / name for name in texts]


def _texts(table: DataTable) -> dict[str, str]:
    return {
        f"{table.name}.md": markdown(table),
        f"{table.name}.tex": latex(table),
        f"{table.name}.csv": csv_text(table),
    }

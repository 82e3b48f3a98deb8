"""A table of text is shown as it is, whatever is in it and however narrow the terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from cts_async.report.sheet import Sheet, print_sheet, printable


def printed(sheet: Sheet, width: int = 80) -> str:
    out = io.StringIO()
    print_sheet(Console(file=out, width=width, color_system=None), sheet)
    return out.getvalue()


@pytest.mark.parametrize("width", [40, 80, 120])
def test_names_fold_and_numbers_stay_whole(width: int) -> None:
    rows = (("a-name-of-more-than-twenty-letters-k1", "26.474 (+7.040)", "100.000"),)
    text = printed(Sheet("title", ("system", "mean", "max"), rows), width)
    assert all(len(line) <= width for line in text.splitlines())
    assert "26.474 (+7.040)" in text
    assert "100.000" in text
    assert "…" not in text


def test_nothing_is_taken_for_markup_or_sent_to_the_terminal() -> None:
    text = printed(Sheet("[red]t", ("[b]h",), (("\x1b[31mevil[/b]",),), ("[x]\x07 remark",)))
    for shown in ("[red]t", "[b]h", "�[31mevil[/b]", "[x]� remark"):
        assert shown in text
    assert "\x1b" not in text


def test_a_sheet_without_rows_is_its_title_and_remarks() -> None:
    assert printed(Sheet("title", ("a",), (), ("nothing here",))) == "title\nnothing here\n"


def test_letters_of_all_languages_are_printable() -> None:
    assert printable("北京 Δ é\n") == "北京 Δ é�"

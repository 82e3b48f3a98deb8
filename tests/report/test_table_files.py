"""Tables as Markdown and LaTeX."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from cts_async.report.table_files import latex, markdown
from cts_async.report.tables import Column, DataTable, number, text

ROWS = [
    {"system": "orig", "mean": 40.0, "ref": True},
    {"system": "gpt_k1|x", "mean": 45.25, "ref": False},
    {"system": "ernie & 查询", "mean": 44.0, "ref": False},
]
COLUMNS = (
    Column("system", text("system"), numeric=False),
    Column("mean Δ", number("mean", ".2f"), rank=lambda row: None if row["ref"] else row["mean"]),
)
TABLE = DataTable("scores", "Scores", "judge 100 % ernie", COLUMNS, ROWS)


def test_markdown_has_a_row_for_each_row_and_bold_best() -> None:
    assert markdown(replace(TABLE, remarks=("n = 3.",))) == (
        "**Scores** judge 100 % ernie\n"
        "\n"
        "| system | mean Δ |\n"
        "| :--- | ---: |\n"
        "| orig | 40.00 |\n"
        "| gpt\\_k1\\|x | **45.25** |\n"
        "| ernie \\& 查询 | 44.00 |\n"
        "\n"
        "n = 3.\n"
    )


def test_latex_has_rules_caption_and_label() -> None:
    assert latex(replace(TABLE, remarks=("n = 3.",))) == (
        "% needs \\usepackage{booktabs}\n"
        "\\begin{table}\n"
        "\\centering\n"
        "\\caption{Scores. judge 100 \\% ernie.}\n"
        "\\label{tab:scores}\n"
        "\\begin{tabular}{lr}\n"
        "\\toprule\n"
        "system & mean $\\Delta$ \\\\\n"
        "\\midrule\n"
        "orig & 40.00 \\\\\n"
        "gpt\\_k1\\textbar{}x & \\textbf{45.25} \\\\\n"
        "ernie \\& 查询 & 44.00 \\\\\n"
        "\\bottomrule\n"
        "\\end{tabular}\n"
        "\\par\\smallskip {\\footnotesize n = 3.}\n"
        "\\end{table}\n"
    )


def test_latex_separates_groups_by_rules() -> None:
    grouped = DataTable("t", "T", "", COLUMNS[:1], ROWS, group="ref")
    assert latex(grouped).count("\\midrule") == 2


def test_latex_distinguishes_minus_and_hyphen() -> None:
    rows = [{"system": "gpt-k1 -1.5 [-2, 3]"}]
    shown = latex(DataTable("t", "T", "", COLUMNS[:1], rows)).splitlines()[9]
    assert shown == "gpt-k1 $-$1.5 [$-$2, 3] \\\\"


def test_latex_keeps_two_hyphens_and_brackets_literal() -> None:
    shown = latex(DataTable("t", "T", "", COLUMNS[:1], [{"system": "[a--b]"}])).splitlines()[9]
    assert shown == "{[}a-{}-b] \\\\"


def test_latex_protects_leading_star() -> None:
    shown = latex(DataTable("t", "T", "", COLUMNS[:1], [{"system": "*a"}])).splitlines()[9]
    assert shown == "{*}a \\\\"


def test_latex_labels_of_chinese_names_are_distinct() -> None:
    labels = [latex(DataTable(f"t_{judge}", "T", "", COLUMNS, ROWS)).splitlines()[4] for judge in "甲乙"]
    assert labels == ["\\label{tab:t--7532}", "\\label{tab:t--4e59}"]


def test_markdown_escapes_dollars() -> None:
    shown = markdown(DataTable("t", "T", "", COLUMNS[:1], [{"system": "$x$"}])).splitlines()[4]
    assert shown == "| \\$x\\$ |"


def test_single_value_is_not_marked_best() -> None:
    assert "textbf" not in latex(DataTable("t", "T", "", COLUMNS, ROWS[:2]))


@given(st.text())
def test_latex_escapes_untrusted_text(name: str) -> None:
    (line,) = latex(DataTable("t", "T", "", COLUMNS[:1], [{"system": name}])).split("\n")[9:10]
    cell = re.sub(r"\\(text[a-z]+|ldots)\{\}|\$(-|\\[A-Za-z]+)\$|\\[{}$&#%_]", "", line.removesuffix(" \\\\"))
    assert not set(cell) & set("\\$&#%_~^")
    assert cell.count("{") == cell.count("}")


@given(st.text())
def test_markdown_text_stays_in_its_cell(name: str) -> None:
    line = markdown(DataTable("t", "T", "", COLUMNS[:1], [{"system": name}])).split("\n")[4]
    cell = line.removeprefix("| ").removesuffix(" |")
    assert not re.search(r"(?<!\\)(?:\\\\)*[|<`]", cell)

"""Tables as LaTeX: what is written, and that LaTeX sets it."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from string import printable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import Row, made_run

from cts_async.pages.contents import all_tables, gather
from cts_async.tables.paper import latex, results_table, typeset, write_paper_files
from cts_async.tables.table import Column, DataTable, number, text

HOSTILE = " ".join(printable.strip()) + " \\input{/etc/passwd} $x^2%"
SCORED = [
    {"system": "orig", "mean": 40.0, "ref": True},
    {"system": "gpt_k1|x", "mean": 45.25, "ref": False},
    {"system": "ernie & 查询", "mean": None, "ref": False},
]
COLUMNS = (
    Column("system", text("system"), numeric=False),
    Column("mean Δ", number("mean", ".2f"), rank=lambda row: None if row["ref"] else row["mean"]),
)
TABLE = DataTable("scores", "Table 2. restore_score_100", "judge 100 % ernie", COLUMNS, SCORED, group="ref")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of three runs, whose numbers are worked out below, and of a table of hostile texts."""
    folder = tmp_path_factory.mktemp("paper")
    scores = dict(zip(("q0", "q1", "q2", "q3", "q4", "q5"), (0.0, 10.0, 20.0, 30.0, 40.0, 50.0), strict=True))
    made_run(folder / "runs", label="orig", rows=[Row(id, score=score) for id, score in scores.items()])
    more = [Row(id, ["Where?"] * 3, ["here"] * 3, score=score + 10) for id, score in scores.items()]
    made_run(folder / "runs", label="kimi-k3", rows=more)
    same = [Row(id, ["Where?"], ["here"], score=score) for id, score in scores.items() if id != "q5"]
    made_run(folder / "runs", label="gpt_1-k1", rows=[*same, Row("q5", error="search")])
    found = gather(
        [str(folder / "runs")], names={"kimi": "Kimi & Ö 100%", "orig": "~none^", "ernie": "ERNIE"}
    )
    assert found.compared
    long = [{"name": HOSTILE, "text": f"{n}{'x' * 200}"} for n in range(13)]
    columns = (Column(HOSTILE, text("name"), numeric=False), Column("[text]", text("text"), numeric=False))
    hostile = DataTable(f"hostile {HOSTILE}", HOSTILE, HOSTILE, columns, long, remarks=(HOSTILE,))
    full = [*(one.table for one in all_tables(found, set())), replace(hostile, name="hostile")]
    main = results_table(found.compared, found.names)
    write_paper_files(folder / "tables", [main], full, "cts report runs --out 'a\nb'")
    return folder


def test_results_are_a_table_that_needs_no_hand(folder: Path) -> None:
    # Over the five instances that gpt has, too, all systems: 0 to 40, mean 20. Differences to orig: 5 of +10 (p = 2/32)
    # and 5 of 0 (p = 1); of kimi to gpt 5 of +10 (p = 2/32). Holm: 3 * 2/32 = 0.1875 for both, 1.
    assert (folder / "tables" / "results.tex").read_text() == (
        "% Made by: cts report runs --out 'a b'\n"
        "% Needs \\usepackage{booktabs}.\n"
        "\\begin{table}[tbp]\n"
        "\\centering\n"
        "\\caption{Restore score (0 to 100, higher is better). All numbers are over the n~=~5 instances of "
        "made that all systems have, judged by ERNIE. "
        "Difference: mean paired difference to \\textasciitilde{}none\\textasciicircum{}, with a 95~\\% bootstrap "
        "confidence interval. p: paired permutation test, corrected by Holm's method for the 3 tests of all pairs. "
        "Too few instances differ for any test to tell the highest mean from that of gpt\\_1-k1.}\\label{tab:results}\n"
        "\\smallskip\n"
        "\\footnotesize\n"
        "\\setlength{\\tabcolsep}{3pt}\n"
        "\\begin{tabular}{@{}lrrrrr@{}}\n"
        "\\toprule\n"
        "System & k & Mean & Difference [95~\\% CI] & p (Holm) & n \\\\\n"
        "\\midrule\n"
        "\\textasciitilde{}none\\textasciicircum{} & -- & 20.0 & -- & -- & 5 \\\\\n"
        "\\midrule\n"
        "gpt\\_1 & 1 & 20.0 & no difference & 1.000 & 5 \\\\\n"
        "Kimi \\& Ö 100\\% & 3 & 30.0 & +10.0 [-] & 0.188 & 5 \\\\\n"
        "\\bottomrule\n"
        "\\end{tabular}\n"
        "\\par\\smallskip\\parbox{\\linewidth}{\\footnotesize Instances with a score: "
        "\\textasciitilde{}none\\textasciicircum{} 6, gpt\\_1-k1 5, Kimi \\& Ö 100\\% (k=3) 6. "
        "Failed instances have no score: gpt\\_1-k1: 1 of 6. "
        "{[}-] no interval: fewer than 5 instances, or all of them have the same value.}\n"
        "\\end{table}\n"
    )


def test_files_are_typeset_within_their_lines(folder: Path) -> None:
    if shutil.which("pdflatex") is None:
        pytest.skip("no pdflatex: apt-get install texlive-latex-recommended (as .ci/run does)")
    (folder / "paper.tex").write_text(
        "\\documentclass{article}\\usepackage{booktabs,graphicx}\\begin{document}\n"
        "\\input{tables/results.tex}\\input{tables/appendix.tex}\\end{document}\n"
    )
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-draftmode", "paper.tex"],
        cwd=folder,
        capture_output=True,
        check=False,
    )
    log = (folder / "paper.log").read_text(errors="replace").replace("\n", "")
    assert done.returncode == 0, log[-1500:]
    assert "Missing character" not in log
    assert "Overfull \\hbox" not in log
    assert "Float too large" not in log


def test_full_tables_have_groups_names_of_their_own_and_continue(folder: Path) -> None:
    written = latex([TABLE])
    assert "XeLaTeX or LuaLaTeX, for Chinese with \\usepackage{ctex}.\n" in written
    assert "\\caption{Restore score; judge 100~\\% ernie.}\\label{tab:scores}\n" in written
    assert written.partition("\\toprule\n")[2] == (
        "system & mean $\\Delta$ \\\\\n"
        "\\midrule\n"
        "orig & 40.00 \\\\\n"
        "\\midrule\n"
        "gpt\\_k1\\textbar{}x & 45.25 \\\\\n"  # a single value is not the best
        "ernie \\& 查询 & -- \\\\\n"
        "\\bottomrule\n"
        "\\end{tabular}\n"
        "\\end{table}\n"
    )
    both = latex([replace(TABLE, name=f"t_{judge}") for judge in "甲乙"])
    assert re.findall(r"\\label\{(.*)\}", both) == ["tab:t--7532", "tab:t--4e59"]
    appendix = (folder / "tables" / "appendix.tex").read_text()
    assert "% Needs \\usepackage{booktabs,graphicx}." in appendix
    assert "tab:results" not in appendix
    assert (folder / "tables" / "pairs.tex").read_text().partition("\n\\begin{table}")[2] in appendix
    assert (
        appendix.count(" (continued)}") == 2
    )  # 6, 6 and 1 of 13 rows: each has 213 characters, 6 lines of 40, and 36 fill a page
    assert appendix.count("\\label{tab:hostile}") == 1


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("gpt-k1 -1.5 [-2, 3]", "gpt-k1 $-$1.5 [$-$2, 3]"),
        ("[a--b]", "{[}a-{}-b]"),
        ("*a", "{*}a"),
        ("k = 3, 95 % of α ≤ 1", "k~=~3, 95~\\% of $\\alpha$~$\\leq$~1"),
        ("a\u00a0b\u2011c \u202e 查\n询", "a~b-c [U+202E] 查 询"),
        (
            '~^\\{}$&#%_<>|"`',
            "\\textasciitilde{}\\textasciicircum{}\\textbackslash{}\\{\\}\\$\\&\\#\\%\\_"
            '$<$$>$\\textbar{}{"}\\textasciigrave{}',
        ),
    ],
)
def test_text_stays_text(given: str, written: str) -> None:
    assert typeset(given) == written


def test_long_words_keep_their_hyphens_where_a_line_may_break() -> None:
    columns = [Column("id", text("id"), numeric=False)]
    written = latex([DataTable("t", "T", "", columns, [{"id": f"-1 {'a' * 15}-5{'b' * 30}"}])])
    assert f"$-$1 {'a' * 15}\\allowbreak{{}}-5{'b' * 13}\\allowbreak{{}}{'b' * 15}" in written


@given(st.text())
def test_untrusted_text_is_escaped(name: str) -> None:
    cell = re.sub(r"\\(text[a-z]+|ldots)\{\}|\$([-<>]|'+|\\[A-Za-z]+)\$|\\[{}$&#%_,]", "", typeset(name))
    assert not set(cell) & set("\\$&#%_^")
    assert cell.count("{") == cell.count("}")

"""How long the questions are, and how much longer they make the query."""

from collections.abc import Iterator
from statistics import fmean

from cts_async.analysis.diagnose import Diagnosis
from cts_async.tables.statistics import run_rows, run_table
from cts_async.tables.table import Column, DataTable, number, text

ORDER = 110


def tables(diagnosis: Diagnosis) -> Iterator[DataTable]:
    rows = []
    for row, run in run_rows(diagnosis):
        question_words: list[int] = []
        added_words: list[int] = []
        for texts in run.system.texts("questions", "query", "rewritten_query"):
            for question in texts.questions:
                question_words.append(len(question.split()))
            if texts.rewritten_query:
                added_words.append(len(texts.rewritten_query.split()) - len(texts.query.split()))
        if question_words:
            row["questions"] = len(question_words)
            row["words"] = fmean(question_words)
            row["added"] = fmean(added_words) if added_words else None
            rows.append(row)
    columns = (
        Column("questions", text("questions")),
        Column("words", number("words", ".1f")),
        Column("added", number("added", "+.1f")),
    )
    caption = "words: mean number of words a question; added: words of the rewritten query beyond those of the query."
    yield run_table("question_words", "Words per question", caption, columns, rows)

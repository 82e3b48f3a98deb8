"""The rows of ClariQ's files (Aliannejadi et al., EMNLP 2021): topics with their facets, questions and answers.

`train.tsv`, `dev.tsv` and `test_with_labels.tsv` have a row for each facet, question and answer; `test.tsv` has
topics alone, and calls the second column `initial request`. Cells may be quoted. `Q00001` is the question that
stands for none: its question and answer are empty. (facet, question) is not unique. `topic_desc` may be missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cts_async.datasets.fields import listed, short
from cts_async.datasets.lines import MAX_LINE_BYTES
from cts_async.datasets.qulac_table import unescape
from cts_async.datasets.rows import Row, read_tsv
from cts_async.errors import InputError

NO_QUESTION: Final = "Q00001"
"""The id of the question that is none."""
NEEDS: Final = (1, 2, 3, 4)
"""How much a request needs to be clarified: from 1, self-contained, to 4, absolutely ambiguous."""
REQUESTS: Final = ("initial_request", "initial request", "query")
"""What the request's column is called: in the files with labels, in test.tsv, and in both before October 2020."""
LABELS: Final = ("clarification_need", "facet_id", "facet_desc", "question_id", "question", "answer")
"""The columns of a file that is more than a list of topics."""


@dataclass(frozen=True, slots=True)
class ClariqRow:
    """A row. In a file without labels `need` is None and what follows it is "".

    `question` and `answer` are "" where nobody asked (`NO_QUESTION`); an answer may be "" elsewhere, too.
    """

    path: Path
    line: int
    topic_id: str
    request: str
    topic_desc: str
    need: int | None = None
    facet_id: str = ""
    facet_desc: str = ""
    question_id: str = ""
    question: str = ""
    answer: str = ""


def read_clariq(path: Path, *, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[ClariqRow]:
    """Stream the rows in file order, backslashes before quotes undone in descriptions.

    InputError names file, line and field: a missing column, an empty cell where there must be something, and a
    clarification need that is no whole number from 1 to 4.
    """
    for line, row in read_tsv(path, quoting=True, max_line_bytes=max_line_bytes):
        cells = _Cells(path, line, row)
        request = next((name for name in REQUESTS if name in row), REQUESTS[0])
        topic = (cells.text("topic_id"), cells.text(request), unescape(row.get("topic_desc", "").strip()))
        yield _labelled(cells, topic) if _has_labels(row) else ClariqRow(path, line, *topic)


def read_question_bank(path: Path, *, max_line_bytes: int = MAX_LINE_BYTES) -> dict[str, str]:
    """The questions of `question_bank.tsv` by id, in file order; that of `NO_QUESTION` is "".

    InputError for a missing column, an id without a question or the other way about, and an id that stands twice.
    """
    bank: dict[str, str] = {}
    for line, row in read_tsv(path, quoting=True, max_line_bytes=max_line_bytes):
        cells = _Cells(path, line, row)
        id = cells.text("question_id")
        if id in bank:
            raise InputError(path, f"{short(id)} stands twice", line=line, field="question_id")
        bank[id] = cells.cell("question") if id == NO_QUESTION else cells.text("question")
    if not bank:
        raise InputError(path, "holds no questions", field="question_id")
    return bank


def _has_labels(row: Row) -> bool:
    return any(name in row for name in LABELS)


def _labelled(cells: _Cells, topic: tuple[str, str, str]) -> ClariqRow:
    question_id = cells.text("question_id")
    # Read in any case, so that a missing column is found on the first row.
    question, answer = cells.cell("question"), cells.cell("answer")
    if question_id == NO_QUESTION:
        question = answer = ""
    elif not question:
        raise cells.wrong("question", f"is empty, although {question_id} is not {NO_QUESTION} (no question)")
    return ClariqRow(
        cells.path,
        cells.line,
        *topic,
        need=cells.need(),
        facet_id=cells.text("facet_id"),
        facet_desc=unescape(cells.text("facet_desc")),
        question_id=question_id,
        question=question,
        answer=answer,
    )


@dataclass(frozen=True, slots=True)
class _Cells:
    path: Path
    line: int
    row: Row

    def cell(self, name: str) -> str:
        """The cell without outer white space; InputError where there is no such column."""
        if name not in self.row:
            raise self.wrong(name, f"the column is missing; the columns are {listed(self.row)}")
        return str(self.row[name]).strip()

    def text(self, name: str) -> str:
        """A cell that must not be empty."""
        if not (cell := self.cell(name)):
            raise self.wrong(name, "is empty")
        return cell

    def need(self) -> int:
        cell = self.cell("clarification_need")
        found = next((need for need in NEEDS if cell in (str(need), f"{need}.0")), None)
        if found is None:
            raise self.wrong("clarification_need", f"must be a whole number from 1 to 4, is {short(cell)}")
        return found

    def wrong(self, name: str, problem: str) -> InputError:
        return InputError(self.path, problem, line=self.line, field=name)

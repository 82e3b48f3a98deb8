"""The lexical judge beside every other judge of a run: read from their files, put into figures and into words."""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cts_async.analysis.agreement import ASCENDING, Agreement, agreement_of
from cts_async.engine.journal import read_jsonl
from cts_async.protocol.results import HASHES, checked_results, failed, judged_mark, latest_rows, unmarked
from cts_async.protocol.run_files import RESULTS

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_CODES: Final = {label: code for code, label in enumerate(ASCENDING)}


@dataclass(frozen=True, slots=True)
class Beside:
    """Two judges over the answers of one run that both have judged: what an Agreement is made from."""

    judge: str
    other: str
    pairs: Counter[tuple[str, str]]
    """How often `judge` gave a nugget one label and `other` the other."""
    scores: Array
    other_scores: Array

    def agreement(self) -> Agreement:
        return agreement_of(self.judge, self.other, self.pairs, self.scores, self.other_scores)


def together(found: Iterable[Beside]) -> list[Agreement]:
    """One Agreement for each two judges, over all runs."""
    import numpy as np

    by_judges: dict[tuple[str, str], list[Beside]] = {}
    for one in found:
        by_judges.setdefault((one.judge, one.other), []).append(one)
    return [
        agreement_of(
            *judges,
            sum((one.pairs for one in same), Counter()),
            np.concatenate([one.scores for one in same]),
            np.concatenate([one.other_scores for one in same]),
        )
        for judges, same in by_judges.items()
    ]


def sentence(found: Agreement) -> str:
    """`lexical agrees with ernie on 71.2 % of 3,108 nuggets (Cohen's kappa 0.451, quadratic 0.523); ...`"""
    if not found.n_nuggets or found.exact is None:
        return f"{found.other} and {found.judge} have judged nothing in common"
    said = (
        f"{found.other} agrees with {found.judge} on {100 * found.exact:.1f} % of {found.n_nuggets:,} nuggets "
        f"(Cohen's kappa {_figure(found.kappa)}, quadratic {_figure(found.kappa_quadratic)})"
    )
    if found.score_r is None:
        return said
    return f"{said}; scores of {found.n_answers:,} answers correlate by {_figure(found.score_r)}"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def beside(files: Sequence[tuple[str, Path]], other: str) -> Iterator[Beside]:
    """Each judge's file beside that of the judge `other`; nothing where that has none. `files` by judge.

    Raises InputError for a line that somebody broke.
    """
    others = [path for judge, path in files if judge == other]
    if not others or len(files) == 1:
        return
    theirs = _Labels(others[0])
    for judge, path in files:
        if judge != other:
            yield _compared(judge, _Labels(path), other, theirs)


class _Labels:
    """A judge's labels and scores in columns: 33 bytes an answer and one a nugget."""

    def __init__(self, path: Path) -> None:
        import numpy as np

        ids, scores, counts, marks, labels = array(HASHES), array("d"), array("q"), array("q"), array("b")
        mark = unmarked if path.name == RESULTS else judged_mark  # a run's answers never change
        for line in read_jsonl(path):
            if not isinstance(id := line.get("id"), str):
                continue
            nuggets = () if failed(line) else line.get("nuggets") or ()
            ids.append(hash(id))
            scores.append(line.get("restore_score_100") or 0.0)
            marks.append(mark(line))
            try:
                counts.append(len(nuggets))
                labels.extend([_CODES[nugget["coverage"]] for nugget in nuggets])
            except (KeyError, TypeError):
                deque(checked_results(path), maxlen=0)  # raises what names the line
                raise
        rows = latest_rows(ids)
        self.labels = np.frombuffer(labels, np.int8) if labels else np.empty(0, np.int8)
        given = ids, scores, counts, marks
        columns = [np.frombuffer(column, column.typecode) for column in given] if ids else []
        kinds = int, float, int, int
        self.ids, self.scores, self.counts, self.marks = columns or [np.empty(0, kind) for kind in kinds]
        starts = np.cumsum(self.counts) - self.counts
        rows = rows[self.counts[rows] > 0]
        self.ids, self.scores, self.counts = self.ids[rows], self.scores[rows], self.counts[rows]
        self.starts, self.marks = starts[rows], self.marks[rows]

    def of(self, rows: Array) -> Array:
        """The labels of these answers, one after the other."""
        import numpy as np

        counts = self.counts[rows]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        found: Array = self.labels[np.repeat(self.starts[rows], counts) + within]
        return found


def _compared(judge: str, own: _Labels, other: str, theirs: _Labels) -> Beside:
    import numpy as np

    _, here, there = np.intersect1d(own.ids, theirs.ids, assume_unique=True, return_indices=True)
    same = own.counts[here] == theirs.counts[there]  # else they were about other nuggets
    marks, other_marks = own.marks[here], theirs.marks[there]
    same &= (marks == other_marks) | (marks == 0) | (other_marks == 0)  # else about another answer
    here, there = here[same], there[same]
    n = len(ASCENDING)
    codes = np.bincount(own.of(here).astype(int) * n + theirs.of(there), minlength=n * n)
    pairs: Counter[tuple[str, str]] = Counter(
        {(ASCENDING[i // n], ASCENDING[i % n]): int(count) for i, count in enumerate(codes) if count}
    )
    return Beside(judge, other, pairs, own.scores[here], theirs.scores[there])

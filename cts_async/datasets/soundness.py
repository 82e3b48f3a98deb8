"""Files beside the instances, read to their end by the readers that commands use: `cts data validate --as`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from cts_async.datasets.candidates import FailedLine, candidate_files, read_candidates
from cts_async.datasets.contents import Contents, Fact, Span, counted
from cts_async.datasets.gold import read_gold
from cts_async.datasets.kinds import imported_on_call
from cts_async.datasets.trec import read_facet_qrels, read_run
from cts_async.errors import InputError


def gold_contents(path: str, fields: Mapping[str, str]) -> Contents:
    """A gold file: records, nuggets and their weights. Raises InputError."""
    gold = read_gold(Path(path), fields)
    records = {record.line: record for record in gold.records()}
    nuggets, weights = Span(), 0.0
    for record in records.values():
        nuggets.add(len(record.nuggets))
        weights += sum(nugget.weight for nugget in record.nuggets)
    facts = (
        Fact("records", len(records), counted(len(records), "gold record")),
        Fact("nuggets", nuggets.total, f"{counted(nuggets.total, 'nugget')}, {nuggets} a record"),
        Fact("mean_weight", weights / nuggets.total, f"mean weight {weights / nuggets.total:.2f}"),
    )
    return Contents(facts, gold.notes)


def candidates_contents(path: str, fields: Mapping[str, str]) -> Contents:
    """Candidate answers in files, a pattern's files or a directory's. Raises InputError."""
    files = candidate_files(path)
    answers = failed = empty = 0
    for line in read_candidates(files, fields):
        if isinstance(line, FailedLine):
            failed += 1
        else:
            answers += 1
            empty += not line.candidate.answer
    if not answers + failed:
        raise InputError(path, "holds no candidate answers")
    facts = (
        Fact("candidates", answers, counted(answers, "candidate answer")),
        Fact("files", len(files), counted(len(files), "file")),
        Fact("empty", empty, f"{empty:,} of them empty"),
        Fact("failed", failed, f"{failed:,} failed"),
    )
    return Contents(facts)


def qrels_contents(path: str, fields: Mapping[str, str]) -> Contents:
    """Relevance judgments, by topic or by facet. Raises InputError."""
    qrels = read_facet_qrels(Path(path))
    judged = sum(map(len, qrels.values()))
    relevant = sum(grade > 0 for grades in qrels.values() for grade in grades.values())
    facts = (
        Fact("judgments", judged, counted(judged, "judgment")),
        Fact("relevant", relevant, f"{relevant:,} of them relevant (grade 1 or more)"),
        Fact("topics", len(qrels), f"for {counted(len(qrels), 'topic')} or facets"),
    )
    return Contents(facts)


def run_contents(path: str, fields: Mapping[str, str]) -> Contents:
    """A ranking in TREC's format. Raises InputError."""
    depth = Span()
    for ranking in read_run(Path(path)).values():
        depth.add(len(ranking))
    facts = (
        Fact("topics", depth.n, f"rankings of {counted(depth.n, 'topic')}"),
        Fact("documents", {"total": depth.total, **depth.as_json()}, f"{depth} documents a topic"),
    )
    return Contents(facts)


SOUND: Final[Mapping[str, Callable[[str, Mapping[str, str]], Contents]]] = {
    "gold": gold_contents,
    "candidates": candidates_contents,
    "qrels": qrels_contents,
    "run": run_contents,
    "evaluations": imported_on_call("cts_async.neighbours.qulac.records", "evaluations_contents"),
}
"""By the word after `--as`."""

"""Judged answers that anybody's program wrote: the release's per_item.jsonl, and whatever `cts score` reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from cts_async import scorer
from cts_async.analysis.runs import UNNAMED, FinishedRun, Item, Verdict, named_system
from cts_async.engine.journal import read_jsonl
from cts_async.errors import InputError
from cts_async.records import COVERAGES

# The spellings are the scorer's, which has read the file before.
_NAMES: Final = ("id", "query_id", "qid", "fused_query", "query")
_NUGGETS: Final = ("nuggets", "per_nugget", "judgments", "results")
_LABELS: Final = ("coverage", "label", "cov")


def read_judged(path: Path) -> FinishedRun:
    """One file as a run: its scores are the scorer's, recomputed from its labels.

    The system is called as the file is, or its folder where the file is a per_item.jsonl; a name that ends in k1 to
    k9 says the budget. Raises InputError with the line at fault.
    """
    try:
        outcomes = scorer.read_outcomes(path, report=lambda _: None)
    except scorer.BadInput as error:
        raise InputError(error.path, error.problem, line=error.line) from None
    scores = {id: outcome for id, outcome in outcomes.items() if not isinstance(outcome, scorer.Unscored)}
    lines = {name: line for name, line in _named(path) if name in scores}
    judge = next((str(line["judge"]) for line in lines.values() if line.get("judge")), UNNAMED)
    system, k = named_system(path.parent.name if path.stem == "per_item" else path.stem)
    return FinishedRun(
        directory=path.parent if path.stem == "per_item" else path,
        label=system,
        clarifier="",
        k=k,
        players={},
        judges=(judge,) if scores else (),
        items={id: _item(id, lines.get(id, {}), score, judge) for id, score in scores.items()},
        n_failed=list(outcomes.values()).count(scorer.Unscored.FAILED),
        n_expected=len(outcomes),
        data={},
        embedded=False,
    )


def _named(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for line in read_jsonl(path):
        for field in _NAMES:
            if line.get(field) not in (None, ""):
                yield str(line[field]), line
                break


def _item(id: str, line: Mapping[str, Any], score: float, judge: str) -> Item:
    labels = {
        str(nugget.get("id")): label
        for field in _NUGGETS
        for nugget in line.get(field) or ()
        if (label := next((nugget[name] for name in _LABELS if nugget.get(name) in COVERAGES), None))
    }
    return Item(
        id=id,
        fused_query=str(line.get("fused_query") or line.get("query") or ""),
        blurred_query="",
        questions=(),
        answers=(),
        rewritten_query="",
        answer="",
        verdicts={judge: Verdict(score, labels, {})},
    )

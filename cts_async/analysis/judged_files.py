"""Judged answers that anybody's program wrote: the release's per_item.jsonl, and whatever `cts score` reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from cts_async import scorer
from cts_async.analysis.runs import UNNAMED, FinishedRun, Item, Verdict, first_of, named_system
from cts_async.errors import InputError
from cts_async.protocol.run_files import PER_ITEM, RESULTS
from cts_async.records import Coverage, is_one_line


def read_judged(path: Path) -> FinishedRun:
    """One file as a run: its scores are the scorer's, recomputed from its labels.

    The system is called as the file is, or its folder where the file is a per_item.jsonl or results.jsonl; a name
    that ends in k1 to k9 says the budget. Raises InputError with the line at fault.
    """
    said: list[str] = []
    try:
        outcomes = scorer.read_outcomes(path, report=said.append)
        lines = dict(_named(path))
    except scorer.BadInput as error:
        raise InputError(error.path, error.problem, line=error.line) from None
    scores = {id: outcome for id, outcome in outcomes.items() if not isinstance(outcome, scorer.Unscored)}
    judges = (str(line["judge"]) for name, line in lines.items() if name in scores and line.get("judge"))
    judge = min(judges, default=UNNAMED)  # several judges in one file: not the first, lines have no order
    if not is_one_line(judge):
        raise InputError(path, f"{judge!r} has control characters or line breaks", field="judge")
    by_folder = path.name in (PER_ITEM, RESULTS)
    system, k = named_system(path.parent.name if by_folder else path.stem)
    return FinishedRun(
        directory=path.parent if by_folder else path,
        label=system,
        clarifier="",
        k=k,
        players={},
        judges=(judge,) if scores else (),
        items={id: _item(id, lines.get(id, {}), scores[id], judge) for id in sorted(scores)},
        n_failed=list(outcomes.values()).count(scorer.Unscored.FAILED),
        n_expected=len(outcomes),
        data={},
        embedded=False,
        remarks=(f"Recomputed from the nuggets: {first_of(said)}.",) if said else (),
    )


def _named(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every line with its item's name; a table of scores has none."""
    if not scorer.is_csv(path):
        for _, line in scorer.read_records(path, lambda _: None):
            yield scorer.item_name(line), line


def _item(id: str, line: Mapping[str, Any], score: float, judge: str) -> Item:
    pairs = scorer.pairs_of(line)
    coverage = cast("Mapping[str, Coverage]", {name: label for name, (_, label) in pairs.items()})
    weights = {name: float(weight) for name, (weight, _) in pairs.items()}
    return Item(
        id=id,
        fused_query=str(line.get("fused_query") or line.get("query") or ""),
        blurred_query="",
        questions=(),
        answers=(),
        rewritten_query="",
        answer="",
        verdicts={judge: Verdict(score, coverage, weights)},
    )

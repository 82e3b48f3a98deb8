"""The main table of a paper: a row for each system, with words for readers who do not know this project."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from cts_async.analysis.compare import Standing
from cts_async.analysis.stats import ALPHA, ENOUGH, FEWEST
from cts_async.report.comparison import (
    BEST,
    OWN_NOTE,
    RunsCompared,
    references_of,
    system_name,
)
from cts_async.report.results import CAVEATS
from cts_async.report.tables import (
    FEW_NOTE,
    NO_INTERVAL,
    SHORT_MARK,
    Column,
    DataTable,
    Row,
    number,
    text,
    with_caveats,
)

NAME: Final = "results"
"""The name of its files."""


def results_table(found: RunsCompared, names: Mapping[str, str]) -> DataTable:
    """Scores under the first judge, with differences to the baseline and their tests. `names` are for readers."""
    judged, baseline = found.judged[0], found.baseline
    references = references_of(found.board)
    rows = [{**_row(one), "reference": one.system in references} for one in judged.ranked]
    columns = (
        Column("System", system_name, numeric=False),
        Column("k", text("k")),
        Column("Mean", number("mean", "z.1f"), rank=BEST),
        *([Column("Difference [95 % CI]", _difference), Column("p (Holm)", _p)] if baseline else []),
        Column("n", text("n")),
    )
    table = DataTable(
        NAME,
        "Restore score (0 to 100, higher is better)",
        " ".join(_caption(found, names)),
        columns,
        rows,
        group="reference",
        remarks=tuple(_remarks(found, rows)),
    )
    return with_caveats(table, found.caveats)


def _row(one: Standing) -> Row:
    delta = one.delta
    low, high = (delta and delta.interval) or (None, None)
    return {
        "system": _without_k(one.system, one.k),
        "k": one.k or None,
        "mean": one.scores.mean if one.common_mean is None else one.common_mean,
        "judge_is": "+".join(one.own_text) or None,
        "best_or_tied": one.best,
        "difference": delta.mean if delta else None,
        "low": low,
        "high": high,
        "too_short": bool(low is not None and delta and delta.too_short),
        "p_holm": one.p_holm,
        "n": one.scores.n_scored,
    }


def _without_k(label: str, k: int) -> str:
    """A system's name without its k, which has a column: `GPT-5.2 (k=3)` or `gpt-k3+support-kimi`."""
    for ending in (f" (k={k})", f"-k{k}") if k else ():
        head, found, tail = label.rpartition(ending)
        if found:
            return head + tail
    return label


def _difference(row: Row) -> str:
    if row["difference"] is None:
        return "-"
    difference = f"{row['difference']:+z.1f}"
    if row["low"] is None:
        return f"{difference} {NO_INTERVAL}"
    return f"{difference} [{row['low']:z.1f}, {row['high']:z.1f}]{SHORT_MARK if row['too_short'] else ''}"


def _p(row: Row) -> str:
    p = row["p_holm"]
    return "-" if p is None else "<0.001" if p < 0.0005 else f"{p:.3f}"


def _caption(found: RunsCompared, names: Mapping[str, str]) -> Iterator[str]:
    judged = found.judged[0]
    data = next((entrant.data["name"] for entrant in found.board.entrants if entrant.data.get("name")), "")
    of = f" of {names.get(data, data)}" if data else ""
    common = judged.standings[0].n_common
    over = f"n = {common}" if not judged.n_differs else f"the {common}" if common else "each system's own n"
    in_all = " that all systems have" if judged.n_differs and common else ""
    yield f"Mean over {over} instances{of}{in_all}, judged by {names.get(judged.judge, judged.judge)}."
    if found.baseline:
        family = (
            f"{len(judged.pairs)} tests"
            if found.against_baseline
            else f"the {len(judged.pairs)} tests of all pairs"
        )
        yield (
            f"Difference: mean paired difference to {found.baseline}, with a 95 % bootstrap confidence interval. "
            f"p: paired permutation test, corrected by Holm's method for {family}."
        )
    if any(one.best is False for one in judged.standings):
        references = references_of(found.board)
        apart = " and ".join(one.system for one in judged.ranked if one.system in references)
        rivals = f" of a system that clarifies (not {apart})" if apart else ""
        yield f"Bold: the highest mean{rivals}, and every mean that no test separates from it (p > {ALPHA})."
    elif len(judged.best) > 1:
        yield f"No mean is bold, since no test separates any from the highest one (p > {ALPHA})."


def _remarks(found: RunsCompared, rows: Sequence[Row]) -> Iterator[str]:
    judged = found.judged[0]
    if judged.n_differs:
        yield "n: instances with a score; a difference is over those scored in both systems."
    if any(one.delta and one.delta.n < FEWEST for one in judged.standings):
        yield FEW_NOTE
    if failed := [
        f"{one.system}: {one.scores.n_failed} of {one.scores.n_expected}"
        for one in judged.standings
        if one.scores.n_failed
    ]:
        yield f"Failed instances have no score: {'; '.join(failed)}."
    if any(row["too_short"] for row in rows):
        yield f"{SHORT_MARK} Below {ENOUGH} instances an interval covers the truth in less than 95 % of cases."
    if any(row["judge_is"] for row in rows):
        yield OWN_NOTE
    for caveat in found.caveats:
        yield CAVEATS[caveat]

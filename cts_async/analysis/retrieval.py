"""Rankings against relevance judgments, by people or derived from the intents."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from cts_async.errors import UsageError
from cts_async.search.rankers import Ranker

# Measures are computed by trec_eval's own code, by way of ir-measures and pytrec_eval (MacAvaney et al. 2022,
# "Streamlining evaluation with ir-measures"; Van Gysel & de Rijke 2018): nDCG has linear gains and log2(rank + 1),
# and documents of equal score, as a 32-bit float, stand in descending order of their ids, whatever order the run had.

Qrels = Mapping[str, Mapping[str, int]]
"""Query id -> document id -> grade. Grades below 1 are not relevant, and gain nothing."""
Run = Mapping[str, Sequence[tuple[str, float]]]
"""Query id -> (document id, score) in any order, each document once, scores finite."""

_FAMILIES: Final = {
    "ndcg": "nDCG",
    **dict.fromkeys(("p", "prec", "precision"), "P"),
    **dict.fromkeys(("rr", "mrr"), "RR"),
    **dict.fromkeys(("ap", "map"), "AP"),
    **dict.fromkeys(("r", "recall"), "R"),
}
_NAME: Final = re.compile(r"([a-z]+)(?:@?([1-9][0-9]{0,5}))?", re.IGNORECASE | re.ASCII)
_NEEDS_CUTOFF: Final = ("P", "R")
_DEPTH: Final = re.compile("[1-9][0-9]{0,8}")


def measure(name: str) -> str:
    """Return the usual name: "NDCG20" is "nDCG@20", "MRR100" is "RR@100", "P1" is "P@1", "map" is "AP".

    Known are nDCG, P, RR (MRR), AP (MAP) and R (Recall), each with a cutoff, which P and R need. Raises UsageError.
    """
    found = _NAME.fullmatch(name.strip())
    family = found and _FAMILIES.get(found[1].lower())
    if found is None or family is None:
        raise UsageError(f"{name!r} is not a known measure; write nDCG@10, P@5, MRR@100, MAP or Recall@100")
    if found[2] is None and family in _NEEDS_CUTOFF:
        raise UsageError(f"{name!r} needs a cutoff, for example {name.strip()}@10")
    return family if found[2] is None else f"{family}@{found[2]}"


def cutoff(name: str) -> int | None:
    """Return how many documents a measure considers, None for all. Raises UsageError for an unknown measure."""
    depth = measure(name).partition("@")[2]
    return int(depth) if depth else None


def evaluate(
    qrels: Qrels, run: Run, measures: Sequence[str], *, level: int = 1
) -> dict[str, dict[str, float]]:
    """Return measure -> query id -> value in [0, 1], measures by the names given, queries in the order of `qrels`.

    `level` is the lowest grade that P, RR, AP and R count as relevant (TREC Deep Learning: 2); nDCG uses gains instead.
    A query without retrieved documents counts 0, and so does one without a relevant document; a query without
    judgments is left out. Raises UsageError for an unknown measure.
    """
    import ir_measures

    # Grades below 1 are dropped: not relevant is the same as not judged.
    judged = {
        query: {document: grade for document, grade in grades.items() if grade > 0}
        for query, grades in qrels.items()
        if grades
    }
    found = {query: dict(run[query]) for query, grades in judged.items() if grades and run.get(query)}
    # trec_eval has no reciprocal rank with a cutoff: it is that of the whole ranking, or 0 below the cutoff.
    names: dict[Any, list[tuple[str, float]]] = {}
    values = {name: dict.fromkeys(judged, 0.0) for name in measures}
    for name in measures:
        usual, _, depth = measure(name).partition("@")
        is_rr = usual == "RR"
        metric = ir_measures.parse_measure("RR" if is_rr else measure(name))
        if level > 1 and usual != "nDCG":
            metric = metric(rel=level)
        names.setdefault(metric, []).append((name, 1 / int(depth) if is_rr and depth else 0.0))
    if found:
        relevant = {query: judged[query] for query in found}
        for one in ir_measures.pytrec_eval.evaluator(list(names), relevant).iter_calc(found):
            for name, least in names[one.measure]:
                values[name][one.query_id] = float(one.value) if one.value >= least else 0.0
    return values


def count_hopeless(qrels: Qrels, *, level: int = 1) -> int:
    """Count queries with judgments but no document of that grade, which `evaluate` always scores 0."""
    return sum(1 for grades in qrels.values() if grades and max(grades.values()) < level)


def relevant_from(level: int) -> str:
    """Return the caption of a relevance level, "" for the usual one."""
    return f"; relevant from grade {level} (nDCG: by gains)" if level > 1 else ""


def hopeless_note(hopeless: int, of: str, level: int) -> str:
    """Explain `count_hopeless`; `of` names the total: "198 facets"."""
    where = " except in nDCG" if level > 1 else ""
    return f"{hopeless:,} of {of} have judgments but no relevant document: they count 0{where}, whatever is asked"


# Pseudo-judgments for a corpus without judgments: what an intent's own description ranks best counts as relevant.
# They say how close a query comes to the ranking of the full description under the same ranker and corpus. They can
# compare ways to ask and to reformulate, and say nothing about the quality of the documents: whatever shows their
# numbers has to say so.

PSEUDO_JUDGMENTS: Final = "pseudo-judgments (what the intent's own text ranks best), not relevance judgments"
"""Their name in tables and files."""


def pseudo_depth(qrels: str, level: int = 1) -> int | None:
    """Return N of "intent:N", 10 of "intent"; None for the path of a file.

    Raises UsageError for another N, and for a relevance `level` above 1, the only grade of pseudo-judgments.
    """
    name, colon, depth = qrels.partition(":")
    if name != "intent":
        return None
    if colon and not _DEPTH.fullmatch(depth):
        raise UsageError(f"--qrels {qrels}: write intent:N, with N from 1 on, or the path of a file")
    if level > 1:
        problem = f"{qrels} has grade 1 only; name a file of graded judgments with --qrels"
        raise UsageError(f"--relevance-level {level}: {problem}")
    return int(depth) if colon else 10


def pseudo_qrels(ranker: Ranker, intents: Mapping[str, str], depth: int) -> dict[str, dict[str, int]]:
    """Give key -> document id -> 1 for the `depth` documents that `ranker` ranks best for each intent.

    Grades are binary: an order within the best would be one more thing that nobody judged. An intent that finds
    nothing has no judgments, and so is left out by `evaluate`.
    """
    texts = dict.fromkeys(intents.values())
    found = {text: [ranked.id for ranked in ranker.rank(text, depth)] for text in texts}
    return {key: dict.fromkeys(found[text], 1) for key, text in intents.items() if found[text]}

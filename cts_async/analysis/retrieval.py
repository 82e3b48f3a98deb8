"""Rankings against relevance judgments, by people or derived from the intents."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from ctypes import c_float
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
    asked = {name: measure(name) for name in measures}
    judged = [query for query, grades in qrels.items() if grades]
    relevant = {query: _relevant(qrels[query]) for query in judged if run.get(query)}
    found = {query: run[query] for query, grades in relevant.items() if grades}
    values = {usual: dict.fromkeys(judged, 0.0) for usual in asked.values()}
    for depth, names in _by_depth(values, max(map(len, found.values()), default=0)).items():
        for usual, query, value in _computed(relevant, found, names, depth, level):
            values[usual][query] = value
    return {name: values[usual].copy() for name, usual in asked.items()}


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


def _relevant(grades: Mapping[str, int]) -> dict[str, int]:
    """Drop grades below 1: not relevant is the same as not judged."""
    return {document: grade for document, grade in grades.items() if grade > 0}


def _by_depth(usual: Iterable[str], longest: int) -> dict[int | None, list[str]]:
    """Group measures by the depth of ranking they may see; trec_eval has no reciprocal rank with a cutoff."""
    groups: dict[int | None, list[str]] = {}
    for name in usual:
        depth = cutoff(name) if name.startswith("RR") else None
        groups.setdefault(depth if depth and depth < longest else None, []).append(name)
    return groups


def _computed(
    relevant: dict[str, dict[str, int]], found: Run, names: Sequence[str], depth: int | None, level: int
) -> Iterable[tuple[str, str, float]]:
    """Yield (usual name, query, value) for the queries in `found`."""
    import ir_measures

    objects: dict[Any, list[str]] = {}
    for name in names:
        metric = ir_measures.parse_measure("RR" if name.startswith("RR") else name)
        if level > 1 and not name.startswith("nDCG"):
            metric = metric(rel=level)
        objects.setdefault(metric, []).append(name)
    ranked = {query: dict(_top(documents, depth)) for query, documents in found.items()}
    judged = {query: relevant[query] for query in found}
    for found_value in ir_measures.pytrec_eval.evaluator(list(objects), judged).iter_calc(ranked):
        for name in objects[found_value.measure]:
            yield name, found_value.query_id, float(found_value.value)


def _top(documents: Sequence[tuple[str, float]], depth: int | None) -> Sequence[tuple[str, float]]:
    """Return the first `depth` documents in trec_eval's order; None: all, in the given order."""
    if depth is None or len(documents) <= depth:
        return documents
    # A 32-bit float is what trec_eval compares.
    return sorted(documents, key=lambda one: (c_float(one[1]).value, one[0]), reverse=True)[:depth]


# Pseudo judgments for a corpus without judgments: what an intent's own description ranks best counts as relevant.
# They say how close a query comes to the ranking of the full description under the same ranker and corpus. They can
# compare ways to ask and to reformulate, and say nothing about the quality of the documents: whatever shows their
# numbers has to say so.

STANDIN: Final = "stand-in judgments (what the intent's own text ranks best), not relevance judgments"
"""Their name in tables and files."""


def standins_have_one_grade(level: int, qrels: str) -> str:
    """Explain why a relevance level above 1 is refused with pseudo judgments."""
    return (
        f"--relevance-level {level}: {qrels} has grade 1 only; name a file of graded judgments with --qrels"
    )


def standin_qrels(ranker: Ranker, intents: Mapping[str, str], depth: int) -> dict[str, dict[str, int]]:
    """Give key -> document id -> 1 for the `depth` documents that `ranker` ranks best for each intent.

    Grades are binary: an order within the best would be one more thing that nobody judged. An intent that finds
    nothing has no judgments, and so is left out by `evaluate`.
    """
    texts = dict.fromkeys(intents.values())
    found = {text: [ranked.id for ranked in ranker.rank(text, depth)] for text in texts}
    return {key: dict.fromkeys(found[text], 1) for key, text in intents.items() if found[text]}

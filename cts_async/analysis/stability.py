"""Does another supporting model answer and rewrite alike? (paper, section 7.4 and table 11)

Two runs of one Clarifier and budget are compared whose User Answerer and Rewriter were played by different models.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from cts_async.analysis.concretization import unsupported
from cts_async.analysis.runs import FinishedRun, Item


@dataclass(frozen=True, slots=True)
class Stability:
    """One row of table 11. Every rate is None where there is nothing that it could be a rate of."""

    run: str
    other: str
    n_questions: int
    """Questions of the run that asked more."""
    n_aligned: int
    """Questions that both runs asked about the same instance in the same words."""
    ua_agreement: float | None
    """Of the aligned questions, those that both or neither User Answerer found unknown."""
    n_rewrites: int
    """Instances that both have rewritten."""
    rewrite_similarity: float | None
    """Mean `text_similarity` of their rewritten queries."""
    n_with_unknown: int
    """Rewritten queries, of both runs, that had an unknown answer among theirs."""
    unknown_preservation: float | None
    """Of these, those without an unsupported year or region: they left open what nobody had answered."""
    unsupported_years: float | None
    """Of all rewritten queries of both runs, those that state a year which neither q nor a known answer names."""
    unsupported_regions: float | None
    """The same for regions."""


def stability(run: FinishedRun, other: FinishedRun, names: tuple[str, str]) -> Stability:
    """Compare two runs, called by `names` in the result."""
    same = list(_aligned(run, other))
    similarities = [
        text_similarity(item.rewritten_query, other.items[id].rewritten_query)
        for id, item in run.items.items()
        if id in other.items
    ]
    rewritten = [item for one in (run, other) for item in one.items.values() if item.questions]
    made = [
        unsupported(item.blurred_query, item.questions, item.answers, item.rewritten_query)
        for item in rewritten
    ]
    kept = [not found for item, found in zip(rewritten, made, strict=True) if any(item.unknown)]
    return Stability(
        run=names[0],
        other=names[1],
        n_questions=max(sum(len(item.questions) for item in one.items.values()) for one in (run, other)),
        n_aligned=len(same),
        ua_agreement=_mean(same),
        n_rewrites=len(similarities),
        rewrite_similarity=_mean(similarities),
        n_with_unknown=len(kept),
        unknown_preservation=_mean(kept),
        unsupported_years=_mean([bool(found.years) for found in made]),
        unsupported_regions=_mean([bool(found.regions) for found in made]),
    )


def text_similarity(a: str, b: str) -> float:
    """Likeness of two texts in [0, 1]: 2 * (longest common subsequence) / (sum of lengths), by characters.

    What difflib's ratio approximates, but symmetric. Width, case and white space do not count; two empty texts
    are alike.
    """
    from rapidfuzz.distance import Indel

    return float(Indel.normalized_similarity(_normalised(a), _normalised(b)))


def _normalised(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _aligned(run: FinishedRun, other: FinishedRun) -> Iterator[bool]:
    """For every question asked in both runs whether both answers are known, or both unknown."""
    for id, item in run.items.items():
        if id in other.items:
            there = _by_question(other.items[id])
            for question, unknown in _by_question(item).items():
                if question in there:
                    yield unknown == there[question]


def _by_question(item: Item) -> dict[str, bool]:
    """Whether the answer was unknown, by the question as it is compared; of a repeated question the first counts."""
    pairs = zip(item.questions, item.unknown, strict=True)
    return {_normalised(question): unknown for question, unknown in reversed(list(pairs))}


def _mean(values: list[bool] | list[float]) -> float | None:
    return sum(values) / len(values) if values else None

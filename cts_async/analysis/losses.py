"""Where the points of an instance are lost: on the way of each nugget from the web to the answer.

The attribution is automatic, and goes by words, as the lexical judge does (`protocol.judge`): a text counts as holding a
nugget if it has three quarters of its terms and all its numbers. Other words for the same are not recognised, and a text
about something else may have the same words. It says where to look, and is no measurement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import fsum
from typing import Final, Literal, TypeAlias

from cts_async.protocol.judge import FULL_AT, is_chinese, lexical_coverage, terms_among, terms_of
from cts_async.records import Coverage
from cts_async.runs.gold_texts import GoldNugget
from cts_async.scorer import GAIN
from cts_async.search.backends.corpus import canonical_url

Stage: TypeAlias = Literal["said", "read", "found", "not_found", "not_asked", "unknown"]
STAGES: Final[tuple[Stage, ...]] = ("not_asked", "not_found", "found", "read", "unknown")
"""Where points are lost, in the order of the protocol, the first that applies:

not_asked   the nugget speaks of a constraint of the intent that neither q nor the searched query has, whatever was
            found; or no text held it, and the searched query lacks a good part of what q lacks of the intent
not_found   no text held the nugget, though most of the intent was searched for: retrieval
found       a result that holds it was not opened, or what was read of its page does not hold it: reading
read        an opened page, or the result that led there, holds it as the agent read it, but not the answer: answering
unknown     the gold has no text of the nugget, or the run no trace, or one too long to look through

A partly covered nugget loses half its points at the same stage; "said" is a nugget that is fully covered.
"""


@dataclass(frozen=True, slots=True)
class Document:
    """A search result or a page of a trace, with what the agent had of it before it."""

    url: str
    title: str
    text: str
    kind: Literal["snippet", "page"]
    event: int
    """The number of its search or visit in the trace, from 1."""
    rank: int = 0
    """Its place among the results of its search, from 1; 0 for a page."""
    unread: str = ""
    """The whole text of a page of which the agent had only `text`."""


@dataclass(frozen=True, slots=True)
class Label:
    """A judge's label of one nugget."""

    id: str
    weight: float
    coverage: Coverage


@dataclass(frozen=True, slots=True)
class QueryForms:
    """The intent q*, the underspecified query q, and the query that was searched."""

    intent: str
    query: str
    searched: str

    @property
    def reached(self) -> float:
        """The share of the terms that q* has and q lacks which the searched query has; 1.0 if q lacks none."""
        hidden = self._hidden
        if not hidden:
            return 1.0
        return len(hidden & terms_of(self.searched).every) / len(hidden)

    @property
    def unasked(self) -> frozenset[str]:
        """The terms that q* has, and neither q nor the searched query; none if that is not known.

        A pair of Chinese characters counts as searched for where both of them are in the query: between two words that
        the query has in another order stands a pair that it has not.
        """
        if not self.searched:
            return frozenset()
        searched = terms_of(self.searched).every
        characters = frozenset(self.searched)
        unasked: set[str] = set()
        for term in self._hidden - searched:
            if not is_chinese(term) or not characters.issuperset(term):
                unasked.add(term)
        return frozenset(unasked)

    @property
    def _hidden(self) -> frozenset[str]:
        """The terms that q* has and q lacks: what a clarification is to find out."""
        return terms_of(self.intent).content - terms_of(self.query).every


@dataclass(frozen=True, slots=True)
class NuggetLoss:
    """What a nugget lost of the 100 points of its instance, where, and the document that shows it (None for none)."""

    id: str
    points: float
    stage: Stage
    document: Document | None = None
    unplaced: bool = False
    """True if the gold names sources of the nugget, and no address of any: reading them is not recognised."""


def nugget_losses(
    labels: Sequence[Label],
    gold: Mapping[str, GoldNugget],
    documents: Sequence[Document] | None,
    queries: QueryForms,
) -> tuple[NuggetLoss, ...]:
    """Attribute the points of each nugget, in order; they add up to 100 minus the score.

    `documents` is None without a trace.
    """
    nugget_terms: set[str] = set()
    for label in labels:
        if label.id in gold:
            nugget_terms.update(terms_of(gold[label.id].text).every)
    read_documents: list[_ReadDocument] = []
    for document in documents or ():
        read_documents.append(_ReadDocument(document, frozenset(nugget_terms)))
    unseen: Stage = "not_asked"
    if queries.reached >= FULL_AT:
        unseen = "not_found"
    unasked = queries.unasked
    total = sum(label.weight for label in labels)
    losses: list[NuggetLoss] = []
    for label in labels:
        nugget = gold.get(label.id)
        points = 100 * label.weight * (1 - GAIN[label.coverage]) / total
        loss = NuggetLoss(label.id, points, "unknown")
        if nugget is not None and nugget.text and documents is not None:
            stage, evidence = _furthest(nugget, read_documents)
            # What nobody asked for cannot be missed by who searches and reads, even where it was in sight.
            if unasked & terms_of(nugget.text).content:
                stage = "not_asked"
            loss = replace(loss, stage=stage or unseen, document=evidence, unplaced=not nugget.placed)
        # The document of a covered nugget is shown as well: where the answer has it from.
        if label.coverage == "full":
            loss = replace(loss, stage="said")
        losses.append(loss)
    return tuple(losses)


class _ReadDocument:
    """A document, taken apart once for all nuggets."""

    def __init__(self, document: Document, nugget_terms: frozenset[str]) -> None:
        """`nugget_terms` are the terms of all nuggets: no others are looked for."""
        self.document, self.url, self._nugget_terms = document, canonical_url(document.url), nugget_terms
        self._terms = terms_among(f"{document.title}\n{document.text}", nugget_terms)

    # Only for a nugget that no opened document holds: the whole page is much longer than what was read of it.
    @cached_property
    def _unread_terms(self) -> frozenset[str]:
        return terms_among(self.document.unread, self._nugget_terms)

    def holds(self, nugget: GoldNugget) -> bool:
        return lexical_coverage(nugget.text, self._terms)[0] == "full"

    def recall(self, nugget: GoldNugget) -> float:
        return lexical_coverage(nugget.text, self._terms)[1]

    def has_unread(self, nugget: GoldNugget) -> bool:
        """True if the rest of the page holds the nugget."""
        return lexical_coverage(nugget.text, self._unread_terms)[0] == "full"


def _furthest(nugget: GoldNugget, documents: Sequence[_ReadDocument]) -> tuple[Stage | None, Document | None]:
    """Return how far a nugget came, and the first document that shows it; (None, None) if no document had it."""
    pages = [document for document in documents if document.document.kind == "page"]
    opened = {page.url for page in pages}
    holders = [document for document in documents if document.holds(nugget)]
    sources = frozenset(map(canonical_url, nugget.sources))
    references = frozenset(map(canonical_url, nugget.references))
    # A result counts as read if its page was opened: it led there.
    for holder in holders:
        if holder.url in opened:
            return "read", holder.document
    for page in pages:
        if page.has_unread(nugget):
            return "found", page.document
    # The gold says that the page has it, if in other words than the nugget's.
    for page in pages:
        if page.url in sources:
            return "read", page.document
    if holders:
        return "found", holders[0].document
    unread: list[_ReadDocument] = []
    for document in documents:
        if document.url in sources | references and document.url not in opened:
            unread.append(document)
    if not unread:
        return None, None
    # A reference may be the source of another nugget: the one with most of its words is the likeliest.
    likeliest = max(unread, key=lambda document: document.recall(nugget))
    return "found", likeliest.document


# --- Whole runs


@dataclass(frozen=True, slots=True)
class SystemLosses:
    """Points lost at each stage by a system: means over its `n` scored instances, which add up to 100 minus the mean."""

    label: str
    n: int
    mean: float
    """Mean score."""
    lost: Mapping[Stage, float]
    n_unplaced: int = 0
    """Nuggets, over all instances, of whose sources no address is known."""

    @property
    def known(self) -> bool:
        """False if nothing is known of any lost point."""
        if not self.lost["unknown"]:
            return True
        return any(self.lost[stage] for stage in STAGES if stage != "unknown")


def system_losses(label: str, instances: Iterable[Sequence[NuggetLoss]]) -> SystemLosses | None:
    """Sum up the instances of a system, whatever their order; None without any."""
    points: dict[Stage, list[float]] = {stage: [] for stage in STAGES}
    n = n_unplaced = 0
    for losses in instances:
        n += 1
        for loss in losses:
            n_unplaced += loss.unplaced
            if loss.stage != "said":
                points[loss.stage].append(loss.points)
    if not n:
        return None
    # An exact sum: its last digits do not depend on the order of the instances.
    lost = {stage: fsum(points[stage]) / n for stage in STAGES}
    return SystemLosses(label, n, 100 - fsum(lost.values()), lost, n_unplaced)

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
        return len(hidden & terms_of(self.searched).every) / len(hidden) if hidden else 1.0

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
        return frozenset(
            term for term in self._hidden - searched if not (is_chinese(term) and characters.issuperset(term))
        )

    @property
    def _hidden(self) -> frozenset[str]:
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
    texts = [gold[label.id].text for label in labels if label.id in gold]
    wanted = frozenset[str]().union(*(terms_of(text).every for text in texts))
    found = [_Read(one, wanted) for one in documents or ()]
    missed: Stage = "not_found" if queries.reached >= FULL_AT else "not_asked"
    unasked = queries.unasked
    total = sum(label.weight for label in labels)
    losses = []
    for label in labels:
        nugget = gold.get(label.id)
        points = 100 * label.weight * (1 - GAIN[label.coverage]) / total
        loss = NuggetLoss(label.id, points, "unknown")
        if nugget is not None and nugget.text and documents is not None:
            stage, document = _furthest(nugget, found)
            # What nobody asked for cannot be missed by who searches and reads, even where it was in sight.
            if unasked & terms_of(nugget.text).content:
                stage = "not_asked"
            loss = replace(loss, stage=stage or missed, document=document, unplaced=not nugget.placed)
        if label.coverage == "full":
            loss = replace(loss, stage="said")
        losses.append(loss)
    return tuple(losses)


class _Read:
    """A document, taken apart once for all nuggets."""

    def __init__(self, document: Document, wanted: frozenset[str]) -> None:
        """`wanted` are the terms of all nuggets: no others are looked for."""
        self.document, self.url, self._wanted = document, canonical_url(document.url), wanted
        self._terms = terms_among(f"{document.title}\n{document.text}", wanted)

    @cached_property
    def _unread_terms(self) -> frozenset[str]:
        return terms_among(self.document.unread, self._wanted)

    def holds(self, nugget: GoldNugget) -> bool:
        return lexical_coverage(nugget.text, self._terms)[0] == "full"

    def recall(self, nugget: GoldNugget) -> float:
        return lexical_coverage(nugget.text, self._terms)[1]

    def has_unread(self, nugget: GoldNugget) -> bool:
        """True if the rest of the page holds the nugget."""
        return lexical_coverage(nugget.text, self._unread_terms)[0] == "full"


def _furthest(nugget: GoldNugget, found: Sequence[_Read]) -> tuple[Stage | None, Document | None]:
    """How far a nugget came, and by which document, the first of those; None if no document had it."""
    pages = [one for one in found if one.document.kind == "page"]
    opened = {page.url for page in pages}
    holders = [one for one in found if one.holds(nugget)]
    own, references = (frozenset(map(canonical_url, urls)) for urls in (nugget.sources, nugget.references))
    for one in holders:
        if one.url in opened:
            return "read", one.document
    for page in pages:
        if page.has_unread(nugget):
            return "found", page.document
    for page in pages:
        if page.url in own:
            return "read", page.document
    if holders:
        return "found", holders[0].document
    unread = [one for one in found if one.url in own | references and one.url not in opened]
    # A reference may be the source of another nugget: the one with most of its words is the likeliest.
    likeliest = max(unread, key=lambda one: one.recall(nugget), default=None)
    return ("found", likeliest.document) if likeliest else (None, None)


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
        return not self.lost["unknown"] or any(self.lost[stage] for stage in STAGES if stage != "unknown")


def system_losses(label: str, instances: Iterable[Sequence[NuggetLoss]]) -> SystemLosses | None:
    """Sum up the instances of a system, whatever their order; None without any."""
    every = list(instances)
    if not every:
        return None
    lost = {
        stage: fsum(loss.points for losses in every for loss in losses if loss.stage == stage) / len(every)
        for stage in STAGES
    }
    n_unplaced = sum(loss.unplaced for losses in every for loss in losses)
    return SystemLosses(label, len(every), 100 - fsum(lost.values()), lost, n_unplaced)

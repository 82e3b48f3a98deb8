"""What evaluation asks of a retrieval model: the best documents for a query, with scores."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Ranked(NamedTuple):
    """A document and its score; higher is better."""

    id: str
    score: float


class Ranker(Protocol):
    """Ranks the documents of one corpus. Deterministic; ties are broken by the corpus's order."""

    @property
    def name(self) -> str:
        """What it is called in tables and run files."""

    def rank(self, query: str, limit: int) -> list[Ranked]:
        """At most `limit` documents, best first; none where the query matches nothing."""

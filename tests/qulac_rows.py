"""A Qulac of one's own: rows as short texts, columns as the published file has them."""

from __future__ import annotations

from typing import Any

from cts_async.neighbours.qulac.collection import ALL_COLUMNS


def qulac_row(id: str, question: str = "", answer: str = "", **changes: Any) -> dict[str, Any]:
    """A row of topic "t1", facet "d1-2" for the id "1-2-3"; `changes` by column."""
    topic, facet, _ = id.split("-")
    return {
        "topic_id": int(topic),
        "facet_id": int(facet),
        "topic_facet_id": f"{topic}-{facet}",
        "topic_facet_question_id": id,
        "topic": f"t{topic}",
        "topic_type": "faceted",
        "facet_type": "inf",
        "topic_desc": f"about t{topic}",
        "facet_desc": f"d{topic}-{facet}",
        "question": question,
        "answer": answer,
    } | changes


def qulac_table(*rows: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The rows as columns."""
    return {name: {str(number): row[name] for number, row in enumerate(rows)} for name in ALL_COLUMNS}


SMALL = qulac_table(
    qulac_row("2-1-1", "q one", "a one", topic_type="ambiguous", facet_type="nav"),
    qulac_row("2-1-2", "q two", "a two", topic_type="ambiguous", facet_type="nav"),
    qulac_row("2-1-10", "q ten", "a ten", topic_type="ambiguous", facet_type="nav"),
    qulac_row("2-1-X", topic_type="ambiguous", facet_type="nav"),
    qulac_row("2-3-1", "q one", "a of three", topic_type="ambiguous", facet_type="inv"),
    qulac_row("2-3-X", topic_type="ambiguous", facet_type="inv"),
    qulac_row("11-1-1", "q one", "yes", facet_desc=r"Say \"hi\", it\'s late"),
    qulac_row("11-1-1", "q one", "no", facet_desc=r"Say \"hi\", it\'s late"),
    qulac_row("11-1-X", facet_desc=r"Say \"hi\", it\'s late"),
)
"""Topic 2, ambiguous: facet 1 has questions 1, 2 and 10, facet 3 question 1. Topic 11: one question, two answers."""

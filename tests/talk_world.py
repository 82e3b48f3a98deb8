"""A small world to converse about: three queries with five intents, documents, and people's questions about them."""

from __future__ import annotations

import json
from pathlib import Path

INTENTS = (
    ("1-1", "jaguar", "the jaguar animal of the rain forest"),
    ("1-2", "jaguar", "a jaguar car dealer"),
    ("2-1", "ferry", "winter ferry times"),
    ("1-3", "jaguar", "the jaguar guitar"),
    ("3-1", "museum", "museum ticket prices"),
)
"""(id, q, q*); not all intents of a query stand together."""
DOCUMENTS = (
    ("animal", "The jaguar is a big cat, an animal of the rain forest."),
    ("car", "A jaguar car is sold by a dealer of cars."),
    ("guitar", "The jaguar is an electric guitar."),
    ("ferry", "The winter ferry leaves at these times."),
    ("museum", "Ticket prices of the museum are low."),
)


def write_talk_world(folder: Path) -> tuple[Path, Path]:
    """The queries file `talks.jsonl` and the documents file `pages.jsonl`."""
    data, corpus = folder / "talks.jsonl", folder / "pages.jsonl"
    rows = [{"id": id, "blurred_query": q, "fused_query": star} for id, q, star in INTENTS]
    pages = [{"id": id, "url": f"https://x/{id}", "title": id, "text": text} for id, text in DOCUMENTS]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    corpus.write_text("".join(json.dumps(page) + "\n" for page in pages))
    return data, corpus

"""A small world to build gold in: queries and documents."""

from __future__ import annotations

import json
from pathlib import Path

DOCUMENTS = (
    ("ferry", "The winter ferry leaves North Quay at 07:20. The crossing takes 50 minutes."),
    ("fares", "A single ferry ticket costs 9 crowns in winter. Bicycles travel free."),
    ("museum", "The Tidewheel Museum opened in 1997. Seniors pay 4 crowns."),
    ("tram", "The harbour tram runs every 12 minutes until midnight."),
)
QUERIES = (
    ("q1", "winter ferry times", "ferry"),
    ("q2", "museum ticket prices for seniors", "museum"),
    ("q3", "winter  ferry times", "boats"),  # the same intent as q1
    ("q4", "harbour tram hours", "tram"),
)


def write_world(
    folder: Path,
    queries: tuple[tuple[str, str, str], ...] = QUERIES,
    documents: tuple[tuple[str, str], ...] = DOCUMENTS,
) -> tuple[Path, Path]:
    """The queries file and the documents file."""
    data, corpus = folder / "world.jsonl", folder / "documents.jsonl"
    rows = [{"id": id, "fused_query": star, "blurred_query": q} for id, star, q in queries]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    pages = [
        {"id": name, "url": f"https://{name}.example/", "title": name.title(), "text": text}
        for name, text in documents
    ]
    corpus.write_text("".join(json.dumps(page) + "\n" for page in pages))
    return data, corpus

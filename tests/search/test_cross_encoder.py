"""Re-ranking beside the model: what it is given to read, how much of it, and in which order it comes back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from cts_async.search.backends.corpus import Corpus
from cts_async.search.rankers import BATCH, CrossEncoderRanker, Ranked


class InFileOrder:
    """Finds every document."""

    name = "all"

    def __init__(self, count: int) -> None:
        self._count = count

    def rank(self, query: str, limit: int) -> list[Ranked]:
        return [Ranked(f"d{n}", -float(n)) for n in range(self._count)][:limit]


class Length:
    """Likes long texts, and remembers what it read."""

    def __init__(self) -> None:
        self.read: list[tuple[str, list[str]]] = []

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        self.read.append((query, list(texts)))
        return [float(len(text)) for text in texts]


def corpus_of(folder: Path, texts: Sequence[str]) -> Corpus:
    rows = [{"id": f"d{n}", "url": f"u{n}", "title": "T", "text": text} for n, text in enumerate(texts)]
    (folder / "docs").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Corpus.open(folder / "docs", folder / "cache")


def test_the_best_of_the_base_come_in_the_scorers_order_ties_in_the_bases(tmp_path: Path) -> None:
    corpus, scorer = corpus_of(tmp_path, ["a", "abc", "ab", "xyz", "longest"]), Length()
    ranker = CrossEncoderRanker(InFileOrder(5), "some/model", corpus, 4, scorer=scorer)
    assert ranker.name == "all+model"
    assert ranker.rank("query", 9) == [("d1", 5.0), ("d3", 5.0), ("d2", 4.0), ("d0", 3.0)]
    assert ranker.rank("query", 1) == [("d1", 5.0)]
    assert scorer.read[0] == ("query", ["T abc", "T xyz", "T ab", "T a"])


def test_nothing_found_is_nothing_read(tmp_path: Path) -> None:
    corpus, scorer = corpus_of(tmp_path, ["a"]), Length()
    assert CrossEncoderRanker(InFileOrder(0), "m", corpus, scorer=scorer).rank("query", 5) == []
    assert CrossEncoderRanker(InFileOrder(1), "m", corpus, scorer=scorer).rank("query", 0) == []
    assert scorer.read == []


@pytest.mark.parametrize("count", [BATCH, BATCH + 1, 2 * BATCH + 5])
def test_documents_are_read_in_batches_of_like_length(tmp_path: Path, count: int) -> None:
    texts = ["x" * (n * 7 % count + 1) for n in range(count)]
    corpus, scorer = corpus_of(tmp_path, texts), Length()
    ranked = CrossEncoderRanker(InFileOrder(count), "m", corpus, count, scorer=scorer).rank("query", count)
    sizes = [len(batch) for _, batch in scorer.read]
    assert max(sizes) <= BATCH
    assert (sum(sizes), len(ranked)) == (count, count)
    read = [len(text) for _, batch in scorer.read for text in batch]
    assert read == sorted(read, reverse=True)
    assert {found.id: found.score for found in ranked} == {
        f"d{n}": len(text) + 2.0 for n, text in enumerate(texts)
    }

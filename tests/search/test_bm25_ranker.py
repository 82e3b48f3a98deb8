"""Whole documents ranked by BM25: the same order and scores as the agent's search, without snippets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cts_async.search.backends.corpus import Corpus
from cts_async.search.rankers import Bm25Ranker, Ranked

TEXTS = ["the red fox", "red red wine", "a blue whale", "the red fox"]


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    rows = [{"id": f"d{n}", "url": f"u{n}", "title": "", "text": text} for n, text in enumerate(TEXTS)]
    (tmp_path / "docs").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Corpus.open(tmp_path / "docs", tmp_path / "cache")


def test_the_score_is_bm25_by_hand(corpus: Corpus) -> None:
    """One of four documents has it: idf = ln(1 + 3.5 / 1.5); tf 1 in 2 words, where 2.25 is the average."""
    (found,) = Bm25Ranker(corpus).rank("whales", 5)
    assert found == Ranked("d2", pytest.approx(1.2039728 / (1 + 1.2 * (0.25 + 0.75 * 2 / 2.25)), rel=1e-6))


def test_it_ranks_as_the_search_does_with_ties_in_file_order(corpus: Corpus) -> None:
    ranked = Bm25Ranker(corpus).rank("red fox", 10)
    assert ranked == [(hit.id, hit.score) for hit in corpus.search("red fox", 10)]
    assert [found.id for found in ranked] == ["d0", "d3", "d1"]


@pytest.mark.parametrize(("query", "limit"), [("zebra", 5), ("", 5), ("fox", 0)])
def test_what_matches_nothing_finds_nothing(corpus: Corpus, query: str, limit: int) -> None:
    assert Bm25Ranker(corpus).rank(query, limit) == []


def test_documents_are_read_in_file_order_and_ids_once(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [page.text for page in corpus.documents()] == TEXTS
    corpus.rank("whale", 1)
    monkeypatch.setattr(corpus, "_page", None)
    assert [found[0] for found in corpus.rank("whale", 1)] == ["d2"]


def test_a_document_is_found_by_its_id(corpus: Corpus) -> None:
    assert [page and page.text for page in map(corpus.document, ("d2", "d0", "d9"))] == [
        "a blue whale",
        "the red fox",
        None,
    ]


def test_a_file_is_opened_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "docs").write_text('{"id": "1", "url": "u", "title": "", "text": "fox"}\n')
    ranker = Bm25Ranker(Corpus.open(tmp_path / "docs"))
    assert (ranker.name, [found.id for found in ranker.rank("foxes", 3)]) == ("bm25", ["1"])

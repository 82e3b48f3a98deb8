"""The sample world is sound: complete, grounded in its corpus, and hard exactly where a query is blurred."""

from __future__ import annotations

import json
import re
import warnings
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

import bm25s
import pytest

from cts_async.records import language_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # jieba's own syntax and packaging warnings
    import jieba

jieba.setLogLevel(60)

SAMPLE = Path(__file__).parents[1] / "data" / "sample"
STOPWORDS = """
a an and are as at be by can do for from get getting how i in is it of on or that the their them to
up what when where which who with 的 了 吗 在 是 和 与 怎么 怎样 哪里 哪些 什么 要 去 能 不能 几点
"""

Row = dict[str, Any]


def rows(name: str) -> list[Row]:
    text = (SAMPLE / name).read_text(encoding="utf-8")
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


QUERIES = rows("queries.jsonl")
GOLD = {row["id"]: row for row in rows("gold.jsonl")}
CORPUS = {row["id"]: row for row in rows("corpus.jsonl")}

every_query = pytest.mark.parametrize("query", QUERIES, ids=lambda query: query["id"])


def nuggets(query: Row) -> list[Row]:
    return GOLD[query["id"]]["gold"]["nuggets"]


def evidence(query: Row) -> set[str]:
    return {source for nugget in nuggets(query) for source in nugget["source_ids"]}


def text_of(doc_id: str) -> str:
    return f"{CORPUS[doc_id]['title']}\n{CORPUS[doc_id]['text']}"


def numbers(text: str) -> set[str]:
    """Give the numbers of a text as they are written: 07:20, 1.8, 3,000, 2033."""
    return set(re.findall(r"\d+(?:[.:,]\d+)*", text))


def terms(text: str) -> list[str]:
    """Give the content words of English and Chinese text."""
    words = (word for word in jieba.lcut(text.lower()) if re.search(r"\w", word))
    return [word for word in words if word not in STOPWORDS.split()]


@cache
def index() -> bm25s.BM25:
    retriever = bm25s.BM25()
    retriever.index([terms(text_of(doc_id)) for doc_id in CORPUS], show_progress=False)
    return retriever


def search(query: str, k: int) -> list[str]:
    found, _ = index().retrieve([terms(query)], corpus=list(CORPUS), k=k, show_progress=False)
    return [str(doc_id) for doc_id in found[0]]


def recall(query: Row, field: str, k: int) -> float:
    return len(evidence(query) & set(search(query[field], k))) / len(evidence(query))


# --- complete ---------------------------------------------------------------------------------


def test_the_world_has_its_size() -> None:
    assert len(QUERIES) == 28
    assert len(CORPUS) >= 150


def test_ids_and_urls_are_unique() -> None:
    assert len({query["id"] for query in QUERIES}) == len(QUERIES)
    assert len(rows("gold.jsonl")) == len(GOLD)
    assert len(rows("corpus.jsonl")) == len(CORPUS)
    assert len({doc["url"] for doc in CORPUS.values()}) == len(CORPUS)


def test_both_languages_are_there_from_the_start() -> None:
    languages = [language_of(query["fused_query"]) for query in QUERIES]
    assert languages.count("zh") == 10
    assert languages[:8].count("en") == 5
    assert sum(language_of(doc["text"]) == "zh" for doc in CORPUS.values()) >= 50


def test_gold_and_queries_join_by_id_and_by_text() -> None:
    assert [(query["id"], query["fused_query"]) for query in QUERIES] == [
        (row["id"], row["fused_query"]) for row in GOLD.values()
    ]


@pytest.mark.parametrize("doc", CORPUS.values(), ids=CORPUS.keys())
def test_a_document_is_fictional_and_of_moderate_length(doc: Row) -> None:
    assert re.match(r"https://([a-z]+\.)+example/[a-z0-9/-]+$", doc["url"])
    assert doc["title"]
    if language_of(doc["text"]) == "zh":
        assert 80 <= len(doc["text"]) <= 180
    else:
        assert 50 <= len(doc["text"].split()) <= 110


# --- grounded ---------------------------------------------------------------------------------


@every_query
def test_gold_is_well_formed(query: Row) -> None:
    gold = GOLD[query["id"]]["gold"]
    assert set(gold) == {
        "query_intent",
        "must_cover",
        "missing_evidence",
        "nuggets",
        "reference_urls",
        "unsupported_claims",
        "notes",
    }
    assert gold["query_intent"]
    assert gold["must_cover"]
    assert 3 <= len(gold["nuggets"]) <= 6
    assert [nugget["id"] for nugget in gold["nuggets"]] == [f"N{i + 1}" for i in range(len(gold["nuggets"]))]
    assert {nugget["weight"] for nugget in gold["nuggets"]} == {1, 2, 3}
    assert set(gold["reference_urls"]) == {CORPUS[source]["url"] for source in evidence(query)}


@every_query
def test_nuggets_cite_documents_in_the_language_of_the_query(query: Row) -> None:
    for nugget in nuggets(query):
        assert nugget["source_ids"]
        assert set(nugget["source_ids"]) <= set(CORPUS)
        texts = [nugget["text"], *map(text_of, nugget["source_ids"])]
        assert {language_of(text) for text in texts} == {language_of(query["fused_query"])}


@every_query
def test_every_number_of_a_nugget_is_in_its_sources(query: Row) -> None:
    for nugget in nuggets(query):
        assert numbers(nugget["text"]) <= numbers(" ".join(map(text_of, nugget["source_ids"])))


@every_query
def test_most_words_of_a_nugget_are_in_its_sources(query: Row) -> None:
    for nugget in nuggets(query):
        said = set(terms(nugget["text"]))
        assert len(said & set(terms(" ".join(map(text_of, nugget["source_ids"]))))) / len(said) >= 0.6


# --- hard exactly where the query is blurred --------------------------------------------------


@every_query
def test_the_blurred_query_is_shorter_and_leaves_the_constraint_out(query: Row) -> None:
    fused, blurred = query["fused_query"], query["blurred_query"]
    assert len(blurred) < len(fused)
    constraint = set(terms(fused)) - set(terms(blurred))
    assert constraint & set(terms(" ".join(map(text_of, evidence(query)))))
    assert not numbers(blurred)


@every_query
def test_the_intent_finds_evidence_in_the_top_five(query: Row) -> None:
    assert recall(query, "fused_query", 5) > 0


def test_blurring_costs_recall() -> None:
    fused = mean(recall(query, "fused_query", 3) for query in QUERIES)
    blurred = mean(recall(query, "blurred_query", 3) for query in QUERIES)
    print(f"recall@3: fused {fused:.2f}, blurred {blurred:.2f}")
    assert fused >= 0.85
    assert blurred <= fused - 0.5

"""Searches and visits from the journals of earlier runs: whoever asked, however an address is spelled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from cts_async.errors import ToolError
from cts_async.search.tools import Recorded


def query(text: str, *titles: str, instance: str = "q1", ok: bool = True) -> dict[str, Any]:
    rows = [[f"https://x/{title}", title, "A snippet."] for title in titles]
    return record("query", {"query": text}, {"hits": rows}, instance, ok)


def page(url: str, text: str, *, final: str = "", instance: str = "q1") -> dict[str, Any]:
    return record("page", {"url": url}, {"url": final or url, "title": "T", "text": text}, instance, True)


def record(kind: str, request: Any, response: Any, instance: str, ok: bool) -> dict[str, Any]:
    step = f"search/tool/1.1/{kind}/1"
    known = {"key": "0" * 32, "ok": ok, "instance": instance, "step": step, "request": request}
    return {**known, "response": response} if ok else {**known, "error": {"kind": "tool", "message": "x"}}


def journal(folder: Path, *records: Any, name: str = "steps.jsonl") -> Path:
    path = folder / name
    path.write_bytes(b"".join(orjson.dumps(one) + b"\n" for one in records))
    return path


async def test_replayed_query_is_found_by_text_for_any_instance(tmp_path: Path) -> None:
    recorded = Recorded(
        [journal(tmp_path, query("other", "B"), query("ferry  times", "A", "C", instance="q9"))]
    )
    hits = await recorded.search("ferry times", 10)
    assert [(hit.url, hit.title, hit.snippet) for hit in hits] == [
        ("https://x/A", "A", "A snippet."),
        ("https://x/C", "C", "A snippet."),
    ]
    assert [hit.title for hit in await recorded.search("ferry times", 1)] == ["A"]


async def test_page_is_found_in_every_spelling_of_its_address_and_of_its_final_one(tmp_path: Path) -> None:
    recorded = Recorded([journal(tmp_path, page("https://x.org/a", "Old text.", final="https://y.org/b"))])
    for url in ("https://x.org/a", "http://X.org/a/", "x.org/a#part", "https://x.org/%61", "https://y.org/b"):
        assert (await recorded.fetch(url)).text == "Old text."


async def test_exact_address_is_preferred_over_similar_ones(tmp_path: Path) -> None:
    both = [page("https://x.org/a", "first"), page("https://x.org/a/", "second")]
    recorded = Recorded([journal(tmp_path, *both)])
    assert (await recorded.fetch("https://x.org/a/")).text == "second"
    assert (await recorded.fetch("http://x.org/a")).text == "first"


async def test_earliest_record_of_the_first_journal_counts(tmp_path: Path) -> None:
    journals = [
        journal(tmp_path, query("q", "A"), query("q", "B"), name="1.jsonl"),
        journal(tmp_path, query("q", "C"), query("only here", "D"), name="2.jsonl"),
    ]
    recorded = Recorded(journals)
    assert [hit.title for hit in await recorded.search("q", 5)] == ["A"]
    assert [hit.title for hit in await recorded.search("only here", 5)] == ["D"]


@pytest.mark.parametrize("ask", ["search", "fetch"])
async def test_unrecorded_query_or_page_is_a_tool_error(tmp_path: Path, ask: str) -> None:
    recorded = Recorded([journal(tmp_path, query("failed", ok=False))])
    with pytest.raises(ToolError, match="not recorded") as missed:
        await (recorded.search("failed", 5) if ask == "search" else recorded.fetch("https://x.org/a"))
    assert missed.value.reason == "not recorded"
    assert missed.value.host == ("replay" if ask == "search" else "x.org")


async def test_other_records_and_damaged_lines_are_ignored(tmp_path: Path) -> None:
    evidence = record(
        "page", {"url": "https://x/e"}, {"title": "T", "evidence": "E", "summary": "S"}, "q", True
    )
    turn = {
        "key": "1" * 32,
        "ok": True,
        "step": "search/turn/1",
        "response": {"text": '"step":"search/tool/'},
    }
    path = journal(tmp_path, turn, evidence, {**query("q"), "response": 3}, {"step": "search/tool/1"})
    with path.open("ab") as file:
        file.write(b'{"step":"search/tool/ broken\n' + orjson.dumps(query("good", "A")) + b"\n")
        file.write(orjson.dumps(query("torn", "B")))
    recorded = Recorded([path])
    assert [hit.title for hit in await recorded.search("good", 5)] == ["A"]
    for missing in ("q", "torn"):
        with pytest.raises(ToolError):
            await recorded.search(missing, 5)
    with pytest.raises(ToolError):
        await recorded.fetch("https://x/e")

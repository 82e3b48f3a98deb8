"""What nuggets say is read from the gold that the run was scored by, and from no other file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from made_runs import Row, changed_manifest, made_run
from written_files import write_lines

from cts_async.runs.gold_texts import GoldTexts
from cts_async.runs.manifest import Manifest
from cts_async.runs.open_run import viewed_manifest

NUGGETS = [
    {"id": "N1", "text": "At nine.", "weight": 3, "source_ids": ["d1", "d2"]},
    {"id": "N2", "text": "<b>Blue</b>", "weight": 1, "source_ids": []},
]
SOURCES = [{"id": "d1", "url": "https://a.example/1", "title": "A", "text": "..."}]


def about(folder: Path, gold: Path, digest: str = "", said: Mapping[str, Any] | None = None) -> Manifest:
    """A run that says its gold is there."""
    run = made_run(folder, label="orig", rows=[Row("s1")])
    manifest = json.loads((run / "run.json").read_text())
    wanted = digest or hashlib.sha256(gold.read_bytes()).hexdigest()
    manifest["identity"]["data"] = {"name": "made", "sha256": "c" * 64, "gold_sha256": wanted}
    manifest["data"] = {"spec": "made", "path": str(folder / "queries.csv"), "gold": str(gold), "fields": {}}
    manifest["data"] |= said or {}
    (run / "run.json").write_text(json.dumps(manifest))
    found = viewed_manifest(run)
    assert found is not None
    return found


def gold_line(id: str | None = "s1", query: str = "when does it leave") -> Mapping[str, Any]:
    named = {} if id is None else {"id": id}
    return {**named, "fused_query": query, "gold": {"nuggets": NUGGETS}, "sources": SOURCES}


def test_a_nugget_has_its_text_weight_and_sources(tmp_path: Path) -> None:
    gold = write_lines(tmp_path / "g.jsonl", gold_line("other"), gold_line())
    found = GoldTexts().nuggets(about(tmp_path, gold), "s1", "when does it leave")
    assert [(id, one.text, one.weight) for id, one in found.items()] == [
        ("N1", "At nine.", 3.0),
        ("N2", "<b>Blue</b>", 1.0),
    ]
    assert found["N1"].sources == ("https://a.example/1", "d2")


def test_sources_that_are_ids_of_documents_have_their_addresses(tmp_path: Path) -> None:
    """As data/README.md has it: source_ids are ids of the corpus. Only the file with the recorded digest counts."""
    line = {**gold_line(), "sources": []}
    gold = write_lines(tmp_path / "g.jsonl", line)
    documents = [{"id": f"d{n}", "url": f"https://a.example/{n}", "title": "", "text": ""} for n in (2, 3)]
    unusable = [{"id": ["d1"], "url": "https://a.example/1"}, {"id": {}, "url": 1}]
    corpus = write_lines(tmp_path / "corpus.jsonl", *unusable, *documents)

    def sources(digest: str, folder: str) -> tuple[str, ...]:
        about(tmp_path / folder, gold)
        run = tmp_path / folder / "made-orig"
        with changed_manifest(run) as manifest:
            manifest["identity"]["corpus_sha256"] = digest
            manifest["data"]["corpus"] = str(corpus)
        found = viewed_manifest(run)
        assert found is not None
        return GoldTexts().nuggets(found, "s1", "when does it leave")["N1"].sources

    assert sources(hashlib.sha256(corpus.read_bytes()).hexdigest(), "a") == ("d1", "https://a.example/2")
    assert sources("e" * 64, "b") == ("d1", "d2")


def test_gold_without_ids_is_joined_by_the_query(tmp_path: Path) -> None:
    gold = write_lines(
        tmp_path / "g.jsonl", gold_line(None, "another"), gold_line(None, "when  does it leave")
    )
    texts = GoldTexts()
    assert "N1" in texts.nuggets(about(tmp_path, gold), "made-up", "when does it leave")
    assert texts.nuggets(about(tmp_path / "b", gold), "made-up", "nobody asked") == {}


def test_an_id_that_means_another_query_here_does_not_count(tmp_path: Path) -> None:
    gold = write_lines(tmp_path / "g.jsonl", gold_line("s1", "something else entirely"))
    assert GoldTexts().nuggets(about(tmp_path, gold), "s1", "when does it leave") == {}


def test_a_file_with_another_digest_is_not_shown(tmp_path: Path) -> None:
    gold = write_lines(tmp_path / "g.jsonl", gold_line())
    of = about(tmp_path, gold)
    assert GoldTexts().nuggets(of, "s1", "")
    write_lines(gold, gold_line(), gold_line("more"))
    assert GoldTexts().nuggets(of, "s1", "") == {}
    texts = GoldTexts()
    assert texts.nuggets(about(tmp_path / "b", gold, digest="d" * 64), "s1", "") == {}
    assert texts.nuggets(about(tmp_path / "c", gold), "s1", "")  # another run, whose gold it is


def test_gold_is_found_beside_the_queries_and_in_the_command(tmp_path: Path) -> None:
    gold = write_lines(tmp_path / "gold.jsonl", gold_line())
    assert GoldTexts().nuggets(about(tmp_path, gold, said={"gold": None}), "s1", "")
    elsewhere = write_lines(tmp_path / "elsewhere.jsonl", gold_line(None))
    of = about(tmp_path / "b", elsewhere, said={"gold": None, "path": None})
    assert GoldTexts().nuggets(of, "s1", "when does it leave") == {}
    run = tmp_path / "b" / "made-orig"
    manifest = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(
        json.dumps({**manifest, "command": f"cts judge --gold {elsewhere} --out x"})
    )
    told = viewed_manifest(run)
    assert told is not None
    assert GoldTexts().nuggets(told, "s1", "when does it leave")


def test_nuggets_in_a_table_of_queries_are_read_too(tmp_path: Path) -> None:
    table = tmp_path / "queries.csv"
    gold = json.dumps({"nuggets": NUGGETS}).replace('"', '""')
    table.write_text(f'id,fused_query,blurred_query,gold\ns1,"when, then",q,"{gold}"\n')
    assert GoldTexts().nuggets(about(tmp_path, table), "s1", "when, then")["N1"].text == "At nine."


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe\x00", b'{"id": "s1"}\n', b'{"id":"s1","gold":{"nuggets":3}}\n', b"[]\n"]
)
def test_a_file_that_is_no_gold_gives_nothing(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "g.jsonl"
    file.write_bytes(content)
    assert GoldTexts().nuggets(about(tmp_path, file), "s1", "q") == {}

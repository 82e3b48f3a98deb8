"""`cts corpus show`, `search` and `build`."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typed_commands import cts_in

from cts_async.cli.corpus import build, search, show
from cts_async.errors import InputError, UsageError

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    texts = ["red fox", "blue whale", "red red wine"]
    rows = [{"id": f"d{n}", "url": f"u{n}", "title": f"T{n}", "text": text} for n, text in enumerate(texts)]
    rows[1]["title"] = "\x1b[31m[bold]T1"
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "docs.jsonl"


def facts(printed: str) -> dict[str, Any]:
    return {row["fact"]: row["value"] for row in json.loads(printed)["facts"]}


def test_search_prints_no_control_characters(docs: Path) -> None:
    done = cts_in(docs.parent, "corpus", "search", docs.name, "whales")
    assert (done.returncode, done.stderr) == (0, "")
    assert "�[31m[bold]T1" in done.stdout


def test_index_is_stored_once_and_found_again(
    docs: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The texts have the words red, fox, blue, whale and wine, the titles t0, 31m, bold, t1 and t2."""
    build(docs, as_json=True)
    first = facts(capsys.readouterr().out)
    assert (first["documents"], first["different words"], first["found ready"]) == (3, 10, False)
    assert any(Path(first["kept in"]).iterdir())
    build(docs, as_json=True)
    assert facts(capsys.readouterr().out)["found ready"]
    # A cache that cannot be written is noted.
    monkeypatch.setenv("XDG_CACHE_HOME", str(docs))
    build(docs, as_json=True)
    printed = capsys.readouterr().out
    assert facts(printed)["kept in"] is None
    assert "XDG_CACHE_HOME" in json.loads(printed)["notes"][0]


def test_show_prints_facts_and_first_documents(docs: Path, capsys: Capture) -> None:
    show(docs, 2, as_json=True)
    printed = capsys.readouterr().out
    assert facts(printed)["characters a document"] == pytest.approx((7 + 10 + 12) / 3)
    assert [row["id"] for row in json.loads(printed)["documents"]] == ["d0", "d1"]


@pytest.mark.parametrize(("model", "expected"), [("bm25", ["d2", "d0"]), ("ql", ["d2", "d0", "d1"])])
def test_both_models_rank_documents(docs: Path, capsys: Capture, model: str, expected: list[str]) -> None:
    search(docs, "red", 10, model, as_json=True)
    assert [row["id"] for row in json.loads(capsys.readouterr().out)["found"]] == expected
    search(docs, "zebra")
    assert "no results" in capsys.readouterr().out


def test_unknown_model_and_bad_line_are_refused(docs: Path) -> None:
    with pytest.raises(UsageError, match="--model tfidf: must be one of bm25, ql"):
        search(docs, "red", 10, "tfidf")
    with docs.open("a") as file:
        file.write("{oops\n")
    with pytest.raises(InputError, match=r"docs\.jsonl:4: not JSON"):
        build(docs)


@pytest.mark.skipif(find_spec("transformers") is not None, reason="transformers is here")
def test_reranking_without_transformers_names_what_to_install(docs: Path) -> None:
    with pytest.raises(UsageError, match="pip install"):
        search(docs, "red", rerank="some/model")

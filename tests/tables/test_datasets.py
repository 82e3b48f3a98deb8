"""Contents of corpora."""

from __future__ import annotations

from pathlib import Path

import pytest

from cts_async.errors import InputError
from cts_async.tables.datasets import corpus_contents

ROW = '{"id": "%s", "url": "https://x.example/%s", "title": "t", "text": "%s"}\n'


def corpus(tmp_path: Path, content: str) -> Path:
    path = tmp_path / "corpus.jsonl"
    path.write_text(content)
    return path


def test_corpus_documents_are_counted(tmp_path: Path) -> None:
    found = corpus_contents(corpus(tmp_path, ROW % (1, 1, "abc") + "\n" + ROW % (2, 2, ""))).as_json()
    assert (found["documents"], found["empty"], found["text_chars"]["mean"]) == (2, 1, 1.5)


def test_invalid_document_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        corpus_contents(corpus(tmp_path, ROW % (1, 1, "a") + ROW % (1, 2, "b")))
    assert (caught.value.line, caught.value.field) == (2, "id")
    with pytest.raises(InputError, match="no such file"):
        corpus_contents(tmp_path / "none.jsonl")

"""Contents of corpora."""

from __future__ import annotations

from pathlib import Path

import pytest

from cts_async.errors import InputError
from cts_async.report.datasets import corpus_contents

ROW = '{"id": "%s", "url": "https://x.example/%s", "title": "t", "text": "%s"}\n'


def corpus(tmp_path: Path, content: str | bytes) -> Path:
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_corpus_documents_are_counted(tmp_path: Path) -> None:
    found = corpus_contents(corpus(tmp_path, ROW % (1, 1, "abc") + "\n" + ROW % (2, 2, ""))).as_json()
    assert (found["documents"], found["empty"], found["text_chars"]["mean"]) == (2, 1, 1.5)


@pytest.mark.parametrize(
    ("content", "line", "field"),
    [
        (ROW % (1, 1, "a") + ROW % (1, 2, "b"), 2, "id"),
        (ROW % (1, 1, "a") + ROW % (2, 1, "b"), 2, "url"),
        (ROW % (1, 1, "a") + '{"id": "2"}\n', 2, "url"),
        (ROW % (1, 1, "a") + "{\n", 2, None),
        (b'{"id": "\xff"}\n', 1, None),
        (ROW % (1, 1, "a" * 2000), 1, None),
        ("", None, None),
    ],
)
def test_invalid_document_is_reported(
    tmp_path: Path, content: str | bytes, line: int | None, field: str | None
) -> None:
    with pytest.raises(InputError) as caught:
        corpus_contents(corpus(tmp_path, content), max_line_bytes=1000)
    assert (caught.value.line, caught.value.field) == (line, field)

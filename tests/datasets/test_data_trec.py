"""Judgements and rankings in TREC's formats: what is read and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cts_async.datasets.candidates import read_facet_qrels, read_ranking
from cts_async.errors import InputError

Read = Callable[..., Any]

QREL, RUN = "1 0 d1 2\n", "1 Q0 d1 1 2.5 tag\n"
READERS = [(read_facet_qrels, QREL), (read_ranking, RUN)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file.txt"


def refusal(read: Read, path: Path, content: bytes | str) -> str:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError) as caught:
        read(path)
    return str(caught.value).removeprefix(str(path))


def test_qrels_are_read_by_topic_and_facet(file: Path) -> None:
    file.write_text("1 0 d1 2\n\n1\t0\td2   -2\r\n20 0 d1 +1")
    assert read_facet_qrels(file) == {"1": {"d1": 2, "d2": -2}, "20": {"d1": 1}}
    file.write_text("1 2 d1 1\n1 3 d1 0\n12-3 0 d1 4\n")
    assert read_facet_qrels(file) == {"1-2": {"d1": 1}, "1-3": {"d1": 0}, "12-3": {"d1": 4}}


def test_run_is_sorted_by_score(file: Path) -> None:
    file.write_text("1 Q0 d1 0 -3e-1 t\n1 Q0 d2 7 2 t\n2 Q0 d1 1 .5 t\n1 Q0 d3 x 2.0 t\n")
    assert read_ranking(file) == {"1": [("d2", 2.0), ("d3", 2.0), ("d1", -0.3)], "2": [("d1", 0.5)]}


@pytest.mark.parametrize(
    ("read", "content", "problem"),
    [
        (read_facet_qrels, QREL + "1 0 d2\n", ":2: has 3 fields instead of 4: topic 0 document grade"),
        (read_facet_qrels, QREL + "x\n", ":2: has 1 field instead of 4: topic 0 document grade"),
        (read_facet_qrels, QREL + "1 0 d2 x\n", ":2: field 'grade': must be an integer, is 'x'"),
        (read_facet_qrels, QREL + "1 0 d2 1.0\n", ":2: field 'grade': must be an integer, is '1.0'"),
        (read_facet_qrels, QREL + "1 0 d2 5\n", ":2: field 'grade': must be from -2 to 4, is 5"),
        (read_facet_qrels, QREL + QREL, ":2: field 'document': 'd1' is repeated in topic '1'"),
        (read_facet_qrels, "1 1 d 1\n1 1 d 0\n", ":2: field 'document': 'd' is repeated in topic '1-1'"),
        (read_ranking, RUN + QREL, ":2: has 4 fields instead of 6: topic Q0 document rank score tag"),
        (read_ranking, RUN + "1 Q0 d2 1 high t\n", ":2: field 'score': must be a finite number, is 'high'"),
        (read_ranking, RUN + "1 Q0 d2 1 nan t\n", ":2: field 'score': must be a finite number, is 'nan'"),
        (read_ranking, RUN + "1 Q0 d2 1 1e999 t\n", ":2: field 'score': must be a finite number, is '1e999'"),
        (read_ranking, RUN + "1 Q0 d2 1 1_0 t\n", ":2: field 'score': must be a finite number, is '1_0'"),
        (read_ranking, RUN + RUN, ":2: field 'document': 'd1' is repeated in topic '1'"),
        (read_facet_qrels, "\n", ": contains no judgements; lines must be: topic 0 document grade"),
        (read_ranking, "", ": contains no ranking; lines must be: topic Q0 document rank score tag"),
    ],
)
def test_invalid_line_is_located(file: Path, read: Read, content: str, problem: str) -> None:
    assert refusal(read, file, content) == problem


@pytest.mark.parametrize(("read", "good"), READERS)
def test_other_encoding_is_reported_with_its_line(file: Path, read: Read, good: str) -> None:
    assert ":2: is not UTF-8: byte 0xe9" in refusal(read, file, good.encode() + "é".encode("latin-1"))
    assert ":1: is UTF-16" in refusal(read, file, good.encode("utf-16"))


@pytest.mark.parametrize(("read", "good"), READERS)
def test_endless_line_is_not_held_in_memory(file: Path, read: Read, good: str) -> None:
    assert refusal(read, file, good + "x" * 70_000) == ":2: is longer than 65536 bytes"
    with file.open("wb") as sparse:
        sparse.truncate(1 << 30)
    with pytest.raises(InputError, match=":1: is longer than 65536 bytes"):
        read(file)

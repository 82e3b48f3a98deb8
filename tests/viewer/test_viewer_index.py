"""Laws of the indices: read in pieces or at once, whole or while it grows, a file has the same lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import pread
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cts_async.runs.index import BLOCK, Tail, id_hash, line_at, opened
from cts_async.runs.journal import JournalIndex
from cts_async.runs.results import ResultsIndex, latest_results

ids = st.sampled_from(["a", "b", "ä汉", 'q"\\', "x\x00y", ""])
damage = st.sampled_from([b"", b"{", b'{"no": 3}', b"\xff\xfe", b'{"id":"a"', b"null", b"\r\r"])


@st.composite
def result_lines(draw: st.DrawFn) -> bytes:
    if draw(st.integers(0, 4)) == 0:
        return draw(damage)
    line: dict[str, Any] = {"id": draw(ids), "answers": draw(st.lists(st.sampled_from(["unknown", "yes"])))}
    if draw(st.booleans()):
        line["error"] = {"kind": "timeout"}
    line["restore_score_100"] = draw(st.sampled_from([None, 0.0, 50, 100.0]))
    return json.dumps(line, ensure_ascii=draw(st.booleans())).encode()


@st.composite
def step_lines(draw: st.DrawFn) -> bytes:
    if draw(st.integers(0, 4)) == 0:
        return draw(damage)
    step = {"key": "0" * 32, "ok": draw(st.booleans()), "instance": draw(ids), "step": "clarify"}
    separators = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    return json.dumps(step, ensure_ascii=False, separators=separators).encode()


def written_in_pieces(path: Path, data: bytes, cuts: Sequence[int]) -> Any:
    """Yields whenever the file has grown by a piece."""
    path.write_bytes(b"")
    start = 0
    for cut in [*sorted(cut % (len(data) + 1) for cut in cuts), len(data)]:
        with path.open("ab") as file:
            file.write(data[start:cut])
        start = cut
        yield


@given(st.lists(result_lines(), max_size=20), st.lists(st.integers(0, 4000), max_size=5), st.integers(1, 200))
def test_results_read_as_they_grow_are_those_of_the_whole_file(
    lines: list[bytes], cuts: list[int], block: int
) -> None:
    data = b"".join(line + b"\n" for line in lines)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "results.jsonl"
        growing = ResultsIndex(path, block=block)
        for _ in written_in_pieces(path, data, cuts):
            while growing.advance():
                pass
        found = growing.lines()
        latest = latest_results(path)
        assert growing.tail.behind == 0
    assert found.ids.tolist() == [id_hash(id) for id in latest]
    assert [
        json.loads(data[at : at + n]) for at, n in zip(found.offsets, found.lengths, strict=True)
    ] == list(latest.values())
    assert found.failed.tolist() == ["error" in line for line in latest.values()]
    assert found.asked.tolist() == [len(line["answers"]) for line in latest.values()]
    assert found.unknown.tolist() == [line["answers"].count("unknown") for line in latest.values()]
    scores = [None if "error" in line else line["restore_score_100"] for line in latest.values()]
    assert [None if score != score else score for score in found.scores.tolist()] == scores


@given(st.lists(step_lines(), max_size=20), st.lists(st.integers(0, 4000), max_size=5), st.integers(1, 200))
def test_steps_found_as_a_journal_grows_are_those_of_the_whole_file(
    lines: list[bytes], cuts: list[int], block: int
) -> None:
    data = b"".join(line + b"\n" for line in lines)
    expected: dict[str, list[int]] = {}
    offset = 0
    for line in lines:
        if line.startswith(b'{"key"'):
            expected.setdefault(json.loads(line)["instance"], []).append(offset)
        offset += len(line) + 1
    with TemporaryDirectory() as folder:
        path = Path(folder) / "steps.jsonl"
        growing = JournalIndex(path, block=block)
        for _ in written_in_pieces(path, data, cuts):
            while growing.advance():
                pass
        assert {id: growing.offsets(id).tolist() for id in expected} == expected
        assert growing.n_steps == sum(map(len, expected.values()))


def test_a_torn_last_line_is_waited_for_and_not_looked_at_again_and_again(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\ntw")
    tail = Tail(path)
    assert not tail.renewed()
    assert (tail.next(), tail.next(), tail.behind) == ((0, b"one\n"), None, 0)
    path.write_bytes(b"one\ntwo\n")
    assert (tail.behind, tail.renewed(), tail.next()) == (4, False, (4, b"two\n"))


def test_a_file_that_shrank_or_has_other_lines_is_another_one(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\ntwo\n")
    tail = Tail(path)
    tail.renewed()
    tail.next()
    path.write_bytes(b"one\n")
    assert (tail.renewed(), tail.next()) == (True, (0, b"one\n"))
    path.write_bytes(b"six\nseven\n")
    assert (tail.renewed(), tail.next()) == (True, (0, b"six\nseven\n"))
    path.unlink()
    assert (tail.renewed(), tail.next(), tail.behind) == (True, None, 0)


def test_a_file_that_cannot_be_read_is_not_tried_again_and_again(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"one\n")
    tail = Tail(tmp_path / "real")
    with patch("cts_async.runs.index.opened", side_effect=PermissionError):
        tail.renewed()
        assert (tail.next(), tail.behind) == (None, 0)
    assert (tail.renewed(), tail.next()) == (False, (0, b"one\n"))


def test_lines_over_the_limit_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    line = '{"id": "a", "answer": "' + "x" * 5_000 + '"}\n'
    path.write_text(line + '{"id": "b"}\n' + line)
    with (
        patch("cts_async.runs.index.MAX_LINE", 1_000),
        patch("cts_async.runs.index._PIECE", 100),
        opened(path) as fd,
    ):
        index = ResultsIndex(path, block=100)
        while index.advance():
            pass
        assert index.lines().offsets.tolist() == [len(line)]
        assert index.tail.behind == 0
        assert line_at(fd, 0) is None
        assert line_at(fd, len(line)) == b'{"id": "b"}'


SPARSE = 200 << 20


@contextmanager
def counted_reads() -> Iterator[list[int]]:
    """The sizes of what the index reads."""
    read: list[int] = []

    def counted(fd: int, size: int, offset: int) -> bytes:
        data = pread(fd, size, offset)
        read.append(len(data))
        return data

    with patch("cts_async.runs.index.os.pread", counted):
        yield read


@pytest.mark.parametrize("make", [JournalIndex, ResultsIndex])
@pytest.mark.parametrize("ending", [b"", b"\n", b'\n{"id": "a", "instance": "a"}\n'])
def test_a_file_of_nothing_but_nul_bytes_is_read_once(tmp_path: Path, make: Any, ending: bytes) -> None:
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.truncate(SPARSE)
        file.seek(SPARSE)
        file.write(ending)
    index = make(path)
    with counted_reads() as read:
        calls = sum(1 for _ in iter(index.advance, False))
    assert sum(read) <= SPARSE + calls * 64 + BLOCK
    assert calls <= SPARSE / BLOCK + 2
    n = len(index.lines()) if isinstance(index, ResultsIndex) else index.n_steps
    assert n == (len(ending) > 1)

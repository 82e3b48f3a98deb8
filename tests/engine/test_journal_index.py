"""The byte scan finds what a parser finds, and the index gives its offsets."""

from __future__ import annotations

import itertools
import os
import tempfile
import tracemalloc
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cts_async.engine import journal, journal_index
from cts_async.engine.journal import Journal, placed_records
from cts_async.engine.journal_index import (
    MAX_LINE,
    NO_KEYS,
    KeyLayers,
    finished_key,
    key_index,
    key_of,
    scan_journal,
    scan_keys,
)
from cts_async.engine.step import step_key

SHM = "/dev/shm" if Path("/dev/shm").is_dir() else None


def line(n: int, *, ok: bool = True, text: str = "an answer, 答案", key: str | None = None) -> bytes:
    record = {"key": key or step_key(n), "ok": ok, "instance": f"q{n}", "response": {"text": text, "n": n}}
    return orjson.dumps(record) + b"\n"


def places(path: Path, key: str) -> list[int]:
    return list(scan_journal(path).index.lookup(key))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "steps.jsonl"


def test_finished_steps_are_found_where_they_begin_the_latest_first(path: Path) -> None:
    path.write_bytes(b"")
    found = scan_journal(path)
    assert (found.index, found.records, found.damaged_lines) == (NO_KEYS, 0, [])
    lines = [line(1, text="old"), line(2), line(1, text="new")]
    path.write_bytes(b"".join(lines))
    assert places(path, step_key(1)) == [len(lines[0] + lines[1]), 0]
    assert places(path, step_key(2)) == [len(lines[0])]
    assert places(path, step_key(3)) == []


def test_keys_that_share_their_first_64_bits_are_distinguished(path: Path) -> None:
    key, twin = "a" * 32, "a" * 16 + "b" * 16
    path.write_bytes(line(1, key=key) + line(2, key=twin) + line(3))
    assert len(places(path, key)) == 2
    journal = Journal(path)
    for wanted, n in ((key, 1), (twin, 2)):
        record = journal.find(wanted)
        assert record is not None
        assert record["response"]["n"] == n
    assert journal.find("a" * 31 + "c") is None
    journal.close()


def test_a_later_record_that_cannot_be_read_does_not_hide_an_earlier_one(path: Path) -> None:
    # It begins and ends as it should; only reading it finds out.
    broken = line(1, text="new").replace(b'"text":"', b'"text":""')
    path.write_bytes(line(1, text="old") + broken)
    journal = Journal(path)
    record = journal.find(step_key(1))
    journal.close()
    assert record is not None
    assert record["response"]["text"] == "old"


@pytest.mark.parametrize(
    "same",
    [
        line(1).replace(b'"ok":true', b'"ok": true'),
        line(1).replace(b'"ok":true,', b'"ok":true , '),
        line(1).replace(step_key(1).encode(), step_key(1).upper().encode()),
        line(1)[:-1] + b" \n",
        b" " + line(1),
        line(1)[:-1] + b"\r\n",
        b'{"ok":true,' + line(1)[1:].replace(b'"ok":true,', b""),
        b'{"key":"' + step_key(1).encode() + b'","ok":true}\n',
    ],
)
def test_a_whole_record_in_another_form_is_parsed(path: Path, same: bytes) -> None:
    path.write_bytes(line(0) + same + line(2))
    found = scan_journal(path)
    assert (found.records, found.damaged_lines) == (3, [])
    assert list(found.index.lookup(step_key(1))) == [len(line(0))]


@pytest.mark.parametrize(
    "damage",
    [
        line(1).replace(b"an answer", b"an\0answer"),
        line(1).replace(b"an answer", b"an\x1fanswer"),
        line(1).replace("答".encode(), "答".encode()[:2]),
        line(1).replace(b"an answer", b"\xff"),
        line(1).rstrip(b"}\n") + b"\n",
        line(1)[:60] + b"\n",
        line(1)[:8] + b"\n",
        *[text + b"\n" for text in (b"{", b"", b"[]", b'"key"', b"17", b"[" * 5000, b'{"ok":true}')],
        *[b'{"key":%b,"ok":true,"response":1}\n' % key for key in (b'"zz"', b"17", b'"%b"' % (b"z" * 32))],
        b"\0" * 4096 + b"\n",
        b"\0" * 4096 + line(1),
        line(1)[:-1] + b"garbage\n",
        line(1).replace(b'{"key":"', b'{"kex":"'),
        line(1).replace(step_key(1)[:1].encode(), b"g", 1),
        line(1).replace(
            step_key(1)[:4].encode(), step_key(1)[:2].encode() + b"  " + step_key(1)[2:4].encode()
        ),
    ],
)
def test_damage_is_named_by_its_line_and_its_step_is_absent(path: Path, damage: bytes) -> None:
    path.write_bytes(line(0) + damage + line(2))
    found = scan_journal(path)
    assert (found.records, found.damaged_lines) == (2, [2])
    assert list(found.index.lookup(step_key(1))) == []
    assert list(found.index.lookup(step_key(2))) == [len(line(0) + damage)]
    assert path.read_bytes() == line(0) + damage + line(2), "damage is left where it is"


# --- blocks


SHORT = st.sampled_from([b"\n", b"{}\n", b"\0\n", b"\xe7\n", line(7)[:50] + b"\n", line(8, ok=False)])
ANY_LINE = st.builds(line, st.integers(0, 5), ok=st.booleans(), text=st.text(max_size=30)) | SHORT


@settings(max_examples=2 * settings.default.max_examples)
@given(st.lists(ANY_LINE, max_size=12), st.integers(1, 400))
def test_the_size_of_a_block_changes_nothing(lines: list[bytes], block: int) -> None:
    """Against parsing line after line, for blocks shorter and longer than lines."""
    with tempfile.TemporaryDirectory(dir=SHM) as directory, pytest.MonkeyPatch.context() as patch:
        path = Path(directory, "steps.jsonl")
        path.write_bytes(b"".join(lines))
        patch.setattr(journal_index, "_BLOCK", block)
        found = scan_journal(path)
        keys = [journal_index.finished_key(one) for one in lines]
        assert found.damaged_lines == [n for n, key in enumerate(keys, 1) if key is None]
        assert found.records == sum(key is not None for key in keys)
        for key in {key for key in keys if key}:
            begins = [len(b"".join(lines[:n])) for n, other in enumerate(keys) if other == key]
            assert list(found.index.lookup(key)) == begins[::-1]


@given(st.lists(ANY_LINE, max_size=4), st.integers(1, 100))
def test_a_line_over_the_limit_is_damage_whatever_it_ends_in(lines: list[bytes], block: int) -> None:
    limit = max(block, len(line(0)) + 20)
    hidden = b"x" * (limit + block) + line(9)
    with tempfile.TemporaryDirectory(dir=SHM) as directory, pytest.MonkeyPatch.context() as patch:
        path = Path(directory, "steps.jsonl")
        path.write_bytes(b"".join([*lines, hidden, line(3), hidden]))
        patch.setattr(journal_index, "_BLOCK", block)
        patch.setattr(journal_index, "MAX_LINE", limit)
        found = scan_journal(path)
        assert list(found.index.lookup(step_key(9))) == []
        assert next(iter(found.index.lookup(step_key(3)))) == len(b"".join([*lines, hidden]))
        assert {len(lines) + 1, len(lines) + 3} <= set(found.damaged_lines)
        patch.setattr(journal, "MAX_LINE", limit)
        assert [one.get("instance") for _, one in placed_records(path)].count("q9") == 0
        assert dict(placed_records(path))[len(b"".join([*lines, hidden]))]["instance"] == "q3"


def test_a_sparse_file_of_nul_bytes_costs_no_memory(path: Path) -> None:
    """It took eight bytes for each NUL."""
    with path.open("wb") as file:
        file.write(line(0))
        file.truncate(128 << 20)
        file.seek(0, 2)
        file.write(b"\n" + line(1))
    tracemalloc.start()
    try:
        found = scan_journal(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (found.records, found.damaged_lines) == (2, [2])
    assert peak < 2 * MAX_LINE


# --- parts


@pytest.mark.parametrize(
    "one",
    [
        line(1),
        line(1, ok=False),
        line(1, key="K" * 32),
        line(1)[:-1],
        line(1)[:-3] + b"\n",
        b'{"ok":true,"key":"' + b"0" * 32 + b'"}\n',
        b"\n",
    ],
)
def test_a_single_lines_key_is_the_one_that_parsing_finds(one: bytes) -> None:
    assert key_of(one) == finished_key(one)


@given(st.lists(st.lists(st.integers(0, 20), max_size=8, unique=True), max_size=12))
def test_layers_find_what_one_index_finds_and_are_few(parts: list[list[int]]) -> None:
    layers, offset = KeyLayers(), 0
    expected: dict[int, list[int]] = {}
    for part in parts:
        places = {}
        for n in part:
            offset += 1
            places[step_key(n)] = offset
            expected.setdefault(n, []).insert(0, offset)
        layers.add(key_index(places) if places else NO_KEYS)
    assert len(layers) == sum(map(len, parts))
    for n in range(21):
        assert layers.lookup(step_key(n)) == expected.get(n, [])
    sizes = [len(layer) for layer in layers._layers]
    assert all(2 * later <= earlier for earlier, later in itertools.pairwise(sizes))


def keys_of(path: Path) -> journal_index.Scan:
    fd = os.open(path, os.O_RDONLY)
    try:
        return scan_keys(fd)
    finally:
        os.close(fd)


@pytest.mark.parametrize("block", [256, 700, 1 << 18])
def test_quick_scan_of_another_runs_journal_finds_the_same(
    path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(journal_index, "_LARGE_BLOCK", block)
    long = line(2, text="t" * 3 * block if block < 1000 else "t")
    edited = line(5).replace(b'"ok":true', b'"ok": true')
    bad_key = line(6).replace(b'{"key":"', b'{"key":"zz')
    lines = [
        line(1),
        long,
        line(3, ok=False),
        b"garbage\n",
        b"\n",
        edited,
        bad_key,
        line(1, text="again"),
        line(4),
    ]
    path.write_bytes(b"".join(lines))
    quick, full = keys_of(path), scan_journal(path)
    assert list(quick.index.fingerprints) == list(full.index.fingerprints)
    assert list(quick.index.offsets) == list(full.index.offsets)
    assert (quick.records, quick.damaged_lines) == (full.records, full.damaged_lines) == (6, [4, 5, 7])
    # A line that is being written, short or longer than a block, is not there yet.
    for torn in (line(7)[:-1], line(7, text="t" * 3 * block)[:-1]):
        path.write_bytes(b"".join(lines) + torn)
        assert list(keys_of(path).index.offsets) == list(full.index.offsets)
        assert keys_of(path).damaged_lines == full.damaged_lines


def test_quick_scan_holds_no_line_that_is_longer_than_any_step(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_index, "_LARGE_BLOCK", 256)
    monkeypatch.setattr(journal_index, "MAX_LINE", 1000)
    lines = [line(1), line(2, text="t" * 2000), line(3)]
    path.write_bytes(b"".join(lines))
    scan = keys_of(path)
    assert scan.damaged_lines == [2]
    assert sorted(scan.index.offsets) == [0, len(lines[0] + lines[1])]


def test_quick_scan_of_nothing_is_empty(path: Path) -> None:
    path.write_bytes(b"")
    assert len(keys_of(path).index) == 0

"""What a worker's machine has to have: keys that are looked for, files that are found, or sent once."""

from __future__ import annotations

import os
import pickle
from hashlib import sha256
from pathlib import Path

import pytest

from cts_async.cluster import needs
from cts_async.cluster.needs import Arrival, NeededFile, Needs
from cts_async.errors import UsageError

CONTENT = b'{"id": "d1"}\n' * 1000


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NeededFile:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "docs.jsonl"
    path.write_bytes(CONTENT)
    return NeededFile.of(path, sha256(CONTENT).hexdigest())


def arrived(file: NeededFile, parts: list[bytes]) -> Path:
    """Where a file is kept that came in these parts."""
    arrival = Arrival(file)
    for part in parts:
        arrival.add(part)
    arrival.end()
    return file.kept_at()


def test_a_file_at_the_same_path_is_the_same_only_with_the_same_content(corpus: NeededFile) -> None:
    path = Path(corpus.path)
    assert corpus.here() == path
    os.utime(path, ns=(1, 1))
    assert corpus.here() == path
    path.write_bytes(CONTENT.replace(b"d1", b"d2"))
    assert corpus.here() is None
    assert Needs.of([], {}).lacking() == ()
    assert Needs((), (corpus,)).lacking() == (corpus,)


def test_a_file_that_is_sent_is_found_from_then_on(
    corpus: NeededFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(needs, "CHUNK", 5000)
    parts = list(pickle.loads(pickle.dumps(corpus)).parts())
    assert [len(part) for part in parts] == [5000, 5000, 3000]
    Path(corpus.path).unlink()
    assert Needs((), (corpus,)).lacking() == (corpus,)
    kept = arrived(corpus, parts)
    assert kept.read_bytes() == CONTENT
    assert kept.name == "docs.jsonl"
    assert Needs((), (corpus,)).place_of(Path(corpus.path)) == kept
    assert list(kept.parent.iterdir()) == [kept]


@pytest.mark.parametrize("parts", [[], [b"something else"], [CONTENT, b"more"], [CONTENT[:-1]]])
def test_what_is_not_the_file_is_not_kept(corpus: NeededFile, parts: list[bytes]) -> None:
    Path(corpus.path).unlink()
    with pytest.raises(UsageError, match=r"docs\.jsonl has changed since this run looked at it$"):
        arrived(corpus, parts)
    assert corpus.here() is None
    assert list(corpus.kept_at().parent.iterdir()) == []


def test_an_empty_file_arrives_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "none.jsonl"
    path.touch()
    file = NeededFile.of(path, sha256(b"").hexdigest())
    assert arrived(file, list(file.parts())).read_bytes() == b""


def test_where_it_cannot_be_written_the_machine_is_named(
    corpus: NeededFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "taken").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "taken"))
    with pytest.raises(UsageError, match=r"cannot be written on \S+ \(Not a directory\)$"):
        Arrival(corpus)


def test_a_file_that_the_head_has_lost_is_named(corpus: NeededFile) -> None:
    Path(corpus.path).unlink()
    with pytest.raises(UsageError, match=r"docs\.jsonl: cannot be read \(No such file or directory\)$"):
        list(corpus.parts())
    with pytest.raises(UsageError, match=r"docs\.jsonl is not on \S+$"):
        Needs((), (corpus,)).place_of(Path(corpus.path))


def test_every_key_that_is_missing_is_named_at_once() -> None:
    asked = Needs.of(["A_KEY", "B_KEY", "A_KEY"])
    asked.check({"A_KEY": "x", "B_KEY": "y"})
    with pytest.raises(UsageError, match=r"^node \S+ has no A_KEY, B_KEY: start ray there with them in the"):
        asked.check({"A_KEY": " "})

"""`live.json`: its contents, its writer, and the scores it reads."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, cast

import orjson
import pytest
from made_live import cluster, lane, live, part, worker

from cts_async.engine.events import JobEnded, JobsFound
from cts_async.watch.live import LIVE, STALE_S, LiveFile, is_live, read_live, remove_live, write_live
from cts_async.watch.progress import LiveWriter, Progress, RunGroup, ScoreTail, writing_live


def contents(time: float, pid: int | None = None) -> LiveFile:
    return cast("LiveFile", {"pid": os.getpid() if pid is None else pid, "time": time, "n_done": 3})


@pytest.mark.parametrize(("now", "current"), [(100 + STALE_S, True), (101 + STALE_S, False), (0.0, False)])
def test_stale_live_json_is_ignored(tmp_path: Path, now: float, current: bool) -> None:
    write_live(tmp_path, contents(100.0))
    assert (read_live(tmp_path, lambda: now) is not None) is current
    remove_live(tmp_path)
    assert read_live(tmp_path, lambda: now) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("pid", [-1, 0, 2**40, 2**22 + 1])
def test_live_json_of_a_dead_process_is_ignored(tmp_path: Path, pid: int) -> None:
    write_live(tmp_path, contents(100.0, pid))
    assert read_live(tmp_path, lambda: 100.0) is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'{"pid": "x"}', b'{"pid": 1}', b"\xff"])
def test_broken_live_json_is_ignored(tmp_path: Path, content: bytes) -> None:
    (tmp_path / LIVE).write_bytes(content)
    assert read_live(tmp_path) is None


def test_name_that_is_not_utf_8_does_not_stop_the_writer(tmp_path: Path) -> None:
    write_live(tmp_path, live([part("r\udcff")], time=time.time()))
    assert [one["name"] for one in json.loads((tmp_path / LIVE).read_text())["parts"]] == ["r?"]


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    return one, other


def progress_of(*directories: Path) -> Progress:
    return Progress([RunGroup(one.name, 4, (one,), one / "results.jsonl") for one in directories])


def test_each_directory_gets_its_live_json_once_its_lock_is_held(runs: tuple[Path, Path]) -> None:
    one, other = runs
    (one / "results.jsonl").write_text('{"id":"a","restore_score_100":40.0}\n')
    progress = progress_of(one, other)
    writer = LiveWriter(progress)
    writer.tick()
    # Before its first event a directory may be another process's.
    assert (read_live(one), read_live(other)) == (None, None)
    progress(JobsFound("one", 3))
    progress(JobEnded("one", "q4", None))
    writer.tick()
    with (one / "results.jsonl").open("a") as file:
        file.write('{"id":"b","restore_score_100":60.0}\n')
    writer.tick()
    found = read_live(one)
    assert is_live(found)
    assert (found["n_done"], found["n_expected"], found["pid"]) == (4, 4, os.getpid())
    assert (found["n_scored"], found["mean"]) == (2, 50.0)  # a score of an earlier session, and a new one
    assert read_live(other) is None
    writer.end()
    assert [path.name for path in one.iterdir()] == ["results.jsonl"]


def test_removed_folder_is_not_created_again(runs: tuple[Path, Path]) -> None:
    one, _ = runs
    progress = progress_of(one)
    progress(JobsFound("one", 0))
    writer = LiveWriter(progress)
    writer.tick()
    (one / LIVE).unlink()
    one.rmdir()
    writer.tick()
    writer.end()
    assert not one.exists()


def test_full_disk_keeps_the_previous_live_json(
    runs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = runs
    write_live(one, live([part("one", 1)], time=1.0))
    before = (one / LIVE).read_bytes()

    def full(*places: object, **folders: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    progress = progress_of(one)
    progress(JobsFound("one", 0))
    LiveWriter(progress).tick()
    assert (one / LIVE).read_bytes() == before
    assert [path.name for path in one.iterdir()] == [LIVE]


def test_end_removes_a_killed_processs_file_but_not_the_next_ones(runs: tuple[Path, Path]) -> None:
    one, other = runs
    progress = progress_of(one, other)
    progress(JobsFound("one", 0))
    progress(JobsFound("other", 0))
    write_live(one, live([part("one")], time=1.0))
    write_live(other, live([part("other")], time=time.time(), pid=os.getppid()))
    LiveWriter(progress).end()
    assert not (one / LIVE).exists()
    assert (other / LIVE).exists()


def test_live_json_is_removed_when_the_command_is_interrupted(runs: tuple[Path, Path]) -> None:
    one, _ = runs
    progress = progress_of(one)
    progress(JobsFound("one", 0))
    with pytest.raises(KeyboardInterrupt), writing_live(progress):
        raise KeyboardInterrupt
    assert list(one.iterdir()) == []


def append(path: Path, *lines: dict[str, Any]) -> None:
    with path.open("ab") as file:
        file.write(b"".join(orjson.dumps(line) + b"\n" for line in lines))


def test_each_score_is_read_once_and_only_from_its_own_field(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    tail = ScoreTail(path)
    assert list(tail.read()) == []
    append(path, {"id": "a", "restore_score_100": 50.0}, {"id": "b", "error": {}})
    assert list(tail.read()) == [50.0]
    assert list(tail.read()) == []
    text = '"restore_score_100": 99, {"restore_score_100":99}'
    append(path, {"id": text, "answer": json.dumps({"x": text}), "restore_score_100": None})
    append(path, {"id": "d", "restore_score_100": 1e-7})
    with path.open("a") as file:
        file.write('{"restore_score_100":2')
    assert list(tail.read()) == [1e-7]
    with path.open("a") as file:
        file.write("5}\n")
    assert list(tail.read()) == [25.0]


def test_lines_across_blocks_are_found(tmp_path: Path) -> None:
    append(tmp_path / "r.jsonl", *({"id": str(n), "restore_score_100": float(n)} for n in range(20)))
    assert list(ScoreTail(tmp_path / "r.jsonl", block=7).read()) == [float(n) for n in range(20)]


LIVE_FILE = live([part("a", 1)], [lane("gpt")], **cluster([worker("w1")], 2))


def test_only_values_of_its_shape_are_live_files() -> None:
    for fits in ({}, {"further": object()}, {"mean": 1}, {"max_usd": 2.0}):
        assert is_live({**LIVE_FILE, **fits})
        assert is_live({name: of for name, of in LIVE_FILE.items() if name != "workers"} | fits)
    unfit: list[dict[str, Any]] = [{"n_done": True}, {"n_done": 1.5}, {"n_done": "1"}, {"mean": "x"}]
    unfit += [{"lanes": {}}, {"parts": [{}]}, {"workers": [{}]}, {"workers": None}, {"note": None}]
    assert not any(is_live({**LIVE_FILE, **changed}) for changed in unfit)
    assert not is_live([])

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
from cts_async.report.live import LIVE, STALE_S, Live, LiveFile, has_shape, read_live, remove_live, write_live
from cts_async.report.progress import LiveWriter, Progress, RunGroup, ScoreTail, writing_live


def said(time: float, pid: int | None = None) -> Live:
    return cast("Live", {"pid": os.getpid() if pid is None else pid, "time": time, "n_done": 3})


def test_written_live_json_is_read(tmp_path: Path) -> None:
    write_live(tmp_path, said(100.0))
    found = read_live(tmp_path, lambda: 101.0)
    assert found is not None
    assert found["n_done"] == 3
    remove_live(tmp_path)
    assert read_live(tmp_path, lambda: 101.0) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("now", "going"), [(100 + STALE_S, True), (101 + STALE_S, False), (0.0, False)])
def test_stale_live_json_is_ignored(tmp_path: Path, now: float, going: bool) -> None:
    write_live(tmp_path, said(100.0))
    assert (read_live(tmp_path, lambda: now) is not None) is going


@pytest.mark.parametrize("pid", [-1, 0, 2**40, 2**22 + 1])
def test_live_json_of_a_dead_process_is_ignored(tmp_path: Path, pid: int) -> None:
    write_live(tmp_path, said(100.0, pid))
    assert read_live(tmp_path, lambda: 100.0) is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'{"pid": "x"}', b'{"pid": 1}', b"\xff"])
def test_broken_live_json_is_ignored(tmp_path: Path, content: bytes) -> None:
    (tmp_path / LIVE).write_bytes(content)
    assert read_live(tmp_path) is None


def doing(*directories: Path) -> Progress:
    return Progress([RunGroup(one.name, 4, (one,), one / "results.jsonl") for one in directories])


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    return one, other


def test_each_directory_gets_its_live_json_once_its_lock_is_held(
    runs: tuple[Path, Path],
) -> None:
    one, other = runs
    told = doing(one, other)
    writer = LiveWriter(told)
    writer.tick()
    # Until it was heard of, the directory may be another process's.
    assert (read_live(one), read_live(other)) == (None, None)
    told(JobsFound("one", 3))
    told(JobEnded("one", "q4", None, None))
    writer.tick()
    said = read_live(one)
    assert said is not None
    assert (said["n_done"], said["n_expected"], said["pid"]) == (4, 4, os.getpid())
    assert has_shape(orjson.loads((one / LIVE).read_bytes()), LiveFile)
    assert read_live(other) is None
    writer.end()
    assert list(one.iterdir()) == []


def test_scores_of_the_results_file_make_the_mean(runs: tuple[Path, Path]) -> None:
    one, _ = runs
    (one / "results.jsonl").write_text('{"id":"a","restore_score_100":40.0}\n')
    told = doing(one)
    told(JobsFound("one", 1))
    writer = LiveWriter(told)
    writer.tick()
    with (one / "results.jsonl").open("a") as file:
        file.write('{"id":"b","restore_score_100":60.0}\n')
    writer.tick()
    said = read_live(one)
    assert said is not None
    assert (said["n_scored"], said["mean"]) == (2, 50.0)


def test_removed_folder_is_not_created_again(runs: tuple[Path, Path]) -> None:
    one, _ = runs
    told = doing(one)
    told(JobsFound("one", 0))
    writer = LiveWriter(told)
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
    told = doing(one)
    told(JobsFound("one", 0))
    LiveWriter(told).tick()
    assert (one / LIVE).read_bytes() == before
    assert [path.name for path in one.iterdir()] == [LIVE]


def test_name_that_is_not_utf_8_does_not_stop_the_writer(runs: tuple[Path, Path]) -> None:
    one, _ = runs
    write_live(one, live([part("r\udcff")], time=time.time()))
    said = read_live(one)
    assert said is not None
    assert [one["name"] for one in said["parts"]] == ["r?"]


def test_end_removes_a_killed_processs_file_but_not_the_next_ones(runs: tuple[Path, Path]) -> None:
    one, other = runs
    told = doing(one, other)
    told(JobsFound("one", 0))
    told(JobsFound("other", 0))
    write_live(one, live([part("one")], time=1.0))
    write_live(other, live([part("other")], time=time.time(), pid=os.getppid()))
    LiveWriter(told).end()
    assert not (one / LIVE).exists()
    assert (other / LIVE).exists()


def test_live_json_is_removed_when_the_command_is_interrupted(runs: tuple[Path, Path]) -> None:
    one, _ = runs
    told = doing(one)
    told(JobsFound("one", 0))
    with pytest.raises(KeyboardInterrupt), writing_live(told):
        raise KeyboardInterrupt
    assert list(one.iterdir()) == []


def write(path: Path, *lines: dict[str, Any]) -> None:
    with path.open("ab") as file:
        file.write(b"".join(orjson.dumps(line) + b"\n" for line in lines))


def test_each_score_is_read_once(tmp_path: Path) -> None:
    tail = ScoreTail(tmp_path / "results.jsonl")
    assert list(tail.read()) == []
    write(
        tail_path := tmp_path / "results.jsonl",
        {"id": "a", "restore_score_100": 50.0},
        {"id": "b", "error": {}},
    )
    assert list(tail.read()) == [50.0]
    assert list(tail.read()) == []
    write(tail_path, {"id": "c", "restore_score_100": None}, {"id": "d", "restore_score_100": 1e-7})
    assert list(tail.read()) == [1e-7]


def test_incomplete_line_is_read_when_complete(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    tail = ScoreTail(path)
    path.write_bytes(b'{"restore_score_100":12.5}\n{"restore_score_100":2')
    assert list(tail.read()) == [12.5]
    path.write_bytes(b'{"restore_score_100":12.5}\n{"restore_score_100":25}\n')
    assert list(tail.read()) == [25.0]


def test_text_that_looks_like_a_score_is_none(tmp_path: Path) -> None:
    said = '"restore_score_100": 99, {"restore_score_100":99}'
    write(tmp_path / "r.jsonl", {"id": said, "answer": json.dumps({"x": said}), "restore_score_100": 1.0})
    assert list(ScoreTail(tmp_path / "r.jsonl").read()) == [1.0]


def test_lines_across_blocks_are_found(tmp_path: Path) -> None:
    write(tmp_path / "r.jsonl", *({"id": str(n), "restore_score_100": float(n)} for n in range(20)))
    assert list(ScoreTail(tmp_path / "r.jsonl", block=7).read()) == [float(n) for n in range(20)]


LIVE_FILE = live([part("a", 1)], [lane("gpt")], **cluster([worker("w1")], 2))


@pytest.mark.parametrize("changed", [{}, {"further": object()}, {"mean": 1}, {"max_usd": 2.0}])
def test_value_of_the_shape_fits_even_with_more_fields(changed: dict[str, Any]) -> None:
    assert has_shape({**LIVE_FILE, **changed}, LiveFile)
    assert has_shape({name: of for name, of in LIVE_FILE.items() if name != "workers"} | changed, LiveFile)


@pytest.mark.parametrize(
    "changed",
    [
        *(
            {"n_done": True},
            {"n_done": 1.5},
            {"n_done": "1"},
            {"mean": "x"},
            {"lanes": {}},
            {"parts": [None]},
        ),
        *({"parts": [{}]}, {"workers": [{}]}, {"workers": None}, {"note": None}),
    ],
)
def test_value_of_another_shape_does_not_fit(changed: dict[str, Any]) -> None:
    assert not has_shape({**LIVE_FILE, **changed}, LiveFile)
    assert not has_shape([], LiveFile)

"""`live.json` while a command runs: where it may be, what it says, and that it never gets in the way."""

from __future__ import annotations

import os
import time
from pathlib import Path

import orjson
import pytest
from made_live import live, part

from cts_async.engine.events import JobEnded, JobsFound
from cts_async.report.live import LIVE, LiveFile, has_shape, read_live, write_live
from cts_async.report.progress import LiveWriter, Progress, RunGroup, writing_live


def doing(*directories: Path) -> Progress:
    return Progress([RunGroup(one.name, 4, (one,), one / "results.jsonl") for one in directories])


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    return one, other


def test_each_directory_is_told_what_goes_there_as_soon_as_it_is_this_process_s(
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
    assert read_live(other) is None
    writer.end()
    assert list(one.iterdir()) == []


def test_it_has_the_shape_that_others_rely_on(runs: tuple[Path, Path]) -> None:
    told = doing(*runs)
    told(JobsFound("one", 0))
    LiveWriter(told).tick()
    assert has_shape(orjson.loads((runs[0] / LIVE).read_bytes()), LiveFile)


def test_scores_are_those_of_the_results_file_earlier_ones_too(runs: tuple[Path, Path]) -> None:
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


def test_a_folder_that_vanishes_is_not_made_again(runs: tuple[Path, Path]) -> None:
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


def test_a_full_disk_disturbs_nobody_and_leaves_the_last_word(
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


def test_a_name_that_is_not_utf_8_silences_nobody(runs: tuple[Path, Path]) -> None:
    one, _ = runs
    write_live(one, live([part("r\udcff")], time=time.time()))
    said = read_live(one)
    assert said is not None
    assert [one["name"] for one in said["parts"]] == ["r?"]


def test_a_killed_process_s_word_goes_and_that_of_the_next_one_stays(runs: tuple[Path, Path]) -> None:
    one, other = runs
    told = doing(one, other)
    told(JobsFound("one", 0))
    told(JobsFound("other", 0))
    write_live(one, live([part("one")], time=1.0))
    write_live(other, live([part("other")], time=time.time(), pid=os.getppid()))
    LiveWriter(told).end()
    assert not (one / LIVE).exists()
    assert (other / LIVE).exists()


def test_it_is_removed_whatever_ends_the_command(runs: tuple[Path, Path]) -> None:
    one, _ = runs
    told = doing(one)
    told(JobsFound("one", 0))
    with pytest.raises(KeyboardInterrupt), writing_live(told):
        raise KeyboardInterrupt
    assert list(one.iterdir()) == []

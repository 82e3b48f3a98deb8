"""What is looked at from another shell: which directories are meant, and what their processes say together."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from made_live import cluster, lane, live, part, worker
from made_runs import made_run

from cts_async.errors import InputError
from cts_async.report.live import LIVE, write_live
from cts_async.report.status import by_process, live_of, run_directories


def test_a_run_a_folder_of_runs_and_a_pattern_are_understood(tmp_path: Path) -> None:
    orig = made_run(tmp_path / "runs", label="orig", rows=[])
    gpt = made_run(tmp_path / "runs", label="gpt-k1", rows=[])
    (tmp_path / "runs" / "notes").mkdir()
    assert run_directories([tmp_path / "runs"]) == [gpt, orig]
    assert run_directories([orig]) == [orig]
    assert run_directories([tmp_path / "runs" / "*-k1"]) == [gpt]
    assert run_directories([orig, tmp_path / "runs"]) == [orig, gpt]


def test_of_several_judged_systems_each_is_one(tmp_path: Path) -> None:
    made_run(tmp_path / "out", label="a", rows=[], name="a")
    (tmp_path / "out" / "run.json").write_text(json.dumps({"systems": ["a"]}))
    assert run_directories([tmp_path / "out"]) == [tmp_path / "out" / "a"]


@pytest.mark.parametrize("word", ["nowhere", "no*where", "."])
def test_where_there_is_no_run_it_says_so(tmp_path: Path, word: str) -> None:
    with pytest.raises(InputError, match="no such run or folder|no run found"):
        run_directories([tmp_path / word])


def test_a_word_of_another_version_is_none(tmp_path: Path) -> None:
    write_live(tmp_path, live([part("a")], [lane("gpt")], time=time.time()))
    assert live_of(tmp_path) is not None
    said = json.loads((tmp_path / LIVE).read_text())
    for broken in (
        {**said, "parts": [{}]},
        {**said, "mean": "x"},
        {**said, "n_done": 1.5},
        {**said, "lanes": {}},
    ):
        (tmp_path / LIVE).write_text(json.dumps(broken))
        assert live_of(tmp_path) is None


def test_workers_are_read_where_there_are_any_and_only_as_this_version_tells_them(tmp_path: Path) -> None:
    shared = live([part("a")], time=time.time(), **cluster([worker("w1")], 2, "ray://head:10001"))
    write_live(tmp_path, shared)
    assert live_of(tmp_path) == shared
    for broken in ([{}], [{**worker("w1"), "in_hand": None}], {}, None):
        (tmp_path / LIVE).write_text(json.dumps({**shared, "workers": broken}))
        assert live_of(tmp_path) is None


def test_workers_of_a_process_stand_there_once_as_it_said_last() -> None:
    one = live([part("a", 4)], time=1001.0, **cluster([worker("w1")], 2))
    other = live([part("b", 2)], time=1002.0, **cluster([worker("w1"), worker("w2")], 2))
    (together,) = by_process([other, one])
    assert [one["name"] for one in together["workers"]] == ["w1", "w2"]


def test_several_directories_of_one_process_are_one_screen_and_providers_stand_there_once() -> None:
    providers = [lane("gpt")]
    one = live([part("a", 4, calls=7, eta_s=60.0)], providers, eta_s=60.0, time=1001.0)
    other = live([part("b", 2, calls=3, eta_s=90.0)], providers, eta_s=90.0, time=1002.0)
    stranger = live([part("c", 1)], providers, pid=1)
    ours, theirs = by_process([one, stranger, other])
    assert [one["name"] for one in ours["parts"]] == ["a", "b"]
    assert (ours["n_done"], ours["n_expected"], ours["calls"], ours["eta_s"]) == (6, 20, 10, 90.0)
    assert (ours["time"], len(ours["lanes"])) == (1002.0, 1)
    assert [one["name"] for one in theirs["parts"]] == ["c"]


def test_what_several_directories_say_alike_counts_once() -> None:
    judged = live([part("3 runs, ernie", 4, calls=7)])
    (together,) = by_process([judged, judged, judged])
    assert (together["n_done"], together["calls"], len(together["parts"])) == (4, 7, 1)

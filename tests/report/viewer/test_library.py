"""Which runs are held open, and for how long."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from unittest.mock import patch

from made_runs import Row, made_run

from cts_async.report.viewer.library import MAX_OPEN, Found, Library
from cts_async.report.viewer.run import MAX_DEPTH, find_places


def test_only_so_many_runs_are_open_the_latest_used_among_them(tmp_path: Path) -> None:
    names = [
        made_run(tmp_path, label="orig", name=f"r{n:02}", rows=[Row("a")]).name for n in range(MAX_OPEN + 2)
    ]
    library = Library(tmp_path)
    first = library.open(names[0])
    assert library.open(names[0]) is first
    for name in names[1:MAX_OPEN]:
        library.open(name)
    library.open(names[0])
    for name in names[MAX_OPEN:]:
        library.open(name)
    assert library.open(names[0]) is first
    again = [library.open(name) for name in names[1:3]]
    assert all(run is not None and len(run.results.lines()) == 0 for run in again)


def test_a_run_that_nobody_named_so_is_not_opened(tmp_path: Path) -> None:
    made_run(tmp_path, label="orig", rows=[Row("a")])
    library = Library(tmp_path / ".")
    assert library.open("made-orig/../made-orig") is None
    assert library.open(str(tmp_path / "made-orig")) is None


def test_runs_lie_some_levels_deep_and_not_in_hidden_folders(tmp_path: Path) -> None:
    for folder in ("a/b/c", "a/b/c/d/e", ".hidden", "judgments"):
        made_run(tmp_path / folder, label="orig", rows=[])
    assert [place.name for place in find_places(tmp_path).found] == ["a/b/c/made-orig"]
    assert MAX_DEPTH == 4


def test_what_vanishes_while_it_is_looked_at_is_no_run(tmp_path: Path) -> None:
    run = made_run(tmp_path, label="orig", rows=[Row("a")])
    library = Library(tmp_path)
    opened = library.open(run.name)
    assert opened is not None
    opened.advance(1)
    shutil.rmtree(run)
    opened.advance(1)
    assert (len(opened.results.lines()), opened.ready) == (0, 1.0)
    assert find_places(tmp_path / "nothing").found == []


def test_a_folder_that_takes_long_to_look_through_is_looked_through_less_often(tmp_path: Path) -> None:
    """Half a second of looking is followed by (0.5 - 0.1) * 9 = 3.6 seconds without."""
    now, looks = 100.0, []
    library = Library(tmp_path)

    def look() -> Found:
        nonlocal now
        looks.append(now)
        now += 0.5
        return Found()

    with patch.object(time, "monotonic", lambda: now), patch.object(library, "_look", look):
        library.find()
        for moment in (104.0, 104.2, 108.0):
            now = moment
            library.find()
    assert looks == [100.0, 104.2]


def test_it_is_said_where_there_are_more_folders_than_are_looked_into(tmp_path: Path) -> None:
    for name in "abc":
        made_run(tmp_path, label="orig", name=name, rows=[])
    assert Library(tmp_path).find().damaged == ()
    with patch("cts_async.report.viewer.run.MAX_FOLDERS", 3):
        found = Library(tmp_path).find()
    assert list(found.runs) == ["a", "b"]
    assert "only" in found.damaged[0]


def test_run_younger_than_the_last_search_is_found_by_name(tmp_path: Path) -> None:
    library = Library(tmp_path)
    with patch("cts_async.report.viewer.library.FOUND_S", 3600.0):
        assert library.find().runs == {}
        made_run(tmp_path, label="orig", rows=[Row("a")])
        assert library.open("made-orig") is not None

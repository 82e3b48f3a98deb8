"""Directories that somebody else made, with links and pipes under the names of our files: nothing outside is touched."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from typed_commands import Cts

from cts_async.datasets.kinds.sample import sample_dir
from cts_async.errors import EXIT_OK, EXIT_USAGE

GOLD = sample_dir() / "gold.jsonl"
FILES = (
    *(".lock", "run.json", "steps.jsonl", "steps.jsonl.torn", "per_item.jsonl", "per_item.jsonl.torn"),
    *("summary.json", "live.json", "judgments/other.jsonl", "judgments/other.jsonl.torn"),
    "prompts/judge.en.txt",
)
FOLDERS = ("judgments", "prompts", "shards")


@pytest.fixture
def command(tmp_path: Path) -> tuple[object, ...]:
    """Judges two candidates lexically into `out`."""
    ids = [json.loads(line)["id"] for line in GOLD.read_text().splitlines()[:2]]
    lines = [json.dumps({"id": id, "answer": f"About {id}."}) for id in ids]
    (tmp_path / "c.jsonl").write_text("\n".join(lines))
    words = ("--gold", GOLD, "--candidates", "c.jsonl", "--out", "out", "--judge", "lexical", "-q")
    return ("judge", *words)


@pytest.fixture
def outside(tmp_path: Path) -> Callable[[], dict[str, bytes]]:
    """Somebody's files; gives what they hold now."""
    folder = tmp_path / "home"
    (folder / "steps").mkdir(parents=True)
    (folder / ".bashrc").write_bytes(b"alias ls=ls\n# no newline at the end")
    (folder / "steps" / "a-1.jsonl").write_bytes(b'{"key":"' + b"0" * 32 + b'","ok":true}\n{"torn')
    return lambda: {
        str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()
    }


def refused(cts: Cts, command: tuple[object, ...], path: str) -> None:
    done = cts(*command)
    assert done.code == EXIT_USAGE, done.err
    (line,) = done.err.splitlines()
    assert path in line


@pytest.mark.parametrize("name", FILES)
def test_links_and_pipes_in_place_of_our_files_are_refused(
    cts: Cts, command: tuple[object, ...], tmp_path: Path, outside: Callable[[], dict[str, bytes]], name: str
) -> None:
    assert cts(*command).code == EXIT_OK
    theirs, path = outside(), tmp_path / "out" / name
    path.parent.mkdir(exist_ok=True)
    for make in (
        lambda: path.symlink_to("../" * (name.count("/") + 1) + "home/.bashrc"),
        lambda: os.mkfifo(path),
    ):
        path.unlink(missing_ok=True)
        make()
        refused(cts, command, Path(name).name)
        assert outside() == theirs


@pytest.mark.parametrize("name", FOLDERS)
def test_links_in_place_of_our_folders_are_refused(
    cts: Cts, command: tuple[object, ...], tmp_path: Path, outside: Callable[[], dict[str, bytes]], name: str
) -> None:
    theirs = outside()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).symlink_to("../home/steps")
    refused(cts, command, f"out/{name}")
    assert outside() == theirs


def test_run_directory_may_not_be_a_link_but_its_parent_may(
    cts: Cts, command: tuple[object, ...], tmp_path: Path, outside: Callable[[], dict[str, bytes]]
) -> None:
    theirs = outside()
    (tmp_path / "out").symlink_to("home")
    refused(cts, command, "out is a symbolic link")
    assert outside() == theirs
    (tmp_path / "runs").symlink_to("home")
    words = ["runs/new" if word == "out" else word for word in command]
    assert cts(*words).code == EXIT_OK
    assert (tmp_path / "home" / "new" / "per_item.jsonl").exists()

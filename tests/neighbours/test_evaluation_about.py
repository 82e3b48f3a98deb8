"""How an evaluation dictionary was made stands beside it."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from cts_async.errors import InputError
from cts_async.neighbours.qulac.records import about_path, read_notes, write_about


def test_settings_and_notes_stand_beside_the_dictionary(tmp_path: Path) -> None:
    path = tmp_path / "eval.json"
    write_about(path, {"mu": 1500.0}, ["stand-ins"])
    assert orjson.loads((tmp_path / "eval.about.json").read_bytes()) == {"mu": 1500.0, "notes": ["stand-ins"]}
    assert read_notes(path) == ["stand-ins"]


def test_a_dictionary_from_elsewhere_has_no_notes(tmp_path: Path) -> None:
    assert read_notes(tmp_path / "eval.json") == []


@pytest.mark.parametrize("content", ["{", "[]", '{"notes": "one"}', '{"notes": [1]}', "{}", '"\xe9"'])
def test_a_broken_one_is_refused_by_name(tmp_path: Path, content: str) -> None:
    path = about_path(tmp_path / "eval.json")
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(InputError, match=r"eval\.about\.json"):
        read_notes(tmp_path / "eval.json")


def test_one_that_is_too_long_is_not_held_in_memory(tmp_path: Path) -> None:
    with about_path(tmp_path / "eval.json").open("wb") as sparse:
        sparse.truncate(1 << 30)
    with pytest.raises(InputError, match=r"eval\.about\.json"):
        read_notes(tmp_path / "eval.json")

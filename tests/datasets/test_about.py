"""Every kind of dataset is found by its name and describes itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from cts_async.datasets.registry import FILE, Kind, all_kinds, find_kind, open_dataset

KINDS = [*all_kinds().values(), FILE]


def test_kinds_are_listed_in_their_order() -> None:
    assert [kind.name for kind in KINDS] == ["sample", "hard518", "qulac", "clariq", "mimics-duo", "file"]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_description_is_complete_except_for_paper(kind: Kind) -> None:
    assert all(value for field, value in kind.as_json().items() if field not in ("paper", "taken"))
    assert kind is FILE or kind.spec.startswith(kind.name)
    assert (kind.open is None) == bool(kind.inspect) == bool(kind.instead)


@pytest.mark.parametrize("name", ["mimics_duo", "command-line", "__init__", "sample.x", "at_cot", "名"])
def test_other_names_are_not_kinds(name: str) -> None:
    assert find_kind(name) is None


def test_new_module_in_the_folder_is_a_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import cts_async.datasets.kinds as folder

    (tmp_path / "mine.py").write_text(
        "from dataclasses import replace\nfrom cts_async.datasets.kinds.sample import KIND as SAMPLE\n"
        "KIND = replace(SAMPLE, name='mine', spec='mine', position=50)\n"
    )
    monkeypatch.setattr(folder, "__path__", [*folder.__path__, str(tmp_path)])
    assert list(all_kinds())[-1] == "mine"
    assert open_dataset("mine").count == 28

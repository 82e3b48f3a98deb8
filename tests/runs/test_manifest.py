"""The manifest of a run, and what is wrong with one that cannot be read."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cts_async.errors import InputError
from cts_async.runs.directory import write_json
from cts_async.runs.manifest import (
    DataFiles,
    Identity,
    Manifest,
    Tools,
    manifest_of,
    read_manifest,
    require_manifest,
    tolerant_manifest,
)


def test_a_manifest_is_read_as_written(tmp_path: Path) -> None:
    assert read_manifest(tmp_path) is None
    value = {"identity": {"k": 3, "models": {"clarifier": "gpt"}}, "n": 1.5, "text": "模糊"}
    write_json(tmp_path / "run.json", value)
    assert require_manifest(tmp_path).raw == value
    assert (tmp_path / "run.json").read_bytes().endswith(b"}\n")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\0" * 100, b'"text"', b"\xff"])
def test_invalid_manifest_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(InputError, match="run.json: not a manifest"):
        read_manifest(tmp_path)


A_NAME = "has to be a name of one line, at most 1,000 characters"


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        ({"identity": {"data": {"name": 5}}}, "'identity.data.name': has to be a name of one line"),
        ({"identity": {"models": None}}, "'identity.models': has to be an object of models by role"),
        ({"identity": {"models": ["gpt"]}}, "'identity.models': has to be an object of models by role"),
        ({"identity": {"prompts": {"a": 1}}}, "'identity.prompts': has to be an object of digests by name"),
        ({"identity": {"stop_after": ["a"]}}, "'identity.stop_after': has to be the name of a stage"),
        ({"identity": {"system": "x" * 1001}}, "'identity.system': has to be a name of one line"),
        ({"identity": None}, "'identity': has to be an object"),
        ({"data": {"spec": ["a"]}}, "'data.spec': has to be a path"),
        ({"data": {"fields": {"a": 1}}}, "'data.fields': has to be an object of names"),
        ({"tools": 5}, "'tools': has to be an object"),
        ({"tools": {"replay": "x"}}, "'tools.replay': has to be a list of paths"),
        ({"players": 5}, "'players': has to be an object of names"),
        ({"players": {"agent": "x" * 10_000_000}}, f"'players.agent': {A_NAME}"),
        ({"players": {"judge \x1b[2J" + "x" * 100: 1}}, f"'players.judge ?[2J{'x' * 50}': {A_NAME}"),
        ({"prices": {"m": {"input": -1.0}}}, "'prices': has to be an object of prices by model"),
        ({"forecast": {"calls": "many"}}, "'forecast': has to be an object of numbers"),
        ({"systems": [1]}, "'systems': has to be a list of names"),
        ({"journal": 7}, "'journal': has to be a path"),
    ],
)
def test_field_of_another_type_is_named(tmp_path: Path, manifest: dict[str, Any], problem: str) -> None:
    write_json(tmp_path / "run.json", manifest)
    with pytest.raises(InputError) as raised:
        read_manifest(tmp_path)
    assert str(raised.value) == f"{tmp_path}/run.json: field {problem}"


def test_fields_that_earlier_versions_left_open_may_be_null(tmp_path: Path) -> None:
    identity = dict.fromkeys(
        ("data", "system", "task", "stop_after", "candidates", "current_date", "k", "judges", "agent")
    )
    manifest = {
        "identity": identity,
        "data": dict.fromkeys(("spec", "path", "gold", "corpus", "fields", "notes")),
        "tools": dict.fromkeys(("search", "visit", "replay")),
        "players": {"clarifier": None, "judge lexical": "lexical"},
        "prices": {"m": {"input": None, "output": 1.5}},
        "further_judges": {"strict": {"model": {"model": "m"}, "prompts": {}}},
        "forecast": None,
        "journal": "/" + "a" * 255 * 15 + "/steps.jsonl",
    }
    write_json(tmp_path / "run.json", manifest)
    read = require_manifest(tmp_path)
    assert read.raw == manifest
    assert (read.identity, read.data, read.tools) == (Identity(), DataFiles(), Tools())


@pytest.mark.parametrize("levels", [101, 300, 1015, 100_000])
def test_deep_manifest_is_one_line(tmp_path: Path, levels: int) -> None:
    (tmp_path / "run.json").write_text('{"identity": ' + "[" * levels + "]" * levels + "}")
    with pytest.raises(InputError, match="run.json: not a manifest") as raised:
        read_manifest(tmp_path)
    assert len(str(raised.value)) < 300


def test_manifest_that_is_huge_or_no_file_is_one_line(tmp_path: Path) -> None:
    with (tmp_path / "run.json").open("wb") as file:
        file.truncate(3 << 30)
    with pytest.raises(InputError, match=r"not a manifest \(is larger than 16,777,216 bytes\)"):
        read_manifest(tmp_path)
    (tmp_path / "run.json").unlink()
    os.mkfifo(tmp_path / "run.json")
    with pytest.raises(InputError, match="no regular file"):
        read_manifest(tmp_path)


SOUND = {
    "identity": {"k": 3, "data": {"name": "sample"}, "judges": ["gpt"]},
    "players": {"clarifier": "gpt", "support": None},
    "prices": {"gpt-5": {"input": 1.25, "output": None}},
    "n_expected": 8,
    "sessions": [{"start": "2026-11-21T06:24:00Z", "wall_s": 2.5}, {}],
}


def written(folder: Path, manifest: dict[str, Any]) -> Path:
    (folder / "run.json").write_text(json.dumps(manifest))
    return folder


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("identity", None),
        ("identity", ["x"]),
        ("players", {"clarifier": 3}),
        ("prices", {"gpt-5": {"input": "1.25"}}),
        ("n_expected", "8"),
        ("n_expected", -1),
        ("identity.k", "3"),
        ("identity.k", True),
        ("identity.data", []),
        ("identity.judges", "gpt"),
    ],
)
def test_field_of_another_form_is_named(tmp_path: Path, part: str, value: Any) -> None:
    outer, _, inner = part.partition(".")
    with pytest.raises(InputError, match=f"run.json: field '{part}[.a-z]*': has to be "):
        read_manifest(written(tmp_path, SOUND | {outer: {inner: value} if inner else value}))


MALFORMED = {
    "identity": {"system": 5, "k": "3", "judges": "gpt", "data": [], "models": None, "scheme": "cot"},
    "data": {"spec": ["a"], "gold": "gold.jsonl"},
    "tools": 5,
    "players": {"agent": ["gpt"]},
    "prices": {"m": {"input": -1.0}},
    "systems": "a",
    "n_expected": -1,
    "n_answers": True,
    "given": ["a"],
    "version": 6,
}


def test_listings_read_what_is_well_formed_of_a_malformed_manifest() -> None:
    manifest = tolerant_manifest(MALFORMED, Path("runs/mine"))
    assert manifest == replace(
        Manifest(directory=Path("runs/mine")),
        raw=MALFORMED,
        identity=Identity(scheme="cot"),
        data=DataFiles(gold="gold.jsonl"),
    )
    assert (manifest.system, manifest.k, manifest.judge, manifest.n_absent) == ("mine", None, "", 0)


def test_damaged_manifest_counts_as_one_without_fields(tmp_path: Path) -> None:
    written(tmp_path, MALFORMED)
    for directory in (tmp_path, tmp_path / "missing"):
        assert manifest_of(directory) == Manifest(directory=directory)


@pytest.mark.parametrize("sessions", [None, {"a": 1}, "x", [7], [{"wall_s": "long"}]])
def test_malformed_sessions_are_ignored(sessions: Any) -> None:
    assert tolerant_manifest({"sessions": sessions}, Path("run")).sessions == ()


def test_absent_fields_are_accepted(tmp_path: Path) -> None:
    for manifest in ({}, SOUND, {"identity": {"k": None, "data": None}}):
        assert require_manifest(written(tmp_path, manifest)).raw == manifest

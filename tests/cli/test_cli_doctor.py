"""`cts doctor` on the optional extras: which are there, and how to get the others."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest

from cts_async.cli.doctor import EXTRAS, Finding, _extras


def test_extra_is_listed_with_versions_or_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    versions = {"lightgbm": "4.7.0", "scikit-learn": "1.9.1"}

    def version(package: str) -> str:
        if package not in versions:
            raise importlib.metadata.PackageNotFoundError(package)
        return versions[package]

    monkeypatch.setattr(importlib.metadata, "version", version)
    assert list(_extras()) == [
        Finding("extra ltr", True, "lightgbm 4.7.0, scikit-learn 1.9.1"),
        Finding("extra bertscore", None, "bert-score is not installed: pip install 'cts-async[bertscore]'"),
        Finding("extra ray", None, "ray is not installed: pip install 'cts-async[ray]'"),
    ]


def test_extras_match_pyproject() -> None:
    pyproject = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    declared = pyproject["project"]["optional-dependencies"]
    for extra, packages in EXTRAS.items():
        assert {re.split("[<>=]", needed)[0] for needed in declared[extra]} == set(packages)

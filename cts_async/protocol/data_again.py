"""The data that a run was over, opened again from where its manifest says it was."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cts_async.datasets import Dataset, open_dataset
from cts_async.errors import InputError, UsageError


def opened_again(manifest: Mapping[str, Any], spec: str | None = None) -> Dataset:
    """The dataset, `spec` where it is given. Raises UsageError where it is gone, or not the one of this run.

    Its gold may be another, or none: `dataset.gold_path` says.
    """
    noted = manifest.get("data", {})
    expected = (manifest.get("identity", {}).get("data") or {}).get("sha256")
    spec = spec or noted.get("spec")
    if not spec:
        raise UsageError("run.json does not say where it is")
    gold = Path(noted["gold"]) if noted.get("gold") else None
    dataset = open_dataset(spec, gold if gold and gold.exists() else None, noted.get("fields") or {})
    if dataset.sha256() != expected:
        raise InputError(dataset.path, "not the file this run was made with (its sha256 differs)")
    return dataset

"""The data that a run was over, opened again from where its manifest says it was."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from cts_async.datasets import Dataset, open_dataset
from cts_async.errors import InputError, UsageError

OTHER: Final = "not the file this run was made with"


def opened_again(manifest: Mapping[str, Any], spec: str | None = None) -> Dataset:
    """The dataset, `spec` where it is given. Raises UsageError where it is gone, or not the one of this run.

    Its gold may be another, or none: `dataset.gold_path` says.
    """
    noted = manifest.get("data", {})
    expected = (manifest.get("identity", {}).get("data") or {}).get("sha256")
    given = spec is not None
    spec = spec or noted.get("spec")
    if not spec:
        raise UsageError("run.json does not say where it is")
    gold = Path(noted["gold"]) if noted.get("gold") else None
    try:
        dataset = open_dataset(
            spec,
            gold if gold and gold.exists() else None,
            noted.get("fields") or {},
            skip_bad_gold=bool(noted.get("skip_bad_gold")),
        )
    except InputError as error:
        if given or not Path(error.path).exists():
            raise
        # A manifest is anybody's file: what another file holds is not quoted where it may be passed on.
        raise InputError(error.path, OTHER) from None
    if dataset.sha256() != expected:
        raise InputError(dataset.path, f"{OTHER} (its sha256 differs)")
    return dataset

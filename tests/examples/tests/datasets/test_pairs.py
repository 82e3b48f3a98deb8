"""Tab-separated pairs."""

from __future__ import annotations

from pathlib import Path

import pytest

from cts_async.datasets.kinds import open_dataset
from cts_async.errors import InputError
from cts_async.records import Instance


def test_pairs_are_read_and_a_bad_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("ferry to Skye in May\tferry\n", "utf-8")
    assert list(open_dataset(f"pairs:{path}").instances()) == [
        Instance("p1", "ferry to Skye in May", "ferry")
    ]
    path.write_text("ferry to Skye in May\tferry\nno tab\n", "utf-8")
    with pytest.raises(InputError, match=r"pairs\.tsv:2: needs INTENT<tab>QUERY"):
        open_dataset(f"pairs:{path}")

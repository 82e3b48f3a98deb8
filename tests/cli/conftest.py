"""A provider of every role with prices, in a process of its own, and commands that are run in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_provider import Remote, provider_process
from typed_commands import Cts, typed


@pytest.fixture
def priced(tmp_path: Path) -> Iterator[Remote]:
    """The provider, and a cts.toml that names it: `fake`, and `unpriced`, whose price is unknown."""
    with provider_process(latency_s=0.01) as remote:
        table = f'[models.fake]\nbase_url = "{remote.url}"\nmodel = "fake-1"\nmax_concurrency = 2\n'
        prices = "input_usd_per_mtok = 1.0\noutput_usd_per_mtok = 10.0\nparams = { max_tokens = 500 }\n"
        unpriced = table.replace("models.fake", "models.unpriced")
        (tmp_path / "cts.toml").write_text(table + prices + unpriced)
        yield remote


@pytest.fixture
def cts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Cts]:
    """`cts WORDS` in a folder of its own, on 200 columns."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    with typed(monkeypatch, capsys) as run:
        yield run

"""Commands typed in this process: what they print and how they end, without what they change for good."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from cts_async.cli.main import main


class Done(NamedTuple):
    code: int
    out: str
    err: str


Cts = Callable[..., Done]


@contextmanager
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Cts]:
    """`cts WORDS` while the block runs."""
    thresholds = gc.get_threshold()

    def run(*words: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["cts", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        return Done(int(ended.value.code or 0), *capsys.readouterr())

    yield run
    gc.set_threshold(*thresholds)
    gc.unfreeze()

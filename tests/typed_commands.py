"""Commands run in this process: what they print and how they end, without lasting changes to the process."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

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

    def run(*words: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["cts", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        return Done(int(ended.value.code or 0), *capsys.readouterr())

    yield run


def cts_in(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `cts WORDS` in a folder, which is its home too, with no environment but these variables.

    As a process would, without starting one: that takes half a second.
    """
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "COLUMNS": "100", **variables}
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with (
        patch.dict(os.environ, environ, clear=True),
        patch.object(sys, "argv", ["cts", *words]),
        chdir(folder),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    texts = [stream.buffer.getvalue().decode() for stream in (out, err)]  # type: ignore[attr-defined]
    return subprocess.CompletedProcess(words, int(ended.value.code or 0), *texts)

"""A `cts` that starts in milliseconds: a fork of a process that has imported what commands import when they run.

It differs from a started one in nothing but its beginning and its end, which are not the interpreter's own.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from multiprocessing.context import ForkServerContext
from multiprocessing.reduction import DupFd
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any

PRELOADED = (
    "cts_async.baseline",
    "cts_async.cli.drive",
    "cts_async.cli.main",
    "cts_async.cli.run",
    "cts_async.protocol.plan",
    "cts_async.protocol.run",
    "cts_async.tables.results",
)


class ForkedCts:
    """`cts WORDS` in the folder `here`; as far as tests use one, a `subprocess.Popen` whose outputs are pipes."""

    def __init__(self, words: Sequence[str], here: Path) -> None:
        # Closed by `communicate`.
        self._output = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
        self._error = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
        outputs = [DupFd(file.fileno()) for file in (self._output, self._error)]
        arguments = (list(words), here, dict(os.environ), outputs)
        # A daemon, so that one which a failed test has left does not outlive the tests.
        self._process = _forks().Process(target=_run, args=arguments, daemon=True)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for its end; returns what it has written to its standard output and error."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            assert timeout is not None
            raise TimeoutExpired("cts", timeout)
        texts = []
        for file in (self._output, self._error):
            file.seek(0)
            texts.append(file.read())
            file.close()
        return texts[0], texts[1]


@cache
def _forks() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    return context


def _run(words: list[str], here: Path, environ: dict[str, str], outputs: list[Any]) -> None:
    """Become `cts WORDS`."""
    for number, output in enumerate(outputs, start=1):
        os.dup2(output.detach(), number)
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(here)
    sys.argv = ["cts", *words]
    from cts_async.cli.main import main

    main()

"""Commands of cts as processes that start in milliseconds, to be killed: forks of one that has imported everything.

    with forked_commands() as start:
        command = start(["judge", "--batch", ...], here)
        command.kill()                 or  command.wait()

Batches are waited for in fractions of a second: `TIMING` in the place of minutes and hours.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PRELOADED = (
    "cts_async.cli.drive",
    "cts_async.cli.judge",
    "cts_async.llm.apis.openai",
    "cts_async.llm.batch_apis.anthropic",
    "cts_async.llm.batch_apis.openai",
    "cts_async.protocol.rejudge",
    "cts_async.tables.results",
    "cts_async.tables.summary",
)
"""What `cts judge` imports when it runs, and each fork would import again."""
TIMING = {
    "quiet_s": 0.1,
    "first_poll_s": 0.05,
    "longest_poll_s": 0.2,
    "file_s": 3.0,
    "retry_s": 0.05,
    "lost_s": 3.0,
    "skew_s": 2.0,
    "files_missing_s": 0.2,
}


@dataclass
class Command:
    """One command under way."""

    pid: int
    output: Path
    """What it has printed."""
    _host: subprocess.Popen[str]

    def kill(self, number: int = signal.SIGKILL) -> int:
        """Send a signal, unless it has ended, and wait for the end; returns as `wait`."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)
        return self.wait()

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self) -> int:
        """The exit code; negative for the signal that ended it."""
        assert self._host.stdout is not None
        return int(self._host.stdout.readline())


Start = Callable[[Sequence[str], Path], Command]


@contextmanager
def forked_commands(**timing: float) -> Iterator[Start]:
    """Start commands, one at a time."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, __file__, json.dumps(TIMING | timing)]
    host = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ)
    assert host.stdin is not None
    assert host.stdout is not None

    def start(words: Sequence[str], here: Path) -> Command:
        print(json.dumps([list(words), str(here)]), file=host.stdin, flush=True)
        return Command(int(host.stdout.readline()), here / "output.txt", host)

    try:
        yield start
    finally:
        host.stdin.close()
        host.wait()
        host.stdout.close()


def _in_haste(timing: dict[str, float]) -> None:
    """Make batches wait for as long as `timing` says."""
    from cts_async.llm.batches import BatchTiming
    from cts_async.protocol import batching, run

    def batch_settings(config: Any, journals: Any) -> Any:
        return replace(batching.batch_settings(config, journals), timing=BatchTiming(**timing))

    run.batch_settings = batch_settings


def main() -> None:
    from cts_async.cli.main import main as cts

    for name in PRELOADED:
        importlib.import_module(name)
    _in_haste(json.loads(sys.argv[1]))
    for line in sys.stdin:
        words, here = json.loads(line)
        pid = os.fork()
        if not pid:
            os.chdir(here)
            output = os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            sys.argv = ["cts", *words]
            code: Any = 0
            try:
                cts()
            except SystemExit as ended:
                code = ended.code
            sys.stdout.flush()
            os._exit(code or 0)
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()

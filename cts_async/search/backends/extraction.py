"""Readable text out of hostile pages, in processes of their own.

Parsing a page takes Python's attention for seconds if the page wants it to, and C code that parses may crash.
In a thread either would stop every other instance of the run; a process is given up when its time is over.
The processes know no key: they get none of this one's environment but what Python needs to start.
"""

from __future__ import annotations

import json
import os
import subprocess
import weakref
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import orjson

from cts_async.engine.processes import child_environment, python_command
from cts_async.errors import ToolError
from cts_async.search.backends.body import PageKind

MAX_WORKERS: Final = 4
_PROGRAM: Final = Path(__file__).with_name("page_text.py")
_MAX_ANSWER_BYTES: Final = 64_000_000


@dataclass(frozen=True, slots=True)
class Extracted:
    """A page's title and its text, of which `chars` characters there are; the text may be cut before that."""

    title: str
    text: str
    chars: int


class Extractor:
    """At most `workers` processes, started when needed and kept for the next page. `close` ends them.

    They also end when the extractor is no longer used, and with this process.
    """

    def __init__(self, timeout_s: float = 20.0, workers: int | None = None) -> None:
        self.timeout_s = timeout_s
        self._idle: list[_Worker] = []
        workers = workers or max(1, min(MAX_WORKERS, os.cpu_count() or 1))
        self._slots = anyio.Semaphore(workers)
        # They only wait for a process. Not the default ones, which have work to do; and twice as many, as
        # the thread of a page that was given up lasts a little longer than its place.
        self._threads = anyio.CapacityLimiter(2 * workers)
        self.close = weakref.finalize(self, _stop_all, self._idle)
        """End all processes that wait for work."""

    async def extract(self, data: bytes, kind: PageKind, charset: str, max_chars: int) -> Extracted:
        """Give title and at least the first `max_chars` characters of the text.

        ToolError ("too large" or "no text") for a page that takes longer than `timeout_s`, or more memory than
        a process gets, or has no text.
        """
        request = {"bytes": len(data), "kind": kind, "charset": charset, "max_chars": max_chars}
        async with self._slots:
            answer = await self._answer(json.dumps(request).encode() + b"\n" + data)
        text = str(answer.get("text", "")) if answer else ""
        if not answer or not text.strip():
            raise ToolError("the page has no readable text", reason="no text")
        return Extracted(str(answer["title"]), text, int(answer["chars"]))

    async def _answer(self, request: bytes) -> dict[str, int | str]:
        worker = self._idle.pop() if self._idle else _Worker()
        done = False
        try:
            with anyio.move_on_after(self.timeout_s):
                line = await anyio.to_thread.run_sync(
                    worker.ask, request, abandon_on_cancel=True, limiter=self._threads
                )
                done = bool(line)
                answer: dict[str, int | str] = orjson.loads(line) if line else {}
                return answer
        finally:
            if done:
                self._idle.append(worker)
            else:
                worker.kill()
        raise ToolError(f"reading the page takes longer than {self.timeout_s:g} s", reason="too large")


class _Worker:
    """One process, for one request at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            python_command(str(_PROGRAM)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=child_environment(),
            start_new_session=True,  # Ctrl-C is for this process: it lets what is in flight end
        )

    def ask(self, request: bytes) -> bytes:
        """Send a request and wait for the line that answers it; b"" if the process has ended."""
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise RuntimeError("the process was started with pipes")
        try:
            stdin.write(request)
            stdin.flush()
            return stdout.readline(_MAX_ANSWER_BYTES)
        except (OSError, ValueError):  # the pipe is broken, or closed because the time was over
            return b""

    def kill(self) -> None:
        """End the process, whatever it does; a thread that waits for it gets b""."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # what was not yet sent
                    pipe.close()


def _stop_all(workers: list[_Worker]) -> None:
    while workers:
        workers.pop().kill()

"""A command that plays a role: a long-lived process that answers lines of JSON, several in flight.

It is started at the first request, in a session of its own and with the least environment. When it dies, what it had
in flight is sent again to a new one; after `MAX_DEATHS` in a row without a reply it counts as gone. A line that is not
a reply is ignored, with a notice: a stray print harms nobody.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from typing import Any, Final

import orjson

from cts_async.engine.events import Events, Notice
from cts_async.engine.processes import child_environment
from cts_async.errors import ProviderDown, TransientError
from cts_async.llm.redact import SECRETS
from cts_async.protocol.custom.sources import CustomRole, command_line

MAX_DEATHS: Final = 3
MAX_LINE_BYTES: Final = 16 << 20
STOP_S: Final = 2.0
"""For a process to end by itself once its input has ended."""


class Command:
    """The process of one player. Use `close` at the end."""

    def __init__(self, player: CustomRole, environ: Mapping[str, str], events: Events) -> None:
        self._name, self._arguments = player.name, command_line(player.name)
        self._environ, self._events = environ, events
        self._ids = count(1)
        self._waiting: dict[str, asyncio.Future[Mapping[str, Any]]] = {}
        self._process: asyncio.subprocess.Process | None = None
        self._readers: tuple[asyncio.Task[None], ...] = ()
        self._starting = asyncio.Lock()
        self._deaths = 0
        self._last_words = ""
        self._noticed = False

    async def request(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send one request and return its reply.

        Raises TransientError if the process dies, ProviderDown if it has died too often.
        """
        id = str(next(self._ids))
        line = orjson.dumps({"id": id, **fields}, option=orjson.OPT_APPEND_NEWLINE)
        process = await self._running()
        reply: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[id] = reply
        try:
            if process.stdin is not None:
                process.stdin.write(line)
                with suppress(ConnectionError):  # it has died: the reader says so
                    await process.stdin.drain()
            return await reply
        finally:
            self._waiting.pop(id, None)

    async def close(self) -> None:
        """End the process: its input ends first, then the whole session is killed."""
        process = self._process
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_S):
                await process.wait()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)

    async def _running(self) -> asyncio.subprocess.Process:
        async with self._starting:
            if self._process is not None and self._process.returncode is None:
                return self._process
            if self._deaths >= MAX_DEATHS:
                raise ProviderDown(
                    f"{self._name}: died {self._deaths} times in a row ({self._last_words}); fix it and resume"
                )
            try:
                process = await asyncio.create_subprocess_exec(
                    *self._arguments,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    env=child_environment(environ=self._environ),
                    limit=MAX_LINE_BYTES,
                    start_new_session=True,  # a Ctrl-C is for us: what is in flight there is finished first
                )
            except OSError as error:
                raise ProviderDown(f"{self._name}: cannot be started: {error.strerror or error}") from None
            self._process = process
            self._readers = (
                asyncio.create_task(self._read_replies(process)),
                asyncio.create_task(self._read_errors(process)),
            )
            return process

    async def _read_replies(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        problem = ""
        try:
            while line := await process.stdout.readline():
                self._deliver(line)
        except ValueError:
            problem = f"wrote a line of more than {MAX_LINE_BYTES >> 20} MiB"
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        status = await process.wait()
        self._deaths += 1
        words = problem or f"exit status {status}"
        self._last_words = f"{words}: {self._last_words}" if self._last_words else words
        for reply in list(self._waiting.values()):
            if not reply.done():
                reply.set_exception(TransientError(f"{self._name}: the command ended ({self._last_words})"))

    def _deliver(self, line: bytes) -> None:
        try:
            reply = orjson.loads(SECRETS.body(line, good=True))
        except ValueError:
            reply = None
        waiting = self._waiting.get(str(reply.get("id"))) if isinstance(reply, dict) else None
        if waiting is not None and not waiting.done():
            self._deaths, self._last_words = 0, ""
            waiting.set_result(reply)
        elif not self._noticed:
            self._noticed = True
            text = SECRETS.text(line[:80].decode(errors="replace").strip())
            self._events.emit(
                Notice(
                    f"{self._name}: ignored a line that answers no request ({text!r}); write logs to stderr"
                )
            )

    async def _read_errors(self, process: asyncio.subprocess.Process) -> None:
        """Keep the last line of standard error: it explains a death."""
        assert process.stderr is not None
        while block := await process.stderr.read(65536):
            lines = SECRETS.text(block.decode(errors="replace")).split("\n")
            self._last_words = next(
                (one.strip() for one in reversed(lines) if one.strip()), self._last_words
            )[:200]

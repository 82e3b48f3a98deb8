"""A command that plays a role: a long-lived process that answers lines of JSON, several in flight.

It is started at the first request, in a session of its own and with the least environment. When it dies, what it had
in flight is sent again to a new one; after `MAX_DEATHS` in a row without a reply it counts as gone. A line that is not
a reply is ignored, with a notice: a stray print harms nobody, a flood of them ends the process.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any, Final

import orjson

from cts_async.engine.events import Events, Notice
from cts_async.engine.processes import MARK, child_environment, kill_marked
from cts_async.errors import ProviderDown, TransientError, UnusableOutput
from cts_async.foreign_json import NestedTooDeeply
from cts_async.llm.redact import SECRETS
from cts_async.protocol.custom.sources import CustomRole, command_line, printable
from cts_async.protocol.custom.wire import id_of, read_reply

MAX_DEATHS: Final = 3
"""In a row, without a reply: then every further request would only start it again."""
MAX_LINE_BYTES: Final = 16 << 20
MAX_STRAY_BYTES: Final = 16 << 20
"""Of lines that answer nothing, between two replies."""
STOP_S: Final = 2.0
"""For a process to end by itself once its input has ended, and for what it had written to arrive once it has died."""
LAST_WORDS: Final = 200
"""Characters of standard error that explain a death."""


class Command:
    """The process of one player. Use `close` at the end."""

    def __init__(self, player: CustomRole, environ: Mapping[str, str], events: Events) -> None:
        self._name, self._arguments = player.display_name, command_line(player.name)
        self._environ, self._events = environ, events
        self._ids = count(1)
        self._process: _Process | None = None
        self._starting = asyncio.Lock()
        self._deaths = 0
        self._why = ""
        self._noticed = False

    async def request(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send one request and return its reply.

        Raises TransientError if the process dies, ProviderDown if it has died too often.
        """
        process = await self._running()
        reply = await process.request(str(next(self._ids)), fields)
        self._deaths = 0
        return reply

    async def close(self) -> None:
        """End the process: its input ends first, then whatever it has left running is killed."""
        if self._process is not None:
            await self._process.close()

    async def _running(self) -> _Process:
        async with self._starting:
            if self._process is not None and self._process.alive:
                return self._process
            if self._deaths >= MAX_DEATHS:
                raise ProviderDown(
                    f"{self._name}: died {self._deaths} times in a row ({self._why}); fix it and resume"
                )
            mark = secrets.token_hex(16)
            try:
                started = self._start(mark)
            except OSError as error:
                raise ProviderDown(f"{self._name}: cannot be started: {error.strerror or error}") from None
            self._process = _Process(self._name, started, mark, self._died, self._ignored)
            await self._process.open()
            return self._process

    def _start(self, mark: str) -> subprocess.Popen[bytes]:
        # Not asyncio's: there the end of a process is not seen while a child of its own keeps the pipes open.
        return subprocess.Popen(
            self._arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=child_environment(environ=self._environ, our_modules=False, added={MARK: mark}),
            start_new_session=True,  # a Ctrl-C is for us: what is in flight there is finished first
        )

    def _died(self, why: str) -> None:
        self._deaths += 1
        self._why = why

    def _ignored(self, line: bytes) -> None:
        if self._noticed:  # once says it: a command that prints its logs does so at each request
            return
        self._noticed = True
        text = SECRETS.text(line[:80].decode(errors="replace").strip())
        notice = f"{self._name}: ignored a line that answers no request ({text!r}); write logs to stderr"
        self._events.emit(Notice(notice))


class _Process:
    """One life of the command."""

    def __init__(
        self,
        name: str,
        process: subprocess.Popen[bytes],
        mark: str,
        died: Callable[[str], None],
        ignored: Callable[[bytes], None],
    ) -> None:
        self._name, self._process, self._mark = name, process, mark
        self._died, self._ignored = died, ignored
        self._waiting: dict[str, asyncio.Future[Mapping[str, Any]]] = {}
        self._output = asyncio.StreamReader(limit=MAX_LINE_BYTES)
        self._errors = asyncio.StreamReader()
        self._last_words = b""
        self.alive = True
        """False once it can answer no more requests."""

    async def open(self) -> None:
        """Connect its pipes; to be called once, first."""
        process, loop = self._process, asyncio.get_running_loop()
        self._input, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, process.stdin)
        to_output = partial(asyncio.StreamReaderProtocol, self._output)
        to_errors = partial(asyncio.StreamReaderProtocol, self._errors)
        output_pipe, _ = await loop.connect_read_pipe(to_output, process.stdout)
        error_pipe, _ = await loop.connect_read_pipe(to_errors, process.stderr)
        self._pipes = (output_pipe, error_pipe)
        self._life = asyncio.create_task(self._live())

    async def request(self, id: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send one request and return its reply. Raises TransientError if the process dies."""
        line = orjson.dumps({"id": id, **fields}, option=orjson.OPT_APPEND_NEWLINE)
        reply: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[id] = reply
        try:
            # uvloop refuses to write to a process that has died already; `_live` says of what. Any other gets the line,
            # however full the pipe is: requests are few, and it may never read them.
            if not self._input.is_closing():
                self._input.write(line)
            return await reply
        finally:
            del self._waiting[id]

    async def close(self) -> None:
        """End it: its input ends first, then whatever it has left running is killed."""
        self._input.close()
        await asyncio.wait([self._life], timeout=STOP_S)
        self._life.cancel()
        await asyncio.wait([self._life])

    async def _live(self) -> None:
        """Deliver replies until it ends; then kill what it has left running, and fail what is in flight."""
        replies = asyncio.create_task(self._read_replies())
        errors = asyncio.create_task(self._read_errors())
        exit = asyncio.create_task(asyncio.to_thread(self._process.wait))
        problem = ""
        try:
            # A process without standard output can answer no more. One that has died may have left children that
            # keep its pipes open: what it wrote itself is there already.
            await asyncio.wait([replies, exit], return_when=asyncio.FIRST_COMPLETED)
            self.alive = False
            if replies.done():
                problem = replies.result()
            if not problem:
                await asyncio.wait([replies, errors, exit], timeout=STOP_S)
        except Exception as bug:
            # Nobody may wait for a reply that is not read any more.
            problem = f"its replies could not be read: {bug!r}"
        finally:
            self.alive = False
            # The process group first, then what has left it: only the mark in its environment tells that.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            kill_marked(self._mark)
            await exit
            for task in (replies, errors):
                task.cancel()
            await asyncio.wait([replies, errors])
            if not self._input.is_closing():
                self._input.abort()
            for pipe in self._pipes:
                pipe.close()
        why = problem or f"exit status {self._process.returncode}"
        last_words = printable(SECRETS.text(self._last_words.decode(errors="replace"))).strip()[:LAST_WORDS]
        if last_words:
            why = f"{why}: {last_words}"
        self._died(why)
        self._fail_waiting(lambda: TransientError(f"{self._name}: the command ended ({why})"))

    def _fail_waiting(self, error: Callable[[], Exception]) -> None:
        """Fail each request that has no reply with an error of its own: whoever gets it notes its step in it."""
        for reply in self._waiting.values():
            if not reply.done():
                reply.set_exception(error())

    async def _read_replies(self) -> str:
        """Deliver replies until standard output ends; why it has to be killed, if it has."""
        n_stray_bytes = 0
        while True:
            try:
                line = await self._output.readline()
            except ValueError:
                return f"wrote a line of more than {MAX_LINE_BYTES >> 20} MiB"
            if not line:
                return ""
            if self._deliver(line):
                n_stray_bytes = 0
            else:
                n_stray_bytes += len(line)
            if n_stray_bytes > MAX_STRAY_BYTES:
                return f"wrote {MAX_STRAY_BYTES >> 20} MiB of lines that answer no request"

    def _deliver(self, line: bytes) -> bool:
        """Give a line to the request that it answers; False if it answers none."""
        id: Any = None
        reply: Any = None
        problem: UnusableOutput | None = None
        try:
            reply = read_reply(line)
            if isinstance(reply, dict):
                id = reply.get("id")
            elif reply is None:
                # Whoever waits for it must be told: a line that is only ignored would let its request hang.
                id = id_of(line)
                if id is not None:
                    problem = UnusableOutput(f"{self._name}: its reply cannot be read as JSON")
        except NestedTooDeeply as error:
            problem, id = UnusableOutput(f"{self._name}: {error}"), id_of(line)
            if id is None:
                # It answers a request that cannot be told from the others in flight: all of them are asked again.
                text = str(problem)
                self._fail_waiting(lambda: UnusableOutput(text))
        waiting = None
        if isinstance(id, str | int):  # a client may write the number of its request as one
            waiting = self._waiting.get(str(id))
        if waiting is None or waiting.done():
            self._ignored(line)
            return False
        if problem is not None:
            waiting.set_exception(problem)
        else:
            waiting.set_result(reply)
        return True

    async def _read_errors(self) -> None:
        """Keep the last line of standard error: it explains a death."""
        tail = b""
        while block := await self._errors.read(1 << 20):
            tail = (tail + block[-4096:])[-4096:]
            lines = [line for line in tail.split(b"\n") if line.strip()]
            if lines:
                self._last_words = lines[-1]

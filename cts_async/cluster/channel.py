"""Turns over a socket, for workers on the head's machine: a tenth of the CPU that a message costs through Ray.

The worker listens on a Unix socket and serves one head. What comes is unpickled, so the socket has to be in a folder
that no other user may enter. A message is a byte that says what it is, its length in eight bytes, and a pickle.
"""

from __future__ import annotations

import asyncio
import pickle
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, cast

from cts_async.cluster.head import WorkerCrashed, WorkerLost
from cts_async.cluster.worker import Replies, Worker, WorkerTurn, WorkerUpdate

TURN, GIVE, UPDATE, CRASH = b"t", b"g", b"u", b"c"
"""What a message is: from the head a WorkerTurn or Replies, from a worker its WorkerUpdate or the traceback of a bug."""
DIED: Final = "its process died"
LENGTH_BYTES: Final = 8
BUFFERED: Final = 1 << 20
"""Bytes that are read ahead: an update of a hundred judgements has some 100 KB."""


class Channel:
    """The head's end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def connected(cls, path: Path) -> Channel:
        """Connect to the worker that listens at `path`. Raises WorkerLost."""
        try:
            return cls(*await asyncio.open_unix_connection(path, limit=BUFFERED))
        except OSError as error:
            raise WorkerLost(f"its socket cannot be opened ({error.strerror})") from None

    async def turn(self, turn: WorkerTurn) -> WorkerUpdate:
        """The worker's answer to a turn. Raises WorkerLost, and WorkerCrashed for a bug there."""
        # Asked beforehand: to write when it is closed is a bug to uvloop, and not a lost connection.
        if self._writer.is_closing():
            raise WorkerLost(DIED)
        try:
            _write(self._writer, TURN, turn)
            kind, content = await _read(self._reader)
        except (OSError, EOFError):
            raise WorkerLost(DIED) from None
        if kind == CRASH:
            raise WorkerCrashed(content)
        return cast(WorkerUpdate, content)

    def give(self, replies: Replies) -> None:
        # Nobody waits for this: where the worker is gone, the turn under way fails, too.
        if not self._writer.is_closing():
            _write(self._writer, GIVE, replies)

    def close(self) -> None:
        self._writer.close()


async def listen(path: Path, worker: Worker) -> asyncio.Server:
    """Serve `worker` to the head that connects to `path`."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _serve(worker, reader, writer)

    return await asyncio.start_unix_server(serve, path, limit=BUFFERED)


async def _serve(worker: Worker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    turns: set[asyncio.Task[None]] = set()
    try:
        while True:
            kind, content = await _read(reader)
            if kind == GIVE:
                worker.give(content)
                continue
            # Beside this loop: answers come during a turn.
            turn = asyncio.create_task(_answer(worker.turn, content, writer))
            turns.add(turn)
            turn.add_done_callback(turns.discard)
    except (OSError, EOFError):
        return  # the head is gone, and ends this process if it still can
    finally:
        writer.close()


async def _answer(
    turn: Callable[[WorkerTurn], Awaitable[WorkerUpdate]], content: WorkerTurn, writer: asyncio.StreamWriter
) -> None:
    answer: object
    try:
        kind, answer = UPDATE, await turn(content)
    except Exception:  # a bug: the head gets the traceback
        kind, answer = CRASH, traceback.format_exc()
    if not writer.is_closing():
        _write(writer, kind, answer)


def _write(writer: asyncio.StreamWriter, kind: bytes, content: object) -> None:
    # Not drained: a turn is answered before the next one is sent, so little can wait here.
    packed = pickle.dumps(content, protocol=5)
    writer.write(kind + len(packed).to_bytes(LENGTH_BYTES, "big") + packed)


async def _read(reader: asyncio.StreamReader) -> tuple[bytes, Any]:
    """What a message is, and its content. Raises OSError or EOFError where the other side is gone."""
    head = await reader.readexactly(1 + LENGTH_BYTES)
    packed = await reader.readexactly(int.from_bytes(head[1:], "big"))
    return head[:1], pickle.loads(packed)

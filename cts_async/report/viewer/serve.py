"""Serves the viewer on this machine's own address until somebody presses Ctrl-C."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from cts_async.errors import UsageError
from cts_async.report.viewer.app import Server

HOST: Final = "127.0.0.1"
PORT: Final = 8518
MORE_PORTS: Final = 20
"""Ports that are tried after the usual one, where somebody has that already."""
CLOSE_S: Final = 2.0
MAX_ADDRESS: Final = 1 << 16
"""Bytes of an address: a part of a trace is named by what the agent wanted, in Chinese nine bytes a character."""
SWITCH_S: Final = 0.001
"""How long a thread that indexes may keep the others waiting."""


def viewed_folder(path: Path) -> Path:
    """The folder to be shown, without links. Raises UsageError where it is none."""
    try:
        folder = path.resolve(strict=True)
    except (OSError, RuntimeError):
        raise UsageError(
            f"{path}: no such folder; name the folder that runs are in, or one run (cts run writes into runs/)"
        ) from None
    if not folder.is_dir():
        raise UsageError(f"{path}: is no folder; name the folder that runs are in, or one run")
    if not os.access(folder, os.R_OK | os.X_OK):
        raise UsageError(f"{path}: cannot be read")
    return folder


def listening(port: int | None) -> socket.socket:
    """A socket on `port`; without one on the usual port, or the next that is free. Raises UsageError."""
    ports = [port] if port is not None else range(PORT, PORT + MORE_PORTS)
    for wanted in ports:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((HOST, wanted))
            sock.listen(128)
        except OSError as error:
            sock.close()
            if port is not None:
                raise UsageError(f"--port {port}: {_why(error)}; choose another --port") from None
            if error.errno != errno.EADDRINUSE:
                raise UsageError(f"{HOST}:{wanted}: {_why(error)}") from None
        else:
            return sock
    raise UsageError(f"ports {PORT} to {PORT + MORE_PORTS - 1} are all in use; choose a free one with --port")


def _why(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "somebody listens there already"
    if error.errno == errno.EACCES:
        return "only root may listen there"
    return error.strerror or str(error)


def runner_of(folder: Path, port: int) -> web.AppRunner:
    """The server over a folder, to be set up and given a socket on that port."""
    logger = logging.getLogger(__name__)
    logger.addFilter(_is_ours)
    return web.AppRunner(
        Server(folder, lambda: port).app(),
        access_log=None,
        logger=logger,
        handle_signals=False,
        handler_cancellation=True,
        shutdown_timeout=CLOSE_S,
        max_line_size=MAX_ADDRESS,
    )


def _is_ours(record: logging.LogRecord) -> bool:
    """Not what somebody sent that is no HTTP: a browser that tries https first would fill the terminal with it."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


async def serve(folder: Path, sock: socket.socket, started: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; `started` is told the address."""
    sys.setswitchinterval(SWITCH_S)
    port = int(sock.getsockname()[1])
    runner = runner_of(folder, port)
    await runner.setup()
    try:
        await web.SockSite(runner, sock).start()
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(NotImplementedError):
                loop.add_signal_handler(number, stop.set)
        started(f"http://{HOST}:{port}/")
        await stop.wait()
    finally:
        await runner.cleanup()

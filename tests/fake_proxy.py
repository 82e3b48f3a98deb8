"""A real HTTP proxy on the loopback, and the certificates of servers behind it.

The certificates in `tls/` are for these tests alone: `server.pem` (api.test and localhost) and `expired.pem` (localhost)
are signed by `ca.pem`, `self_signed.pem` (localhost) by itself. All but the expired one are valid until 2120.
"""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

TLS = Path(__file__).with_name("tls")
CA = TLS / "ca.pem"


def server_tls(name: str = "server") -> ssl.SSLContext:
    """What a server needs that has the certificate `tls/{name}.pem`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / f"{name}.pem")
    return context


class FakeProxy:
    """Tunnels CONNECT and forwards requests in absolute form.

    `hosts` are names that only the proxy resolves, with the ports of this machine that they stand for. With `status`
    every request is refused; with `login` ("user:password") those without it.
    """

    def __init__(
        self,
        hosts: Mapping[str, int],
        *,
        status: int = 0,
        login: str = "",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.hosts, self.status, self._tls = hosts, status, tls
        self.needs = f"Basic {b64encode(login.encode()).decode()}" if login else ""
        self.asked: list[str] = []
        """The first line of each request."""
        self.heads: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        where = "https://localhost" if self._tls else "http://127.0.0.1"
        self.url = f"{where}:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # what was aborted is closed in the loop's next turn

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                await self._request(reader, writer)
        finally:
            writer.transport.abort()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.asked.append(head.partition("\r\n")[0])
        self.heads.append(head)
        method, target, _ = self.asked[-1].split(" ")
        host = target.partition(":")[0] if method == "CONNECT" else urlsplit(target).hostname or ""
        refused = self.status or (407 if self.needs and self.needs not in head else 0)
        refused = refused or (0 if host in self.hosts else 502)
        if refused:
            writer.write(f"HTTP/1.1 {refused} Refused\r\nContent-Length: 0\r\n\r\n".encode())
            writer.write_eof()
            await reader.read()
            return
        there, to_server = await asyncio.open_connection("127.0.0.1", self.hosts[host])
        try:
            if method == "CONNECT":
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                parts = urlsplit(target)
                to_server.write(head.replace(target, f"{parts.path}?{parts.query}".rstrip("?"), 1).encode())
            await asyncio.gather(_pump(reader, to_server), _pump(there, writer))
        finally:
            to_server.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    writer.close()

"""Web servers on this machine's loopback addresses, for the backends that search and read."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def served(
    handler: Handler,
    host: str = "127.0.0.1",
    port: int = 0,
    tls: ssl.SSLContext | None = None,
    keep_alive_s: float = 3630.0,
) -> AsyncIterator[str]:
    """Answer everything at `host` with `handler`; gives the server's address, without a final slash."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, keepalive_timeout=keep_alive_s)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, ssl_context=tls).start()
        yield f"{'https' if tls else 'http'}://{host}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def raw(answer: bytes) -> AsyncIterator[str]:
    """Answer every request with these very bytes, and hang up."""

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(reply, "127.0.0.1", 0) as server:
        yield "http://{}:{}".format(*server.sockets[0].getsockname())


def article(subject: str = "ferry", title: str = "Ferries", paragraphs: int = 12) -> str:
    """A page with a title, and a main text that says something about its subject."""
    lines = "".join(
        f"<p>Sentence number {i} says that the {subject} leaves at {i} o'clock from pier {i}.</p>"
        for i in range(paragraphs)
    )
    return f"<html><head><title>{title}</title></head><body><article>{lines}</article></body></html>"

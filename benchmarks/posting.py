"""Clients that post bodies and read replies, and do nothing else: what a transport costs by itself.

    python -m benchmarks.posting CLIENT URL BODIES N IN_FLIGHT

CLIENT is `session` (aiohttp's), `endpoint` (this project's `HttpEndpoint`), `protocol` (an `asyncio.Protocol` of thirty
lines, without deadlines, errors, proxies or anything else: the least that Python can do on uvloop) or `pyreqwest`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path
from typing import Final, cast

import uvloop
from yarl import URL

Post = Callable[[bytes], Awaitable[bytes]]
TIMEOUT_S: Final = 60.0


@asynccontextmanager
async def session(address: str) -> AsyncIterator[Post]:
    import aiohttp

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:

        async def post(body: bytes) -> bytes:
            headers = {"Content-Type": "application/json"}
            async with client.post(address, data=body, headers=headers) as response:
                return await response.read()

        yield post


@asynccontextmanager
async def endpoint(address: str) -> AsyncIterator[Post]:
    import aiohttp

    from cts_async.llm.http import ConnectionPool, HttpEndpoint, encode_headers

    headers = encode_headers({"Content-Type": "application/json"})
    async with aiohttp.ClientSession(connector=ConnectionPool()) as client:
        target = HttpEndpoint(client, address)

        async def post(body: bytes) -> bytes:
            return (await target.send(headers, body, TIMEOUT_S)).data

        yield post


class _Exchange(asyncio.Protocol):
    """One request at a time on one connection."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self._received = b""
        self._response: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are no subclass

    def send(self, request: bytes) -> asyncio.Future[bytes]:
        assert self.transport is not None
        self._received, self._response = b"", asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return self._response

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, _, body = self._received.partition(b"\r\n\r\n")
        length = head.lower().partition(b"\r\ncontent-length: ")[2].partition(b"\r\n")[0]
        if self._response is not None and length == b"%d" % len(body):
            self._response.set_result(body)


@asynccontextmanager
async def protocol(address: str) -> AsyncIterator[Post]:
    url, idle = URL(address), list[_Exchange]()
    head = f"POST {url.raw_path} HTTP/1.1\r\nHost: {url.host}\r\nContent-Type: application/json\r\n".encode()
    loop, secure = asyncio.get_running_loop(), None
    if url.scheme == "https":
        import ssl

        secure = ssl.create_default_context()

    async def post(body: bytes) -> bytes:
        if idle:
            exchange = idle.pop()
        else:
            _, exchange = await loop.create_connection(_Exchange, url.host, url.port, ssl=secure)
        response = await exchange.send(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body))
        idle.append(exchange)
        return response

    yield post


@asynccontextmanager
async def pyreqwest(address: str) -> AsyncIterator[Post]:
    from pyreqwest.client import ClientBuilder

    async with ClientBuilder().build() as client:

        async def post(body: bytes) -> bytes:
            request = client.post(address).header("Content-Type", "application/json").body_bytes(body)
            response = await request.build().send()
            return bytes(await response.bytes())

        yield post


CLIENTS: Final = {"session": session, "endpoint": endpoint, "protocol": protocol, "pyreqwest": pyreqwest}


async def main(client: str, url: str, bodies: Path, n: int, in_flight: int) -> int:
    """Post the first `n` bodies; gives the number of replies with verdicts."""
    n_verdicts = 0

    async def worker(post: Post, lines: Iterator[bytes]) -> None:
        nonlocal n_verdicts
        for line in lines:
            reply = await post(line)
            n_verdicts += b"results" in reply

    with bodies.open("rb") as file:
        lines = islice(file, n)
        async with CLIENTS[client](f"{url}/chat/completions") as post:
            await asyncio.gather(*(worker(post, lines) for _ in range(in_flight)))
    return n_verdicts


if __name__ == "__main__":
    name, address, bodies_file, number, at_once = sys.argv[1:]
    print(uvloop.run(main(name, address, Path(bodies_file), int(number), int(at_once))))

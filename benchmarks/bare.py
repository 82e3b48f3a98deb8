"""The yardstick: aiohttp on uvloop in a bare loop, orjson both ways, nothing else.

    python -m benchmarks.bare URL BODIES N IN_FLIGHT

Posts the first N bodies of a file from IN_FLIGHT workers and reads the verdicts out of the replies. It
has no limits, no retries, no checks, no journal, and forgets what it was told.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import aiohttp
import orjson
import uvloop


async def main(url: str, bodies: Path, n: int, in_flight: int) -> int:
    """Give the number of verdicts read."""
    address, done = f"{url}/chat/completions", 0
    headers = {"Content-Type": "application/json"}

    async def worker(session: aiohttp.ClientSession, lines: Iterator[bytes]) -> None:
        nonlocal done
        for line in lines:
            async with session.post(address, data=orjson.dumps(orjson.loads(line)), headers=headers) as reply:
                answer = orjson.loads(await reply.read())
            done += "results" in orjson.loads(answer["choices"][0]["message"]["content"])

    with bodies.open("rb") as file:
        lines = islice(file, n)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            await asyncio.gather(*(worker(session, lines) for _ in range(in_flight)))
    return done


if __name__ == "__main__":
    arguments = sys.argv[1:]
    print(uvloop.run(main(arguments[0], Path(arguments[1]), int(arguments[2]), int(arguments[3]))))

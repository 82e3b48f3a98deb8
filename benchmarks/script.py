"""The other yardstick: a script that judges candidates, as researchers write it by hand.

    python -m benchmarks.script URL BODIES N IN_FLIGHT OUT

A session, a semaphore, five tries with a pause that doubles, a line of JSON for each candidate as it is done, and
resuming by reading those lines. Everything is the standard library's, but for aiohttp. It keeps no limits, counts no
tokens, checks no labels, and loses what was in flight with each crash.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, TextIO

import aiohttp

TRIES = 5
POINTS = {"full": 1.0, "partial": 0.5, "none": 0.0}


async def main(url: str, bodies: Path, n: int, in_flight: int, out: Path) -> int:
    """Judge the first `n` candidates; gives the number of lines in OUT."""
    done = set()
    with out.open("a+") as lines:
        lines.seek(0)
        done = {json.loads(line)["id"] for line in lines}
    semaphore = asyncio.Semaphore(in_flight)
    with bodies.open() as file, out.open("a") as results:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            tasks = []
            for id, line in enumerate(file):
                if id == n:
                    break
                if id not in done:
                    tasks.append(
                        judge(session, semaphore, f"{url}/chat/completions", id, json.loads(line), results)
                    )
            await asyncio.gather(*tasks)
    with out.open() as lines:
        return sum(1 for _ in lines)


async def judge(
    session: aiohttp.ClientSession,
    semaphore: asyncio.Semaphore,
    address: str,
    id: int,
    body: dict[str, Any],
    results: TextIO,
) -> None:
    """Judge one candidate and write its line."""
    async with semaphore:
        for attempt in range(TRIES):
            try:
                async with session.post(address, json=body) as response:
                    response.raise_for_status()
                    reply = await response.json()
                text = reply["choices"][0]["message"]["content"]
                labels = {result["id"]: result["coverage"] for result in json.loads(text)["results"]}
                score = 100 * sum(POINTS[label] for label in labels.values()) / len(labels)
                results.write(
                    json.dumps({"id": id, "labels": labels, "score": score, "usage": reply.get("usage")})
                    + "\n"
                )
                results.flush()
                return
            except (aiohttp.ClientError, ValueError, KeyError):
                await asyncio.sleep(2**attempt)


if __name__ == "__main__":
    address, bodies_file, number, at_once, written = sys.argv[1:]
    print(asyncio.run(main(address, Path(bodies_file), int(number), int(at_once), Path(written))))

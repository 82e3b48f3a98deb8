"""What every peer's script is given on its command line, and how its work is counted. Standard library only."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from itertools import islice

URL, BODIES, N, IN_FLIGHT = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
MODEL, KEY = "bench-1", "sk-not-a-key"
Messages = list[dict[str, str]]


def conversations() -> list[Messages]:
    """The first N, each a system and a user message."""
    with open(BODIES, encoding="utf-8") as file:
        return [json.loads(line)["messages"] for line in islice(file, N)]


def verdicts(texts: list[str]) -> int:
    """How many replies hold verdicts."""
    return sum("results" in json.loads(text) for text in texts)


async def asked_by_workers(ask: Callable[[Messages], Awaitable[str]]) -> list[str]:
    """The replies of a client that has no runner of its own: IN_FLIGHT workers share the conversations."""
    stream, texts = iter(conversations()), []

    async def worker() -> None:
        for messages in stream:
            texts.append(await ask(messages))

    await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))
    return texts

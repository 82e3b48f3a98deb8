"""openai: its AsyncOpenAI client, chat completions, retries off as nothing fails here."""

from __future__ import annotations

import asyncio

from given import KEY, MODEL, URL, Messages, asked_by_workers, verdicts
from openai import AsyncOpenAI


async def main() -> None:
    async with AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0) as client:

        async def ask(messages: Messages) -> str:
            reply = await client.chat.completions.create(model=MODEL, messages=messages)
            return reply.choices[0].message.content

        print(verdicts(await asked_by_workers(ask)))


asyncio.run(main())

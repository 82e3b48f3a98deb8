"""litellm: `acompletion` at an OpenAI-style address."""

from __future__ import annotations

import asyncio

import litellm
from given import KEY, MODEL, URL, Messages, asked_by_workers, verdicts


async def ask(messages: Messages) -> str:
    reply = await litellm.acompletion(model=f"openai/{MODEL}", messages=messages, api_base=URL, api_key=KEY)
    return reply.choices[0].message.content


print(verdicts(asyncio.run(asked_by_workers(ask))))

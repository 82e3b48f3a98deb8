"""async-batch-llm: `process_prompts`, an OpenAI-compatible server, chat completions."""

from __future__ import annotations

import asyncio

from async_batch_llm import llm, process_prompts
from given import IN_FLIGHT, KEY, MODEL, URL, conversations, verdicts


async def main() -> None:
    asked = conversations()
    strategy = llm(
        f"openai-compatible:{MODEL}",
        base_url=URL,
        api_key=KEY,
        max_connections=IN_FLIGHT,
        system_instruction=asked[0][0]["content"],
    )
    batch = await process_prompts(strategy, [user["content"] for _, user in asked], concurrency=IN_FLIGHT)
    print(verdicts([result.output for result in batch.results]))


asyncio.run(main())

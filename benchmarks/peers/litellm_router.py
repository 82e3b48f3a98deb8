"""litellm's Router, which is what limits and retries: one deployment, limits on and out of reach."""

from __future__ import annotations

import asyncio

from given import KEY, MODEL, URL, Messages, asked_by_workers, verdicts
from litellm import Router

LIMITS = {"rpm": 60_000_000, "tpm": 600_000_000_000}
DEPLOYMENT = {"model": f"openai/{MODEL}", "api_base": URL, "api_key": KEY, **LIMITS}


async def main() -> None:
    router = Router(model_list=[{"model_name": "judge", "litellm_params": DEPLOYMENT}])

    async def ask(messages: Messages) -> str:
        reply = await router.acompletion(model="judge", messages=messages)
        return reply.choices[0].message.content

    print(verdicts(await asked_by_workers(ask)))


asyncio.run(main())

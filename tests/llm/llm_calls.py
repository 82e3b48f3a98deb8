"""Calls of a model and of a search service, and a form for any reply."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import aiohttp
import pytest
from yarl import URL

from cts_async.errors import CTSError
from cts_async.llm.apis import ChatRequest, Reply
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.http import ConnectionPool
from cts_async.llm.model import Client
from cts_async.search.backends.services import HttpEngine, text_of
from cts_async.search.catalog import EngineSpec

KEY = "sk-very-secret-0123456789"
CLARIFY = (
    {"role": "system", "content": "Ask."},
    {"role": "user", "content": "<blurred_query>\nferry\n</blurred_query>\nK = 2"},
)


class FreeText:
    """A form of which any text is, unchanged."""

    json_schema: ClassVar[dict[str, Any] | None] = None
    grammar: ClassVar[str | None] = None

    def parse(self, text: str) -> str:
        return text


def spec_at(url: str, **changes: Any) -> ModelSpec:
    """A model at `url` whose key is in MY_KEY."""
    spec = ModelSpec("mine", "openai", url, "m-1", "MY_KEY", "mine", 8, timeout_s=5.0)
    return replace(spec, **changes)


async def chat(spec: ModelSpec, key: str = KEY, **environ: str) -> Reply:
    async with Client({"MY_KEY": key, **environ}) as client:
        return await client.chat(spec, ChatRequest(CLARIFY))


async def search(url: str, key: str = KEY, **environ: str) -> str:
    """The text of the answer to a GET with the key in its headers."""
    environ = {"MY_KEY": key, **environ}
    spec = EngineSpec(name="mine", key_env="MY_KEY", timeout_s=5.0)
    async with aiohttp.ClientSession(connector=ConnectionPool(environ)) as session:
        return text_of(await HttpEngine(spec, environ, session).ask("GET", URL(url), {"X-API-KEY": key}))


async def failures(url: str, key: str = KEY, **environ: str) -> list[CTSError]:
    """The errors that a call of a model at `url` and a search there end in."""
    with pytest.raises(CTSError) as of_chat:
        await chat(spec_at(url), key, **environ)
    with pytest.raises(CTSError) as of_search:
        await search(url, key, **environ)
    return [of_chat.value, of_search.value]

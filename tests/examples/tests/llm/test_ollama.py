"""Ollama's wire format, against a server that speaks real HTTP."""

from __future__ import annotations

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from cts_async.engine.events import Usage
from cts_async.errors import NoCompletion, RejectedError
from cts_async.llm.apis import ChatRequest, Reply
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.model import Client


async def test_a_request_and_its_replies() -> None:
    seen: list[tuple[str, object]] = []
    done = {"message": {"content": "hello"}, "done_reason": "stop", "prompt_eval_count": 7, "eval_count": 2}
    answers = iter(
        [
            web.json_response(done | {"model": "llama3"}),
            web.json_response({"error": "no such model"}, status=400),
            web.json_response({"message": {}}),
        ]
    )

    async def answer(request: web.Request) -> web.Response:
        seen.append((request.path, orjson.loads(await request.read())))
        return next(answers)

    server = web.Application()
    server.router.add_post("/{path:.*}", answer)
    question = ({"role": "user", "content": "hi"},)
    request = ChatRequest(question, params={"max_tokens": 9, "temperature": 0.0})
    async with TestServer(server) as running, Client({}) as client:
        spec = ModelSpec("mine", "ollama", str(running.make_url("")).rstrip("/"), "llama3", None, "mine", 4)
        assert await client.chat(spec, request) == Reply("hello", "llama3", "stop", Usage(7, 2))
        with pytest.raises(RejectedError, match="no such model"):
            await client.chat(spec, request)
        with pytest.raises(NoCompletion):
            await client.chat(spec, request)
    options = {"num_predict": 9, "temperature": 0.0}
    body = {"model": "llama3", "messages": list(question), "stream": False, "options": options}
    assert seen == [("/api/chat", body)] * 3

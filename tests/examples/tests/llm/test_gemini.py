"""Gemini's wire format, against a server that speaks real HTTP."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from cts_async.engine.events import Usage
from cts_async.errors import NoCompletion, ProviderRefused, RateLimited, RejectedError
from cts_async.llm.apis import ChatRequest, Reply
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.model import Client

MESSAGES = (
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "Yes?"},
    {"role": "user", "content": "Say hello."},
)
USAGE = {"promptTokenCount": 12, "candidatesTokenCount": 3, "thoughtsTokenCount": 40, "totalTokenCount": 55}
PARTS = [{"text": "I greet.", "thought": True}, {"text": "Hel"}, {"text": "lo."}]
GOOD: dict[str, Any] = {
    "candidates": [{"content": {"parts": PARTS, "role": "model"}, "finishReason": "STOP", "index": 0}],
    "usageMetadata": USAGE,
    "modelVersion": "gemini-3-pro-001",
}


class Gemini:
    """A server with one answer a request, in order."""

    def __init__(self, *answers: tuple[int, Any]) -> None:
        self.answers = iter(answers)
        self.seen: list[web.Request] = []
        self.bodies: list[Any] = []
        self.app = web.Application()
        self.app.router.add_post("/{path:.*}", self.answer)

    async def answer(self, request: web.Request) -> web.Response:
        self.seen.append(request)
        self.bodies.append(orjson.loads(await request.read()))
        status, body = next(self.answers)
        return web.json_response(body, status=status)


def spec_at(running: TestServer, model: str = "gemini-3-pro") -> ModelSpec:
    base_url = str(running.make_url("/v1beta"))
    return ModelSpec(f"mine:{model}", "gemini", base_url, model, "GEMINI_KEY", "mine", 4, drops=("seed",))


async def chat(server: Gemini, request: ChatRequest, model: str = "gemini-3-pro") -> Reply:
    async with TestServer(server.app) as running, Client({"GEMINI_KEY": "AIza-secret"}) as client:
        return await client.chat(spec_at(running, model), request)


async def test_a_request_names_the_model_in_its_path_and_the_key_in_its_header() -> None:
    server = Gemini((200, GOOD))
    params = {"max_tokens": 9, "temperature": 0.0, "seed": 1}
    schema = {"type": "object"}
    reply = await chat(server, ChatRequest(MESSAGES, params=params, json_schema=schema), "tuned/my model")
    assert server.seen[0].raw_path == "/v1beta/models/tuned%2Fmy%20model:generateContent"
    assert server.seen[0].headers["x-goog-api-key"] == "AIza-secret"
    assert server.bodies == [
        {
            "contents": [
                {"role": "user", "parts": [{"text": "hi"}]},
                {"role": "model", "parts": [{"text": "Yes?"}]},
                {"role": "user", "parts": [{"text": "Say hello."}]},
            ],
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "generationConfig": {
                "maxOutputTokens": 9,
                "temperature": 0.0,
                "responseMimeType": "application/json",
                "responseJsonSchema": schema,
            },
        }
    ]
    assert reply == Reply("Hello.", "gemini-3-pro-001", "stop", Usage(12, 43), reasoning="I greet.")


async def test_two_models_of_one_server_have_their_own_paths() -> None:
    server = Gemini((200, GOOD), (200, GOOD))
    async with TestServer(server.app) as running, Client({}) as client:
        for model in ("gemini-3-pro", "gemini-3-flash"):
            await client.chat(spec_at(running, model), ChatRequest(MESSAGES))
    assert [request.path for request in server.seen] == [
        "/v1beta/models/gemini-3-pro:generateContent",
        "/v1beta/models/gemini-3-flash:generateContent",
    ]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 12}},
            Reply("", "", "refused", Usage(12, 0), refused="the prompt was blocked: SAFETY"),
        ),
        (
            {"candidates": [{"finishReason": "PROHIBITED_CONTENT"}]},
            Reply("", "", "refused", None, refused="the answer was withheld: PROHIBITED_CONTENT"),
        ),
        (
            {"candidates": [{"content": {"parts": [{"text": "Hel"}]}, "finishReason": "MAX_TOKENS"}]},
            Reply("Hel", "", "length", None),
        ),
    ],
)
async def test_a_reply_that_is_withheld_or_cut(body: Any, expected: Reply) -> None:
    assert await chat(Gemini((200, body)), ChatRequest(MESSAGES)) == expected


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (400, {"error": {"code": 400, "message": "bad", "status": "INVALID_ARGUMENT"}}, RejectedError),
        (
            403,
            {"error": {"code": 403, "message": "API key not valid", "status": "PERMISSION_DENIED"}},
            ProviderRefused,
        ),
        (429, {"error": {"code": 429, "message": "slow", "status": "RESOURCE_EXHAUSTED"}}, RateLimited),
        (200, {"candidates": []}, NoCompletion),
    ],
)
async def test_errors_are_read_as_any_providers(status: int, body: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        await chat(Gemini((status, body)), ChatRequest(MESSAGES))

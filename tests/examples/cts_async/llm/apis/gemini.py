"""Gemini's own API: the model stands in the path, and its thoughts are charged apart from the text."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import orjson

from cts_async.engine.events import Usage
from cts_async.engine.ratelimit import Quotas
from cts_async.llm.apis import ChatRequest, Reply, plausible_usage, served_name
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.responses import REFUSED, finish_reason

_NAMES: Final = {
    "max_tokens": "maxOutputTokens",
    "stop": "stopSequences",
    "top_p": "topP",
    "top_k": "topK",
    "frequency_penalty": "frequencyPenalty",
    "presence_penalty": "presencePenalty",
}
"""Parameters that have another name there."""


def path(spec: ModelSpec) -> str:
    return f"/models/{quote(spec.model, safe='')}:generateContent"


def headers(key: str) -> dict[str, str]:
    return {"x-goog-api-key": key} if key else {}


def body(spec: ModelSpec, request: ChatRequest) -> bytes:
    instructions = []
    contents = []
    for message in request.messages:
        part = {"text": message["content"]}
        if message["role"] == "system":
            instructions.append(part)
        else:
            role = "model" if message["role"] == "assistant" else "user"
            contents.append({"role": role, "parts": [part]})
    config: dict[str, Any] = {}
    for name, value in spec.sent(request.params).items():
        config[_NAMES.get(name, name)] = value
    if request.json_schema:
        config["responseMimeType"] = "application/json"
        config["responseJsonSchema"] = request.json_schema
    fields: dict[str, Any] = {"contents": contents, "generationConfig": config}
    if instructions:
        fields["systemInstruction"] = {"parts": instructions}
    return orjson.dumps(fields)


def reply(parsed: Any, quotas: Quotas | None) -> Reply:
    model = served_name(parsed.get("modelVersion"))
    usage = _usage(parsed.get("usageMetadata") or {})
    blocked = (parsed.get("promptFeedback") or {}).get("blockReason")
    if blocked and not parsed.get("candidates"):
        return Reply("", model, REFUSED, usage, quotas, refused=f"the prompt was blocked: {blocked}")
    candidate = parsed["candidates"][0]
    ended = finish_reason(candidate.get("finishReason"))
    texts: list[str] = []
    thoughts: list[str] = []
    for part in (candidate.get("content") or {}).get("parts") or ():
        if part.get("thought"):
            thoughts.append(part["text"])
        elif "text" in part:
            texts.append(part["text"])
    refused = ""
    if ended == REFUSED:
        refused = f"the answer was withheld: {candidate.get('finishReason')}"
    return Reply("".join(texts), model, ended, usage, quotas, "\n\n".join(thoughts), refused)


def _usage(counts: Mapping[str, int]) -> Usage | None:
    if "promptTokenCount" not in counts:
        return None
    output = counts.get("candidatesTokenCount", 0) + counts.get("thoughtsTokenCount", 0)
    return plausible_usage(counts["promptTokenCount"], output)

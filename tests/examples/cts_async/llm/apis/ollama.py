"""Ollama's own API."""

from typing import Any

import orjson

from cts_async.engine.ratelimit import Quotas
from cts_async.llm.apis import ChatRequest, Reply, plausible_usage, served_name
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.responses import finish_reason

PATH = "/api/chat"


def headers(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


def body(spec: ModelSpec, request: ChatRequest) -> bytes:
    options: dict[str, Any] = dict(spec.sent(request.params))
    if "max_tokens" in options:
        options["num_predict"] = options.pop("max_tokens")
    return orjson.dumps(
        {"model": spec.model, "messages": request.messages, "stream": False, "options": options}
    )


def reply(parsed: Any, quotas: Quotas | None) -> Reply:
    text = str(parsed["message"]["content"])
    usage = plausible_usage(parsed["prompt_eval_count"], parsed["eval_count"])
    return Reply(
        text, served_name(parsed.get("model")), finish_reason(parsed.get("done_reason")), usage, quotas
    )

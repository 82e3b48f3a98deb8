"""A provider that speaks real HTTP: chat completions (OpenAI's, Anthropic's), deterministic, with injected faults.

    async with FakeProvider(Settings(faults={"500": 0.05})) as provider: ...      in this process: provider.url
    with provider_process(latency_s=0.05) as provider: ...                        in a process beside this one
    python tests/fake_provider.py --port 0 --settings '{"latency_s": 0.05}'       by hand: prints {"url": ...}

Two rules: the same conversation always gets the same answer, and the n-th sending of one body meets the
same fault and the same latency in every run with the same seed, in whatever order requests arrive.
What a limit or an outage refused is no sending. `GET /stats` counts, `GET /seen` lists every request.
"""

from __future__ import annotations

import argparse
import asyncio
import atexit
import json
import math
import random
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache
from hashlib import blake2b
from itertools import pairwise
from typing import Any, Literal, Self

import orjson
from aiohttp import web
from fake_cache import PrefixCache
from fake_limits import Allowance, RetryAfter, ServerLimits, Verdict, ask_to_wait
from fake_roles import ROLES, call_of_tool, role_of, say

OutageKind = Literal["refuse", "503", "hang"]

# --- The two shapes of API: reading a request, and writing an answer or an error ---

Api = Literal["openai", "anthropic"]
Ending = Literal["stop", "length", "refused"]

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
_TAKEN = frozenset(
    {"model", "messages", "system", "max_tokens", "temperature", "thinking", "stop_sequences", "stream"}
)


def api_of(path: str) -> Api:
    return "anthropic" if path == MESSAGES else "openai"


@dataclass(frozen=True)
class Said:
    """An answer before it has a shape; `used` are tokens in and out."""

    model: str
    text: str
    ending: Ending
    used: tuple[int, int]
    reasoning: str = ""
    tool: tuple[str, dict[str, str]] | None = None
    """The tool it calls, with its arguments, in the place of a text."""
    cached: int = 0
    written: int = 0
    """Of the tokens in, those read from the cache and those written to it at a price of their own."""
    tier: str = ""


def plain_messages(asked: Mapping[str, Any]) -> list[dict[str, str]]:
    """A request's messages, of which some may be blocks that end where a cache is to keep what comes before."""
    messages: list[dict[str, str]] = []
    for message in asked["messages"]:
        if isinstance(message["content"], list):
            text = "".join(block.get("text", "") for block in message["content"])
            message = {**message, "content": text}
        messages.append(message)
    return messages


def conversation(asked: Mapping[str, Any]) -> list[dict[str, str]]:
    """A request's messages in OpenAI's form; the first are instructions, if only empty ones."""
    messages = plain_messages(asked)
    if messages and messages[0]["role"] == "system":
        return messages
    return [{"role": "system", "content": asked.get("system", "")}, *messages]


def key_in(api: Api, headers: Mapping[str, str]) -> str:
    return headers.get("x-api-key", "") if api == "anthropic" else headers.get("Authorization", "")[7:]


def problem_in(api: Api, asked: Mapping[str, Any], headers: Mapping[str, str]) -> str:
    """Why the messages API would answer 400; it is strict where OpenAI-style servers are not."""
    if api == "openai":
        return ""
    if headers.get("anthropic-version") != "2023-06-01":
        return "anthropic-version: header is required"
    if not isinstance(asked.get("max_tokens"), int):
        return "max_tokens: Field required"
    if extra := asked.keys() - _TAKEN:
        return f"{min(extra)}: Extra inputs are not permitted"
    roles = [message["role"] for message in asked["messages"]]
    if not set(roles) <= {"user", "assistant"}:
        return 'messages: Unexpected role "system"'
    if not roles or roles[0] != "user" or any(a == b for a, b in pairwise(roles)):
        return "messages: roles must alternate, beginning with user"
    if roles[-1] != "user":
        return "This model does not support assistant message prefill. The conversation must end with a user message."
    if not all(message["content"].strip() for message in plain_messages(asked)):
        return "messages: text content blocks must be non-empty"
    return ""


def completion(api: Api, said: Said) -> dict[str, Any]:
    """The body of an answer."""
    return _message(said) if api == "anthropic" else _chat_completion(said)


def error(api: Api, message: str, code: str) -> dict[str, Any]:
    """The body of an error."""
    if api == "anthropic":
        return {"type": "error", "error": {"type": code, "message": message}, "request_id": "req_1"}
    return {"error": {"message": message, "type": code, "code": code}}


def _chat_completion(said: Said) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": said.text}
    if said.reasoning:
        message["reasoning_content"] = said.reasoning
    if said.ending == "refused":
        message |= {"content": None, "refusal": "I cannot help with that."}
    choice = {"message": message, "finish_reason": "length" if said.ending == "length" else "stop"}
    if said.tool:
        name, arguments = said.tool
        function = {"name": name, "arguments": json.dumps(arguments)}
        message |= {
            "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
        }
        choice["finish_reason"] = "tool_calls"
    usage: dict[str, Any] = {
        "prompt_tokens": said.used[0],
        "completion_tokens": said.used[1],
        "total_tokens": sum(said.used),
    }
    if said.cached:
        usage["prompt_tokens_details"] = {"cached_tokens": said.cached}
    body = {"model": said.model, "choices": [choice], "usage": usage}
    if said.tier:
        body["service_tier"] = said.tier
    return body


def _message(said: Said) -> dict[str, Any]:
    content = [{"type": "text", "text": said.text}] if said.text and said.ending != "refused" else []
    if said.reasoning:
        content.insert(0, {"type": "thinking", "thinking": said.reasoning, "signature": "EqQB"})
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": said.model,
        "content": content,
        "stop_reason": {"stop": "end_turn", "length": "max_tokens", "refused": "refusal"}[said.ending],
        "stop_sequence": None,
        "usage": {
            "input_tokens": said.used[0] - said.cached - said.written,
            "cache_creation_input_tokens": said.written,
            "cache_read_input_tokens": said.cached,
            "output_tokens": said.used[1],
        },
    }


# --- Behaviour ---


@dataclass
class Settings:
    """How the provider behaves; all of it may be changed while it runs, except the allowance."""

    latency_s: float = 0.0
    latency_sigma: float = 0.0
    """Log-normal around the median `latency_s`; 0 is always the median."""
    faults: dict[str, float] = field(default_factory=dict)
    """Share of requests by name of fault (see ALL_FAULTS); a fault that a role cannot have leaves it well."""
    retry_after_s: float = 0.2
    retry_after: RetryAfter = "fraction"
    """How the faults 429 and 503 spell it."""
    drip_s: float = 0.01
    hang_s: float = 60.0
    """How long a request hangs before its connection is dropped, if the client does not give up first."""
    allowance: dict[str, Any] = field(default_factory=dict)
    """Fields of Allowance, enforced for each key by itself; none is no limit."""
    unknown_share: float = 1.0
    """Share of clarifying questions that the User Answerer does not know the answer to."""
    outage: bool = False  # every connection is dropped without a word
    outages: list[tuple[float, float, OutageKind]] = field(default_factory=list)
    """From when to when, in seconds after the first request, and what then becomes of those that arrive."""
    key: str = ""
    """The only key accepted; any if empty. A 401 repeats the key it got, as careless servers do."""
    served_model: str = ""  # the model asked for if empty
    thoughts: Literal["", "apart", "in the text"] = ""
    """Whether its models reason, and where an answer has what they thought."""
    refuses: str = ""  # a role in which the model declines to answer
    refusing_model: str = ""  # only this model does
    refuses_about: str = ""  # only requests that contain this
    keep: bool = False  # the messages of every request
    caches: int = 0
    """The fewest tokens of a prefix that it caches, see fake_cache; 0: it caches nothing. Providers have 1,024."""
    served_tier: str = ""  # what replies call their service_tier; the one asked for if empty
    refused_tier: str = ""  # a tier that no model here has: 400
    no_capacity: int = 0
    """How many requests in a tier are refused for capacity, the first ones."""
    seed: int = 0


@dataclass
class Seen:
    """One request as the server saw it; times are `time.monotonic()`, which processes share."""

    digest: str
    role: str
    at: float
    fault: str = ""  # of FAULTS, "limit REASON", "outage KIND", "400" or "401"
    retry_at: float | None = None  # when the same request may come again, if the answer said so
    messages: list[dict[str, str]] | None = None
    temperature: float | None = None
    tier: str = ""


# --- What can go wrong ---
STATUS_FAULTS = ("429", "500", "503", "529")
BODY_FAULTS = ("reset", "truncated", "html", "error_200", "slow")
_JSON = frozenset({"clarify", "clarify_turn", "select_query", "judge", "gold"})
CONTENT_FAULTS: Mapping[str, tuple[frozenset[str], Callable[[str], str]]] = {
    "empty": (ROLES, lambda text: ""),
    "length": (ROLES, lambda text: text[: len(text) // 2]),
    "fenced": (_JSON, lambda text: f"Here it is:\n```json\n{text}\n```"),
    "half": (_JSON, lambda text: text[: len(text) // 2]),
    "wrong_ids": (frozenset({"judge"}), lambda text: text.replace('"id": "', '"id": "X')),
    "wrong_count": (frozenset({"clarify"}), lambda text: f'{text[:-1]}, "One more?"]'),
}
"""By name: the roles that can have it, and what it makes of a good answer."""
FAULTS = (*STATUS_FAULTS, *BODY_FAULTS, *CONTENT_FAULTS)
THOUGHTS = "Shall I say [] or {}? I think about it."
ALL_FAULTS = (*FAULTS, "hang")
"""`hang` stands apart because it costs a client its whole timeout."""
PAID = frozenset({"", "slow", *CONTENT_FAULTS})
"""What ends in a whole chat completion, for which a provider charges."""


def fault_of(settings: Settings, role: str, digest: str, nth: int) -> str:
    """The fault that the `nth` sending of a body meets, "" for none."""
    drawn = random.Random(f"{settings.seed}/{digest}/{nth}").random()
    for name, share in settings.faults.items():
        drawn -= share
        if drawn < 0:
            return name if name not in CONTENT_FAULTS or role in CONTENT_FAULTS[name][0] else ""
    return ""


def latency_of(settings: Settings, digest: str, nth: int) -> float:
    """Seconds that the `nth` sending of a body takes."""
    if not settings.latency_sigma:
        return settings.latency_s
    normal = random.Random(f"latency/{settings.seed}/{digest}/{nth}").gauss()
    return settings.latency_s * math.exp(settings.latency_sigma * normal)


def outage_of(settings: Settings, age_s: float) -> tuple[OutageKind, float] | None:
    """The outage `age_s` after the first request, and how long it still lasts."""
    if settings.outage:
        return "refuse", math.inf
    for from_s, to_s, kind in settings.outages:
        if from_s <= age_s < to_s:
            return kind, to_s - age_s
    return None


@dataclass(frozen=True)
class Asked:
    """A request read: its role, and the answer there would be without faults."""

    digest: str
    role: str
    messages: list[dict[str, str]]
    model: str
    api: Api
    key: str
    problem: str
    tools: tuple[str, ...] = ()
    """Names of the tools that the model is offered."""
    temperature: float | None = None
    tier: str = ""
    mark: int | None = None
    """Where the cache is told that what comes before will be repeated, in bytes; None: nowhere."""

    @property
    def text(self) -> bytes:
        return "".join(message["content"] or "" for message in self.messages).encode()

    @property
    def input_tokens(self) -> int:
        return sum(len((message["content"] or "").encode()) for message in self.messages) // 4

    @property
    def is_cached(self) -> bool:
        """Whether a cache has anything to do with it: the messages API caches nothing without a mark."""
        return self.api == "openai" or self.mark is not None

    def completion(
        self, settings: Settings, fault: str, cached: tuple[int, int] = (0, 0)
    ) -> tuple[bytes, int]:
        """The body of the answer, and all tokens charged for it; `cached` were read from, and written to, a cache."""
        text = say(self.role, self.messages, settings.unknown_share)
        if fault in CONTENT_FAULTS:
            text = CONTENT_FAULTS[fault][1](text)
        thoughts = THOUGHTS if settings.thoughts else ""
        used = self.input_tokens, len(f"{thoughts}{text}".encode()) // 4 + 1
        if settings.thoughts == "in the text":
            text, thoughts = f"<think>\n{thoughts}\n</think>\n\n{text}", ""
        refused = settings.refuses == self.role and settings.refusing_model in ("", self.model)
        refused = refused and any(settings.refuses_about in one["content"] for one in self.messages)
        ending = "length" if fault == "length" else "refused" if refused else "stop"
        tool = call_of_tool(self.messages, self.tools)
        tier = (settings.served_tier or self.tier) if self.tier else ""
        model = settings.served_model or self.model
        said = Said(model, text, ending, used, thoughts, tool, *cached, tier)
        return orjson.dumps(completion(self.api, said)), sum(used)


def read_request(path: str, headers: Mapping[str, str], body: bytes) -> Asked:
    asked, api = orjson.loads(body), api_of(path)
    problem = problem_in(api, asked, headers)
    messages = conversation(asked)
    return Asked(
        digest_of(body),
        role_of(messages[1]["content"]),
        messages,
        asked["model"],
        api,
        key_in(api, headers),
        problem,
        tuple(tool["function"]["name"] for tool in asked.get("tools", ())),
        asked.get("temperature"),
        asked.get("service_tier", ""),
        mark_in(asked),
    )


def mark_in(asked: Mapping[str, Any]) -> int | None:
    """Bytes before the last mark for the cache in a request to the messages API; None without one."""
    n_bytes, mark = len(asked.get("system", "").encode()), None
    for message in asked["messages"]:
        blocks = message["content"]
        if not isinstance(blocks, list):
            blocks = [{"text": blocks or ""}]
        for block in blocks:
            n_bytes += len(block.get("text", "").encode())
            if "cache_control" in block:
                mark = n_bytes
    return mark


# --- The server ---


class FakeProvider:
    """The server; `seen` has every chat request in order of arrival."""

    def __init__(self, settings: Settings | None = None, port: int = 0) -> None:
        self.settings, self._port = settings or Settings(), port
        self.seen: list[Seen] = []
        self.counts: Counter[str] = Counter()  # of each body, by its digest
        self.paid: Counter[str] = Counter()  # whole answers given, by the body's digest
        self.paid_tokens = 0
        self.in_flight = self.max_in_flight = 0
        self.url = ""
        self._limits: dict[str, ServerLimits] = {}
        self._cache = PrefixCache()
        app = web.Application(client_max_size=1 << 26)
        for path in (CHAT, MESSAGES):
            app.router.add_post(path, self._chat)
        app.router.add_get("/seen", self._tell)
        app.router.add_get("/stats", self._count)
        app.router.add_post("/settings", self._set)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    def stats(self) -> dict[str, Any]:
        """Counts so far; `paid_twice` is how many answers were given beyond the first to the same body."""
        return {
            "requests": len(self.seen),
            "refused": sum(seen.fault.startswith("limit") for seen in self.seen),
            "by_fault": dict(Counter(seen.fault for seen in self.seen if seen.fault)),
            "paid": self.paid.total(),
            "paid_tokens": self.paid_tokens,
            "paid_twice": self.paid.total() - len(self.paid),
            "in_flight": self.in_flight,
            "max_in_flight": self.max_in_flight,
        }

    async def _tell(self, request: web.Request) -> web.Response:
        return web.json_response([asdict(seen) for seen in self.seen])

    async def _count(self, request: web.Request) -> web.Response:
        return web.json_response(self.stats())

    async def _set(self, request: web.Request) -> web.Response:
        vars(self.settings).update(await request.json())
        return web.json_response({})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        now, settings = time.monotonic(), self.settings
        asked = read_request(request.path, request.headers, await request.read())
        kept = asked.messages if settings.keep else None
        seen = Seen(
            asked.digest, asked.role, now, messages=kept, temperature=asked.temperature, tier=asked.tier
        )
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        try:
            outage = outage_of(settings, now - (self.seen[0].at if self.seen else now))
            if not settings.outage:  # a plug that was pulled notes nothing
                self.seen.append(seen)
            if outage:
                return await self._down(request, seen, *outage)
            return await self._received(request, asked, seen)
        finally:
            self.in_flight -= 1

    async def _down(
        self, request: web.Request, seen: Seen, kind: OutageKind, left_s: float
    ) -> web.StreamResponse:
        seen.fault = f"outage {kind}"
        if kind == "503":
            return _refusal(api_of(request.path), 503, "down for maintenance", "busy")
        if kind == "hang":
            await asyncio.sleep(min(left_s, self.settings.hang_s))
        return _dropped(request)

    async def _received(self, request: web.Request, asked: Asked, seen: Seen) -> web.StreamResponse:
        """What becomes of a request while the provider is up: keys first, then limits, then faults."""
        if self.settings.key and asked.key != self.settings.key:
            seen.fault = "401"
            return _refusal(asked.api, 401, f"Incorrect API key provided: {asked.key}", "invalid_api_key")
        if asked.problem:
            seen.fault = "400"
            return _refusal(asked.api, 400, asked.problem, "invalid_request_error")
        if asked.tier and asked.tier == self.settings.refused_tier:
            seen.fault = "400"
            problem = f"Invalid service_tier argument: {asked.tier} is not available for this model"
            return _refusal(asked.api, 400, problem, "invalid_request_error")
        if asked.tier and self.settings.no_capacity > 0:
            self.settings.no_capacity -= 1
            seen.fault = "429"
            return _refusal(asked.api, 429, "Resource Unavailable", "resource_unavailable")
        limits = self._account(asked.key)
        verdict = limits.arrive(seen.at, asked.input_tokens)
        if not verdict.ok:
            seen.fault = f"limit {verdict.reason}"
            if verdict.retry_after_s is not None:
                seen.retry_at = seen.at + verdict.retry_after_s
            return _refusal(asked.api, 429, "slower, please", "rate_limit_exceeded", verdict.headers)
        try:
            return await self._sent(request, asked, seen, limits, verdict)
        finally:
            limits.left()

    def _account(self, key: str) -> ServerLimits:
        if key not in self._limits:
            epoch_s = time.time() - time.monotonic()
            self._limits[key] = ServerLimits(Allowance(**{"epoch_s": epoch_s, **self.settings.allowance}))
        return self._limits[key]

    async def _sent(
        self, request: web.Request, asked: Asked, seen: Seen, limits: ServerLimits, verdict: Verdict
    ) -> web.StreamResponse:
        settings, digest, nth = self.settings, asked.digest, self.counts[asked.digest]
        seen.fault = fault_of(settings, seen.role, digest, nth)
        self.counts[digest] += 1
        cached = (0, 0)
        if settings.caches and asked.is_cached:
            self._cache.min_tokens = settings.caches
            cached = self._cache.find(asked.text, time.monotonic(), asked.mark)
        await asyncio.sleep(latency_of(settings, digest, nth))
        if seen.fault == "hang":
            await asyncio.sleep(settings.hang_s)
            return _dropped(request)
        if seen.fault in STATUS_FAULTS:
            return self._busy(asked.api, seen)
        if settings.caches and asked.is_cached:
            self._cache.keep(asked.text, time.monotonic(), asked.mark)
        data, tokens = asked.completion(settings, seen.fault, cached)
        limits.settle(time.monotonic(), asked.input_tokens, tokens)
        if seen.fault in PAID:
            self.paid[digest] += 1
            self.paid_tokens += tokens
        return await self._reply(request, data, seen.fault, verdict.headers)

    def _busy(self, api: Api, seen: Seen) -> web.Response:
        settings, head = self.settings, {}
        if seen.fault in ("429", "503"):
            head, wait_s = ask_to_wait(settings.retry_after, settings.retry_after_s, time.time())
            seen.retry_at = None if wait_s is None else time.monotonic() + wait_s
        return _refusal(api, int(seen.fault), "not now, please", "busy", head)

    async def _reply(
        self, request: web.Request, data: bytes, fault: str, head: Mapping[str, str]
    ) -> web.StreamResponse:
        if fault == "html":
            return web.Response(text="<html><body>Be right back</body></html>", content_type="text/html")
        if fault == "error_200":
            return _refusal(api_of(request.path), 200, "the engine is overloaded", "engine_overloaded")
        if fault in ("reset", "slow"):
            return await self._dripped(request, data, reset=fault == "reset")
        cut = len(data) // 2 if fault == "truncated" else None
        return web.Response(body=data[:cut], content_type="application/json", headers=head)

    async def _dripped(self, request: web.Request, data: bytes, *, reset: bool) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": str(len(data))})
        await response.prepare(request)
        grain = len(data) // 8 + 1
        for start in range(0, len(data), grain):
            await response.write(data[start : start + grain])
            if reset:
                return _dropped(request, response)
            await asyncio.sleep(self.settings.drip_s)
        return response


def digest_of(body: bytes) -> str:
    """What decides the fault and the latency of a request: the same for a client that does not mention streams."""
    return blake2b(body.replace(b'"stream":false,', b""), digest_size=8).hexdigest()


def _refusal(
    api: Api, status: int, message: str, code: str, head: Mapping[str, str] | None = None
) -> web.Response:
    return web.json_response(error(api, message, code), status=status, headers=head)


def _dropped(request: web.Request, response: web.StreamResponse | None = None) -> web.StreamResponse:
    if request.transport:
        request.transport.abort()
    return response or web.Response()


# --- A process of its own ---


@dataclass(frozen=True)
class Remote:
    """A provider in another process."""

    url: str

    def seen(self) -> list[Seen]:
        return [Seen(**seen) for seen in self._get("seen")]

    def stats(self) -> dict[str, Any]:
        """See FakeProvider.stats."""
        stats: dict[str, Any] = self._get("stats")
        return stats

    def set(self, **settings: Any) -> None:
        data = json.dumps(settings).encode()
        urllib.request.urlopen(f"{self._root}/settings", data).close()

    def _get(self, name: str) -> Any:
        with urllib.request.urlopen(f"{self._root}/{name}") as response:
            return json.load(response)

    @property
    def _root(self) -> str:
        return self.url.removesuffix("/v1")


@contextmanager
def provider_process(**settings: Any) -> Iterator[Remote]:
    """Serve a new provider, at a port of its own, in a process that all of them share; it ends with the caller."""
    url = _ask_host(settings)
    try:
        yield Remote(url)
    finally:
        _ask_host(url)


def _ask_host(line: dict[str, Any] | str) -> str:
    """Send a line to the process of all providers; returns the address in its reply."""
    host = _host()
    host.stdin.write(json.dumps(line).encode() + b"\n")
    host.stdin.flush()
    url: str = json.loads(host.stdout.readline())["url"]
    return url


@cache
def _host() -> subprocess.Popen[bytes]:
    """Start this file as a program, once: it takes half a second of a processor."""
    host = subprocess.Popen(
        [sys.executable, __file__, "--host"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    atexit.register(host.__exit__, None, None, None)
    return host


async def serve_lines() -> None:
    """Start a provider for each line of settings on standard input, stop the one whose address a line is."""
    providers: dict[str, FakeProvider] = {}
    while line := await asyncio.to_thread(sys.stdin.readline):
        asked = json.loads(line)
        if isinstance(asked, str):
            provider = providers.pop(asked)
            await provider.__aexit__()
        else:
            provider = FakeProvider(Settings(**asked))
            await provider.__aenter__()
            providers[provider.url] = provider
        print(json.dumps({"url": provider.url}), flush=True)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--settings", type=json.loads, default={}, help="fields of Settings, as JSON")
    parser.add_argument("--host", action="store_true", help="start and stop providers by standard input")
    asked = parser.parse_args()
    if asked.host:
        await serve_lines()
        return
    async with FakeProvider(Settings(**asked.settings), asked.port) as provider:
        print(json.dumps({"url": provider.url}), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())

"""One attempt over real HTTP: what each failure becomes, and that the key stays where it belongs."""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web
from fake_provider import FakeProvider, Settings
from fake_proxy import CA, server_tls
from fake_web import Handler, served
from llm_calls import CLARIFY, KEY, FreeText, chat, failures, spec_at

from cts_async.analysis.summary import summarise_run
from cts_async.engine.events import Events, Notice
from cts_async.engine.journal import Journal, read_records
from cts_async.engine.lane import Lane, LaneLimits
from cts_async.engine.runner import Context, Job, Runner
from cts_async.engine.step import RetryPolicy
from cts_async.errors import (
    CTSError,
    NoCompletion,
    ProviderRefused,
    RateLimited,
    RejectedError,
    StepError,
    TimedOut,
    TransientError,
)
from cts_async.llm import model
from cts_async.llm.apis import ChatRequest
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.http import HttpEndpoint
from cts_async.llm.model import Client, Model, ModelCall, ServedModels
from cts_async.llm.parsing import QuestionList
from cts_async.llm.refusals import refused_parameter
from cts_async.tables.results import dropped_parameters
from cts_async.tables.summary import write_summary


async def failure(handler: Handler, key: str = KEY, **changes: Any) -> CTSError:
    """How an attempt ends at a server that answers with `handler`."""
    async with served(handler) as url:
        with pytest.raises(CTSError) as caught:
            await chat(spec_at(f"{url}/v1", **changes), key)
    return caught.value


@pytest.mark.parametrize("api", ["openai", "anthropic"])
@pytest.mark.parametrize("fault", ["500", "503", "529", "429", "reset", "truncated", "html", "error_200"])
async def test_provider_faults_are_transient(fault: str, api: str) -> None:
    async with FakeProvider(Settings(faults={fault: 1.0}, retry_after_s=0.2)) as provider:
        with pytest.raises(TransientError) as caught:
            await chat(spec_at(provider.url, api=api))
    error = caught.value
    assert error.retry_after_s == (0.2 if fault in ("429", "503") else None)
    assert KEY not in f"{error} {error!r} {error.args} {error.__cause__!r}"
    if fault == "reset":  # no sign of an outage: the server is there
        assert (error.status, error.unsent) == (200, False)
        assert str(error).endswith("/v1: the response broke off")


async def test_one_client_uses_the_api_of_each_model() -> None:
    async with FakeProvider(Settings(key=KEY)) as provider, Client({"MY_KEY": f" {KEY}\r\n"}) as client:
        specs = [spec_at(provider.url, name=api, api=api) for api in ("openai", "anthropic") * 2]
        replies = [await client.chat(spec, ChatRequest(CLARIFY)) for spec in specs]
        with pytest.raises(ProviderRefused) as caught:
            await chat(specs[1], "sk-wrong-9876543210")
    assert len({reply.text for reply in replies}) == 1
    assert {reply.finish_reason for reply in replies} == {"stop"}
    assert all(reply.usage and reply.usage.input_tokens > 0 for reply in replies)
    assert "sk-wrong" not in str(caught.value)
    assert "(key)" in str(caught.value)


@pytest.mark.parametrize(
    ("blocks", "timeouts", "problem"),
    [
        (0, {"timeout_s": 0.1}, "no response within 0.1 s"),
        (1000, {"timeout_s": 0.2}, "no response within 0.2 s"),
        (1, {"timeout_s": 30.0, "idle_timeout_s": 0.1}, "not a byte for 0.1 s"),
    ],
)
async def test_response_that_takes_too_long_times_out(
    blocks: int, timeouts: dict[str, float], problem: str
) -> None:
    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        for n in range(blocks):
            if n == 0:
                await response.prepare(request)
            await response.write(b" ")
            await asyncio.sleep(0.02 if blocks > 1 else 0)
        await asyncio.sleep(60)
        return response

    error = await failure(drip, **timeouts)
    assert type(error) is TimedOut
    assert str(error).endswith(f"/v1: {problem}")
    assert error.status is None


async def test_unreachable_server_is_transient_and_named() -> None:
    async with FakeProvider() as provider:
        url = provider.url
    with pytest.raises(TransientError) as caught:
        await chat(spec_at(url))
    assert str(caught.value) == f"mine: {url}: no connection (Connection refused)"
    assert caught.value.status is None
    with pytest.raises(TransientError, match=r"no-such-host\.invalid/v1: no connection \("):
        await chat(spec_at("http://no-such-host.invalid/v1"))


async def test_redirects_are_not_followed() -> None:
    paths = []

    async def elsewhere(request: web.Request) -> web.Response:
        paths.append(request.path)
        return web.Response(status=307, headers={"Location": "/other"})

    assert type(await failure(elsewhere)) is ProviderRefused
    assert paths == ["/v1/chat/completions"]


@pytest.mark.parametrize(
    ("encoding", "status", "kind", "problem"),
    [
        ("gzip", 200, TransientError, "compression is broken"),
        ("deflate", 200, TransientError, "compression is broken"),
        ("br", 200, RejectedError, "compressed as 'br', which was not offered"),
        ("gzip, gzip", 200, RejectedError, "compressed as 'gzip, gzip', which was not offered"),
        # An error means what its status says, whether its body can be read or not.
        ("gzip", 503, TransientError, "HTTP 503"),
        ("br", 429, RateLimited, "HTTP 429"),
        ("br", 401, ProviderRefused, "HTTP 401"),
    ],
)
async def test_body_that_cannot_be_decompressed(
    encoding: str, status: int, kind: type[CTSError], problem: str
) -> None:
    async def garbage(request: web.Request) -> web.Response:
        assert request.headers["Accept-Encoding"] == "gzip, deflate"
        return web.Response(status=status, body=b"no such thing", headers={"Content-Encoding": encoding})

    error = await failure(garbage)
    assert (type(error), problem in str(error)) == (kind, True)
    if isinstance(error, TransientError):
        assert error.status == status


@pytest.mark.parametrize(
    ("certificate", "host", "trusted", "why"),
    [
        ("server", "localhost", False, "unable to get local issuer certificate"),
        ("self_signed", "localhost", True, "self-signed certificate"),
        ("server", "127.0.0.1", True, "IP address mismatch"),
        ("expired", "localhost", True, "certificate has expired"),
    ],
)
async def test_invalid_certificate_stops_the_provider_and_names_ssl_cert_file(
    monkeypatch: pytest.MonkeyPatch, certificate: str, host: str, trusted: bool, why: str
) -> None:
    trust = ssl.create_default_context(cafile=str(CA)) if trusted else ssl.create_default_context()
    monkeypatch.setattr("aiohttp.connector._SSL_CONTEXT_VERIFIED", trust)

    async with served(echo(200), tls=server_tls(certificate)) as url:
        errors = await failures(url.replace("127.0.0.1", host))
    for error in errors:
        assert type(error) is ProviderRefused
        assert f"the certificate of {host} is refused ({why}" in str(error)
        assert "SSL_CERT_FILE" in str(error)


def echo(status: int) -> Handler:
    async def handler(request: web.Request) -> web.Response:
        told = f"Incorrect API key provided: {request.headers['Authorization']}"
        return web.json_response({"error": {"message": "x" * 280 + told}}, status=status)

    return handler


@pytest.mark.parametrize("status", [200, 302, 400, 401, 403, 404, 429, 500])
async def test_error_never_repeats_the_key(status: int) -> None:
    error = await failure(echo(status))
    assert not any(KEY[:n] in f"{error} {error!r} {error.args}" for n in range(8, len(KEY) + 1))


async def test_good_answer_that_repeats_the_key_loses_it() -> None:
    async def careless(request: web.Request) -> web.Response:
        key = request.headers["Authorization"]
        return web.json_response({"model": key, "choices": [{"message": {"content": f"hello {key}"}}]})

    async with served(careless) as url:
        reply = await chat(spec_at(url))
    assert (reply.text, reply.model) == ("hello Bearer (key)", "Bearer (key)")


async def test_endless_response_is_given_up_before_it_takes_all_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(HttpEndpoint.send.__kwdefaults__, "max_bytes", 1_000_000)
    sent = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" " * 65_536)
            sent += 65_536

    error = await failure(endless)
    assert type(error) is TransientError
    assert "a response of more than 1,000,000 bytes" in str(error)
    assert error.status == 200  # it may be this request's fault: no outage
    assert sent < 20_000_000  # the last of it lies in the sockets' buffers


async def test_key_that_is_none() -> None:
    assert str(await failure(echo(500), key="x")).startswith("mine: HTTP 500: xxxx"), "a dummy stays"
    for key in ("sk-secret\nX-Other: 1", "sk-secret\x00more"):
        error = await failure(echo(200), key=key)
        assert type(error) is ProviderRefused
        assert "MY_KEY is no key" in str(error)
        assert "sk-secret" not in str(error)


# --- A model in use ---------------------------------------------------------------------------------------


async def run_job(
    directory: Path, spec: ModelSpec, walk: Callable[[Context, Model], Awaitable[Any]], jobs: int = 1
) -> tuple[list[Any], list[dict[str, Any]], list[str]]:
    """Run `walk` in some jobs, one after the other: results or errors, records, notices."""
    ended: list[Any] = []
    notices: list[str] = []
    journal = Journal(directory / "steps.jsonl")
    events = Events(lambda event: notices.append(event.text) if isinstance(event, Notice) else None)

    async def finish(result: Any) -> None:
        ended.append(result)

    async with Client({"MY_KEY": KEY}) as client:
        lane = Lane("mine", LaneLimits(max_outage_s=1.0))
        model = Model(spec, client, lane, ServedModels(events))
        runner = Runner([lane], policy=RetryPolicy(base_s=0.001, patience_s=0.0), in_flight=1, events=events)
        await runner.run(
            Job("run", f"s{n}", journal, lambda ctx: walk(ctx, model), finish) for n in range(jobs)
        )
    journal.close()
    return ended, list(read_records(journal.path)), notices


async def ask(directory: Path, settings: Settings) -> tuple[Any, list[dict[str, Any]], FakeProvider]:
    """Ask for two questions: the result or the error, the journal, and the provider."""

    async def walk(ctx: Context, model: Model) -> tuple[str, ...]:
        return await model.ask(ctx, ModelCall("clarify", CLARIFY, QuestionList(2), {"q": "ferry"}))

    settings.keep = True
    async with FakeProvider(settings) as provider:
        ended, records, _ = await run_job(directory, spec_at(provider.url), walk)
    return ended[0], records, provider


async def test_calls_after_a_pause_longer_than_the_keep_alive_cost_one_attempt_each(tmp_path: Path) -> None:
    """A server that closes idle connections soon and without notice; a budget would count what was sent in vain."""

    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"choices": [{"message": {"content": '["a?", "b?"]'}}]})

    async def walk(ctx: Context, model: Model) -> None:
        for i in range(4):
            call = ModelCall(f"clarify/{i}", CLARIFY, QuestionList(2), {"q": f"ferry {i}"})
            await model.ask(ctx, call)
            # The loop is busy while the server's goodbye arrives, so that it is not seen in time.
            await asyncio.sleep(0.04)
            time.sleep(0.03)  # noqa: ASYNC251

    async with served(answer, keep_alive_s=0.05) as url:
        _, records, _ = await run_job(tmp_path, spec_at(url), walk)
    assert [record.get("attempts", 1) for record in records] == [1] * 4


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        ("wrong_count", "expected a JSON array of exactly 2 strings, got 3"),
        ("length", "cut off by its token limit"),
        ("empty", "the reply was empty"),
        ("half", "expected a JSON array of exactly 2 strings"),
    ],
)
async def test_unusable_replies_are_repaired_a_bounded_number_of_times(
    tmp_path: Path, fault: str, problem: str
) -> None:
    ended, records, provider = await ask(tmp_path, Settings(faults={fault: 1.0}))
    assert isinstance(ended, StepError)
    assert (ended.kind, ended.step) == ("unusable_output", "clarify")
    assert problem in str(ended)
    assert [record["ok"] for record in records] == [False]
    assert records[0]["attempts"] == len(provider.seen) == 4
    for seen in provider.seen[1:]:
        assert seen.messages
        assert len(seen.messages) == 4
        assert seen.messages[:2] == list(CLARIFY)
        assert seen.messages[2]["role"] == "assistant"
        assert problem in seen.messages[3]["content"]


async def test_retry_sends_the_same_request(tmp_path: Path) -> None:
    ended, _, provider = await ask(tmp_path, Settings(faults={"500": 0.6}, seed=5))
    assert len(ended) == 2
    assert len({seen.digest for seen in provider.seen}) == 1
    assert len(provider.seen) > 1


@pytest.mark.parametrize("fault", ["reset", "truncated", "html"])
async def test_a_request_whose_answers_are_always_broken_is_given_up_alone(
    tmp_path: Path, fault: str
) -> None:
    ended, records, provider = await ask(tmp_path, Settings(faults={fault: 1.0}))
    assert isinstance(ended, TransientError)
    assert records[0]["attempts"] == len(provider.seen) == 7


PARAMS = {"reasoning_effort": "none", "temperature": 0.0, "top_p": 1.0, "max_tokens": 9}
EFFORT = "Unsupported value: 'reasoning_effort' does not support 'none' with this model."
TEMPERATURE = "Unsupported parameter: 'temperature' is not supported with this model."


def openai_error(message: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


@pytest.mark.parametrize(
    ("body", "parameter"),
    [
        (openai_error(EFFORT, "reasoning_effort", "unsupported_value"), "reasoning_effort"),
        (openai_error(TEMPERATURE, "temperature", "unsupported_parameter"), "temperature"),
        (
            openai_error("'temperature' needs another reasoning_effort", "temperature", "unsupported_value"),
            "temperature",
        ),
        (openai_error("Unrecognized request argument supplied: reasoning_effort"), "reasoning_effort"),
        (openai_error("invalid temperature: only 1 is allowed for this model"), "temperature"),
        ({"error": {"message": "`temperature` is deprecated for this model."}}, "temperature"),
        ({"error": {"message": "temperature: Extra inputs are not permitted"}}, "temperature"),
        ([{"error": {"message": 'Unknown name "reasoning_effort": Cannot find field.'}}], "reasoning_effort"),
        ({"detail": [{"loc": ["body", "top_p"], "msg": "extra fields not permitted"}]}, "top_p"),
        # What must not be taken for it: another field, a value out of range, the length, what was not sent.
        (openai_error("max_tokens is not supported with this model", "max_tokens"), None),
        (openai_error("temperature must be in (0, 1.0], got 0"), None),
        (openai_error("This model's maximum context length is 8192 tokens"), None),
        (openai_error("'seed' is not supported with this model", "seed"), None),
        (openai_error("The room_temperature is not supported"), None),
        (openai_error("messages: role 'tool' is not supported", "messages"), None),
        ("not JSON that names anything", None),
    ],
)
def test_refused_parameter_is_recognised(body: Any, parameter: str | None) -> None:
    data = orjson.dumps(body)
    assert refused_parameter(400, data, PARAMS) == parameter
    assert refused_parameter(500, data, PARAMS) is None


def test_default_parameter_is_refused_in_any_words_that_name_it() -> None:
    data = orjson.dumps(openai_error("temperature must be in (0, 1.0], got 0"))
    assert refused_parameter(400, data, PARAMS, {"temperature"}) == "temperature"
    assert refused_parameter(422, data, PARAMS, {"top_p"}) is None
    assert refused_parameter(500, data, PARAMS, {"temperature"}) is None


class Server:
    """Refuses `refusals` (parameter to message) one at a time; keeps the parameters of each request."""

    def __init__(self, **refusals: str) -> None:
        self.refusals, self.seen = refusals, []
        self.streams: list[bool | None] = []

    async def chat(self, request: web.Request) -> web.Response:
        asked = orjson.loads(await request.read())
        self.seen.append(sorted(asked.keys() - {"model", "messages", "stream"}))
        self.streams.append(asked.get("stream"))
        for name, message in self.refusals.items():
            if name in asked:
                return web.json_response(openai_error(message, name), status=400)
        reply = {"message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 7, "completion_tokens": 2}
        return web.json_response({"model": "m-1", "choices": [reply], "usage": usage})


async def run(
    directory: Path, server: Server, jobs: int = 2
) -> tuple[list[Any], list[dict[str, Any]], list[str]]:
    """Ask one thing in each of some jobs: values or errors, records, notices."""

    async def walk(ctx: Context, model: Model) -> str:
        message = [{"role": "user", "content": ctx.job.id}]
        return await model.ask(ctx, ModelCall("greet", message, FreeText(), {}))

    os.makedirs(directory, exist_ok=True)
    async with served(server.chat) as url:
        return await run_job(directory, spec_at(url, params=PARAMS), walk, jobs)


async def test_refused_parameter_is_never_sent_again_and_changes_no_key(tmp_path: Path) -> None:
    strict = Server(reasoning_effort=EFFORT, temperature=TEMPERATURE)
    ended, records, notices = await run(tmp_path / "strict", strict)
    assert ended == ["hello", "hello"]
    assert strict.seen == [
        ["max_tokens", "reasoning_effort", "temperature", "top_p"],
        ["max_tokens", "temperature", "top_p"],
        ["max_tokens", "top_p"],
        ["max_tokens", "top_p"],  # the second job's first and only request
    ]
    assert [record["response"]["dropped"] for record in records] == [["reasoning_effort", "temperature"]] * 2
    assert [record.get("attempts", 1) for record in records] == [3, 1]
    assert [one["kind"] for one in records[0]["failed_attempts"]] == ["parameter_refused"] * 2
    assert notices == [
        f"m-1 refuses the parameter {name}: sent without it" for name in ("reasoning_effort", "temperature")
    ]
    _, lenient, _ = await run(tmp_path / "lenient", Server())
    assert [record["key"] for record in lenient] == [record["key"] for record in records]
    assert all("dropped" not in record["response"] for record in lenient)
    other = Server(max_tokens="max_tokens is not supported with this model")
    ended, _, _ = await run(tmp_path / "other", other, jobs=1)
    assert isinstance(ended[0], RejectedError)
    assert len(other.seen) == 1


async def test_refused_stream_is_left_out_and_marks_no_reply(tmp_path: Path) -> None:
    server = Server(stream="Unrecognized request argument supplied: stream")
    ended, records, notices = await run(tmp_path, server)
    assert ended == ["hello", "hello"]
    assert server.streams == [False, None, None]
    assert not any("dropped" in record["response"] for record in records)
    assert notices == []


@pytest.mark.parametrize("content", [[{"type": "image"}], {}])
async def test_readable_response_that_is_no_completion_is_asked_for_once_more(
    tmp_path: Path, content: Any
) -> None:
    asked: list[bytes] = []

    async def odd(request: web.Request) -> web.Response:
        asked.append(await request.read())
        return web.json_response({"choices": [{"message": {"content": content or 3}}]})

    async def walk(ctx: Context, model: Model) -> str:
        return await model.ask(ctx, ModelCall("greet", [{"role": "user", "content": "hi"}], FreeText(), {}))

    async with served(odd) as url:
        ended, records, _ = await run_job(tmp_path, spec_at(url), walk, 1)
    assert isinstance(ended[0], NoCompletion)
    assert (len(asked), records[0]["attempts"]) == (2, 2)
    assert [failed["kind"] for failed in records[0]["failed_attempts"]] == ["no_completion"] * 2


async def test_the_summary_counts_replies_that_were_made_without_it(tmp_path: Path) -> None:
    await run(tmp_path, Server(temperature=TEMPERATURE), jobs=3)
    (tmp_path / "run.json").write_text('{"identity": {"system": "mine-k1"}}')
    summary = summarise_run(tmp_path)
    assert write_summary(summary)["dropped_parameters"] == {"m-1": {"temperature": 3}}
    assert list(dropped_parameters([summary, summary])) == [
        "Without temperature: m-1 refuses it, 6 of 6 replies were made without "
        '(drops = ["temperature"] in its table of cts.toml saves the refused request)'
    ]


@pytest.mark.parametrize(
    ("remaining", "n_read"),
    [
        ("9000", 1),  # nearly all of 10,000
        ("1900", 3),  # a burst could use them up, and they are less than a quarter
        (None, 3),  # nobody knows how many
    ],
)
async def test_limits_in_headers_are_read_once_while_much_remains(
    monkeypatch: pytest.MonkeyPatch, remaining: str | None, n_read: int
) -> None:
    monkeypatch.setattr(model, "LOOK_EVERY_S", 60.0)

    async def reply(request: web.Request) -> web.StreamResponse:
        headers = {"x-ratelimit-limit-requests": "10000"}
        if remaining is not None:
            headers["x-ratelimit-remaining-requests"] = remaining
        body = {"model": "m", "choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}
        return web.json_response(body, headers=headers)

    async with served(reply) as base, Client({}) as client:
        spec = spec_at(f"{base}/v1", key_env=None)
        replies = [await client.chat(spec, ChatRequest(CLARIFY)) for _ in range(3)]
    assert sum(reply.quotas is not None for reply in replies) == n_read

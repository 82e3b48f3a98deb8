"""A server that refuses a sampling parameter is asked again without it, for good, and the run says so."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web
from free_text import FreeText

from cts_async.engine.events import Events, Notice
from cts_async.engine.journal import Journal, read_jsonl
from cts_async.engine.lane import Lane, LaneLimits
from cts_async.engine.runner import Context, Job, Runner
from cts_async.errors import RejectedError
from cts_async.llm.catalog import ModelSpec
from cts_async.llm.client import Client
from cts_async.llm.model import Model, ServedModels
from cts_async.llm.responses import refused_parameter
from cts_async.report.results import dropped_parameters
from cts_async.report.summary import summarise_run, write_summary

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
def test_a_refused_parameter_is_recognised_by_what_servers_say(body: Any, parameter: str | None) -> None:
    data = orjson.dumps(body)
    assert refused_parameter(400, data, PARAMS) == parameter
    assert refused_parameter(500, data, PARAMS) is None


class Server:
    """Refuses `refusals` (parameter to message) one at a time; keeps the parameters of each request."""

    def __init__(self, **refusals: str) -> None:
        self.refusals, self.seen = refusals, []

    async def chat(self, request: web.Request) -> web.Response:
        asked = orjson.loads(await request.read())
        self.seen.append(sorted(asked.keys() - {"model", "messages"}))
        for name, message in self.refusals.items():
            if name in asked:
                return web.json_response(openai_error(message, name), status=400)
        reply = {"message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 7, "completion_tokens": 2}
        return web.json_response({"model": "m-1", "choices": [reply], "usage": usage})


def run(
    directory: Path, server: Server, jobs: int = 2, **params: Any
) -> tuple[list[Any], list[dict[str, Any]], list[str]]:
    """Ask one thing in each of some jobs, one after the other: values or errors, records, notices."""
    ended: list[Any] = []
    notices: list[str] = []
    directory.mkdir(exist_ok=True)

    async def finish(result: Any) -> None:
        ended.append(result)

    async def main() -> None:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", server.chat)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        spec = ModelSpec("mine", "openai", url, "m-1", None, "mine", 8, params={**PARAMS, **params})
        events = Events(lambda event: notices.append(event.text) if isinstance(event, Notice) else None)
        journal = Journal(directory / "steps.jsonl")
        lane = Lane("mine", LaneLimits())
        async with Client({}) as client:
            model = Model(spec, client, lane, ServedModels(events))

            async def walk(ctx: Context) -> str:
                said = [{"role": "user", "content": ctx.job.id}]
                return await model.ask(ctx, "greet", said, FreeText(), request={})

            work = [Job("run", f"s{n}", journal, walk, finish) for n in range(jobs)]
            await Runner([lane], in_flight=1, events=events).run(work)
        journal.close()
        await runner.cleanup()

    asyncio.run(main())
    return ended, list(read_jsonl(directory / "steps.jsonl")), notices


def test_what_is_refused_is_left_out_for_good_and_changes_no_key(tmp_path: Path) -> None:
    strict = Server(reasoning_effort=EFFORT, temperature=TEMPERATURE)
    ended, records, notices = run(tmp_path / "strict", strict)
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
        f"m-1 refuses the parameter {name}: sent without it from now on"
        for name in ("reasoning_effort", "temperature")
    ]
    _, lenient, _ = run(tmp_path / "lenient", Server())
    assert [record["key"] for record in lenient] == [record["key"] for record in records]
    assert all("dropped" not in record["response"] for record in lenient)


def test_a_request_that_is_refused_for_anything_else_fails_as_before(tmp_path: Path) -> None:
    server = Server(max_tokens="max_tokens is not supported with this model")
    ended, _, _ = run(tmp_path, server, jobs=1)
    assert isinstance(ended[0], RejectedError)
    assert len(server.seen) == 1


def test_the_summary_counts_replies_that_were_made_without_it(tmp_path: Path) -> None:
    run(tmp_path, Server(temperature=TEMPERATURE), jobs=3)
    (tmp_path / "run.json").write_text('{"identity": {"system": "mine-k1"}}')
    summary = summarise_run(tmp_path)
    assert write_summary(summary)["dropped_parameters"] == {"m-1": {"temperature": 3}}
    assert list(dropped_parameters([summary, summary])) == [
        "Without temperature: m-1 refuses it, 6 of 6 replies were made without"
    ]

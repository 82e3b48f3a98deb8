"""One clarifier in three forms, and a run that one of them plays in: everything else is the baseline."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web
from fake_provider import FakeProvider

from cts_async.config import RunConfig
from cts_async.engine.events import Events
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol.plan import make_plan
from cts_async.protocol.run import run_plan

KEY = "sk-custom-0123456789"

FUNCTION = """
import json
from cts_async import role

@role("clarifier", version="3")
async def ask(view, llm):
    prompt = f"K = {view.k}\\n<blurred_query>{view.blurred_query}</blurred_query>"
    reply = await llm(prompt, model="fake")
    return json.loads(reply.text)
"""

COMMAND = """
import json, sys, urllib.request

for line in sys.stdin:
    asked = json.loads(line)
    view = asked["view"]
    prompt = f"K = {view['k']}\\n<blurred_query>{view['blurred_query']}</blurred_query>"
    body = {"model": "fake", "messages": [{"role": "user", "content": prompt}]}
    request = urllib.request.Request(
        asked["base_url"] + "/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as response:
        text = json.load(response)["choices"][0]["message"]["content"]
    print(json.dumps({"id": asked["id"], "questions": json.loads(text)}), flush=True)
"""


def script(directory: Path, name: str, content: str) -> Path:
    """Write a script of the user's."""
    path = directory / name
    path.write_text(content, encoding="utf-8")
    return path


def command(path: Path) -> str:
    """The name of a command that runs a script with this Python."""
    return f"exec:{sys.executable} {path}"


async def clarify_over_http(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same clarifier as an endpoint: it asks the gateway that the request names."""
    import aiohttp

    view = asked["view"]
    prompt = f"K = {view['k']}\n<blurred_query>{view['blurred_query']}</blurred_query>"
    body = {"model": "fake", "messages": [{"role": "user", "content": prompt}]}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{asked['base_url']}/chat/completions", json=body) as response,
    ):
        completion = await response.json()
    return {"id": asked["id"], "questions": orjson.loads(completion["choices"][0]["message"]["content"])}


@asynccontextmanager
async def endpoint(answer: Any) -> AsyncIterator[str]:
    """Serve `answer(request) -> reply` (a mapping, or a status) on the loopback; gives the address."""

    async def handle(request: web.Request) -> web.Response:
        reply = await answer(await request.json())
        if isinstance(reply, int):
            return web.Response(status=reply, text="not now")
        return web.json_response(reply)

    app = web.Application()
    app.router.add_post("/clarify", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/clarify"
    finally:
        await runner.cleanup()


def played(
    directory: Path, name: str, provider: FakeProvider, *, events: Events | None = None, **options: Any
) -> list[dict[str, Any]]:
    """Run or resume with the clarifier `name`; give the results in order of ids."""
    return asyncio.run(play(directory, name, provider, events=events, **options))


def played_by(
    directory: Path,
    answer: Any,
    provider: FakeProvider | None = None,
    *,
    role: str = "clarifier",
    **options: Any,
) -> list[dict[str, Any]]:
    """`played`, with an endpoint that gives `answer(request)` in a role; the clarifier is else the baseline."""

    async def main() -> list[dict[str, Any]]:
        async with endpoint(answer) as url:
            name = url if role == "clarifier" else "baseline"
            if role == "judge":
                options["judges"] = (url,)
            elif role != "clarifier":
                options[role] = url
            return await play(directory, name, provider or FakeProvider(), **options)

    return asyncio.run(main())


async def play(
    directory: Path, name: str, provider: FakeProvider, *, events: Events | None = None, **options: Any
) -> list[dict[str, Any]]:
    """`played`, in a running loop."""
    config = directory / "cts.toml"
    asked: dict[str, Any] = {
        "models": (name,),
        "every_role": "baseline",
        "ks": (2,),
        "limit": 4,
        "references": (),
        "runs_dir": directory / "runs",
        "name": "run",
        **options,
    }
    async with provider:
        config.write_text(
            f'[models.fake]\nbase_url = "{provider.url}"\nmodel = "fake-1"\nkey_env = "FAKE_KEY"\n'
        )
        environ = {"FAKE_KEY": KEY, "PATH": "/usr/bin:/bin"}
        plan = make_plan(RunConfig(**asked), load_catalogue(config), environ)
        await run_plan(plan, environ, events or Events())
    (run,) = plan.systems.values()
    lines = [orjson.loads(line) for line in (run / "results.jsonl").read_bytes().splitlines()]
    return sorted(lines, key=lambda line: str(line["id"]))

"""What a role of the user's own costs: a Python function that asks one model, and a call through the gateway.

The function judges as the catalogue's judge does: a prompt of the same size to the same endpoint, one call each. The
gateway is measured alone: its process answers chat completions at once, and a client of another process sends them one
after the other (latency) and 16 at a time (CPU).
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from functools import partial
from typing import Any

import orjson

from benchmarks.shared.endpoint import Endpoint
from benchmarks.shared.judging import JudgeWorld, against_static_endpoint, prose
from benchmarks.shared.process import ROOT, interleaved, marginal_us, spent_by
from benchmarks.shared.result import Result, Row
from cts_async.protocol.custom.gateway import Gateway

LARGE, SMALL, IN_FLIGHT, ROUNDS = 12_000, 2_000, 64, 3
ASKED, AT_ONCE = 4_000, 16
"""Chat completions in a round of the gateway's."""
TITLE = f"roles: {LARGE:,} candidates judged by a function, {ASKED:,} calls of the gateway, {ROUNDS} rounds"
FUNCTION = '''
import orjson
from cts_async import role

RUBRIC = """{rubric}"""

@role("judge")
async def judge(view, llm):
    nuggets = "".join(f"{one.id} ({one.weight:g}): {one.text}\\n" for one in view.nuggets)
    prompt = f"{RUBRIC}\\n{view.query}\\n{nuggets}\\n{view.candidate_answer}"
    reply = await llm(prompt, model="static")
    return orjson.loads(reply.text)["results"]
'''


def bench() -> Result:
    return against_static_endpoint(TITLE, _measured)


def _measured(world: JudgeWorld, endpoint: Endpoint) -> Result:
    judges = {"model": "static", "function": function_judge(world, SMALL)}
    runs = interleaved(
        ROUNDS,
        {
            f"{who} {n}": partial(world.judge, endpoint.url, n, IN_FLIGHT, judge=judge)
            for who, judge in judges.items()
            for n in (LARGE, SMALL)
        },
    )
    us = {who: marginal_us(runs[f"{who} {LARGE}"], LARGE, runs[f"{who} {SMALL}"], SMALL) for who in judges}
    command = [sys.executable, "-m", "benchmarks.roles"]
    rounds = [orjson.loads(spent_by(command, cwd=ROOT).printed) for _ in range(ROUNDS)]
    cpu_us, latency_ms = (statistics.median(one[name] for one in rounds) for name in ("cpu_us", "latency_ms"))
    return Result(
        TITLE,
        [
            *(Row(f"judged by a {who}, us for one more", value, digits=1) for who, value in us.items()),
            Row("function - model, us per call", us["function"] - us["model"], "<=", 30, 1),
            Row("gateway: CPU us per call", cpu_us, "<=", 150, 1),
            Row("gateway: latency of a call, ms, client included", latency_ms, "<=", 1, 2),
        ],
    )


def function_judge(world: JudgeWorld, n: int) -> str:
    """Write the function, whose prompts are about as long as the catalogue's judge sends; return its name.

    `n` candidates show how long those are.
    """
    size = world.bodies(n).stat().st_size // n
    path = world.directory / "own.py"
    path.write_text(FUNCTION.replace("{rubric}", prose("rubric", max(100, size - 2_000))))
    return f"{path}:judge"


# --- The gateway alone


class _Answers:
    """A call whose models answer at once, and in which no user can be asked."""

    session = None

    async def complete(self, model: str, messages: Any, params: Any) -> dict[str, Any]:
        return {"text": "It is so.", "usage": {"input": 900, "output": 4}}


async def _gateway() -> None:
    """Serve, have a client of another process ask, and print CPU and latency of a call as JSON."""
    async with Gateway(list).serving() as gateway:
        with gateway.lease(_Answers(), "clarifier") as addresses:  # type: ignore[arg-type]
            found: dict[str, float] = {}
            for name, at_once in (("latency_ms", 1), ("cpu_us", AT_ONCE)):
                command = [sys.executable, "-m", "benchmarks.roles", addresses["base_url"], str(at_once)]
                client = await asyncio.create_subprocess_exec(
                    *command, cwd=ROOT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
                )
                assert client.stdin is not None
                assert client.stdout is not None
                await client.stdout.readline()  # it is ready
                began = time.process_time()
                client.stdin.write(b"\n")
                latency_ms = float(await client.stdout.readline())
                cpu_us = (time.process_time() - began) / ASKED * 1e6
                await client.wait()
                found[name] = cpu_us if name == "cpu_us" else latency_ms
    print(orjson.dumps(found).decode())


async def _client(base_url: str, at_once: int) -> None:
    """Ask `ASKED` times on connections that are kept, and print the median latency in ms."""
    address, _, path = base_url.removeprefix("http://").partition("/")
    host, port = address.split(":")
    message = {"role": "user", "content": prose("prompt", 3_500)}
    body = orjson.dumps({"model": "m", "messages": [message]})
    head = f"POST /{path}/chat/completions HTTP/1.1\r\nHost: {address}\r\nContent-Length: {len(body)}\r\n\r\n"
    request, latencies = head.encode() + body, []
    streams = [await asyncio.open_connection(host, int(port)) for _ in range(at_once)]
    print("ready", flush=True)
    sys.stdin.readline()

    async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(ASKED // at_once):
            began = time.perf_counter()
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].partition(b"\r")[0])
            completion = orjson.loads(await reader.readexactly(length))
            latencies.append(time.perf_counter() - began)
            assert completion["choices"][0]["message"]["content"] == "It is so."

    await asyncio.gather(*(ask(*stream) for stream in streams))
    print(statistics.median(latencies) * 1e3, flush=True)


if __name__ == "__main__":
    import uvloop

    uvloop.run(_client(sys.argv[1], int(sys.argv[2])) if len(sys.argv) > 1 else _gateway())

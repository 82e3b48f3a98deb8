"""A server that keeps what it is sent: `python -m benchmarks.shared.recorder FILE` prints its base URL.

Ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from aiohttp import web

from benchmarks.shared.endpoint import judge_reply


async def main(path: Path) -> None:
    reply = judge_reply().encode()
    with path.open("wb") as out:

        async def keep(request: web.Request) -> web.Response:
            out.write(await request.read() + b"\n")
            return web.Response(body=reply, content_type="application/json")

        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/{rest:.*}", keep)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        print(f"http://127.0.0.1:{runner.addresses[0][1]}/v1", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))

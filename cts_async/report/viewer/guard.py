"""Who is answered, and with which headers: this machine's own pages, for reading, and nobody else's.

A page from another site can make a browser request any address. Its own name can never be one of ours: DNS rebinding
ends at the Host header, and Origin and Sec-Fetch-Site say which site a request comes from.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware


class Refused(Exception):
    """An HTTP status and what is wrong; never a path, never anybody's text but the asker's own."""

    def __init__(self, status: int, problem: str) -> None:
        super().__init__(problem)
        self.status, self.problem = status, problem


NO_RUN = "no such run here"
NO_INSTANCE = "no such instance in this run"
CHANGED = "the file is another one by now: open the run again"


HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}
USUAL_PORT: Final = 80
MAX_AT_ONCE: Final = 64
"""Requests under way; more are told to come again."""


def guarded(port: Callable[[], int]) -> Middleware:
    """A middleware that refuses whom it has to, and turns every refusal into one line of JSON."""
    under_way = 0

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        nonlocal under_way
        under_way += 1
        try:
            _check(request, port())
            if under_way > MAX_AT_ONCE:
                raise Refused(503, "too many requests at once: ask again")
            return await handler(request)
        except Refused as refused:
            return problem(refused.status, refused.problem)
        except web.HTTPException as error:
            return problem(error.status, error.reason.lower())
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception as error:
            if request.writer.output_size:  # half an answer: whoever asked is to notice that it breaks off
                raise ConnectionAbortedError from error
            if isinstance(error, FileNotFoundError):
                return problem(409, CHANGED)  # it vanished under our hands
            # A bug: the asker learns no path of ours.
            request.app.logger.exception("%s failed", request.path)
            return problem(500, f"this went wrong here ({type(error).__name__})")
        finally:
            under_way -= 1

    return guard


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """The headers of every answer."""
    for name, value in HEADERS.items():
        response.headers[name] = value
    if request.path.startswith("/api/"):
        response.headers["Cache-Control"] = "no-store"
    with suppress(KeyError):
        del response.headers["Server"]


def problem(status: int, text: str) -> web.Response:
    """What is wrong, as JSON."""
    headers = {"Allow": "GET, HEAD"} if status == 405 else None
    return web.Response(
        body=orjson.dumps({"error": text}), status=status, content_type="application/json", headers=headers
    )


def _check(request: web.Request, port: int) -> None:
    names = own_names(port)
    if request.headers.get("Host", "").lower() not in names:
        raise Refused(403, "this address is not one of this machine's own")
    if request.method not in ("GET", "HEAD"):
        raise Refused(405, "this is for reading only")
    origin = request.headers.get("Origin")
    if origin is not None and origin.lower() not in {f"http://{name}" for name in names}:
        raise Refused(403, "asked for by a page from elsewhere")
    if request.path.startswith("/api/") and request.headers.get("Sec-Fetch-Site") in (
        "cross-site",
        "same-site",
    ):
        raise Refused(403, "asked for by a page from elsewhere")


def own_names(port: int) -> set[str]:
    """What this machine's browser calls us; nobody names the usual port."""
    ends = (f":{port}", "") if port == USUAL_PORT else (f":{port}",)
    return {host + end for host in ("127.0.0.1", "localhost", "[::1]") for end in ends}

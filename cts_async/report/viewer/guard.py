"""Which requests are answered, and with which headers: reading requests from this machine's own pages only.

A page from another site can make a browser request any address. Its own name can never be one of ours, so DNS
rebinding ends at the Host header; Origin and Sec-Fetch-Site say which site a request comes from.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}
HTTP_PORT: Final = 80
MAX_REQUESTS: Final = 64
"""Requests answered at the same time; further ones are refused with 503."""
NO_RUN: Final = "no such run"
NO_INSTANCE: Final = "no such instance in this run"
FILE_CHANGED: Final = "the file was replaced: open the run again"


class Refused(Exception):
    """An HTTP status and a message. The message holds no path, and no text but the requester's own."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


def guarded(port: Callable[[], int]) -> Middleware:
    """A middleware that refuses forbidden requests, and answers every failure with one line of JSON."""
    active = 0

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        nonlocal active
        active += 1
        try:
            _check(request, port())
            if active > MAX_REQUESTS:
                raise Refused(503, "too many requests: try again")
            return await handler(request)
        except Refused as refused:
            return _failure(refused.status, refused.message)
        except web.HTTPException as error:
            return _failure(error.status, error.reason.lower())
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception as error:
            if request.writer.output_size:  # part of the answer is sent: the client must see it break off
                raise ConnectionAbortedError from error
            if isinstance(error, FileNotFoundError):
                return _failure(409, FILE_CHANGED)
            # A bug. Its message may contain a path, which the client does not learn.
            request.app.logger.exception("%s failed", request.path)
            return _failure(500, f"internal error ({type(error).__name__})")
        finally:
            active -= 1

    return guard


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Set the headers of every answer."""
    for name, value in HEADERS.items():
        response.headers[name] = value
    if request.path.startswith("/api/"):
        response.headers["Cache-Control"] = "no-store"
    with suppress(KeyError):
        del response.headers["Server"]


def _failure(status: int, message: str) -> web.Response:
    headers = {"Allow": "GET, HEAD"} if status == 405 else None
    body = orjson.dumps({"error": message})
    return web.Response(body=body, status=status, content_type="application/json", headers=headers)


def _check(request: web.Request, port: int) -> None:
    names = own_names(port)
    if request.headers.get("Host", "").lower() not in names:
        raise Refused(403, "request for another host refused")
    if request.method not in ("GET", "HEAD"):
        raise Refused(405, "only GET and HEAD are allowed")
    origin = request.headers.get("Origin")
    foreign = origin is not None and origin.lower() not in {f"http://{name}" for name in names}
    # Links from other sites may lead to the page, but not to its data.
    site = request.headers.get("Sec-Fetch-Site") if request.path.startswith("/api/") else None
    if foreign or site in ("cross-site", "same-site"):
        raise Refused(403, "cross-origin request refused")


def own_names(port: int) -> set[str]:
    """Values of the Host header that mean this server; browsers leave out port 80."""
    ends = (f":{port}", "") if port == HTTP_PORT else (f":{port}",)
    return {host + end for host in ("127.0.0.1", "localhost", "[::1]") for end in ends}

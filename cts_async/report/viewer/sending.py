"""Sends what was answered. A long body goes piece by piece, and only a few of these go at once.

Whoever takes a body slowly holds all of it meanwhile: many of many megabytes would be more than the server may have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aiohttp import web

from cts_async.report.viewer.refusal import Refused

LONG: Final = 1 << 20
MAX_LONG: Final = 8
_PIECE: Final = 1 << 18


class Sending:
    """Counts the long bodies under way."""

    def __init__(self) -> None:
        self._long = 0

    async def send(self, request: web.Request, body: bytes, headers: Mapping[str, str]) -> web.StreamResponse:
        """The answer to a request. Raises Refused where too many long ones are under way."""
        if len(body) <= LONG:
            return web.Response(body=body, headers=headers)
        if self._long >= MAX_LONG:
            raise Refused(503, "too many long texts at once: ask again")
        self._long += 1
        try:
            return await _sent(request, body, headers)
        finally:
            self._long -= 1


async def _sent(request: web.Request, body: bytes, headers: Mapping[str, str]) -> web.StreamResponse:
    response = web.StreamResponse(headers={**headers, "Content-Length": str(len(body))})
    await response.prepare(request)
    whole = memoryview(body)
    for start in range(0, len(body) if request.method == "GET" else 0, _PIECE):
        await response.write(whole[start : start + _PIECE])
    await response.write_eof()
    return response

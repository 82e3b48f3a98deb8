"""An HTTP endpoint that plays a role: one POST of JSON a call, through the client and the lane that models use."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import Any, Final

import aiohttp
import orjson

from cts_async import __version__
from cts_async.errors import ProviderRefused, RateLimited, RejectedError, TransientError, UnusableOutput
from cts_async.llm.http import ENCODINGS, HttpEndpoint, encode_headers
from cts_async.llm.redact import SECRETS
from cts_async.llm.responses import retry_after_s
from cts_async.protocol.custom.sources import CustomRole

_HEADERS: Final = encode_headers(
    {
        "Content-Type": "application/json",
        "Accept": "application/json",
        "Accept-Encoding": ENCODINGS,
        "User-Agent": f"cts-async/{__version__}",
    }
)
_WAIT: Final = frozenset({408, 409, 425, 500, 502, 503, 504, 529})
"""Statuses that are worth another attempt."""


class Endpoint:
    """The address of one player."""

    def __init__(self, player: CustomRole, endpoint: HttpEndpoint) -> None:
        self._name, self._timeout_s, self._endpoint = player.name, player.timeout_s, endpoint

    async def request(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send one request and return its reply. Raises StepError, ProviderRefused."""
        body = orjson.dumps({"id": secrets.token_hex(8), **fields})
        try:
            response = await self._endpoint.send(_HEADERS, body, self._timeout_s, keep_headers=True)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._endpoint.failure(error, self._name, self._timeout_s) from None
        data = SECRETS.body(response.data, good=response.status == 200)
        if response.status != 200:
            raise self._refusal(response.status, response.headers, data)
        try:
            reply = orjson.loads(data)
        except ValueError:
            reply = None
        if not isinstance(reply, dict):
            raise UnusableOutput(
                f"{self._name}: the reply is not a JSON object",
                text=data[:2000].decode(errors="replace"),
            )
        return reply

    def _refusal(self, status: int, headers: Mapping[str, str], data: bytes) -> Exception:
        said = " ".join(data[:300].decode(errors="replace").split())
        text = f"{self._name}: HTTP {status}{f' ({said})' if said else ''}"
        wait_s = retry_after_s(headers, time.time())
        if status == 429:
            return RateLimited(text, status=status, retry_after_s=wait_s)
        if status in _WAIT:
            return TransientError(text, status=status, retry_after_s=wait_s)
        if status in (401, 403, 404, 405) or 300 <= status < 400:
            return ProviderRefused(f"{text}; the same command resumes")
        return RejectedError(text, status=status)

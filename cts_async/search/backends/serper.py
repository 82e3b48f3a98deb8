"""Google's results through Serper, WebDancer's search engine: POST {"q", "num"} with the key in `X-API-KEY`.

Of the answer the `organic` results are taken, as WebDancer does.
"""

from __future__ import annotations

from typing import Any

import aiohttp
from yarl import URL

from cts_async.records import language_of
from cts_async.search.backends.base import Hit
from cts_async.search.backends.endpoint import SEARCH_REFUSALS, Service, ask, json_of
from cts_async.search.backends.specs import EngineSpec
from cts_async.search.backends.text import as_text


class Serper:
    """A `SearchEngine`. `session` is the caller's, to open and close."""

    def __init__(self, spec: EngineSpec, key: str, session: aiohttp.ClientSession) -> None:
        self.name, self.engine = spec.name, spec.engine
        self._spec, self._session, self._url = spec, session, URL(spec.url)
        self._service = Service(spec.name, spec.key_env, key, spec.timeout_s, SEARCH_REFUSALS)

    async def search(self, query: str, limit: int) -> list[Hit]:
        """Give at most `limit` of Google's results; the errors are those of `endpoint.ask`."""
        asked = {**self._spec.params, "q": query, "num": limit}
        if language_of(query) == "zh":
            asked |= self._spec.zh_params
        headers = {"X-API-KEY": self._service.key, "Accept": "application/json"}
        answer = await ask(self._service, self._session, "POST", self._url, headers, asked)
        data = json_of(answer, self._service, self._url.host or "")
        return hits_of(data)[:limit]


def hits_of(data: Any) -> list[Hit]:
    """The organic results of an answer, in its order; those without a link are left out."""
    organic = data.get("organic") if isinstance(data, dict) else None
    rows = [row for row in organic if isinstance(row, dict)] if isinstance(organic, list) else []
    return [_hit(row, 1 / rank) for rank, row in enumerate(rows, 1) if as_text(row.get("link"))]


def _hit(row: dict[str, Any], score: float) -> Hit:
    url = as_text(row["link"])
    title, snippet, date, source = (as_text(row.get(name)) for name in ("title", "snippet", "date", "source"))
    return Hit(url, url, title or url, snippet, score, date, source)

"""Google through Serper: what is sent, and what is taken of the answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from fake_web import served

from cts_async.errors import ProviderRefused, RateLimited, ToolError
from cts_async.search.backends.base import EngineSpec, Hit
from cts_async.search.backends.services import Serper, serper_hits

KEY = "serper-key-0123456789"
SPEC = EngineSpec("serper", "serper", "", "SERPER_API_KEY", "SERPER_API_KEY", 8, 5.0, engine="Google")
ANSWER = {
    "searchParameters": {"q": "ferry", "type": "search"},
    "answerBox": {"answer": "ignored"},
    "organic": [
        {
            "title": "Ferries",
            "link": "https://a.org/f",
            "snippet": "They leave at nine.",
            "date": "2 Mar 2024",
            "position": 1,
        },
        {"title": "No link"},
        {"link": "https://b.org/", "source": "B News", "snippet": None},
        "not a result",
    ],
    "credits": 1,
}


async def searched(answer: web.Response, query: str = "ferry", limit: int = 10, **changes: Any) -> Any:
    """The hits, and the request that got them."""
    seen: dict[str, Any] = {}

    async def reply(request: web.Request) -> web.Response:
        seen.update(method=request.method, path=request.path, key=request.headers["X-API-KEY"])
        seen.update(body=await request.json())
        return answer

    async with served(reply) as url, aiohttp.ClientSession() as session:
        engine = Serper(replace(SPEC, url=f"{url}/search", **changes), KEY, session)
        assert (engine.name, engine.engine) == ("serper", "Google")
        return await engine.search(query, limit), seen


async def test_the_request_is_webdancer_s_with_a_number_of_results() -> None:
    _, seen = await searched(web.json_response(ANSWER))
    assert seen == {"method": "POST", "path": "/search", "key": KEY, "body": {"q": "ferry", "num": 10}}


async def test_organic_results_are_taken_in_order() -> None:
    hits, _ = await searched(web.json_response(ANSWER))
    assert hits == [
        Hit("https://a.org/f", "https://a.org/f", "Ferries", "They leave at nine.", 1.0, "2 Mar 2024", ""),
        Hit("https://b.org/", "https://b.org/", "https://b.org/", "", 1 / 3, "", "B News"),
    ]


async def test_no_more_results_than_asked_for() -> None:
    hits, seen = await searched(web.json_response(ANSWER), limit=1)
    assert [hit.url for hit in hits] == ["https://a.org/f"]
    assert seen["body"]["num"] == 1


@pytest.mark.parametrize(
    ("query", "sent"), [("ferry", {"gl": "us"}), ("渡轮几点", {"gl": "cn", "hl": "zh-cn"})]
)
async def test_country_and_language_may_depend_on_the_query_s(query: str, sent: dict[str, str]) -> None:
    params = {"params": {"gl": "us"}, "zh_params": {"gl": "cn", "hl": "zh-cn"}}
    _, seen = await searched(web.json_response(ANSWER), query, **params)
    assert seen["body"] == {"q": query, "num": 10, **sent}


@pytest.mark.parametrize("answer", [{}, {"organic": []}, {"organic": None}, [], {"organic": [{}]}])
def test_nothing_found_is_an_empty_list(answer: Any) -> None:
    assert serper_hits(answer) == []


async def test_a_key_that_is_refused_stops_the_search_and_names_its_variable() -> None:
    denied = web.json_response({"message": f"Unauthorized. {KEY}", "statusCode": 403}, status=403)
    with pytest.raises(
        ProviderRefused, match=r"serper: HTTP 403: Unauthorized. \(key\) \(key: SERPER_API_KEY\)"
    ):
        await searched(denied)


async def test_spent_credits_stop_the_search() -> None:
    spent = web.json_response({"message": "Not enough credits", "statusCode": 400}, status=400)
    with pytest.raises(ProviderRefused, match="Not enough credits"):
        await searched(spent)


async def test_a_query_that_cannot_be_searched_is_the_agent_s_to_change() -> None:
    bad = web.json_response({"message": "Query too long", "statusCode": 400}, status=400)
    with pytest.raises(ToolError, match="Query too long") as caught:
        await searched(bad)
    assert (caught.value.reason, caught.value.host) == ("http 400", "127.0.0.1")


async def test_too_fast_means_slower() -> None:
    fast = web.json_response({"message": "Too many requests"}, status=429, headers={"Retry-After": "2"})
    with pytest.raises(RateLimited) as caught:
        await searched(fast)
    assert caught.value.retry_after_s == 2.0

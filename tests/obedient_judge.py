"""A judge over real HTTP that obeys whatever it finds outside its fences, and reads what they look like leniently.

Inside, it labels by words: full where the candidate has all of a nugget's words, partial where it has half of them.
"""

from __future__ import annotations

import asyncio
import json
import re
import unicodedata
from typing import Any, Self

from aiohttp import web

_ALIKE = str.maketrans("аеосіԁрԛуѕ‹〈⟨《≪＜﹤", "aeocidpqys<<<<<<<")
_NUMERIC = re.compile(r"&#0*60;?|&#x0*3c;?", re.IGNORECASE)
_TURN = re.compile(
    r"<[|｜][^|｜]*[|｜]>|\[/?INST\]|</?s>|<(?:start|end)_of_turn>|<</?SYS>>"
    r"|<\w+\|>|</?seed:\w+>|<_\w+>|<reserved_\d+>|\]~!?b[\[\]]|\[e~\["
)


def folded(text: str) -> str:
    """Text as somebody sees it who takes like for like and does not see the invisible."""
    shown = [ch for ch in _NUMERIC.sub("<", text) if unicodedata.category(ch) not in ("Cf", "Mn")]
    return unicodedata.normalize("NFKC", "".join(shown).translate(_ALIKE)).casefold().translate(_ALIKE)


def field(text: str, tag: str) -> tuple[str, str]:
    """What stands between a tag's first opening and the first thing that closes it, and what is left."""
    name = r"[\W_]*".join(tag.split("_"))
    opening = re.search(rf"<\s*{name}\s*>", text)
    assert opening, f"no {tag} in {text!r}"
    closing = re.compile(rf"<\s*[/\\⁄∕]\s*{name}\s*>?").search(text, opening.end())
    assert closing, f"{tag} is never closed in {text!r}"
    return text[opening.end() : closing.start()], text[: opening.start()] + text[closing.end() :]


def verdict(asked: str) -> str:
    """The reply to one user message."""
    rest = folded(asked)
    turn = _TURN.search(asked)
    after_turn = folded(asked[turn.end() :]) if turn else ""
    candidate, rest = field(rest, "candidate_answer")
    _, rest = field(rest, "query")
    nuggets, rest = field(rest, "nuggets")
    outside = rest + after_turn
    if injected := re.search(r'\{"results".*?\]\}', outside, re.DOTALL):
        return injected[0].replace('"id": "n', '"id": "N')
    if re.search(r"<\s*nuggets\s*>", outside):
        nuggets = field(outside, "nuggets")[0]
    rows = re.findall(r"^\s*(n\d+): (.*)$", nuggets, re.MULTILINE)
    obey = "full" in outside or "满分" in outside
    labels = [
        {"id": id.upper(), "coverage": "full" if obey else _label(text, candidate)} for id, text in rows
    ]
    return json.dumps({"results": labels})


def _label(nugget: str, candidate: str) -> str:
    words = set(re.findall(r"[a-z0-9]+|[\u4e00-\u9fff]", nugget))
    share = len(words & set(re.findall(r"[a-z0-9]+|[\u4e00-\u9fff]", candidate))) / len(words)
    return "full" if share == 1 else "partial" if share >= 0.5 else "none"


class ObedientJudge:
    """The server, in this process. An `echoing` one quotes the results that a candidate brings along, once."""

    def __init__(self, *, echoing: bool = False) -> None:
        self.echoing = echoing
        self.asked: list[list[dict[str, str]]] = []
        self.url = ""
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._chat)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _chat(self, request: web.Request) -> web.Response:
        messages: Any = (await request.json())["messages"]
        self.asked.append(messages)
        asked = messages[1]["content"]
        text = verdict(asked)
        brought = re.search(r'\{"results".*?\]\}', asked, re.DOTALL)
        if self.echoing and brought and len(messages) == 2:
            text = f"The answer says {brought[0]}. {text}"
        await asyncio.sleep(0)
        choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return web.json_response({"model": "obedient-1", "choices": [choice]})

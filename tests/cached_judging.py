"""`cts judge` in virtual time, of several systems' answers, by a provider that caches the beginnings of prompts.

The commands' own code runs, from the plan to the files; only the client is replaced, which writes and reads the real
bodies of requests and replies.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Self
from unittest.mock import patch

from fake_cache import PrefixCache
from fake_provider import CHAT, MESSAGES, Settings, read_request
from virtual_time import run_virtual

from cts_async.config import JudgeConfig
from cts_async.engine.events import Events
from cts_async.llm.apis import ChatRequest, Reply, load_api
from cts_async.llm.catalog import ModelSpec, load_catalogue
from cts_async.llm.responses import read_reply
from cts_async.protocol import rejudge
from cts_async.protocol.rejudge import plan_judging, run_judging
from cts_async.runs.journal import spent_by
from cts_async.runs.manifest import manifest_of

LATENCY_S = 4.0
NUGGETS, NUGGET_CHARS, ANSWER_CHARS = 20, 220, 1200
"""About 1,700 tokens before the answer, of which the instructions, common to all instances, are less than 1,024."""
_WORDS = ("ferry", "island", "harbour", "ticket", "winter", "museum", "archive", "river", "bridge", "season")


class CachingProvider:
    """In the place of the client: replies after a while, with the usage of a provider that caches prefixes."""

    cache: PrefixCache

    def __init__(self, environ: object) -> None:
        self.cache = PrefixCache()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    def check_proxy(self, spec: ModelSpec) -> None:
        """Every model is reached."""

    async def chat(self, spec: ModelSpec, request: ChatRequest) -> Reply:
        loop, api = asyncio.get_running_loop(), load_api(spec.api)
        path = MESSAGES if spec.api == "anthropic" else CHAT
        asked = read_request(path, {"anthropic-version": "2023-06-01"}, api.body(spec, request))
        assert not asked.problem, asked.problem
        cached = (0, 0)
        if asked.is_cached:
            cached = self.cache.find(asked.text, loop.time(), asked.mark)
        # A cache has a prompt once it has been read, before the reply is complete.
        await asyncio.sleep(LATENCY_S / 2)
        if asked.is_cached:
            self.cache.keep(asked.text, loop.time(), asked.mark)
        await asyncio.sleep(LATENCY_S / 2)
        data, _ = asked.completion(Settings(), "", cached)
        return read_reply(api, spec, 200, {}, data, 0.0)


@dataclass(frozen=True)
class Judged:
    """What judging took: tokens sent, those of them that came from the cache, dollars, and virtual seconds."""

    input_tokens: int
    cached_tokens: int
    usd: float
    took_s: float

    @property
    def cached_share(self) -> float:
        return self.cached_tokens / self.input_tokens


def write_world(directory: Path, instances: int, systems: int) -> None:
    """A gold file, and as many files of candidates as there are systems."""
    rng = random.Random(7)
    with (directory / "gold.jsonl").open("w") as gold:
        for i in range(instances):
            nuggets = [
                {"id": f"N{n}", "text": _text(rng, NUGGET_CHARS), "weight": 1} for n in range(1, NUGGETS + 1)
            ]
            gold.write(json.dumps({"id": f"q{i}", "query": f"question {i}", "nuggets": nuggets}) + "\n")
    for system in range(systems):
        with (directory / f"system{system}.jsonl").open("w") as candidates:
            for i in range(instances):
                answer = {"id": f"q{i}", "answer": _text(rng, ANSWER_CHARS)}
                candidates.write(json.dumps(answer) + "\n")


def _text(rng: random.Random, n_chars: int) -> str:
    words: list[str] = []
    while sum(map(len, words)) + len(words) < n_chars:
        words.append(rng.choice(_WORDS))
    return " ".join(words)


def judge_world(directory: Path, table: str, *, target_after_target: bool = False) -> Judged:
    """Judge all candidates by the model "mine" of this table; `target_after_target`: as versions up to 0.14 did."""
    (directory / "cts.toml").write_text(table)
    out = directory / f"out{len(list(directory.glob('out*')))}"
    config = JudgeConfig(
        gold=directory / "gold.jsonl",
        candidates=(str(directory / "system*.jsonl"),),
        out=out,
        judges=("mine",),
        config_file=directory / "cts.toml",
        no_reuse=True,
    )
    ends: list[float] = []

    async def go() -> None:
        plan = plan_judging(config, load_catalogue(config.config_file), {})
        await run_judging(plan, {}, Events())
        ends.append(asyncio.get_running_loop().time())

    with patch("cts_async.protocol.run.Client", CachingProvider), _order(target_after_target):
        run_virtual(go)
    spent = spent_by(out / "steps.jsonl", lambda _: "")[""]
    usd = spent.cost_usd(manifest_of(out).prices)
    assert usd is not None
    return Judged(spent.input_tokens, spent.cached_tokens, usd, ends[0])


@contextmanager
def _order(target_after_target: bool) -> Iterator[None]:
    if not target_after_target:
        yield
        return

    def one_after_the_other(streams: Any, size: int) -> Any:
        return chain.from_iterable(streams)

    with patch.object(rejudge, "_in_blocks", one_after_the_other):
        yield

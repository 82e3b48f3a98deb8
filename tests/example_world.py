"""Runs of the real pipeline over models that are a function: for pictures and for looking at pages, never for scores."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from cts_async.analysis.summary import summarise_run
from cts_async.config import RunConfig
from cts_async.demo import plan_demo
from cts_async.demo import play as play_demo
from cts_async.engine.events import Events, Usage
from cts_async.llm.apis import ChatRequest, Message, Reply
from cts_async.llm.catalog import load_catalogue
from cts_async.llm.model import Client
from cts_async.protocol.plan import make_plan
from cts_async.protocol.run import run_plan
from cts_async.tables.summary import write_summary


def play_examples(folder: Path) -> list[Path]:
    """Play the runs of `cts demo` into `folder`/runs; give their directories, each with a summary."""
    plan = plan_demo(folder / "runs")
    asyncio.run(play_demo(plan, {}, Events()))
    return with_summaries(plan.directories())


def with_summaries(directories: Sequence[Path]) -> list[Path]:
    """The directories, once each has its summary.json."""
    for directory in directories:
        write_summary(summarise_run(directory))
    return list(directories)


Say = Callable[[str, Sequence[Message]], str]
"""What the model of that name says in a conversation; raises a StepError where it fails."""


def write_models(folder: Path, names: Sequence[str]) -> Path:
    """A cts.toml with these models, all at a price; nobody is at their address."""
    config = folder / "cts.toml"
    config.write_text(
        "".join(
            f'[models.{name}]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "{name}"\n'
            "input_usd_per_mtok = 2.0\noutput_usd_per_mtok = 8.0\n"
            for name in names
        )
    )
    return config


def play(config: RunConfig, say: Say) -> list[Path]:
    """Play a run to its end; give its directories, each with a summary."""

    async def chat(self: Client, spec: Any, request: ChatRequest) -> Reply:
        text = say(spec.name, request.messages)
        heard = sum(len(message["content"]) for message in request.messages)
        return Reply(text, spec.model, "stop", Usage(heard // 4, len(text) // 4 + 1))

    with patch.object(Client, "chat", chat):
        plan = make_plan(config, load_catalogue(config.config_file), {})
        asyncio.run(run_plan(plan, {}, Events()))
    return with_summaries(plan.directories())

"""Runs over made-up tasks of InteractComp's format, against a provider that speaks real HTTP."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
from fake_provider import FakeProvider, Settings
from made_interactcomp import encrypted_file, made_tasks

from cts_async.config import RunConfig
from cts_async.engine.events import Events
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol.plan import make_plan
from cts_async.protocol.run import run_plan

N = 4
"""Tasks of a run."""


def config_file(folder: Path, url: str) -> Path:
    path = folder / "cts.toml"
    names = ("fake", "other")
    path.write_text("".join(f'[models.{name}]\nbase_url = "{url}"\nmodel = "{name}-1"\n' for name in names))
    return path


def run_tasks(folder: Path, **options: Any) -> tuple[dict[str, Path], int]:
    """Run or resume orig, gold and a Clarifier over the made-up tasks; the directories by system, and the calls made."""
    data, corpus = folder / "tasks.jsonl", folder / "corpus.jsonl"
    if not data.exists():
        encrypted_file(data, 210)
        documents = []
        for task in made_tasks(N):
            # Found by the words of its context, which the question does not have.
            text = f"{task['context']} {task['answer']} is known for it."
            documents.append(
                {
                    "id": str(task["id"]),
                    "url": f"https://made.example/{task['id']}",
                    "title": "",
                    "text": text,
                }
            )
        corpus.write_bytes(b"\n".join(map(orjson.dumps, documents)))

    async def main() -> tuple[dict[str, Path], int]:
        async with FakeProvider(Settings(unknown_share=0.0)) as provider:
            catalogue = load_catalogue(config_file(folder, provider.url))
            given: dict[str, Any] = {"references": ("orig", "gold"), "limit": N, "corpus": corpus} | options
            config = RunConfig(
                models=("fake",),
                every_role="fake",
                data=f"interactcomp:{data}",
                runs_dir=folder / "runs",
                **given,
            )
            plan = make_plan(config, catalogue, {})
            await run_plan(plan, {}, Events())
            return {system.label: path for system, path in plan.systems.items()}, provider.stats()["requests"]

    return asyncio.run(main())

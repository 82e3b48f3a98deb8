"""Runs over made-up tasks of InteractComp's format, against a provider that speaks real HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
from fake_provider import FakeProvider, Settings
from made_interactcomp import N_TASKS, encrypted_file, made_tasks

from cts_async.config import RunConfig
from cts_async.engine.events import Events
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol.plan import Plan, make_plan
from cts_async.protocol.run import run_plan

N = 4
"""Tasks of a run."""
_ASKING: dict[str, Any] = {"ask": ("during",), "references": (), "max_asks": 9, "replies": "yes-no"}
MODES: Mapping[str, Mapping[str, Any]] = {
    "answer_only": {"ask": ("never",), "references": ("orig",), "tools": ("none",)},
    "search_only": {"ask": ("never",), "references": ("orig",), "tools": ("search",)},
    "ask_only": _ASKING | {"tools": ("none",)},
    "full": _ASKING | {"tools": ("search",)},
    "forced_ask": _ASKING | {"tools": ("search",), "min_asks": 5},
    "full_with_context": {"ask": ("never",), "references": ("gold",), "tools": ("search",)},
}
"""InteractComp's modes as options (docs/interactcomp.md has the commands)."""


def config_file(folder: Path, url: str, max_concurrency: int = 64) -> Path:
    path = folder / "cts.toml"
    tables = []
    for name in ("fake", "other"):
        table = f'[models.{name}]\nbase_url = "{url}"\nmodel = "{name}-1"\n'
        tables.append(f"{table}max_concurrency = {max_concurrency}\n")
    path.write_text("".join(tables))
    return path


def write_tasks(folder: Path, n_documents: int = N) -> None:
    """Write 210 encrypted tasks, and documents that answer the first ones."""
    encrypted_file(folder / "tasks.jsonl", N_TASKS)
    documents = []
    for task in made_tasks(n_documents):
        # Found by the words of its context, which the question does not have.
        text = f"{task['context']} {task['answer']} is known for it."
        url = f"https://made.example/{task['id']}"
        documents.append({"id": str(task["id"]), "url": url, "title": "", "text": text})
    (folder / "corpus.jsonl").write_bytes(b"\n".join(map(orjson.dumps, documents)))


def planned(folder: Path, url: str, *, max_concurrency: int = 64, **options: Any) -> Plan:
    """The plan of orig, gold and a Clarifier over the made-up tasks, all by the model `fake` at `url`."""
    asked: dict[str, Any] = {"models": ("fake",), "references": ("orig", "gold"), "limit": N}
    asked["corpus"] = folder / "corpus.jsonl"
    config = RunConfig(
        every_role="fake",
        data=f"interactcomp:{folder / 'tasks.jsonl'}",
        runs_dir=folder / "runs",
        **asked | options,
    )
    return make_plan(config, load_catalogue(config_file(folder, url, max_concurrency)), {})


def run_tasks(folder: Path, **options: Any) -> tuple[dict[str, Path], int]:
    """Run or resume a plan with these options; the directories by system, and the calls made."""
    if not (folder / "tasks.jsonl").exists():
        write_tasks(folder)

    async def main() -> tuple[dict[str, Path], int]:
        async with FakeProvider(Settings(unknown_share=0.0)) as provider:
            plan = planned(folder, provider.url, **options)
            await run_plan(plan, {}, Events())
            return {system.label: path for system, path in plan.systems.items()}, provider.stats()["requests"]

    return asyncio.run(main())

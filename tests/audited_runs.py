"""Runs to audit: real ones against the fake provider, and what may be planted in their files afterwards."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fake_provider import FakeProvider, Settings
from hypothesis import strategies as st

from cts_async.config import RunConfig
from cts_async.engine.events import Events
from cts_async.engine.journal import read_records
from cts_async.llm.catalog import load_catalogue
from cts_async.protocol.plan import make_plan
from cts_async.protocol.run import run_plan

Record = dict[str, Any]

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
"""What an edited or damaged file may have in a field's place."""


def made(directory: Path, settings: Settings | None = None, **options: Any) -> dict[str, Path]:
    """Run orig, gold and a Clarifier with k = 2 over the sample world; the run directories by system."""

    async def main() -> dict[str, Path]:
        async with FakeProvider(settings or Settings(unknown_share=0.5)) as provider:
            config = directory / "cts.toml"
            config.write_text(f'[models.fake]\nbase_url = "{provider.url}"\nmodel = "fake-1"\n')
            given = {"ks": (2,), "limit": 6, "references": ("orig", "gold"), **options}
            asked = RunConfig(models=("fake",), every_role="fake", runs_dir=directory / "runs", **given)
            plan = make_plan(asked, load_catalogue(config), {})
            await run_plan(plan, {}, Events())
            return {system.label: path for system, path in plan.systems.items()}

    return asyncio.run(main())


def copied(run: Path, to: Path) -> Path:
    """The run at another place, to be tampered with."""
    return Path(shutil.copytree(run, to / run.name))


def plant(run: Path, instance: str, step: str, change: Callable[[Record], None]) -> None:
    """Change the records of one step of one instance in the journal."""
    records = list(read_records(run / "steps.jsonl"))
    touched = [record for record in records if (record["instance"], record["step"]) == (instance, step)]
    assert touched
    for record in touched:
        change(record)
    write(run / "steps.jsonl", records)


def write(path: Path, records: list[Record]) -> None:
    """The records as a journal writes them."""
    text = "".join(json.dumps(r, ensure_ascii=False, separators=(",", ":")) + "\n" for r in records)
    path.write_text(text, encoding="utf-8")


def record_of(run: Path, instance: str, step: str) -> Record:
    """The last record of one step of one instance."""
    return [r for r in read_records(run / "steps.jsonl") if (r["instance"], r["step"]) == (instance, step)][
        -1
    ]

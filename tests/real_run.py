"""A real `cts run` in a directory of its own: started as a process, killed, and read from its files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forked_cts import ForkedCts

from cts_async.engine.journal import read_records

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class RealRun:
    """`cts run WORDS`, or another command's, in the directory `here`; the model `fake` is in its cts.toml."""

    here: Path
    words: tuple[str, ...]
    command: str = "run"

    def configure(self, url: str, **fields: Any) -> None:
        """Write cts.toml: the model `fake` at `url`, with further fields of the catalogue."""
        lines = [f"{name} = {_toml(value)}\n" for name, value in fields.items()]
        (self.here / "cts.toml").write_text(
            f'[models.fake]\nbase_url = "{url}"\nmodel = "fake-1"\n{"".join(lines)}'
        )

    def start(self) -> subprocess.Popen[str]:
        """The process, from this source tree, its output in pipes."""
        command = [sys.executable, "-m", "cts_async.cli.main", self.command, *self.words]
        return subprocess.Popen(
            command,
            cwd=self.here,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def fork(self) -> ForkedCts:
        """The same without the start of a process, for tests of what happens after it."""
        return ForkedCts((self.command, *self.words), self.here)

    def directories(self) -> list[Path]:
        """The run directories, one per system."""
        return sorted(path.parent for path in self.here.glob("runs/*/run.json"))

    def records(self) -> list[dict[str, Any]]:
        """The journals' records of model calls."""
        return [record for path in self.directories() for record in _model_calls(path / "steps.jsonl")]

    def results(self) -> list[dict[str, Any]]:
        """The lines of results.jsonl, all systems."""
        return [line for path in self.directories() for line in read_records(path / "results.jsonl")]


def _model_calls(journal: Path) -> Iterator[dict[str, Any]]:
    return (record for record in read_records(journal) if "model" in record)


def _toml(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)
